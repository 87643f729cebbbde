//! The file of the statistics of a table: the agreed sums, and the figures that this node computed
//! from them.

mod comma_separated;
mod decimals;
pub mod shown;
pub mod text;

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use undertone_protocol::describe::columns::{Description, RowCount};
use undertone_protocol::describe::figures::estimate::ReadingAs;
use undertone_protocol::describe::figures::groups::{AllFigures, ColumnFigures};
use undertone_protocol::describe::released::ReleasedSum;
use undertone_protocol::plan::checked::Plan;

use crate::party::figures_file::decimals::rounded;
use crate::reporting::failure::Failure;
use crate::reporting::input_file;
use crate::reporting::output_file::{self, extension_of};

/// The longest file of figures that is read. Our choice: some 10⁷ coordinates.
const MOST_BYTES: u64 = 1 << 30;

/// Statistics of a table, as a file has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FiguresFile {
    version: u32,
    /// The plan's.
    pub digest: String,
    /// The description that the sums are of.
    pub describe: Description,
    /// Rows of those who are in the sums; null where nobody says.
    pub rows: Option<f64>,
    /// Who is in the sums.
    pub included: Vec<String>,
    /// σ: the standard deviation of the noise of a sum.
    pub noise: f64,
    /// The agreed sums, the same at all nodes.
    pub sums: Vec<f64>,
    /// The figures that this node computed from them.
    #[serde(default)]
    figures: Value,
}

impl FiguresFile {
    /// The statistics that a plan's sums come to; `None` of another plan. `rows`: of those who are
    /// in them.
    pub fn of(plan: &Plan, sums: &[f64], (noise, rows): (f64, f64), included: &[String]) -> Option<Self> {
        let describe = plan.draft().computation.described()?.describe.clone();
        let rows = (describe.count == RowCount::Public).then_some(rows);
        let mut file = FiguresFile {
            version: 1,
            digest: plan.digest_hex(),
            describe,
            rows,
            included: included.to_vec(),
            noise,
            sums: sums.to_vec(),
            figures: Value::Null,
        };
        let figures = file.released().ok()?.figures(&ReadingAs::default());
        file.figures = rounded(as_json(&figures, &ReadingAs::default()));
        Some(file)
    }

    /// Reads a file that [`FiguresFile::write`] wrote.
    ///
    /// # Errors
    /// It cannot be read, or is no such file (exit 2).
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let refused = |what: String| {
            Failure::usage(format!("{}: {what}", path.display()))
                .field("X.json")
                .hint("name a file that join or local wrote for task = \"describe\": --output figures.json")
        };
        let bytes =
            input_file::read(path, MOST_BYTES).map_err(|e| refused(format!("cannot be read: {e}")))?;
        let file: FiguresFile = serde_json::from_slice(&bytes)
            .map_err(|e| refused(format!("line {}: no figures: {e}", e.line())))?;
        if file.version != 1 {
            return Err(refused(format!("version {} is not read here", file.version)));
        }
        file.describe
            .check()
            .map_err(|(field, fault)| refused(format!("{field} {fault}; {}", fault.fix())))?;
        let finite = file.sums.iter().all(|sum| sum.is_finite()) && file.noise.is_finite();
        if !finite || file.noise < 0.0 {
            return Err(refused("its sums are no numbers".into()));
        }
        if !file.released()?.is_possible() {
            let rows = file.rows.unwrap_or(0.0);
            return Err(refused(format!(
                "its sums are further out than {rows} rows and their noise can be: somebody lied, or a value \
                 overflowed"
            )));
        }
        Ok(file)
    }

    /// Returns the sums with their description, from which everything follows.
    ///
    /// # Errors
    /// There are more or fewer sums than the description has (exit 2).
    pub fn released(&self) -> Result<ReleasedSum, Failure> {
        let (found, described) = (self.sums.len(), self.describe.clone());
        ReleasedSum::of(described, self.sums.clone(), self.noise, self.rows).map_err(|expected| {
            Failure::usage(format!("{found} sums, and the description has {expected}")).field("sums")
        })
    }

    /// Computes the figures.
    ///
    /// # Errors
    /// Those of [`FiguresFile::released`].
    pub fn figures(&self, asked: &ReadingAs) -> Result<AllFigures, Failure> {
        Ok(self.released()?.figures(asked))
    }

    /// Writes it as the extension says: `.csv` has the figures alone.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        output_file::write_whole(path, |out| self.write_to(path, out))
            .map_err(|e| output_file::unwritten(path, "--output", &e))
    }

    /// Writes what [`FiguresFile::write`] writes to a file of this name.
    pub fn write_to(&self, path: &Path, out: &mut dyn Write) -> std::io::Result<()> {
        match extension_of(path).as_deref() {
            Some("csv") => {
                let asked = ReadingAs::default();
                let figures = self.figures(&asked).map_err(std::io::Error::other)?;
                out.write_all(comma_separated::of(&self.describe, &figures, (&asked, false)).as_bytes())
            }
            _ => {
                serde_json::to_writer_pretty(&mut *out, self)?;
                out.write_all(b"\n")
            }
        }
    }

    /// Returns the figures as comma-separated values. `population`: with intervals of a population
    /// that rows are a sample of, where there is a formula.
    ///
    /// # Errors
    /// Those of [`FiguresFile::released`].
    pub fn csv(&self, asked: &ReadingAs, population: bool) -> Result<String, Failure> {
        let figures = self.figures(asked)?;
        Ok(comma_separated::of(&self.describe, &figures, (asked, population)))
    }

    /// SHA-256 of the sums, in lower-case hex: of their little-endian bytes as f64.
    pub fn sums_sha256(&self) -> String {
        sums_sha256(&self.sums)
    }
}

/// SHA-256 of sums, in lower-case hex: of their little-endian bytes as f64.
fn sums_sha256(sums: &[f64]) -> String {
    let mut hash = Sha256::new();
    sums.iter().for_each(|sum| hash.update(sum.to_le_bytes()));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The figures as JSON, with an interval for each correlation and each median time, whose upper end
/// is null where it is not reached. Those of all other figures lie as far on both sides as z times
/// the noise that is beside them.
pub fn as_json(figures: &AllFigures, asked: &ReadingAs) -> Value {
    let (mut value, z) = (json!(figures), asked.z());
    for (g, group) in figures.groups.iter().enumerate() {
        for (k, statistic) in group.statistics.iter().enumerate() {
            if let ColumnFigures::Survival(survival) = &statistic.of {
                value["groups"][g]["statistics"][k]["median_time"] = json!(survival.reached(0.5, z));
            }
        }
    }
    for (k, covariance) in figures.covariances.iter().enumerate() {
        let d = covariance.columns.len();
        let row = |i: usize| -> Vec<_> {
            (0..d)
                .map(|j| covariance.correlation_interval((i, j), z))
                .collect()
        };
        let intervals: Vec<_> = (0..d).map(row).collect();
        value["covariances"][k]["correlation_interval"] = match covariance.correlation {
            Some(_) => json!(intervals),
            None => Value::Null,
        };
    }
    value
}

/// The receipt's member on statistics: which sums were agreed on, and with how much noise; null of
/// another plan.
pub fn receipt_member(plan: &Plan, sums: &[f64], (noise, rows): (Option<f64>, f64)) -> Value {
    let Some(settings) = plan.draft().computation.described() else {
        return Value::Null;
    };
    let is_public = settings.describe.count == RowCount::Public;
    json!({
        "coordinates": settings.layout.coordinates,
        "sensitivity": plan.draft().largest_sensitivity(),
        "noise": noise,
        "rows": is_public.then_some(rows),
        "sums_sha256": sums_sha256(sums),
    })
}

#[cfg(test)]
mod tests;
