//! Tables of a local cluster whose statistics are computed: this machine has them all, and so the
//! true figures.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use undertone_protocol::describe::columns::{Description, RowCount};
use undertone_protocol::describe::faults::DescriptionFault;
use undertone_protocol::describe::figures::estimate::ReadingAs;
use undertone_protocol::describe::figures::groups::AllFigures;
use undertone_protocol::describe::released::ReleasedSum;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::error::RunFileError;
use undertone_protocol::plan::run_file::problem::Problem;
use undertone_protocol::plan::run_file::raw::RawRunFile;
use undertone_protocol::topology::party::Party;

use crate::commands::local::parties::{LocalParty, named_files};
use crate::party::figures_file::shown::lines;
use crate::party::figures_file::text::{self, ShownAs};
use crate::party::figures_file::{self, FiguresFile};
use crate::planning::make;
use crate::reporting::failure::Failure;
use crate::table_file::reading::{self, MostlyWords};
use crate::vector_file::layout::{Dtype, Layout};
use crate::vector_file::vector::VectorFile;

/// The cell of a sum that is only compared: finer than any noise.
const FINE: f64 = 1.0 / (1u64 << 40) as f64;

/// The description of a run file, checked.
fn description(raw: &RawRunFile, place: &Path) -> Result<Description, Failure> {
    let located = |(field, problem): (String, Problem)| {
        let error = RunFileError::Field {
            line: raw.line(&field),
            field,
            problem,
        };
        make::run_failure(place, &error)
    };
    let described = raw.describe.clone().complete().map_err(located)?;
    let faulty = |(field, fault): (String, DescriptionFault)| located((field, Problem::Description(fault)));
    described.check().map_err(faulty)?;
    Ok(described)
}

/// One table per party, ordered by name, each as the sum of its rows' vectors.
pub(crate) fn read(
    folder: &Path,
    nodes: Option<usize>,
    (raw, place): (&RawRunFile, &Path),
    words: MostlyWords,
) -> Result<Vec<LocalParty>, Failure> {
    let described = description(raw, place)?;
    let named = named_files(folder, nodes, |_| Ok(()))?;
    let party = |(name, input): (String, PathBuf)| {
        let table = reading::read(&input, &described, (FINE, words))?;
        let sums: Vec<f64> = table.cells.iter().map(|cell| *cell as f64 * FINE).collect();
        let found = table.found.iter().filter_map(|found| found.sentence(table.rows));
        let is_public = described.count == RowCount::Public;
        Ok(LocalParty {
            told: found.collect(),
            name,
            input,
            vector: VectorFile {
                layout: Layout::npy(vec![sums.len()], Dtype::F64),
                values: sums,
            },
            records: is_public.then_some(table.rows),
        })
    };
    named.into_iter().map(party).collect()
}

/// The statistics of a local run beside the true ones.
pub(super) struct LocalFigures {
    described: Description,
    found: AllFigures,
    truth: AllFigures,
    told: Vec<String>,
}

impl LocalFigures {
    /// The figures of these sums, and those of the tables of the parties that are in them. `None`
    /// of another plan.
    pub(super) fn of(
        plan: &Plan,
        parties: &[LocalParty],
        (sums, error): (&[f64], f64),
        included: &BTreeSet<Party>,
    ) -> Option<Self> {
        let described = plan.draft().computation.described()?.describe.clone();
        let rows: f64 = included.iter().map(|&party| plan.weight(party)).sum();
        let file = FiguresFile::of(plan, sums, (error, rows), &[])?;
        let mut exact = vec![0.0; sums.len()];
        for &party in included {
            let own = &parties.get(party)?.vector.values;
            exact.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
        let asked = ReadingAs::default();
        let truth = ReleasedSum::of(described.clone(), exact, 0.0, Some(rows)).ok()?;
        let told = parties.iter().flat_map(|party| {
            let told = party.told.iter();
            told.map(|sentence| format!("{}: {sentence}", party.name))
        });
        Some(LocalFigures {
            found: file.figures(&asked).ok()?,
            truth: truth.figures(&asked),
            told: told.collect(),
            described,
        })
    }

    /// Sentences on what tables have that is not described: on this machine all are one's own.
    pub(super) fn told(&self) -> Vec<String> {
        self.told.clone()
    }

    /// The table that a person reads, with the true figures behind.
    pub(super) fn text(&self) -> String {
        let shown = ShownAs::default();
        text::with_truth(&self.described, (&self.found, Some(&self.truth)), &shown)
    }

    /// How many intervals hold the true figure, of those that are shown.
    pub(super) fn json(&self) -> Value {
        let asked = ReadingAs::default();
        let (mut held, mut all) = (0u64, 0u64);
        for (found, truth) in self.found.groups.iter().zip(&self.truth.groups) {
            let pairs =
                lines(&self.described, found, &asked)
                    .into_iter()
                    .zip(lines(&self.described, truth, &asked));
            for (found, truth) in pairs {
                if let (Some(truth), Some(found)) = (truth.true_value(), found.figure) {
                    all += 1;
                    held += u64::from(found.holds(truth));
                }
            }
        }
        let figures = figures_file::as_json(&self.found, &asked);
        json!({ "intervals": all, "intervals_held": held, "figures": figures })
    }
}
