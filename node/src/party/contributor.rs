//! A party's contributions to the iterations of a training, whatever their source.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::ChaCha12Rng;
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::mixing::noisy::Noisy;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::party::circle_noise::with_noise_of_circles;
use crate::party::input;
use crate::party::silence::SilenceLog;
use crate::vector_file::vector::VectorFile;

/// A party's contributions, one an iteration. They are computed away from the network's thread.
pub trait Contributor: Send {
    /// x̃ of an iteration, counted from 1, from what was released before it: clipped, rounded, with
    /// fresh independent noise. Whatever the data are, there is one.
    fn contribution(&mut self, iteration: u32, released: &[f64]) -> Noisy;

    /// The training is over; `result` is what it came to, if there is anything.
    fn conclude(&mut self, result: Option<&[f64]>);

    /// Where it notes rounds to which it contributes nothing.
    fn silence(&self) -> SilenceLog {
        SilenceLog::default()
    }
}

/// Somebody who hands over a party's vectors or rows, one matrix a round: a program, or whoever
/// asks over the API.
pub trait PartSource: Send {
    /// Returns the vector handed over for a round, from 1, once the mean of the round before is
    /// reported. After `until` there is none.
    ///
    /// # Errors
    /// Why there is nothing of use, for the party's owner alone.
    fn ask(&mut self, round: u32, mean: &[f64], until: Instant) -> Result<VectorFile, String>;

    /// Reports the last mean, if there is one.
    fn conclude(&mut self, mean: Option<&[f64]>);
}

/// How long a source may take for the first round, if others wait twice as long for this party. Our
/// choice: some libraries take half a minute to load on a slow disk.
const START_UP: Duration = Duration::from_secs(60);

/// Contributions of `task = "rounds"` and of streams: whatever a source hands over, clipped here.
///
/// A stand-in, [`Clipped::stand_in`], counts in place of a contribution that is late, of another
/// shape or not finite. Where rows are clipped here it counts for the rows at fault alone. All of
/// it has noise like any other contribution; only the party's owner learns of it.
pub struct HandedOver<S> {
    plan: Arc<Plan>,
    me: Party,
    source: S,
    noise: LatticeNoise<ChaCha12Rng>,
    silence: SilenceLog,
}

impl<S: PartSource> HandedOver<S> {
    /// The party with this source, and randomness for its noise.
    pub fn of(plan: &Arc<Plan>, me: Party, source: S, rng: ChaCha12Rng) -> Self {
        HandedOver {
            noise: LatticeNoise::new(rng, *plan.lattice(), plan.draft().dimension(), 0.0),
            plan: plan.clone(),
            me,
            source,
            silence: SilenceLog::default(),
        }
    }

    /// How long a source may take: what is left of a half of the iteration is for clipping, noise
    /// and sealing. The first round begins before anybody waits for this party's part of it, and a
    /// program has its libraries to load.
    fn patience(&self, round: u32) -> Duration {
        let run = &self.plan.draft().run;
        let half = match self.plan.draft().averages() {
            // A release is due to neighbours within the round that it is of.
            true => run.round_ms / 2,
            false => run.settle_ms,
        };
        let usual = Duration::from_millis(half).mul_f64(0.8);
        match round {
            1 => usual.max(START_UP.min(Duration::from_millis(run.join_ms / 2))),
            _ => usual,
        }
    }

    fn usable(&mut self, round: u32, mean: &[f64]) -> Result<Clipped, String> {
        let until = Instant::now() + self.patience(round);
        // What strangers learn is claimed of rows that follow from no estimate.
        let draft = self.plan.draft();
        let mean = match draft.averages() && !draft.computation.is_adaptive() {
            true => &[],
            false => mean,
        };
        let handed = self.source.ask(round, mean, until)?;
        let values = input::values_handed_over(&self.plan, self.me, handed)?;
        let (contribution, report) = Clipped::of(&self.plan, self.me, values);
        if report.replaced > 0 {
            tracing::warn!(
                round,
                "rows that are not finite count as the point of the range nearest to zero"
            );
            self.silence.rows(round);
        }
        Ok(contribution)
    }
}

impl<S: PartSource> Contributor for HandedOver<S> {
    fn contribution(&mut self, iteration: u32, released: &[f64]) -> Noisy {
        let contribution = self.usable(iteration, released).unwrap_or_else(|reason| {
            tracing::warn!(round = iteration, "this party contributes nothing: {reason}");
            self.silence.nothing(iteration, &reason);
            Clipped::stand_in(&self.plan, self.me)
        });
        let std = self.plan.calibration().independent_std;
        let value = self.noise.noisy(std, contribution);
        with_noise_of_circles(&self.plan, self.me, iteration, value, &mut self.noise)
    }

    fn conclude(&mut self, result: Option<&[f64]>) {
        self.source.conclude(result);
    }

    fn silence(&self) -> SilenceLog {
        self.silence.clone()
    }
}

#[cfg(test)]
mod tests;
