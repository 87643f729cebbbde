//! Plans for the tests of this crate.

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;
use undertone_protocol::plan::run_file::records::RecordCounts;

use crate::planning::make;

/// The plan of a run file for this many simulated parties, with `records` rows each. The run's name
/// is `t` unless the text has one.
#[track_caller]
pub(crate) fn plan_of(text: &str, parties: usize, records: Option<u64>) -> Plan {
    planned(text, parties, records.map(RecordCounts::exactly))
}

/// The plan of a run file for this many simulated parties, with these numbers of records.
#[track_caller]
pub(crate) fn plan_with(text: &str, parties: usize, records: RecordCounts) -> Plan {
    planned(text, parties, Some(records))
}

#[track_caller]
fn planned(text: &str, parties: usize, records: Option<RecordCounts>) -> Plan {
    let text = match text.contains("name = ") {
        true => text.to_owned(),
        false => format!("name = \"t\"\n{text}"),
    };
    let mut run = RunFile::parse(&text, parties).unwrap_or_else(|e| panic!("{e}: {text}"));
    run.data.records = records;
    let peers = Peers::simulated(parties).expect("peers");
    make::make(run, &peers, 1).unwrap_or_else(|e| panic!("{e}: {text}"))
}
