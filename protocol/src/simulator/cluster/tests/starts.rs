//! Parties that hang, and liars, around START: the others go on without them.

use super::*;
use crate::messages::notice::{Notice, Recipient, SignedNotice};
use crate::messages::signing::Signer;
use crate::messages::wire::{self, PublicFrame};
use crate::plan::peers::simulated_keypair;
use crate::sealing::run_key::RunKey;
use crate::simulator::cluster::lying::Sent;
use crate::simulator::equivocator::OtherWord;

/// Six parties, of which one may depart.
const PARTIES: usize = 6;

/// Checks that a run under these conditions ended for everybody but one party. Nothing is wrong,
/// and all hold the same mean.
fn all_others_end(plan: &Arc<Plan>, except: Party, conditions: Conditions) -> BTreeSet<Party> {
    let what = format!("{conditions:?}");
    let report = simulate(plan, conditions);
    assert_eq!(report.violations, [], "{what}");
    let mut included = BTreeSet::new();
    for party in others(plan, &[except]) {
        let outcome = report.outcomes[party].as_ref().expect("ends");
        assert!(
            outcome.agreed && matches!(outcome.ending, Ending::Done | Ending::Degraded),
            "party {party}: {:?}; {what}",
            outcome.ending
        );
        included.clone_from(&outcome.included);
    }
    included
}

#[test]
fn party_that_hangs_at_any_moment_around_start_ends_no_run() {
    let mut left_out = 0;
    for lines in [SEALED_LINES, STATIC] {
        let plan = plan(PARTIES, lines, 3);
        for step in 0..30 {
            let party = step % PARTIES;
            let at = Time::from_nanos(100_000 * step as u64);
            let conditions = Conditions::new(step as u64).with_faults(vec![Fault::Silence { party, at }]);
            let included = all_others_end(&plan, party, conditions);
            left_out += usize::from(!included.contains(&party));
        }
    }
    assert!(left_out > 30, "the moments were around START: {left_out} of 60");
}

/// Who wakes once the first one has given its START up is left out by all, or by nobody.
#[test]
fn party_that_wakes_when_others_give_up_costs_nobody_else_the_result() {
    for (lines, at_us) in [(SEALED_LINES, 1200), (STATIC, 1200), (SEALED_LINES, 900)] {
        let plan = plan(PARTIES, lines, 3);
        for step in 0..16 {
            let stop = Fault::Suspend {
                party: step % PARTIES,
                at: Time::from_nanos(1000 * at_us),
                for_ms: 7100 + 400 * step as u64,
            };
            let conditions = Conditions::new(step as u64).with_faults(vec![stop]);
            all_others_end(&plan, step % PARTIES, conditions);
        }
    }
}

/// It asks first: the START that it lacked one word of may be given up since.
#[test]
fn party_that_wakes_before_start_begins_with_the_others_or_not_at_all() {
    let mut left_out = 0;
    for lines in [SEALED_LINES, STATIC] {
        let plan = plan(PARTIES, lines, 3);
        for seed in 0..40 {
            let party = seed as usize % PARTIES;
            let stop = Fault::Suspend {
                party,
                at: Time::from_millis(60 + 2 * seed),
                for_ms: 7300 + 10 * seed,
            };
            let mut conditions = Conditions::new(seed).with_faults(vec![stop]);
            conditions.latency_us = (10_000, 60_000);
            let report = simulate(&plan, conditions);
            assert_eq!(report.violations, [], "{lines}, {seed}");
            let [woken, other] = [party, (party + 1) % PARTIES].map(|it| report.outcomes[it].as_ref());
            let (woken, other) = (woken.expect("ends"), other.expect("ends"));
            let began = woken.started.contains(&party);
            assert!(
                !began || woken.started == other.started,
                "{lines}, {seed}: it began with {:?}, the others with {:?}",
                woken.started,
                other.started
            );
            left_out += usize::from(!began);
        }
    }
    assert!(left_out > 10, "the moments were before START: {left_out} of 80");
}

const SEALED_LINES: &str = "[run]\nsealed = true";

#[test]
fn liar_that_signs_no_start_or_another_one_is_left_out() {
    for lines in [SEALED_LINES, STATIC] {
        let plan = plan(PARTIES, lines, 3);
        for seed in 0..4 {
            let liar = seed as usize % PARTIES;
            let mut fooled = others(&plan, &[liar]);
            let mut conditions = Conditions::new(seed);
            conditions.other_word = Some((liar, OtherWord::NoStart(fooled.clone())));
            let included = all_others_end(&plan, liar, conditions.clone());
            assert_eq!(included, fooled, "everybody but the liar");
            if lines == SEALED_LINES {
                conditions.other_word = Some((liar, OtherWord::Starts(fooled.clone())));
                assert_eq!(all_others_end(&plan, liar, conditions.clone()), fooled);
                // What it shows to one of them reaches all.
                fooled.pop_first();
                conditions.other_word = Some((liar, OtherWord::NoStart(fooled)));
                all_others_end(&plan, liar, conditions);
            } else {
                conditions.other_word = None;
                conditions.false_reveal = Some(liar);
                assert_eq!(all_others_end(&plan, liar, conditions), fooled);
            }
        }
    }
}

#[test]
fn without_room_for_a_departure_a_hanging_party_ends_the_run_and_is_named() {
    let plan = plan(PARTIES, "[run]\nsealed = true\n[privacy]\ndropouts = 0", 3);
    let mut conditions = Conditions::new(1);
    conditions.other_word = Some((2, OtherWord::NoStart(others(&plan, &[2]))));
    let report = simulate(&plan, conditions);
    assert_eq!(report.violations, []);
    for party in others(&plan, &[2]) {
        assert!(!report.shares_left[party], "nothing private has left {party}");
        match &report.outcomes[party].as_ref().expect("ends").ending {
            Ending::Aborted { reason } => assert!(reason.contains("signed none: party-2"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Returns a liar's READY for some: of another start of its node, or with another commitment.
fn other_ready(liar: Party, plan: &Plan, signed: SignedNotice) -> Option<Arc<[u8]>> {
    let mut notice = signed.notice;
    match &mut notice {
        Notice::Ready { key, .. } => *key = *RunKey::from_secret([77; 32]).public(),
        Notice::Commit { commitment, .. } => commitment[0] ^= 1,
        _ => return None,
    }
    let mut signer = Signer::new(liar, *plan.digest(), simulated_keypair(liar), signed.sequence);
    let signed = signer.sign(Recipient::All, notice).expect("signs");
    Some(wire::notice_frame(&signed))
}

/// The liar is the last that all others wait for, so that each signs as soon as its READY is there.
#[test]
fn liar_that_says_two_readies_to_two_halves_ends_no_run() {
    let liar = 5;
    for lines in [SEALED_LINES, STATIC] {
        let plan = plan(PARTIES, lines, 3);
        for seed in 0..4 {
            let mut conditions = Conditions::new(seed);
            conditions.other_word = Some((liar, OtherWord::Votes(BTreeSet::new())));
            let mut simulation = Simulation::new(plan.clone(), inputs(&plan), &class_gate, conditions);
            let reported = plan.clone();
            simulation.wire = Some(Box::new(move |sending| {
                let frame = || sending.frame.clone();
                let signed = match wire::read_public(sending.frame) {
                    Ok(PublicFrame::Notice(signed)) if signed.author == liar => signed,
                    _ => return Sent::AsItIs,
                };
                let is_ready = matches!(signed.notice, Notice::Ready { .. } | Notice::Commit { .. });
                match (is_ready, sending.from == liar, sending.to % 2 == 0) {
                    (true, true, true) => Sent::Later(vec![(100, frame())]),
                    (true, true, false) => {
                        let other = other_ready(liar, &reported, signed).expect("a READY");
                        Sent::Later(vec![(100, other)])
                    }
                    // What it says to one half reaches the other when both have signed.
                    (true, false, _) => Sent::Later(vec![(50, frame())]),
                    _ => Sent::AsItIs,
                }
            }));
            let report = simulation.run();
            assert_eq!(report.violations, [], "{lines}, seed {seed}");
            for party in others(&plan, &[liar]) {
                let outcome = report.outcomes[party].as_ref().expect("ends");
                assert!(outcome.agreed, "{lines}, seed {seed}: {:?}", outcome.ending);
                assert_eq!(outcome.included, others(&plan, &[liar]));
            }
        }
    }
}

/// The documented exception: a liar shows its START to one node only, over slow links, when the
/// others are about to give up. Whatever the moment, no two sets begin in one another's way; where
/// all others go on, they end with one mean, and the node that has begun without them says why it
/// has none.
#[test]
fn start_that_is_shown_late_to_one_node_costs_that_node_its_result_at_most() {
    let (liar, victim) = (7, 0);
    let plan = plan(8, "[run]\nsealed = true\n[privacy]\ndropouts = 2", 3);
    let mut alone = 0;
    for step in 0..10 {
        let conditions = Conditions::new(step);
        let late = 6992 + 2 * step;
        let mut simulation = Simulation::new(plan.clone(), inputs(&plan), &class_gate, conditions);
        simulation.wire = Some(Box::new(move |sending| {
            let frame = || sending.frame.clone();
            let of_liar = |signed: &SignedNotice| {
                signed.author == liar && matches!(signed.notice, Notice::Start { number: 0, .. })
            };
            match wire::read_public(sending.frame) {
                Ok(PublicFrame::Notice(signed)) if of_liar(&signed) => match (sending.from, sending.to) {
                    (from, to) if from == liar && to == victim => Sent::Later(vec![(late, frame())]),
                    (from, _) if from == victim => Sent::Later(vec![(50, frame())]),
                    _ => Sent::Later(vec![]),
                },
                _ => Sent::AsItIs,
            }
        }));
        let report = simulation.run();
        assert_eq!(report.violations, [], "after {late} ms");
        let ended = |party: Party| report.outcomes[party].as_ref().expect("ends");
        if let Ending::Aborted { reason } | Ending::Withheld { reason } = &ended(victim).ending
            && reason.contains("have given up the START that this node began with")
        {
            for party in 1..7 {
                assert!(ended(party).agreed, "after {late} ms: {:?}", ended(party).ending);
                assert_eq!(ended(party).included, (1..7).collect());
            }
            assert_eq!(ended(victim).sealed, None, "it has sealed nothing");
            alone += 1;
        }
    }
    assert!(alone > 2, "it met the moment {alone} times");
}
