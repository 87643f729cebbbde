//! Intervals as they are shown: open where nothing is reached, wider for a population, and around
//! the number that is shown.

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::describe::cells::RowCell;
use undertone_protocol::describe::figures::groups::AllFigures;
use undertone_protocol::describe::row::RowEncoder;
use undertone_protocol::plan::computation::describe::RawDescription;

use super::*;
use crate::party::figures_file::shown::{FigureLine, lines};
use crate::party::figures_file::text::{ShownAs, text};

const SURVIVAL: &str =
    "[[column]]\nname = \"months\"\nlow = 0\nhigh = 60\nwant = [\"survival\"]\nevent = \"died\"\n";

pub(super) fn described(text: &str) -> Description {
    let raw: RawDescription = toml::from_str(text).expect("a description");
    raw.complete().expect("complete")
}

/// A number of the standard normal distribution (Box and Muller 1958).
fn normal(rng: &mut ChaCha12Rng) -> f64 {
    let (radius, angle): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

pub(super) fn figures(described: &Description, sums: &[f64], (noise, rows): (f64, f64)) -> AllFigures {
    let released = ReleasedSum::of(described.clone(), sums.to_vec(), noise, Some(rows)).expect("as long");
    released.figures(&ReadingAs::default())
}

/// The sum over patients of whom in each month a share dies: all are seen until the end.
fn of_patients(described: &Description, rng: &mut ChaCha12Rng, (count, hazard): (usize, f64)) -> Vec<f64> {
    let mut encoder = RowEncoder::of(described);
    let mut sums = vec![0.0; encoder.layout().coordinates];
    for _ in 0..count {
        let time: f64 = -(1.0 - rng.random::<f64>()).ln() / hazard;
        let seen = rng.random_range(10.0..60.0);
        let row = [
            RowCell::Number(time.min(seen)),
            RowCell::Number(f64::from(u8::from(time <= seen))),
        ];
        let vector = encoder.vector(&row);
        sums.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
    }
    sums
}

fn median_time(described: &Description, figures: &AllFigures) -> FigureLine {
    let mut lines = lines(described, &figures.groups[0], &ReadingAs::default()).into_iter();
    lines
        .find(|line| line.statistic == "median time")
        .expect("a line")
}

/// Where few are left at risk a curve ends before or just behind its middle: an upper end that is
/// not reached is open.
#[test]
fn intervals_of_a_median_time_hold_at_least_as_often_as_they_say() {
    let described = described(SURVIVAL);
    let mut rng = ChaCha12Rng::seed_from_u64(5);
    for (hazard, noise) in [
        (0.06, 24.0),
        (0.03, 24.0),
        (0.02, 12.0),
        (0.02, 24.0),
        (0.015, 24.0),
    ] {
        let exact = of_patients(&described, &mut rng, (2000, hazard));
        let truth = median_time(&described, &figures(&described, &exact, (0.0, 2000.0)));
        let truth = truth.figure.expect("all are seen until then").value;
        let (mut shown, mut held, mut open) = (0, 0, 0);
        for _ in 0..400 {
            let noisy: Vec<f64> = exact.iter().map(|sum| sum + noise * normal(&mut rng)).collect();
            let found = median_time(&described, &figures(&described, &noisy, (noise, 2000.0)));
            if let Some(figure) = found.figure {
                shown += 1;
                held += u32::from((figure.low..=figure.high).contains(&truth));
                open += u32::from(figure.high.is_infinite());
            }
        }
        let share = f64::from(held) / f64::from(shown);
        println!("hazard {hazard}, σ = {noise}: {share:.3} of {shown} shown hold, {open} are open");
        assert!(
            shown >= 20 && share >= 0.95,
            "{hazard}, {noise}: {held} of {shown}"
        );
    }
}

/// Sums of a curve that ends a little below one half: its interval is open.
fn open_survival() -> FiguresFile {
    let run = format!(
        "task = \"describe\"\nname = \"t\"\n[data]\nrecords = 1000\n{}",
        SURVIVAL.replace("[[column]]", "[[describe.column]]")
    );
    let run = RunFile::parse(&run, 4).unwrap_or_else(|e| panic!("{e}"));
    let plan = make::make(run, &Peers::simulated(4).expect("peers"), 1).unwrap_or_else(|e| panic!("{e}"));
    let described = described(SURVIVAL);
    let mut rng = ChaCha12Rng::seed_from_u64(6);
    let exact = of_patients(&described, &mut rng, (4000, 0.0139));
    FiguresFile::of(&plan, &exact, (24.0, 4000.0), &["a".into()]).expect("described")
}

#[test]
fn an_upper_end_that_is_not_reached_is_open_in_table_json_and_csv() {
    let file = open_survival();
    let asked = ReadingAs::default();
    let figures = file.figures(&asked).expect("figures");
    let shown = text(&file.describe, &figures, &ShownAs::default());
    let line = shown
        .lines()
        .find(|line| line.contains("median time"))
        .expect("a line");
    assert!(line.ends_with(", not reached]"), "{shown}");
    let csv = file.csv(&asked, false).expect("figures");
    let row = csv
        .lines()
        .find(|line| line.contains("median time"))
        .expect("a row");
    let cells: Vec<&str> = row.split(',').collect();
    assert!(
        !cells[3].is_empty() && !cells[6].is_empty() && cells[7].is_empty(),
        "{row}"
    );
    let median = &as_json(&figures, &asked)["groups"][0]["statistics"][0]["median_time"];
    assert_eq!(median["value"].to_string(), format!("{}.0", cells[3]));
    assert!(
        median["noise"][0].is_number() && median["noise"][1].is_null(),
        "{median}"
    );
    assert_eq!(
        file.figures["groups"][0]["statistics"][0]["median_time"]["noise"],
        median["noise"]
    );
}

const AGES: &str = "[[column]]\nname = \"age\"\nlow = 0\nhigh = 100\nwant = [\"quantiles\"]\n";

/// 400 rows of few ages: as a sample they say less than their noise does.
#[test]
fn intervals_of_a_population_are_wider_also_for_quantiles_and_median_times() {
    let described = described(&format!("{AGES}{SURVIVAL}"));
    let mut encoder = RowEncoder::of(&described);
    let mut sums = vec![0.0; encoder.layout().coordinates];
    for row in 0..400 {
        let (age, months) = (f64::from(row % 90) + 0.5, f64::from(row % 40) + 0.5);
        let row = [
            RowCell::Number(age),
            RowCell::Number(months),
            RowCell::Number(1.0),
        ];
        let vector = encoder.vector(&row);
        sums.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
    }
    let figures = figures(&described, &sums, (4.0, 400.0));
    let of = |population| {
        let shown = ShownAs {
            population,
            ..ShownAs::default()
        };
        let text = text(&described, &figures, &shown);
        let interval = |name: &str| -> f64 {
            let line = text.lines().find(|line| line.contains(name)).expect("a line");
            let ends = line.split_once('[').expect("an interval").1.trim_end_matches(']');
            let (low, high) = ends.split_once(", ").expect("two ends");
            high.parse::<f64>().expect("a number") - low.parse::<f64>().expect("a number")
        };
        ["25 %", "median  ", "75 %", "median time"].map(interval)
    };
    for (one, other) in of(false).into_iter().zip(of(true)) {
        assert!(other > one, "{one} {other}");
    }
}

/// Counts, shares and cells of a table that noise takes below 0 or above all: in files, too, each
/// number is within its interval, and no interval has what cannot be.
#[test]
fn a_clamped_number_is_within_its_interval() {
    let described = described(
        "[[column]]\nname = \"sex\"\ncategories = [\"f\", \"m\", \"x\"]\n\
         [[column]]\nname = \"arm\"\ncategories = [\"a\", \"b\"]\n\
         [[column]]\nname = \"age\"\nlow = 0\nhigh = 100\n\
         [[column]]\nname = \"any\"\nwant = [\"magnitude\"]\n[[table]]\ncolumns = [\"sex\", \"arm\"]\n",
    );
    let mut encoder = RowEncoder::of(&described);
    let row = [
        RowCell::Text("f"),
        RowCell::Text("a"),
        RowCell::Number(100.0),
        RowCell::Number(3.0),
    ];
    let exact: Vec<f64> = encoder
        .vector(&row)
        .into_iter()
        .map(|value| 200.0 * value)
        .collect();
    let mut rng = ChaCha12Rng::seed_from_u64(7);
    let mut clamped = [0, 0];
    for _ in 0..50 {
        let noisy: Vec<f64> = exact.iter().map(|sum| sum + 9.0 * normal(&mut rng)).collect();
        let figures = figures(&described, &noisy, (9.0, 200.0));
        for population in [false, true] {
            let csv = comma_separated::of(&described, &figures, (&ReadingAs::default(), population));
            for line in csv.lines().skip(1) {
                let cells: Vec<&str> = line.split(',').collect();
                let number = |at: usize| cells[at].parse::<f64>().ok();
                let (Some(value), Some(low), Some(high)) = (number(3), number(6), number(7)) else {
                    continue;
                };
                // A deviation may be all noise.
                let is_exact = number(5) == Some(0.0) || cells[2] == "sd";
                assert!(
                    low <= value && value <= high && (low < high || is_exact),
                    "{line}"
                );
                let raw = number(4).unwrap_or(value);
                clamped[0] += u32::from(raw < value);
                clamped[1] += u32::from(raw > value);
                assert!(cells[2] == "sum" || low >= 0.0, "{line}");
                assert!(!cells[2].starts_with("share") || high <= 1.0, "{line}");
                assert!(cells[2] != "mean" || high <= 100.0, "{line}");
            }
        }
    }
    assert!(clamped.iter().all(|&count| count > 20), "{clamped:?}");
}

/// The table of 1,000 rows with this one cell.
fn table_of(described: &Description, cell: RowCell<'_>) -> String {
    let mut encoder = RowEncoder::of(described);
    let row = encoder.vector(&[cell]);
    let sums: Vec<f64> = row.iter().map(|value| 1000.0 * value).collect();
    let found = figures(described, &sums, (10.0, 1000.0));
    text(described, &found, &ShownAs::default())
}

/// Bounds and errors of tiny numbers have digits other than 0. A category that begins as a bound
/// does is none.
#[test]
fn small_bounds_are_not_shown_as_0_and_only_bounds_are_explained() {
    const EXPLAINED: &str = "ask for quantiles";
    for high in [1.0, 1e-4, 1e-12] {
        let column = format!("[[column]]\nname = \"x\"\nlow = 0\nhigh = {high:e}\n");
        let shown = table_of(&described(&column), RowCell::Number(high / 2.0));
        let (_, bound) = shown.split_once("at most ").expect("a bound");
        let bound: f64 = bound
            .lines()
            .next()
            .and_then(|line| line.parse().ok())
            .expect("a number");
        assert!(bound > 0.01 * high && bound < high, "{shown}");
        assert!(
            shown.contains(EXPLAINED) && !shown.contains("± 0\n") && !shown.contains("± 0.0\n"),
            "{shown}"
        );
    }
    let drinks = "[[column]]\nname = \"drinks\"\ncategories = [\"at most 5\", \"more\"]\n";
    let shown = table_of(&described(drinks), RowCell::Text("more"));
    assert!(
        shown.contains("at most 5") && !shown.contains(EXPLAINED),
        "{shown}"
    );
}

/// Edges that bounds are divided into are named with few digits.
#[test]
fn bins_and_times_have_no_digits_of_binary_fractions() {
    let column = "[[column]]\nname = \"x\"\nlow = 0\nhigh = 0.3\nbins = 3\nwant = [\"histogram\"]\n";
    let shown = table_of(&described(column), RowCell::Number(0.15));
    assert!(shown.contains("0.1 to 0.2"), "{shown}");
}
