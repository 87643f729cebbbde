//! The data sets of `node.toml` with their budgets, and whose plans may be charged to them unasked.

use undertone_protocol::plan::peers::{Peers, is_party_name};
use undertone_protocol::plan::run_file::settings::Unit;

use crate::daemon::config::layers::{Layers, RawDataSet};
use crate::reporting::failure::Failure;

/// A data set with its budget.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSet {
    /// The name that submissions use for it.
    pub name: String,
    /// The unit whose change the budget counts.
    pub unit: Unit,
    /// The file in the data folder that has the data set's vector.
    pub file: Option<String>,
    /// ε of all its runs together.
    pub epsilon: f64,
    /// δ of all its runs together.
    pub delta: f64,
}

/// A proposer whose plans are accepted without asking, and on what terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoAccept {
    /// A name of the peer list.
    pub proposer: String,
    /// The data set that is contributed.
    pub data_set: String,
}

pub(super) fn data_sets(layers: &Layers) -> Result<Vec<DataSet>, Failure> {
    let mut sets: Vec<DataSet> = vec![];
    for (index, raw) in layers.raw.data_set.iter().flatten().enumerate() {
        let refuse =
            |key: &str, problem: String| Err(layers.refuse(&format!("data_set.{index}.{key}"), problem));
        // Submissions call it by name and unit, so both together must be unique.
        if !is_party_name(&raw.name) {
            return refuse(
                "name",
                format!("is {:?}; use 1 to 32 of the characters a-z, 0-9 and -", raw.name),
            );
        }
        if sets
            .iter()
            .any(|set| set.name == raw.name && set.unit == raw.unit)
        {
            return refuse(
                "name",
                format!(
                    "is {:?}, as of an earlier data set of this unit; give each its own",
                    raw.name
                ),
            );
        }
        if let Some(file) = raw.file.as_ref().filter(|file| !is_file_name(file)) {
            return refuse(
                "file",
                format!("is {file:?}; name a file in the data folder, without a path"),
            );
        }
        // What one account spends of a file the others of that file would not know.
        let same_file = |set: &&DataSet| raw.file.is_some() && set.file == raw.file && set.name != raw.name;
        if let Some(other) = sets.iter().find(same_file) {
            return refuse(
                "file",
                format!(
                    "is also the file of data set {:?}; give both the same name: what a run tells of a party it tells of each \
                     of its records",
                    other.name
                ),
            );
        }
        // A budget that some run could be charged to.
        if !(raw.epsilon > 0.0 && raw.epsilon.is_finite()) {
            return refuse(
                "epsilon",
                format!("is {}; it must be a number above 0", raw.epsilon),
            );
        }
        if !(raw.delta > 0.0 && raw.delta < 1.0) {
            return refuse(
                "delta",
                format!("is {}; it must be above 0 and below 1", raw.delta),
            );
        }
        let RawDataSet {
            name,
            unit,
            file,
            epsilon,
            delta,
        } = raw.clone();
        sets.push(DataSet {
            name,
            unit,
            file,
            epsilon,
            delta,
        });
    }
    Ok(sets)
}

/// Whether a name stays within its folder: one plain component that is not hidden.
pub fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

pub(super) fn auto_accept(
    layers: &Layers,
    peers: &Peers,
    sets: &[DataSet],
) -> Result<Vec<AutoAccept>, Failure> {
    let mut accepted = vec![];
    for (index, raw) in layers.raw.auto_accept.iter().flatten().enumerate() {
        let refuse =
            |key: &str, problem: String| Err(layers.refuse(&format!("auto_accept.{index}.{key}"), problem));
        if peers.index_of(&raw.proposer).is_none() {
            return refuse(
                "proposer",
                format!("is {:?}, who is not in the peer list", raw.proposer),
            );
        }
        if !sets
            .iter()
            .any(|set| set.name == raw.data_set && set.file.is_some())
        {
            return refuse(
                "data_set",
                format!(
                    "is {:?}; it must be the name of a [[data_set]] that has a file",
                    raw.data_set
                ),
            );
        }
        if layers.raw.policy.max_epsilon.is_none() {
            return refuse(
                "proposer",
                "needs policy.max_epsilon: what a plan may cost that nobody looked at".into(),
            );
        }
        accepted.push(AutoAccept {
            proposer: raw.proposer.clone(),
            data_set: raw.data_set.clone(),
        });
    }
    Ok(accepted)
}
