//! The cost of a run while it goes on: its charges in the ledger, and the plan's mark as spent.
//! With them goes the room on the disk that is kept for its result.

use std::sync::{Arc, Mutex, PoisonError};

use undertone_accountant::losses::charge::Charge;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::daemon::ledger::Ledger;
use crate::daemon::policy;
use crate::daemon::refusal;
use crate::daemon::runs::{Run, Stage};
use crate::daemon::shared::Shared;
use crate::daemon::status::RunState;
use crate::party::room::{self, Room};
use crate::party::spent::Costs;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::table::bytes;
use crate::vector_file::layout::Layout;

/// Room on the disks that a run's mean and receipt go to, until it is needed.
#[derive(Clone, Debug)]
pub(super) struct Rooms(Arc<Mutex<Vec<Room>>>);

impl Rooms {
    pub(super) fn take(shared: &Shared, run: &Run, plan: &Plan, layout: &Layout) -> Result<Self, Failure> {
        // With the coordinates that members which restart may ask for.
        let needed = room::needed(plan, layout) + (size_of::<f64>() * layout.dimension()) as u64;
        let config = shared.config();
        let output = config.output.as_deref().map(|output| (output, "output"));
        let places = std::iter::once((run.folder(), "state")).chain(output);
        let rooms = places.map(|(folder, field)| {
            Room::take(folder, needed).map_err(|e| {
                let message = format!(
                    "{}: no room for the mean and its receipt, up to {}: {e}",
                    folder.display(),
                    bytes(needed)
                );
                Failure::storage(&e, message)
                    .field(field)
                    .hint("make room on that disk and submit again: nothing private has left")
            })
        });
        Ok(Rooms(Arc::new(Mutex::new(rooms.collect::<Result<_, _>>()?))))
    }

    /// Gives it all back, for what has to be written now.
    pub(super) fn give(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Number of iterations or releases charged at once, before the first of them leaves: a ledger of
/// a tenth of the lines, and a crash costs nine more than left at most. Our choice.
const AHEAD: u64 = 10;

/// A training's iterations, a stream's releases that count together, or another run's one.
pub(super) struct Iterations {
    planned: u64,
    charged: u64,
    /// μ² of one of them.
    each: f64,
    all: Charge,
}

impl Iterations {
    pub(super) fn of(plan: &Plan, me: Party) -> Self {
        // The loss from sums of neighbours does not add up by parts: it is of the whole stream.
        let planned = match plan.reads_circles() {
            true => 1,
            false => plan.draft().protected_releases(),
        };
        Iterations::new(planned, policy::charge(plan, me))
    }

    fn new(planned: u64, all: Charge) -> Self {
        Iterations {
            planned,
            charged: 0,
            each: (all.mu_squared / planned as f64).next_up(),
            all,
        }
    }

    /// The charge of this many of them, never below it. Draw and sampling count whole from the
    /// first on, the draw before that.
    pub(super) fn cost(&self, count: u64) -> Charge {
        let mu_squared = match count {
            0 => {
                return Charge {
                    draw: self.all.draw,
                    ..Charge::NOTHING
                };
            }
            count if count >= self.planned => self.all.mu_squared,
            count => (self.each * count as f64).next_up(),
        };
        Charge {
            mu_squared,
            ..self.all
        }
    }

    /// The number of them that a charge pays for.
    pub(super) fn paid_by(&self, charge: Charge) -> u64 {
        let covers = |count: &u64| self.cost(*count).mu_squared >= charge.mu_squared;
        (0..self.planned).find(covers).unwrap_or(self.planned)
    }

    /// How many are to be charged before this one, from 1, leaves; `None` where it is charged.
    fn lacking(&self, iteration: u64) -> Option<u64> {
        let is_charged = self.charged >= self.planned || iteration <= self.charged;
        (!is_charged).then(|| (iteration + AHEAD - 1).min(self.planned))
    }

    /// One of them has turned out to cost μ: as much may be true of all. What those that are
    /// charged come to then, if that is more than was thought.
    fn settle(&mut self, mu: f64) -> Option<Charge> {
        let each = Charge::of_loss(mu).mu_squared;
        if each <= self.each {
            return None;
        }
        self.each = each;
        self.all.mu_squared = self.all.mu_squared.max((each * self.planned as f64).next_up());
        Some(self.cost(self.charged))
    }
}

/// The ledger and the marks beside the key, for one run.
pub(super) struct Charged {
    shared: Arc<Shared>,
    run: Arc<Run>,
    digest: String,
    /// The occurrence of a schedule that the plan is an attempt at, if it is one.
    occurrence: Option<String>,
    iterations: Iterations,
    rooms: Rooms,
}

impl Charged {
    pub(super) fn of(
        (shared, run): (&Arc<Shared>, &Arc<Run>),
        (plan, me): (&Plan, Party),
        rooms: Rooms,
    ) -> Self {
        Charged {
            shared: shared.clone(),
            run: run.clone(),
            digest: plan.digest_hex(),
            occurrence: plan.draft().scheduled.map(|it| it.occurrence.to_string()),
            iterations: Iterations::of(plan, me),
            rooms,
        }
    }

    /// Charges so many iterations.
    fn charge_iterations(&mut self, count: u64) -> Result<(), Failure> {
        let cost = self.iterations.cost(count);
        self.written(|ledger, digest| ledger.charge_part(digest, cost))?;
        self.iterations.charged = count;
        let charged = self.shared.ledger().charged(&self.digest);
        self.run
            .update(|status| status.charged = charged.map(|charge| charge.mu_squared));
        Ok(())
    }

    /// Writes into the ledger, if need be into the room that was kept for the result.
    fn written(
        &self,
        write: impl Fn(&mut Ledger, &str) -> Result<(), refusal::Refusal>,
    ) -> Result<(), Failure> {
        let first = write(&mut self.shared.ledger(), &self.digest);
        let written = first.or_else(|_| {
            self.rooms.give();
            write(&mut self.shared.ledger(), &self.digest)
        });
        written.map_err(|refusal| Failure::new(refusal.kind.exit(), refusal.message))
    }
}

impl Costs for Charged {
    fn spend(&mut self) -> Result<(), Failure> {
        // Held until it is done: nobody takes the run back in between.
        let mut stage = self.run.stage();
        if *stage != Stage::Open {
            return Err(Failure::new(Exit::Aborted, "the run was taken back"));
        }
        let first = self.iterations.planned.min(AHEAD);
        let cost = self.iterations.cost(first);
        let refused = |refusal: refusal::Refusal| Failure::new(refusal.kind.exit(), refusal.message);
        {
            let mut ledger = self.shared.ledger();
            let charged = match &self.occurrence {
                Some(occurrence) => ledger.charge_attempt(occurrence, &self.digest, cost),
                None => ledger.charge_part(&self.digest, cost),
            };
            charged.map_err(refused)?;
        }
        *stage = Stage::Spent;
        drop(stage);
        self.iterations.charged = first;
        let charged = self.shared.ledger().charged(&self.digest);
        self.run.update(|status| {
            status.state = RunState::Running;
            status.charged = charged.map(|charge| charge.mu_squared);
        });
        Ok(())
    }

    fn spend_iteration(&mut self, iteration: u32) -> Result<(), Failure> {
        match self.iterations.lacking(iteration.into()) {
            None => Ok(()),
            Some(count) => self.charge_iterations(count),
        }
    }

    fn reveal(&mut self) -> Result<u64, Failure> {
        self.shared.ledger().reveal(&self.digest)
    }

    fn settle(&mut self, mu: f64) -> Result<(), Failure> {
        match self.iterations.settle(mu) {
            None => Ok(()),
            Some(cost) => self.written(|ledger, digest| ledger.raise(digest, cost)),
        }
    }
}

#[cfg(test)]
mod tests;
