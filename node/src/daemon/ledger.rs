//! What each data set has spent: μ² of its runs, which adds up (DESIGN section 2c), on disk before
//! it is spent.
//!
//! A run is *reserved* when it is taken, so that two that are taken together cannot both count on
//! the same rest; *charged*, and synced, when its plan is marked as spent, before its first share
//! leaves; *raised* when the gate finds a larger loss, before its final leaves. Of a training a
//! part is charged, and the charge is raised some iterations ahead of what leaves, while all of it
//! stays reserved. A charge is lowered in two cases only, once the run has ended by itself: finals
//! were sealed, and nobody opens this node's (*closed*: to nothing); a training that ended early is
//! *settled* for the iterations that it had. A run that ends before it was charged (exit 4: nothing
//! private has left) gives back its reservation.
//!
//! The file only grows: one line an entry, `JSON CHECKSUM`, each checksum over the one before and
//! the JSON. A last line that was torn when the process was killed was not synced yet, so that
//! nothing of it had been spent; it is counted all the same if its JSON is whole. Anything else
//! that does not fit is refused.

mod entry;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use undertone_accountant::losses::gaussian;
use undertone_protocol::plan::run_file::settings::Unit;

use crate::daemon::config::DataSet;
use crate::daemon::ledger::entry::Entry;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::state::checksum;
use crate::daemon::status::BudgetStatus;
use crate::telling::failure::Failure;

/// Whose budget it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountName {
    /// The data set's name in the configuration.
    pub data_set: String,
    /// "party" or "record": their losses are of different things and do not add up.
    pub unit: String,
}

impl AccountName {
    /// The account of this data set for losses of this unit.
    pub fn new(data_set: &str, unit: Unit) -> Self {
        AccountName {
            data_set: data_set.to_owned(),
            unit: unit_name(unit).to_owned(),
        }
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.data_set, self.unit)
    }
}

/// As files write it.
pub fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Party => "party",
        Unit::Record => "record",
    }
}

/// What an account may spend in total: ε at δ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Total {
    /// The ε that all its runs together may cost.
    pub epsilon: f64,
    /// The δ at which that holds.
    pub delta: f64,
}

impl Total {
    /// Whether a loss of Σ μ² is within it.
    fn allows(&self, mu_squared: f64) -> bool {
        // The square root is correctly rounded, up or down: one unit more is never below the true
        // one.
        let mu = mu_squared.sqrt().next_up();
        gaussian::delta(self.epsilon, mu).is_ok_and(|delta| delta <= self.delta)
    }
}

/// μ² of a loss μ, never below it.
pub fn squared(mu: f64) -> f64 {
    if mu == 0.0 { 0.0 } else { (mu * mu).next_up() }
}

#[derive(Clone, Debug)]
struct Charge {
    account: AccountName,
    mu_squared: f64,
}

#[derive(Clone, Debug)]
struct Reservation {
    charge: Charge,
    total: Option<Total>,
}

/// Runs that are counted as left at most. Our choice: of more nobody minds how many.
const MOST_LEFT: usize = 1000;

/// The open ledger. It must be held by one process only ([`super::state::State`]'s lock).
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    length: u64,
    last: String,
    charges: BTreeMap<String, Charge>,
    /// The run of each account that was charged last.
    latest: BTreeMap<AccountName, String>,
    reserved: BTreeMap<String, Reservation>,
    /// A write failed and could not be taken back: nothing more can be charged until the daemon
    /// starts again.
    broken: bool,
}

impl Ledger {
    /// Reads the ledger of a state directory, or begins one. Refused (exit 2) if it is corrupt, or
    /// if plans were spent that it does not have.
    pub fn open(state: &Path) -> Result<Self, Failure> {
        let path = state.join("ledger");
        let refused =
            |e: io::Error| Failure::usage(format!("{}: cannot be used: {e}", path.display())).field("state");
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(refused)?;
        let mut bytes = vec![];
        file.read_to_end(&mut bytes).map_err(refused)?;
        let mut ledger = Ledger {
            path: path.clone(),
            file,
            length: 0,
            last: String::new(),
            charges: BTreeMap::new(),
            latest: BTreeMap::new(),
            reserved: BTreeMap::new(),
            broken: false,
        };
        let torn = ledger.take_in(&bytes)?;
        if bytes.len() as u64 > ledger.length {
            ledger
                .file
                .set_len(ledger.length)
                .and_then(|()| ledger.file.sync_all())
                .map_err(refused)?;
            tracing::warn!(
                counted = torn.is_some(),
                "the ledger's last line was torn: the daemon was killed while it wrote it"
            );
        }
        if ledger.length == 0 {
            ledger.append(&Entry::Opened { version: 1 }).map_err(refused)?;
            File::open(state)
                .and_then(|folder| folder.sync_all())
                .map_err(refused)?;
        }
        if let Some(entry) = torn {
            ledger.append(&entry).map_err(refused)?;
            ledger.count(entry);
        }
        ledger.has_all_of(&state.join("spent"))?;
        Ok(ledger)
    }

    /// Counts all whole lines; the entry of a torn last one, if it can be read.
    fn take_in(&mut self, bytes: &[u8]) -> Result<Option<Entry>, Failure> {
        let mut rest = bytes;
        let mut number = 0;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            number += 1;
            let line = std::str::from_utf8(&rest[..end])
                .ok()
                .and_then(|line| line.rsplit_once(' '));
            let entry = line
                .filter(|(json, sum)| self.checksum_of(json) == *sum)
                .and_then(|(json, sum)| {
                    let entry = serde_json::from_str::<Entry>(json).ok()?;
                    let fits = match &entry {
                        Entry::Opened { version } => *version == 1 && number == 1,
                        Entry::Charged { digest, .. } => number > 1 && !self.charges.contains_key(digest),
                        Entry::Raised { digest, .. }
                        | Entry::Closed { digest, .. }
                        | Entry::Settled { digest, .. } => self.charges.contains_key(digest),
                    };
                    fits.then(|| (entry, sum.to_owned()))
                });
            let Some((entry, sum)) = entry else {
                return Err(self.corrupt(format!("line {number} is not what was written")));
            };
            self.count(entry);
            self.last = sum;
            self.length += end as u64 + 1;
            rest = &rest[end + 1..];
        }
        let whole = rest
            .iter()
            .rposition(|&byte| byte == b'}')
            .and_then(|end| serde_json::from_slice::<Entry>(&rest[..=end]).ok());
        Ok(whole.filter(|entry| match entry {
            Entry::Opened { .. } => false,
            Entry::Charged { digest, .. } => !self.charges.contains_key(digest),
            Entry::Raised { digest, .. } => self.charges.contains_key(digest),
            // A torn line that would lower a charge was not synced: the charge stays.
            Entry::Closed { .. } | Entry::Settled { .. } => false,
        }))
    }

    fn corrupt(&self, what: String) -> Failure {
        Failure::usage(format!("{}: the ledger is corrupt: {what}", self.path.display())).field("state").hint(
            "restore the file from a backup that has every run so far; without one, stop using these data sets: what they have spent is \
             not known any more",
        )
    }

    /// A plan that was spent and is not in the ledger: the ledger is older than that.
    fn has_all_of(&self, spent: &Path) -> Result<(), Failure> {
        let Ok(entries) = std::fs::read_dir(spent) else {
            return Ok(());
        };
        for name in entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
        {
            let digest = name.split('-').next().unwrap_or_default();
            if digest.len() == 64 && !self.charges.contains_key(digest) {
                return Err(self.corrupt(format!(
                    "plan {digest} was spent ({}) and is not in it",
                    spent.join(&name).display()
                )));
            }
        }
        Ok(())
    }

    fn checksum_of(&self, json: &str) -> String {
        checksum(format!("{}\n{json}", self.last).as_bytes())
    }

    fn count(&mut self, entry: Entry) {
        match entry {
            Entry::Opened { .. } => {}
            Entry::Charged {
                digest,
                data_set,
                unit,
                mu_squared,
                at_ms: _,
            } => {
                let account = AccountName { data_set, unit };
                self.latest.insert(account.clone(), digest.clone());
                self.charges.insert(digest, Charge { account, mu_squared });
            }
            Entry::Raised {
                digest,
                mu_squared,
                at_ms: _,
            } => {
                if let Some(charge) = self.charges.get_mut(&digest) {
                    charge.mu_squared = charge.mu_squared.max(mu_squared);
                }
            }
            Entry::Closed { digest, at_ms: _ } => self.lower(&digest, 0.0),
            Entry::Settled {
                digest,
                mu_squared,
                at_ms: _,
            } => self.lower(&digest, mu_squared),
        }
    }

    fn lower(&mut self, digest: &str, mu_squared: f64) {
        if let Some(charge) = self.charges.get_mut(digest) {
            charge.mu_squared = charge.mu_squared.min(mu_squared);
        }
    }

    /// Writes and syncs a line. If that fails what was written of it is taken back; if that fails
    /// too nothing more is written.
    fn append(&mut self, entry: &Entry) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other(
                "an earlier entry could not be written; restart the daemon",
            ));
        }
        let json = serde_json::to_string(entry)?;
        let sum = self.checksum_of(&json);
        let line = format!("{json} {sum}\n");
        let written = self
            .file
            .write_all(line.as_bytes())
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            self.broken = self
                .file
                .set_len(self.length)
                .and_then(|()| self.file.sync_data())
                .is_err();
            return Err(error);
        }
        self.length += line.len() as u64;
        self.last = sum;
        Ok(())
    }

    fn unwritten(&self, e: &io::Error) -> Refusal {
        Refusal::new(
            Kind::Storage,
            format!("{}: the charge cannot be written: {e}", self.path.display()),
        )
        .field("state")
        .hint("make room on the disk of the state folder; nothing private has left")
    }

    /// Sets μ² aside for a run, if the account's total allows it together with all that is spent
    /// and reserved.
    pub fn reserve(
        &mut self,
        digest: &str,
        account: AccountName,
        mu_squared: f64,
        total: Option<Total>,
    ) -> Result<(), Refusal> {
        if self.charges.contains_key(digest) || self.reserved.contains_key(digest) {
            return Err(
                Refusal::new(Kind::Spent, "this node has already taken part in this plan")
                    .field("digest")
                    .hint("a second run with fresh noise would cost privacy twice; make a new plan"),
            );
        }
        let taken = self.spent(&account) + self.reserved(&account);
        within(&account, total, taken, mu_squared)?;
        self.reserved.insert(
            digest.to_owned(),
            Reservation {
                charge: Charge { account, mu_squared },
                total,
            },
        );
        Ok(())
    }

    /// Gives back what was set aside for a run and not charged.
    pub fn release(&mut self, digest: &str) {
        self.reserved.remove(digest);
    }

    /// Charges a reserved run with a part of what is reserved, all of it at most, or raises its
    /// charge to that part; on disk when this returns. Call it before anything leaves that costs as
    /// much. The rest stays reserved until it is released.
    pub fn charge_part(&mut self, digest: &str, mu_squared: f64) -> Result<(), Refusal> {
        if self.charges.contains_key(digest) {
            return self.raise(digest, mu_squared);
        }
        let Some(Reservation { charge, total }) = self.reserved.get(digest).cloned() else {
            return Err(Refusal::new(
                Kind::Internal,
                "a run that was not reserved cannot be charged",
            ));
        };
        // Another run may have been raised since.
        let spent = self.spent(&charge.account);
        within(&charge.account, total, spent, charge.mu_squared)?;
        let AccountName { data_set, unit } = charge.account;
        let entry = Entry::Charged {
            digest: digest.to_owned(),
            data_set,
            unit,
            mu_squared: charge.mu_squared.min(mu_squared),
            at_ms: now_ms(),
        };
        self.book(digest, entry)
    }

    /// Raises a run's charge to `mu_squared` unless it is that high; on disk when this returns.
    /// Call it before anything leaves that costs as much.
    pub fn raise(&mut self, digest: &str, mu_squared: f64) -> Result<(), Refusal> {
        // Not a number is no knowledge: it counts as unbounded.
        let mu_squared = if mu_squared.is_nan() {
            f64::INFINITY
        } else {
            mu_squared
        };
        match self.charged(digest) {
            None => {
                return Err(Refusal::new(
                    Kind::Internal,
                    "a run that was not charged cannot be raised",
                ));
            }
            Some(charged) if charged >= mu_squared => return Ok(()),
            Some(_) => {}
        }
        let entry = Entry::Raised {
            digest: digest.to_owned(),
            mu_squared,
            at_ms: now_ms(),
        };
        self.book(digest, entry)
    }

    /// Raises the charge of a run whose loss turned out larger, if it was charged at all.
    pub fn raise_charged(&mut self, digest: &str, mu_squared: f64) -> Result<(), Refusal> {
        if self.charges.contains_key(digest) {
            self.raise(digest, mu_squared)
        } else {
            Ok(())
        }
    }

    /// Takes back the charge of a run that has ended, and whose final nobody opens; the plan stays
    /// spent.
    pub fn close(&mut self, digest: &str) -> Result<(), Refusal> {
        if self.charged(digest).is_none_or(|charged| charged == 0.0) {
            return Ok(());
        }
        let entry = Entry::Closed {
            digest: digest.to_owned(),
            at_ms: now_ms(),
        };
        self.book(digest, entry)
    }

    /// Lowers the charge of a training that has ended by itself to what it has cost; the plan stays
    /// spent.
    pub fn settle(&mut self, digest: &str, mu_squared: f64) -> Result<(), Refusal> {
        // Not a number is no knowledge, and lowers nothing.
        let lower = self.charged(digest).is_some_and(|charged| mu_squared < charged);
        if !lower {
            return Ok(());
        }
        let entry = Entry::Settled {
            digest: digest.to_owned(),
            mu_squared,
            at_ms: now_ms(),
        };
        self.book(digest, entry)
    }

    /// Writes down what changes a run's charge, and tells of it.
    fn book(&mut self, digest: &str, entry: Entry) -> Result<(), Refusal> {
        self.append(&entry).map_err(|e| self.unwritten(&e))?;
        let before = self.charged(digest).unwrap_or(0.0).sqrt();
        self.count(entry);
        let charge = self.charges.get(digest);
        let account = charge.map(|charge| charge.account.to_string());
        let mu = charge.map_or(0.0, |charge| charge.mu_squared).sqrt();
        tracing::info!(digest, account, mu, before, "the run's charge");
        Ok(())
    }

    /// Whether charges can be written.
    pub fn is_sound(&self) -> bool {
        !self.broken
    }

    /// μ² that a run is charged with.
    pub fn charged(&self, digest: &str) -> Option<f64> {
        self.charges.get(digest).map(|charge| charge.mu_squared)
    }

    /// Σ μ² of an account's runs, never below it.
    pub fn spent(&self, account: &AccountName) -> f64 {
        let own = self.charges.values().filter(|charge| charge.account == *account);
        sum(own.map(|charge| charge.mu_squared))
    }

    fn reserved(&self, account: &AccountName) -> f64 {
        let reserved = self.reserved.iter();
        let own = reserved.filter(|(_, reservation)| reservation.charge.account == *account);
        // Of what is charged in part the rest.
        sum(own.map(|(digest, Reservation { charge, .. })| {
            let charged = self.charged(digest).unwrap_or(0.0);
            (charge.mu_squared - charged).max(0.0)
        }))
    }

    /// How many more runs that each cost as much as the account's latest one its budget allows,
    /// [`MOST_LEFT`] at most; never more than would be taken. None where none has cost anything.
    fn runs_left(&self, account: &AccountName, set: &DataSet) -> Option<u64> {
        let each = self.charged(self.latest.get(account)?)?;
        if each == 0.0 {
            return None;
        }
        let total = Total {
            epsilon: set.epsilon,
            delta: set.delta,
        };
        let mut taken = self.spent(account) + self.reserved(account);
        let after: Vec<f64> = (0..MOST_LEFT)
            .map(|_| {
                taken = (taken + each).next_up();
                taken
            })
            .collect();
        Some(after.partition_point(|&after| total.allows(after)) as u64)
    }

    /// What a data set has spent.
    pub fn budget(&self, set: &DataSet) -> BudgetStatus {
        let account = AccountName::new(&set.name, set.unit);
        let spent = self.spent(&account);
        BudgetStatus {
            epsilon: set.epsilon,
            delta: set.delta,
            epsilon_spent: epsilon_of(spent, set.delta),
            mu_squared: Some(spent).filter(|spent| spent.is_finite()),
            reserved_mu_squared: self.reserved(&account),
            runs_left: self.runs_left(&account, set),
            runs: self
                .charges
                .values()
                .filter(|charge| charge.account == account)
                .count(),
            data_set: account.data_set,
            unit: account.unit,
        }
    }
}

fn sum(losses: impl Iterator<Item = f64>) -> f64 {
    // Each addition may round down by half a unit in the last place.
    losses.fold(0.0, |sum: f64, loss| match loss {
        0.0 => sum,
        loss => (sum + loss).next_up(),
    })
}

fn epsilon_of(mu_squared: f64, delta: f64) -> Option<f64> {
    let mu = if mu_squared == 0.0 {
        0.0
    } else {
        mu_squared.sqrt().next_up()
    };
    gaussian::epsilon(delta, mu)
        .ok()
        .filter(|epsilon| epsilon.is_finite())
}

fn within(account: &AccountName, total: Option<Total>, taken: f64, mu_squared: f64) -> Result<(), Refusal> {
    let Some(total) = total else { return Ok(()) };
    let after = (taken + mu_squared).next_up();
    if total.allows(after) {
        return Ok(());
    }
    let shown = |mu_squared: f64| {
        epsilon_of(mu_squared, total.delta).map_or("unbounded".to_owned(), |e| format!("{e:.4}"))
    };
    let (before, then) = (shown(taken), shown(after));
    Err(Refusal::new(
        Kind::Budget,
        format!(
            "data set {account} may cost epsilon {} at delta {:e} in total: {before} is spent or reserved, with this run it would be {then}",
            total.epsilon, total.delta
        ),
    )
    .field("data_set")
    .hint("ask for a plan with a smaller epsilon; what is spent does not come back"))
}

/// Milliseconds since 1970 (UTC).
pub fn now_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests;
