use std::path::PathBuf;

use super::*;
use crate::party::journal::disk;
use crate::party::plan_digest::PlanDigest;

const PLANS: u64 = 700;

fn plan(number: u64) -> PlanDigest {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    PlanDigest::parse(&format!("{spread:016x}").repeat(4)).unwrap()
}

/// A journal of numbers, the map of them by plan, and the number of the last.
struct Numbers {
    journal: Journal,
    map: PlanMap<PlanDigest, u64>,
    last: u64,
    /// Lines that opening it read.
    read: u64,
}

fn checkpoint(folder: &Path) -> PathBuf {
    folder.join("numbers.sorted")
}

impl Numbers {
    fn open(folder: &Path) -> Self {
        let mut journal = Journal::open(&folder.join("numbers"), 1, disk()).unwrap();
        let mut map = PlanMap::new(Some(folder));
        let mut last = resume(&mut map, &checkpoint(folder), &mut journal).unwrap_or(0);
        let mut read = 0;
        let rest = journal.read(&mut |json| {
            last = json.parse().unwrap();
            map.insert(plan(last), last);
            read += 1;
            true
        });
        assert_eq!(rest.unwrap(), [0; 0]);
        keep(&mut map, &checkpoint(folder), &journal, last);
        Numbers {
            journal,
            map,
            last,
            read,
        }
    }

    fn add(&mut self, folder: &Path) {
        self.last += 1;
        self.journal.append(&self.last).unwrap();
        self.map.insert(plan(self.last), self.last);
        keep(&mut self.map, &checkpoint(folder), &self.journal, self.last);
    }

    fn is_whole(&self, plans: u64) {
        assert_eq!((self.last, self.map.iter().count() as u64), (plans, plans));
        assert!((1..=plans).all(|number| self.map.get(&plan(number)) == Some(number)));
    }
}

fn filled(folder: &Path) {
    let mut numbers = Numbers::open(folder);
    (0..PLANS).for_each(|_| numbers.add(folder));
    numbers.is_whole(PLANS);
}

#[test]
fn a_journal_goes_on_behind_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    let mut numbers = Numbers::open(folder.path());
    // Checkpoints were made at 257 and 514.
    assert_eq!(numbers.read, PLANS - 514);
    numbers.is_whole(PLANS);
    (0..PLANS).for_each(|_| numbers.add(folder.path()));
    numbers.is_whole(2 * PLANS);
    let reopened = Numbers::open(folder.path());
    assert!(reopened.read < 257);
    reopened.is_whole(2 * PLANS);
    // Nothing else is left behind.
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["numbers", "numbers.sorted"]);
}

/// A process that was killed while it made a checkpoint leaves a file, which the next one replaces.
#[test]
fn what_a_kill_has_left_of_a_checkpoint_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("numbers.sorted.new");
    std::fs::write(&left, "half of a checkpoint").unwrap();
    filled(folder.path());
    assert!(!left.exists());
    assert_eq!(Numbers::open(folder.path()).read, PLANS - 514);
}

/// Any byte of it, or its end: the journal is read from its beginning, and has the same to say.
#[test]
fn a_checkpoint_that_is_damaged_or_gone_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    let path = checkpoint(folder.path());
    let whole = std::fs::read(&path).unwrap();
    let same_again = || {
        let numbers = Numbers::open(folder.path());
        assert_eq!(numbers.read, PLANS);
        numbers.is_whole(PLANS);
    };
    for at in (0..whole.len()).step_by(997).chain([0, whole.len() - 1]) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        same_again();
    }
    for length in [0, 1, 31, 32, 33, 100, whole.len() - 40, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        same_again();
    }
    std::fs::remove_file(&path).unwrap();
    same_again();
    // Which made another one, of all of them.
    assert_eq!(Numbers::open(folder.path()).read, 0);
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(Numbers::open(folder.path()).read, PLANS - 514);
}

/// It has more plans than are in memory while it is read.
#[test]
fn a_long_journal_that_was_read_whole_has_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = Numbers::open(folder.path());
    for number in 1..=5000u64 {
        numbers.journal.append(&number).unwrap();
    }
    for read in [5000, 0] {
        let numbers = Numbers::open(folder.path());
        assert_eq!(numbers.read, read);
        numbers.is_whole(5000);
    }
}

/// A journal that was restored from before the checkpoint, and one that went on otherwise.
#[test]
fn a_checkpoint_of_another_journal_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = Numbers::open(folder.path());
    (0..100).for_each(|_| numbers.add(folder.path()));
    let early = std::fs::read(folder.path().join("numbers")).unwrap();
    (0..600).for_each(|_| numbers.add(folder.path()));
    std::fs::write(folder.path().join("numbers"), &early).unwrap();
    let mut restored = Numbers::open(folder.path());
    assert_eq!(restored.read, 100);
    restored.is_whole(100);
    // As long as the other, and with other lines.
    restored.last = 10_000;
    for _ in 0..600 {
        restored.last += 1;
        restored.journal.append(&restored.last).unwrap();
    }
    assert_eq!(Numbers::open(folder.path()).read, 700);
}

/// Records of another version have another length.
#[test]
fn a_checkpoint_with_other_records_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    let mut journal = Journal::open(&folder.path().join("numbers"), 1, disk()).unwrap();
    let mut map: PlanMap<PlanDigest, u32> = PlanMap::new(Some(folder.path()));
    assert_eq!(
        resume::<_, _, u64>(&mut map, &checkpoint(folder.path()), &mut journal),
        None
    );
    let mut map: PlanMap<PlanDigest, u64> = PlanMap::new(Some(folder.path()));
    assert_eq!(
        resume(&mut map, &checkpoint(folder.path()), &mut journal),
        Some(514u64)
    );
}
