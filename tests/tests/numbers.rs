//! Plans and runs of every computation and exchange keep their numbers: what was recorded is
//! compared to the last bit. A change on purpose is recorded again, and says so in its commit.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};
use undertone_protocol::run::outcome::Outcome;
use undertone_protocol::simulator::scenario::{Conditions, Fault, Report};
use undertone_protocol::time::Time;
use undertone_tests::soak::mechanism::{MECHANISMS, Mechanism, Trial, mechanism};

/// Run files beside those of the soak.
const OTHERS: [Mechanism; 19] = [
    mechanism(
        "box",
        "[data]\nshape = [2]\nclip = { kind = \"box\", low = -1.0, high = 3.0 }\n",
    ),
    mechanism("zero-out", "[data]\nshape = [2]\nadjacency = \"zero-out\"\n"),
    mechanism(
        "weights",
        "[data]\nshape = [2]\nweights = { \"party-0\" = 2.5 }\n",
    ),
    mechanism(
        "sparse",
        "[data]\nshape = [2]\n[topology]\nprivate = { kind = \"random-regular\", degree = 4 }\n",
    ),
    mechanism(
        "ppsc-readable",
        "[data]\nshape = [2]\n[mechanism]\nkind = \"ppsc\"\n[run]\nsealed = false\n",
    ),
    mechanism(
        "ppsc-exact",
        "[data]\nshape = [2]\n[privacy]\ndropouts = 1\n[mechanism]\nkind = \"ppsc\"\n\
         independent_noise = \"none\"\naccept_exact_sum = true\n",
    ),
    mechanism(
        "early",
        "[data]\nshape = [2]\n[mechanism]\ninjection = \"early\"\n",
    ),
    mechanism(
        "custom",
        "[data]\nshape = [2]\n[mechanism]\ninjection = { c = [\"1/2\", \"1/4\", \"1/4\"], \
         z = [[\"1\", \"0\"], [\"-1/2\", \"1\"], [\"-1/2\", \"-1\"]] }\n",
    ),
    mechanism("fan-out", "[data]\nshape = [2]\n[mechanism]\nfanout = 2\n"),
    mechanism("paper", "[data]\nshape = [2]\n[mechanism]\nrollback = false\n"),
    mechanism(
        "static-pairs",
        "[data]\nshape = [2]\n[privacy]\ncoalitions = \"static\"\n[mechanism]\nkind = \"pairwise\"\n",
    ),
    mechanism(
        "matching",
        "task = \"stream\"\n[data]\nshape = [2]\n[mechanism]\nsums = \"open\"\nedges = \"matching\"\n",
    ),
    mechanism(
        "adaptive",
        "task = \"stream\"\n[data]\nshape = [2]\nreleases = 5\nadaptive = true\n[mechanism]\nsums = \"open\"\n",
    ),
    mechanism(
        "one-protected",
        "task = \"stream\"\n[data]\nshape = [2]\nreleases = 5\n[privacy]\nprotect = \"one\"\n[mechanism]\n\
         sums = \"everybody\"\n[run]\nround_ms = 16000\n",
    ),
    Mechanism {
        records: true,
        ..mechanism(
            "softmax",
            "task = \"regression\"\n[data]\nshape = [3]\n[model]\nloss = \"softmax\"\nclasses = 3\n\
             iterations = 3\n[mechanism]\nkind = \"pairwise\"\n",
        )
    },
    Mechanism {
        records: true,
        ..mechanism(
            "statistics",
            "task = \"regression\"\n[data]\nshape = [3]\n[model]\nloss = \"squared\"\n\
             method = \"statistics\"\ntarget_box = [-1.0, 1.0]\n",
        )
    },
    Mechanism {
        records: true,
        ..mechanism(
            "by-program",
            "task = \"rounds\"\n[data]\nshape = [3]\nreleases = 3\nunit = \"record\"\nclipped = \"by-program\"\n\
             result = \"sum\"\nclip = { kind = \"l2\", radius = 1.0 }\n",
        )
    },
    Mechanism {
        records: true,
        ..mechanism(
            "records",
            "[data]\nshape = [2]\nunit = \"record\"\nclip = { kind = \"l2\", radius = 2.0 }\n",
        )
    },
    Mechanism {
        records: true,
        sealed: false,
        spares_a_party: false,
        ..mechanism(
            "optimise",
            "task = \"optimise\"\n[data]\nshape = [4]\n[recursion]\nloss = \"logistic\"\nridge = 0.1\n\
             iterations = 4\ngossip_iterations = 8\n[mechanism]\n\
             accept_exact_sum = true\n",
        )
    },
];

/// Mechanisms of which a run is recorded as well in which a party is killed half-way.
const WITH_FAULTS: [&str; 7] = [
    "sealed",
    "readable",
    "ppsc",
    "pairs",
    "consensus",
    "rounds",
    "training",
];

fn plan_lines(trial: &Trial, text: &mut String) {
    let (plan, calibration) = (&trial.plan, trial.plan.calibration());
    let predicted = &calibration.predicted;
    let lattice = plan.lattice();
    let _ = writeln!(
        text,
        "  rounds {} independent {:?} cancelling {:?} error {:?} step 2^{} bits {} bytes {}",
        calibration.rounds,
        calibration.independent_std,
        calibration.correlated_std,
        predicted.standard_error,
        lattice.step_log2,
        lattice.state_bits,
        lattice.wire_bytes,
    );
    for claim in &calibration.claims {
        let _ = writeln!(
            text,
            "  epsilon {:?} headline {} sampling {:?}",
            claim.epsilon, claim.holds_as_headline, claim.sampling_delta
        );
    }
}

fn digest(numbers: impl Iterator<Item = Vec<u8>>) -> String {
    let mut sha256 = Sha256::new();
    numbers.for_each(|bytes| sha256.update(bytes));
    sha256
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn outcome_line(outcome: &Outcome) -> String {
    let included: Vec<String> = outcome.included.iter().map(ToString::to_string).collect();
    let mut text = format!("{} agreed {}", included.join(","), outcome.agreed);
    if let Some(sum) = &outcome.sum {
        let steps = sum.value.steps().map(|step| step.to_be_bytes().to_vec());
        let _ = write!(text, " sum {}", digest(steps));
    }
    let bits = |numbers: &[f64]| digest(numbers.iter().map(|x| x.to_bits().to_be_bytes().to_vec()));
    if let Some(training) = &outcome.training {
        let result = training.result.as_deref().map(bits);
        let _ = write!(
            text,
            " after {} of which {} spent: {result:?}",
            training.iterations, training.spent
        );
    }
    if let Some(gossip) = &outcome.gossip {
        let _ = write!(text, " rounds {}: {}", gossip.rounds, bits(&gossip.estimates));
    }
    text
}

fn run_lines(name: &str, report: &Report, text: &mut String) {
    let violated: BTreeSet<&str> = report.violations.iter().map(|it| it.invariant).collect();
    let _ = writeln!(text, "  {name}: violated {violated:?}");
    for (party, outcome) in report.outcomes.iter().enumerate() {
        let line = outcome.as_ref().map_or("never ended".to_owned(), outcome_line);
        let _ = writeln!(text, "    {party}: {line}");
    }
}

fn recording() -> String {
    let mut text = String::new();
    for mechanism in MECHANISMS.iter().chain(&OTHERS) {
        let trial = Trial::new(mechanism);
        let _ = writeln!(text, "{}", mechanism.name);
        plan_lines(&trial, &mut text);
        let calm = trial.run(Conditions::new(11));
        run_lines("calm", &calm, &mut text);
        if WITH_FAULTS.contains(&mechanism.name) {
            let mut conditions = Conditions::new(12);
            let end = calm
                .finished_at
                .iter()
                .flatten()
                .max()
                .map_or(0, |at| at.as_nanos());
            conditions.faults = vec![Fault::Crash {
                party: 2,
                at: Time::from_nanos(end / 2),
            }];
            run_lines("killed", &trial.run(conditions), &mut text);
        }
    }
    text
}

#[test]
fn numbers_are_as_recorded() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/numbers.txt");
    let (found, recorded) = (recording(), fs::read_to_string(&path).unwrap_or_default());
    if found == recorded {
        return;
    }
    let beside = Path::new(env!("CARGO_TARGET_TMPDIR")).join("numbers.txt");
    fs::write(&beside, &found).expect("a folder of cargo's");
    let differ = |(a, b): &(&str, &str)| a != b;
    let first = found.lines().zip(recorded.lines()).find(differ);
    panic!("{} differs: {first:?}", beside.display());
}
