//! `undertone figures`: statistics of a table again, without a node and at no further cost.

mod plot;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use undertone_protocol::describe::figures::comparison::{Difference, difference, homogeneity};
use undertone_protocol::describe::figures::estimate::{Estimate, ReadingAs};
use undertone_protocol::describe::figures::groups::{AllFigures, ColumnFigures, GroupFigures};

use crate::party::figures_file::shown::{FigureUnit, ShownFigure, percent};
use crate::party::figures_file::text::{self, ShownAs, p_value};
use crate::party::figures_file::{self, FiguresFile};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;
use crate::reporting::table::{Table, number};

/// Flags of `figures`.
#[derive(Args, Debug)]
pub struct FiguresArgs {
    /// The figures that join, local or result wrote for task = "describe"
    #[arg(value_name = "X.json")]
    file: PathBuf,
    /// Another quantile: "age=0.9" is the number that nine of ten are below
    #[arg(long, value_name = "COLUMN=Q")]
    quantile: Vec<String>,
    /// The difference of two groups: "arm=old,new"; of "arm", whether all groups are alike
    #[arg(long, value_name = "GROUPS")]
    difference: Vec<String>,
    /// Intervals of the population that rows are a sample of: noise and sampling
    #[arg(long)]
    population: bool,
    /// How many of 100 intervals hold, as a share
    #[arg(long, value_name = "C", default_value_t = 0.95)]
    confidence: f64,
    /// How many categories are shown, where a column has more than 40
    #[arg(long, value_name = "K", default_value_t = 20)]
    top: usize,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
    /// Draw counts, curves and correlations, as SVG
    #[arg(long, value_name = "F.svg")]
    plot: Option<PathBuf>,
}

/// Reads the file, and prints what is asked for.
///
/// # Errors
/// No file of figures, or a column or group that it does not have (exit 2).
pub fn run(arguments: &FiguresArgs) -> Result<Report, Failure> {
    let file = FiguresFile::read(&arguments.file)?;
    let inside = arguments.confidence > 0.0 && arguments.confidence < 1.0;
    if !inside {
        return Err(Failure::usage("--confidence is a share above 0 and below 1")
            .field("--confidence")
            .hint("write 0.95"));
    }
    let shown = ShownAs {
        asked: ReadingAs {
            confidence: arguments.confidence,
            ..ReadingAs::default()
        },
        population: arguments.population,
        top: arguments.top,
    };
    let figures = file.figures(&shown.asked)?;
    let mut object = json!({
        "digest": file.digest,
        "rows": file.rows,
        "noise": file.noise,
        "figures": figures_file::as_json(&figures, &shown.asked),
        "exit_code": 0,
    });
    if let Some(path) = &arguments.plot {
        plot::draw((&file.describe, &figures), &shown, path)?;
    }
    if arguments.csv {
        return Ok(Report::done(object, file.csv(&shown.asked, shown.population)?));
    }
    let mut text = match file.rows {
        Some(rows) => format!("{rows} rows of {} parties\n\n", file.included.len()),
        None => format!("rows of {} parties\n\n", file.included.len()),
    };
    text += &text::text(&file.describe, &figures, &shown);
    let quantiles = arguments
        .quantile
        .iter()
        .map(|asked| quantile(&file, &shown, asked))
        .collect::<Result<Vec<_>, _>>()?;
    let differences = arguments
        .difference
        .iter()
        .map(|asked| differ(&file, (&figures, &shown), asked))
        .collect::<Result<Vec<_>, _>>()?;
    for (key, answers) in [("quantiles", quantiles), ("differences", differences)] {
        if answers.is_empty() {
            continue;
        }
        answers.iter().for_each(|(said, _)| text += &format!("\n{said}"));
        object[key] = answers.into_iter().map(|(_, answer)| answer).collect();
    }
    Ok(Report::done(object, text))
}

fn refused(what: String, field: &str, hint: String) -> Failure {
    Failure::usage(what).field(field).hint(hint)
}

/// A quantile of a column in each group: for people, and as an object.
fn quantile(file: &FiguresFile, shown: &ShownAs, asked: &str) -> Result<(String, Value), Failure> {
    let parsed = asked
        .rsplit_once('=')
        .and_then(|(column, q)| Some((column, q.parse::<f64>().ok()?)));
    let Some((column, q)) = parsed.filter(|(_, q)| *q > 0.0 && *q < 1.0) else {
        let hint = "write --quantile \"age=0.9\", a column and a share above 0 and below 1".to_owned();
        return Err(refused(format!("{asked:?} is no quantile"), "--quantile", hint));
    };
    let asked = ReadingAs {
        confidence: shown.asked.confidence,
        quantiles: vec![q],
    };
    let figures = file.figures(&asked)?;
    let (mut table, mut answers) = (Table::new(), vec![]);
    for group in &figures.groups {
        let of_column = group
            .statistics
            .iter()
            .filter(|statistic| statistic.column == column);
        let quantiles = of_column.filter_map(|statistic| match &statistic.of {
            ColumnFigures::Quantiles(quantiles) => Some(quantiles),
            _ => None,
        });
        for quantiles in quantiles {
            let name = group.group.clone().unwrap_or_default();
            let found = quantiles.quantiles.iter().flatten().next();
            let interval = |quantile: &undertone_protocol::describe::figures::quantiles::Quantile| match shown
                .population
            {
                true => quantile.all,
                false => quantile.noise,
            };
            let cell = found.map_or("too few to tell".to_owned(), |quantile| {
                let figure = ShownFigure::between(quantile.value, interval(quantile));
                text::of_figure(FigureUnit::Own, figure)
            });
            table.row([format!("{column} {} %", percent(q)), name.clone(), cell]);
            answers.push(json!({ "column": column, "q": q, "group": group.group, "quantile": found }));
        }
    }
    if answers.is_empty() {
        let columns = file.describe.column.iter().filter(|column| {
            column
                .want
                .contains(&undertone_protocol::describe::columns::Want::Quantiles)
        });
        let names: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
        let hint = format!("columns with quantiles: {}", names.join(", "));
        return Err(refused(
            format!("{column:?} has no quantiles here"),
            "--quantile",
            hint,
        ));
    }
    Ok((table.render(), Value::Array(answers)))
}

/// Each mean and share of a group, by column and label.
fn estimates(group: &GroupFigures, file: &FiguresFile) -> Vec<(String, String, Option<Estimate>)> {
    let mut all = vec![];
    for statistic in &group.statistics {
        let column = statistic.column.clone();
        match &statistic.of {
            ColumnFigures::Mean(figures) => all.push((column, "mean".to_owned(), figures.mean.clone())),
            ColumnFigures::Counts(figures) => {
                let described = file.describe.named(&column);
                let Some(labels) = described.filter(|c| c.categories.is_some()).map(|c| c.labels()) else {
                    continue;
                };
                for (label, cell) in labels.into_iter().zip(&figures.cells) {
                    if label != "missing" {
                        all.push((column.clone(), label, cell.share.clone()));
                    }
                }
            }
            _ => {}
        }
    }
    all
}

/// Differences of two groups, or a test of all declared ones.
fn differ(
    file: &FiguresFile,
    (figures, shown): (&AllFigures, &ShownAs),
    asked: &str,
) -> Result<(String, Value), Failure> {
    let (column, groups) = asked.split_once('=').unwrap_or((asked, ""));
    let named = |name: &str| {
        figures
            .groups
            .iter()
            .find(|group| group.group.as_deref() == Some(name.trim()))
    };
    let known = || {
        let names: Vec<&str> = figures
            .groups
            .iter()
            .filter_map(|group| group.group.as_deref())
            .collect();
        match &file.describe.group_by {
            Some(by) => format!("write --difference \"{by}=A,B\" with two of {}", names.join(", ")),
            None => "these figures have no groups: describe.group_by names a column".to_owned(),
        }
    };
    if file.describe.group_by.as_deref() != Some(column) {
        return Err(refused(
            format!("{column:?} does not group these figures"),
            "--difference",
            known(),
        ));
    }
    let mut table = Table::with_headings(["", "", "difference", "p"]);
    if groups.is_empty() {
        return Ok(alike(file, figures, column));
    }
    let pair: Vec<Option<&GroupFigures>> = groups.split(',').map(named).collect();
    let [Some(one), Some(other)] = pair[..] else {
        return Err(refused(
            format!("{groups:?} are no two groups"),
            "--difference",
            known(),
        ));
    };
    let z = shown.asked.z();
    let mut answers = vec![];
    for ((column, label, a), (_, _, b)) in estimates(one, file).into_iter().zip(estimates(other, file)) {
        let found: Option<Difference> = a.zip(b).map(|(a, b)| difference(&a, &b));
        let [difference, p] = match &found {
            Some(found) => {
                let times = if label == "mean" { 1.0 } else { 100.0 };
                let both = (found.noise * found.noise + found.sampling * found.sampling).sqrt();
                let unit = if label == "mean" { "" } else { " points" };
                let [p, _] = p_value(found.p);
                let value = number(times * found.value);
                [format!("{value} ± {}{unit}", number(times * z * both)), p]
            }
            None => ["too few to tell".to_owned(), String::new()],
        };
        table.row([column.clone(), label.clone(), difference, p]);
        answers.push(json!({ "column": column, "statistic": label, "difference": found }));
    }
    let said = format!(
        "{} less {}; intervals {} %, of noise and sampling; p is not corrected for how many you look at\n{}",
        one.group.as_deref().unwrap_or_default(),
        other.group.as_deref().unwrap_or_default(),
        percent(shown.asked.confidence),
        table.render()
    );
    Ok((said, Value::Array(answers)))
}

/// Whether all declared groups have one mean, or one share, of each statistic (Cochran's Q).
fn alike(file: &FiguresFile, figures: &AllFigures, column: &str) -> (String, Value) {
    let declared = figures.groups.len().saturating_sub(2);
    let groups: Vec<_> = figures.groups[..declared]
        .iter()
        .map(|group| estimates(group, file))
        .collect();
    let mut table = Table::with_headings(["", "", "Q", "degrees", "p"]);
    let mut answers = vec![];
    for at in 0..groups.first().map_or(0, Vec::len) {
        let (name, label, _) = &groups[0][at];
        let each: Option<Vec<&Estimate>> = groups.iter().map(|group| group[at].2.as_ref()).collect();
        let found = each.and_then(|each| homogeneity(&each));
        let cells = match &found {
            Some(test) => {
                let [p, _] = p_value(test.p);
                [number(test.q), test.degrees.to_string(), p]
            }
            None => ["too few to tell".to_owned(), String::new(), String::new()],
        };
        let [q, degrees, p] = cells;
        table.row([name.clone(), label.clone(), q, degrees, p]);
        answers.push(json!({ "column": name, "statistic": label, "test": found }));
    }
    let said = format!(
        "Are all groups of {column} alike? p is not corrected for how many you look at\n{}",
        table.render()
    );
    (said, Value::Array(answers))
}
