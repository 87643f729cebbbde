//! The state directory: who may use it, what lies where, and records that cannot rot unseen.
//!
//! ```text
//! lock                      the process id of the daemon that runs, which holds the folder itself
//! ledger                    what data sets have spent (module `ledger`)
//! runs/DIGEST/              plan.json, run.json (a record; begun.json until the run has ended),
//!                           mean.EXT, receipt.json, its .sig
//! receipts                  of runs whose folders `keep_days` had deleted (module `receipts`)
//! offers/DIGEST/            plan.json, offer.json (a record)
//! schedules/NAME/           occasions.json (a record)
//! keys/ID.json              a statement that revokes that key (a record)
//! incoming/                 uploads that no run has read yet; emptied at the start
//! api.token, api.sock       of the API, unless the configuration says otherwise
//! ```

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::party::room::Room;
use crate::party::spent::make_folders;
use crate::reporting::failure::Failure;

/// The state directory of a daemon that runs. Dropping it lets another daemon use it.
#[derive(Debug)]
pub struct State {
    folder: PathBuf,
    lock: File,
    /// When somebody last looked whether it can be written, and whether it could.
    probed: Mutex<Option<(Instant, bool)>>,
}

/// The number of bytes written to see whether there is room: a record, a line of the ledger and a
/// receipt.
const PROBE: u64 = 64 << 10;

/// For how long what was seen is good: whoever asks often does not make the disk work.
const FRESH: Duration = Duration::from_secs(1);

impl Drop for State {
    /// A child that is being started may hold the file for a moment longer; not the lock.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl State {
    /// Makes the directory (mode 0700) and takes its lock. Refused (exit 2) if another daemon holds
    /// it, if it belongs to another user, or if it cannot be written; exit 75 if its disk is full.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        let refused = |e: io::Error| {
            Failure::storage(&e, format!("state folder {}: cannot be used: {e}", folder.display()))
                .field("state")
                .hint("name a folder that the daemon's user can write to, on a disk that is not full; keep it: it has the ledger")
        };
        make_folders(folder).map_err(refused)?;
        let (owner, ours) = (
            folder.metadata().map_err(refused)?.uid(),
            tempfile::tempfile_in(folder),
        );
        // Whoever cannot write learns first whose folder it is.
        let us = ours
            .as_ref()
            .ok()
            .and_then(|file| file.metadata().ok())
            .map(|metadata| metadata.uid());
        if us.is_some_and(|us| us != owner) {
            return Err(Failure::usage(format!(
                "state folder {} belongs to user {owner}, not to this one",
                folder.display()
            ))
            .field("state")
            .hint("run the daemon as that user, or `chown` the folder to the daemon's user"));
        }
        ours.map_err(refused)?;
        // From here on it is ours alone.
        let lock = lock(folder)?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).map_err(refused)?;
        let state = State {
            folder: folder.to_owned(),
            lock,
            probed: Mutex::default(),
        };
        // Uploads of an earlier daemon belong to no run any more.
        let incoming = state.incoming();
        if incoming.exists() {
            std::fs::remove_dir_all(&incoming).map_err(refused)?;
        }
        for folder in [
            &incoming,
            &state.runs(),
            &state.offers(),
            &state.schedules(),
            &state.keys(),
        ] {
            make_folders(folder).map_err(refused)?;
            tempfile::tempfile_in(folder).map_err(refused)?;
        }
        Ok(state)
    }

    /// The state directory itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a small file can be written now, or could a moment ago.
    pub fn can_be_written(&self) -> bool {
        let mut probed = self.probed.lock().unwrap_or_else(PoisonError::into_inner);
        match *probed {
            Some((at, could)) if at.elapsed() < FRESH => could,
            _ => {
                let can = Room::take(&self.folder, PROBE).is_ok();
                *probed = Some((Instant::now(), can));
                can
            }
        }
    }

    /// The folder of uploads that no run has read yet.
    pub fn incoming(&self) -> PathBuf {
        self.folder.join("incoming")
    }

    /// The folder with one folder a run.
    pub fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }

    /// The folder with one folder a schedule.
    pub fn schedules(&self) -> PathBuf {
        self.folder.join("schedules")
    }

    /// The folder of statements that revoke keys.
    pub fn keys(&self) -> PathBuf {
        self.folder.join("keys")
    }

    /// The folder of plans that others offered.
    pub fn offers(&self) -> PathBuf {
        self.folder.join("offers")
    }
}

/// Locks the folder itself. A lock file in it could be replaced, by a clean-up or a restored
/// backup, and then be locked twice.
fn lock(folder: &Path) -> Result<File, Failure> {
    let refused = |e: io::Error| {
        Failure::storage(
            &e,
            format!("state folder {}: cannot be locked: {e}", folder.display()),
        )
        .field("state")
        .hint("name a folder that the daemon's user can write to, on a disk that is not full")
    };
    let (holds, named) = (File::open(folder).map_err(refused)?, folder.join("lock"));
    match holds.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(e)) => return Err(refused(e)),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            if let Ok(file) = File::open(&named) {
                let _ = file.take(20).read_to_string(&mut holder);
            }
            let holder = if holder.is_empty() {
                "another daemon".into()
            } else {
                format!("the daemon with process id {holder}")
            };
            return Err(
                Failure::usage(format!("state folder {} is in use by {holder}", folder.display()))
                    .field("state")
                    .hint("one daemon at a time: stop that one, or give this one a state folder of its own"),
            );
        }
    }
    write_whole(&named, std::process::id().to_string().as_bytes()).map_err(refused)?;
    Ok(holds)
}

/// Longer than any record.
const LONGEST_RECORD: u64 = 1 << 20;

/// Writes a record: its JSON on one line, the SHA-256 of that line on the next. It appears whole or
/// not at all.
pub fn write_record<T: Serialize>(path: &Path, record: &T) -> io::Result<()> {
    let line = serde_json::to_string(record)?;
    write_whole(
        path,
        format!("{line}\n{}\n", checksum(line.as_bytes())).as_bytes(),
    )
}

/// Writes a file that appears whole or not at all, with mode 0600, and is on disk when this
/// returns.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    File::open(folder)?.sync_all()
}

/// Reads a record; refused (exit 2) if it is not what was written.
pub fn read_record<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let corrupt = |what: String| {
        Failure::usage(format!("{}: {what}", path.display())).field(path.display()).hint(format!(
            "restore the file from a backup, or move {} away: what is known of that run is lost then, its charge stays in the ledger",
            path.parent().unwrap_or(path).display()
        ))
    };
    let mut text = String::new();
    let file = File::open(path).map_err(|e| corrupt(format!("cannot be opened: {e}")))?;
    file.take(LONGEST_RECORD)
        .read_to_string(&mut text)
        .map_err(|e| corrupt(format!("cannot be read: {e}")))?;
    let lines: Vec<&str> = text.split('\n').collect();
    match lines[..] {
        [line, sum, ""] if sum == checksum(line.as_bytes()) => {
            serde_json::from_str(line).map_err(|e| corrupt(format!("is a record of another version: {e}")))
        }
        _ => Err(corrupt("is corrupt: its checksum does not fit".into())),
    }
}

/// SHA-256 in lower-case hex.
pub fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_daemon_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a/state");
        let first = State::open(&place).unwrap();
        assert_eq!(place.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let failure = State::open(&place).unwrap_err();
        assert!(
            failure
                .message
                .contains(&format!("process id {}", std::process::id())),
            "{failure}"
        );
        std::fs::write(first.incoming().join("x.npy"), "private").unwrap();
        // Nor after somebody has cleaned up.
        std::fs::remove_file(place.join("lock")).unwrap();
        State::open(&place).unwrap_err();
        drop(first);
        let second = State::open(&place).unwrap();
        assert!(
            !second.incoming().join("x.npy").exists(),
            "an upload outlived its daemon"
        );
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let failure = State::open(&file.join("state")).unwrap_err();
        assert_eq!(
            (failure.exit, failure.field.as_deref()),
            (crate::reporting::failure::Exit::Usage, Some("state"))
        );
        let foreign = folder.path().join("foreign");
        std::fs::create_dir(&foreign).unwrap();
        // Only root can give a folder away; to others it is not writable in the first place.
        if std::os::unix::fs::chown(&foreign, Some(12345), None).is_ok() {
            let failure = State::open(&foreign).unwrap_err();
            assert!(failure.message.contains("belongs to user 12345"), "{failure}");
        }
    }

    #[test]
    fn a_record_that_was_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        write_record(&path, &vec![("a", 1), ("b", 2)]).unwrap();
        let read = || read_record::<Vec<(String, u32)>>(&path);
        assert_eq!(read().unwrap(), [("a".to_string(), 1), ("b".to_string(), 2)]);
        let bytes = std::fs::read(&path).unwrap();
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            std::fs::write(&path, &changed).unwrap();
            let failure = read().expect_err("a flipped bit");
            assert!(
                failure.hint.is_some_and(|hint| hint.contains("backup")),
                "byte {index}"
            );
            std::fs::write(&path, &bytes[..index]).unwrap();
            read().expect_err("a truncated record");
        }
    }
}
