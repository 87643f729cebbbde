//! What comes of computing a figure or table again.

use std::path::Path;

use serde_json::{Value, json};

use crate::planning::plot::{self, Chart};
use crate::telling::failure::Failure;
use crate::telling::output_file;
use crate::telling::table::Table;

/// A figure or table of a paper, computed again.
pub(super) struct Computed {
    /// Its name, as `--paper` has it.
    pub(super) name: &'static str,
    pub(super) title: String,
    /// An object a row.
    pub(super) rows: Vec<Value>,
    pub(super) table: Table,
    /// What is to be known about it, a sentence or two each.
    pub(super) notes: Vec<String>,
    pub(super) chart: Option<Chart>,
}

impl Computed {
    pub(super) fn json(&self) -> Value {
        json!({"paper": self.name, "rows": self.rows, "notes": self.notes, "exit_code": 0})
    }

    pub(super) fn text(&self) -> String {
        let notes: String = self.notes.iter().map(|note| format!("{note}\n")).collect();
        format!("{}\n\n{}\n{notes}", self.title, self.table.render())
    }

    /// Writes NAME.csv, and NAME.svg where there is something to draw; says which.
    pub(super) fn write(&self, folder: &Path) -> Result<Vec<String>, Failure> {
        let refuse = |e: std::io::Error| {
            Failure::storage(&e, format!("{}: cannot be written: {e}", folder.display()))
                .field("--out")
                .hint("choose a folder that you can write to")
        };
        std::fs::create_dir_all(folder).map_err(refuse)?;
        let csv = format!("{}.csv", self.name);
        output_file::write_bytes(&folder.join(&csv), "--out", self.table.csv().as_bytes())?;
        let mut written = vec![csv];
        if let Some(chart) = &self.chart {
            let svg = format!("{}.svg", self.name);
            plot::figure(chart, &folder.join(&svg))?;
            written.push(svg);
        }
        Ok(written)
    }
}
