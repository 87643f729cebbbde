//! How a ledger is read, and held against the marks beside the key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use undertone_accountant::losses::charge::Charge;

use crate::daemon::ledger::account::Protected;
use crate::daemon::ledger::books::Books;
use crate::daemon::ledger::entry::{Booked, Entry};
use crate::daemon::ledger::{Ledger, now_ms};
use crate::daemon::restored::Restored;
use crate::party::journal::{Disk, Fault, Journal, disk};
use crate::party::marks::{Marks, Noted};
use crate::party::plan_digest::PlanDigest;
use crate::party::plan_map::unreadable;
use crate::reporting::failure::{Exit, Failure};

/// The format of the file.
pub const VERSION: u32 = 2;

/// A run that the marks beside the key knew to cost more than the ledger said.
#[derive(Clone, Debug, PartialEq)]
pub struct Adopted {
    /// The plan's digest.
    pub digest: String,
    /// The data set that it is charged to, and the changes that it hides.
    pub of: Protected,
    /// The charge now.
    pub charge: Charge,
    /// Whether its plan is spent; else only its draw was revealed.
    pub spent: bool,
}

impl Ledger {
    /// Reads the ledger of a state directory, or begins one, and holds it against the marks beside
    /// the key: a mark that is missing or lower there is written. Refused (exit 2) if it is corrupt
    /// or of another version, or if the marks know of charges that it lacks; exit 75 on a full
    /// disk.
    pub fn open(state: &Path, marks: Marks) -> Result<Self, Failure> {
        let mut ledger = Ledger::read(state, marks, disk())?;
        let lacking = ledger.lacking()?;
        if let Some(first) = lacking.first() {
            return Err(ledger.older(first, lacking.len()));
        }
        ledger.unmarked = ledger.unmarked()?;
        ledger.refuse_unreadable()?;
        ledger.books.keep(&ledger.journal);
        let kept = ledger.mark();
        kept.map_err(|refusal| Failure::new(refusal.kind.exit(), refusal.message).field("state"))?;
        Ok(ledger)
    }

    /// Reads a ledger, without changing it: what is charged in it, or by the marks, for each plan.
    pub fn read_through(state: &Path, marks: Marks) -> Result<Vec<Adopted>, Failure> {
        let ledger = Ledger::read(state, marks, disk())?;
        let booked = ledger.books.all().map(|(digest, of, charge, spent)| Adopted {
            digest: digest.to_string(),
            of: of.clone(),
            charge,
            spent,
        });
        let mut found: Vec<Adopted> = booked.collect();
        found.extend(ledger.lacking()?);
        ledger.refuse_unreadable()?;
        Ok(found)
    }

    /// Charges what the marks beside the key know of and the ledger lacks, or has lower: the repair
    /// of a ledger that was restored, or lost. So with `others`, which a backup or the receipts of
    /// other members know of. What was charged.
    pub fn adopt(state: &Path, marks: Marks, others: Vec<Adopted>) -> Result<Vec<Adopted>, Failure> {
        let mut ledger = Ledger::read(state, marks, disk())?;
        let lacking = ledger.lacking()?;
        let mut charged = ledger.charge_lacking(lacking)?;
        let covered = |ledger: &Ledger, run: &Adopted| {
            let key = PlanDigest::parse(&run.digest);
            key.is_some_and(|key| ledger.books.covers(&key, run.spent, run.charge))
        };
        for run in others {
            if !covered(&ledger, &run) {
                charged.extend(ledger.charge_lacking(vec![run])?);
            }
        }
        ledger.refuse_unreadable()?;
        Ok(charged)
    }

    /// Refuses (exit 75) to go on where some of ledger and marks could not be read.
    fn refuse_unreadable(&self) -> Result<(), Failure> {
        match self.books.is_sound() && self.marks.is_sound() {
            true => Ok(()),
            false => Err(Failure::new(Exit::TryAgain, unreadable().to_string()).field("state")),
        }
    }

    fn charge_lacking(&mut self, lacking: Vec<Adopted>) -> Result<Vec<Adopted>, Failure> {
        let ledger = self;
        for Adopted {
            digest,
            of,
            charge,
            spent,
        } in lacking.clone()
        {
            let (at_ms, key) = (now_ms(), digest.clone());
            let entry = match (spent, ledger.charged(&digest).is_some()) {
                (false, _) => Entry::Drawn {
                    digest,
                    of,
                    charge,
                    at_ms,
                },
                (true, false) => Entry::Charged {
                    digest,
                    of,
                    charge,
                    at_ms,
                },
                (true, true) => Entry::Raised {
                    digest,
                    charge,
                    at_ms,
                },
            };
            let booked = ledger.book(&key, entry);
            booked.map_err(|refusal| Failure::new(refusal.kind.exit(), refusal.message).field("state"))?;
        }
        Ok(lacking)
    }

    pub(super) fn read(state: &Path, marks: Marks, disk: Disk) -> Result<Self, Failure> {
        let path = state.join("ledger");
        let refused = |fault: Fault| {
            const BACKUP: &str = "restore the file from a backup that has every run so far; without one move it away, and \
                 `undertone ledger adopt --config NODE.toml` charges what the marks beside the key know";
            fault.failure(&path, BACKUP).field("state")
        };
        let mut ledger = Ledger {
            journal: Journal::open(&path, VERSION, disk).map_err(|e| refused(e.into()))?,
            marks,
            books: Books::nothing(Some(state)),
            reserved: BTreeMap::new(),
            unmarked: BTreeSet::new(),
            restored: Restored::read(state)?,
        };
        ledger.take_in().map_err(refused)?;
        Ok(ledger)
    }

    /// Counts all lines; of a torn last one the entry, if it can be read.
    fn take_in(&mut self) -> Result<(), Fault> {
        let Ledger { journal, books, .. } = self;
        books.resume(journal);
        let torn = journal.read(&mut |json| {
            let entry = serde_json::from_str::<Entry>(json).ok();
            let fitting = entry.filter(|entry| books.fits(entry));
            fitting.map(|entry| books.count(entry)).is_some()
        });
        if !books.is_sound() {
            return Err(unreadable().into());
        }
        let torn = torn?;
        if torn.is_empty() {
            return Ok(());
        }
        self.journal.cut()?;
        let whole = torn
            .iter()
            .rposition(|&byte| byte == b'}')
            .and_then(|end| serde_json::from_slice::<Entry>(&torn[..=end]).ok());
        // One that would lower a charge was not synced: the charge stays.
        let raises = |entry: &Entry| !matches!(entry, Entry::Closed { .. } | Entry::Settled { .. });
        let counted = whole.filter(|entry| raises(entry) && self.books.fits(entry));
        tracing::warn!(
            counted = counted.is_some(),
            "the ledger's last line was torn: the daemon was killed while it wrote it"
        );
        if let Some(entry) = counted {
            self.journal.append(&entry)?;
            self.books.count(entry);
        }
        Ok(())
    }

    /// Returns the charges that the marks have and the ledger lacks, or has lower.
    fn lacking(&self) -> Result<Vec<Adopted>, Failure> {
        let charges = self.marks.charges();
        let mut covers = self.books.covers_in_order();
        let lacking = charges.filter(|(digest, spent, _, charge)| !covers(digest, *spent, *charge));
        lacking
            .map(|(digest, spent, of, charge)| {
                let of: Protected = serde_json::from_value(of.clone()).map_err(|e| {
                    let path = self.marks.path().display();
                    Failure::usage(format!("{path}: the mark of plan {digest} cannot be read: {e}"))
                        .field("identity")
                        .hint("start the version of undertone that wrote it, or a later one")
                })?;
                Ok(Adopted {
                    digest: digest.to_string(),
                    of,
                    charge,
                    spent,
                })
            })
            .collect()
    }

    /// The charged runs of which the marks do not say the same.
    fn unmarked(&self) -> Result<BTreeSet<String>, Failure> {
        let mut unmarked = BTreeSet::new();
        let mut noted: Option<(&Protected, Noted)> = None;
        let mut keeps = self.marks.keep_in_order();
        for (digest, of, charge) in self.books.all_charged() {
            // Most are about the same.
            let mut said = match noted.take_if(|(before, _)| *before == of) {
                Some((_, said)) => said,
                None => Booked {
                    of: of.clone(),
                    charge,
                }
                .noted()
                .map_err(|e| Failure::new(Exit::Internal, e.to_string()))?,
            };
            said.charge = charge;
            if !keeps(&digest, &said) {
                unmarked.insert(digest.to_string());
            }
            noted = Some((of, said));
        }
        Ok(unmarked)
    }

    fn older(&self, first: &Adopted, count: usize) -> Failure {
        let more = match count {
            1 => String::new(),
            count => format!(", and {} more", count - 1),
        };
        Failure::usage(format!(
            "{}: the ledger is older than the marks in {}: plan {} of data set {}{more}",
            self.journal.path().display(),
            self.marks.path().display(),
            first.digest,
            first.of.accounts()[0]
        ))
        .field("state")
        .hint(
            "restore the state folder and the marks of one moment, the latest; or charge what the marks know: \
             `undertone ledger adopt --config NODE.toml`",
        )
    }
}
