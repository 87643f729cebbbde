//! Backups: marks, ledger, receipts and revoked keys of a daemon, in one file; and what of them a
//! state folder lacks.
//!
//! A backup is consistent although the daemon goes on: it copies the marks first and the ledger
//! after them, and a charge is written into the ledger before its mark is. A charge that is being
//! lowered may be in the backup as it was before. Nothing that is newer is ever replaced: of what a
//! restore finds and what it brings, the larger charge holds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::daemon::config::Config;
use crate::daemon::keys::store::Keys;
use crate::daemon::ledger::{self, Ledger};
use crate::daemon::receipts::{self, KeptReceipt, Receipts};
use crate::daemon::restored::Restored;
use crate::daemon::state::{State, checksum, write_whole};
use crate::daemon::tape::{self, Taped};
use crate::party::journal::{Journal, disk};
use crate::party::marks::{self, Marks};
use crate::party::spent::{KeyLock, User, marks_of, registry};
use crate::reporting::failure::Failure;
use crate::reporting::{input_file, output_file};

/// The format of a backup.
const VERSION: u32 = 1;

/// The description of a backup, its first file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the format.
    pub version: u32,
    /// The name of the party in its peer list.
    pub party: String,
    /// The id of its key.
    pub id: String,
    /// When the backup was begun, in milliseconds since 1970.
    pub at_ms: u64,
    /// SHA-256 of each file, in lower-case hex.
    pub files: BTreeMap<String, String>,
}

/// The result of a restore.
#[derive(Clone, Debug)]
pub struct RestoreReport {
    /// The backup.
    pub manifest: Manifest,
    /// The plans that were charged here with less than the backup says, or not at all.
    pub charged: usize,
    /// The plans that were not marked beside the key as they are in the backup.
    pub marked: usize,
    /// The receipts that were not here.
    pub receipts: usize,
    /// The keys that were not revoked here.
    pub keys: usize,
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::storage(error, format!("{}: cannot be read: {error}", path.display()))
}

/// The whole lines of a file that only grows; nothing of one that is absent.
fn whole_lines(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => vec![],
        Err(e) => return Err(unreadable(path, &e)),
    };
    let end = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |last| last + 1);
    bytes.truncate(end);
    Ok(bytes)
}

/// The hint where a journal has lost lines.
const LOST: &str = "keep the earlier backups: this file has lost lines. The daemon itself goes on by its checkpoint, \
                    the file beside it that ends in .sorted";

/// A journal's path and version.
type JournalFile = (PathBuf, u32);

/// The marks and the ledger, in the order in which they are copied.
fn journals(config: &Config) -> Result<[JournalFile; 2], Failure> {
    let marks = marks::in_folder(&registry(&config.identity_file)?);
    let ledger = config.state.join("ledger");
    Ok([(marks, marks::VERSION), (ledger, ledger::opening::VERSION)])
}

/// The whole lines of a journal, each of them what was written: a daemon that goes on from a
/// checkpoint does not need those before it, and whoever restores them does.
fn sound_lines((path, version): &JournalFile) -> Result<Vec<u8>, Failure> {
    let lines = whole_lines(path)?;
    let checked = Journal::check(&lines, *version);
    checked.map_err(|fault| fault.failure(path, LOST))?;
    Ok(lines)
}

/// Whether marks and ledger are what was written, from their first lines on, also where a daemon
/// has gone on from a checkpoint; each that is not.
///
/// # Errors
/// One cannot be read.
pub(super) fn damaged_journals(config: &Config) -> Result<Vec<(PathBuf, Failure)>, Failure> {
    let mut damaged = vec![];
    for (path, version) in journals(config)? {
        let checked = Journal::check(&whole_lines(&path)?, version);
        damaged.extend(checked.err().map(|fault| {
            let failure = fault.failure(&path, LOST);
            (path.clone(), failure)
        }));
    }
    Ok(damaged)
}

/// The receipts of runs whose folders are still there, a line of JSON each: these first, since they
/// move into the file `receipts`.
fn receipts_of_runs(state: &Path) -> Result<Vec<u8>, Failure> {
    let mut lines = vec![];
    let Ok(folders) = std::fs::read_dir(state.join("runs")) else {
        return Ok(lines);
    };
    let mut folders: Vec<_> = folders.flatten().map(|folder| folder.path()).collect();
    folders.sort();
    for folder in folders {
        let [receipt, signature] =
            ["receipt.json", "receipt.json.sig"].map(|name| std::fs::read_to_string(folder.join(name)));
        let digest = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        if let (Ok(receipt), Ok(signature), Some(digest)) = (receipt, signature, digest) {
            let kept = KeptReceipt::new(digest, [receipt, signature]);
            lines.extend(serde_json::to_vec(&kept).map_err(|e| unreadable(&folder, &e.into()))?);
            lines.push(b'\n');
        }
    }
    Ok(lines)
}

/// Writes a backup, which appears whole or not at all, with mode 0600; the daemon may go on. With
/// the key if that is asked for.
///
/// # Errors
/// Something cannot be read or written (exit 2; 75 on a full disk).
pub fn make(config: &Config, with_key: bool, out: &Path) -> Result<Manifest, Failure> {
    let at_ms = ledger::now_ms();
    let state = &config.state;
    let mut files = vec![];
    let mut add = |name: &str, bytes: Vec<u8>| {
        files.push(Taped {
            name: name.to_owned(),
            bytes,
        });
    };
    // In this order: see above.
    let [marks, ledger] = journals(config)?;
    add("marks", sound_lines(&marks)?);
    add("ledger", sound_lines(&ledger)?);
    let keys = state.join("keys");
    if keys.is_dir() {
        let lines = Keys::open(keys.clone())?.to_lines();
        add("keys", lines.map_err(|e| unreadable(&keys, &e.into()))?);
    }
    add("receipts-of-runs", receipts_of_runs(state)?);
    add("receipts", whole_lines(&receipts::in_folder(state))?);
    if with_key {
        let key = std::fs::read(&config.identity_file);
        add(
            "identity.key",
            key.map_err(|e| unreadable(&config.identity_file, &e))?,
        );
    }
    let sums = files
        .iter()
        .map(|file| (file.name.clone(), checksum(&file.bytes)));
    let manifest = Manifest {
        version: VERSION,
        party: config.identity.name.clone(),
        id: config.identity.peer_id().to_string(),
        at_ms,
        files: sums.collect(),
    };
    let json = serde_json::to_string_pretty(&manifest).expect("a manifest is JSON");
    files.insert(
        0,
        Taped {
            name: "manifest.json".into(),
            bytes: (json + "\n").into_bytes(),
        },
    );
    let mut archive = vec![];
    // A name alone has no folder; what is in it is nobody else's to read.
    let place = Path::new(".").join(out);
    tape::write(&mut archive, &files, at_ms)
        .and_then(|()| write_whole(&place, &archive))
        .map_err(|e| output_file::unwritten(out, "FILE", &e))?;
    Ok(manifest)
}

/// A backup that was read, every file of which is as it was written.
pub struct Backup {
    /// The description of the backup, its first file.
    pub manifest: Manifest,
    files: BTreeMap<String, Vec<u8>>,
}

impl Backup {
    /// Reads a backup.
    ///
    /// # Errors
    /// It is none, or not as it was written (exit 2).
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let refused = |what: String| {
            Failure::usage(format!("{}: {what}", path.display()))
                .field("FILE")
                .hint("name a file that `undertone backup FILE` wrote")
        };
        let file = input_file::open(path).map_err(|e| refused(format!("cannot be opened: {e}")))?;
        let taped =
            tape::read(&mut BufReader::new(file)).map_err(|e| refused(format!("is no backup: {e}")))?;
        let mut files: BTreeMap<String, Vec<u8>> =
            taped.into_iter().map(|file| (file.name, file.bytes)).collect();
        let manifest = files.remove("manifest.json").unwrap_or_default();
        let manifest: Manifest =
            serde_json::from_slice(&manifest).map_err(|e| refused(format!("is no backup: {e}")))?;
        if manifest.version != VERSION {
            let version = manifest.version;
            return Err(refused(format!(
                "has format {version}, and this version reads {VERSION}"
            )));
        }
        let sums: BTreeMap<String, String> = files
            .iter()
            .map(|(name, bytes)| (name.clone(), checksum(bytes)))
            .collect();
        if sums != manifest.files {
            return Err(refused("is not what was written".into()));
        }
        Ok(Backup { manifest, files })
    }

    fn file(&self, name: &str) -> &[u8] {
        self.files.get(name).map_or(&[], Vec::as_slice)
    }

    /// The key, if it was asked for when the backup was made.
    pub fn key(&self) -> Option<&[u8]> {
        self.files.get("identity.key").map(Vec::as_slice)
    }

    /// Adds what the state folder and the marks beside the key lack, and closes every data set.
    /// Nothing is lowered, and nothing that is newer is replaced. No daemon may run.
    ///
    /// # Errors
    /// It is of another identity; a file of it, or one that is there, is corrupt; a daemon has the
    /// state folder or the key (all exit 2); a full disk (75).
    pub fn restore(&self, config: &Config) -> Result<RestoreReport, Failure> {
        let id = config.identity.peer_id().to_string();
        if self.manifest.id != id {
            let Manifest { party, id: other, .. } = &self.manifest;
            return Err(Failure::usage(format!(
                "the backup is of {party} ({other}), and this node is {id}"
            ))
            .field("identity")
            .hint("restore it with the key that it is of: marks and charges belong to a key"));
        }
        let state = State::open(&config.state)?;
        let at_identity = |failure: Failure| failure.field("identity");
        let _key = KeyLock::take(&config.identity_file, User::Daemon).map_err(at_identity)?;
        // All of it is looked through before anything is changed.
        let aside = tempfile::tempdir_in(state.folder()).map_err(|e| unreadable(state.folder(), &e))?;
        for name in ["marks", "ledger", "receipts"] {
            std::fs::write(aside.path().join(name), self.file(name))
                .map_err(|e| unreadable(aside.path(), &e))?;
        }
        let theirs = |name: &str| aside.path().join(name);
        let marks_of_backup = Marks::open(&theirs("marks"), &id, disk())?;
        let brought = Ledger::read_through(aside.path(), Marks::open(&theirs("marks"), &id, disk())?)?;
        let mut marks = marks_of(&config.identity_file, &id).map_err(at_identity)?;
        // Closed before anything is there that a daemon could count on.
        Restored::close(state.folder(), self.manifest.at_ms, ledger::now_ms())?;
        let marked = marks.take_in(&marks_of_backup).map_err(at_identity)?;
        let charged = Ledger::adopt(state.folder(), marks, brought)?.len();
        let receipts = self.restore_receipts(state.folder(), &theirs("receipts"))?;
        Ok(RestoreReport {
            manifest: self.manifest.clone(),
            charged,
            marked,
            receipts,
            keys: Keys::open(state.keys())?.take_in(self.file("keys")),
        })
    }

    /// Adds the receipts that are not there; how many.
    fn restore_receipts(&self, state: &Path, archive: &Path) -> Result<usize, Failure> {
        let kept = Receipts::open(state, disk())?;
        let mut added = 0;
        let mut add = |receipt: KeptReceipt| -> Result<(), Failure> {
            let digest = receipt.digest().to_owned();
            if kept.read(&digest)?.is_none() {
                kept.keep(&digest, [receipt.receipt, receipt.signature])?;
                added += 1;
            }
            Ok(())
        };
        for receipt in receipts::all(archive).map_err(|e| unreadable(archive, &e))? {
            add(receipt)?;
        }
        for line in self.file("receipts-of-runs").split(|&byte| byte == b'\n') {
            if let Ok(receipt) = serde_json::from_slice::<KeptReceipt>(line)
                && !state.join("runs").join(receipt.digest()).is_dir()
            {
                add(receipt)?;
            }
        }
        Ok(added)
    }
}

/// Writes the key of a backup, with mode 0600, where no file is.
///
/// # Errors
/// A file is there already (exit 2).
pub fn write_key(path: &Path, key: &[u8]) -> Result<(), Failure> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let written = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(key).and_then(|()| file.sync_all()));
    written.map_err(|e| {
        Failure::storage(&e, format!("{}: the key cannot be written: {e}", path.display())).field("identity")
    })
}
