//! Archives in the format of `tar` (POSIX ustar), as much of it as a backup needs: files with short
//! names, whole in memory.

use std::io::{self, Read, Write};

/// The bytes of a header, and what each file is filled up to a multiple of.
const BLOCK: usize = 512;

/// The longest file that is read, in bytes. Our choice: a ledger of a year has some megabytes.
const LONGEST: u64 = 4 << 30;

/// The most files that are read.
const MOST_FILES: usize = 64;

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taped {
    /// Its name, without a folder.
    pub(super) name: String,
    /// Its content.
    pub(super) bytes: Vec<u8>,
}

/// Writes an archive whose files are their owner's alone, of a moment in milliseconds since 1970.
pub(super) fn write(out: &mut dyn Write, files: &[Taped], at_ms: u64) -> io::Result<()> {
    for file in files {
        out.write_all(&header(file, at_ms / 1000)?)?;
        out.write_all(&file.bytes)?;
        let over = file.bytes.len() % BLOCK;
        out.write_all(&[0; BLOCK][..(BLOCK - over) % BLOCK])?;
    }
    out.write_all(&[0; 2 * BLOCK])
}

fn header(file: &Taped, at_s: u64) -> io::Result<[u8; BLOCK]> {
    let mut header = [0; BLOCK];
    if file.name.len() > 99 {
        return Err(io::Error::other("the name is too long for a header"));
    }
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, &file.name);
    put(100, "0000600\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", file.bytes.len()));
    put(136, &format!("{at_s:011o}\0"));
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// Reads an archive.
///
/// # Errors
/// It is no such archive, or cut short, or larger than anything that is written here.
pub(super) fn read(from: &mut dyn Read) -> io::Result<Vec<Taped>> {
    let mut files = vec![];
    loop {
        let mut header = [0; BLOCK];
        from.read_exact(&mut header)?;
        if header == [0; BLOCK] {
            return Ok(files);
        }
        let (name, length) = parse(&header).ok_or_else(|| io::Error::other("it is no archive of tar"))?;
        if length > LONGEST || files.len() == MOST_FILES {
            return Err(io::Error::other("it is larger than any backup"));
        }
        // Grows with what is really there.
        let mut bytes = vec![];
        let padded = length.next_multiple_of(BLOCK as u64);
        if from.take(padded).read_to_end(&mut bytes)? as u64 != padded {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(length as usize);
        files.push(Taped { name, bytes });
    }
}

/// Name and length of a header whose checksum fits.
fn parse(header: &[u8; BLOCK]) -> Option<(String, u64)> {
    let number = |part: &[u8]| {
        let text = std::str::from_utf8(part).ok()?;
        u64::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
    };
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(at, &byte)| {
            if (148..156).contains(&at) {
                32
            } else {
                u64::from(byte)
            }
        })
        .sum();
    let name: Vec<u8> = header[..100]
        .iter()
        .copied()
        .take_while(|&byte| byte != 0)
        .collect();
    let fits = number(&header[148..156])? == sum && header[257..].starts_with(b"ustar");
    Some((
        String::from_utf8(name).ok().filter(|_| fits)?,
        number(&header[124..136])?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taped(name: &str, length: usize) -> Taped {
        Taped {
            name: name.into(),
            bytes: vec![7; length],
        }
    }

    #[test]
    fn an_archive_is_read_as_it_was_written_and_by_tar() {
        let files = [taped("ledger", 0), taped("marks", 512), taped("receipts", 70_001)];
        let mut archive = vec![];
        write(&mut archive, &files, 1_772_357_400_000).expect("written");
        assert_eq!(read(&mut &archive[..]).expect("read"), files);
        for end in [0, 511, 600, archive.len() - 1024] {
            read(&mut &archive[..end]).expect_err("cut short");
        }
        let mut changed = archive.clone();
        changed[0] ^= 1;
        read(&mut &changed[..]).expect_err("another header");
        read(&mut &[1; 2048][..]).expect_err("no archive");
        // The system's own program reads it, where there is one.
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.tar"), &archive).expect("writable");
        let listed = std::process::Command::new("tar")
            .args(["-tf", "a.tar"])
            .current_dir(folder.path())
            .output();
        if let Ok(listed) = listed {
            assert_eq!(
                String::from_utf8_lossy(&listed.stdout),
                "ledger\nmarks\nreceipts\n"
            );
        }
    }
}
