//! Gossip with secure sums over neighbourhoods: a coalition reads sums of what its members'
//! neighbours send, and what counts is what the worst of all coalitions learns of them in the whole
//! stream.
//!
//! By Theorem R for gossip a coalition of as many as collude, joined by all who depart, learns no
//! more of anybody else in any run than in the one in which those stay: what is left out of a sum
//! is known to them, times weights that are the same in both. So coalitions of c + D in one
//! execution are the class; and, since a departed party's own later noise is missing, executions
//! with a departure for that party, whose coalition is one smaller.

use undertone_protocol::plan::calibration::{Calibration, SeededSchedule};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Claim, Established, Faults};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::topology::party::Party;
use undertone_protocol::topology::schedule::Schedule;

use crate::calibration::claims::mark_headline;
use crate::calibration::error::CalibrateError;
use crate::calibration::limits::MARGIN;
use crate::class::gossip::{GossipClass, WorstGossip, open_loss};
use crate::guarantee::own_noise::{self, OpenGossip, SEED, claim, predicted};
use crate::losses::gaussian::{self, GaussianError, SLACK};

/// A bound on the relative error that rounding adds to a loss; the noise makes room for it.
const ROUNDING_SHARE: f64 = 1e-4;

/// The coalition that learns most, the party it learns of, and the loss.
#[derive(Debug, Clone, PartialEq)]
pub struct WorstReaders {
    /// The members of the coalition, c + D of them at most.
    pub readers: Vec<Party>,
    /// The party whose releases they learn of.
    pub party: Party,
    /// Their squared loss over that of open messages, above 0 and at most 1.
    pub part_of_open: f64,
    /// Whether every coalition was computed.
    pub exhaustive: bool,
}

/// Returns the largest loss of the class at unit noise and sensitivity, including executions in
/// which the party itself departs.
fn worst(draft: &Draft, schedule: &Schedule, rounds: usize) -> WorstGossip {
    let (class, protect) = (
        GossipClass::of_schedule(schedule).first(rounds),
        draft.computation.protect(),
    );
    let against = draft.privacy.colluding + draft.privacy.dropouts;
    let staying = class.secure(against, protect);
    if draft.privacy.dropouts == 0 {
        return staying;
    }
    // The party that departs is one of those that may be against the others, so its own coalition
    // is one smaller.
    match class.departing(against - 1, protect) {
        Some(departing) => staying.max(departing),
        // What a party that departs loses itself is then not known.
        None => WorstGossip {
            exhaustive: false,
            ..staying
        },
    }
}

/// The readers who learn most in a plan; none if there is nobody to learn anything.
pub fn worst_readers(plan: &Plan) -> Option<WorstReaders> {
    let draft = plan.draft();
    let worst = worst(draft, plan.schedule(), plan.schedule().rounds());
    let open = open_loss(draft.computation.protect(), draft.releases());
    let (readers, party) = worst.case?;
    Some(WorstReaders {
        readers,
        party,
        part_of_open: (worst.square / open).min(1.0),
        exhaustive: worst.exhaustive,
    })
}

/// μ of the first `releases` releases of a plan, within its class: never below the true one, where
/// every coalition was computed; else, and where that is less, what holds against anybody.
pub fn loss_of(plan: &Plan, releases: u64) -> f64 {
    let (draft, std) = (plan.draft(), plan.calibration().independent_std);
    let anybody = own_noise::loss_of(draft, std, releases.min(draft.releases()));
    let mut claims = plan.calibration().claims.iter();
    let of_class = claims.find(|claim| claim.holds_as_headline && claim.faults == Faults::Class);
    match of_class {
        Some(claim) if releases >= draft.releases() => claim.mu,
        // The others may have gone on with what it contributed and without its later noise: such
        // executions are in the class.
        Some(claim) if releases > 0 && draft.privacy.dropouts > 0 => claim.mu.min(anybody),
        // Nobody may depart, so nobody went on: the shorter stream is all that was read.
        Some(_) if releases > 0 => {
            let worst = worst(draft, plan.schedule(), releases as usize);
            let rounding = draft.rounding_loss(plan.lattice().step(), std);
            let each = draft.largest_sensitivity() / std;
            let within = (worst.square.sqrt() * each + rounding) * (1.0 + SLACK);
            // A search can miss the worst coalition, so the loss that it found bounds nothing.
            if worst.exhaustive {
                within.min(anybody)
            } else {
                anybody
            }
        }
        _ => anybody,
    }
}

/// All claims: of the class, of a stream of which no sum is opened, and of anybody.
///
/// # Errors
/// δ is out of range.
fn claims(draft: &Draft, worst: &WorstGossip, open: &OpenGossip<'_>) -> Result<Vec<Claim>, GaussianError> {
    let rounding = draft.rounding_loss(open.step, open.independent_std);
    let each = draft.largest_sensitivity() / open.independent_std;
    let mu = (worst.square.sqrt() * each + rounding) * (1.0 + SLACK);
    // Sums are all that a coalition reads only as long as single messages stay sealed.
    let class = Claim {
        faults: Faults::Class,
        established: match worst.exhaustive {
            true => Established::Exhaustive,
            false => Established::Searched,
        },
        cases: worst.cases as u64,
        sealed: true,
        ..claim(draft, mu)?
    };
    // What is sealed and never opened tells nothing.
    let closed = Claim {
        faults: Faults::BeforePublishing,
        sealed: true,
        ..claim(draft, 0.0)?
    };
    let anybody = Claim {
        holds_as_headline: false,
        ..open.claim_of_all(draft)?
    };
    let mut claims = vec![class, closed, anybody];
    if draft.computation.is_adaptive() {
        // Rows that follow estimates are not those that were computed.
        claims.remove(0);
    }
    mark_headline(&mut claims);
    Ok(claims)
}

/// Establishes the claims of a plan.
///
/// # Errors
/// δ is out of range.
pub(super) fn established(plan: &Plan) -> Result<Vec<Claim>, GaussianError> {
    let open = OpenGossip {
        schedule: plan.schedule(),
        independent_std: plan.calibration().independent_std,
        step: plan.lattice().step(),
    };
    let draft = plan.draft();
    claims(draft, &worst(draft, open.schedule, open.schedule.rounds()), &open)
}

/// The least noise that keeps the worst of the class, or where that was not computed anybody,
/// within the budget.
///
/// # Errors
/// A target that no noise meets, or a graph without the edges.
pub(super) fn calibrate(draft: &Draft) -> Result<Calibration, CalibrateError> {
    let rounds = draft.releases() as u32;
    let budget = gaussian::mu(draft.privacy.epsilon, draft.privacy.delta)?;
    let schedule = Calibration::draw_schedule(draft, rounds, SEED).ok_or(CalibrateError::Kind)?;
    let worst = worst(draft, &schedule, rounds as usize);
    let open = open_loss(draft.computation.protect(), draft.releases());
    // A claim adds the loss from rounding to that of the noise, so the noise leaves room for both.
    let with_rounding = worst.square / (1.0 - ROUNDING_SHARE).powi(2);
    // Otherwise no claim of the class counts, and the noise has to suffice against anybody.
    let square = match worst.exhaustive && !draft.computation.is_adaptive() {
        true => open.min(with_rounding),
        false => open,
    };
    let independent_std = draft.largest_sensitivity() * (square / MARGIN).sqrt() / budget;
    if !independent_std.is_normal() {
        return Err(CalibrateError::Budget {
            epsilon: draft.privacy.epsilon,
            delta: draft.privacy.delta,
            party: draft.members[0].name.clone(),
        });
    }
    let predicted = predicted(draft, &schedule, independent_std, budget);
    let mut calibration = Calibration {
        rounds,
        claims: vec![],
        predicted: predicted.times(draft.data.scales().root_mean_square()),
        drawn: Some(SeededSchedule {
            seed: SEED,
            schedule: schedule.clone(),
        }),
        independent_std,
        correlated_std: 0.0,
    };
    // Where it fits on no lattice the plan is refused, with the reason.
    let gossip = OpenGossip {
        schedule: &schedule,
        independent_std,
        step: calibration.step(draft).unwrap_or(0.0),
    };
    calibration.claims = claims(draft, &worst, &gossip)?;
    Ok(calibration)
}

#[cfg(test)]
mod tests;
