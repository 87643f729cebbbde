//! `undertone audit` as a binary: its keys, what it repeats and what it refuses. How sharp the
//! attack is, the accountant's tests show.

use undertone_tests::{Parties, run_in};

const RUN: &str =
    "version = 1\nname = \"test\"\n[data]\nshape = [8]\n[privacy]\nepsilon = 1.0\ndelta = 1e-5\n";

#[test]
fn an_attack_on_a_plan_stays_below_its_claim() {
    let parties = Parties::new(4);
    parties.plan("plan", RUN);
    let audit = |flags: &str| {
        run_in(
            parties.folder(),
            format!("audit plan.json --json {flags}").split_whitespace(),
        )
    };
    let answer = audit("--pairs 50000 --seed 3").json_of(0);
    let number = |key: &str| answer[key].as_f64().unwrap_or_else(|| panic!("{key}: {answer}"));
    assert!(
        number("epsilon_lower") < number("epsilon_claimed") && number("epsilon_lower") > 0.0,
        "{answer}"
    );
    assert!((0.99..=1.0).contains(&number("epsilon_claimed")), "{answer}");
    assert_eq!((number("pairs"), number("confidence")), (50_000.0, 0.999));
    assert!(number("threshold").is_finite());
    assert_eq!(
        audit("--pairs 50000 --seed 3").json_of(0),
        answer,
        "the same seed, the same runs"
    );
    // Far too little noise is found out with few runs; the claim is the plan's all the same.
    let caught = audit("--pairs 50000 --noise-scale 0.3").json_of(0);
    assert_eq!(caught["epsilon_claimed"], answer["epsilon_claimed"]);
    assert!(
        caught["epsilon_lower"].as_f64() > caught["epsilon_claimed"].as_f64(),
        "{caught}"
    );
    for (flags, field) in [
        ("--pairs 0", "--pairs"),
        ("--noise-scale 0", "--noise-scale"),
        ("--noise-scale 7", "--noise-scale"),
    ] {
        audit(flags).refused_at(2, field);
    }
    parties.write("plan.json", "{}");
    audit("").refused(3, "plan.json");
}

/// START draws the schedule of these: the attack draws one, too.
#[test]
fn plans_without_a_schedule_are_attacked_whatever_their_mechanism() {
    for kind in ["inca", "pairwise", "ppsc"] {
        let parties = Parties::new(6);
        let run = RUN.replace("[privacy]\n", "[privacy]\ncoalitions = \"static\"\n");
        parties.plan("plan", &format!("{run}[mechanism]\nkind = \"{kind}\"\n"));
        let audit = |flags: &str| {
            let line = format!("audit plan.json --json --pairs 30000 {flags}");
            run_in(parties.folder(), line.split_whitespace()).json_of(0)
        };
        let answer = audit("--seed 3");
        let within = answer["epsilon_lower"].as_f64() < answer["epsilon_claimed"].as_f64();
        assert!(within, "{kind}: {answer}");
        let caught = audit("--noise-scale 0.3");
        assert!(
            caught["epsilon_lower"].as_f64() > caught["epsilon_claimed"].as_f64(),
            "{kind}: {caught}"
        );
    }
}
