//! A model's coefficients by name, each in its column's unit, and how far the noise that was added
//! for privacy moves them.
//!
//! A descent adds fresh noise to each gradient, and every later step depends on it. Linearised at
//! the model that came out, with H the mean curvature of the rows' losses there, noise n of
//! iteration i moves iterate k by R(k − i)·n: R is the response of the descent's own recursion to
//! one push. The model is the mean of the last iterates, so that each iteration's noise reaches it
//! by a mean of such responses, and what they come to together is a covariance. Nothing here says
//! how other rows would have changed the model.

use undertone_protocol::model::descent::{DescentTerms, StepLength};
use undertone_protocol::model::loss::Loss;
use undertone_protocol::model::projection::ModelSet;
use undertone_protocol::plan::computation::method::MethodChoice;
use undertone_protocol::plan::computation::model::{ModelSettings, RowLength};

/// Features above which errors are not computed. Our choice: they cost the cube of it.
const MOST_FEATURES: usize = 64;

/// Entries of all iterations' responses above which errors are not computed: 64 MB, twice. Our
/// choice.
const MOST_ENTRIES: u64 = 8 << 20;

/// A coefficient of a model with one score.
#[derive(Clone, Debug, PartialEq)]
pub struct Coefficient {
    /// The name of its column.
    pub name: String,
    /// The change of the score for one unit of the column, for a row in the middle of all bounds;
    /// of the intercept the score of that row.
    pub value: f64,
    /// By how much the privacy noise moves it, as a standard deviation; `None` where that is not
    /// derived.
    pub standard_error: Option<f64>,
}

/// The coefficients of a model, with the [errors](noise_errors) of its parameters if they are
/// known; `None` of a model with several scores, or of rows whose middle has no direction.
pub fn coefficients(
    model: &ModelSettings,
    weights: &[f64],
    errors: Option<&[f64]>,
) -> Option<Vec<Coefficient>> {
    let target = model.target_at()?;
    // A row is scaled by its length, which is 1 in the middle of all bounds if it has an intercept.
    let has_middle = model.intercept || model.rows == RowLength::AsIs;
    if weights.len() != model.features() || !has_middle {
        return None;
    }
    let name = |column: usize| {
        let names = model.names.as_ref();
        let name = names.and_then(|names| names.get(column)).cloned();
        name.unwrap_or_else(|| format!("column {}", column + 1))
    };
    let columns = (0..model.columns).filter(|column| *column != target);
    let per_unit = columns.map(|column| {
        let width = model.bounds_of(column).map_or(2.0, |(low, high)| high - low);
        (name(column), 2.0 / width)
    });
    let intercept = model.intercept.then(|| ("intercept".to_owned(), 1.0));
    let scaled = per_unit.chain(intercept).enumerate();
    let coefficient = |(at, (name, scale)): (usize, (String, f64))| Coefficient {
        name,
        value: weights[at] * scale,
        standard_error: errors.map(|errors| errors[at] * scale),
    };
    Some(scaled.map(coefficient).collect())
}

/// The standard deviation of each parameter that is due to noise of `noise_std` in each coordinate
/// of `iterations` mean gradients, with the curvature of these prepared rows, to first order in the
/// noise. `None` where that is not derived: another method, several scores, a set that the model is
/// kept in, steps that shrink, many features, or many iterations of them.
pub fn noise_errors<'a>(
    model: &ModelSettings,
    weights: &[f64],
    rows: impl Iterator<Item = (&'a [f64], f64)>,
    (noise_std, iterations): (f64, u64),
) -> Option<Vec<f64>> {
    let terms = model.terms().ok()?;
    let StepLength::Constant(step) = terms.step else {
        return None;
    };
    let is_derived = model.method == MethodChoice::Descent
        && model.set == ModelSet::None
        && weights.len() == model.features()
        && weights.len() <= MOST_FEATURES;
    let entries = iterations.saturating_mul(weights.len().pow(2) as u64);
    if !is_derived || iterations == 0 || entries > MOST_ENTRIES {
        return None;
    }
    let curvature = curvature(model, weights, rows, terms.ridge)?;
    let responses = responses(&curvature, step, &terms, iterations as usize);
    let size = weights.len();
    let square = |row: usize| -> f64 {
        let of_row = responses
            .iter()
            .map(|response| &response[row * size..(row + 1) * size]);
        of_row.flatten().map(|entry| entry * entry).sum()
    };
    let errors: Vec<f64> = (0..size).map(|row| noise_std * square(row).sqrt()).collect();
    errors.iter().all(|error| error.is_finite()).then_some(errors)
}

/// The mean second derivative of the rows' losses, row by row, and the ridge's. A row whose
/// gradient is clipped has none: its length stays the clip's.
fn curvature<'a>(
    model: &ModelSettings,
    weights: &[f64],
    rows: impl Iterator<Item = (&'a [f64], f64)>,
    ridge: f64,
) -> Option<Vec<f64>> {
    let (size, loss) = (weights.len(), model.loss());
    let (mut sum, mut count) = (vec![0.0; size * size], 0.0);
    for (features, target) in rows {
        count += 1.0;
        let score = *loss.scores(weights, features).first()?;
        let (slope, second) = match loss {
            Loss::Squared => (score - target, 1.0),
            Loss::Logistic => {
                let chance = 1.0 / (1.0 + (-score).exp());
                (chance - target, chance * (1.0 - chance))
            }
            Loss::Softmax { .. } => return None,
        };
        let length = features.iter().map(|x| x * x).sum::<f64>().sqrt();
        if slope.abs() * length > model.clip {
            continue;
        }
        for (row, x) in sum.chunks_exact_mut(size).zip(features) {
            row.iter_mut()
                .zip(features)
                .for_each(|(entry, y)| *entry += second * x * y);
        }
    }
    sum.iter_mut().for_each(|entry| *entry /= count);
    (0..size).for_each(|i| sum[i * size + i] += ridge);
    (count > 0.0).then_some(sum)
}

/// How each iteration's noise reaches the model: a matrix each, row by row.
fn responses(curvature: &[f64], step: f64, terms: &DescentTerms, iterations: usize) -> Vec<Vec<f64>> {
    let size = (curvature.len() as f64).sqrt() as usize;
    let identity = |scale: f64| -> Vec<f64> {
        let entry = |at: usize| if at / size == at % size { scale } else { 0.0 };
        (0..size * size).map(entry).collect()
    };
    // A push of 1 against the gradient: velocity, and how far the iterate is moved.
    let (mut velocity, mut moved) = (identity(1.0), identity(-step));
    // Sums of the first 0, 1, 2, … responses.
    let mut sums = vec![vec![0.0; size * size]];
    for _ in 0..iterations {
        let last = sums.last().expect("there is one");
        sums.push(last.iter().zip(&moved).map(|(sum, moved)| sum + moved).collect());
        let pull = product(curvature, &moved, size);
        for (velocity, pull) in velocity.iter_mut().zip(pull) {
            *velocity = terms.momentum * *velocity + pull;
        }
        moved
            .iter_mut()
            .zip(&velocity)
            .for_each(|(moved, velocity)| *moved -= step * velocity);
    }
    let counted = ((terms.average * iterations as f64).ceil() as usize).max(1);
    let first_counted = iterations + 1 - counted;
    let of_iteration = |i: usize| -> Vec<f64> {
        let (until, from) = (iterations + 1 - i, first_counted.saturating_sub(i));
        let mean = |(until, from): (&f64, &f64)| (until - from) / counted as f64;
        sums[until].iter().zip(&sums[from]).map(mean).collect()
    };
    (1..=iterations).map(of_iteration).collect()
}

/// The product of two square matrices.
fn product(a: &[f64], b: &[f64], size: usize) -> Vec<f64> {
    let mut product = vec![0.0; size * size];
    for (row, sums) in a.chunks_exact(size).zip(product.chunks_exact_mut(size)) {
        for (factor, other) in row.iter().zip(b.chunks_exact(size)) {
            sums.iter_mut()
                .zip(other)
                .for_each(|(sum, entry)| *sum += factor * entry);
        }
    }
    product
}

#[cfg(test)]
mod tests;
