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
const PIECE: u64 = 128;

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
    unreadable: AtomicBool,
}

/// A file of records, in the order of their keys.
#[derive(Debug)]
pub(super) struct Sorted {
    pub(super) file: File,
    /// The place of the first record: 0 in a file without a name.
    pub(super) begin: u64,
    pub(super) count: u64,
}

impl Sorted {
    /// The bytes of the records from one place up to another, of so many bytes each.
    fn piece(&self, from: u64, to: u64, each: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (to - from) as usize * each];
        self.file
            .read_exact_at(&mut bytes, self.begin + from * each as u64)?;
        Ok(bytes)
    }

    fn find<K: Key, V: Fixed>(&self, key: K) -> io::Result<Option<V>> {
        let (mut low, mut high) = (0, self.count);
        let mut at = ((u128::from(key.leading()) * u128::from(self.count)) >> 64) as u64;
        while low < high {
            let from = at.saturating_sub(PIECE / 2).max(low);
            let to = (from + PIECE).min(high);
            let each = <(K, V)>::BYTES;
            let piece = self.piece(from, to, each)?;
            let records: Vec<&[u8]> = piece.chunks_exact(each).collect();
            match records.binary_search_by_key(&key, |record| K::get(&record[..K::BYTES])) {
                Ok(at) => return Ok(Some(V::get(&records[at][K::BYTES..]))),
                Err(0) => high = from,
                Err(at) if at == records.len() => low = to,
                Err(_) => return Ok(None),
            }
            at = low + (high - low) / 2;
        }
        Ok(None)
    }

    /// All records, some of them in memory at a time.
    fn iter<K: Fixed, V: Fixed>(&self) -> impl Iterator<Item = io::Result<(K, V)>> {
        let each = <(K, V)>::BYTES;
        let (mut at, mut piece, mut read) = (0, vec![], 0);
        std::iter::from_fn(move || {
            if read == piece.len() {
                if at == self.count {
                    return None;
                }
                let from = at;
                at = (from + PIECE).min(self.count);
                (piece, read) = match self.piece(from, at, each) {
                    Ok(piece) => (piece, 0),
                    Err(error) => {
                        (at, read) = (self.count, piece.len());
                        return Some(Err(error));
                    }
                };
            }
            read += each;
            Some(Ok(Fixed::get(&piece[read - each..read])))
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
        let share = self.sorted.as_ref().map_or(0, |sorted| sorted.count / share);
        RECENT.max(usize::try_from(share).unwrap_or(usize::MAX))
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
            let count = self.write(&mut writer)?;
            let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
            Ok(Sorted {
                file,
                begin: 0,
                count,
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
            }
            // Memory has room where the disk has none; the next one tries again.
            Err(error) => tracing::debug!(%error, "what is known of plans stays in memory"),
        }
    }

    /// Writes the records of all plans, and returns how many they are.
    ///
    /// # Errors
    /// The file cannot be written, or a plan of the file before cannot be read.
    pub(super) fn write(&self, writer: &mut impl Write) -> io::Result<u64> {
        let (mut bytes, mut count) = (vec![], 0);
        for record in self.iter() {
            bytes.clear();
            record.put(&mut bytes);
            writer.write_all(&bytes)?;
            count += 1;
        }
        match self.is_sound() {
            true => Ok(count),
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
