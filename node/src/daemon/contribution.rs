//! This party's contribution to a run, and the budget that pays for it.

use std::fmt;
use std::path::PathBuf;

use tempfile::TempPath;
use undertone_protocol::plan::run_file::settings::{Adjacency, Unit};

use crate::daemon::config::Config;
use crate::daemon::config::data_sets::{DataSet, is_file_name};
use crate::daemon::ledger::account::{AccountName, Protected, Total, unit_name};
use crate::daemon::refusal::{Kind, Refusal};

/// Where the private vector is.
pub enum Vector {
    /// A file that was uploaded to [`super::service::Service::upload`], its extension that of its
    /// format; it is deleted once it was read, or refused.
    Upload(TempPath),
    /// An upload that is kept until an accepted offer has begun.
    Kept(PathBuf),
    /// The name of a file in the daemon's data folder.
    Named(String),
}

impl fmt::Debug for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vector::Upload(_) | Vector::Kept(_) => f.write_str("Vector(uploaded)"),
            Vector::Named(name) => write!(f, "Vector({name:?})"),
        }
    }
}

/// This party's contribution to a run.
#[derive(Debug, Default)]
pub struct Contribution {
    /// The party's vector; None: the file of the data set.
    pub vector: Option<Vector>,
    /// The data set that the run is charged to; None: the one whose file that is, or the only one
    /// of the plan's unit.
    pub data_set: Option<String>,
    /// How many records are brought, where the plan has a bound of them and no table shows it.
    pub records: Option<u32>,
}

/// The ledger's account of runs on a node whose configuration has no data set: it has no limit.
const NO_DATA_SET: &str = "-";

/// A contribution with its place on disk and its budget.
#[derive(Debug)]
pub(super) struct BudgetedContribution {
    pub(super) vector: PathBuf,
    pub(super) upload: Option<TempPath>,
    /// The data set's name, if the configuration has any.
    pub(super) data_set: Option<String>,
    /// The data set that the run is charged to, and the changes that it hides.
    pub(super) of: Protected,
    /// The totals of the accounts that it is charged to, of those that have one.
    pub(super) totals: Vec<(AccountName, Total)>,
}

impl Contribution {
    /// Whether nothing is contributed.
    pub(super) fn is_empty(&self) -> bool {
        self.vector.is_none() && self.data_set.is_none()
    }

    /// Finds the file and the budgets. A file of the data folder that belongs to a data set is
    /// never charged to another one.
    pub(super) fn find(
        self,
        config: &Config,
        unit: Unit,
        adjacency: Adjacency,
    ) -> Result<BudgetedContribution, Refusal> {
        let named = match &self.vector {
            Some(Vector::Named(name)) => Some(named_file(config, name)?),
            _ => None,
        };
        let set = self.data_set(config, unit, named.as_deref())?;
        let (vector, upload) = match (self.vector, named) {
            (Some(Vector::Upload(path)), _) => (path.to_path_buf(), Some(path)),
            (Some(Vector::Kept(path)), _) => (path, None),
            (_, Some(file)) => (config.data.join(file), None),
            (_, None) => {
                let file = set.and_then(|set| set.file.as_ref()).ok_or_else(|| {
                    Refusal::new(Kind::Malformed, "there is no vector, and no data set whose file would do")
                        .field("vector")
                        .hint("send the vector, or name a file in the daemon's data folder or a data set that has one")
                })?;
                (config.data.join(file), None)
            }
        };
        let of = Protected {
            data_set: set.map_or(NO_DATA_SET, |set| &set.name).to_owned(),
            unit,
            adjacency,
        };
        let totals = totals(config, &of);
        Ok(BudgetedContribution {
            vector,
            upload,
            data_set: set.map(|set| set.name.clone()),
            of,
            totals,
        })
    }

    /// The data set that a run of this unit is charged to, if there is one. Whoever contributes a
    /// data set's own file cannot have another one charged.
    fn data_set<'a>(
        &self,
        config: &'a Config,
        unit: Unit,
        file: Option<&str>,
    ) -> Result<Option<&'a DataSet>, Refusal> {
        let of_file = |set: &&DataSet| file.is_some() && set.file.as_deref() == file;
        let owners: Vec<&DataSet> = config.data_sets.iter().filter(of_file).collect();
        let chosen = match &self.data_set {
            Some(name) => Some(
                config
                    .data_set(name, unit)
                    .ok_or_else(|| unknown(config, name, unit))?,
            ),
            None if owners.is_empty() => the_only_one(config, unit)?,
            None => owners.iter().copied().find(|set| set.unit == unit),
        };
        if owners.is_empty() || chosen.is_some_and(|chosen| owners.contains(&chosen)) {
            return Ok(chosen);
        }
        Err(not_charged(
            format!(
                "the file belongs to data set {:?} of unit {:?}, \
                 which this run (unit {:?}) would not be charged to",
                owners[0].name,
                unit_name(owners[0].unit),
                unit_name(unit)
            ),
            "use that data set, or add a [[data_set]] of the plan's unit for the file",
        ))
    }
}

/// The totals of all accounts that a run is charged to, of those that have one.
pub(super) fn totals(config: &Config, of: &Protected) -> Vec<(AccountName, Total)> {
    let total = |account: AccountName| {
        let mut sets = config.data_sets.iter();
        let set = sets.find(|set| AccountName::new(&set.name, set.unit) == account)?;
        let (epsilon, delta) = (set.epsilon, set.delta);
        Some((account, Total { epsilon, delta }))
    };
    of.accounts().into_iter().filter_map(total).collect()
}

/// Returns the refusal of a run whose data set is not known.
fn not_charged(message: String, hint: &str) -> Refusal {
    Refusal::new(Kind::Malformed, message)
        .field("data_set")
        .hint(hint)
}

fn unknown(config: &Config, name: &str, unit: Unit) -> Refusal {
    let account = |set: &DataSet| AccountName::new(&set.name, set.unit).to_string();
    let known: Vec<String> = config.data_sets.iter().map(account).collect();
    let known = if known.is_empty() {
        "none".into()
    } else {
        known.join(", ")
    };
    let name: String = name.chars().take(40).collect();
    let unit = unit_name(unit);
    not_charged(
        format!("there is no data set {name:?} of unit {unit:?}; in the configuration there are: {known}"),
        "name one of them, or add a [[data_set]] with its budget to the configuration",
    )
}

/// The only data set of this unit; none where no data set has a budget.
fn the_only_one(config: &Config, unit: Unit) -> Result<Option<&DataSet>, Refusal> {
    let mut fitting = config.data_sets.iter().filter(|set| set.unit == unit);
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Ok(Some(only)),
        (None, _) if config.data_sets.is_empty() => Ok(None),
        _ => {
            let unit = unit_name(unit);
            Err(not_charged(
                format!("it is not said which data set of unit {unit:?} this run is charged to"),
                "name the data set; its budget pays for the run",
            ))
        }
    }
}

/// The name of a file in the data folder: as given, or that of the data set of that name.
fn named_file(config: &Config, name: &str) -> Result<String, Refusal> {
    if !is_file_name(name) {
        let name: String = name.chars().take(80).collect();
        return Err(Refusal::new(Kind::Malformed, format!("{name:?} is no file name"))
            .field("vector")
            .hint("name a file in the daemon's data folder, without a path"));
    }
    let of_set = config
        .data_sets
        .iter()
        .find(|set| set.name == name)
        .and_then(|set| set.file.clone());
    let file = of_set.unwrap_or_else(|| name.to_owned());
    if config.data.join(&file).is_file() {
        return Ok(file);
    }
    Err(Refusal::new(
        Kind::Input,
        format!("there is no file {file:?} in the daemon's data folder"),
    )
    .field("vector")
    .hint("put the file there, or send it with the request"))
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::peers::Peers;

    use super::*;
    use crate::daemon::config::NodeArgs;
    use crate::party::identity::Identity;

    /// A daemon with two data sets of records, each with a file, one of parties without one, and a
    /// file that is of none.
    fn configuration(folder: &std::path::Path) -> Config {
        let identity = |name: &str, port: u16| {
            let address = |port| Some(format!("/ip4/127.0.0.1/tcp/{port}"));
            Identity::generate(name.into(), address(port), address(port + 1))
        };
        let bob = identity("bob", 7001);
        bob.create(&folder.join("bob.key")).unwrap();
        let peers = [
            bob.peer_lines(),
            identity("carol", 7003).peer_lines(),
            identity("dave", 7005).peer_lines(),
        ];
        let peers = format!("version = 1\n{}", peers.concat());
        Peers::parse(&peers).unwrap();
        std::fs::write(folder.join("peers.toml"), peers).unwrap();
        let set = |name: &str, unit: &str, file: &str| {
            format!("[[data_set]]\nname = \"{name}\"\nunit = \"{unit}\"\n{file}epsilon = 1.0\ndelta = 1e-6\n")
        };
        let node = [
            "identity = \"bob.key\"\n".to_owned(),
            set("a", "record", "file = \"a.csv\"\n"),
            set("b", "record", "file = \"b.csv\"\n"),
            set("c", "party", ""),
        ];
        std::fs::write(folder.join("node.toml"), node.concat()).unwrap();
        let config = Config::load(&NodeArgs {
            config: Some(folder.join("node.toml")),
            ..NodeArgs::default()
        })
        .unwrap();
        std::fs::create_dir_all(&config.data).unwrap();
        for name in ["a.csv", "b.csv", "free.csv"] {
            std::fs::write(config.data.join(name), "1\n").unwrap();
        }
        config
    }

    #[test]
    fn a_data_sets_file_is_charged_to_no_other_data_set() {
        let folder = tempfile::tempdir().unwrap();
        let config = configuration(folder.path());
        let find = |vector: Option<&str>, data_set: Option<&str>, unit: Unit| {
            let contribution = Contribution {
                records: None,
                vector: vector.map(|name| Vector::Named(name.into())),
                data_set: data_set.map(str::to_owned),
            };
            let found = contribution.find(&config, unit, Adjacency::ReplaceOne)?;
            let file = found.vector.file_name().unwrap().to_string_lossy().into_owned();
            Ok::<_, Refusal>((
                file,
                found.data_set.unwrap_or_default(),
                found.of.accounts()[0].to_string(),
            ))
        };
        let charged = |vector, data_set, unit, file: &str, to: &str| {
            let (found, set, _) = find(vector, data_set, unit).unwrap();
            assert_eq!((found.as_str(), set.as_str()), (file, to));
        };
        let refused = |vector, data_set, unit| {
            let refusal = find(vector, data_set, unit).unwrap_err();
            assert_eq!(
                (refusal.kind, refusal.field.as_deref()),
                (Kind::Malformed, Some("data_set")),
                "{refusal}"
            );
        };
        use Unit::{Party, Record};
        // A file by its name, or by its data set's, is its own data set's.
        for name in ["a.csv", "a"] {
            charged(Some(name), None, Record, "a.csv", "a");
            charged(Some(name), Some("a"), Record, "a.csv", "a");
            refused(Some(name), Some("b"), Record);
            refused(Some(name), Some("c"), Party);
            // Not even where another one is the only one of its unit.
            refused(Some(name), None, Party);
        }
        charged(None, Some("b"), Record, "b.csv", "b");
        charged(Some("free.csv"), Some("b"), Record, "free.csv", "b");
        charged(Some("free.csv"), None, Party, "free.csv", "c");
        refused(Some("free.csv"), None, Record);
        refused(Some("free.csv"), Some("c"), Record);
        refused(Some("free.csv"), Some("none"), Record);
        // An upload is nobody's file: its sender says whose it is.
        let upload = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let contribution = Contribution {
            records: None,
            vector: Some(Vector::Upload(upload)),
            data_set: Some("b".into()),
        };
        assert_eq!(
            contribution
                .find(&config, Record, Adjacency::ReplaceOne)
                .unwrap()
                .data_set
                .as_deref(),
            Some("b")
        );
    }
}
