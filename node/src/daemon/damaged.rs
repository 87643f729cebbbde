//! Files of the state directory that are not what was written: skipped, named in `/readyz`, never
//! served. One of them keeps neither the daemon down nor another run's files back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;

use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::state::read_record;
use crate::reporting::failure::Failure;

/// Files that are named at most. Our choice: of a disk that rots the first ones say enough.
const MOST_NAMED: usize = 100;

/// The damaged files that were found so far, each with what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Damaged(Mutex<BTreeMap<PathBuf, String>>);

impl Damaged {
    fn found(&self) -> MutexGuard<'_, BTreeMap<PathBuf, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the record of the run or offer whose folder it lies in; `None` if it is damaged, or
    /// that of another digest, which is noted. One that was repaired meanwhile is read.
    pub(super) fn record<T: DeserializeOwned>(
        &self,
        path: &Path,
        digest: impl FnOnce(&T) -> &str,
    ) -> Option<T> {
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let read = read_record(path).and_then(|record: T| match digest(&record) {
            digest if folder == digest => Ok(record),
            other => Err(Failure::usage(format!(
                "{}: is the record of {other}, which is not its folder's name",
                path.display()
            ))),
        });
        match read {
            Ok(record) => {
                self.forget(path);
                Some(record)
            }
            Err(failure) => {
                self.note(path, &failure);
                None
            }
        }
    }

    /// Notes a damaged file, and logs it the first time.
    pub(super) fn note(&self, path: &Path, failure: &Failure) {
        let what = failure.message.trim_start_matches(&path.display().to_string());
        // Who asks for readiness need not know where the state directory is.
        let parts: Vec<_> = path
            .iter()
            .rev()
            .take(3)
            .map(|part| part.to_string_lossy())
            .collect();
        let name = parts.into_iter().rev().collect::<Vec<_>>().join("/");
        if self
            .found()
            .insert(path.to_owned(), format!("{name}{what}"))
            .is_none()
        {
            tracing::error!("skipped: {failure}");
        }
    }

    /// Forgets a file that was written anew.
    pub(super) fn forget(&self, path: &Path) {
        self.found().remove(path);
    }

    /// Names the damaged files, with what is wrong with each; those that were moved away meanwhile
    /// are not damaged any more.
    pub(super) fn named(&self) -> Vec<String> {
        let mut found = self.found();
        found.retain(|path, _| path.exists());
        found.values().take(MOST_NAMED).cloned().collect()
    }

    /// The answer to who asks for the run or offer with this digest, if its record is damaged.
    pub(super) fn refusal(&self, digest: &str) -> Option<Refusal> {
        let found = self.found();
        let of = |path: &Path| {
            path.parent()
                .and_then(Path::file_name)
                .is_some_and(|name| name == digest)
        };
        let (_, what) = found.iter().find(|(path, _)| of(path))?;
        Some(
            Refusal::new(Kind::Unknown, format!("damaged: {what}"))
                .field("digest")
                .hint(
                    "restore the file from a backup of the state folder; what the run cost is in the ledger",
                ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::state::write_record;

    fn read(damaged: &Damaged, path: &Path) -> Option<String> {
        damaged.record(path, |digest: &String| digest)
    }

    #[test]
    fn a_damaged_record_is_named_until_it_is_repaired_or_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (damaged, digest) = (Damaged::default(), "a".repeat(64));
        let place = folder.path().join("runs").join(&digest);
        std::fs::create_dir_all(&place).unwrap();
        let path = place.join("run.json");
        write_record(&path, &digest).unwrap();
        assert_eq!(read(&damaged, &path).as_ref(), Some(&digest));
        assert!(damaged.named().is_empty() && damaged.refusal(&digest).is_none());

        let sound = std::fs::read(&path).unwrap();
        let mut flipped = sound.clone();
        flipped[3] ^= 1;
        std::fs::write(&path, &flipped).unwrap();
        assert_eq!(read(&damaged, &path), None);
        let named = damaged.named();
        assert_eq!(named.len(), 1);
        assert!(
            named[0].starts_with(&format!("runs/{digest}/run.json: ")) && named[0].contains("checksum"),
            "{named:?}"
        );
        assert_eq!(damaged.refusal(&digest).unwrap().kind, Kind::Unknown);
        assert!(damaged.refusal(&"b".repeat(64)).is_none());

        std::fs::write(&path, &sound).unwrap();
        assert_eq!(read(&damaged, &path).as_ref(), Some(&digest));
        assert!(damaged.named().is_empty(), "it was repaired");

        std::fs::write(&path, &flipped).unwrap();
        read(&damaged, &path);
        std::fs::remove_file(&path).unwrap();
        assert!(damaged.named().is_empty(), "it was moved away");
    }

    #[test]
    fn a_record_in_the_folder_of_another_run_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let damaged = Damaged::default();
        let place = folder.path().join("runs").join("b".repeat(64));
        std::fs::create_dir_all(&place).unwrap();
        write_record(&place.join("run.json"), &"a".repeat(64)).unwrap();
        assert_eq!(read(&damaged, &place.join("run.json")), None);
        assert_eq!(damaged.named().len(), 1);
    }
}
