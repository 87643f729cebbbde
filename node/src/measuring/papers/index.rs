//! The page beside the files of all figures: what each is, how far it is from what its paper
//! prints, and why.

use serde_json::Value;
use undertone_accountant::papers::figure::Figure;
use undertone_accountant::papers::{PAPERS, Paper};

use crate::reporting::table::precise;

/// The file's name.
pub(super) const INDEX: &str = "index.md";

/// A relative difference that counts as none: what a paper rounds off.
const ROUNDED_OFF: f64 = 0.01;

/// A figure with the files that were written of it.
pub(super) struct Indexed<'a> {
    pub(super) name: &'a str,
    pub(super) figure: &'a Figure,
    pub(super) files: Vec<String>,
}

/// The page, as Markdown; so many runs were asked for, with this seed.
pub(super) fn page(all: &[Indexed<'_>], (runs, seed): (Option<u64>, u64)) -> String {
    let runs = match runs {
        Some(runs) => format!("{runs} runs a point where runs are drawn"),
        None => "as many runs a point as take seconds".to_owned(),
    };
    let mut page = format!(
        "# The papers' figures and tables, computed again\n\nBy `undertone simulate --paper all`, version {}: \
         {runs}, seed {}.\n\n| Figure | Numbers that the paper prints | Within 1 % | Furthest |\n| --- | --- | --- | --- |\n",
        env!("CARGO_PKG_VERSION"),
        seed
    );
    let compared: Vec<Vec<Deviation>> = all.iter().map(|one| deviations(one.figure)).collect();
    for (one, found) in all.iter().zip(&compared) {
        let near = found.iter().filter(|deviation| deviation.is_rounding()).count();
        let furthest = furthest(found).map_or("–".to_owned(), |it| format!("{:.3} times", it.ratio));
        page += &format!(
            "| [{}](#{}) | {} | {near} | {furthest} |\n",
            one.name,
            one.name,
            found.len()
        );
    }
    for (one, found) in all.iter().zip(&compared) {
        page += &section(one, found);
    }
    let left_out = |paper: &&Paper| all.iter().all(|one| one.name != paper.name);
    let left_out: Vec<&Paper> = PAPERS.iter().filter(left_out).collect();
    if !left_out.is_empty() {
        page += "\n## Left out\n\n";
    }
    for paper in left_out {
        page += &format!(
            "- `{}`: {}. It needs data that are not this program's (`--data DIR`).\n",
            paper.name, paper.about
        );
    }
    page
}

fn section(one: &Indexed<'_>, found: &[Deviation]) -> String {
    let about = PAPERS.iter().find(|paper| paper.name == one.name);
    let links: Vec<String> = one.files.iter().map(|file| format!("[{file}]({file})")).collect();
    let mut text = format!(
        "\n## {}\n\n{}.\n\n{}. Files: {}.\n\n",
        one.name,
        about.map_or("", |paper| paper.about),
        one.figure.title,
        links.join(", ")
    );
    text += &match furthest(found) {
        None => "The paper prints no numbers of it that could be held against ours.\n\n".to_owned(),
        Some(furthest) if furthest.is_rounding() => {
            format!("All {} numbers are the paper's, within 1 %.\n\n", found.len())
        }
        Some(furthest) => {
            let off = found.iter().filter(|it| !it.is_rounding()).count();
            format!(
                "{off} of {} numbers deviate by more than 1 %. The furthest is `{}` in row {}: {} where the paper has \
                 {}, {:.3} times as much.\n\n",
                found.len(),
                furthest.key,
                furthest.row,
                precise(furthest.ours),
                precise(furthest.paper),
                furthest.ratio
            )
        }
    };
    if !one.figure.notes.is_empty() {
        text += "What is to be known, and why it deviates:\n\n";
    }
    for note in &one.figure.notes {
        text += &format!("- {note}\n");
    }
    text
}

/// A number of ours beside the paper's.
struct Deviation {
    /// The row, from 1.
    row: usize,
    key: String,
    paper: f64,
    ours: f64,
    ratio: f64,
}

impl Deviation {
    fn is_rounding(&self) -> bool {
        (self.ratio - 1.0).abs() <= ROUNDED_OFF
    }

    /// How far it is off, the same up and down.
    fn distance(&self) -> f64 {
        self.ratio.ln().abs()
    }
}

fn furthest(found: &[Deviation]) -> Option<&Deviation> {
    found
        .iter()
        .max_by(|one, other| one.distance().total_cmp(&other.distance()))
}

/// All numbers of a figure that stand beside the paper's.
fn deviations(figure: &Figure) -> Vec<Deviation> {
    let mut found = vec![];
    for (at, row) in figure.table.objects.iter().enumerate() {
        collect(row, (at + 1, ""), &mut found);
    }
    found
}

fn collect(value: &Value, (row, key): (usize, &str), found: &mut Vec<Deviation>) {
    let number = |of: &str| value.get(of).and_then(Value::as_f64);
    if let (Some(paper), Some(ours), Some(ratio)) = (number("paper"), number("ours"), number("ratio")) {
        found.push(Deviation {
            row,
            key: key.to_owned(),
            paper,
            ours,
            ratio,
        });
        return;
    }
    match value {
        Value::Object(entries) => entries
            .iter()
            .for_each(|(key, value)| collect(value, (row, key), found)),
        Value::Array(entries) => entries.iter().for_each(|value| collect(value, (row, key), found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use undertone_accountant::papers::figure::Table;

    use super::*;

    #[test]
    fn an_index_names_what_deviates_most_and_why() {
        let compared = |paper: f64, ours: f64| json!({ "paper": paper, "ours": ours, "ratio": ours / paper });
        let figure = Figure {
            title: "PPSC, Table 2".into(),
            table: Table {
                headings: vec![],
                cells: vec![],
                objects: vec![
                    json!({ "rho": 0.7, "theorem": compared(8.0, 8.0) }),
                    json!({ "rho": 0.9, "theorem": compared(25.0, 24.0), "least": [compared(2.0, 2.01)] }),
                ],
            },
            notes: vec!["Theorem 2 gives 24.".into()],
            chart: None,
        };
        let one = Indexed {
            name: "ppsc-table2",
            figure: &figure,
            files: vec!["ppsc-table2.csv".into()],
        };
        let page = page(&[one], (Some(5), 3));
        for words in [
            "| [ppsc-table2](#ppsc-table2) | 3 | 2 | 0.960 times |",
            "1 of 3 numbers deviate by more than 1 %. The furthest is `theorem` in row 2",
            "- Theorem 2 gives 24.",
            "[ppsc-table2.csv](ppsc-table2.csv)",
            "5 runs a point",
            "seed 3",
            "- `ppsc-figure8`",
        ] {
            assert!(page.contains(words), "{words}\n{page}");
        }
    }
}
