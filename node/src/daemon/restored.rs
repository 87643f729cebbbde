//! Charges made after a backup are unknown to the state that is restored from it. Each data set
//! stays closed until the operator has stated that none is missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::daemon::state::{read_record, write_record};
use crate::reporting::date::utc;
use crate::reporting::failure::Failure;

/// The record of a restore, in the state folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restored {
    /// When the backup was made, in milliseconds since 1970: the oldest, of several.
    pub backup_ms: u64,
    /// When it was restored.
    pub restored_ms: u64,
    /// The data sets of which the operator has said since that no charge is missing.
    pub opened: BTreeSet<String>,
}

fn in_folder(state: &Path) -> PathBuf {
    state.join("restored.json")
}

impl Restored {
    /// The record of a state folder; `None` of one that was never restored.
    ///
    /// # Errors
    /// It is not what was written (exit 2).
    pub fn read(state: &Path) -> Result<Option<Self>, Failure> {
        let path = in_folder(state);
        match path.exists() {
            true => read_record(&path)
                .map(Some)
                .map_err(|failure| failure.field("state")),
            false => Ok(None),
        }
    }

    /// Closes every data set of a state folder, also those that an earlier restore had closed and
    /// the operator has opened.
    pub fn close(state: &Path, backup_ms: u64, now_ms: u64) -> Result<(), Failure> {
        let before = Restored::read(state)?;
        Restored {
            backup_ms: before.map_or(backup_ms, |before| before.backup_ms.min(backup_ms)),
            restored_ms: now_ms,
            opened: BTreeSet::new(),
        }
        .write(state)
    }

    /// Opens a data set: the operator has said that no charge of it is missing. Whether it was
    /// closed.
    pub fn open(state: &Path, data_set: &str) -> Result<bool, Failure> {
        let Some(mut restored) = Restored::read(state)? else {
            return Ok(false);
        };
        let was_closed = restored.opened.insert(data_set.to_owned());
        restored.write(state)?;
        Ok(was_closed)
    }

    fn write(&self, state: &Path) -> Result<(), Failure> {
        let path = in_folder(state);
        write_record(&path, self).map_err(|e| {
            Failure::storage(&e, format!("{}: cannot be written: {e}", path.display())).field("state")
        })
    }

    /// Whether no run may be charged to a data set.
    pub fn closes(&self, data_set: &str) -> bool {
        !self.opened.contains(data_set)
    }

    /// Since when charges may be missing, for people.
    pub fn since(&self) -> String {
        utc(self.backup_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_sets_are_closed_until_the_operator_opens_each_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path();
        assert_eq!(Restored::read(state).expect("none"), None);
        assert!(!Restored::open(state, "ward").expect("nothing to open"));
        Restored::close(state, 2000, 5000).expect("writable");
        let closes = |name: &str| Restored::read(state).expect("whole").expect("there").closes(name);
        assert!(closes("ward") && closes("other"));
        assert!(Restored::open(state, "ward").expect("writable"));
        assert!(!closes("ward") && closes("other"));
        // Once more, from a younger backup: what was said of the older one holds no longer.
        Restored::close(state, 3000, 6000).expect("writable");
        assert!(closes("ward"));
        assert_eq!(
            Restored::read(state).expect("whole").expect("there").backup_ms,
            2000
        );
        std::fs::write(in_folder(state), "{}").expect("writable");
        Restored::read(state).expect_err("not what was written");
    }
}
