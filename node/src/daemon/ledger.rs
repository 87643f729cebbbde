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
//! The file is a [`Journal`]: it only grows. A last line that was torn when the process was killed
//! was not synced yet, so that nothing of it had been spent; it is counted all the same if its JSON
//! is whole. Anything else that does not fit is refused.
//!
//! What a run is charged with is kept beside the key, too, with its mark ([`Marks`]): a state
//! directory that comes back from a backup, or is another one, has a ledger without the runs since,
//! and would let their budget be spent twice. Who raises a charge writes ledger, then mark; who
//! lowers one, mark, then ledger. So at any moment no mark is above the ledger that belongs to it,
//! and a ledger that is below a mark is refused: [`Ledger::adopt`] charges what it lacks.

mod entry;
pub mod opening;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use undertone_accountant::losses::gaussian;
use undertone_protocol::plan::run_file::settings::Unit;

use crate::daemon::config::DataSet;
use crate::daemon::ledger::entry::{Entry, Noted};
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::status::BudgetStatus;
use crate::party::journal::Journal;
use crate::party::marks::Marks;
use crate::telling::failure::{Exit, Failure};

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
    journal: Journal,
    marks: Marks,
    charges: BTreeMap<String, Charge>,
    /// The run of each account that was charged last.
    latest: BTreeMap<AccountName, String>,
    reserved: BTreeMap<String, Reservation>,
    /// Charged runs whose marks could not be written yet.
    unmarked: BTreeSet<String>,
}

impl Ledger {
    fn count(&mut self, entry: Entry) {
        match entry {
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

    fn unwritten(&self, what: &str) -> Refusal {
        let ledger = self.journal.path().display();
        Refusal::new(
            Kind::Storage,
            format!("{ledger}: the charge cannot be written: {what}"),
        )
        .field("state")
        .hint("make room on the disks of the state folder and of the key; nothing private has left")
    }

    /// Writes the charge into the run's mark, as it is now.
    fn keep(&mut self, digest: &str) -> Result<(), Refusal> {
        let Some(Charge { account, mu_squared }) = self.charges.get(digest).cloned() else {
            return Ok(());
        };
        let noted = Noted {
            data_set: account.data_set,
            unit: account.unit,
            mu_squared,
        };
        let noted = serde_json::to_value(noted).map_err(|e| self.unwritten(&e.to_string()))?;
        let kept = self.marks.keep(digest, noted);
        kept.map_err(|failure| self.unwritten(&failure.message))
    }

    /// Writes the marks that are behind.
    fn mark(&mut self) -> Result<(), Refusal> {
        while let Some(digest) = self.unmarked.first().cloned() {
            self.keep(&digest)?;
            self.unmarked.remove(&digest);
        }
        Ok(())
    }

    /// Refuses a plan that is spent. Looked for before anything is sent.
    pub fn check(&mut self, digest: &str) -> Result<(), Refusal> {
        self.marks.check(digest).map_err(|failure| match failure.exit {
            Exit::PrivacyRefused => Refusal::from(failure.field("digest")),
            _ => self.unwritten(&failure.message),
        })
    }

    /// Counts a number that is about to be revealed for the plan's draw: how many were, this one
    /// included.
    pub fn reveal(&mut self, digest: &str) -> Result<u64, Failure> {
        self.marks.reveal(digest)
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
            // Its mark may be behind.
            Some(charged) if charged >= mu_squared => return self.mark(),
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

    /// Writes down what changes a run's charge, in ledger and mark, and tells of it. A charge that
    /// is lowered is written in this order: mark, ledger; any other the other way round.
    fn book(&mut self, digest: &str, entry: Entry) -> Result<(), Refusal> {
        let before = self.charges.get(digest).cloned();
        let lowers = matches!(entry, Entry::Closed { .. } | Entry::Settled { .. });
        self.unmarked.insert(digest.to_owned());
        if lowers {
            self.count(entry.clone());
            let written = self.keep(digest);
            let written = written.and_then(|()| self.append(&entry));
            if written.is_err() {
                // It stays as it was; so will the mark, once it can be written.
                self.charges
                    .extend(before.clone().map(|charge| (digest.to_owned(), charge)));
            }
            written?;
        } else {
            self.append(&entry)?;
            self.count(entry);
        }
        let charge = self.charges.get(digest);
        let account = charge.map(|charge| charge.account.to_string());
        let mu = charge.map_or(0.0, |charge| charge.mu_squared).sqrt();
        let before = before.map_or(0.0, |charge| charge.mu_squared).sqrt();
        tracing::info!(digest, account, mu, before, "the run's charge");
        self.mark()
    }

    fn append(&mut self, entry: &Entry) -> Result<(), Refusal> {
        let written = self.journal.append(entry);
        written.map_err(|e| self.unwritten(&e.to_string()))
    }

    /// Whether charges can be written.
    pub fn is_sound(&self) -> bool {
        self.journal.is_sound() && self.marks.is_sound()
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
    /// A training that goes on counts with all that is set aside for it, as another one would.
    fn runs_left(&self, account: &AccountName, set: &DataSet) -> Option<u64> {
        let latest = self.latest.get(account)?;
        let aside = self.reserved.get(latest).map_or(0.0, |it| it.charge.mu_squared);
        let each = self.charged(latest)?.max(aside);
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
