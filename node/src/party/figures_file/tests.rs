use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;

use super::*;
use crate::party::figures_file::decimals::digits;
use crate::party::figures_file::text::{ShownAs, text};
use crate::planning::make;

const RUN: &str = "task = \"describe\"\nname = \"t\"\n[data]\nrecords = 1000\n[describe]\ngroup_by = \"arm\"\n\
                   [[describe.column]]\nname = \"arm\"\ncategories = [\"old\", \"new\"]\n\
                   [[describe.column]]\nname = \"age\"\nlow = 18\nhigh = 100\nwant = [\"mean\", \"quantiles\"]\nbins = 8\n\
                   [[describe.column]]\nname = \"diabetic\"\ncategories = [0, 1]\n\
                   [[describe.table]]\ncolumns = [\"arm\", \"diabetic\"]\n";

fn plan() -> Plan {
    let run = RunFile::parse(RUN, 4).unwrap_or_else(|e| panic!("{e}"));
    make::make(run, &Peers::simulated(4).expect("peers"), 1).unwrap_or_else(|e| panic!("{e}"))
}

fn file() -> FiguresFile {
    let plan = plan();
    let sums: Vec<f64> = (0..plan.draft().dimension())
        .map(|at| 500.0 + at as f64)
        .collect();
    FiguresFile::of(&plan, &sums, (12.5, 4000.0), &["a".into()]).expect("described")
}

#[test]
fn a_file_is_read_as_it_was_written_and_a_changed_one_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("figures.json");
    let written = file();
    written.write(&path).expect("written");
    let read = FiguresFile::read(&path).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(read.sums, written.sums);
    assert_eq!(
        (read.rows, read.sums_sha256()),
        (Some(4000.0), written.sums_sha256())
    );
    let mut short = written.clone();
    short.sums.pop();
    short.write(&path).expect("written");
    let refused = FiguresFile::read(&path).expect_err("too short").to_string();
    assert!(refused.contains("sums"), "{refused}");
    // A row's coordinate is at most 5, and noise at most 12 of its standard deviations.
    let mut far = written.clone();
    far.sums[3] = -1e6;
    far.write(&path).expect("written");
    let refused = FiguresFile::read(&path).expect_err("too far").to_string();
    assert!(refused.contains("somebody lied"), "{refused}");
    std::fs::write(&path, "{}").expect("written");
    assert!(FiguresFile::read(&path).is_err());
}

#[test]
fn the_table_has_a_column_for_each_group_and_says_what_intervals_are() {
    let file = file();
    let figures = file.figures(&ReadingAs::default()).expect("figures");
    let shown = text(&file.describe, &figures, &ShownAs::default());
    for words in [
        "by arm",
        "old",
        "new",
        "other",
        "missing",
        "rows",
        "mean",
        "sd",
        "median",
        "±",
        "arm × diabetic",
        "intervals 95 %",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    let csv = file.csv(&ReadingAs::default(), false).expect("figures");
    assert!(
        csv.starts_with("group,column,statistic,value,raw,noise,low,high,sampling\n"),
        "{csv}"
    );
    assert!(csv.lines().all(|line| line.split(',').count() >= 9), "{csv}");
    assert!(
        csv.contains("\nold,age,mean,") && csv.contains(",share 1,"),
        "{csv}"
    );
}

#[test]
fn figures_in_files_have_twelve_digits() {
    assert_eq!(digits(1.0 / 3.0), 0.333333333333);
    assert_eq!(
        rounded(json!({ "a": [2.0 / 3.0, 5, null] })),
        json!({ "a": [0.666666666667, 5, null] })
    );
}

/// A value that is no number is null in JSON and nothing in CSV; and a file with one is not read.
#[test]
fn numbers_that_are_none_are_never_written_and_never_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("figures.json");
    let mut odd = file();
    odd.sums[5] = f64::NAN;
    odd.figures = rounded(json!({ "a": [f64::INFINITY, -0.5] }));
    odd.write(&path).expect("written");
    let text = std::fs::read_to_string(&path).expect("text");
    let written: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(written["sums"][5], Value::Null);
    assert_eq!(written["figures"]["a"], json!([null, -0.5]));
    assert!(FiguresFile::read(&path).is_err(), "null is no sum");
    let csv = odd.csv(&ReadingAs::default(), false).expect("figures");
    let cells = csv.lines().skip(1).flat_map(|line| line.split(','));
    assert!(
        cells.clone().all(|cell| !["NaN", "inf", "-inf"].contains(&cell)),
        "{csv}"
    );
    let good = serde_json::to_string(&file()).expect("written");
    for word in ["1e400", "NaN", "Infinity", "null"] {
        let forged = good.replacen("\"noise\":12.5", &format!("\"noise\":{word}"), 1);
        assert_ne!(forged, good);
        std::fs::write(&path, forged).expect("written");
        let refused = FiguresFile::read(&path).expect_err(word);
        assert_eq!(refused.exit.code(), 2, "{refused}");
    }
}

#[test]
fn a_correlations_interval_stands_beside_it_and_is_the_one_that_is_shown() {
    let run = "task = \"describe\"\nname = \"t\"\n[data]\nrecords = 1000\n\
               [[describe.column]]\nname = \"x\"\nlow = 0\nhigh = 1\nwant = []\n\
               [[describe.column]]\nname = \"y\"\nlow = -2\nhigh = 2\nwant = []\n\
               [[describe.covariance]]\ncolumns = [\"x\", \"y\"]\n";
    let run = RunFile::parse(run, 4).unwrap_or_else(|e| panic!("{e}"));
    let plan = make::make(run, &Peers::simulated(4).expect("peers"), 1).unwrap_or_else(|e| panic!("{e}"));
    // Of 1,000 complete rows: twice 0, and second moments of 0.3, 0.1 and 0.4.
    let sums = [3000.0, 0.0, 0.0, 300.0, 141.0, 400.0];
    assert_eq!(sums.len(), plan.draft().dimension());
    let file = FiguresFile::of(&plan, &sums, (4.0, 4000.0), &["a".into()]).expect("described");
    let covariance = &file.figures["covariances"][0];
    let correlation = covariance["correlation"][0][1].as_f64().expect("it is shown");
    let interval = &covariance["correlation_interval"][0][1];
    let [low, high] = [0, 1].map(|end| interval[end].as_f64().expect("an interval"));
    assert!(low < correlation && correlation < high, "{covariance}");
    let csv = file.csv(&ReadingAs::default(), false).expect("figures");
    let row = csv
        .lines()
        .find(|line| line.contains(",correlation,"))
        .expect("a row");
    let cells: Vec<f64> = row.split(',').filter_map(|cell| cell.parse().ok()).collect();
    assert!(
        (cells[3] - low).abs() < 1e-9 && (cells[4] - high).abs() < 1e-9,
        "{row}"
    );
}

mod intervals;
mod lists;
