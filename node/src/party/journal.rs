//! A file that only grows: a line an entry, on disk before [`Journal::append`] returns.
//!
//! A line is `JSON CHECKSUM`: SHA-256, in hex, of the checksum before, a line feed and the JSON.
//! The first line, `{"version":N}`, says the format; it keeps its form in every version. A last
//! line without its line feed was torn when its writer was killed, and was not synced. Anything
//! else that does not fit is refused.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::reporting::failure::Failure;

/// A step on the disk, in the order in which steps are done. Who does it is an argument: a test
/// follows the order, and has any step fail.
pub enum Step<'a> {
    /// These bytes are added to the file.
    Write(&'a File, &'a [u8]),
    /// The file's bytes, and its length, are on disk when this returns.
    Sync(&'a File),
    /// The folder's names are: of a file that is new.
    SyncFolder(&'a Path),
    /// The file is cut to this length.
    Cut(&'a File, u64),
}

/// Bytes that are read at a time: a file of a year does not stand in memory. Our choice.
const PIECE: u64 = 1 << 20;

/// The function that does the steps.
pub type Disk = Box<dyn FnMut(Step<'_>) -> io::Result<()> + Send>;

/// The system's disk.
pub fn disk() -> Disk {
    Box::new(|step| match step {
        Step::Write(mut file, bytes) => file.write_all(bytes),
        Step::Sync(file) => file.sync_data(),
        Step::SyncFolder(folder) => File::open(folder)?.sync_all(),
        Step::Cut(file, length) => file.set_len(length),
    })
}

/// The first line of a file that only grows.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FirstLine {
    /// The version of the file's format, from 1.
    pub version: u32,
}

/// A place in a journal: behind a line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JournalPlace {
    /// Bytes before it.
    length: u64,
    /// Lines before it.
    lines: u64,
    /// The checksum of the last of them, which depends on all.
    last: String,
}

/// Characters of a checksum.
const DIGITS: usize = 64;

/// The reasons why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The system cannot.
    #[error("cannot be used: {0}")]
    Io(#[from] io::Error),
    /// A line is not what was written: its number, from 1.
    #[error("is corrupt: line {0} is not what was written")]
    Corrupt(u64),
    /// Its version, which is above ours.
    #[error("was written by a newer version of undertone: its format is {0}, this version reads {1}")]
    Newer(u32, u32),
    /// Its version, which is below ours.
    #[error("was written by an earlier version of undertone: its format is {0}, this version reads {1}")]
    Earlier(u32, u32),
}

impl Fault {
    /// The failure that ends a command: exit 75 where the disk is full, else 2. `backup` is the
    /// hint where the file itself cannot be read.
    pub fn failure(&self, path: &Path, backup: &str) -> Failure {
        let message = format!("{}: {self}", path.display());
        match self {
            Fault::Io(e) => Failure::storage(e, message)
                .hint("keep it where this process can write, on a disk that is not full"),
            Fault::Corrupt(_) | Fault::Earlier(..) => Failure::usage(message).hint(backup),
            Fault::Newer(..) => {
                Failure::usage(message).hint("start that version, or a later one: nothing was changed")
            }
        }
    }
}

/// An open journal.
pub struct Journal {
    path: PathBuf,
    version: u32,
    file: File,
    disk: Disk,
    /// The length that was read or written so far, and its last checksum.
    length: u64,
    lines: u64,
    last: String,
    /// A write failed and could not be taken back: nothing more is written until it is opened
    /// again.
    broken: bool,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        write!(f, "Journal({path}, {} lines)", self.lines)
    }
}

impl Journal {
    /// Opens the file, or makes it, with mode 0600. Nothing is read or written yet.
    pub fn open(path: &Path, version: u32, disk: Disk) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        Ok(Journal {
            path: path.to_owned(),
            version,
            file,
            disk,
            length: 0,
            lines: 0,
            last: String::new(),
            broken: false,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, to lock it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether entries can be written.
    pub fn is_sound(&self) -> bool {
        !self.broken
    }

    /// The place up to which it was read and written.
    pub fn place(&self) -> JournalPlace {
        JournalPlace {
            length: self.length,
            lines: self.lines,
            last: self.last.clone(),
        }
    }

    /// Goes on from a place that was this journal's once, without reading what is before it. False,
    /// and nothing happens, if it is not: the file was replaced, or something was read already.
    pub fn resume(&mut self, place: JournalPlace) -> bool {
        let mut end = [0; DIGITS + 1];
        let begin = place.length.checked_sub(end.len() as u64);
        let read = begin.and_then(|begin| self.file.read_exact_at(&mut end, begin).ok());
        let same = read.is_some() && end[..DIGITS] == *place.last.as_bytes() && end[DIGITS] == b'\n';
        if same && self.lines == 0 {
            (self.length, self.lines, self.last) = (place.length, place.lines, place.last);
            return true;
        }
        false
    }

    /// Hands over the JSON of every whole line that was added since the last time; what does not
    /// fit `take` is corrupt. The bytes of a torn line come back: they are not read again, and
    /// [`Journal::cut`] takes them away.
    pub fn read(&mut self, take: &mut dyn FnMut(&str) -> bool) -> Result<Vec<u8>, Fault> {
        let end = self.file.metadata()?.len();
        if end < self.length {
            return Err(Fault::Corrupt(self.lines));
        }
        let (mut at, mut rest) = (self.length, vec![]);
        while at < end {
            let (kept, piece) = (rest.len(), PIECE.min(end - at));
            rest.resize(kept + piece as usize, 0);
            self.file.read_exact_at(&mut rest[kept..], at)?;
            at += piece;
            let whole = rest
                .iter()
                .rposition(|&byte| byte == b'\n')
                .map_or(0, |last| last + 1);
            for line in rest[..whole].split_inclusive(|&byte| byte == b'\n') {
                self.take_line(&line[..line.len() - 1], take)?;
            }
            rest.drain(..whole);
        }
        Ok(rest)
    }

    /// Checks a whole line, without its line feed, and hands over its JSON.
    fn take_line(&mut self, line: &[u8], take: &mut dyn FnMut(&str) -> bool) -> Result<(), Fault> {
        let text = std::str::from_utf8(line).ok();
        let fits = text
            .and_then(|text| text.rsplit_once(' '))
            .filter(|(json, sum)| self.checksum_of(json) == *sum);
        let (json, sum) = fits.ok_or(Fault::Corrupt(self.lines + 1))?;
        match self.lines {
            0 => check_format(json, self.version)?,
            line if take(json) => debug_assert!(line > 0),
            line => return Err(Fault::Corrupt(line + 1)),
        }
        self.last = sum.to_owned();
        self.lines += 1;
        self.length += line.len() as u64 + 1;
        Ok(())
    }

    /// Checks the whole lines of a journal: each has its checksum. Whoever opens one with a
    /// checkpoint has not read what is before it.
    ///
    /// # Errors
    /// The first line that is not what was written, or another version.
    pub fn check(lines: &[u8], version: u32) -> Result<(), Fault> {
        let mut last = String::new();
        for (number, line) in (1..).zip(lines.split_inclusive(|&byte| byte == b'\n')) {
            let text = std::str::from_utf8(line).ok();
            let (json, sum) = text
                .map(|text| text.strip_suffix('\n').unwrap_or(text))
                .and_then(|text| text.rsplit_once(' '))
                .filter(|(json, sum)| checksum(&last, json) == *sum)
                .ok_or(Fault::Corrupt(number))?;
            if number == 1 {
                check_format(json, version)?;
            }
            last = sum.to_owned();
        }
        Ok(())
    }

    /// Takes away what is beyond the last whole line that was read.
    pub fn cut(&mut self) -> io::Result<()> {
        (self.disk)(Step::Cut(&self.file, self.length))?;
        (self.disk)(Step::Sync(&self.file))
    }

    /// Adds an entry to what was read: written, synced, and of a new file the folder synced, when
    /// this returns. If a step fails the entry is taken back; if that fails too nothing more is
    /// written.
    pub fn append(&mut self, entry: &impl Serialize) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other(
                "an earlier entry could not be written; restart the daemon",
            ));
        }
        if self.lines == 0 {
            let version = self.version;
            self.add(&serde_json::to_string(&FirstLine { version })?)?;
        }
        self.add(&serde_json::to_string(entry)?)
    }

    fn add(&mut self, json: &str) -> io::Result<()> {
        let sum = self.checksum_of(json);
        let line = format!("{json} {sum}\n");
        if let Err(error) = self.write(line.as_bytes()) {
            let taken_back = self.cut();
            self.broken = taken_back.is_err();
            return Err(error);
        }
        self.length += line.len() as u64;
        self.lines += 1;
        self.last = sum;
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        (self.disk)(Step::Write(&self.file, line))?;
        (self.disk)(Step::Sync(&self.file))?;
        if self.lines > 0 {
            return Ok(());
        }
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        (self.disk)(Step::SyncFolder(folder.unwrap_or(Path::new("."))))
    }

    fn checksum_of(&self, json: &str) -> String {
        checksum(&self.last, json)
    }
}

/// The checksum of a line's JSON after a line with this checksum, in hex.
fn checksum(last: &str, json: &str) -> String {
    let mut hasher = Sha256::new();
    [last.as_bytes(), b"\n", json.as_bytes()]
        .into_iter()
        .for_each(|part| hasher.update(part));
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    let sum = hasher.finalize();
    let digits = sum.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.collect()
}

fn check_format(json: &str, ours: u32) -> Result<(), Fault> {
    // A newer version may say more in its first line.
    #[derive(Deserialize)]
    struct Said {
        version: u32,
    }
    let Ok(Said { version }) = serde_json::from_str(json) else {
        return Err(Fault::Corrupt(1));
    };
    match version.cmp(&ours) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(Fault::Newer(version, ours)),
        std::cmp::Ordering::Less => Err(Fault::Earlier(version, ours)),
    }
}

#[cfg(test)]
pub(crate) mod tests;
