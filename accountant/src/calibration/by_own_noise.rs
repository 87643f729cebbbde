//! Gossip with open messages: a neighbour reads a party's value with its own noise, so that this
//! noise is all that any claim rests on, whatever the graph, the rounds and the faults.

use ndarray::Array2;
use undertone_protocol::mixing::gossip::weights::{RoundWeights, WHOLE};
use undertone_protocol::plan::calibration::{Calibration, SeededSchedule};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Adversary, Claim, Established, Faults, Predicted};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::limits::MOST_EXCHANGE_ROUNDS;
use undertone_protocol::plan::run_file::settings::{Protect, Rounds};
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::schedule::Schedule;

use crate::calibration::error::CalibrateError;
use crate::calibration::limits::MARGIN;
use crate::losses::gaussian::{self, GaussianError, SLACK};

/// The seed of the edges that are active by chance. Nothing that is claimed depends on them.
const SEED: u64 = 0;

/// How many releases count for a loss: a change of all is as large as the root of their number
/// times a change of one.
fn protected(draft: &Draft) -> f64 {
    match draft.privacy.protect {
        Protect::All => draft.releases() as f64,
        Protect::One => 1.0,
    }
}

/// μ of so many releases of the draft that have left, with this noise: √E·Δ/σ where all of them may
/// change, Δ/σ where one may; 0 of none. Never below the true one, whoever colludes, whatever goes
/// wrong, and whatever the releases were computed from.
pub fn loss_of(draft: &Draft, independent_std: f64, releases: u64) -> f64 {
    let each = draft.largest_sensitivity() / independent_std;
    match (draft.privacy.protect, releases) {
        (_, 0) => 0.0,
        (Protect::All, releases) => each * (releases as f64).sqrt() * (1.0 + SLACK),
        (Protect::One, _) => each * (1.0 + SLACK),
    }
}

/// The one claim: against all others together, with any faults.
///
/// # Errors
/// δ is out of range.
pub(crate) fn claims(draft: &Draft, independent_std: f64) -> Result<Vec<Claim>, GaussianError> {
    let mu = loss_of(draft, independent_std, draft.releases());
    let delta = draft.privacy.delta;
    Ok(vec![Claim {
        adversary: Adversary::Coalition,
        size: draft.parties().saturating_sub(1),
        faults: Faults::Any,
        mu,
        epsilon: gaussian::epsilon(delta, mu)?,
        delta,
        sampling_delta: 0.0,
        established: Established::Theorem,
        cases: 1,
        seed: None,
        changes: None,
        basis: None,
        connectivity: None,
        draw: None,
        sealed: false,
        unbounded: false,
        sentence: None,
        holds_as_headline: true,
    }])
}

/// How far estimates are from the mean of what all parties brought, at the node that is furthest,
/// if nobody's message is missing. Of a stream: of the last row, the means of all releases, added
/// up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimateError {
    /// The standard deviation of the noise in it over that of a party's own.
    noise: f64,
    /// Σ |weight of a value − 1/n| over the values of all parties and releases.
    uneven: f64,
}

impl EstimateError {
    /// After all rounds of a schedule, with so many releases in the first of them.
    pub fn of(schedule: &Schedule, releases: u64) -> Self {
        let parties = schedule.parties();
        let even = 1.0 / parties as f64;
        // Rows of W_T … W_s, from the last round back.
        let mut rows = Array2::<f64>::eye(parties);
        let (mut squares, mut uneven) = (vec![0.0; parties], vec![0.0; parties]);
        for round in (1..=schedule.rounds() as u32).rev() {
            rows = rows.dot(&weights(schedule, round));
            if u64::from(round) > releases {
                continue;
            }
            for (party, row) in rows.rows().into_iter().enumerate() {
                squares[party] += row.iter().map(|weight| weight * weight).sum::<f64>();
                uneven[party] += row.iter().map(|weight| (weight - even).abs()).sum::<f64>();
            }
        }
        let largest = |all: Vec<f64>| all.into_iter().fold(0.0, f64::max);
        EstimateError {
            noise: largest(squares).sqrt(),
            uneven: largest(uneven),
        }
    }

    /// The standard error of the noise, with this noise of a party's own.
    pub fn standard_error(&self, independent_std: f64) -> f64 {
        self.noise * independent_std
    }

    /// How far an estimate can be from the mean of all clipped values in a coordinate, whatever
    /// these are, noise aside; `largest` is the largest absolute value of a coordinate.
    pub fn spread(&self, largest: f64) -> f64 {
        self.uneven * largest
    }
}

/// How far a plan's estimates are from the mean, if nobody's message is missing.
pub fn estimate_error(plan: &Plan) -> EstimateError {
    EstimateError::of(plan.exchanges(), plan.draft().releases())
}

/// The matrix of a round.
fn weights(schedule: &Schedule, round: u32) -> Array2<f64> {
    let parties = schedule.parties();
    let active = Graph::from_edges(parties, &schedule.pairs(round)).expect("edges of a schedule");
    let weights = RoundWeights::of(&active);
    let mut matrix = Array2::zeros((parties, parties));
    for own in 0..parties {
        for &(other, weight) in weights.row(own) {
            matrix[[own, other]] = f64::from(weight) / f64::from(WHOLE);
        }
    }
    matrix
}

/// Rounds that are drawn at first; our choice.
const FIRST_DRAW: u32 = 32;

/// The fewest rounds of one value after which no two estimates differ by more than `accuracy`
/// standard errors: noise by its standard deviation, values by their clipping range.
fn rounds_of_one_value(draft: &Draft, independent_std: f64) -> Result<u32, CalibrateError> {
    let parties = draft.parties();
    let range = (parties as f64).sqrt() * draft.value_bound();
    let draw = |rounds: u32| Calibration::draw_schedule(draft, rounds, SEED).ok_or(CalibrateError::Kind);
    // A draw is the beginning of that for more rounds.
    let mut schedule = draw(FIRST_DRAW)?;
    let mut product = Array2::<f64>::eye(parties);
    for round in 1..=MOST_EXCHANGE_ROUNDS {
        if round as usize > schedule.rounds() {
            schedule = draw((2 * round).min(MOST_EXCHANGE_ROUNDS))?;
        }
        product = weights(&schedule, round).dot(&product);
        let covariance = product.dot(&product.t());
        let error = (0..parties)
            .map(|i| covariance[[i, i]])
            .fold(0.0, f64::max)
            .sqrt();
        let apart = |i: usize, j: usize| covariance[[i, i]] + covariance[[j, j]] - 2.0 * covariance[[i, j]];
        let pairs = (0..parties).flat_map(|i| (0..i).map(move |j| (i, j)));
        let apart = pairs.map(|(i, j)| apart(i, j)).fold(0.0, f64::max).sqrt();
        if apart * (independent_std + range) <= draft.run.accuracy * error * independent_std {
            return Ok(round);
        }
    }
    Err(CalibrateError::Slow {
        rounds: MOST_EXCHANGE_ROUNDS,
        accuracy: draft.run.accuracy,
    })
}

/// What is expected of the estimate at the node that is furthest from the mean. `budget` is the
/// loss that the plan's (ε, δ) allows.
pub(crate) fn predicted(draft: &Draft, schedule: &Schedule, independent_std: f64, budget: f64) -> Predicted {
    let (parties, releases) = (draft.parties() as f64, draft.releases() as f64);
    let error = EstimateError::of(schedule, draft.releases());
    // Of the means of all releases, added up: each has its own noise, and its part of the budget.
    let each = draft.largest_sensitivity() * (releases * protected(draft)).sqrt() / budget;
    let honest = draft.honest().max(1) as f64;
    Predicted {
        standard_error: error.standard_error(independent_std),
        standard_error_one_dropout: None,
        standard_error_late_dropout: None,
        standard_error_correcting: None,
        central: each / parties,
        local: each / parties.sqrt(),
        error_floor: each / (parties * honest).sqrt(),
        bytes_per_party: 0,
    }
}

/// Noise from the budget, and of one value the number of rounds.
pub(super) fn calibrate(draft: &Draft) -> Result<Calibration, CalibrateError> {
    let budget = gaussian::mu(draft.privacy.epsilon, draft.privacy.delta)?;
    let square = draft.largest_sensitivity().powi(2) * protected(draft) / MARGIN;
    let independent_std = square.sqrt() / budget;
    if !independent_std.is_normal() {
        return Err(CalibrateError::Budget {
            epsilon: draft.privacy.epsilon,
            delta: draft.privacy.delta,
            party: draft.members[0].name.clone(),
        });
    }
    let rounds = match (draft.releases(), draft.mechanism.rounds) {
        (1, Rounds::Auto) => rounds_of_one_value(draft, independent_std)?,
        (1, Rounds::Fixed(rounds)) => rounds,
        (releases, _) => releases as u32,
    };
    let schedule = Calibration::draw_schedule(draft, rounds, SEED).ok_or(CalibrateError::Kind)?;
    let predicted = predicted(draft, &schedule, independent_std, budget);
    Ok(Calibration {
        rounds,
        claims: claims(draft, independent_std)?,
        predicted: predicted.times(draft.data.scales().root_mean_square()),
        drawn: Some(SeededSchedule { seed: SEED, schedule }),
        independent_std,
        correlated_std: 0.0,
    })
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::peers::Peers;
    use undertone_protocol::plan::run_file::parsed::RunFile;

    use super::*;

    fn draft(lines: &str, parties: usize) -> Draft {
        let text = format!("name = \"t\"\n[data]\nshape = [3]\n{lines}");
        let run = RunFile::parse(&text, parties).unwrap_or_else(|e| panic!("{e}"));
        Draft::new(run, &Peers::simulated(parties, None).expect("peers"), 1).expect("a draft")
    }

    const OPEN: &str = "[mechanism]\nkind = \"gossip\"\n";

    /// Each has noise for all its releases together, and they mix to local noise: 2.65 floors.
    #[test]
    fn one_value_ends_at_local_noise() {
        let complete = draft(OPEN, 8);
        let one = calibrate(&complete).expect("calibrated");
        let budget = gaussian::mu(1.0, 1e-6).expect("in range");
        assert!((one.independent_std * budget / 2.0 - 1.0).abs() < 1e-5);
        assert_eq!(one.rounds, 1, "one round of even weights");
        let floors = one.predicted.standard_error / one.predicted.error_floor;
        assert!((floors - 7f64.sqrt()).abs() < 1e-3, "{floors}");
        let ring = draft(&format!("{OPEN}[topology]\nprivate = \"ring\""), 8);
        let ring = calibrate(&ring).expect("calibrated");
        assert!((20..80).contains(&ring.rounds), "{}", ring.rounds);
        assert!((ring.predicted.standard_error / one.predicted.standard_error - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_stream_costs_the_root_of_its_releases_where_all_are_protected() {
        let stream = |lines: &str| draft(&format!("releases = 20\n{lines}{OPEN}"), 8);
        let all = calibrate(&stream("")).expect("calibrated");
        let one = calibrate(&stream("[privacy]\nprotect = \"one\"\n")).expect("calibrated");
        assert_eq!((all.rounds, one.rounds), (20, 20));
        assert!((all.independent_std / one.independent_std - 20f64.sqrt()).abs() < 1e-6);
        for calibrated in [&all, &one] {
            let [claim] = &calibrated.claims[..] else {
                panic!("one claim")
            };
            assert!(claim.epsilon <= 1.0 && claim.epsilon > 0.999, "{claim:?}");
            assert!(claim.size == 7 && claim.faults == Faults::Any && claim.holds_as_headline);
        }
        let draft = stream("");
        assert_eq!(loss_of(&draft, 2.0, 0), 0.0);
        assert!((loss_of(&draft, 2.0, 9) - 3.0).abs() < 1e-9);
        assert!(loss_of(&draft, 2.0, 20) > loss_of(&draft, 2.0, 19));
    }

    /// Against brute force: the last estimate as a sum of all that was ever brought.
    #[test]
    fn errors_are_those_of_the_weights() {
        let draft = draft(&format!("releases = 5\n{OPEN}[topology]\nprivate = \"ring\""), 6);
        let schedule = Calibration::draw_schedule(&draft, 5, SEED).expect("edges");
        let w = weights(&schedule, 1);
        let (mut square, mut uneven) = (0.0, 0.0);
        let mut power = w.clone();
        for _ in 0..5 {
            square += (0..6).map(|j| power[[2, j]].powi(2)).sum::<f64>();
            uneven += (0..6).map(|j| (power[[2, j]] - 1.0 / 6.0).abs()).sum::<f64>();
            power = power.dot(&w);
        }
        let found = EstimateError::of(&schedule, 5);
        // Weights are whole numbers of 2^-16: nodes of the ring differ by that.
        assert!((found.standard_error(3.0) - 3.0 * square.sqrt()).abs() < 1e-4);
        assert!((found.spread(0.5) - 0.5 * uneven).abs() < 1e-3);
    }
}
