//! The short form of the chaos soak: some runs of each mechanism with what it bears today, in the
//! simulator.

use undertone_tests::soak::fault::{FAULTS, FaultKind};
use undertone_tests::soak::mechanism::MECHANISMS;
use undertone_tests::soak::simulated::{self, Trials};
use undertone_tests::soak::summary::Summary;

/// Faults that cost no survivor of any mechanism its result.
const BORNE: [FaultKind; 13] = [
    FaultKind::Kill,
    FaultKind::StopForEver,
    FaultKind::StopBriefly,
    FaultKind::StopLong,
    FaultKind::StopAll,
    FaultKind::ClockJump,
    FaultKind::AllClocksJump,
    FaultKind::HoleNode,
    FaultKind::HoleIn,
    FaultKind::HoleOut,
    FaultKind::NoStart,
    FaultKind::OtherStart,
    FaultKind::LateKey,
];

/// Every other pair of a mechanism and such a fault: all of both are met.
#[test]
fn faults_within_dropouts_cost_no_survivor_its_result() {
    let (mut trials, mut summary) = (Trials::default(), Summary::default());
    let mechanisms = MECHANISMS.len() as u64;
    let seeds = 0..mechanisms * FAULTS.len() as u64;
    for seed in seeds.filter(|seed| (seed + seed / mechanisms).is_multiple_of(2)) {
        let cell = simulated::cell(seed).filter(|(_, kind)| BORNE.contains(kind));
        if let Some((mechanism, kind)) = cell {
            summary.add(simulated::row(trials.of(mechanism), kind, seed));
        }
    }
    let table = summary.table();
    assert_eq!(summary.violations().count(), 0, "{table}");
    assert_eq!(summary.unnamed().count(), 0, "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

#[test]
fn seed_repeats_a_run() {
    let mut trials = Trials::default();
    let (mechanism, kind) = simulated::cell(0).expect("a run");
    let trial = trials.of(mechanism);
    let reported = || simulated::reported(trial, &simulated::run(trial, kind, 0));
    assert_eq!(reported(), reported());
}
