use std::collections::BTreeSet;

use undertone_accountant::losses::gaussian;
use undertone_protocol::publishing::opening::{OwnWord, Unopened};
use undertone_protocol::time::Time;

use super::*;
use crate::testing::plan_of;

fn plan(lines: &str) -> Plan {
    plan_of(&format!("[data]\nshape = [2]\n{lines}\n"), 8, None)
}

fn outcome(ending: Ending, sealed: Option<SealedFinal>) -> Outcome {
    Outcome {
        ending,
        started: BTreeSet::new(),
        started_at: Some(Time::ZERO),
        schedule_seed: None,
        records: Default::default(),
        logs: None,
        own_log: None,
        verdict: None,
        included: BTreeSet::new(),
        agreed: false,
        sum: None,
        accuracy: None,
        sealed,
        opened_for: vec![],
        unopened: vec![],
        out_of_range: false,
        tally: Default::default(),
        training: None,
        gossip: None,
    }
}

fn because(make: fn(String) -> Ending) -> Ending {
    make("why".into())
}

const WITHHELD: fn(String) -> Ending = |reason| Ending::Withheld { reason };

#[test]
fn a_final_has_a_fate_once_something_sealed_has_left() {
    let sealed = plan("");
    let of =
        |plan: &Plan, ending: Ending, fate_of: Option<SealedFinal>| fate(plan, &outcome(ending, fate_of));
    let opened = Some(SealedFinal::Opened);
    assert_eq!(of(&sealed, Ending::Done, opened), opened);
    assert_eq!(
        of(&sealed, because(WITHHELD), Some(SealedFinal::Unknown)),
        Some(SealedFinal::Unknown)
    );
    // A node that never sealed its own has given nobody anything to open.
    assert_eq!(of(&sealed, because(WITHHELD), None), Some(SealedFinal::Closed));
    assert_eq!(
        of(&sealed, because(|reason| Ending::Aborted { reason }), opened),
        None
    );
    assert_eq!(
        of(&sealed, because(|reason| Ending::Spent { reason }), opened),
        None
    );
    let readable = plan("[run]\nsealed = false");
    assert_eq!(of(&readable, Ending::Done, opened), None);
}

fn finish(outcome: Outcome) -> Finish {
    Finish {
        outcome,
        gate: None,
        draws: 0,
        left_out: false,
        wall_s: 0.0,
        iteration_ms: serde_json::Value::Null,
        links: serde_json::Value::Null,
        silence: Default::default(),
        private_bytes: 0,
        public_bytes: 0,
    }
}

/// Checks that a closed final costs nothing, and that one that others may have opened costs the
/// largest loss within the plan.
#[test]
fn a_fate_has_its_price() {
    let plan = plan("");
    let finish = finish(outcome(because(WITHHELD), None));
    let priced = |fate| audit(&plan, &finish, fate).map(|audit| audit.mu);
    assert_eq!(priced(SealedFinal::Closed), Some(0.0));
    assert_eq!(priced(SealedFinal::Opened), None, "no gate, no statement");
    let unknown = priced(SealedFinal::Unknown).expect("a loss");
    let privacy = &plan.draft().privacy;
    let budget = gaussian::mu(privacy.epsilon, privacy.delta).expect("in range");
    assert!(
        unknown > 0.5 * budget && unknown <= budget,
        "{unknown} of {budget}"
    );
}

#[test]
fn a_missing_mean_has_a_reason_that_says_what_it_cost() {
    let plan = plan("");
    let said = |ending: Ending, fate| reason_without_mean(&plan, &outcome(ending, None), fate);
    assert!(
        said(because(WITHHELD), SealedFinal::Closed).contains("why; nothing of this node's value is opened")
    );
    assert!(said(because(WITHHELD), SealedFinal::Unknown).ends_with("others may have"));
    assert_eq!(said(because(WITHHELD), SealedFinal::Opened), "why");
    assert!(said(Ending::Degraded, SealedFinal::Opened).contains("is a lie"));
    let mut lacking = outcome(Ending::Degraded, None);
    lacking.unopened = vec![Unopened {
        party: 3,
        shares: 1,
        needed: 3,
        word: OwnWord::None,
    }];
    let reason = reason_without_mean(&plan, &lacking, SealedFinal::Unknown);
    assert!(reason.contains("party-3's secret has 1 of 3 shares"), "{reason}");
    lacking.opened_for = vec![5, 2];
    assert_eq!(opened_for(&plan, &lacking), ["party-2", "party-5"]);
    assert!(opened_for_sentence("party-2").starts_with("opened for party-2"));
}
