//! The marks beside a key: which plans it has taken part in, what they may have cost, and how often
//! it revealed its number for a draw.
//!
//! A mark is on disk before the first byte leaves that it stands for. Marks are never deleted and
//! never changed: the latest of a plan counts. One that was torn when its process was killed counts
//! as spent, for every plan whose digest begins with what is left of it.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use undertone_accountant::losses::charge::Charge;
use undertone_protocol::messages::commitment::MOST_REVEALS;

use crate::party::checkpoint;
use crate::party::journal::{Disk, Fault, Journal};
use crate::party::plan_digest::PlanDigest;
use crate::party::plan_map::{Fixed, PlanMap, unreadable};
use crate::reporting::failure::{Exit, Failure};

/// The format of the file.
pub const VERSION: u32 = 1;

/// A line of the file. The digest comes first: it is what a torn line is known by.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    digest: String,
    peer: String,
    mark: Happened,
    /// The ledger's word on the plan, where a daemon has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    charge: Option<Noted>,
}

/// The kinds of marks on a plan.
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

/// A daemon's ledger's word on a plan.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Noted {
    /// The data that the mark is about, as the ledger names them.
    pub of: Value,
    /// The cost of the plan's run.
    pub charge: Charge,
}

/// The marks on one plan, together.
#[derive(Clone, Copy, Debug, Default)]
struct Marked {
    draws: u8,
    spent: bool,
    /// A ledger's word: whose data, by its number, and the charge.
    noted: Option<(NonZeroU32, Charge)>,
}

impl Fixed for Marked {
    const BYTES: usize = 2 + u32::BYTES + Charge::BYTES;

    fn put(&self, bytes: &mut Vec<u8>) {
        let (subject, charge) = self
            .noted
            .map_or((0, Charge::NOTHING), |(subject, charge)| (subject.get(), charge));
        ((self.draws, u8::from(self.spent)), (subject, charge)).put(bytes);
    }

    fn get(bytes: &[u8]) -> Self {
        let ((draws, spent), (subject, charge)): ((u8, u8), (u32, Charge)) = Fixed::get(bytes);
        Marked {
            draws,
            spent: spent != 0,
            noted: NonZeroU32::new(subject).map(|subject| (subject, charge)),
        }
    }
}

/// All marks that were read.
#[derive(Debug)]
struct Read {
    /// The few identities that wrote.
    peers: Vec<String>,
    /// Marks by plan, and by the place of the identity.
    plans: PlanMap<(PlanDigest, u32), Marked>,
    /// The subjects of their ledgers. They are few, and plans are many, which have their numbers.
    subjects: Vec<Value>,
    torn: BTreeSet<String>,
}

/// The number of a subject, from 1, which is added if it is new.
fn number_of(subjects: &mut Vec<Value>, subject: Value) -> NonZeroU32 {
    let number = subjects.iter().position(|known| *known == subject);
    let number = number.unwrap_or_else(|| {
        subjects.push(subject);
        subjects.len() - 1
    });
    u32::try_from(number)
        .ok()
        .and_then(|number| NonZeroU32::MIN.checked_add(number))
        .unwrap_or(NonZeroU32::MAX)
}

impl Read {
    /// Nothing yet. What there will be may stand in files of this folder.
    fn nothing(folder: Option<&Path>) -> Self {
        Read {
            peers: vec![],
            plans: PlanMap::new(folder),
            subjects: vec![],
            torn: BTreeSet::new(),
        }
    }

    /// Counts a mark; whether it is one.
    fn count(&mut self, mark: Mark) -> bool {
        if mark.mark == Happened::Torn {
            self.torn.insert(mark.digest);
            return true;
        }
        let Some(digest) = PlanDigest::parse(&mark.digest) else {
            return false;
        };
        let mut marked = self.of(&mark.peer, &digest).unwrap_or_default();
        match mark.mark {
            Happened::Drawn => marked.draws = marked.draws.saturating_add(1),
            Happened::Spent | Happened::Torn => marked.spent = true,
        }
        // What a draw costs is in what its run does.
        if let Some(Noted { of, charge }) = mark.charge
            && (mark.mark == Happened::Spent || !marked.spent)
        {
            marked.noted = Some((number_of(&mut self.subjects, of), charge));
        }
        let peer = self.peer(&mark.peer).unwrap_or_else(|| {
            self.peers.push(mark.peer);
            self.peers.len() - 1
        });
        self.plans.insert((digest, peer as u32), marked);
        true
    }

    fn peer(&self, peer: &str) -> Option<usize> {
        self.peers.iter().position(|known| known == peer)
    }

    fn of(&self, peer: &str, digest: &PlanDigest) -> Option<Marked> {
        self.plans.get(&(*digest, self.peer(peer)? as u32))
    }

    fn marked(&self, digest: &str, peer: &str) -> Option<Marked> {
        self.of(peer, &PlanDigest::parse(digest)?)
    }

    /// All plans of all identities.
    fn all(&self) -> impl Iterator<Item = (&str, PlanDigest, Marked)> {
        let marks = self.plans.iter();
        marks.map(|((digest, peer), marked)| (&*self.peers[peer as usize], digest, marked))
    }

    fn noted(&self, marked: Marked) -> Option<(&Value, Charge)> {
        let (subject, charge) = marked.noted?;
        Some((self.subjects.get(subject.get() as usize - 1)?, charge))
    }
}

/// The marks of one file, for one identity.
#[derive(Debug)]
pub struct Marks {
    journal: Journal,
    peer: String,
    read: Read,
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
            read: Read::nothing(path.parent()),
        };
        marks.resume();
        marks.locked(|_| Ok(()))?;
        Ok(marks)
    }

    fn checkpoint(&self) -> PathBuf {
        self.path().with_extension("sorted")
    }

    fn resume(&mut self) {
        let checkpoint = self.checkpoint();
        let Marks { journal, read, .. } = self;
        if let Some(state) = checkpoint::resume(&mut read.plans, &checkpoint, journal) {
            (read.peers, read.subjects, read.torn) = state;
        }
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        self.journal.path()
    }

    /// Whether marks can be written, and all that there are can be read.
    pub fn is_sound(&self) -> bool {
        self.journal.is_sound() && self.read.plans.is_sound()
    }

    /// Does something while nobody else writes, with all that others have written.
    fn locked<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Failure>) -> Result<T, Failure> {
        let path = self.journal.path().to_owned();
        let locked = self.journal.file().lock();
        locked.map_err(|e| refused(&path, &e.into()))?;
        let read = self.read().map_err(|fault| refused(&path, &fault));
        let worked = read.and_then(|()| work(self));
        // What was looked up may be missing for that.
        let worked = match self.read.plans.is_sound() {
            true => worked,
            false => Err(refused(&path, &unreadable().into())),
        };
        let checkpoint = self.checkpoint();
        let Read {
            peers,
            plans,
            subjects,
            torn,
        } = &mut self.read;
        checkpoint::keep(plans, &checkpoint, &self.journal, (&*peers, &*subjects, &*torn));
        // The lock ends with the file at the latest.
        let _ = self.journal.file().unlock();
        worked
    }

    fn read(&mut self) -> Result<(), Fault> {
        let Marks { journal, read, .. } = self;
        let rest = journal.read(&mut |json| {
            let mark = serde_json::from_str(json).ok();
            mark.is_some_and(|mark| read.count(mark))
        });
        if !read.plans.is_sound() {
            return Err(unreadable().into());
        }
        let rest = rest?;
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

    fn write(&mut self, digest: &str, mark: Happened, charge: Option<Noted>) -> Result<(), Fault> {
        let mark = Mark {
            digest: digest.to_owned(),
            peer: self.peer.clone(),
            mark,
            charge,
        };
        self.append(mark)
    }

    /// Writes a mark, unless there are any that cannot be read: the plan might have one.
    fn append(&mut self, mark: Mark) -> Result<(), Fault> {
        if !self.read.plans.is_sound() {
            return Err(unreadable().into());
        }
        self.journal.append(&mark)?;
        self.read.count(mark);
        Ok(())
    }

    fn add(&mut self, digest: &str, mark: Happened, charge: Option<Noted>) -> Result<(), Failure> {
        let written = self.write(digest, mark, charge);
        written.map_err(|fault| refused(self.journal.path(), &fault))
    }

    fn marked(&self, digest: &str) -> Option<Marked> {
        self.read.marked(digest, &self.peer)
    }

    /// Whether the plan is spent, by all that was read.
    fn is_spent(&self, digest: &str) -> bool {
        self.marked(digest).is_some_and(|marked| marked.spent)
            || self.read.torn.iter().any(|left| digest.starts_with(left))
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

    fn refuse_occurred(&self, occurrence: &str) -> Result<(), Failure> {
        if !self.is_spent(occurrence) {
            return Ok(());
        }
        Err(Failure::new(
            Exit::PrivacyRefused,
            "this node has taken part in this occurrence of its schedule",
        )
        .field(self.path().display())
        .hint("an occurrence has one run; wait for the next one"))
    }

    fn refuse_reveal(&self, digest: &str) -> Result<(), Failure> {
        self.refuse_draws(self.marked(digest).map_or(0, |marked| u64::from(marked.draws)))
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
    pub fn spend(&mut self, digest: &str, charge: Option<Noted>) -> Result<(), Failure> {
        self.locked(|marks| {
            marks.refuse_spent(digest)?;
            marks.add(digest, Happened::Spent, charge)
        })
    }

    /// Refuses (exit 6) an occurrence of a schedule of which a plan is spent.
    pub fn check_occurrence(&mut self, occurrence: &str) -> Result<(), Failure> {
        self.locked(|marks| marks.refuse_occurred(occurrence))
    }

    /// Marks an occurrence of a schedule as spent, before its plan is; refused (exit 6) if it is.
    /// Its mark is that of a plan: both are hashes, of different domains.
    pub fn spend_occurrence(&mut self, occurrence: &str) -> Result<(), Failure> {
        self.locked(|marks| {
            marks.refuse_occurred(occurrence)?;
            marks.add(occurrence, Happened::Spent, None)
        })
    }

    /// Keeps what a ledger says of a plan, which is spent at the latest by that; nothing is written
    /// if that is kept already.
    pub fn keep(&mut self, digest: &str, charge: Noted) -> Result<(), Failure> {
        self.locked(|marks| {
            if marks.keeps(digest, &charge) {
                return Ok(());
            }
            marks.add(digest, Happened::Spent, Some(charge))
        })
    }

    /// Counts a number that is about to be revealed for the plan's draw: how many were, this one
    /// included. Refused (exit 6) where [`MOST_REVEALS`] were. With what a ledger says of the draw.
    pub fn reveal(&mut self, digest: &str, charge: Option<Noted>) -> Result<u64, Failure> {
        self.locked(|marks| {
            marks.refuse_reveal(digest)?;
            marks.add(digest, Happened::Drawn, charge)?;
            Ok(marks.marked(digest).map_or(0, |marked| u64::from(marked.draws)))
        })
    }

    /// Adds what another file of marks has and this one lacks: plans that are spent, numbers that
    /// were revealed for draws, torn lines. Nothing is taken back, and what a ledger said of a plan
    /// that is spent here already stays. How many marks were added.
    pub fn take_in(&mut self, other: &Marks) -> Result<usize, Failure> {
        self.locked(|marks| {
            let mut added = 0;
            for (peer, digest, theirs) in other.read.all() {
                let own = marks.read.of(peer, &digest).unwrap_or_default();
                let digest = digest.to_string();
                let noted = other.read.noted(theirs);
                let noted = noted.map(|(of, charge)| Noted {
                    of: of.clone(),
                    charge,
                });
                let missing = usize::from(theirs.draws.saturating_sub(own.draws));
                let mut lacks = vec![Happened::Drawn; missing];
                lacks.extend((theirs.spent && !own.spent).then_some(Happened::Spent));
                for mark in lacks {
                    let mark = Mark {
                        digest: digest.clone(),
                        peer: peer.to_owned(),
                        mark,
                        charge: noted.clone(),
                    };
                    let written = marks.append(mark);
                    written.map_err(|fault| refused(marks.journal.path(), &fault))?;
                    added += 1;
                }
            }
            if !other.read.plans.is_sound() {
                return Err(refused(other.path(), &unreadable().into()));
            }
            for torn in other.read.torn.difference(&marks.read.torn.clone()) {
                marks.add(torn, Happened::Torn, None)?;
                added += 1;
            }
            Ok(added)
        })
    }

    /// Whether the plan is marked as spent with this, by what was read.
    fn keeps(&self, digest: &str, charge: &Noted) -> bool {
        self.is_kept(self.marked(digest), charge)
    }

    fn is_kept(&self, marked: Option<Marked>, charge: &Noted) -> bool {
        let spent = marked.filter(|marked| marked.spent);
        let noted = spent.and_then(|marked| self.read.noted(marked));
        noted == Some((&charge.of, charge.charge))
    }

    /// Whether plans, which come in the order of their digests, are marked as spent each with its
    /// charge: in one pass.
    pub fn keep_in_order(&self) -> impl FnMut(&PlanDigest, &Noted) -> bool {
        let (peer, mut plans) = (self.read.peer(&self.peer), self.read.plans.in_order());
        move |digest, charge| {
            let marked = peer.and_then(|peer| plans(&(*digest, peer as u32)));
            self.is_kept(marked, charge)
        }
    }

    /// Ledgers' words on plans, whoever this key belonged to: digest, whether it is spent, whose
    /// data, and charge.
    pub fn charges(&self) -> impl Iterator<Item = (PlanDigest, bool, &Value, Charge)> {
        self.read.all().filter_map(|(_, digest, marked)| {
            let (of, charge) = self.read.noted(marked)?;
            Some((digest, marked.spent, of, charge))
        })
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
mod tests;
