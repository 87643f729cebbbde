//! `undertone simulate --paper`: the papers' figures and tables on screen, as JSON, CSV and SVG.

mod handwriting;
mod index;

use std::path::Path;
use std::sync::Mutex;

use clap::builder::PossibleValue;
use serde_json::{Value, json};
use undertone_accountant::papers::error::PaperError;
use undertone_accountant::papers::figure::{Cell, Figure};
use undertone_accountant::papers::given::Given;
use undertone_accountant::papers::{PAPERS, Paper};

use crate::measuring::papers::index::{INDEX, Indexed};
use crate::planning::{files, plot};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::output_file;
use crate::reporting::progress::Progress;
use crate::reporting::report::Report;
use crate::reporting::table::{Table, precise};

/// The name that stands for all figures and tables, those that need data only with it.
const ALL: &str = "all";

/// The Facebook graph's edges, as Stanford's collection names them.
const FACEBOOK_EDGES: &str = "facebook_combined.txt";

/// The names that `--paper` takes.
pub(crate) fn names() -> Vec<PossibleValue> {
    let each = PAPERS.iter().map(|paper| (paper.name, paper.about));
    let all = (ALL, "All of these, and those of --data only with it");
    each.chain([all])
        .map(|(name, about)| PossibleValue::new(name).help(about))
        .collect()
}

/// The figures and tables that a name of [`names`] stands for.
pub(crate) fn named(name: &str, with_data: bool) -> Vec<&'static Paper> {
    let possible = |paper: &&Paper| match name {
        ALL => with_data || !paper.needs_data,
        _ => paper.name == name,
    };
    PAPERS.iter().filter(possible).collect()
}

/// How much is drawn, and from what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grounds<'a> {
    pub(crate) runs: Option<u64>,
    pub(crate) seed: u64,
    /// The folder with the data of those that need any.
    pub(crate) data: Option<&'a Path>,
}

/// Computes figures and tables; with a folder it writes each as CSV, and figures as SVG, and of
/// several an index.
pub(crate) fn report(papers: &[&Paper], grounds: Grounds<'_>, out: Option<&Path>) -> Result<Report, Failure> {
    let progress = Mutex::new(Progress::start());
    let all = computed(papers, grounds, &progress);
    progress.into_inner().unwrap_or_else(|e| e.into_inner()).end();
    let all = all?;
    let text = |(_, figure): &(_, Figure)| {
        let notes: String = figure.notes.iter().map(|note| format!("{note}\n")).collect();
        format!("{}\n\n{}\n{notes}", figure.title, table(figure).render())
    };
    let mut text: String = all.iter().map(text).collect::<Vec<_>>().join("\n");
    let object = |(name, figure): &(&str, Figure)| {
        let (rows, notes) = (&figure.table.objects, &figure.notes);
        json!({"paper": name, "rows": rows, "notes": notes, "exit_code": 0})
    };
    let mut json = match &all[..] {
        [one] => object(one),
        many => {
            let objects: Vec<Value> = many.iter().map(object).collect();
            json!({"paper": ALL, "papers": objects, "exit_code": 0})
        }
    };
    if let Some(folder) = out {
        let mut indexed = Vec::new();
        for (name, figure) in &all {
            indexed.push(Indexed {
                name,
                figure,
                files: write(name, figure, folder)?,
            });
        }
        let mut written: Vec<String> = indexed.iter().flat_map(|one| one.files.clone()).collect();
        if indexed.len() > 1 {
            let page = index::page(&indexed, (grounds.runs, grounds.seed));
            output_file::write_bytes(&folder.join(INDEX), "--out", page.as_bytes())?;
            written.push(INDEX.to_owned());
        }
        text += &format!("\nIn {}: {}\n", folder.display(), written.join(", "));
        json["files"] = json!(written);
    }
    Ok(Report::done(json, text))
}

/// The name of each, and its numbers.
fn computed(
    papers: &[&Paper],
    grounds: Grounds<'_>,
    progress: &Mutex<Progress>,
) -> Result<Vec<(&'static str, Figure)>, Failure> {
    let needs_digits = papers.iter().any(|paper| paper.needs_data);
    let digits = grounds
        .data
        .filter(|_| needs_digits)
        .map(handwriting::read)
        .transpose()?;
    let edges = grounds
        .data
        .map(|folder| folder.join(FACEBOOK_EDGES))
        .filter(|path| path.exists());
    let facebook = edges
        .as_deref()
        .map(|path| files::read_text(path, "--data"))
        .transpose()?;
    let watch = |line: &str, counted: Option<(u64, u64)>| {
        let mut progress = progress.lock().unwrap_or_else(|e| e.into_inner());
        match counted {
            Some((done, all)) => progress.count(line, done, all),
            None => progress.show(line),
        }
    };
    let given = Given {
        runs: grounds.runs,
        seed: grounds.seed,
        digits: digits.as_ref(),
        facebook: facebook.as_deref(),
        watch: &watch,
    };
    let refuse = |error: PaperError| match (&error, &edges) {
        (PaperError::NoDigits, _) => Failure::usage(error.to_string())
            .field("--data")
            .hint(handwriting::HINT),
        (PaperError::FewDigits, _) => Failure::usage(error.to_string()).field("--data"),
        (PaperError::Edges(_) | PaperError::Nodes { .. }, Some(path)) => {
            Failure::input(format!("{}: {error}", path.display())).field("--data")
        }
        _ => Failure::new(Exit::Internal, error.to_string()),
    };
    let each = papers
        .iter()
        .map(|paper| Ok((paper.name, paper.compute(&given)?)));
    each.collect::<Result<_, _>>().map_err(refuse)
}

fn table(figure: &Figure) -> Table {
    let mut table = Table::with_headings(figure.table.headings.iter().copied());
    for row in &figure.table.cells {
        let shown = row.iter().map(|cell| match cell {
            Cell::Text(text) => text.clone(),
            Cell::Number(value) => precise(*value),
        });
        table.row(shown);
    }
    table
}

/// Writes NAME.csv, and NAME.svg where there is something to draw; says which.
fn write(name: &str, figure: &Figure, folder: &Path) -> Result<Vec<String>, Failure> {
    let refuse = |e: std::io::Error| {
        Failure::storage(&e, format!("{}: cannot be written: {e}", folder.display()))
            .field("--out")
            .hint("choose a folder that you can write to")
    };
    std::fs::create_dir_all(folder).map_err(refuse)?;
    let csv = format!("{name}.csv");
    output_file::write_bytes(&folder.join(&csv), "--out", table(figure).csv().as_bytes())?;
    let mut written = vec![csv];
    if let Some(chart) = &figure.chart {
        let svg = format!("{name}.svg");
        plot::figure(chart, &folder.join(&svg))?;
        written.push(svg);
    }
    Ok(written)
}
