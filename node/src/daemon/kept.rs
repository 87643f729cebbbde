//! The part of a run that has not begun which a restart needs: its contribution, and the budget
//! set aside. It lies beside the accepted offer, or in the folder of a run that was submitted,
//! until the run has begun or is over.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::TempPath;
use undertone_accountant::losses::charge::Charge;

use crate::daemon::contribution::{Contribution, Vector};
use crate::daemon::ledger::account::Protected;
use crate::daemon::state::{read_record, write_record};

/// The record's name in that folder.
const RECORD: &str = "accepted.json";

/// The name of an uploaded vector there, without its extension.
const UPLOADED: &str = "vector";

/// A run that has not begun.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    /// The plan's digest.
    pub(super) digest: String,
    /// Whether it was accepted by a rule of the configuration.
    pub(super) unasked: bool,
    /// The data set whose budget is set aside, and the changes that are hidden.
    pub(super) of: Protected,
    /// How much of it.
    pub(super) charge: Charge,
    vector: KeptVector,
    data_set: Option<String>,
    records: Option<u32>,
    /// Since when it has waited for the other members of a plan that was submitted, in milliseconds
    /// since 1970.
    #[serde(default)]
    pub(super) gathering_ms: Option<u64>,
}

/// The party's contribution.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum KeptVector {
    /// The file of its data set.
    OfDataSet,
    /// A file of the data folder.
    Named(String),
    /// An uploaded one, by the name of its file beside the record.
    Uploaded(String),
}

/// The part of a contribution that a restart needs, before it is used up.
pub(super) struct ToKeep {
    vector: KeptVector,
    data_set: Option<String>,
    records: Option<u32>,
    unasked: bool,
}

impl ToKeep {
    pub(super) fn of(contribution: &Contribution, unasked: bool) -> Self {
        let vector = match &contribution.vector {
            None => KeptVector::OfDataSet,
            Some(Vector::Named(name)) => KeptVector::Named(name.clone()),
            Some(Vector::Upload(path)) => KeptVector::Uploaded(file_name(path)),
            Some(Vector::Kept(path)) => KeptVector::Uploaded(file_name(path)),
        };
        let data_set = contribution.data_set.clone();
        ToKeep {
            vector,
            data_set,
            records: contribution.records,
            unasked,
        }
    }
}

/// The name that an upload is kept under: its extension says how it is read.
fn file_name(path: &Path) -> String {
    let extension = path.extension().and_then(|extension| extension.to_str());
    format!("{UPLOADED}.{}", extension.unwrap_or_default())
}

/// Writes the record into the offer's folder, and moves an upload there. Gives the upload's new
/// place.
pub(super) fn keep(
    folder: &Path,
    digest: &str,
    (of, charge): (Protected, Charge),
    ToKeep {
        vector,
        data_set,
        records,
        unasked,
    }: ToKeep,
    upload: Option<TempPath>,
) -> io::Result<Option<PathBuf>> {
    let place = match (&vector, upload) {
        (KeptVector::Uploaded(name), Some(upload)) => {
            let place = folder.join(name);
            upload.persist(&place).map_err(|e| e.error)?;
            Some(place)
        }
        _ => None,
    };
    let digest = digest.to_owned();
    let kept = Kept {
        digest,
        unasked,
        of,
        charge,
        vector,
        data_set,
        records,
        // Since it began to wait for the first time: who restarts does not wait anew.
        gathering_ms: read_record::<Kept>(&folder.join(RECORD))
            .ok()
            .and_then(|before| before.gathering_ms),
    };
    write_record(&folder.join(RECORD), &kept)?;
    Ok(place)
}

/// Notes that a run which is kept begins to wait for the other members.
pub(super) fn gathers(folder: &Path, now_ms: u64) -> io::Result<()> {
    let record = folder.join(RECORD);
    match read_record::<Kept>(&record) {
        Ok(kept) => write_record(
            &record,
            &Kept {
                gathering_ms: kept.gathering_ms.or(Some(now_ms)),
                ..kept
            },
        ),
        // Nothing is kept of it.
        Err(_) => Ok(()),
    }
}

/// Forgets it: the record first, without which a restart takes nothing up.
pub(super) fn let_go(folder: &Path) {
    for file in [Some(folder.join(RECORD)), uploaded(folder)]
        .into_iter()
        .flatten()
    {
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(%error, file = %file.display(), "what was kept of an offer cannot be deleted");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

fn uploaded(folder: &Path) -> Option<PathBuf> {
    let mut files = std::fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()));
    files.find(|path| path.file_stem().is_some_and(|stem| stem == UPLOADED))
}

/// Returns the path of the record in an offer's folder.
pub(super) fn record(folder: &Path) -> PathBuf {
    folder.join(RECORD)
}

impl ToKeep {
    /// Whether a restart finds the contribution again: an upload to a submitted run is gone from
    /// the disk once it was read.
    pub(super) fn is_found_again(&self) -> bool {
        !matches!(self.vector, KeptVector::Uploaded(_))
    }
}

impl Kept {
    /// The party's contribution, from the offer's folder.
    pub(super) fn contribution(&self, folder: &Path) -> Contribution {
        let vector = match &self.vector {
            KeptVector::OfDataSet => None,
            KeptVector::Named(name) => Some(Vector::Named(name.clone())),
            // Names are ours; another one leads nowhere else.
            KeptVector::Uploaded(_) => uploaded(folder).map(Vector::Kept),
        };
        Contribution {
            vector,
            data_set: self.data_set.clone(),
            records: self.records,
        }
    }
}
