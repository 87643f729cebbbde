//! Executions drawn by chance: any fate of any share, any coalition. They show what no list of
//! fault patterns thought of; what they do not show proves nothing.

use std::collections::BTreeSet;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::plan::claim::Faults;
use undertone_protocol::topology::party::Party;

use crate::class::faults;
use crate::class::setting::Setting;
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::share::{Fate, ShareFault};
use crate::execution::trace::Trace;
use crate::losses::loss::{Noise, largest, squared_losses};
use crate::losses::view::View;
use crate::parallel::in_parallel;

/// A drawn execution and what is lost in it.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// The execution, with its coalition as `corrupted`.
    pub execution: Execution,
    /// The party that loses most.
    pub victim: Party,
    /// The victim's loss μ at the noise asked for, sensitivity included; ∞ in doubt.
    pub mu: f64,
}

/// The execution that loses most of `count` drawn ones, and of as many that change a few shares of
/// the worst so far; within `covered`, against coalitions that a claim about `size` parties covers.
/// The same seed draws the same. None if nobody loses anything.
pub fn worst_drawn(
    setting: &Setting,
    noise: Noise,
    (covered, size): (Faults, usize),
    count: usize,
    seed: u64,
) -> Result<Option<Drawn>, ExecutionError> {
    let draw = |number: usize, near: Option<&Execution>| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(number as u64);
        let execution = match near {
            None => drawn(setting, covered, size, &mut random),
            Some(worst) => changed(setting, worst, covered, &mut random),
        };
        execution.and_then(|execution| loss(setting, execution, noise))
    };
    let mut worst: Option<Drawn> = None;
    // Each lot changes the worst of those before.
    let lots = count.div_ceil(LOT);
    for lot in 0..2 * lots {
        let near = worst
            .as_ref()
            .filter(|_| lot >= lots)
            .map(|worst| &worst.execution);
        let found = in_parallel(LOT, |index| Some(draw(lot * LOT + index, near)));
        for one in found {
            let one = one?;
            if one.mu > worst.as_ref().map_or(0.0, |worst| worst.mu) {
                worst = Some(one);
            }
        }
    }
    Ok(worst)
}

/// Executions between two looks at which is the worst so far.
const LOT: usize = 16;

/// The loss of an execution against its coalition.
fn loss(setting: &Setting, execution: Execution, noise: Noise) -> Result<Drawn, ExecutionError> {
    let view = View::of_trace(&Trace::of(&execution, &setting.weights), &execution);
    let squares = squared_losses(&view, noise);
    let (square, victim) = largest(&view.honest, &squares, &setting.sensitivity);
    Ok(Drawn {
        execution,
        victim,
        mu: square.max(0.0).sqrt(),
    })
}

/// An execution of `covered` against a coalition of those that a claim about `size` parties covers.
pub fn drawn(
    setting: &Setting,
    covered: Faults,
    size: usize,
    random: &mut ChaCha8Rng,
) -> Result<Execution, ExecutionError> {
    let base = setting.fault_free()?;
    let size = match covered {
        // By Theorem R the departed join the coalition.
        Faults::Class => setting.coalition_size(),
        Faults::BeforePublishing | Faults::Any | Faults::None => random.random_range(1..=size.max(1)),
    };
    let coalition = chosen(setting.parties(), size.min(setting.parties() - 1), random);
    let faults = match covered {
        Faults::Class => {
            let single = faults::single_shares(setting);
            let one = single.get(random.random_range(0..=single.len()));
            one.copied().into_iter().collect()
        }
        Faults::None => vec![],
        Faults::BeforePublishing | Faults::Any => {
            let chance = [0.1, 0.4, 0.8][random.random_range(0..3)];
            shares_with(setting, chance, random)
        }
    };
    let execution = base.with_shares(faults)?.with_corrupted(coalition)?;
    published(execution, covered)
}

/// An execution of `covered` that differs from `near` in a few shares.
fn changed(
    setting: &Setting,
    near: &Execution,
    covered: Faults,
    random: &mut ChaCha8Rng,
) -> Result<Execution, ExecutionError> {
    if covered == Faults::Class {
        return drawn(setting, covered, setting.colluding, random);
    }
    let place = |fault: &ShareFault| (fault.round, fault.from, fault.to);
    let all: Vec<_> = faults::shares(setting).collect();
    let mut shares = near.shares().to_vec();
    for _ in 0..random.random_range(1..=3) {
        let share = all[random.random_range(0..all.len())];
        shares.retain(|fault| place(fault) != share);
        if random.random_bool(0.7) {
            shares.push(fate(setting, share, random));
        }
    }
    published(near.clone().with_shares(shares)?, covered)
}

/// The execution with the finals that are out in it.
fn published(execution: Execution, covered: Faults) -> Result<Execution, ExecutionError> {
    match covered {
        Faults::BeforePublishing => execution.with_published([]),
        Faults::Class | Faults::Any | Faults::None => Ok(execution),
    }
}

/// The number of parties.
fn chosen(parties: usize, count: usize, random: &mut ChaCha8Rng) -> BTreeSet<Party> {
    let mut chosen = BTreeSet::new();
    while chosen.len() < count {
        chosen.insert(random.random_range(0..parties));
    }
    chosen
}

/// Random fates of shares, each of the schedule with this chance.
fn shares_with(setting: &Setting, chance: f64, random: &mut ChaCha8Rng) -> Vec<ShareFault> {
    let mut faults = Vec::new();
    for share in faults::shares(setting) {
        if random.random_bool(chance) {
            faults.push(fate(setting, share, random));
        }
    }
    faults
}

/// A random fate of one share.
fn fate(setting: &Setting, (round, from, to): (u32, Party, Party), random: &mut ChaCha8Rng) -> ShareFault {
    let fates: &[Fate] = if setting.rollback {
        &[Fate::Accepted, Fate::Returned]
    } else {
        &[Fate::Accepted, Fate::Returned, Fate::Lost]
    };
    let fate = fates[random.random_range(0..fates.len())];
    let applied = random.random_range(round..=setting.rounds() as u32);
    ShareFault {
        round,
        from,
        to,
        fate,
        applied: (fate != Fate::Lost).then_some(applied),
        seen: random.random_bool(0.6),
    }
}

#[cfg(test)]
mod tests;
