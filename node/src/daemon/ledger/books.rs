//! The sum of a ledger's lines: every plan's charge, compactly. A daemon has some of them a
//! minute, for years.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use undertone_accountant::losses::charge::Charge;
use undertone_protocol::messages::commitment::MOST_REVEALS;

use crate::daemon::ledger::account::{AccountName, Protected};
use crate::daemon::ledger::entry::{Booked, Entry};
use crate::party::checkpoint;
use crate::party::journal::Journal;
use crate::party::plan_digest::PlanDigest;
use crate::party::plan_map::{Fixed, PlanMap};

/// All that is known of a plan.
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

impl Fixed for PlanBook {
    const BYTES: usize = u32::BYTES + 2 + Charge::BYTES;

    fn put(&self, bytes: &mut Vec<u8>) {
        ((self.of, self.charge), (self.reveals, u8::from(self.charged))).put(bytes);
    }

    fn get(bytes: &[u8]) -> Self {
        let ((of, charge), (reveals, charged)): ((u32, Charge), (u8, u8)) = Fixed::get(bytes);
        PlanBook {
            of,
            reveals,
            charged: charged != 0,
            charge,
        }
    }
}

/// The state of a ledger at a place of its journal, apart from its plans.
#[derive(Deserialize, Serialize)]
struct Known {
    subjects: Vec<Protected>,
    /// Data set, unit and the digest of the latest run.
    latest: Vec<(String, String, String)>,
}

fn checkpoint_of(journal: &Journal) -> PathBuf {
    journal.path().with_extension("sorted")
}

/// All that was booked.
#[derive(Debug)]
pub(super) struct Books {
    /// The few subjects that runs are charged for.
    subjects: Vec<Protected>,
    plans: PlanMap<PlanDigest, PlanBook>,
    /// The run of each account that was charged last.
    latest: BTreeMap<AccountName, PlanDigest>,
}

impl Books {
    /// Nothing yet. What there will be may stand in files of this folder.
    pub(super) fn nothing(folder: Option<&Path>) -> Self {
        Books {
            subjects: vec![],
            plans: PlanMap::new(folder),
            latest: BTreeMap::new(),
        }
    }

    /// Whether all that was booked can be read. Sums are too small where not.
    pub(super) fn is_sound(&self) -> bool {
        self.plans.is_sound()
    }

    /// Takes up the checkpoint of a ledger's journal, of which nothing was read yet.
    pub(super) fn resume(&mut self, journal: &mut Journal) {
        let path = checkpoint_of(journal);
        if let Some(Known { subjects, latest }) = checkpoint::resume(&mut self.plans, &path, journal) {
            self.subjects = subjects;
            self.latest = latest
                .into_iter()
                .filter_map(|(data_set, unit, digest)| {
                    Some((AccountName { data_set, unit }, PlanDigest::parse(&digest)?))
                })
                .collect();
        }
    }

    /// Keeps few plans in memory. All entries of the journal have to be counted, and no others.
    pub(super) fn keep(&mut self, journal: &Journal) {
        let latest = self.latest.iter().map(|(account, digest)| {
            let AccountName { data_set, unit } = account.clone();
            (data_set, unit, digest.to_string())
        });
        let known = Known {
            subjects: self.subjects.clone(),
            latest: latest.collect(),
        };
        checkpoint::keep(&mut self.plans, &checkpoint_of(journal), journal, known);
    }

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
        if let Some(plan) = self.plans.get(&key).filter(|plan| plan.charged) {
            let charge = to(plan.charge);
            self.plans.insert(key, PlanBook { charge, ..plan });
        }
    }

    /// Takes back what was counted: the charge is as it was before.
    pub(super) fn restore(&mut self, digest: &str, was: Charge) {
        if let Some(key) = PlanDigest::parse(digest) {
            self.change(key, |_| was);
        }
    }

    fn plan(&self, digest: &str) -> Option<PlanBook> {
        self.plans.get(&PlanDigest::parse(digest)?)
    }

    fn booked(&self, plan: PlanBook) -> Option<Booked> {
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
        covered(self.plans.get(key), spent, charge)
    }

    /// Answers as [`Self::covers`] for plans that come in the order of their digests, in one pass.
    pub(super) fn covers_in_order(&self) -> impl FnMut(&PlanDigest, bool, Charge) -> bool {
        let mut plans = self.plans.in_order();
        move |key, spent, charge| covered(plans(key), spent, charge)
    }

    /// The runs that are charged, each with what for.
    pub(super) fn all_charged(&self) -> impl Iterator<Item = (PlanDigest, &Protected, Charge)> {
        let charged = self.plans.iter().filter(|(_, plan)| plan.charged);
        charged.filter_map(|(key, plan)| Some((key, self.subjects.get(plan.of as usize)?, plan.charge)))
    }

    /// All plans with what for they are charged, and whether they are spent or only drawn.
    pub(super) fn all(&self) -> impl Iterator<Item = (PlanDigest, &Protected, Charge, bool)> {
        self.plans.iter().filter_map(|(key, plan)| {
            let of = self.subjects.get(plan.of as usize)?;
            Some((key, of, plan.charge, plan.charged))
        })
    }

    /// How many runs an account is charged with.
    pub(super) fn runs(&self, account: &AccountName) -> usize {
        let counts = |of: &Protected| of.accounts().contains(account);
        let counting: Vec<bool> = self.subjects.iter().map(counts).collect();
        let charged = self.plans.iter().filter(|(_, plan)| plan.charged);
        charged.filter(|(_, plan)| counting[plan.of as usize]).count()
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
        for (_, plan) in self.plans.iter().filter(|(key, _)| Some(*key) != besides) {
            let sum = &mut sums[plan.of as usize];
            *sum = *sum + plan.charge;
        }
        let subjects = self.subjects.iter().zip(sums);
        subjects.map(|(of, sum)| of.in_account(account, sum)).sum()
    }
}

fn covered(known: Option<PlanBook>, spent: bool, charge: Charge) -> bool {
    let known = known.filter(|plan| plan.charged || !spent);
    known.is_some_and(|known| known.charge.at_least(charge) == known.charge)
}

/// The part of a charge that stays, whatever becomes of its run.
pub(super) fn draw_of(charge: Charge) -> Charge {
    Charge {
        draw: charge.draw,
        ..Charge::NOTHING
    }
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::run_file::settings::{Adjacency, Unit};

    use super::*;

    fn key() -> String {
        format!("{:064x}", 7)
    }

    fn of() -> Protected {
        Protected {
            data_set: "ward-7".into(),
            unit: Unit::Party,
            adjacency: Adjacency::ReplaceOne,
        }
    }

    fn drawn(draw: f64) -> Entry {
        Entry::Drawn {
            digest: key(),
            of: of(),
            charge: Charge {
                draw,
                ..Charge::NOTHING
            },
            at_ms: 0,
        }
    }

    fn charged(charge: Charge) -> Entry {
        let (digest, of, at_ms) = (key(), of(), 0);
        Entry::Charged {
            digest,
            of,
            charge,
            at_ms,
        }
    }

    const WHOLE: Charge = Charge {
        mu_squared: 0.4,
        draw: 1e-9,
        distance: 2e-10,
    };

    #[test]
    fn a_draw_fits_as_often_as_numbers_may_be_revealed_and_not_after_the_charge() {
        let mut books = Books::nothing(None);
        for count in 0..MOST_REVEALS {
            assert_eq!(books.reveals(&key()), count);
            assert!(books.fits(&drawn(1e-9)));
            books.count(drawn(1e-9));
        }
        assert!(!books.fits(&drawn(1e-9)), "one more than may be");
        let mut books = Books::nothing(None);
        books.count(charged(WHOLE));
        assert!(!books.fits(&drawn(1e-9)) && !books.fits(&charged(WHOLE)));
    }

    /// Each part of what is booked is to be as large, and a draw alone stands for no spent plan.
    #[test]
    fn what_is_booked_covers_no_more_than_it_says() {
        let digest = PlanDigest::parse(&key()).expect("a digest");
        let mut books = Books::nothing(None);
        let draw = draw_of(WHOLE);
        assert!(
            !books.covers(&digest, false, Charge::NOTHING),
            "nothing is booked"
        );
        books.count(drawn(1e-9));
        assert!(books.covers(&digest, false, draw));
        assert!(!books.covers(&digest, true, draw), "it is only drawn");
        books.count(charged(WHOLE));
        assert!(books.covers(&digest, true, WHOLE) && books.covers(&digest, false, draw));
        for more in [
            Charge {
                mu_squared: 0.5,
                ..WHOLE
            },
            Charge { draw: 2e-9, ..WHOLE },
            Charge {
                distance: 3e-10,
                ..WHOLE
            },
        ] {
            assert!(!books.covers(&digest, true, more), "{more:?}");
        }
    }

    /// A line that says that a run has cost less lowers each part, and none that says more raises
    /// one.
    #[test]
    fn a_settled_charge_is_raised_in_no_part() {
        let mut books = Books::nothing(None);
        books.count(charged(WHOLE));
        books.count(Entry::Settled {
            digest: key(),
            charge: Charge {
                mu_squared: 0.1,
                draw: 1.0,
                distance: 1.0,
            },
            at_ms: 0,
        });
        let settled = books.charged(&key()).map(|booked| booked.charge);
        let expected = Charge {
            mu_squared: 0.1,
            ..WHOLE
        };
        assert_eq!(settled, Some(expected));
    }
}
