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

use crate::telling::failure::Failure;

/// What is done on the disk, in the order in which it is done. Who does it is an argument: a test
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

/// Who does the steps.
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

/// The first line.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FirstLine {
    version: u32,
}

/// Why a journal cannot be read.
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
    /// What was read or written so far, and its last checksum.
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

    /// Hands over the JSON of every whole line that was added since the last time; what does not
    /// fit `take` is corrupt. The bytes of a torn line come back: they are not read again, and
    /// [`Journal::cut`] takes them away.
    pub fn read(&mut self, take: &mut dyn FnMut(&str) -> bool) -> Result<Vec<u8>, Fault> {
        let end = self.file.metadata()?.len();
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(self.length)).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, self.length)?;
        if end < self.length {
            return Err(Fault::Corrupt(self.lines));
        }
        let mut rest = &bytes[..];
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let line = std::str::from_utf8(&rest[..end]).ok();
            let fits = line
                .and_then(|line| line.rsplit_once(' '))
                .filter(|(json, sum)| self.checksum_of(json) == *sum);
            let (json, sum) = fits.ok_or(Fault::Corrupt(self.lines + 1))?;
            match self.lines {
                0 => self.check_format(json)?,
                line if take(json) => debug_assert!(line > 0),
                line => return Err(Fault::Corrupt(line + 1)),
            }
            self.last = sum.to_owned();
            self.lines += 1;
            self.length += end as u64 + 1;
            rest = &rest[end + 1..];
        }
        Ok(rest.to_vec())
    }

    fn check_format(&self, json: &str) -> Result<(), Fault> {
        // A newer version may say more in its first line.
        #[derive(Deserialize)]
        struct Said {
            version: u32,
        }
        let Ok(Said { version }) = serde_json::from_str(json) else {
            return Err(Fault::Corrupt(1));
        };
        match version.cmp(&self.version) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(Fault::Newer(version, self.version)),
            std::cmp::Ordering::Less => Err(Fault::Earlier(version, self.version)),
        }
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
        let sum = Sha256::digest(format!("{}\n{json}", self.last).as_bytes());
        sum.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;
