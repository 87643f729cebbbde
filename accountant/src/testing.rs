//! Drafts and plans for the tests of this crate.

use undertone_protocol::log::{AgreedLogs, Log, ReceivedEntry, SentEntry};
use undertone_protocol::mixing::Party;
use undertone_protocol::peers::Peers;
use undertone_protocol::plan::{Draft, Plan};
use undertone_protocol::run_file::{RunFile, Unit};

use crate::calibrate::calibrate;

/// A draft of simulated parties from run-file lines; `name` and `shape` are added.
pub(crate) fn draft(parties: usize, lines: &str) -> Draft {
    let text = format!("name = \"test\"\n[data]\nshape = [4]\n{lines}");
    let file = RunFile::parse(&text, parties).unwrap_or_else(|error| panic!("{error}"));
    let records = (file.data.unit == Unit::Record).then_some(20);
    let peers = Peers::simulated(parties, records).unwrap_or_else(|error| panic!("{error}"));
    Draft::new(file, &peers, 7).unwrap_or_else(|error| panic!("{error}"))
}

/// A calibrated plan.
pub(crate) fn plan(parties: usize, lines: &str) -> Plan {
    let draft = draft(parties, lines);
    let calibration = calibrate(&draft, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    Plan::assemble(draft, calibration, [7; 16]).unwrap_or_else(|error| panic!("{error}"))
}

/// Logs of these parties in which every share among them, and none other, arrived in its round.
pub(crate) fn logs(plan: &Plan, members: &[Party]) -> AgreedLogs {
    members.iter().map(|&party| (party, log(plan, members, party))).collect()
}

fn log(plan: &Plan, members: &[Party], party: Party) -> Log {
    let schedule = plan.schedule();
    let rounds = 1..=plan.rounds();
    let due = rounds.clone().flat_map(|round| schedule.sends_to(round, party).iter().map(move |&to| (round, to)));
    let sent = due.map(|(round, to)| SentEntry { round, to, left: members.contains(&to), answer: None }).collect();
    let received = rounds
        .flat_map(|round| schedule.receives_from(round, party).into_iter().map(move |from| (round, from)))
        .filter(|(_, from)| members.contains(from))
        .map(|(round, from)| ReceivedEntry { round, from, applied: round })
        .collect();
    let gone = (0..plan.parties()).filter(|other| !members.contains(other)).collect();
    Log { party, sent, received, gone }
}
