//! The spending of each data set: the charges of its runs, which add up ([`Charge`]), on disk
//! before they are spent. All of it counts in δ: the loss, the chance of a bad draw, and what
//! sampling adds.
//!
//! A run is *reserved* when it is taken, so that two that are taken together cannot both count on
//! the same rest; *drawn*, before this node reveals its number for the draw of a schedule;
//! *charged*, and synced, when its plan is marked as spent, before its first share leaves; *raised*
//! when the gate finds a larger loss, before its final leaves. Of a training a part is charged, and
//! the charge is raised some iterations ahead of what leaves, while all of it stays reserved. A
//! charge is lowered in two cases only, once the run has ended by itself: finals were sealed, and
//! nobody opens this node's (*closed*: to nothing but the draw); a training that ended early is
//! *settled* for the iterations that it had. A run that ends before it was charged (exit 4: nothing
//! private has left) gives back its reservation. What was drawn it does not give back: whoever is
//! against this node may end runs until a draw suits it, each plan of which has draws of its own,
//! and the chances of all of them add up.
//!
//! The file is a [`Journal`]: it only grows. A last line that was torn when the process was killed
//! was not synced yet, so that nothing of it had been spent; it is counted all the same if its JSON
//! is whole. Anything else that does not fit is refused.
//!
//! The charge of a run is kept beside the key, too, with its mark ([`Marks`]). A state directory
//! that comes back from a backup, or is another one, has a ledger without the runs since. It would
//! let their budget be spent twice. Code that raises a charge writes ledger, then mark; code that
//! lowers one, mark, then ledger. So at any moment no mark is above the ledger that belongs to it,
//! and a ledger that is below a mark is refused: [`Ledger::adopt`] charges what it lacks.

pub mod account;
mod books;
mod entry;
pub mod opening;

use std::collections::{BTreeMap, BTreeSet};

use undertone_accountant::losses::charge::Charge;

use crate::daemon::config::data_sets::DataSet;
use crate::daemon::ledger::account::{AccountName, Protected, Total};
use crate::daemon::ledger::books::{Books, draw_of};
use crate::daemon::ledger::entry::{Booked, Entry};
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::restored::Restored;
use crate::daemon::status::BudgetStatus;
use crate::party::journal::Journal;
use crate::party::marks::Marks;
use crate::party::plan_digest::PlanDigest;
use crate::party::plan_map::unreadable;
use crate::reporting::failure::{Exit, Failure};

#[derive(Clone, Debug)]
struct Reservation {
    booked: Booked,
    /// The totals of the accounts that it is charged to, of those that have one.
    totals: Vec<(AccountName, Total)>,
}

/// Runs that are counted as left at most. Our choice: of more nobody minds how many.
const MOST_LEFT: usize = 1000;

/// The open ledger. It must be held by one process only ([`super::state::State`]'s lock).
#[derive(Debug)]
pub struct Ledger {
    journal: Journal,
    marks: Marks,
    books: Books,
    reserved: BTreeMap<String, Reservation>,
    /// Charged runs whose marks could not be written yet.
    unmarked: BTreeSet<String>,
    /// After a restore: the data sets that stay closed.
    restored: Option<Restored>,
}

impl Ledger {
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
        let Some(booked) = self.books.charged(digest) else {
            return Ok(());
        };
        let noted = booked.noted().map_err(|e| self.unwritten(&e.to_string()))?;
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
        let draws = self.books.reveals(digest);
        self.refuse_unsound()?;
        let checked = self
            .marks
            .refuse_draws(draws)
            .and_then(|()| self.marks.check(digest));
        checked.map_err(|failure| match failure.exit {
            Exit::PrivacyRefused => Refusal::from(failure.field("digest")),
            _ => self.unwritten(&failure.message),
        })
    }

    /// Refuses to answer for what could not be read: nothing may follow from that nothing is known
    /// of a plan.
    fn refuse_unsound(&self) -> Result<(), Refusal> {
        match self.books.is_sound() {
            true => Ok(()),
            false => Err(self.unwritten(&unreadable().to_string())),
        }
    }

    /// Refuses an occurrence of a schedule of which this node has spent a plan.
    pub fn check_occurrence(&mut self, occurrence: &str) -> Result<(), Refusal> {
        let checked = self.marks.check_occurrence(occurrence);
        checked.map_err(|failure| self.occurred(failure))
    }

    /// Marks an occurrence as spent, on disk when this returns. Refused (exit 6) if it is. Call it
    /// before the plan is charged: an occurrence has one spent plan at most.
    pub fn spend_occurrence(&mut self, occurrence: &str) -> Result<(), Refusal> {
        let spent = self.marks.spend_occurrence(occurrence);
        spent.map_err(|failure| self.occurred(failure))
    }

    fn occurred(&self, failure: Failure) -> Refusal {
        match failure.exit {
            Exit::PrivacyRefused => Refusal::from(failure.field("occurrence")),
            _ => self.unwritten(&failure.message),
        }
    }

    /// Sets a charge aside for a run, if the totals of its accounts allow it together with all that
    /// is spent and reserved.
    pub fn reserve(
        &mut self,
        digest: &str,
        of: Protected,
        charge: Charge,
        totals: Vec<(AccountName, Total)>,
    ) -> Result<(), Refusal> {
        // It would be booked under no plan, and its charge lost.
        if PlanDigest::parse(digest).is_none() {
            return Err(Refusal::new(
                Kind::Internal,
                "a plan's digest has 64 hexadecimal digits",
            ));
        }
        if self.books.charged(digest).is_some() || self.reserved.contains_key(digest) {
            return Err(
                Refusal::new(Kind::Spent, "this node has already taken part in this plan")
                    .field("digest")
                    .hint("a second run with fresh noise would cost privacy twice; make a new plan"),
            );
        }
        let booked = Booked { of, charge };
        self.refuse_closed(&booked.of.data_set)?;
        for (account, total) in &totals {
            let taken = self.books.spent_besides(account, digest) + self.reserved(account);
            within((account, *total), taken, &booked)?;
        }
        self.refuse_unsound()?;
        let reservation = Reservation { booked, totals };
        self.reserved.insert(digest.to_owned(), reservation);
        Ok(())
    }

    /// Since when charges of a data set may be missing, for people; `None` where it is open.
    fn closed_since(&self, data_set: &str) -> Option<String> {
        let restored = self.restored.as_ref().filter(|it| it.closes(data_set));
        restored.map(Restored::since)
    }

    /// Refuses what would be charged to a data set whose charges since a backup are not known.
    fn refuse_closed(&self, data_set: &str) -> Result<(), Refusal> {
        let Some(since) = self.closed_since(data_set) else {
            return Ok(());
        };
        Err(Refusal::new(
            Kind::Budget,
            format!(
                "data set {data_set:?} is closed: this ledger was restored from a backup of {since}, and does not \
                 know what was spent after it"
            ),
        )
        .field("data_set")
        .hint(
            "charge what other members' receipts show, then open it: undertone ledger adopt --data-set NAME \
             [--receipt FILE --plan FILE]... --nothing-else-was-spent",
        ))
    }

    /// Gives back what was set aside for a run and not charged.
    pub fn release(&mut self, digest: &str) {
        self.reserved.remove(digest);
    }

    /// μ² that is set aside for a run, of one that nothing was charged for yet.
    pub fn set_aside(&self, digest: &str) -> Option<f64> {
        let aside = self
            .reserved
            .get(digest)
            .filter(|_| self.charged(digest).is_none());
        aside.map(|reservation| reservation.booked.charge.mu_squared)
    }

    /// Whether this node has revealed a number for the draw of a plan.
    pub fn has_revealed(&self, digest: &str) -> bool {
        self.books.reveals(digest) > 0
    }

    /// Charges a reserved run's chance of a bad draw, and counts a number that is about to be
    /// revealed for the draw: how many were, this one included. All is on disk when this returns.
    /// Refused (exit 6) once as many were as may be.
    pub fn reveal(&mut self, digest: &str) -> Result<u64, Failure> {
        let refused = |refusal: Refusal| Failure::new(refusal.kind.exit(), refusal.message);
        let Some(Reservation { booked, .. }) = self.reserved.get(digest).cloned() else {
            return Err(refused(not_reserved()));
        };
        let drawn = Booked {
            of: booked.of,
            charge: draw_of(booked.charge),
        };
        let noted = drawn
            .noted()
            .map_err(|e| refused(self.unwritten(&e.to_string())))?;
        self.marks.refuse_draws(self.books.reveals(digest))?;
        if self.books.charged(digest).is_none() {
            let entry = Entry::Drawn {
                digest: digest.to_owned(),
                of: drawn.of,
                charge: drawn.charge,
                at_ms: now_ms(),
            };
            self.append(&entry).map_err(refused)?;
            self.books.count(entry);
        }
        let marked = self.marks.reveal(digest, Some(noted))?;
        self.books.keep(&self.journal);
        Ok(marked.max(self.books.reveals(digest)))
    }

    /// Charges a reserved run with a part of what is reserved, all of it at most, or raises its
    /// charge to that part; on disk when this returns. Call it before anything leaves that costs as
    /// much. The rest stays reserved until it is released.
    pub fn charge_part(&mut self, digest: &str, part: Charge) -> Result<(), Refusal> {
        self.has_budget_for(digest, part)?;
        if self.books.charged(digest).is_some() {
            return self.raise(digest, part);
        }
        let Some(Reservation { booked, .. }) = self.reserved.get(digest).cloned() else {
            return Err(not_reserved());
        };
        let entry = Entry::Charged {
            digest: digest.to_owned(),
            of: booked.of,
            charge: booked.charge.at_most(part),
            at_ms: now_ms(),
        };
        self.book(digest, entry)
    }

    /// Charges as [`Self::charge_part`] a plan that is an attempt at this occurrence of a schedule,
    /// whose mark is written first: of no moment of a crash are two plans of it spent. Where the
    /// budget does not allow the charge, nothing is marked: the next attempt may be cheaper.
    pub fn charge_attempt(&mut self, occurrence: &str, digest: &str, part: Charge) -> Result<(), Refusal> {
        self.has_budget_for(digest, part)?;
        self.spend_occurrence(occurrence)?;
        self.charge_part(digest, part)
    }

    /// Refuses a charge of a reserved run for which there is no room: a loss that turned out
    /// larger, of this run or another, may have taken it since.
    fn has_budget_for(&self, digest: &str, part: Charge) -> Result<(), Refusal> {
        let reservation = self.reserved.get(digest);
        let booked = match (self.books.charged(digest), reservation) {
            (Some(Booked { of, charge }), _) => Booked {
                of,
                charge: charge.at_least(part),
            },
            (None, Some(known)) => known.booked.clone(),
            (None, None) => return Err(not_reserved()),
        };
        for (account, total) in reservation.iter().flat_map(|known| &known.totals) {
            let taken = self.books.spent_besides(account, digest);
            within((account, *total), taken, &booked)?;
        }
        Ok(())
    }

    /// Raises a run's charge to `charge`, part by part; on disk when this returns. Call it before
    /// anything leaves that costs as much. It is not held against a budget: by then the loss is
    /// there, and has to be counted. Where it is above the budget, the account takes nothing more.
    pub fn raise(&mut self, digest: &str, charge: Charge) -> Result<(), Refusal> {
        let Some(was) = self.charged(digest) else {
            return Err(Refusal::new(
                Kind::Internal,
                "a run that was not charged cannot be raised",
            ));
        };
        let charge = was.at_least(charge);
        if charge == was {
            // Its mark may be behind.
            return self.mark();
        }
        let entry = Entry::Raised {
            digest: digest.to_owned(),
            charge,
            at_ms: now_ms(),
        };
        let booked = self.book(digest, entry);
        self.warn_if_exceeded(digest);
        booked
    }

    /// Says that a run's charge is above a budget that it had to keep to.
    fn warn_if_exceeded(&self, digest: &str) {
        let totals = self.reserved.get(digest).map(|known| &known.totals);
        for (account, total) in totals.into_iter().flatten() {
            let spent = self.spent(account);
            if !total.allows(spent) {
                tracing::error!(
                    digest,
                    account = account.to_string(),
                    epsilon = total.epsilon,
                    spent = spent.epsilon(total.delta),
                    "the run cost more than its plan claims, which puts the data set over its budget: \
                     the data set takes no more runs"
                );
            }
        }
    }

    /// Raises the charge of a run whose loss turned out larger, if it was charged at all.
    pub fn raise_charged(&mut self, digest: &str, charge: Charge) -> Result<(), Refusal> {
        if self.books.charged(digest).is_some() {
            self.raise(digest, charge)
        } else {
            self.refuse_unsound()
        }
    }

    /// Takes back the charge of a run that has ended, and whose final nobody opens, but for its
    /// draw; the plan stays spent.
    pub fn close(&mut self, digest: &str) -> Result<(), Refusal> {
        if self
            .charged(digest)
            .is_none_or(|charged| charged == draw_of(charged))
        {
            return Ok(());
        }
        let entry = Entry::Closed {
            digest: digest.to_owned(),
            at_ms: now_ms(),
        };
        self.book(digest, entry)
    }

    /// Lowers the charge of a training that has ended by itself to what it has cost, part by part;
    /// the plan stays spent.
    pub fn settle(&mut self, digest: &str, charge: Charge) -> Result<(), Refusal> {
        // Not a number is no knowledge, and lowers nothing.
        let Some(was) = self.charged(digest).filter(|was| was.at_most(charge) != *was) else {
            return Ok(());
        };
        let entry = Entry::Settled {
            digest: digest.to_owned(),
            charge: was.at_most(charge),
            at_ms: now_ms(),
        };
        self.book(digest, entry)
    }

    /// Writes a change of a run's charge to ledger and mark, and reports it. A charge that is
    /// lowered is written in this order: mark, ledger; any other the other way round.
    fn book(&mut self, digest: &str, entry: Entry) -> Result<(), Refusal> {
        let before = self.charged(digest);
        let lowers = matches!(entry, Entry::Closed { .. } | Entry::Settled { .. });
        self.unmarked.insert(digest.to_owned());
        if lowers {
            self.books.count(entry.clone());
            let written = self.keep(digest);
            let written = written.and_then(|()| self.append(&entry));
            if let (Err(_), Some(was)) = (&written, before) {
                // It stays as it was; so will the mark, once it can be written.
                self.books.restore(digest, was);
            }
            written?;
        } else {
            self.append(&entry)?;
            self.books.count(entry);
        }
        if let Some(Booked { of, charge }) = self.books.charged(digest) {
            let (account, mu) = (of.accounts()[0].to_string(), charge.mu());
            let (draw, distance) = (charge.draw, charge.distance);
            let before = before.map_or(0.0, Charge::mu);
            tracing::info!(digest, account, mu, before, draw, distance, "the run's charge");
        }
        let marked = self.mark();
        // Last, where it takes no room that the mark needs, and keeps nothing waiting for it.
        self.books.keep(&self.journal);
        marked
    }

    /// Writes an entry, unless there are any that cannot be read: the budget may be used up.
    fn append(&mut self, entry: &Entry) -> Result<(), Refusal> {
        self.refuse_unsound()?;
        let written = self.journal.append(entry);
        written.map_err(|e| self.unwritten(&e.to_string()))
    }

    /// Whether charges can be written, and all that there are can be read.
    pub fn is_sound(&self) -> bool {
        self.journal.is_sound() && self.books.is_sound() && self.marks.is_sound()
    }

    /// Returns the charge of a run, once its plan is spent.
    pub fn charged(&self, digest: &str) -> Option<Charge> {
        self.books.charged(digest).map(|booked| booked.charge)
    }

    /// Returns the composed charge of an account's runs, never below the true one.
    pub fn spent(&self, account: &AccountName) -> Charge {
        self.books.spent_besides(account, "")
    }

    fn reserved(&self, account: &AccountName) -> Charge {
        // Of what is charged in part the rest.
        let rest = |(digest, reservation): (&String, &Reservation)| {
            let booked = self.books.charged_or_drawn(digest);
            let taken = booked.map_or(Charge::NOTHING, |booked| booked.in_account(account));
            reservation.booked.in_account(account).beyond(taken)
        };
        self.reserved.iter().map(rest).sum()
    }

    /// How many more runs that each cost as much as the account's latest one its budget allows,
    /// [`MOST_LEFT`] at most; never more than would be taken. None where none has cost anything.
    /// A training that goes on counts with all that is set aside for it, as another one would.
    fn runs_left(&self, account: &AccountName, total: Total) -> Option<u64> {
        let (latest, charged) = self.books.latest(account)?;
        let aside = self
            .reserved
            .get(&latest.to_string())
            .map(|aside| aside.booked.in_account(account));
        let each = charged.at_least(aside.unwrap_or(Charge::NOTHING));
        if each.mu_squared == 0.0 {
            return None;
        }
        let mut taken = self.spent(account) + self.reserved(account);
        let after: Vec<Charge> = (0..MOST_LEFT)
            .map(|_| {
                taken = taken + each;
                taken
            })
            .collect();
        Some(after.partition_point(|&after| total.allows(after)) as u64)
    }

    /// How many runs of this charge the totals allow, [`MOST_LEFT`] at most; `None`: there is no
    /// total. What is set aside for the run `besides` counts as free.
    pub fn pays_for(
        &self,
        of: &Protected,
        charge: Charge,
        totals: &[(AccountName, Total)],
        besides: Option<&str>,
    ) -> Option<u64> {
        if self.closed_since(&of.data_set).is_some() {
            return Some(0);
        }
        let own = besides.and_then(|digest| self.reserved.get(digest));
        let allowed = |(account, total): &(AccountName, Total)| {
            let each = of.in_account(account, charge);
            let freed = own.map_or(Charge::NOTHING, |own| own.booked.in_account(account));
            let mut taken = self.spent(account) + self.reserved(account).beyond(freed);
            let after: Vec<Charge> = (0..MOST_LEFT)
                .map(|_| {
                    taken = taken + each;
                    taken
                })
                .collect();
            after.partition_point(|&after| total.allows(after)) as u64
        };
        totals.iter().map(allowed).min()
    }

    /// Returns the budget of a data set, and what of it is spent.
    pub fn budget(&self, set: &DataSet) -> BudgetStatus {
        let account = AccountName::new(&set.name, set.unit);
        let spent = self.spent(&account);
        let total = Total {
            epsilon: set.epsilon,
            delta: set.delta,
        };
        // Sums of what could not be read are too small.
        let known = self.books.is_sound();
        BudgetStatus {
            epsilon: set.epsilon,
            delta: set.delta,
            epsilon_spent: Some(spent.epsilon(set.delta)).filter(|epsilon| known && epsilon.is_finite()),
            mu_squared: Some(spent.mu_squared).filter(|spent| known && spent.is_finite()),
            draw: spent.draw,
            distance: spent.distance,
            reserved_mu_squared: self.reserved(&account).mu_squared,
            runs_left: self.runs_left(&account, total),
            runs: self.books.runs(&account),
            closed_since: self.closed_since(&set.name),
            data_set: account.data_set,
            unit: account.unit,
        }
    }
}

fn not_reserved() -> Refusal {
    Refusal::new(Kind::Internal, "a run that was not reserved cannot be charged")
}

fn within((account, total): (&AccountName, Total), taken: Charge, booked: &Booked) -> Result<(), Refusal> {
    let own = booked.in_account(account);
    let after = taken + own;
    if total.allows(after) {
        return Ok(());
    }
    let Total { epsilon, delta } = total;
    let refuse =
        |message: String, hint: &str| Err(Refusal::new(Kind::Budget, message).field("data_set").hint(hint));
    if own.draw > delta {
        return refuse(
            format!(
                "the plan's schedule is drawn when it starts, and some draw that may be tried hides nothing with a chance of \
                 {:.2e}: that alone is above delta {delta:e} of data set {account}",
                own.draw
            ),
            "ask for a plan with a smaller privacy.delta: its chance of a bad draw is at most a thousandth of that",
        );
    }
    // Rounded up: what is too much does not look like what is allowed.
    let shown = |charge: Charge| match (charge.epsilon(delta) * 1e4).ceil() / 1e4 {
        found if found.is_finite() => format!("{found:.4}"),
        _ => "unbounded".to_owned(),
    };
    let (before, then) = (shown(taken), shown(after));
    let sampled = Charge {
        distance: 0.0,
        ..after
    };
    let hint = match total.allows(sampled) {
        true => {
            "what sampling the noise adds counts in delta, too: ask for a plan with a slightly smaller epsilon"
        }
        false => "ask for a plan with a smaller epsilon; what is spent does not come back",
    };
    let whose = match booked.of.accounts().first() == Some(account) {
        true => "",
        false => " (a run that protects a party costs each of its records as much)",
    };
    refuse(
        format!(
            "data set {account} may cost epsilon {epsilon} at delta {delta:e} in total: {before} is spent or reserved, with this run it \
             would be {then}{whose}"
        ),
        hint,
    )
}

/// Milliseconds since 1970 (UTC).
pub fn now_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests;
