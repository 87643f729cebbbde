//! Tests of what leaves a run of PPSC: the gate, missing finals, and the loss before publishing.

use std::collections::BTreeSet;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::multi_gossip::MultiGossip;
use undertone_protocol::topology::party::Party;

use super::{COMPLETE, assert_audit};
use crate::bounds::before_publishing::bound;
use crate::calibration::utility::realised;
use crate::class::setting::Setting;
use crate::class::{coalitions, faults};
use crate::execution::share::{Fate, ShareFault};
use crate::gate::decision::{gate, withheld};
use crate::losses::loss::{Noise, squared_losses};
use crate::losses::view::View;
use crate::mechanism::chosen::Mechanism;
use crate::testing::{logs, plan, with_fault};

#[test]
fn whatever_happens_within_the_class_the_rest_publishes() {
    let plan = plan(6, COMPLETE);
    let setting = Setting::of_plan(&plan).expect("a plan");
    let claimed = plan.epsilon_claimed().expect("claimed");
    for departed in 0..6 {
        let members: Vec<Party> = (0..6).filter(|&party| party != departed).collect();
        let whole = logs(&plan, &members);
        for fault in faults::single_shares(&setting)
            .into_iter()
            .filter(|fault| fault.from != departed && fault.to != departed)
        {
            let logs = with_fault(&whole, &fault);
            let verdict = gate(&plan, &logs);
            assert_eq!(
                verdict.publish,
                Some(members.iter().copied().collect()),
                "{departed} {fault:?} {}",
                verdict.reason
            );
            let epsilon = verdict.audit.epsilon;
            assert!(
                epsilon <= claimed,
                "{departed} {fault:?}: {epsilon} {claimed} {:?}",
                verdict.audit.basis
            );
            assert!(verdict.audit.same_sum_mu.is_none());
            assert_eq!(verdict.audit.departed, BTreeSet::from([departed]));
        }
        let verdict = gate(&plan, &whole);
        assert_audit(&plan, &verdict.audit);
        let publish = verdict.publish.expect("within the class");
        let result = realised(&plan, &whole, &publish, &publish).expect("logs of the schedule");
        assert!(
            result.usable && (result.total_weight - 5.0).abs() < 1e-12 && result.lost_weight.abs() < 1e-12
        );
        assert!(
            (result.standard_error / (plan.calibration().independent_std / 5f64.sqrt()) - 1.0).abs() < 1e-12
        );
    }
    assert_audit(&plan, &gate(&plan, &logs(&plan, &[0, 1, 2, 3, 4, 5])).audit);
    assert_audit(&plan, &withheld(&plan, "no agreed set"));
}

#[test]
fn a_member_that_was_cut_off_is_left_out_or_nobody_publishes() {
    let plan = plan(6, COMPLETE);
    let mut logs = logs(&plan, &[0, 1, 2, 3, 4, 5]);
    for log in logs.values_mut() {
        log.received.retain(|entry| entry.from != 2);
    }
    logs.get_mut(&2).expect("a member").received.clear();
    let verdict = gate(&plan, &logs);
    assert_eq!(
        verdict.publish,
        Some(BTreeSet::from([0, 1, 3, 4, 5])),
        "{}",
        verdict.reason
    );
    assert!(verdict.reason.contains("party-2"), "{}", verdict.reason);
    assert_audit(&plan, &verdict.audit);
}

#[test]
fn a_missing_final_is_in_the_result_as_it_was_predicted() {
    let plan = plan(6, COMPLETE);
    let logs = logs(&plan, &[0, 1, 2, 3, 4, 5]);
    let publish: BTreeSet<Party> = (0..6).collect();
    let mut squares = 0.0;
    let mut usable = 0;
    for missing in 0..6 {
        let included: BTreeSet<Party> = (0..6).filter(|&party| party != missing).collect();
        let result = realised(&plan, &logs, &publish, &included).expect("logs of the schedule");
        assert!((result.total_weight + result.lost_weight - 6.0).abs() < 1e-9);
        squares += result.standard_error.powi(2) / 6.0;
        usable += usize::from(result.total_weight >= 2.5);
        if result.total_weight != 0.0 {
            assert!(
                (result.weights.iter().sum::<f64>() - 1.0).abs() < 1e-9,
                "{:?}",
                result.weights
            );
        }
    }
    assert!(usable >= 5, "at most one holds most of the weight");
    match plan.calibration().predicted.standard_error_late_dropout {
        Some(predicted) => assert!((squares.sqrt() / predicted - 1.0).abs() < 1e-9),
        None => assert_eq!(usable, 5),
    }
}

/// Whatever may happen to shares, at any time, as long as no final is out.
fn anything(setting: &Setting, random: &mut ChaCha8Rng) -> Vec<ShareFault> {
    let share = |(round, from, to)| {
        let applied = Some(random.random_range(round..=setting.rounds() as u32));
        let fate = [Fate::Accepted, Fate::Returned, Fate::Lost][random.random_range(0..3)];
        random.random_bool(0.6).then(|| ShareFault {
            round,
            from,
            to,
            fate,
            applied,
            seen: random.random_bool(0.7),
        })
    };
    faults::shares(setting).filter_map(share).collect()
}

#[test]
fn before_publishing_the_bound_holds_and_is_reached() {
    let mut random = ChaCha8Rng::seed_from_u64(12);
    let mut reached = 0.0f64;
    for case in 0..60u64 {
        let parties = random.random_range(3..=6);
        let gossip = MultiGossip::fitting(&Graph::complete(parties), random.random_range(2..=8), case)
            .expect("neighbours");
        let setting = Setting {
            mechanism: Mechanism::Ppsc,
            out: gossip.schedule().out().to_vec(),
            sensitivity: (0..parties).map(|_| random.random_range(0.5..2.0)).collect(),
            weights: vec![1.0; parties],
            colluding: random.random_range(1..parties),
            dropouts: 0,
            rollback: true,
            uniform: false,
            drawn_share_faults: None,
        };
        let base = setting.fault_free().expect("a schedule");
        let noise = Noise {
            independent_std: random.random_range(0.0..2.0),
            correlated_std: random.random_range(0.5..4.0),
        };
        for coalition in coalitions::all(parties, setting.colluding) {
            for party in (0..parties).filter(|party| !coalition.contains(party)) {
                let view = View::of(&faults::cut_off(&base, party, &coalition).expect("an execution"));
                let place = view
                    .honest
                    .iter()
                    .position(|&other| other == party)
                    .expect("honest");
                let most = bound(&setting, party, noise).expect("a closed form");
                let cut_off = squared_losses(&view, noise)[place].sqrt() * setting.sensitivity[party];
                assert!(cut_off <= most * (1.0 + 1e-9), "case {case}: {cut_off} {most}");
            }
            let view = base
                .clone()
                .with_shares(anything(&setting, &mut random))
                .and_then(|run| run.with_corrupted(coalition))
                .and_then(|run| run.with_published([]));
            let view = View::of(&view.expect("an execution"));
            for (&party, square) in view.honest.iter().zip(squared_losses(&view, noise)) {
                let most = bound(&setting, party, noise).expect("a closed form");
                let mu = square.sqrt() * setting.sensitivity[party];
                assert!(
                    mu <= most * (1.0 + 1e-9),
                    "case {case}, party {party}: {mu} {most}"
                );
                reached = reached.max(if most > 0.0 { mu / most } else { 0.0 });
            }
        }
    }
    assert!(reached > 0.99, "else this tests nothing: {reached}");
}
