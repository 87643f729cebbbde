//! What reads the inputs: each must return, whatever it thinks of them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use undertone::daemon::api::feed::Feed;
use undertone::daemon::ledger::Ledger;
use undertone::party::journal::disk;
use undertone::party::marks::Marks;
use undertone::party::model_file::{self, ModelFile};
use undertone::party::spent::marks_of;
use undertone::planning::files;
use undertone::vector_file::formats;
use undertone_protocol::agreement::placing::KeeperReport;
use undertone_protocol::messages::notice::Notice;
use undertone_protocol::messages::wire::{self, PublicFrame, asks};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;

/// A frame on the public graph, and what it carries.
pub(crate) fn public_frame(input: &[u8]) {
    match wire::read_public(input) {
        Ok(PublicFrame::Set(set)) => {
            wire::set_hash(&set);
            set.is_of(8);
        }
        Ok(PublicFrame::Body { bytes, .. }) => {
            let _ = wire::final_from_bytes(&input[bytes]);
        }
        Ok(PublicFrame::Item { signed, bytes }) => {
            wire::announcement_frame(&signed, &input[bytes]);
        }
        Ok(PublicFrame::Slice { signed, bytes }) => {
            let bytes = &input[bytes];
            if let Notice::Item { stage, .. } = signed.notice {
                wire::slice_frame(signed.author, stage, signed.signature, bytes);
            }
            // A report is another layout of bytes that peers choose.
            for kept in 0..4 {
                let _ = KeeperReport::from_bytes(8, kept, bytes);
            }
        }
        Ok(PublicFrame::Notice(signed)) => {
            // What is read is what was written.
            wire::notice_frame(&signed);
        }
        Ok(PublicFrame::Round { values, .. }) => drop(input[values].to_vec()),
        Err(_) => {}
    }
}

/// A frame on the private graph.
pub(crate) fn private_frame(input: &[u8]) {
    let _ = wire::read_private(input);
}

/// A log, as an item's bytes.
pub(crate) fn log(plan: &Plan, input: &[u8]) {
    for party in 0..plan.parties() {
        if let Ok(log) = wire::log_from_bytes(input, party, plan.schedule()) {
            let _ = log.check(party, plan.parties(), plan.schedule());
        }
    }
}

/// A question of another node, and a reply.
pub(crate) fn question(input: &[u8]) {
    let _ = asks::read_question(input);
    let _ = asks::read_reply(input);
}

/// A plan file.
pub(crate) fn plan(input: &[u8]) {
    let _ = files::parse(input, "the plan");
}

/// A run file for six parties.
pub(crate) fn run_file(input: &[u8]) {
    let _ = RunFile::parse(&String::from_utf8_lossy(input), 6);
}

/// A peer list.
pub(crate) fn peer_list(input: &[u8]) {
    let _ = Peers::parse(&String::from_utf8_lossy(input));
}

/// A ledger in a state folder.
pub(crate) fn ledger(folder: &Path, input: &[u8]) {
    let _ = std::fs::remove_file(folder.join("a.key.spent/marks"));
    std::fs::write(folder.join("ledger"), input).expect("writable");
    let _ = Ledger::open(
        folder,
        marks_of(&folder.join("a.key"), "alice").expect("none yet"),
    );
}

/// The marks beside a key.
pub(crate) fn marks(folder: &Path, input: &[u8]) {
    std::fs::write(folder.join("marks"), input).expect("writable");
    if let Ok(marks) = Marks::open(&folder.join("marks"), "alice", disk()) {
        let _ = std::fs::remove_file(folder.join("ledger"));
        let _ = Ledger::adopt(folder, marks, vec![]);
    }
}

/// A file of data.
pub(crate) fn vector_file(path: &Path, input: &[u8]) {
    std::fs::write(path, input).expect("writable");
    if let Ok(read) = formats::read(path) {
        assert!(read.values.iter().all(|value| value.is_finite()));
        assert_eq!(read.values.len(), read.layout.dimension());
    }
}

/// A model that rows are predicted by; `rows` are in a file.
pub(crate) fn model(path: &Path, rows: &Path, input: &[u8]) {
    std::fs::write(path, input).expect("writable");
    if let Ok(model) = ModelFile::read(path)
        && let Ok(rows) = model_file::rows(&model.model, rows)
    {
        rows.report(&model.values());
    }
}

/// A connection to a daemon's API on which this is said; the answer, or its end.
/// What somebody sends to the API on one connection, without a socket; what is answered.
pub(crate) fn connection(runtime: &Runtime, feed: &Feed, input: &[u8]) -> Vec<u8> {
    let (mut theirs, ours) = tokio::io::duplex(1 << 16);
    let asks = async {
        let _ = theirs.write_all(input).await;
        let _ = theirs.shutdown().await;
        let mut answer = vec![];
        let _ = theirs.read_to_end(&mut answer).await;
        answer
    };
    runtime
        .block_on(async { tokio::join!(feed.answer(ours), asks) })
        .1
}

/// What somebody sends to a daemon's socket.
pub(crate) fn request(socket: &Path, input: &[u8]) {
    let mut connection = UnixStream::connect(socket).expect("the daemon listens");
    connection
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a time-out");
    let _ = connection.write_all(input);
    let _ = connection.shutdown(std::net::Shutdown::Write);
    let _ = connection.read_to_end(&mut vec![]);
}
