//! The true results of a local run's inputs: `local` knows them, since they are on this machine.

use serde_json::{Value, json};
use undertone_protocol::clipping::range::{ClippingReport, clip_all};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::settings::Data;

use crate::commands::local::parties::LocalParty;
use crate::party::clipping;

/// Columns of the object. Our choice: what is longer is a vector.
const MOST_LISTED: usize = 10_000;

/// Errors of a mean against what the inputs' mean really is.
pub(super) struct TrueErrors {
    /// Root of the mean square over coordinates, against the clipped inputs.
    pub(super) rms: f64,
    /// The largest of any coordinate, against the clipped inputs.
    pub(super) largest: f64,
    /// Root of the mean square over coordinates, against the raw inputs of all parties.
    pub(super) rms_plain: f64,
}

/// A party's true data.
struct Truth {
    /// The party's vector, the mean of its records, or the sum of its releases.
    plain: Vec<f64>,
    /// The vector after clipping.
    kept: Vec<f64>,
    clipped: ClippingReport,
}

impl Truth {
    fn of((data, rows): (&Data, u64), party: &LocalParty) -> Self {
        let mut values = party.vector.values.clone();
        // Of a stream, its rows added up.
        let rows = rows as f64;
        let reported = |values: &[f64]| -> Vec<f64> {
            let mean = clipping::mean_of_rows(values, data.dimension());
            mean.into_iter().map(|x| x * rows).collect()
        };
        let plain = reported(&values);
        let clipped = clip_all(data, &mut values);
        Truth {
            plain,
            kept: reported(&values),
            clipped,
        }
    }
}

/// The true data of all parties.
pub(super) struct Truths<'a> {
    plan: &'a Plan,
    parties: &'a [LocalParty],
    each: Vec<Truth>,
}

impl<'a> Truths<'a> {
    pub(super) fn of(plan: &'a Plan, parties: &'a [LocalParty]) -> Self {
        let data = &plan.draft().data;
        // Of a stream the rows of a party are added up.
        let stream = plan.draft().computation.stream();
        let releases = stream.map_or(1, |stream| stream.releases);
        Truths {
            plan,
            parties,
            each: parties
                .iter()
                .map(|party| Truth::of((data, releases), party))
                .collect(),
        }
    }

    /// How many vectors or records clipping changed.
    pub(super) fn clipped(&self) -> usize {
        self.each.iter().map(|truth| truth.clipped.changed).sum()
    }

    /// A line for each party whose data were not within the range: on this machine all are one's
    /// own.
    pub(super) fn clipping(&self) -> Vec<String> {
        let data = &self.plan.draft().data;
        let reported = |(party, truth): (&LocalParty, &Truth)| {
            let sentence = clipping::sentence(&truth.clipped, data)?;
            Some(format!("{}: {sentence}", party.name))
        };
        self.parties.iter().zip(&self.each).filter_map(reported).collect()
    }

    /// Σ bᵢxᵢ with these weights b, over what `of` takes of each party.
    fn weighted(&self, weights: &[f64], of: fn(&Truth) -> &Vec<f64>) -> Vec<f64> {
        let dimension = self.each.first().map_or(0, |truth| of(truth).len());
        let coordinate = |i: usize| {
            let parts = weights.iter().zip(&self.each);
            parts.map(|(b, truth)| b * of(truth)[i]).sum()
        };
        (0..dimension).map(coordinate).collect()
    }

    /// The mean of everybody's raw data, by public weight or over all records.
    fn plain_mean(&self) -> Vec<f64> {
        let total = self.plan.total_weight();
        let weight = |party: usize| self.plan.weight(party) / total;
        let weights: Vec<f64> = (0..self.plan.parties()).map(weight).collect();
        self.weighted(&weights, |truth| &truth.plain)
    }

    /// The mean over those included, with the weights of a result.
    fn mean_of_included(&self, result: &Value, of: fn(&Truth) -> &Vec<f64>) -> Vec<f64> {
        let weight = |party: &LocalParty| result["weights"][&party.name].as_f64().unwrap_or(0.0);
        let weights: Vec<f64> = self.parties.iter().map(weight).collect();
        self.weighted(&weights, of)
    }

    /// How far a result's mean is from the truth.
    pub(super) fn errors(&self, mean: &[f64], result: &Value) -> TrueErrors {
        let kept = self.mean_of_included(result, |truth| &truth.kept);
        let plain = self.plain_mean();
        let rms = |truth: &[f64]| {
            (mean.iter().zip(truth).map(|(m, t)| (m - t).powi(2)).sum::<f64>() / mean.len() as f64).sqrt()
        };
        let off = mean.iter().zip(&kept).map(|(m, t)| (m - t).abs());
        TrueErrors {
            rms: rms(&kept),
            largest: off.fold(0.0, f64::max),
            rms_plain: rms(&plain),
        }
    }

    /// One entry for each column, where columns have names or units of their own. The true mean is
    /// that of the raw data of those included; `errors` are the columns' standard errors.
    pub(super) fn columns(&self, mean: &[f64], result: &Value, errors: &[f64]) -> Option<Value> {
        let columns = |party: &'a LocalParty| party.vector.layout.columns();
        let names = self
            .parties
            .iter()
            .find_map(columns)
            .filter(|names| names.len() == mean.len());
        if mean.len() > MOST_LISTED || (names.is_none() && !self.plan.scales().differ()) {
            return None;
        }
        let truth = self.mean_of_included(result, |truth| &truth.plain);
        let column = |i: usize| {
            json!({
                "name": names.map_or_else(|| (i + 1).to_string(), |names| names[i].clone()),
                "mean": mean[i],
                "true_mean": truth[i],
                "standard_error": errors[i],
                "error": mean[i] - truth[i],
            })
        };
        Some((0..mean.len()).map(column).collect())
    }
}
