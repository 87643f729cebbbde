use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::multi_gossip::MultiGossip;
use undertone_protocol::topology::schedule::Schedule;

use super::*;
use crate::mechanism::chosen::Mechanism;
use crate::mechanism::inca::{InjectionSpec, NamedInjection};
use crate::oracle;
use crate::testing::random_injection;

const RATIOS: [f64; 5] = [0.1, 3.0, 30.0, 1e3, 1e6];

fn setting(mechanism: Mechanism, out: Vec<Vec<Vec<Party>>>, parties: usize) -> Setting {
    Setting {
        mechanism,
        out,
        sensitivity: (0..parties).map(|party| 1.0 + 0.1 * party as f64).collect(),
        weights: vec![1.0; parties],
        colluding: 1,
        dropouts: 1,
        rollback: true,
        uniform: false,
        drawn_share_faults: None,
    }
}

fn inca(parties: usize, rounds: usize, fanout: usize, injection: InjectionSpec) -> Setting {
    let schedule = Schedule::draw(&Graph::complete(parties), fanout, rounds, 3).expect("enough neighbours");
    setting(injection.into(), schedule.out().to_vec(), parties)
}

fn ppsc(parties: usize, rounds: u32) -> Setting {
    let gossip = MultiGossip::fitting(&Graph::complete(parties), rounds, 1).expect("neighbours");
    setting(Mechanism::Ppsc, gossip.schedule().out().to_vec(), parties)
}

/// Every mechanism and size at which brute force takes no more than seconds.
fn small() -> Vec<Setting> {
    let named = InjectionSpec::Named;
    let few = |colluding: usize, dropouts: usize, setting: Setting| Setting {
        colluding,
        dropouts,
        ..setting
    };
    let without_roll_back = |setting: Setting| Setting {
        rollback: false,
        ..setting
    };
    let mut small = vec![
        inca(4, 3, 1, named(NamedInjection::Incremental)),
        inca(5, 4, 1, named(NamedInjection::Incremental)),
        inca(8, 4, 1, named(NamedInjection::Incremental)),
        inca(5, 3, 2, named(NamedInjection::Incremental)),
        inca(5, 4, 1, named(NamedInjection::Early)),
        inca(5, 4, 1, named(NamedInjection::Late)),
        few(2, 1, inca(6, 4, 1, named(NamedInjection::Incremental))),
        few(0, 0, inca(4, 4, 1, named(NamedInjection::Incremental))),
        ppsc(5, 8),
        ppsc(7, 9),
        few(1, 0, ppsc(4, 6)),
    ];
    let random = &mut ChaCha8Rng::seed_from_u64(8);
    small.extend((3..6).map(|rounds| inca(5, rounds, 1, random_injection(rounds, random))));
    small.push(without_roll_back(inca(
        5,
        4,
        1,
        named(NamedInjection::Incremental),
    )));
    small.push(without_roll_back(few(
        1,
        0,
        inca(4, 3, 1, named(NamedInjection::Early)),
    )));
    small.push(without_roll_back(few(
        2,
        1,
        inca(6, 3, 1, named(NamedInjection::Incremental)),
    )));
    small
}

#[test]
fn no_loss_of_the_class_is_above_the_bound() {
    for (index, setting) in small().iter().enumerate() {
        let flows = Flows::of(setting).expect("a theorem");
        for ratio in RATIOS {
            let bound = flows.worst(ratio, &CoalitionSet::of_class(setting)).square;
            let truth = oracle::worst(setting, ratio);
            println!("{index} r = {ratio}: {bound:.6} against {truth:.6}");
            assert!(
                truth <= bound * (1.0 + 1e-9),
                "{index} r = {ratio}: {truth} {bound}"
            );
            // A share that is returned late still carries something; little.
            let near = if setting.rollback { 1.5 } else { 4.0 };
            assert!(
                bound <= near * truth + 1e-9,
                "{index} r = {ratio}: {truth} {bound}"
            );
        }
    }
}

/// Without a fault the bound is the loss itself: of each coalition, of each of its victims.
#[test]
fn without_a_fault_the_bound_is_the_loss() {
    for (index, setting) in small().iter().enumerate() {
        let flows = Flows::of(setting).expect("a theorem");
        let base = setting.fault_free().expect("a schedule");
        for ratio in RATIOS {
            for coalition in CoalitionSet::of_class(setting).coalitions {
                let only = CoalitionSet {
                    coalitions: vec![coalition.clone()],
                    one_more: false,
                    victim: None,
                };
                let bound = flows.worst(ratio, &only);
                let truth = oracle::losses(setting, &base, &coalition, ratio);
                let truth = truth.into_iter().map(|(_, square)| square).fold(0.0, f64::max);
                let same = (bound.square / truth - 1.0).abs();
                assert!(
                    same < DOUBT,
                    "{index} r = {ratio} {coalition:?}: {truth} {bound:?}"
                );
            }
        }
    }
}

/// Any shares in any rounds, to whomever: what arrived late, or not at all, is taken as it was.
#[test]
fn what_happened_is_bounded_whatever_it_was() {
    let random = &mut ChaCha8Rng::seed_from_u64(5);
    let (mut cases, mut close) = (0, 0);
    for case in 0..300 {
        let all = small();
        let setting = &all[case % all.len()];
        let count = random.random_range(0..5);
        let possible = oracle::share_faults(setting);
        let mut faults: Vec<ShareFault> = Vec::new();
        for _ in 0..count {
            let fault = possible[random.random_range(0..possible.len())];
            let place = |it: &ShareFault| (it.round, it.from, it.to);
            if faults.iter().all(|it| place(it) != place(&fault)) {
                faults.push(fault);
            }
        }
        let ratio = RATIOS[random.random_range(0..RATIOS.len())];
        let flows = Flows::after(setting, &faults).expect("a theorem");
        let happened = setting.fault_free().and_then(|base| base.with_shares(faults));
        let happened = happened.expect("an execution");
        for coalition in CoalitionSet::of_class(setting).coalitions {
            let only = CoalitionSet {
                coalitions: vec![coalition.clone()],
                one_more: false,
                victim: None,
            };
            let bound = flows.worst(ratio, &only).square;
            let truth = oracle::losses(setting, &happened, &coalition, ratio);
            let truth = truth.into_iter().map(|(_, square)| square).fold(0.0, f64::max);
            assert!(
                truth <= bound * (1.0 + 1e-7),
                "{case} {coalition:?}: {truth} {bound}"
            );
            cases += 1;
            close += usize::from(bound <= truth * 1.01);
        }
    }
    println!("{cases} cases, {close} within 1 %");
    assert!(cases > 2_000 && close > cases / 2, "{cases} {close}");
}

/// Elimination finds the sum of squares, to far less than the doubt that it is given.
#[test]
fn elimination_is_off_by_less_than_the_doubt() {
    let setting = inca(16, 10, 1, InjectionSpec::Named(NamedInjection::Incremental));
    let class = CoalitionSet::of_class(&setting);
    let flows = Flows::of(&setting).expect("a theorem");
    for ratio in [1e-2, 1.0, 1e3, 1e6] {
        let at = At::of(&flows, ratio);
        for (case, _) in at.cases(&class, None) {
            let off = (at.summed(&case) / case.square - 1.0).abs();
            assert!(off < DOUBT / 100.0, "{ratio}: {off}");
        }
    }
}

/// However few shares a coalition touches, so many of them are not listed.
#[test]
fn coalitions_without_end_are_not_listed() {
    let star = |parties: usize, colluding: usize| {
        let mut out = vec![vec![vec![]; parties]];
        out[0][1] = vec![0];
        Setting {
            colluding,
            dropouts: 0,
            ..setting(Mechanism::Ppsc, out, parties)
        }
    };
    assert!(Flows::of(&star(100, 2)).is_some());
    for (parties, colluding) in [(100, 5), (200, 4), (1024, 3)] {
        assert!(Flows::of(&star(parties, colluding)).is_none(), "{parties}");
    }
}

/// A square that is no number counts as local noise.
#[test]
fn no_number_counts_as_local_noise() {
    let setting = inca(5, 4, 1, InjectionSpec::Named(NamedInjection::Incremental));
    let flows = Flows::of(&setting).expect("a theorem");
    let local = setting.largest_sensitivity().powi(2);
    for ratio in [0.0, f64::NAN, f64::INFINITY, 1e-320] {
        let found = flows.worst(ratio, &CoalitionSet::of_class(&setting)).square;
        assert!(found >= local * (1.0 - 1e-12) || ratio > 1.0, "{ratio}: {found}");
    }
}
