//! What a party contributes to the iterations of a training, wherever it comes from.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::ChaCha12Rng;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::party::circle_noise::with_noise_of_circles;
use crate::party::{clipping, input, randomness};
use crate::telling::failure::Failure;
use crate::vector_file::vector::VectorFile;

/// A party's contributions, one an iteration. They are computed away from the network's thread.
pub trait Contributor: Send {
    /// x̃ of an iteration, counted from 1, from what was released before it: clipped, rounded, with
    /// fresh independent noise. Whatever the data are, there is one.
    fn contribution(&mut self, iteration: u32, released: &[f64]) -> LatticeVector;

    /// The training is over; `result` is what it came to, if there is anything.
    fn conclude(&mut self, result: Option<&[f64]>);
}

/// Somebody who hands over a party's vectors or rows, one matrix a round: a program, or whoever
/// asks over the API.
pub trait PartSource: Send {
    /// What is handed over for a round, from 1, once the mean of the round before is told. None
    /// after `until`.
    ///
    /// # Errors
    /// Why there is nothing of use, for the party's owner alone.
    fn ask(&mut self, round: u32, mean: &[f64], until: Instant) -> Result<VectorFile, String>;

    /// The last mean is told, if there is one.
    fn conclude(&mut self, mean: Option<&[f64]>);
}

/// Contributions of `task = "rounds"`: whatever a source hands over, clipped here.
///
/// What is late, not finite or of another shape counts as zero, with noise like any other; nobody
/// but the party's owner is told.
pub struct HandedOver<S> {
    plan: Arc<Plan>,
    me: Party,
    source: S,
    noise: LatticeNoise<ChaCha12Rng>,
}

impl<S: PartSource> HandedOver<S> {
    /// The party with this source.
    ///
    /// # Errors
    /// A system without randomness.
    pub fn of(plan: &Arc<Plan>, me: Party, source: S) -> Result<Self, Failure> {
        let rng = randomness::for_noise()?;
        Ok(HandedOver {
            noise: LatticeNoise::new(rng, *plan.lattice(), plan.draft().dimension(), 0.0),
            plan: plan.clone(),
            me,
            source,
        })
    }

    /// How long a source may take: what is left of a half of the iteration is for clipping, noise
    /// and sealing.
    fn patience(&self) -> Duration {
        let run = &self.plan.draft().run;
        let half = match self.plan.draft().mechanism.averages() {
            // A release is due to neighbours within the round that it is of.
            true => run.round_ms / 2,
            false => run.settle_ms,
        };
        Duration::from_millis(half).mul_f64(0.8)
    }

    fn usable(&mut self, round: u32, mean: &[f64]) -> Result<LatticeVector, String> {
        let until = Instant::now() + self.patience();
        // What strangers learn is claimed of rows that follow from no estimate.
        let draft = self.plan.draft();
        let mean = match draft.mechanism.averages() && !draft.data.adaptive {
            true => &[],
            false => mean,
        };
        let handed = self.source.ask(round, mean, until)?;
        let values = input::values_handed_over(&self.plan, self.me, handed)?;
        Ok(clipping::handed_over_onto_lattice(&self.plan, self.me, values))
    }
}

impl<S: PartSource> Contributor for HandedOver<S> {
    fn contribution(&mut self, iteration: u32, released: &[f64]) -> LatticeVector {
        let mut value = match self.usable(iteration, released) {
            Ok(value) => value,
            Err(reason) => {
                tracing::warn!(round = iteration, "this party contributes zero: {reason}");
                self.plan.lattice().zeros(self.plan.draft().dimension())
            }
        };
        self.noise
            .add_independent(self.plan.calibration().independent_std, &mut value);
        with_noise_of_circles(&self.plan, self.me, iteration, value, &mut self.noise)
    }

    fn conclude(&mut self, result: Option<&[f64]>) {
        self.source.conclude(result);
    }
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::peers::Peers;
    use undertone_protocol::plan::run_file::parsed::RunFile;

    use super::*;
    use crate::planning::make;
    use crate::vector_file::layout::{Dtype, Layout};

    /// Hands over the same again and again.
    struct Always(Result<(Vec<usize>, Vec<f64>), String>);

    impl PartSource for Always {
        fn ask(&mut self, _: u32, _: &[f64], _: Instant) -> Result<VectorFile, String> {
            let (shape, values) = self.0.clone()?;
            Ok(VectorFile {
                layout: Layout::npy(shape, Dtype::F64),
                values,
            })
        }

        fn conclude(&mut self, _: Option<&[f64]>) {}
    }

    fn plan_of(data: &str, records: Option<u64>) -> Arc<Plan> {
        let text = format!(
            "task = \"rounds\"\nname = \"rounds\"\n[data]\nshape = [2]\nreleases = 3\n{data}\n\
             clip = {{ kind = \"l2\", radius = 1e4 }}\n"
        );
        let run = RunFile::parse(&text, 4).expect("a run file");
        Arc::new(make::make(run, &Peers::simulated(4, records).expect("peers"), 0).expect("a plan"))
    }

    /// The first contribution, in standard deviations of its noise.
    fn contributed(plan: &Arc<Plan>, handed: Result<(Vec<usize>, Vec<f64>), String>) -> Vec<f64> {
        let mut party = HandedOver::of(plan, 1, Always(handed)).expect("randomness");
        let value = party.contribution(1, &[]);
        let unit = plan.lattice().step() / plan.calibration().independent_std;
        value.steps().map(|word| word as f64 * unit).collect()
    }

    #[test]
    fn what_is_handed_over_is_clipped_and_what_cannot_be_used_is_zero() {
        let party = plan_of("", None);
        let radius = 1e4 / party.calibration().independent_std;
        // Far outside of the ball: clipped to its radius, off by the noise of a few deviations.
        let far = contributed(&party, Ok((vec![2], vec![1e9, 0.0])));
        assert!((far[0] - radius).abs() < 8.0 && far[1].abs() < 8.0, "{far:?}");
        for unusable in [
            Ok((vec![3], vec![1e9, 0.0, 0.0])),
            Ok((vec![1, 2], vec![1e9, 0.0])),
            Err("it ended".into()),
        ] {
            let zero = contributed(&party, unusable);
            assert!(zero.iter().all(|it| it.abs() < 8.0), "{zero:?}");
            assert!(zero.iter().any(|it| *it != 0.0), "with noise like any other");
        }
    }

    #[test]
    fn rows_are_as_many_as_planned_and_clipped_each() {
        let records = plan_of("unit = \"record\"", Some(3));
        let radius = 1e4 / records.calibration().independent_std;
        let rows = contributed(&records, Ok((vec![3, 2], vec![1e9, 0.0, 1e9, 0.0, -1e9, 0.0])));
        assert!((rows[0] - radius).abs() < 8.0 && rows[1].abs() < 8.0, "{rows:?}");
        // Where the program clips them it hands over their sum, as long as three rows at most.
        let summed = plan_of("unit = \"record\"\nclipped = \"by-program\"", Some(3));
        let radius = 3e4 / summed.calibration().independent_std;
        let sum = contributed(&summed, Ok((vec![2], vec![0.0, -1e9])));
        assert!(sum[0].abs() < 8.0 && (sum[1] + radius).abs() < 8.0, "{sum:?}");
        let rows = contributed(&summed, Ok((vec![3, 2], vec![1e9; 6])));
        assert!(rows.iter().all(|it| it.abs() < 8.0), "no sum: {rows:?}");
        let four = contributed(&records, Ok((vec![4, 2], vec![1e9; 8])));
        assert!(four.iter().all(|it| it.abs() < 8.0), "one row too many: {four:?}");
    }
}
