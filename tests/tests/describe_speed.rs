//! How long statistics take from START to their result, beside a mean of as many coordinates.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use undertone_tests::{alone, run_in};

/// Runs of each. Our choice: medians of fewer differ by a tenth on a quiet machine.
const RUNS: usize = 25;

/// As much as statistics may take of a mean's time.
const MOST: f64 = 1.2;

const SETTINGS: &str = "[privacy]\nepsilon = 1.0\ndelta = 1e-6\ncolluding = 1\ndropouts = 1\n";

/// Twelve columns of numbers with mean and quantiles.
fn description() -> String {
    let mut text =
        format!("version = 1\ntask = \"describe\"\nname = \"table\"\n[data]\nrecords = 1000\n{SETTINGS}");
    for column in 0..12 {
        let _ = write!(
            text,
            "[[describe.column]]\nname = \"c{column}\"\nlow = 0\nhigh = 100\nwant = [\"mean\", \"quantiles\"]\n"
        );
    }
    text
}

fn write_tables(folder: &Path) {
    fs::create_dir(folder).expect("made");
    for party in ["a", "b", "c", "d"] {
        let names: Vec<String> = (0..12).map(|column| format!("c{column}")).collect();
        let mut text = names.join(",") + "\n";
        for row in 0..1000 {
            let cells: Vec<String> = (0..12)
                .map(|column| ((row * 7 + column * 13) % 100).to_string())
                .collect();
            text += &(cells.join(",") + "\n");
        }
        fs::write(folder.join(format!("{party}.csv")), text).expect("written");
    }
}

/// A vector of as many coordinates for each party.
fn write_vectors(folder: &Path, coordinates: usize) {
    fs::create_dir(folder).expect("made");
    for party in ["a", "b", "c", "d"] {
        let values: Vec<f64> = (0..coordinates).map(|at| (at % 7) as f64 / 1e3).collect();
        let text = serde_json::to_string(&values).expect("numbers");
        fs::write(folder.join(format!("{party}.json")), text).expect("written");
    }
}

/// `cargo test --release -p undertone-tests --test describe_speed -- --ignored --nocapture`: prints
/// both times.
#[test]
#[ignore = "a measurement"]
fn statistics_take_about_as_long_from_start_as_a_mean_of_as_many_coordinates() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    write_tables(&path("tables"));
    fs::write(path("tables.toml"), description()).expect("written");
    let run = |what: &str| {
        let (run, output) = (format!("{what}.toml"), path("output"));
        let _ = fs::remove_dir_all(&output);
        let object = run_in(
            folder.path(),
            [
                "local", "--json", "--inputs", what, "--run", &run, "--output", "output",
            ],
        );
        object.json_of(0)["wall_s"].as_f64().expect("seconds")
    };
    run("tables");
    let plan = undertone_tests::read_json(&path("output/plan.json"));
    let coordinates = plan["data"]["shape"][0].as_u64().expect("a number") as usize;
    write_vectors(&path("vectors"), coordinates);
    let mean = format!(
        "version = 1\nname = \"mean\"\n[data]\nnoise_ok = true\nshape = [{coordinates}]\n\
         clip = {{ kind = \"l2\", radius = 1.0 }}\n{SETTINGS}"
    );
    fs::write(path("vectors.toml"), mean).expect("written");
    // Turn and turn about, so that what else the machine does meets both alike.
    let mut times: [Vec<f64>; 2] = [vec![], vec![]];
    for _ in 0..RUNS {
        times[0].push(run("tables"));
        times[1].push(run("vectors"));
    }
    let [statistics, mean] = times.map(|mut of| {
        of.sort_by(f64::total_cmp);
        println!("{of:.3?}");
        of[of.len() / 2]
    });
    println!(
        "12 columns of 4 parties with 1,000 rows, {coordinates} coordinates: {statistics:.3} s from START, a mean \
         {mean:.3} s, {:.2} times (medians of {RUNS})",
        statistics / mean
    );
    assert!(statistics <= MOST * mean, "{statistics} s against {mean} s");
}
