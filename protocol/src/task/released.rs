//! The released sums of a training, from which everybody's next contribution is computed.

use crate::lattice::vector::LatticeVector;
use crate::mixing::gossip::weights::WHOLE;
use crate::model::descent::Descent;
use crate::model::statistics;
use crate::plan::checked::Plan;
use crate::publishing::result::Sum;
use crate::task::mean::Mean;

/// The state of a training that follows from its plan and its sums alone; the same at all nodes, to
/// the bit. There is one variant a task.
pub(crate) enum Released {
    /// Sums of gradients are steps of a model.
    Model(Descent),
    /// One sum of second moments, which a model is solved from.
    Moments(Moments),
    /// Sums of what programs hand over are means, each for itself.
    Mean {
        /// The latest one; empty before the first.
        latest: Vec<f64>,
        /// Sums so far, those that were given up included.
        sums: u64,
    },
    /// Sums of a stream's releases are means, which are added up.
    Stream(AddedUp),
    /// Sums over circles are this party's states.
    Circles(CircleState),
}

/// The state of one party in its sums over circles.
///
/// A state is what the round's sum came to, with the weights that were in it: less than the whole
/// once somebody has departed, for good. No state is divided by its weight, which would tell a
/// coalition more than if the departed had joined it (Theorem R for gossip: a survivor's state is
/// to be that of the run in which nobody departed, but for terms of the departed alone). Only what
/// is told to the party's owner is: the mean of a round, as far as the party sees it, is its sum
/// over these weights, less the state that it began the round with.
pub(crate) struct CircleState {
    state: LatticeVector,
    revealed: AddedUp,
}

/// Means of a stream's releases, added up: a row for each.
pub(crate) struct AddedUp {
    dimension: usize,
    rows: Vec<f64>,
}

impl AddedUp {
    fn latest(&self) -> &[f64] {
        &self.rows[self.rows.len().saturating_sub(self.dimension)..]
    }

    fn count(&self) -> u64 {
        (self.rows.len() / self.dimension) as u64
    }

    /// One row more: the latest, and this.
    fn add(&mut self, mean: &[f64]) {
        let before = self.latest().to_vec();
        let before = before.into_iter().chain(std::iter::repeat(0.0));
        self.rows
            .extend(mean.iter().zip(before).map(|(mean, before)| mean + before));
    }
}

impl CircleState {
    fn take(&mut self, plan: &Plan, sum: &Sum) {
        let step = plan.lattice().step();
        let part = sum.weight.0 as f64 / f64::from(WHOLE);
        let mean = sum.value.steps().zip(self.state.steps());
        let mean: Vec<f64> = mean
            .map(|(after, before)| step * (after as f64 / part - before as f64))
            .collect();
        self.revealed.add(&mean);
        self.state = sum.value.clone();
    }
}

impl Released {
    /// Returns a node's contribution to the next sum, with its state of the earlier ones. Over
    /// circles the state is in its message, before the noise of each vector.
    pub(crate) fn with_state(&self, plan: &Plan, value: LatticeVector) -> LatticeVector {
        let Released::Circles(circles) = self else {
            return value;
        };
        let state = circles.state.steps().chain(std::iter::repeat(0));
        let sums = value.steps().zip(state).map(|(own, state)| own + state);
        plan.lattice().vector(sums)
    }

    /// Returns the state before the first sum: a model is zero, and there is no mean.
    ///
    /// # Panics
    /// If the plan has a model whose set is none: no checked plan has.
    pub(crate) fn before(plan: &Plan) -> Self {
        if plan.draft().sums_everybody() {
            return Released::Stream(AddedUp {
                dimension: plan.draft().dimension(),
                rows: vec![],
            });
        }
        if plan.reads_circles() {
            let dimension = plan.draft().dimension();
            return Released::Circles(CircleState {
                state: plan.lattice().zeros(dimension),
                revealed: AddedUp {
                    dimension,
                    rows: vec![],
                },
            });
        }
        let Some(model) = plan.draft().computation.model() else {
            return Released::Mean {
                latest: vec![],
                sums: 0,
            };
        };
        if model.is_statistics() {
            return Released::Moments(Moments::default());
        }
        let terms = model.terms().expect("the plan is checked");
        Released::Model(Descent::new(terms, vec![0.0; model.parameters()]))
    }

    /// Takes the sum of those who are in it.
    pub(crate) fn take(&mut self, plan: &Plan, sum: &Sum) {
        match self {
            Released::Model(descent) => {
                let lattice = plan.lattice();
                let (step, rows) = (lattice.step(), lattice.weight_to_f64(sum.weight.0));
                descent.step(sum.value.steps().map(|word| word as f64 * step), rows);
            }
            Released::Moments(moments) => moments.take(plan, sum),
            Released::Mean { latest, sums } => {
                *latest = Mean::of_sum(plan, sum);
                *sums += 1;
            }
            Released::Stream(stream) => stream.add(&Mean::of_sum(plan, sum)),
            Released::Circles(circles) => circles.take(plan, sum),
        }
    }

    /// A sum is of no use: what there was stays, and counts once more.
    pub(crate) fn stay(&mut self) {
        match self {
            Released::Model(descent) => descent.stay(),
            Released::Moments(moments) => moments.sums += 1,
            Released::Mean { sums, .. } => *sums += 1,
            Released::Stream(stream) => stream.add(&vec![0.0; stream.dimension]),
            // Whose sum is of no use goes no further.
            Released::Circles(_) => {}
        }
    }

    /// Returns the values that the next contributions are computed from: the model, or the latest
    /// mean, which is empty before the first.
    pub(crate) fn latest(&self) -> &[f64] {
        match self {
            Released::Model(descent) => descent.model(),
            Released::Moments(_) => &[],
            Released::Mean { latest, .. } => latest,
            Released::Stream(stream) => stream.latest(),
            Released::Circles(circles) => circles.revealed.latest(),
        }
    }

    /// Returns the number of sums so far.
    pub(crate) fn sums(&self) -> u64 {
        match self {
            Released::Model(descent) => descent.iterations(),
            Released::Moments(moments) => moments.sums,
            Released::Mean { sums, .. } => *sums,
            Released::Stream(stream) => stream.count(),
            Released::Circles(circles) => circles.revealed.count(),
        }
    }

    /// Returns the result of the training: the mean of the last models, or the last mean; of a
    /// stream all its rows. `None` before there is one.
    pub(crate) fn result(&self) -> Option<Vec<f64>> {
        match self {
            Released::Model(descent) => (descent.iterations() > 0).then(|| descent.result()),
            Released::Moments(moments) => moments.model.clone(),
            Released::Mean { latest, .. } => (!latest.is_empty()).then(|| latest.clone()),
            Released::Stream(revealed) | Released::Circles(CircleState { revealed, .. }) => {
                (!revealed.rows.is_empty()).then(|| revealed.rows.clone())
            }
        }
    }
}

/// Second moments of all rows, once they are released, and what they come to.
#[derive(Default)]
pub(crate) struct Moments {
    model: Option<Vec<f64>>,
    sums: u64,
}

impl Moments {
    /// Solves for the model: each node by itself, since nothing follows that all must agree on.
    fn take(&mut self, plan: &Plan, sum: &Sum) {
        self.sums += 1;
        let Some(settings) = plan.draft().computation.model() else {
            return;
        };
        let rows = plan.lattice().weight_to_f64(sum.weight.0);
        let features = settings.features();
        // Of all parties' noise, over the rows that are in the sum.
        let planned = plan.draft().total_weight() / rows;
        let ridge = settings.ridge_for(plan.calibration().predicted.standard_error * planned);
        let moments = sum.value.to_f64(plan.lattice().step());
        self.model = statistics::solve(&moments, features + 1, rows, ridge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::grid::LatticeWeight;
    use crate::simulator::cluster::tests::plan;
    use crate::task::tests::ensemble::{plan_of_text, rounds_plan};

    const STREAM: &str = "releases = 3\n[mechanism]\n";
    const SEALED: &str = "[topology]\nprivate = \"complete\"\n";

    /// A sum of vectors of these coordinates, of as much weight as `weight` parties have.
    fn sum(plan: &Plan, coordinates: [f64; 2], weight: i128) -> Sum {
        let lattice = plan.lattice();
        let steps = coordinates.map(|x| (x / lattice.step()).round() as i128);
        let unit = lattice.weight_to_f64(1).recip().round() as i128;
        Sum {
            value: lattice.vector(steps.into_iter()),
            weight: LatticeWeight(weight * unit),
        }
    }

    fn near(found: &[f64], expected: &[f64]) {
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3);
        assert!(
            found.len() == expected.len() && close,
            "{found:?}, not {expected:?}"
        );
    }

    #[test]
    fn rows_of_a_stream_are_its_means_added_up() {
        let plan = plan(6, &format!("{STREAM}sums = \"everybody\"\n{SEALED}"), 3);
        let mut released = Released::before(&plan);
        assert_eq!(
            (released.sums(), released.latest(), released.result()),
            (0, &[][..], None)
        );
        released.take(&plan, &sum(&plan, [6.0, -3.0], 6));
        near(released.latest(), &[1.0, -0.5]);
        // Of three parties that are left it is their mean.
        released.take(&plan, &sum(&plan, [6.0, 9.0], 3));
        near(released.latest(), &[3.0, 2.5]);
        released.stay();
        near(released.latest(), &[3.0, 2.5]);
        released.take(&plan, &sum(&plan, [-6.0, 0.0], 6));
        assert_eq!(released.sums(), 4, "one that is of no use counts");
        near(
            &released.result().expect("rows"),
            &[1.0, -0.5, 3.0, 2.5, 3.0, 2.5, 2.0, 2.5],
        );
    }

    /// The mean of a round, as far as a party sees it: its sum over the weights that are in it,
    /// less what it began with; the state itself is not divided.
    #[test]
    fn rows_of_circles_are_what_each_round_adds() {
        let plan = plan(6, &format!("{STREAM}sums = \"neighbours\"\n{SEALED}"), 3);
        let lattice = plan.lattice();
        let mut released = Released::before(&plan);
        let of_weight = |coordinates: [f64; 2], weight: u32| Sum {
            weight: LatticeWeight(weight.into()),
            ..sum(&plan, coordinates, 1)
        };
        let carried = |released: &Released| {
            let own = lattice.vector([1, 2, 3, 4].into_iter());
            let steps: Vec<i128> = released.with_state(&plan, own).steps().collect();
            let scaled = steps[..2].iter().map(|step| *step as f64 * lattice.step());
            (scaled.collect::<Vec<f64>>(), steps[2..].to_vec())
        };
        assert_eq!(carried(&released).1, [3, 4]);
        near(&carried(&released).0, &[0.0, 0.0]);
        released.take(&plan, &of_weight([2.0, -1.0], WHOLE));
        near(released.latest(), &[2.0, -1.0]);
        near(&carried(&released).0, &[2.0, -1.0]);
        assert_eq!(carried(&released).1, [3, 4], "noise of vectors carries no state");
        released.take(&plan, &of_weight([3.0, 1.0], WHOLE / 2));
        // 3 / ½ − 2 is 4 more, and 1 / ½ + 1 is 3 more.
        near(released.latest(), &[6.0, 2.0]);
        near(&carried(&released).0, &[3.0, 1.0]);
        released.stay();
        assert_eq!(released.sums(), 2, "whose sum is of no use goes no further");
        near(&released.result().expect("rows"), &[2.0, -1.0, 6.0, 2.0]);
    }

    #[test]
    fn means_of_rounds_replace_each_other() {
        let plan = rounds_plan("pairwise", 3, "");
        let mut released = Released::before(&plan);
        assert_eq!(
            (released.sums(), released.latest(), released.result()),
            (0, &[][..], None)
        );
        released.stay();
        assert_eq!(
            (released.sums(), released.result()),
            (1, None),
            "there is no mean"
        );
        released.take(&plan, &sum(&plan, [12.0, -6.0], 6));
        released.take(&plan, &sum(&plan, [5.0, 10.0], 5));
        near(released.latest(), &[1.0, 2.0]);
        released.stay();
        assert_eq!(released.sums(), 4);
        near(&released.result().expect("a mean"), &[1.0, 2.0]);
        let own = plan.lattice().vector([1, 2].into_iter());
        assert!(
            released.with_state(&plan, own.clone()) == own,
            "only circles carry a state"
        );
    }

    #[test]
    fn a_sum_is_divided_by_its_weight_unless_the_plan_releases_sums() {
        for (result, expected) in [("mean", [2.0, -1.0]), ("sum", [12.0, -6.0])] {
            let text = format!(
                "task = \"rounds\"\nname = \"r\"\n[data]\nshape = [2]\nreleases = 2\nresult = \"{result}\"\n\
                 [mechanism]\nkind = \"pairwise\""
            );
            let plan = plan_of_text((6, None), &text, 3);
            near(&Mean::of_sum(&plan, &sum(&plan, [12.0, -6.0], 6)), &expected);
        }
        let text = "name = \"r\"\n[data]\nshape = [2]\nunit = \"record\"\n\
                    clip = { kind = \"box\", low = [0.0, -100.0], high = [1.0, 100.0] }";
        let boxed = plan_of_text((6, Some(10)), text, 3);
        assert!(boxed.scales().differ());
        let (one, other) = (boxed.scales().at(0), boxed.scales().at(1));
        let mean = Mean::of_sum(&boxed, &sum(&boxed, [3.0, 3.0], 3));
        near(&mean, &[one, other]);
        assert!(other > 50.0 * one, "each coordinate has its own unit");
    }

    #[test]
    fn second_moments_are_solved_once_and_gradients_step_by_step() {
        let text = |lines: &str| {
            format!(
                "task = \"regression\"\nname = \"t\"\n[data]\nshape = [2]\n[model]\n{lines}\n\
                 [mechanism]\nkind = \"pairwise\""
            )
        };
        let descent = text("loss = \"logistic\"\niterations = 3");
        let plan = plan_of_text((6, Some(10)), &descent, 3);
        let mut released = Released::before(&plan);
        let parameters = released.latest().len();
        assert_eq!((released.sums(), released.result()), (0, None));
        released.stay();
        assert_eq!(released.latest(), vec![0.0; parameters], "the model stays");
        assert_eq!((released.sums(), released.result().is_some()), (1, true));
        let steps = vec![1i128 << 20; parameters];
        let gradient = Sum {
            value: plan.lattice().vector(steps.into_iter()),
            weight: LatticeWeight(60 << 20),
        };
        released.take(&plan, &gradient);
        let once = released.latest().to_vec();
        assert!(
            once.iter().all(|theta| *theta < 0.0),
            "against the gradient: {once:?}"
        );
        assert_eq!(released.sums(), 2);
    }
}
