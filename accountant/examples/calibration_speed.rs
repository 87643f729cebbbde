//! How long calibration and verification take, and how good the plans are.
//!
//! `cargo run --release -p undertone-accountant --example calibration_speed -- [PARTIES COLLUDING
//! DROPOUTS]`

#![allow(clippy::disallowed_methods)] // It measures time.

use std::time::Instant;

use undertone_accountant::calibrate;
use undertone_accountant::gate::decision::gate;
use undertone_accountant::verify::check::verify;
use undertone_protocol::messages::log::{AgreedLogs, Log, ReceivedEntry, SentEntry};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;

fn main() {
    println!(
        "parties mechanism                                 T   plan    verify  gate    epsilon(class) /floor: plain  departed  late  correcting"
    );
    let asked: Vec<usize> = std::env::args()
        .skip(1)
        .map(|number| number.parse().expect("a number"))
        .collect();
    let (inca, papers) = ("correlated = \"gaussian\"", "rollback = false");
    let ppsc = "correlated = \"gaussian\"\nkind = \"ppsc\"";
    let uniform = "correlated = \"uniform\"";
    if let [parties, colluding, dropouts] = asked[..] {
        return report(parties, colluding, dropouts, uniform);
    }
    for (parties, mechanism) in [
        (8, inca),
        (8, papers),
        (8, ppsc),
        (8, uniform),
        (16, inca),
        (16, ppsc),
        (16, uniform),
        (17, inca),
        (17, ppsc),
        (50, inca),
        (50, ppsc),
        (100, inca),
        (100, ppsc),
        (200, inca),
        (200, ppsc),
        (200, uniform),
        (1000, uniform),
    ] {
        report(parties, 1, 1, mechanism);
    }
    report(200, 20, 20, inca);
    report(200, 20, 20, uniform);
}

fn report(parties: usize, colluding: usize, dropouts: usize, mechanism: &str) {
    let text = format!(
        "name = \"speed\"\n[data]\nshape = [1000]\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\ncolluding = {colluding}\ndropouts = {dropouts}\n[mechanism]\n{mechanism}\n"
    );
    let file = RunFile::parse(&text, parties).expect("a run file");
    let draft = Draft::new(file, &Peers::simulated(parties).expect("peers"), 1).expect("a draft");
    let start = Instant::now();
    let calibration = calibrate(&draft, &mut |message| eprintln!("  {message}")).expect("a calibration");
    let plan_s = start.elapsed().as_secs_f64();
    let plan = Plan::assemble(draft, calibration, [0; 16]).expect("a plan");
    let start = Instant::now();
    verify(&plan).expect("its claims hold");
    let verify_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let verdict = gate(&plan, &fault_free(&plan));
    let gate_s = start.elapsed().as_secs_f64();
    assert!(verdict.publish.is_some());
    let predicted = &plan.calibration().predicted;
    let times = |error: Option<f64>| error.unwrap_or(f64::NAN) / predicted.error_floor;
    println!(
        "{parties:7} {:40} {:2}   {plan_s:.3}s  {verify_s:.3}s  {gate_s:.3}s  {:.6}               {:.4}  {:.4}  {:.4}  {:.4}",
        mechanism.replace('\n', ", "),
        plan.rounds(),
        plan.calibration().claims[0].epsilon,
        times(Some(predicted.standard_error)),
        times(predicted.standard_error_one_dropout),
        times(predicted.standard_error_late_dropout),
        times(predicted.standard_error_correcting),
    );
}

fn fault_free(plan: &Plan) -> AgreedLogs {
    let schedule = plan.schedule();
    let log = |party: usize| {
        let rounds = 1..=plan.rounds();
        let due = rounds
            .clone()
            .flat_map(|round| schedule.sends_to(round, party).iter().map(move |&to| (round, to)));
        let sent = due
            .map(|(round, to)| SentEntry {
                round,
                to,
                left: true,
                answer: None,
            })
            .collect();
        let from = rounds.flat_map(|round| {
            schedule
                .receives_from(round, party)
                .into_iter()
                .map(move |from| (round, from))
        });
        let received = from
            .map(|(round, from)| ReceivedEntry {
                round,
                from,
                applied: round,
            })
            .collect();
        Log {
            party,
            sent,
            received,
            unreachable: vec![],
            sealed: None,
        }
    };
    (0..plan.parties()).map(|party| (party, log(party))).collect()
}
