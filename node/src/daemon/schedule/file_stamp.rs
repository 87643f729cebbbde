//! The stamp of a data set's file, which needs no reading of it: whether it is young enough, and
//! still the same when it is read.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A file as it was at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::daemon) struct FileStamp {
    /// When it was written last, in nanoseconds since 1970.
    written_ns: i128,
    bytes: u64,
    inode: u64,
}

impl FileStamp {
    /// Looks at a file.
    pub(in crate::daemon) fn of(path: &Path) -> io::Result<Self> {
        let found = path.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
        }
        Ok(FileStamp {
            written_ns: i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()),
            bytes: found.len(),
            inode: found.ino(),
        })
    }

    /// Its age at a moment in milliseconds since 1970, in seconds; below 0 if it is from later.
    pub(in crate::daemon) fn age_s(&self, now_ms: u64) -> i128 {
        let age = i128::from(now_ms) * 1_000_000 - self.written_ns;
        age / 1_000_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_an_age_and_is_another_once_it_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ward.csv");
        FileStamp::of(&path).expect_err("there is none");
        FileStamp::of(folder.path()).expect_err("a folder");
        std::fs::write(&path, "1\n").unwrap();
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        let at = |seconds| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        file.set_modified(at(1_000_000)).unwrap();
        let first = FileStamp::of(&path).unwrap();
        assert_eq!(
            (first.age_s(1_000_060_999), first.age_s(999_000_000)),
            (60, -1000)
        );
        assert_eq!(FileStamp::of(&path).unwrap(), first);
        file.set_modified(at(1_000_001)).unwrap();
        assert_ne!(FileStamp::of(&path).unwrap(), first);
        // As long, as old, and put in its place.
        file.set_modified(at(1_000_000)).unwrap();
        let other = folder.path().join("other.csv");
        std::fs::write(&other, "2\n").unwrap();
        let twin = std::fs::File::options().append(true).open(&other).unwrap();
        twin.set_modified(at(1_000_000)).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_ne!(FileStamp::of(&path).unwrap(), first);
    }
}
