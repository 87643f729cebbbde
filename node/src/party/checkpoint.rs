//! A checkpoint of a journal: all that it says up to a place, sorted by plan, in a file of its own.
//! Who opens the journal next reads what came after, so that a restart takes as long after years as
//! after days.
//!
//! The file is a line of JSON, the records of a [`PlanMap`], and SHA-256 of both. It belongs to a
//! journal that has the same checksum at the same place, which depends on each byte before: of one
//! that was restored, or is another one, it is ignored. It is made of the journal alone, and may be
//! lost: then the journal is read from its beginning.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::party::journal::{Journal, JournalPlace};
use crate::party::plan_map::{Fixed, Key, PIECE, PlanMap, Records, Sorted};

/// The format of the file.
const VERSION: u32 = 1;

/// Bytes of the checksum.
const SUM: u64 = 32;

/// The first line.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Head<S> {
    version: u32,
    /// The bytes of a record: they say which version of a record it is.
    each: usize,
    count: u64,
    /// The place in the journal up to which the records are complete.
    place: JournalPlace,
    /// The reader's other state at that place.
    state: S,
}

/// Hashes what is written through it.
struct Hashed<W> {
    inner: W,
    hasher: Sha256,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Moves all plans of a map into the checkpoint at a path, if more are in memory than may stay
/// there. Every entry of the journal has to be in map and state, and nothing else.
pub fn keep<K: Key, V: Fixed, S: Serialize>(
    map: &mut PlanMap<K, V>,
    path: &Path,
    journal: &Journal,
    state: S,
) {
    // What was read from the whole journal may be sorted already, in a file without a name.
    let unnamed = map.sorted.as_ref().is_some_and(|sorted| sorted.begin == 0);
    if map.folder.is_none() || !(map.is_full() || unnamed) {
        return;
    }
    let sorted = written(map, path, journal.place(), state);
    map.take_up(sorted);
}

fn written<K: Key, V: Fixed, S: Serialize>(
    map: &PlanMap<K, V>,
    path: &Path,
    place: JournalPlace,
    state: S,
) -> io::Result<Sorted> {
    // One name, so that a process that is killed here leaves one file, which the next one replaces.
    let new = path.with_extension("sorted.new");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    let written = written_to(file, map, place, state);
    let moved = written.and_then(|sorted| std::fs::rename(&new, path).map(|()| sorted));
    if moved.is_err() {
        // It takes room that others need.
        let _ = std::fs::remove_file(&new);
    }
    moved
}

fn written_to<K: Key, V: Fixed, S: Serialize>(
    file: File,
    map: &PlanMap<K, V>,
    place: JournalPlace,
    state: S,
) -> io::Result<Sorted> {
    let mut writer = Hashed {
        inner: BufWriter::new(file),
        hasher: Sha256::new(),
    };
    let head = Head {
        version: VERSION,
        each: <(K, V)>::BYTES,
        count: map.iter().count() as u64,
        place,
        state,
    };
    let mut line = serde_json::to_string(&head)?;
    line.push('\n');
    writer.write_all(line.as_bytes())?;
    let records = map.write(&mut writer)?;
    let Hashed { mut inner, hasher } = writer;
    inner.write_all(&hasher.finalize())?;
    // Not synced: one that a power cut has torn is seen to be torn.
    let file = inner.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(Sorted {
        file,
        begin: line.len() as u64,
        records,
    })
}

/// Takes up the checkpoint at a path, if it is one of this journal, which goes on behind it. Both
/// have to be empty yet. Returns the state that was kept with it.
pub fn resume<K: Key, V: Fixed, S: DeserializeOwned>(
    map: &mut PlanMap<K, V>,
    path: &Path,
    journal: &mut Journal,
) -> Option<S> {
    let found = read::<S>(path, <(K, V)>::BYTES);
    let (sorted, place, state) = match found {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::info!(path = %path.display(), %error, "a checkpoint is of no use: the whole journal is read");
            return None;
        }
    };
    if !journal.resume(place) {
        tracing::info!(path = %path.display(), "a checkpoint is of another journal: the whole journal is read");
        return None;
    }
    map.sorted = Some(sorted);
    Some(state)
}

fn read<S: DeserializeOwned>(path: &Path, each: usize) -> io::Result<(Sorted, JournalPlace, S)> {
    let torn = || io::Error::from(io::ErrorKind::InvalidData);
    let file = File::open(path)?;
    let length = file.metadata()?.len().checked_sub(SUM).ok_or_else(torn)?;
    let mut reader = BufReader::new(&file);
    let mut line = vec![];
    reader.by_ref().take(length).read_until(b'\n', &mut line)?;
    let mut hashing = Hashed {
        inner: io::sink(),
        hasher: Sha256::new(),
    };
    hashing.write_all(&line)?;
    let begin = line.len() as u64;
    let mut records = Records::default();
    let mut piece = vec![];
    while reader
        .by_ref()
        .take((length - begin - records.count * each as u64).min(PIECE * each as u64))
        .read_to_end(&mut piece)?
        > 0
    {
        hashing.write_all(&piece)?;
        records.add(&piece, each);
        piece.clear();
    }
    let mut sum = vec![];
    reader.read_to_end(&mut sum)?;
    if sum[..] != hashing.hasher.finalize()[..] {
        return Err(torn());
    }
    let head: Head<S> = serde_json::from_slice(&line)?;
    let whole = head.count == records.count && head.count.checked_mul(each as u64) == Some(length - begin);
    if head.version != VERSION || head.each != each || !whole {
        return Err(torn());
    }
    let Head { place, state, .. } = head;
    let sorted = Sorted { file, begin, records };
    Ok((sorted, place, state))
}

#[cfg(test)]
mod tests;
