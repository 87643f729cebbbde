use super::*;
use crate::execution::error::ExecutionError;
use crate::execution::share::{Fate, ShareOutcome};
use crate::losses::loss::{Noise, squared_losses};
use crate::losses::view::View;
use crate::mechanism::inca::{InjectionSpec, NamedInjection};
use crate::mechanism::rules::Rules;
use crate::mechanism::unfit::Unfit;

const GOOD: &str = r#"{"parties": 3, "rounds": 2, "injection": "incremental", "out": [[[1],[2],[0]],[[2],[0],[1]]],
    "online": [[true,true,true],[true,true,true],[true,true,false]],
    "shares": [{"round": 1, "from": 0, "to": 1, "fate": "returned", "applied": 9, "seen": false}], "corrupted": [2]}"#;

fn problem(text: &str) -> String {
    Execution::parse(text).expect_err("must be refused").to_string()
}

#[test]
fn a_good_file_reads_and_writes_back_the_same() {
    let execution = Execution::parse(GOOD).expect("a good file");
    assert_eq!(
        execution.outcome(1, 0, 1),
        ShareOutcome {
            fate: Fate::Returned,
            applied: 2,
            seen: false
        }
    );
    assert_eq!(
        execution.outcome(2, 1, 0),
        ShareOutcome {
            fate: Fate::Accepted,
            applied: 2,
            seen: true
        }
    );
    assert_eq!(
        execution.outcome(1, 1, 2),
        ShareOutcome {
            fate: Fate::Accepted,
            applied: 1,
            seen: true
        }
    );
    assert_eq!(
        execution.published(),
        &BTreeSet::from([0, 1]),
        "party 2 is offline in the last round"
    );
    let written = serde_json::to_string(&execution).expect("serialises");
    let again = Execution::parse(&written).expect("what we write we read");
    assert_eq!(written, serde_json::to_string(&again).expect("serialises"));
}

#[test]
fn a_share_to_somebody_offline_stays_unseen() {
    let execution = Execution::parse(GOOD).expect("a good file");
    assert_eq!(
        execution.outcome(2, 0, 2),
        ShareOutcome {
            fate: Fate::Returned,
            applied: 2,
            seen: false
        }
    );
}

#[test]
fn every_contradiction_names_its_place() {
    let cases = [
        ("\"parties\": 3", "\"parties\": 0", "parties"),
        ("\"parties\": 3", "\"parties\": 999999999", "parties"),
        ("\"rounds\": 2", "\"rounds\": 3", "out"),
        ("\"rounds\": 2", "\"rounds\": 0", "rounds"),
        ("[[1],[2],[0]]", "[[1],[2]]", "out[0]"),
        ("[[1],[2],[0]]", "[[1],[2],[3]]", "out[0][2][0]"),
        ("[[1],[2],[0]]", "[[1],[1],[0]]", "out[0][1]"),
        ("[[1],[2],[0]]", "[[1,1],[2],[0]]", "out[0][0][1]"),
        ("[true,true,false]", "[true,true]", "online[2]"),
        (
            "[[true,true,true],[true",
            "[[true,false,true],[true",
            "online[0][1]",
        ),
        ("\"round\": 1", "\"round\": 0", "shares[0].round"),
        ("\"round\": 1", "\"round\": 3", "shares[0].round"),
        ("\"from\": 0", "\"from\": 7", "shares[0].from"),
        ("\"to\": 1", "\"to\": 2", "shares[0].to"),
        (
            "\"round\": 1, \"from\": 0, \"to\": 1",
            "\"round\": 2, \"from\": 2, \"to\": 1",
            "shares[0].from",
        ),
        (
            "\"returned\", \"applied\": 9",
            "\"accepted\", \"applied\": 0",
            "shares[0].applied",
        ),
        ("\"corrupted\": [2]", "\"corrupted\": [5]", "corrupted[0]"),
        ("\"corrupted\": [2]", "\"corrupted\": [1, 1]", "corrupted[1]"),
        (
            "\"corrupted\": [2]",
            "\"corrupted\": [1], \"observed\": []",
            "corrupted",
        ),
        ("\"corrupted\": [2]", "\"observed\": [[0, 2]]", "observed[0]"),
        (
            "\"corrupted\": [2]",
            "\"corrupted\": [2], \"rolled_back\": [0], \"published\": [0]",
            "published",
        ),
        (
            "\"corrupted\": [2]",
            "\"corrupted\": [2], \"sensitivity\": [1, -1, 1]",
            "sensitivity[1]",
        ),
        (
            "\"corrupted\": [2]",
            "\"corrupted\": [2], \"sensitivity\": [1]",
            "sensitivity",
        ),
        ("\"incremental\"", "{\"c\": [1, 0], \"z\": []}", "injection.c"),
        (
            "\"incremental\"",
            "{\"c\": [1, 0, 1], \"z\": [[1,0],[-1,1],[0,-1]]}",
            "injection",
        ),
    ];
    for (old, new, place) in cases {
        let text = GOOD.replacen(old, new, 1);
        assert_ne!(text, GOOD, "{old}");
        match Execution::parse(&text) {
            Err(ExecutionError::Invalid { place: found, .. }) => assert_eq!(found, place, "{new}"),
            other => panic!("{new}: {other:?}"),
        }
    }
}

#[test]
fn a_mass_goes_only_to_somebody_online() {
    let late = GOOD.replace(
        "\"from\": 0, \"to\": 1, \"fate\": \"returned\"",
        "\"from\": 1, \"to\": 2, \"fate\": \"accepted\"",
    );
    assert!(problem(&late).contains("offline"), "{}", problem(&late));
}

#[test]
fn unknown_keys_and_bad_syntax_give_their_line() {
    let unknown = GOOD.replace("\"corrupted\"", "\"corupted\"");
    assert!(
        matches!(
            Execution::parse(&unknown),
            Err(ExecutionError::Syntax { line: 3, .. })
        ),
        "{}",
        problem(&unknown)
    );
    assert!(matches!(
        Execution::parse(&GOOD.replace("\"seen\"", "\"sen\"")),
        Err(ExecutionError::Syntax { line: 3, .. })
    ));
    assert!(matches!(
        Execution::parse("{"),
        Err(ExecutionError::Syntax { .. })
    ));
    assert!(problem(&GOOD.replace(", \"corrupted\": [2]", "")).contains("exactly one"));
}

/// INCA's injection under rules of one's own.
#[derive(Debug)]
struct Borrowed {
    hands_over: bool,
    noises: usize,
    rounds: Option<usize>,
}

impl Rules for Borrowed {
    fn check_size(&self, _parties: usize, _rounds: usize, _shares: usize) -> Result<(), Unfit> {
        Ok(())
    }

    fn noises(&self, _rounds: usize, _hand_outs: usize) -> usize {
        self.noises
    }

    fn injection(&self, _rounds: usize) -> Result<Option<Injection<f64>>, Unfit> {
        Ok(self.rounds.map(Injection::incremental))
    }

    fn hands_over(&self) -> bool {
        self.hands_over
    }

    fn square_before_publishing(&self, _rounds: usize, _hand_outs: usize, _ratio: f64) -> Result<f64, Unfit> {
        Ok(1.0)
    }
}

/// A mechanism of one's own costs what the machine that runs it sends, and its executions have no
/// file.
#[test]
fn own_mechanisms_are_run_by_the_machine_that_their_rules_name() {
    let out = vec![vec![vec![1], vec![2], vec![0]], vec![vec![2], vec![0], vec![1]]];
    let of = |mechanism: Mechanism| {
        let run = Execution::fault_free(mechanism, out.clone())?;
        run.with_corrupted([2])
    };
    let own = |hands_over, noises, rounds| {
        of(Mechanism::of_own(Borrowed {
            hands_over,
            noises,
            rounds,
        }))
    };
    let run = own(false, 2, Some(2)).expect("the rules go together");
    let same = of(InjectionSpec::Named(NamedInjection::Incremental).into()).expect("a run");
    let noise = Noise {
        independent_std: 2.0,
        correlated_std: 5.0,
    };
    let losses = |run: &Execution| squared_losses(&View::of(run), noise);
    assert_eq!(losses(&run), losses(&same));
    assert!(run.goes_beyond_the_paper() && run.mechanism() != same.mechanism());
    let written = serde_json::to_string(&run).expect_err("no file").to_string();
    assert!(written.contains("own mechanism"), "{written}");
    for (hands_over, noises, rounds) in [
        (true, 2, Some(2)),
        (false, 2, None),
        (false, 1, Some(2)),
        (false, 2, Some(3)),
        (true, 1, None),
    ] {
        let refused = own(hands_over, noises, rounds).expect_err("no machine");
        assert!(refused.to_string().contains("injection"), "{refused}");
    }
}
