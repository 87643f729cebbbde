//! Archives of `tar` (POSIX ustar) and of `ar`, whose bytes follow from their contents alone: one
//! time for all, entries in the order of their paths.

use std::collections::BTreeMap;
use std::io;

/// The size of a block of `tar`.
const BLOCK: usize = 512;
/// The longest path that a header has room for, without its prefix.
const LONGEST_PATH: usize = 100;

/// One file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedFile {
    /// The file's permissions, such as 0o644.
    pub mode: u32,
    /// The number of the account and of the group that it belongs to.
    pub owner: u32,
    /// The file's contents.
    pub bytes: Vec<u8>,
}

impl PackedFile {
    /// A file that everybody may read.
    pub fn plain(bytes: impl Into<Vec<u8>>) -> Self {
        PackedFile {
            mode: 0o644,
            owner: 0,
            bytes: bytes.into(),
        }
    }

    /// A program or script that everybody may run.
    pub fn program(bytes: impl Into<Vec<u8>>) -> Self {
        PackedFile {
            mode: 0o755,
            owner: 0,
            bytes: bytes.into(),
        }
    }

    /// An empty folder that everybody may enter.
    pub fn folder() -> Self {
        PackedFile::program([])
    }
}

/// Files by their paths, which are relative and have `/` between their parts. A path that ends with
/// `/` is a folder.
pub type Files = BTreeMap<String, PackedFile>;

/// Packs files, with the folders that they lie in, below `prefix` (which ends with `/`). `seconds`
/// since 1970 is the time of each entry.
pub fn tar(files: &Files, prefix: &str, seconds: u64) -> io::Result<Vec<u8>> {
    let mut entries: BTreeMap<String, Option<&PackedFile>> = BTreeMap::new();
    for (path, file) in files {
        let path = format!("{prefix}{path}");
        for (end, _) in path.match_indices('/') {
            entries.entry(path[..=end].to_owned()).or_default();
        }
        entries.insert(path, Some(file));
    }
    let (mut archive, folder) = (vec![], PackedFile::folder());
    for (path, file) in entries {
        let file = file.unwrap_or(&folder);
        archive.extend(header(&path, file, seconds)?);
        archive.extend_from_slice(&file.bytes);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    Ok(archive)
}

fn header(path: &str, file: &PackedFile, seconds: u64) -> io::Result<[u8; BLOCK]> {
    if path.len() > LONGEST_PATH {
        let message = format!("{path}: longer than the {LONGEST_PATH} bytes of a path in ustar");
        return Err(io::Error::other(message));
    }
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, path);
    put(100, &format!("{:07o}", file.mode));
    put(108, &format!("{:07o}", file.owner));
    put(116, &format!("{:07o}", file.owner));
    put(124, &format!("{:011o}", file.bytes.len()));
    put(136, &format!("{seconds:011o}"));
    // The sum is taken over a header that has spaces in its place.
    put(148, "        ");
    put(257, "ustar");
    put(263, "00");
    if file.owner == 0 {
        put(265, "root");
        put(297, "root");
    }
    header[156] = if path.ends_with('/') { b'5' } else { b'0' };
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    Ok(header)
}

/// Packs members in this order into an archive of `ar`, as a `.deb` is one.
pub fn ar(members: &[(&str, &[u8])], seconds: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let header = format!(
            "{name:<16}{seconds:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            0,
            0,
            100_644,
            bytes.len()
        );
        archive.extend(header.bytes());
        archive.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn tar_lists_what_was_packed_with_its_modes_and_times() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files::from([
            ("bin/tool".to_owned(), PackedFile::program(*b"#!/bin/sh\n")),
            ("etc/empty/".to_owned(), PackedFile::folder()),
            (
                "var/own/".to_owned(),
                PackedFile {
                    mode: 0o700,
                    owner: 10_001,
                    bytes: vec![],
                },
            ),
            ("a.txt".to_owned(), PackedFile::plain(vec![b'x'; 600])),
        ]);
        let path = folder.path().join("a.tar");
        std::fs::write(&path, tar(&files, "./", 86_400).expect("short paths")).expect("writable");
        let listed = Command::new("tar")
            .args(["--utc", "--full-time", "-tvf"])
            .arg(&path)
            .output()
            .expect("tar is there");
        assert!(listed.status.success(), "{listed:?}");
        let listed = String::from_utf8(listed.stdout).expect("text");
        let words: Vec<Vec<&str>> = listed
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let row = |mode, size, path| vec![mode, "root/root", size, "1970-01-02", "00:00:00", path];
        assert_eq!(
            words,
            [
                row("drwxr-xr-x", "0", "./"),
                row("-rw-r--r--", "600", "./a.txt"),
                row("drwxr-xr-x", "0", "./bin/"),
                row("-rwxr-xr-x", "10", "./bin/tool"),
                row("drwxr-xr-x", "0", "./etc/"),
                row("drwxr-xr-x", "0", "./etc/empty/"),
                row("drwxr-xr-x", "0", "./var/"),
                vec![
                    "drwx------",
                    "10001/10001",
                    "0",
                    "1970-01-02",
                    "00:00:00",
                    "./var/own/"
                ],
            ]
        );
    }

    #[test]
    fn a_path_without_room_in_a_header_is_refused_by_name() {
        let long = "x".repeat(101);
        let files = Files::from([(long.clone(), PackedFile::plain([]))]);
        let refused = tar(&files, "", 0).expect_err("too long").to_string();
        assert!(refused.starts_with(&long), "{refused}");
    }

    #[test]
    fn members_of_ar_begin_at_even_places() {
        let archive = ar(&[("a", b"odd"), ("b", b"even")], 7);
        let text = String::from_utf8(archive).expect("text");
        let header = |name, size| format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 7, 0, 0, 100_644);
        let expected = format!("!<arch>\n{}odd\n{}even", header("a", 3), header("b", 4));
        assert_eq!(text, expected);
    }
}
