//! Numbers of records that a plan only bounds: READY says them, START fixes them.

use super::*;
use crate::messages::notice::{Notice, Recipient, SignedNotice};
use crate::messages::signing::Signer;
use crate::messages::wire::{self, PublicFrame};
use crate::plan::checked::RecordsAtStart;
use crate::plan::peers::simulated_keypair;
use crate::simulator::cluster::lying::Sent;
use crate::simulator::equivocator::OtherWord;

const PARTIES: usize = 6;
const MOST: u32 = 50;

/// Records of at most [`MOST`], and the numbers that the parties bring.
fn bounded(lines: &str, rounds: u32) -> Arc<Plan> {
    let records = format!(
        "unit = \"record\"\nclip = {{ kind = \"l2\", radius = 1.0 }}\nrecords = {{ at_most = {MOST} }}\n{lines}"
    );
    let plan = plan(PARTIES, &records, rounds);
    Arc::new(plan.with_records(&counts()))
}

fn counts() -> RecordsAtStart {
    (0..PARTIES)
        .map(|party| (party, [50, 1, 7, 20, 49, 3][party]))
        .collect()
}

/// The mechanisms and phases in which weights travel in different ways.
const WAYS: [(&str, u32); 6] = [
    ("[mechanism]\ncorrelated = \"gaussian\"", 5),
    ("[mechanism]\ncorrelated = \"gaussian\"\nkind = \"ppsc\"", 12),
    (UNIFORM, 3),
    (SEALED, 3),
    (PAIRWISE, 3),
    (STATIC, 3),
];

/// The weight of an outcome's sum, in records.
fn weight_of(plan: &Plan, outcome: &Outcome) -> f64 {
    let sum = outcome.sum.as_ref().expect("a sum");
    plan.lattice().weight_to_f64(sum.weight.0)
}

fn total(of: &BTreeSet<Party>) -> f64 {
    of.iter().map(|party| f64::from(counts()[party])).sum()
}

#[test]
fn mean_is_the_sum_over_the_numbers_that_start_fixes() {
    for (lines, rounds) in WAYS {
        let plan = bounded(lines, rounds);
        let report = simulate(&plan, Conditions::new(1));
        assert_eq!(report.violations, [], "{lines}");
        for outcome in report.outcomes.iter().flatten() {
            assert_eq!(outcome.ending, Ending::Done, "{lines}");
            assert_eq!(outcome.records, counts(), "{lines}");
            assert_eq!(weight_of(&plan, outcome), total(&others(&plan, &[])), "{lines}");
        }
    }
}

#[test]
fn mean_without_a_party_is_over_the_numbers_of_the_others() {
    for (lines, rounds) in WAYS {
        let plan = bounded(lines, rounds);
        let crash = Fault::Crash {
            party: 3,
            at: Time::from_millis(400),
        };
        let report = simulate(&plan, Conditions::new(2).with_faults(vec![crash]));
        assert_eq!(report.violations, [], "{lines}");
        for party in others(&plan, &[3]) {
            let outcome = report.outcomes[party].as_ref().expect("ends");
            if outcome.sum.is_some() && plan.draft().exchange.rolls_back() {
                assert_eq!(weight_of(&plan, outcome), total(&outcome.included), "{lines}");
            }
        }
    }
}

/// The READY of a liar with another number of records.
fn with_records(liar: Party, plan: &Plan, signed: SignedNotice, number: u32) -> Arc<[u8]> {
    let mut notice = signed.notice;
    if let Notice::Ready { records, .. } | Notice::Commit { records, .. } = &mut notice {
        *records = Some(number);
    }
    let mut signer = Signer::new(liar, *plan.digest(), simulated_keypair(liar), signed.sequence);
    wire::notice_frame(&signer.sign(Recipient::All, notice).expect("signs"))
}

/// Returns the outcomes of all but a liar, if its READY says `number(to)` to each.
fn ends_with(plan: &Arc<Plan>, liar: Party, number: impl Fn(Party) -> u32 + 'static) -> Vec<Outcome> {
    let mut conditions = Conditions::new(3);
    conditions.other_word = Some((liar, OtherWord::Votes(BTreeSet::new())));
    let mut simulation = Simulation::new(plan.clone(), inputs(plan), &class_gate, conditions);
    let told = plan.clone();
    simulation.wire = Some(Box::new(move |sending| {
        match wire::read_public(sending.frame) {
            Ok(PublicFrame::Notice(signed))
                if sending.from == liar && signed.author == liar && signed.notice.records().is_some() =>
            {
                let frame = with_records(liar, &told, signed, number(sending.to));
                Sent::Later(vec![(100, frame)])
            }
            // What it says to one half reaches the other when both have signed.
            Ok(PublicFrame::Notice(signed)) if signed.author == liar => {
                Sent::Later(vec![(50, sending.frame.clone())])
            }
            _ => Sent::AsItIs,
        }
    }));
    let report = simulation.run();
    assert_eq!(report.violations, []);
    let ends = others(plan, &[liar]).into_iter();
    ends.map(|party| report.outcomes[party].clone().expect("ends"))
        .collect()
}

/// A START names an incarnation, and the number is a part of that: two halves that were told two
/// numbers sign two STARTs, both are given up, and nobody counts with the liar.
#[test]
fn liar_that_says_two_numbers_of_records_to_two_halves_is_left_out() {
    for (lines, rounds) in [(SEALED, 3), (STATIC, 3)] {
        let plan = bounded(lines, rounds);
        for outcome in ends_with(&plan, 5, |to| 3 + to as u32 % 2) {
            assert!(outcome.agreed, "{lines}: {:?}", outcome.ending);
            assert_eq!(outcome.included, others(&plan, &[5]));
            assert_eq!(weight_of(&plan, &outcome), total(&outcome.included));
        }
    }
}

#[test]
fn ready_with_more_records_than_the_bound_counts_as_none() {
    let plan = bounded(SEALED, 3);
    for number in [0, MOST + 1, u32::MAX] {
        for outcome in ends_with(&plan, 5, move |_| number) {
            assert!(outcome.agreed, "{number}: {:?}", outcome.ending);
            assert_eq!(outcome.included, others(&plan, &[5]), "{number}");
        }
    }
}
