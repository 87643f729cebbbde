//! The outcome of a run in its folder, for members that restarted in the middle of it: record and
//! mean in two files, of which others read pieces.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use sha2::{Digest, Sha256};
use undertone_protocol::messages::question::{PIECE_LIMIT, Reply};
use undertone_protocol::plan::checked::Plan;

use crate::daemon::runs::Run;
use crate::daemon::state::write_whole;
use crate::party::agreed_outcome::{AgreedOutcome, OutcomeHashes, RECORD_LIMIT};

const RECORD: &str = "outcome.json";
const MEAN: &str = "outcome.f64";

/// Keeps the outcome of a run that this node carried through, where members that restart may ask
/// for it. The run is none the worse where it cannot be written.
pub(super) fn keep(run: &Run, agreed: &AgreedOutcome) {
    if let Err(error) = write(run.folder(), agreed) {
        let digest = run.status().digest;
        tracing::error!(%error, digest, "members that restart cannot read the result here");
    }
}

/// Writes an outcome into the folder of its run: the record last, without which there is none.
///
/// # Errors
/// A folder that cannot be written.
pub(super) fn write(folder: &Path, outcome: &AgreedOutcome) -> io::Result<()> {
    write_whole(&folder.join(MEAN), &outcome.mean_bytes())?;
    write_whole(&folder.join(RECORD), outcome.record_bytes())
}

/// The record, and the SHA-256 of the mean that it names; `None` where there is no outcome.
fn record(folder: &Path) -> io::Result<Option<(Vec<u8>, [u8; 32])>> {
    let file = match File::open(folder.join(RECORD)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut record = Vec::new();
    file.take(RECORD_LIMIT as u64).read_to_end(&mut record)?;
    let named: serde_json::Value = serde_json::from_slice(&record)?;
    let mean = named["mean_sha256"].as_str().and_then(digest_of_hex);
    let mean = mean.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no SHA-256 of the mean"))?;
    Ok(Some((record, mean)))
}

/// The outcome in a run's folder, if there is a whole one: a process that was killed right after
/// writing it did not get to its own record of the run's end.
pub(super) fn read(folder: &Path, plan: &Plan) -> Option<AgreedOutcome> {
    let (record, mean) = record(folder).ok()??;
    let hashes = OutcomeHashes {
        record: Sha256::digest(&record).into(),
        mean,
    };
    let mean = std::fs::read(folder.join(MEAN)).ok()?;
    AgreedOutcome::read(plan, &hashes, (&record, &mean)).ok()
}

/// The reply to a member that asks for the outcome from a byte on, with the piece that goes beside
/// it; `None` where there is no outcome. A disk that changed a byte is found out by who reads it.
///
/// # Errors
/// A disk that cannot be read: whether there is one is not known.
pub(super) fn piece(folder: &Path, from: u64) -> io::Result<Option<(Reply, Vec<u8>)>> {
    let Some((record, mean)) = record(folder)? else {
        return Ok(None);
    };
    let mut file = File::open(folder.join(MEAN))?;
    let (record_bytes, mean_bytes) = (record.len() as u64, file.metadata()?.len());
    let mut piece: Vec<u8> = match usize::try_from(from) {
        Ok(from) if from < record.len() => record[from..].to_vec(),
        _ => vec![],
    };
    if from < record_bytes + mean_bytes {
        file.seek(SeekFrom::Start(from.saturating_sub(record_bytes)))?;
        let left = PIECE_LIMIT.saturating_sub(piece.len()) as u64;
        file.take(left).read_to_end(&mut piece)?;
    }
    piece.truncate(PIECE_LIMIT);
    let reply = Reply::Outcome {
        record: Sha256::digest(&record).into(),
        mean,
        record_bytes,
        mean_bytes,
    };
    Ok(Some((reply, piece)))
}

fn digest_of_hex(text: &str) -> Option<[u8; 32]> {
    let byte = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_from_any_byte_make_the_record_and_the_mean_and_none_is_longer_than_it_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let piece = |folder: &Path, from| piece(folder, from).unwrap();
        assert!(piece(folder.path(), 0).is_none(), "there is no outcome");
        let mean = vec![7_u8; PIECE_LIMIT + 100];
        let record = format!("{{\"mean_sha256\":\"{}\"}}", "ab".repeat(32)).into_bytes();
        std::fs::write(folder.path().join(MEAN), &mean).unwrap();
        std::fs::write(folder.path().join(RECORD), &record).unwrap();
        let whole = [record.clone(), mean].concat();
        let mut read = vec![];
        loop {
            let (reply, found) = piece(folder.path(), read.len() as u64).unwrap();
            assert!(found.len() <= PIECE_LIMIT);
            let Reply::Outcome {
                record_bytes,
                mean_bytes,
                mean,
                ..
            } = reply
            else {
                panic!("no outcome");
            };
            assert_eq!((record_bytes + mean_bytes) as usize, whole.len());
            assert_eq!(mean, [0xab; 32]);
            if found.is_empty() {
                break;
            }
            read.extend(found);
        }
        assert!(read == whole);
        for from in [
            1,
            record.len() as u64 - 1,
            record.len() as u64,
            record.len() as u64 + 1,
        ] {
            let (_, found) = piece(folder.path(), from).unwrap();
            assert!(
                found[..] == whole[from as usize..][..found.len()] && !found.is_empty(),
                "{from}"
            );
        }
        assert!(piece(folder.path(), u64::MAX).unwrap().1.is_empty());
        // A disk that cannot be read says nothing of whether there is one.
        std::fs::remove_file(folder.path().join(MEAN)).unwrap();
        assert!(super::piece(folder.path(), 0).is_err());
    }
}
