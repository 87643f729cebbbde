//! The sum of a ledger's lines: every plan's charge, compactly. A daemon has some of them a
//! minute, for years.

use std::collections::BTreeMap;

use undertone_accountant::losses::charge::Charge;
use undertone_protocol::messages::commitment::MOST_REVEALS;

use crate::daemon::ledger::account::{AccountName, Protected};
use crate::daemon::ledger::entry::{Booked, Entry};
use crate::party::plan_digest::PlanDigest;

/// All that is known of a plan: some 70 bytes with its digest.
#[derive(Clone, Copy, Debug)]
struct PlanBook {
    /// The number of what it is charged for.
    of: u32,
    /// How many numbers the plan's draw was shown: the marks may have been restored.
    reveals: u8,
    /// Whether the run is charged; else its number for a draw was revealed, and no more.
    charged: bool,
    charge: Charge,
}

/// All that was booked.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// The few subjects that runs are charged for.
    subjects: Vec<Protected>,
    plans: BTreeMap<PlanDigest, PlanBook>,
    /// The run of each account that was charged last.
    latest: BTreeMap<AccountName, PlanDigest>,
}

impl Books {
    fn number_of(&mut self, of: Protected) -> u32 {
        let number = self.subjects.iter().position(|known| *known == of);
        let number = number.unwrap_or_else(|| {
            self.subjects.push(of);
            self.subjects.len() - 1
        });
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    /// A plan is charged once, after its draw, and changed after that.
    pub(super) fn fits(&self, entry: &Entry) -> bool {
        let Some(digest) = PlanDigest::parse(entry.digest()) else {
            return false;
        };
        let known = self.plans.get(&digest);
        let charged = known.is_some_and(|plan| plan.charged);
        match entry {
            Entry::Drawn { .. } => {
                !charged && known.is_none_or(|plan| u64::from(plan.reveals) < MOST_REVEALS)
            }
            Entry::Charged { .. } => !charged,
            Entry::Raised { .. } | Entry::Closed { .. } | Entry::Settled { .. } => charged,
        }
    }

    /// Counts an entry that fits.
    pub(super) fn count(&mut self, entry: Entry) {
        let Some(key) = PlanDigest::parse(entry.digest()) else {
            return;
        };
        match entry {
            Entry::Drawn { of, charge, .. } => {
                let before = self.plans.get(&key).map_or(0, |plan| plan.reveals);
                self.put(key, (of, charge), (before.saturating_add(1), false));
            }
            Entry::Charged { of, charge, .. } => {
                for account in of.accounts() {
                    self.latest.insert(account, key);
                }
                let reveals = self.plans.get(&key).map_or(0, |plan| plan.reveals);
                self.put(key, (of, charge), (reveals, true));
            }
            Entry::Raised { charge, .. } => self.change(key, |was| was.at_least(charge)),
            Entry::Closed { .. } => self.change(key, draw_of),
            Entry::Settled { charge, .. } => self.change(key, |was| was.at_most(charge)),
        }
    }

    fn put(&mut self, key: PlanDigest, (of, charge): (Protected, Charge), (reveals, charged): (u8, bool)) {
        let of = self.number_of(of);
        let plan = PlanBook {
            of,
            reveals,
            charged,
            charge,
        };
        self.plans.insert(key, plan);
    }

    fn change(&mut self, key: PlanDigest, to: impl Fn(Charge) -> Charge) {
        if let Some(plan) = self.plans.get_mut(&key).filter(|plan| plan.charged) {
            plan.charge = to(plan.charge);
        }
    }

    /// Takes back what was counted: the charge is as it was before.
    pub(super) fn restore(&mut self, digest: &str, was: Charge) {
        if let Some(key) = PlanDigest::parse(digest) {
            self.change(key, |_| was);
        }
    }

    fn plan(&self, digest: &str) -> Option<&PlanBook> {
        self.plans.get(&PlanDigest::parse(digest)?)
    }

    fn booked(&self, plan: &PlanBook) -> Option<Booked> {
        let of = self.subjects.get(plan.of as usize)?.clone();
        let charge = plan.charge;
        Some(Booked { of, charge })
    }

    /// The charge of a run that is charged.
    pub(super) fn charged(&self, digest: &str) -> Option<Booked> {
        let plan = self.plan(digest).filter(|plan| plan.charged)?;
        self.booked(plan)
    }

    /// The charge of a run that is charged, or that was drawn.
    pub(super) fn charged_or_drawn(&self, digest: &str) -> Option<Booked> {
        self.booked(self.plan(digest)?)
    }

    /// How many numbers the plan's draw was shown.
    pub(super) fn reveals(&self, digest: &str) -> u64 {
        self.plan(digest).map_or(0, |plan| u64::from(plan.reveals))
    }

    /// Whether what is known of the plan, which is spent or only drawn, costs at least as much.
    pub(super) fn covers(&self, key: &PlanDigest, spent: bool, charge: Charge) -> bool {
        let known = self.plans.get(key).filter(|plan| plan.charged || !spent);
        known.is_some_and(|known| known.charge.at_least(charge) == known.charge)
    }

    /// The runs that are charged, each with what for.
    pub(super) fn all_charged(&self) -> impl Iterator<Item = (&PlanDigest, &Protected, Charge)> {
        let charged = self.plans.iter().filter(|(_, plan)| plan.charged);
        charged.filter_map(|(key, plan)| Some((key, self.subjects.get(plan.of as usize)?, plan.charge)))
    }

    /// All plans with what for they are charged, and whether they are spent or only drawn.
    pub(super) fn all(&self) -> impl Iterator<Item = (&PlanDigest, &Protected, Charge, bool)> {
        self.plans.iter().filter_map(|(key, plan)| {
            let of = self.subjects.get(plan.of as usize)?;
            Some((key, of, plan.charge, plan.charged))
        })
    }

    /// How many runs an account is charged with.
    pub(super) fn runs(&self, account: &AccountName) -> usize {
        let counts = |of: &Protected| of.accounts().contains(account);
        let counting: Vec<bool> = self.subjects.iter().map(counts).collect();
        let charged = self.plans.values().filter(|plan| plan.charged);
        charged.filter(|plan| counting[plan.of as usize]).count()
    }

    /// The run of an account that was charged last, and what it is charged with there.
    pub(super) fn latest(&self, account: &AccountName) -> Option<(PlanDigest, Charge)> {
        let key = self.latest.get(account)?;
        let booked = self.booked(self.plans.get(key)?)?;
        Some((*key, booked.in_account(account)))
    }

    /// The charges of an account's runs together, but for this run; never below it.
    pub(super) fn spent_besides(&self, account: &AccountName, digest: &str) -> Charge {
        let besides = PlanDigest::parse(digest);
        let mut sums = vec![Charge::NOTHING; self.subjects.len()];
        for (_, plan) in self.plans.iter().filter(|(key, _)| Some(**key) != besides) {
            let sum = &mut sums[plan.of as usize];
            *sum = *sum + plan.charge;
        }
        let subjects = self.subjects.iter().zip(sums);
        subjects.map(|(of, sum)| of.in_account(account, sum)).sum()
    }
}

/// The part of a charge that stays, whatever becomes of its run.
pub(super) fn draw_of(charge: Charge) -> Charge {
    Charge {
        draw: charge.draw,
        ..Charge::NOTHING
    }
}
