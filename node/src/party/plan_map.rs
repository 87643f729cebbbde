//! A map from plans to some bytes each, of every run there ever was. All but the latest stand in a
//! file, sorted, so that memory stays as it is for however many runs.
//!
//! A file without a name is gone with its process, and its content is read again from where it came
//! from. One with a name is a [`checkpoint`](crate::party::checkpoint) of a journal.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::iter::Peekable;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest, Sha256};
use undertone_accountant::losses::charge::Charge;

/// Plans that may be in memory, where there are some thousands in all. Our choice: some ten
/// kilobytes.
const RECENT: usize = 256;

/// Where there are more plans, one may be in memory for so many in the file. Sorting copies all of
/// them. Our choice: of a million plans two megabytes are in memory.
const SHARE: u64 = 64;

/// While a journal is read, one plan may be in memory for so many in the file. There is room for a
/// moment, and long files are copied less often. Our choice.
const SHARE_READING: u64 = 8;

/// Records that are read from the file at a time. Our choice: some kilobytes. The digests of many
/// plans are spread evenly, so that one piece at the place where a digest ought to be has it.
pub(super) const PIECE: u64 = 128;

/// A key or a value, of a fixed number of bytes.
pub trait Fixed: Copy {
    /// The number of bytes.
    const BYTES: usize;
    /// Adds the bytes.
    fn put(&self, bytes: &mut Vec<u8>);
    /// Reads what was put. There are as many bytes as there should be.
    fn get(bytes: &[u8]) -> Self;
}

/// A key. Where the leading numbers of two keys differ, they are in the order of these.
pub trait Key: Fixed + Ord {
    /// The first eight bytes of a plan's digest.
    fn leading(&self) -> u64;
}

macro_rules! numbers_are_fixed {
    ($($number:ty)*) => {$(
        impl Fixed for $number {
            const BYTES: usize = size_of::<$number>();

            fn put(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn get(bytes: &[u8]) -> Self {
                let mut number = [0; size_of::<$number>()];
                number.copy_from_slice(bytes);
                <$number>::from_le_bytes(number)
            }
        }
    )*};
}

numbers_are_fixed!(u8 u32 u64 f64);

impl<A: Fixed, B: Fixed> Fixed for (A, B) {
    const BYTES: usize = A::BYTES + B::BYTES;

    fn put(&self, bytes: &mut Vec<u8>) {
        self.0.put(bytes);
        self.1.put(bytes);
    }

    fn get(bytes: &[u8]) -> Self {
        let (first, second) = bytes.split_at(A::BYTES);
        (A::get(first), B::get(second))
    }
}

impl<A: Key, B: Fixed + Ord> Key for (A, B) {
    fn leading(&self) -> u64 {
        self.0.leading()
    }
}

impl Fixed for Charge {
    const BYTES: usize = 3 * f64::BYTES;

    fn put(&self, bytes: &mut Vec<u8>) {
        (self.mu_squared, (self.draw, self.distance)).put(bytes);
    }

    fn get(bytes: &[u8]) -> Self {
        let (mu_squared, (draw, distance)) = Fixed::get(bytes);
        Charge {
            mu_squared,
            draw,
            distance,
        }
    }
}

/// The values of plans, in the order of their keys.
///
/// A file that cannot be read any more has no values: [`PlanMap::is_sound`] says so, and who keeps
/// money or promises here must ask before anything leaves.
#[derive(Debug)]
pub struct PlanMap<K, V> {
    /// Where files are made; none: all stays in memory.
    pub(super) folder: Option<PathBuf>,
    /// Sorted records, nearly all of them.
    pub(super) sorted: Option<Sorted>,
    /// Those that came since. They count where both have one.
    recent: BTreeMap<K, V>,
    /// Plans in memory when a file could not be made the last time; 0 if it could.
    tried: usize,
    unreadable: AtomicBool,
}

/// A file of records, in the order of their keys.
#[derive(Debug)]
pub(super) struct Sorted {
    pub(super) file: File,
    /// The place of the first record: 0 in a file without a name.
    pub(super) begin: u64,
    pub(super) records: Records,
}

/// The facts about records in a file.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) count: u64,
    /// A checksum of each piece, so that what a disk has changed since is not believed.
    sums: Vec<u64>,
}

impl Records {
    /// Counts the records of the next piece, each of so many bytes; all pieces but the last have
    /// [`PIECE`] of them.
    pub(super) fn add(&mut self, piece: &[u8], each: usize) {
        self.count += (piece.len() / each) as u64;
        self.sums.push(sum_of(piece));
    }
}

/// The first eight bytes of a piece's SHA-256.
fn sum_of(piece: &[u8]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(Sha256::digest(piece));
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

impl Sorted {
    /// The records of a piece, of so many bytes each.
    ///
    /// # Errors
    /// It cannot be read, or is not what was written.
    fn piece(&self, number: usize, each: usize) -> io::Result<Vec<u8>> {
        let from = number as u64 * PIECE;
        let count = PIECE.min(self.records.count.saturating_sub(from));
        let mut bytes = vec![0; count as usize * each];
        self.file
            .read_exact_at(&mut bytes, self.begin + from * each as u64)?;
        match self.records.sums.get(number) == Some(&sum_of(&bytes)) {
            true => Ok(bytes),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a piece is not what was written",
            )),
        }
    }

    fn find<K: Key, V: Fixed>(&self, key: K) -> io::Result<Option<V>> {
        let each = <(K, V)>::BYTES;
        let (mut low, mut high, mut near) = (0, self.records.sums.len(), 2u32);
        let mut at = ((u128::from(key.leading()) * high as u128) >> 64) as usize;
        while low < high {
            let piece = self.piece(at, each)?;
            let records: Vec<&[u8]> = piece.chunks_exact(each).collect();
            let next = match records.binary_search_by_key(&key, |record| K::get(&record[..K::BYTES])) {
                Ok(at) => return Ok(Some(V::get(&records[at][K::BYTES..]))),
                Err(0) => {
                    high = at;
                    at.saturating_sub(1)
                }
                Err(place) if place == records.len() => {
                    low = at + 1;
                    low
                }
                Err(_) => return Ok(None),
            };
            // It lies beside the place where it ought to be, if not in it.
            at = if near > 0 { next } else { low + (high - low) / 2 };
            near = near.saturating_sub(1);
        }
        Ok(None)
    }

    /// All records, some of them in memory at a time.
    fn iter<K: Fixed, V: Fixed>(&self) -> impl Iterator<Item = io::Result<(K, V)>> {
        let each = <(K, V)>::BYTES;
        let pieces = 0..self.records.sums.len();
        pieces.flat_map(move |number| {
            let (piece, error) = match self.piece(number, each) {
                Ok(piece) => (piece, None),
                Err(error) => (vec![], Some(Err(error))),
            };
            let records: Vec<_> = piece
                .chunks_exact(each)
                .map(|record| Ok(Fixed::get(record)))
                .collect();
            records.into_iter().chain(error)
        })
    }
}

/// The error of what may not be done while a map is not sound.
pub fn unreadable() -> io::Error {
    io::Error::other("what is known of earlier plans cannot be read; restart the daemon")
}

impl<K: Key, V: Fixed> PlanMap<K, V> {
    /// An empty map, whose files are made in this folder; in none, if all is to stay in memory.
    pub fn new(folder: Option<&Path>) -> Self {
        PlanMap {
            folder: folder.map(Path::to_owned),
            sorted: None,
            recent: BTreeMap::new(),
            tried: 0,
            unreadable: AtomicBool::new(false),
        }
    }

    /// Whether all values can be read. If not it stays so until the process begins anew.
    pub fn is_sound(&self) -> bool {
        !self.unreadable.load(Ordering::Relaxed)
    }

    /// Returns what was read; if it could not be the map is no longer sound.
    fn read<T>(&self, read: io::Result<T>) -> Option<T> {
        read.inspect_err(|error| {
            tracing::error!(%error, "what is known of plans cannot be read: restart the daemon");
            self.unreadable.store(true, Ordering::Relaxed);
        })
        .ok()
    }

    /// The value of a plan.
    pub fn get(&self, key: &K) -> Option<V> {
        if let Some(value) = self.recent.get(key) {
            return Some(*value);
        }
        self.read(self.sorted.as_ref()?.find(*key))?
    }

    /// Puts the value of a plan in the place of the one before, if there was one.
    pub fn insert(&mut self, key: K, value: V) {
        self.recent.insert(key, value);
        if self.recent.len() > self.most(SHARE_READING).max(4 * RECENT) {
            self.sort_in();
        }
    }

    fn most(&self, share: u64) -> usize {
        let share = self
            .sorted
            .as_ref()
            .map_or(0, |sorted| sorted.records.count / share);
        // Where the disk has no room, each attempt copies all for nothing.
        let most = RECENT.max(usize::try_from(share).unwrap_or(usize::MAX));
        most.max(2 * self.tried)
    }

    /// Whether more plans are in memory than may stay there.
    pub fn is_full(&self) -> bool {
        self.recent.len() > self.most(SHARE)
    }

    /// Moves what is in memory into the file, if it is more than may stay there. Call it after what
    /// was inserted one by one.
    pub fn shrink(&mut self) {
        if self.is_full() {
            self.sort_in();
        }
    }

    fn sort_in(&mut self) {
        let Some(folder) = &self.folder else {
            return;
        };
        let sorted = tempfile::tempfile_in(folder).and_then(|file| {
            let mut writer = BufWriter::new(file);
            let records = self.write(&mut writer)?;
            let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
            Ok(Sorted {
                file,
                begin: 0,
                records,
            })
        });
        self.take_up(sorted);
    }

    /// Goes on with a file that was made of all plans.
    pub(super) fn take_up(&mut self, sorted: io::Result<Sorted>) {
        match sorted {
            Ok(sorted) => {
                self.sorted = Some(sorted);
                self.recent.clear();
                self.tried = 0;
            }
            // Memory has room where the disk has none.
            Err(error) => {
                tracing::debug!(%error, "what is known of plans stays in memory");
                self.tried = self.recent.len();
            }
        }
    }

    /// Writes the records of all plans.
    ///
    /// # Errors
    /// The file cannot be written, or a plan of the file before cannot be read.
    pub(super) fn write(&self, writer: &mut impl Write) -> io::Result<Records> {
        let each = <(K, V)>::BYTES;
        let (mut piece, mut records) = (vec![], Records::default());
        let mut plans = self.iter().peekable();
        while let Some(record) = plans.next() {
            record.put(&mut piece);
            if piece.len() == PIECE as usize * each || plans.peek().is_none() {
                records.add(&piece, each);
                writer.write_all(&piece)?;
                piece.clear();
            }
        }
        match self.is_sound() {
            true => Ok(records),
            false => Err(unreadable()),
        }
    }

    /// Looks up keys that come in their order, in one pass over all plans.
    pub fn in_order(&self) -> impl FnMut(&K) -> Option<V> {
        let mut plans = self.iter().peekable();
        move |wanted| {
            while plans.next_if(|(key, _)| key < wanted).is_some() {}
            plans
                .peek()
                .filter(|(key, _)| key == wanted)
                .map(|(_, value)| *value)
        }
    }

    /// All plans, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> {
        let sorted = self.sorted.iter().flat_map(Sorted::iter);
        let mut sorted = sorted.map_while(|read| self.read(read)).peekable();
        let mut recent = self.recent.iter().map(|(key, value)| (*key, *value)).peekable();
        std::iter::from_fn(move || later_of(&mut sorted, &mut recent))
    }
}

/// The next of both in the order of keys; where both have the key, the second's.
fn later_of<K: Ord, V>(
    sorted: &mut Peekable<impl Iterator<Item = (K, V)>>,
    recent: &mut Peekable<impl Iterator<Item = (K, V)>>,
) -> Option<(K, V)> {
    let order = match (sorted.peek(), recent.peek()) {
        (Some((old, _)), Some((new, _))) => old.cmp(new),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, _) => std::cmp::Ordering::Greater,
    };
    match order {
        std::cmp::Ordering::Less => sorted.next(),
        std::cmp::Ordering::Greater => recent.next(),
        std::cmp::Ordering::Equal => {
            sorted.next();
            recent.next()
        }
    }
}

#[cfg(test)]
mod tests;
