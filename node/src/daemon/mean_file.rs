//! The file of a run's mean: written once, and served only as it was written.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::party::figures_file::FiguresFile;
use crate::reporting::failure::{Exit, Failure};
use crate::vector_file::formats;
use crate::vector_file::layout::Layout;
use crate::vector_file::vector::VectorFile;

/// The name of the file of a table's statistics.
const FIGURES: &str = "figures.json";

/// The result of a run, as it was written.
pub enum RunResult {
    /// A mean, a model, or what else is numbers.
    Mean(VectorFile),
    /// Statistics of a table.
    Figures(Box<FiguresFile>),
}

/// The file of a run's mean.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeanFile {
    /// Its name in the run's folder.
    pub(super) name: String,
    /// SHA-256 of its bytes as they were written, in lower-case hex.
    pub(super) sha256: String,
}

impl MeanFile {
    /// Writes a mean into a run's folder.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub(super) fn write(folder: &Path, layout: &Layout, mean: &[f64]) -> Result<Self, Failure> {
        let name = format!("mean.{}", layout.format.extension());
        let layout = layout.of_so_many(mean.len());
        formats::write(&folder.join(&name), &layout, mean)?;
        // Of what was to be written: a disk that changed a byte since is found out, too.
        let sha256 = formats::sha256_of(|out| formats::write_to(out, &layout, mean));
        let sha256 =
            sha256.map_err(|e| Failure::new(Exit::Internal, format!("a mean cannot be encoded: {e}")))?;
        Ok(MeanFile { name, sha256 })
    }

    /// Writes the figures of a table's statistics into a run's folder.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub(super) fn write_figures(folder: &Path, figures: &FiguresFile) -> Result<Self, Failure> {
        let name = FIGURES.to_owned();
        let path = folder.join(&name);
        figures.write(&path)?;
        let sha256 = formats::sha256_of(|out| figures.write_to(&path, out));
        let sha256 =
            sha256.map_err(|e| Failure::new(Exit::Internal, format!("figures cannot be encoded: {e}")))?;
        Ok(MeanFile { name, sha256 })
    }

    /// Reads the result out of the run's folder.
    ///
    /// # Errors
    /// A file that is gone, or that is not what was written.
    pub(super) fn read(&self, folder: &Path) -> Result<RunResult, Failure> {
        let path = folder.join(&self.name);
        let damaged = |what: String| {
            Failure::new(Exit::Internal, format!("{}: {what}", path.display()))
                .field("digest")
                .hint(
                    "restore the file from a backup, or ask another party for its copy; the receipt's \
                     result_sha256 tells whether it is the same",
                )
        };
        let found = formats::sha256_of_file(&path).map_err(|e| damaged(format!("cannot be read: {e}")))?;
        if found != self.sha256 {
            let expected = &self.sha256;
            return Err(damaged(format!(
                "is not what was written: its SHA-256 is {found}, not {expected}"
            )));
        }
        match self.name == FIGURES {
            true => FiguresFile::read(&path).map(|figures| RunResult::Figures(Box::new(figures))),
            false => formats::read(&path).map(RunResult::Mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector_file::layout::Dtype;

    #[test]
    fn a_mean_of_which_any_byte_has_changed_is_not_served() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::npy(vec![3], Dtype::F64);
        let mean = MeanFile::write(folder.path(), &layout, &[1.0, -2.5, 1e-9]).unwrap();
        let path = folder.path().join(&mean.name);
        let good = std::fs::read(&path).unwrap();
        assert_eq!(mean.sha256, formats::sha256_of_file(&path).unwrap());
        let RunResult::Mean(read) = mean.read(folder.path()).unwrap() else {
            panic!("no mean");
        };
        assert_eq!(read.values, [1.0, -2.5, 1e-9]);
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 0x10;
            std::fs::write(&path, changed).unwrap();
            let failure = mean.read(folder.path()).err().unwrap();
            assert!(
                failure.message.contains("is not what was written"),
                "byte {at}: {failure}"
            );
        }
        std::fs::write(&path, &good[1..]).unwrap();
        assert!(mean.read(folder.path()).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(mean.read(folder.path()).is_err());
    }
}
