//! The marks beside a key: which plans it has taken part in, what they may have cost, and how often
//! it revealed its number for a draw.
//!
//! A mark is on disk before the first byte leaves that it stands for. Marks are never deleted and
//! never changed: the latest of a plan counts. One that was torn when its process was killed counts
//! as spent, for every plan whose digest begins with what is left of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use undertone_protocol::messages::commitment::MOST_REVEALS;

use crate::party::journal::{Disk, Fault, Journal};
use crate::telling::failure::{Exit, Failure};

/// The format of the file.
const VERSION: u32 = 1;

/// A line of the file. The digest comes first: it is what a torn line is known by.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    digest: String,
    peer: String,
    mark: Happened,
    /// What the ledger of a daemon says of the plan, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    charge: Option<Value>,
}

/// What happened to a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Happened {
    /// This node's number for the draw of its schedule is revealed.
    Drawn,
    /// Its first share leaves; and later, what it costs has changed.
    Spent,
    /// A line was torn: this is what was left of a digest.
    Torn,
}

/// What the marks say of one plan.
#[derive(Clone, Debug, Default)]
struct Marked {
    draws: u64,
    spent: bool,
    charge: Option<Value>,
}

/// The marks of one file, for one identity.
#[derive(Debug)]
pub struct Marks {
    journal: Journal,
    peer: String,
    /// By digest and identity.
    plans: BTreeMap<(String, String), Marked>,
    torn: Vec<String>,
}

impl Marks {
    /// Reads a file of marks, or makes it when the first mark is written.
    ///
    /// # Errors
    /// It cannot be used, or is not what was written (exit 2); exit 75 on a full disk.
    pub fn open(path: &Path, peer: &str, disk: Disk) -> Result<Self, Failure> {
        let journal = Journal::open(path, VERSION, disk).map_err(|e| refused(path, &e.into()))?;
        let mut marks = Marks {
            journal,
            peer: peer.to_owned(),
            plans: BTreeMap::new(),
            torn: vec![],
        };
        marks.locked(|_| Ok(()))?;
        Ok(marks)
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        self.journal.path()
    }

    /// Whether marks can be written.
    pub fn is_sound(&self) -> bool {
        self.journal.is_sound()
    }

    /// Does something while nobody else writes, with all that others have written.
    fn locked<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Failure>) -> Result<T, Failure> {
        let path = self.journal.path().to_owned();
        let locked = self.journal.file().lock();
        locked.map_err(|e| refused(&path, &e.into()))?;
        let read = self.read().map_err(|fault| refused(&path, &fault));
        let worked = read.and_then(|()| work(self));
        // The lock ends with the file at the latest.
        let _ = self.journal.file().unlock();
        worked
    }

    fn read(&mut self) -> Result<(), Fault> {
        let Marks {
            journal, plans, torn, ..
        } = self;
        let rest = journal.read(&mut |json| {
            let mark = serde_json::from_str(json).ok();
            mark.map(|mark| count(plans, torn, mark)).is_some()
        })?;
        if rest.is_empty() {
            return Ok(());
        }
        // Nobody writes now: whoever wrote this was killed.
        self.journal.cut()?;
        let text = String::from_utf8_lossy(&rest);
        let left = text.strip_prefix(r#"{"digest":""#).unwrap_or_default();
        let digest: String = left.chars().take_while(char::is_ascii_hexdigit).collect();
        tracing::warn!(
            digest,
            "a mark was torn when its process was killed: it counts as spent"
        );
        if !digest.is_empty() {
            self.write(&digest, Happened::Torn, None)?;
        }
        Ok(())
    }

    fn write(&mut self, digest: &str, mark: Happened, charge: Option<Value>) -> Result<(), Fault> {
        let mark = Mark {
            digest: digest.to_owned(),
            peer: self.peer.clone(),
            mark,
            charge,
        };
        self.journal.append(&mark)?;
        count(&mut self.plans, &mut self.torn, mark);
        Ok(())
    }

    fn add(&mut self, digest: &str, mark: Happened, charge: Option<Value>) -> Result<(), Failure> {
        let written = self.write(digest, mark, charge);
        written.map_err(|fault| refused(self.journal.path(), &fault))
    }

    fn marked(&self, digest: &str) -> Option<&Marked> {
        self.plans.get(&(digest.to_owned(), self.peer.clone()))
    }

    /// Whether the plan is spent, by all that was read.
    fn is_spent(&self, digest: &str) -> bool {
        self.marked(digest).is_some_and(|marked| marked.spent)
            || self.torn.iter().any(|left| digest.starts_with(left))
    }

    fn refuse_spent(&self, digest: &str) -> Result<(), Failure> {
        if !self.is_spent(digest) {
            return Ok(());
        }
        Err(Failure::new(
            Exit::PrivacyRefused,
            "this node has already taken part in this plan",
        )
        .field(self.path().display())
        .hint("a second run with fresh noise would cost privacy twice; make a new plan"))
    }

    fn refuse_reveal(&self, digest: &str) -> Result<(), Failure> {
        self.refuse_draws(self.marked(digest).map_or(0, |marked| marked.draws))
    }

    /// Refuses (exit 6) one number more for the draw of a plan's schedule after so many.
    pub fn refuse_draws(&self, draws: u64) -> Result<(), Failure> {
        if draws < MOST_REVEALS {
            return Ok(());
        }
        Err(Failure::new(
            Exit::PrivacyRefused,
            format!(
                "this node has revealed {MOST_REVEALS} numbers for the draw of this plan's schedule, which is the most"
            ),
        )
        .field(self.path().display())
        .hint("make a new plan: who ends runs could choose among ever more draws of this one"))
    }

    /// Refuses (exit 6) a plan that is spent, or of whose draw as many numbers as may be were
    /// revealed. Looked for before anything is sent.
    pub fn check(&mut self, digest: &str) -> Result<(), Failure> {
        self.locked(|marks| {
            marks.refuse_spent(digest)?;
            marks.refuse_reveal(digest)
        })
    }

    /// Refuses (exit 6) a plan that is spent.
    pub fn check_spent(&mut self, digest: &str) -> Result<(), Failure> {
        self.locked(|marks| marks.refuse_spent(digest))
    }

    /// Marks a plan as spent, before the first share leaves; refused (exit 6) if it is. With what a
    /// ledger says of it.
    pub fn spend(&mut self, digest: &str, charge: Option<Value>) -> Result<(), Failure> {
        self.locked(|marks| {
            marks.refuse_spent(digest)?;
            marks.add(digest, Happened::Spent, charge)
        })
    }

    /// Keeps what a ledger says of a plan, which is spent at the latest by that; nothing is written
    /// if that is kept already.
    pub fn keep(&mut self, digest: &str, charge: Value) -> Result<(), Failure> {
        self.locked(|marks| {
            let kept = marks.marked(digest).filter(|marked| marked.spent);
            if kept.is_some_and(|marked| marked.charge.as_ref() == Some(&charge)) {
                return Ok(());
            }
            marks.add(digest, Happened::Spent, Some(charge))
        })
    }

    /// Counts a number that is about to be revealed for the plan's draw: how many were, this one
    /// included. Refused (exit 6) where [`MOST_REVEALS`] were. With what a ledger says of the draw.
    pub fn reveal(&mut self, digest: &str, charge: Option<Value>) -> Result<u64, Failure> {
        self.locked(|marks| {
            marks.refuse_reveal(digest)?;
            marks.add(digest, Happened::Drawn, charge)?;
            Ok(marks.marked(digest).map_or(0, |marked| marked.draws))
        })
    }

    /// What ledgers said of plans, whoever this key belonged to: digest, whether it is spent, and
    /// charge.
    pub fn charges(&self) -> impl Iterator<Item = (&str, bool, &Value)> {
        let plans = self.plans.iter();
        plans.filter_map(|((digest, _), marked)| {
            Some((digest.as_str(), marked.spent, marked.charge.as_ref()?))
        })
    }
}

fn count(plans: &mut BTreeMap<(String, String), Marked>, torn: &mut Vec<String>, mark: Mark) {
    if mark.mark == Happened::Torn {
        torn.push(mark.digest);
        return;
    }
    let marked = plans.entry((mark.digest, mark.peer)).or_default();
    match mark.mark {
        Happened::Drawn => marked.draws += 1,
        Happened::Spent | Happened::Torn => marked.spent = true,
    }
    // What a draw costs is in what its run does.
    if mark.charge.is_some() && (mark.mark == Happened::Spent || !marked.spent) {
        marked.charge = mark.charge;
    }
}

fn refused(path: &Path, fault: &Fault) -> Failure {
    const BACKUP: &str = "restore it from a backup that has every run so far; without one, take a new key (`undertone identity new`): \
         which plans this one has spent is not known any more";
    fault.failure(path, BACKUP).field("--identity")
}

/// The file of marks in a registry's folder.
pub fn in_folder(folder: &Path) -> PathBuf {
    folder.join("marks")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::party::journal::disk;
    use crate::party::journal::tests::Followed;

    fn digest(first: char) -> String {
        format!("{first}{}", "0".repeat(63))
    }

    fn open(folder: &tempfile::TempDir) -> Marks {
        Marks::open(&in_folder(folder.path()), "alice", disk()).unwrap()
    }

    #[test]
    fn a_mark_is_written_and_synced_with_its_folder_before_spending_returns() {
        let folder = tempfile::tempdir().unwrap();
        let followed = Followed::default();
        let path = in_folder(folder.path());
        let mut marks = Marks::open(&path, "alice", followed.disk("m")).unwrap();
        marks.spend(&digest('a'), None).unwrap();
        let order = ["write m", "sync m", "sync folder of m", "write m", "sync m"];
        assert_eq!(followed.done(), order);
        for step in ["write m", "sync m"] {
            let mut marks = Marks::open(&path, "alice", followed.disk("m")).unwrap();
            followed.fail(&[step]);
            let failure = marks.spend(&digest('b'), None).expect_err(step);
            assert_eq!(failure.exit, Exit::TryAgain, "{failure}");
            marks.reveal(&digest('b'), None).expect_err(step);
            followed.fail(&[]);
        }
        // Nothing of it is left.
        open(&folder).spend(&digest('b'), None).unwrap();
    }

    #[test]
    fn the_latest_charge_of_a_plan_counts_and_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut marks = open(&folder);
        let (a, b) = (digest('a'), digest('b'));
        marks.spend(&a, Some(1.into())).unwrap();
        marks.keep(&a, 2.into()).unwrap();
        marks.spend(&b, None).unwrap();
        let lines = || {
            std::fs::read_to_string(in_folder(folder.path()))
                .unwrap()
                .lines()
                .count()
        };
        let before = lines();
        marks.keep(&a, 2.into()).unwrap();
        assert_eq!(lines(), before);
        for marks in [&marks, &open(&folder)] {
            let charges: Vec<_> = marks.charges().collect();
            assert_eq!(charges, [(a.as_str(), true, &Value::from(2))]);
        }
        // What is kept of a plan has spent it.
        marks.keep(&digest('c'), 3.into()).unwrap();
        assert_eq!(marks.check(&digest('c')).unwrap_err().exit, Exit::PrivacyRefused);
    }

    #[test]
    fn whoever_has_the_file_open_sees_what_others_marked() {
        let folder = tempfile::tempdir().unwrap();
        let (mut one, mut other) = (open(&folder), open(&folder));
        one.spend(&digest('a'), None).unwrap();
        assert_eq!(other.check(&digest('a')).unwrap_err().exit, Exit::PrivacyRefused);
        other.spend(&digest('b'), None).unwrap();
        assert_eq!(one.reveal(&digest('c'), None).unwrap(), 1);
        assert_eq!(other.reveal(&digest('c'), None).unwrap(), 2);
        assert_eq!(
            one.spend(&digest('b'), None).unwrap_err().exit,
            Exit::PrivacyRefused
        );
        let both: Vec<_> = std::thread::scope(|threads| {
            let one = threads.spawn(|| one.spend(&digest('d'), None).is_ok());
            let other = threads.spawn(|| other.spend(&digest('d'), None).is_ok());
            [one, other].map(|thread| thread.join().unwrap()).into()
        });
        assert_eq!(both.iter().filter(|spent| **spent).count(), 1, "once");
    }

    /// The last of them may begin a run; no further one leaves, and nothing of it is written.
    #[test]
    fn a_node_reveals_three_numbers_for_a_plan_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let a = digest('a');
        for count in 1..=3 {
            open(&folder).check(&a).unwrap();
            assert_eq!(open(&folder).reveal(&a, None).unwrap(), count);
        }
        let before = std::fs::read(in_folder(folder.path())).unwrap();
        let mut marks = open(&folder);
        for refused in [marks.check(&a).unwrap_err(), marks.reveal(&a, None).unwrap_err()] {
            assert_eq!(refused.exit, Exit::PrivacyRefused, "{refused}");
            assert!(refused.message.contains("3 numbers"), "{refused}");
        }
        assert_eq!(std::fs::read(in_folder(folder.path())).unwrap(), before);
        marks.check(&digest('b')).unwrap();
        marks.reveal(&digest('b'), None).unwrap();
        marks.spend(&a, None).unwrap();
    }

    #[test]
    fn a_number_that_is_revealed_is_on_disk_before_it_leaves() {
        let folder = tempfile::tempdir().unwrap();
        let followed = Followed::default();
        let path = in_folder(folder.path());
        let mut marks = Marks::open(&path, "alice", followed.disk("m")).unwrap();
        marks.reveal(&digest('a'), Some(1.into())).unwrap();
        let order = ["write m", "sync m", "sync folder of m", "write m", "sync m"];
        assert_eq!(followed.done(), order);
        // What a draw costs counts until its run does, and not after that.
        let (a, one) = (digest('a'), Value::from(1));
        assert_eq!(
            open(&folder).charges().collect::<Vec<_>>(),
            [(a.as_str(), false, &one)]
        );
        marks.keep(&a, 2.into()).unwrap();
        marks.reveal(&a, Some(1.into())).unwrap();
        let two = Value::from(2);
        assert_eq!(
            open(&folder).charges().collect::<Vec<_>>(),
            [(a.as_str(), true, &two)]
        );
    }

    #[test]
    fn a_torn_mark_counts_as_spent_and_what_follows_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = in_folder(folder.path());
        open(&folder).spend(&digest('a'), None).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let begin = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        for cut in begin + 1..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut marks = open(&folder);
            // `{"digest":"a`
            let known = cut - begin >= 12;
            assert_eq!(marks.check(&digest('a')).is_err(), known, "cut at {cut}");
            marks.check(&digest('b')).unwrap();
            marks.spend(&digest('b'), None).unwrap();
            let mut again = open(&folder);
            assert_eq!(again.spend(&digest('a'), None).is_err(), known, "cut at {cut}");
            assert_eq!(again.check(&digest('b')).unwrap_err().exit, Exit::PrivacyRefused);
        }
        // Half a digest stands for every plan that begins so.
        std::fs::write(&path, &whole[..begin + 16]).unwrap();
        let mut marks = open(&folder);
        assert!(marks.check(&format!("a0000{}", "1".repeat(59))).is_err());
        marks.check(&format!("a0001{}", "0".repeat(59))).unwrap();
    }

    #[test]
    fn a_mark_that_was_changed_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = in_folder(folder.path());
        open(&folder).spend(&digest('a'), None).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() - 80;
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let failure = Marks::open(&path, "alice", disk()).unwrap_err();
        assert_eq!(
            (failure.exit, failure.field.as_deref()),
            (Exit::Usage, Some("--identity"))
        );
        assert!(failure.hint.is_some_and(|hint| hint.contains("backup")));
    }
}
