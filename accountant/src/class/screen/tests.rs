use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::schedule::Schedule;

use super::*;
use crate::class::coalitions;
use crate::class::faults::{shares_of_class, single_shares};
use crate::class::setting::Setting;
use crate::mechanism::inca::{InjectionSpec, NamedInjection};
use crate::testing::{random_injection, random_out, shuffle};

#[test]
fn the_way_taken_in_doubt_agrees_with_the_fast_one() {
    let schedule = Schedule::draw(&Graph::complete(5), 1, 3, 5).expect("enough neighbours");
    let setting = Setting {
        mechanism: InjectionSpec::Named(NamedInjection::Incremental).into(),
        out: schedule.out().to_vec(),
        sensitivity: vec![1.0, 1.2, 0.9, 1.1, 1.0],
        weights: vec![1.0; 5],
        colluding: 1,
        dropouts: 1,
        rollback: true,
        uniform: false,
        drawn_share_faults: None,
    };
    let base = setting.fault_free().expect("a schedule");
    let screen = Screen::of(&Trace::of(&base, &setting.weights), &base);
    let faults = single_shares(&setting);
    for coalition in coalitions::all(5, 2) {
        let fast = screen
            .worst(&screen.at(9.0, 1, 2), &coalition, &faults, &setting.sensitivity)
            .expect("somebody is honest");
        let careful = screen
            .worst_with_care(&screen.at(9.0, 1, 2), &coalition, &faults, &setting.sensitivity)
            .expect("somebody is honest");
        assert!(
            (fast.square / careful.square - 1.0).abs() < 1e-10
                && (fast.next / careful.next - 1.0).abs() < 1e-10,
            "{fast:?} {careful:?}"
        );
    }
}

#[test]
fn dependent_rows_are_left_to_the_careful_way() {
    assert!(inverse_factor(Array2::from_elem((2, 2), 1.0)).is_none());
    let inverse = inverse_factor(ndarray::array![[4.0, 2.0], [2.0, 5.0]]).expect("positive definite");
    assert_eq!(inverse, ndarray::array![[0.5, 0.0], [-0.25, 0.5]]);
}

/// Any schedule, any injection; without roll-back shares may be lost, too.
fn any_setting(random: &mut ChaCha8Rng) -> Setting {
    let (parties, rounds) = (random.random_range(3..=9), random.random_range(1..=6u32));
    Setting {
        mechanism: random_injection(rounds as usize, random).into(),
        out: random_out(parties, rounds, random, |random| random.random_range(0..=2)),
        sensitivity: (0..parties).map(|_| random.random_range(0.5..2.0)).collect(),
        weights: vec![1.0; parties],
        colluding: 1,
        dropouts: 1,
        rollback: false,
        uniform: false,
        drawn_share_faults: None,
    }
}

#[test]
fn a_change_of_rank_two_gives_what_the_faulted_run_itself_gives() {
    let mut random = ChaCha8Rng::seed_from_u64(20_262);
    let (mut compared, mut doubtful, mut largest) = (0, 0, 0.0f64);
    for index in 0..150 {
        let setting = any_setting(&mut random);
        let base = setting.fault_free().expect("a schedule");
        let screen = Screen::of(&Trace::of(&base, &setting.weights), &base);
        let mut coalition: Vec<Party> = (0..setting.parties()).collect();
        shuffle(&mut coalition, &mut random);
        coalition.truncate(random.random_range(0..setting.parties()));
        coalition.sort_unstable();
        let ratio = libm::pow(10.0, random.random_range(-2.0..4.0));
        let at = screen.at(ratio, [1, 1_000][index % 2], coalition.len());
        let Some(system) = System::of(&screen, &at, &coalition) else {
            doubtful += 1;
            continue;
        };
        let faults = shares_of_class(&setting);
        let among = faults
            .iter()
            .filter(|fault| !coalition.contains(&fault.from) && !coalition.contains(&fault.to));
        for fault in among.filter(|_| random.random_bool(0.3)).collect::<Vec<_>>() {
            let mut fast = vec![0.0; system.honest.len()];
            if !system.faulted(&screen, fault, &mut fast) {
                doubtful += 1;
                continue;
            }
            for (party, (&fast, careful)) in fast
                .iter()
                .zip(screen.with_care(&at, &coalition, Some(fault)))
                .enumerate()
            {
                let apart = (fast - careful).abs() / careful.max(1e-9);
                assert!(
                    apart <= 1e-9,
                    "setting {index}, {fault:?} against {coalition:?}, honest party {party}, ratio {ratio}: {fast} fast, {careful} with care"
                );
                (compared, largest) = (compared + 1, largest.max(apart));
            }
        }
    }
    println!("{compared} losses compared, {doubtful} systems in doubt, largest difference {largest:e}");
    assert!(
        compared > 5_000 && doubtful < compared / 20,
        "{compared} compared, {doubtful} in doubt"
    );
}

#[test]
fn systems_in_doubt_that_would_take_hours_count_as_seen() {
    let setting = any_setting(&mut ChaCha8Rng::seed_from_u64(1));
    let base = setting.fault_free().expect("a schedule");
    let screen = Screen::of(&Trace::of(&base, &setting.weights), &base);
    let at = screen.at(9.0, 1, 0);
    assert!(
        screen
            .with_care(&at, &[], None)
            .iter()
            .all(|square| square.is_finite())
    );
    at.spend_all_care();
    let squares = screen.with_care(&at, &[], None);
    assert!(
        squares.len() == setting.parties() && squares.iter().all(|square| square.is_infinite()),
        "{squares:?}"
    );
}
