//! The invariants in random mixes of faults.

use super::*;
use crate::simulator::equivocator::OtherWord;

/// Several graphs and mechanisms, with finals that are sealed and that are not.
fn plans() -> Vec<Arc<Plan>> {
    vec![
        plan(8, "", 7),
        plan(
            5,
            "[mechanism]\nrollback = false\n[run]\nround_ms = 60\nsettle_ms = 320\njoin_ms = 300",
            4,
        ),
        plan(
            6,
            "[topology]\nprivate = \"ring\"\n[run]\nround_ms = 40\nsettle_ms = 320\njoin_ms = 300",
            4,
        ),
        plan(
            5,
            "[mechanism]\nfanout = 2\n[run]\nround_ms = 40\nsettle_ms = 160\njoin_ms = 300",
            3,
        ),
        plan(
            8,
            "[topology]\nprivate = { kind = \"random-regular\", degree = 4 }\npublic = { kind = \"random-regular\", degree = 3 }\n[run]\nround_ms = 30\nsettle_ms = 320\njoin_ms = 300",
            5,
        ),
        plan(
            7,
            "[mechanism]\nkind = \"ppsc\"\n[run]\nround_ms = 20\nsettle_ms = 320\njoin_ms = 300",
            14,
        ),
        plan(
            6,
            "[mechanism]\nkind = \"ppsc\"\nindependent_noise = \"none\"\naccept_exact_sum = true\n[topology]\nprivate = { kind = \"edges\", edges = [[\"party-0\", \"party-1\"], [\"party-1\", \"party-2\"], [\"party-3\", \"party-4\"], [\"party-4\", \"party-5\"]] }\n[run]\nround_ms = 20\nsettle_ms = 320\njoin_ms = 300",
            16,
        ),
        plan(
            8,
            "[mechanism]\ncorrelated = \"uniform\"\n[run]\nround_ms = 40\nsettle_ms = 320\njoin_ms = 300",
            3,
        ),
        plan(
            7,
            "[mechanism]\ncorrelated = \"uniform\"\nkind = \"ppsc\"\n[run]\nround_ms = 20\nsettle_ms = 320\njoin_ms = 300",
            14,
        ),
        plan(
            8,
            "[mechanism]\ncorrelated = \"uniform\"\n[run]\nsealed = true\nround_ms = 40\nsettle_ms = 320\njoin_ms = 300",
            3,
        ),
        plan(
            7,
            "[mechanism]\ncorrelated = \"uniform\"\nkind = \"ppsc\"\n[run]\nsealed = true\nround_ms = 20\nsettle_ms = 320\njoin_ms = 300",
            14,
        ),
        plan(
            9,
            "[privacy]\ndropouts = 2\n[mechanism]\ncorrelated = \"uniform\"\n[topology]\nprivate = { kind = \"random-regular\", degree = 6 }\npublic = { kind = \"random-regular\", degree = 4 }\n[run]\nsealed = true\nround_ms = 30\nsettle_ms = 320\njoin_ms = 300",
            4,
        ),
        plan(
            8,
            "[mechanism]\nkind = \"pairwise\"\n[run]\nsealed = true\nround_ms = 40\nsettle_ms = 320\njoin_ms = 300",
            4,
        ),
        plan(
            8,
            "[privacy]\ncoalitions = \"static\"\n[run]\nsealed = true\nround_ms = 40\nsettle_ms = 320\njoin_ms = 300",
            5,
        ),
    ]
}

/// Every kind of fault at once, on several graphs and mechanisms: whatever happens, invariants hold
/// and everybody who is up finishes.
fn soak(seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u32> {
    let plans = plans();
    let mut endings: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in seeds {
        let plan = &plans[seed as usize % plans.len()];
        let faults = random_faults(seed, plan, 1 + seed as usize % 4, 20);
        let conditions = Conditions {
            duplicates: 0.05,
            ..Conditions::new(seed)
        }
        .with_faults(faults.clone());
        let report = simulate(plan, conditions);
        assert_eq!(report.violations, [], "seed {seed}: {faults:?}");
        for outcome in report.outcomes.iter().flatten() {
            let name = match outcome.ending {
                Ending::Done => "done",
                Ending::Degraded => "degraded",
                Ending::Aborted { .. } => "aborted",
                Ending::Spent { .. } => "spent",
                Ending::Withheld { .. } => "withheld",
            };
            *endings.entry(name).or_insert(0) += 1;
        }
    }
    endings
}

#[test]
fn invariants_hold_in_any_mix_of_faults() {
    let endings = soak(0..96);
    for name in ["done", "degraded", "withheld"] {
        assert!(
            endings.contains_key(name),
            "the mix reaches everything: {endings:?}"
        );
    }
}

/// One liar, of any kind, beside a fault at most.
fn lies(seed: u64, plan: &Arc<Plan>) -> Conditions {
    let mut rng = stream(seed, "liar", 0);
    let liar = rng.random_range(0..plan.parties());
    let fooled: BTreeSet<Party> = others(plan, &[liar])
        .into_iter()
        .filter(|_| rng.random_bool(0.4))
        .collect();
    let mut conditions = Conditions::new(seed).with_faults(random_faults(seed, plan, seed as usize % 2, 20));
    let stages = if plan.draft().run.sealed {
        [Stage::Settling, Stage::Sealed]
    } else {
        Stages::READABLE.all().try_into().expect("two")
    };
    let equivocation = |stage: Stage, version: OtherVersion| Equivocation {
        party: liar,
        stage,
        fooled: fooled.clone(),
        version,
    };
    let revealings = [Revealing::Nothing, Revealing::WrongShares, Revealing::TooEarly];
    match rng.random_range(0..9) {
        8 => conditions.other_word = Some((liar, OtherWord::NoStart(fooled))),
        0 => conditions.other_word = Some((liar, OtherWord::Votes(fooled))),
        1 => conditions.other_word = Some((liar, OtherWord::Starts(fooled))),
        2 => conditions.other_word = Some((liar, OtherWord::Answers)),
        3 => conditions.revealing = Some((liar, revealings[rng.random_range(0..3)])),
        4 if !plan.draft().run.sealed => {
            let version = OtherVersion::Weight(rng.random_range(0..1 << 40));
            conditions.equivocation = Some(equivocation(Stage::Publishing, version));
        }
        number => conditions.equivocation = Some(equivocation(stages[number % 2], OtherVersion::StepOff)),
    }
    conditions
}

/// Whatever one party signs to whom, no two others hold different results as agreed, and no share
/// counts twice.
fn lying_soak(seeds: std::ops::Range<u64>) {
    let plans = plans();
    for seed in seeds {
        let plan = &plans[seed as usize % plans.len()];
        let conditions = lies(seed, plan);
        let report = simulate(plan, conditions.clone());
        assert_eq!(report.violations, [], "seed {seed}: {conditions:?}");
    }
}

#[test]
fn one_liar_makes_no_two_results() {
    // Number 19: a liar votes for a set that nobody has, for which all asked each other for ever.
    lying_soak(0..20);
}

/// `cargo test --release -p undertone-protocol --lib -- --ignored lying_soak`
#[test]
#[ignore = "minutes; for changes of the machines"]
fn one_liar_makes_no_two_results_in_a_long_lying_soak() {
    lying_soak(0..10_000);
}

/// `cargo test --release -p undertone-protocol --lib -- --ignored soak`
#[test]
#[ignore = "minutes; for changes of the machines"]
fn invariants_hold_in_a_long_soak() {
    println!("{:?}", soak(1000..4000));
}
