//! The receipts of runs whose folders were deleted, with their signatures: the file `receipts` of
//! the state directory, which only grows.
//!
//! A line is `JSON CHECKSUM`: an object with `digest`, `receipt` (its text, as it was signed) and
//! `signature`, then SHA-256 of that JSON in hex. The first line, `{"version":1}`, says the format.
//! Each line has a checksum of its own, so that one that was damaged keeps no other back: it is
//! skipped, named in `/readyz`, and never served. A last line without its line feed was torn when
//! the daemon was killed, and was not synced: the folder of its run is still there.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::daemon::state::checksum;
use crate::party::journal::{Disk, FirstLine, Step};
use crate::party::plan_digest::PlanDigest;
use crate::party::plan_map::{PlanMap, unreadable};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::input_file;

/// The format of the file.
const VERSION: u32 = 1;

/// No line is longer, in bytes. Our choice: a receipt has a few kilobytes, and one of a thousand
/// parties some megabytes.
const LONGEST: u64 = 256 << 20;

/// Damaged lines that are named at most. Our choice: of a disk that rots the first ones say enough.
const MOST_NAMED: usize = 100;

/// A receipt with its signature.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptReceipt {
    digest: String,
    /// The text of receipt.json.
    pub(crate) receipt: String,
    /// The text of receipt.json.sig.
    pub(crate) signature: String,
}

impl KeptReceipt {
    /// The text of a receipt and of its signature, of the run of this plan.
    pub(super) fn new(digest: String, [receipt, signature]: [String; 2]) -> Self {
        KeptReceipt {
            digest,
            receipt,
            signature,
        }
    }

    /// The plan's digest.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }
}

/// The file of receipts in a state directory.
pub(crate) fn in_folder(state: &Path) -> PathBuf {
    state.join("receipts")
}

/// The receipts of runs whose folders are gone.
#[derive(Debug)]
pub(super) struct Receipts(Mutex<Archive>);

/// The open file, and where its receipts are.
struct Archive {
    path: PathBuf,
    file: File,
    disk: Disk,
    /// The whole lines that were looked at: their bytes and their number.
    length: u64,
    lines: u64,
    /// Where the latest line of each plan begins.
    places: PlanMap<PlanDigest, u64>,
    damaged: Vec<DamagedLine>,
    /// A write failed and could not be taken back.
    broken: bool,
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Archive({}, {} lines)", self.path.display(), self.lines)
    }
}

/// A line that is not what was written.
#[derive(Debug)]
struct DamagedLine {
    /// From 1.
    number: u64,
    /// The digest of the plan whose receipt it was, if that can be read.
    digest: Option<String>,
}

/// The content of a line.
enum ReceiptLine {
    Receipt(KeptReceipt),
    Version(u32),
}

/// The line, unless it is damaged.
fn parse(line: &[u8]) -> Option<ReceiptLine> {
    let (json, sum) = std::str::from_utf8(line).ok()?.rsplit_once(' ')?;
    if checksum(json.as_bytes()) != sum {
        return None;
    }
    let kept = serde_json::from_str(json).map(ReceiptLine::Receipt);
    kept.or_else(|_| serde_json::from_str::<FirstLine>(json).map(|first| ReceiptLine::Version(first.version)))
        .ok()
}

/// The digest that a damaged line begins with, if that part of it is whole.
fn digest_of(line: &[u8]) -> Option<String> {
    let left = line.strip_prefix(br#"{"digest":""#)?.get(..64)?;
    let digest = left.iter().all(u8::is_ascii_hexdigit);
    digest.then(|| String::from_utf8_lossy(left).into_owned())
}

/// Hands over the whole lines of a file from a place on, each without its line feed and with the
/// places where it begins and ends, and returns what follows the last line feed. A line beyond
/// [`LONGEST`] is cut there.
fn each_line(
    file: &File,
    from: u64,
    mut take: impl FnMut(Range<u64>, &[u8]) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let mut reader = BufReader::with_capacity(1 << 16, file);
    reader.seek(SeekFrom::Start(from))?;
    let (mut at, mut line) = (from, vec![]);
    loop {
        line.clear();
        let mut length = reader.by_ref().take(LONGEST).read_until(b'\n', &mut line)? as u64;
        while length > 0 && !line.ends_with(b"\n") {
            // Either the end of the file, or a line that is no line of ours.
            let more = reader.skip_until(b'\n')? as u64;
            if more == 0 {
                return Ok(line);
            }
            length += more;
            line.truncate(LONGEST as usize - 1);
            line.push(b'\n');
        }
        if length == 0 {
            return Ok(vec![]);
        }
        take(at..at + length, &line[..line.len() - 1])?;
        at += length;
    }
}

impl Archive {
    fn open(path: PathBuf, disk: Disk) -> io::Result<Self> {
        Ok(Archive {
            file: open_file(&path)?,
            places: PlanMap::new(path.parent()),
            path,
            disk,
            length: 0,
            lines: 0,
            damaged: vec![],
            broken: false,
        })
    }

    /// Looks at what was not looked at yet; what follows the last whole line. A file that was
    /// restored meanwhile is looked at from its beginning: what is added to the one that it
    /// replaced would be lost.
    fn catch_up(&mut self) -> io::Result<Vec<u8>> {
        let (ours, named) = (self.file.metadata()?, self.path.metadata());
        let same = named.is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino()));
        if !same || ours.len() < self.length {
            self.file = open_file(&self.path)?;
            (self.length, self.lines) = (0, 0);
            (self.places, self.damaged) = (PlanMap::new(self.path.parent()), vec![]);
        }
        let Archive {
            path,
            file,
            length,
            lines,
            places,
            damaged,
            ..
        } = self;
        let torn = each_line(file, *length, |bytes, line| {
            *lines += 1;
            *length = bytes.end;
            match parse(line) {
                Some(ReceiptLine::Version(VERSION)) if *lines == 1 => {}
                Some(ReceiptLine::Receipt(kept)) if *lines > 1 => {
                    if let Some(plan) = PlanDigest::parse(&kept.digest) {
                        places.insert(plan, bytes.start);
                    }
                }
                Some(ReceiptLine::Version(other)) => {
                    return Err(io::Error::other(format!(
                        "it was written by another version of undertone: its format is {other}, this version reads {VERSION}"
                    )));
                }
                _ => {
                    let (number, digest) = (*lines, digest_of(line));
                    if damaged.len() < MOST_NAMED {
                        tracing::error!(
                            file = %path.display(), line = number, digest,
                            "skipped: a receipt is not what was written; restore the file from a backup"
                        );
                    }
                    damaged.push(DamagedLine { number, digest });
                }
            }
            Ok(())
        })?;
        places.shrink();
        Ok(torn)
    }

    /// The latest receipt of a run.
    fn read(&self, digest: &str) -> io::Result<Option<KeptReceipt>> {
        let place = PlanDigest::parse(digest).and_then(|plan| self.places.get(&plan));
        let Some(at) = place else {
            return match self.places.is_sound() {
                true => Ok(None),
                false => Err(unreadable()),
            };
        };
        let mut reader = BufReader::new(&self.file);
        reader.seek(SeekFrom::Start(at))?;
        let mut line = vec![];
        reader.take(LONGEST).read_until(b'\n', &mut line)?;
        match parse(line.trim_ascii_end()) {
            Some(ReceiptLine::Receipt(kept)) if kept.digest == digest => Ok(Some(kept)),
            _ => Err(io::Error::other("is not what was written")),
        }
    }

    /// Ends a torn line: one that lacks nothing but its line feed is kept, anything else was not
    /// synced, and goes.
    fn mend(&mut self, torn: &[u8]) -> io::Result<()> {
        let whole = [torn.len(), torn.len().saturating_sub(1)];
        let whole = whole.into_iter().find(|&end| parse(&torn[..end]).is_some());
        let end = self.length + whole.unwrap_or(0) as u64;
        (self.disk)(Step::Cut(&self.file, end))?;
        if whole.is_some() {
            (self.disk)(Step::Write(&self.file, b"\n"))?;
        }
        (self.disk)(Step::Sync(&self.file))?;
        self.catch_up().map(drop)
    }

    fn append(&mut self, json: &str) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other(
                "an earlier receipt could not be written; restart the daemon",
            ));
        }
        let line = format!("{json} {}\n", checksum(json.as_bytes()));
        let written = (self.disk)(Step::Write(&self.file, line.as_bytes()))
            .and_then(|()| (self.disk)(Step::Sync(&self.file)));
        if let Err(error) = written {
            let cut = (self.disk)(Step::Cut(&self.file, self.length));
            self.broken = cut.and_then(|()| (self.disk)(Step::Sync(&self.file))).is_err();
            return Err(error);
        }
        self.catch_up().map(drop)
    }

    fn keep(&mut self, kept: &KeptReceipt) -> io::Result<()> {
        let torn = self.catch_up()?;
        if self
            .read(&kept.digest)
            .is_ok_and(|found| found.as_ref() == Some(kept))
        {
            return Ok(());
        }
        if !torn.is_empty() {
            self.mend(&torn)?;
        }
        if self.lines == 0 {
            self.append(&serde_json::to_string(&FirstLine { version: VERSION })?)?;
            let folder = self.path.parent().unwrap_or(Path::new("."));
            (self.disk)(Step::SyncFolder(folder))?;
        }
        self.append(&serde_json::to_string(kept)?)
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

impl Receipts {
    /// Opens the file of a state directory, or makes it. It is read later: however long it is, the
    /// daemon starts at once.
    ///
    /// # Errors
    /// It cannot be used (exit 2; 75 on a full disk), or its first line is of another version.
    pub(super) fn open(state: &Path, disk: Disk) -> Result<Self, Failure> {
        let path = in_folder(state);
        let refused = |e: io::Error| unusable(&path, &e).field("state");
        let archive = Archive::open(path.clone(), disk).map_err(refused)?;
        let mut first = vec![];
        let mut reader = BufReader::new(&archive.file).take(1 << 10);
        reader.read_until(b'\n', &mut first).map_err(refused)?;
        if let Some(ReceiptLine::Version(other)) = parse(first.trim_ascii_end())
            && other != VERSION
        {
            let what = format!(
                "{}: was written by another version of undertone: its format is {other}, this version reads {VERSION}",
                path.display()
            );
            return Err(Failure::usage(what)
                .field("state")
                .hint("start that version, or move the file away: nothing was changed"));
        }
        Ok(Receipts(Mutex::new(archive)))
    }

    fn archive(&self) -> MutexGuard<'_, Archive> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at all lines that were not looked at yet, and notes those that are damaged.
    pub(super) fn look_through(&self) -> Result<(), Failure> {
        let mut archive = self.archive();
        let looked = archive.catch_up().map(drop);
        looked.map_err(|e| unusable(&archive.path, &e))
    }

    /// Keeps a run's receipt: on disk when this returns. One that is kept already is not written
    /// again.
    ///
    /// # Errors
    /// A disk that is full, or fails; the receipt is not there then.
    pub(super) fn keep(&self, digest: &str, [receipt, signature]: [String; 2]) -> Result<(), Failure> {
        let kept = KeptReceipt::new(digest.to_owned(), [receipt, signature]);
        let mut archive = self.archive();
        let written = archive.keep(&kept);
        written.map_err(|e| unusable(&archive.path, &e))
    }

    /// The receipt of a run, byte for byte as it was written.
    ///
    /// # Errors
    /// It is damaged.
    pub(super) fn read(&self, digest: &str) -> Result<Option<KeptReceipt>, Failure> {
        let mut archive = self.archive();
        let read = archive.catch_up().and_then(|_| archive.read(digest));
        let found = read.map_err(|e| {
            Failure::new(Exit::Internal, format!("{}: {e}", archive.path.display())).hint(RESTORE)
        })?;
        let damaged = |line: &&DamagedLine| line.digest.as_deref() == Some(digest);
        match (found, archive.damaged.iter().find(damaged)) {
            (Some(kept), _) => Ok(Some(kept)),
            (None, Some(line)) => Err(Failure::new(Exit::Internal, named(line)).hint(RESTORE)),
            (None, None) => Ok(None),
        }
    }

    /// Whether the run's receipt is known to be here; not yet while the file is being read.
    pub(super) fn has(&self, digest: &str) -> bool {
        let (Some(plan), Ok(archive)) = (PlanDigest::parse(digest), self.0.try_lock()) else {
            return false;
        };
        archive.places.get(&plan).is_some()
    }

    /// Names the damaged lines that were found so far.
    pub(super) fn damaged(&self) -> Vec<String> {
        // Whoever asks for readiness does not wait until a long file is read.
        let Ok(archive) = self.0.try_lock() else {
            return vec![];
        };
        archive.damaged.iter().take(MOST_NAMED).map(named).collect()
    }
}

const RESTORE: &str = "restore the file `receipts` from a backup of the state folder";

fn named(line: &DamagedLine) -> String {
    let of = line.digest.iter().map(|digest| format!(", of run {digest},"));
    format!(
        "receipts: line {}{} is not what was written",
        line.number,
        of.collect::<String>()
    )
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::storage(error, format!("{}: cannot be used: {error}", path.display()))
        .hint("keep it where this process can read and write, on a disk that is not full")
}

/// The latest receipt of a run in a file of receipts, which is not changed.
///
/// # Errors
/// A file that cannot be read; `None` where no sound line has it.
pub(crate) fn find(path: &Path, digest: &str) -> io::Result<Option<KeptReceipt>> {
    let (file, mut found) = (input_file::open(path)?, None);
    each_line(&file, 0, |_, line| {
        if let Some(ReceiptLine::Receipt(kept)) = parse(line)
            && kept.digest == digest
        {
            found = Some(kept);
        }
        Ok(())
    })?;
    Ok(found)
}

/// All receipts in a file of receipts that are whole, in its order.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn all(path: &Path) -> io::Result<Vec<KeptReceipt>> {
    let (file, mut found) = (input_file::open(path)?, vec![]);
    each_line(&file, 0, |_, line| {
        if let Some(ReceiptLine::Receipt(kept)) = parse(line) {
            found.push(kept);
        }
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests;
