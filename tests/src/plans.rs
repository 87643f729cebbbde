//! Calibrated plans of simulated parties.

use std::sync::Arc;

use undertone_accountant::calibrate;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;
use undertone_protocol::plan::run_file::records::RecordCounts;

/// The plan of a run file for this many simulated parties, with `records` rows each; its nonce and
/// its seed are always the same.
#[track_caller]
pub fn calibrated(text: &str, parties: usize, records: Option<u64>) -> Arc<Plan> {
    let mut run = RunFile::parse(text, parties).unwrap_or_else(|e| panic!("{e}: {text}"));
    run.data.records = records.map(RecordCounts::exactly);
    let peers = Peers::simulated(parties).unwrap_or_else(|e| panic!("{e}"));
    let draft = Draft::new(run, &peers, 5).unwrap_or_else(|e| panic!("{e}: {text}"));
    let calibration = calibrate(&draft, &mut |_| {}).unwrap_or_else(|e| panic!("{e}: {text}"));
    Arc::new(Plan::assemble(draft, calibration, [9; 16]).unwrap_or_else(|e| panic!("{e}: {text}")))
}
