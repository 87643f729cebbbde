//! Demonstrations of `local` without data of one's own: hospitals with synthetic patients.

use std::path::{Path, PathBuf};

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::plan::run_file::raw::RawRunFile;
use undertone_protocol::plan::run_file::settings::{Bound, Clip, Unit};

use crate::commands::local::parties::LocalParty;
use crate::measuring::synthetic::normal;
use crate::reporting::failure::Failure;
use crate::vector_file::formats;
use crate::vector_file::layout::{Format, Layout};
use crate::vector_file::vector::VectorFile;

/// How many patients each hospital has.
pub(crate) const PATIENTS: usize = 1000;

const CITIES: [&str; 12] = [
    "aarhus", "bergen", "coimbra", "delft", "evora", "freiburg", "ghent", "haarlem", "izmir", "jena",
    "krakow", "lund",
];

/// A column: its public bounds, and what its values are drawn from.
struct Column {
    name: &'static str,
    low: f64,
    high: f64,
    values: Values,
}

enum Values {
    /// About normal: centre, spread between patients, decimals that are recorded.
    About(f64, f64, i32),
    /// 0 or 1, with this probability of 1.
    Share(f64),
}

const fn about(name: &'static str, [low, high]: [f64; 2], centre: f64, spread: f64, decimals: i32) -> Column {
    Column {
        name,
        low,
        high,
        values: Values::About(centre, spread, decimals),
    }
}

const fn share(name: &'static str, probability: f64) -> Column {
    Column {
        name,
        low: 0.0,
        high: 1.0,
        values: Values::Share(probability),
    }
}

/// Bounds are what any physician would name before having seen a single patient; the numbers are
/// made up.
const COLUMNS: [Column; 12] = [
    about("age (years)", [18.0, 100.0], 57.0, 14.0, 0),
    about("systolic pressure (mmHg)", [80.0, 220.0], 133.0, 17.0, 0),
    about("diastolic pressure (mmHg)", [40.0, 130.0], 81.0, 10.0, 0),
    about("heart rate (1/min)", [40.0, 160.0], 74.0, 11.0, 0),
    about("body mass index (kg/m2)", [14.0, 54.0], 27.4, 4.6, 1),
    about("cholesterol (mg/dl)", [80.0, 360.0], 201.0, 38.0, 0),
    about("platelets (1e9/l)", [40.0, 500.0], 248.0, 58.0, 0),
    about("haemoglobin (g/dl)", [6.0, 20.0], 13.9, 1.5, 1),
    about("creatinine (mg/dl)", [0.2, 5.2], 1.0, 0.2, 2),
    share("diabetic", 0.13),
    share("smoker", 0.22),
    share("readmitted", 0.08),
];

/// Fills in what the run file may not say here: shape, unit and bounds of the data.
pub(super) fn describe(raw: &mut RawRunFile) -> Result<(), Failure> {
    let data = &mut raw.data;
    let says = [
        ("data.shape", data.shape.is_some()),
        ("data.clip", data.clip.is_some()),
        ("data.weights", data.weights.is_some()),
        ("data.columns", data.columns.is_some()),
    ];
    let says = says
        .into_iter()
        .chain([("data.unit", data.unit == Some(Unit::Party))]);
    if let Some((field, _)) = says.into_iter().find(|(_, said)| *said) {
        return Err(Failure::usage(format!(
            "{field} is given, but nothing to average; the demonstration brings its own data"
        ))
        .field(field)
        .hint("give --inputs DIR or --dimension D, or leave the key out"));
    }
    data.shape = Some(vec![COLUMNS.len()]);
    data.unit = Some(Unit::Record);
    data.columns = Some(COLUMNS.iter().map(|column| column.name.to_owned()).collect());
    let bounds = |bound: fn(&Column) -> f64| Bound::Each(COLUMNS.iter().map(bound).collect());
    data.clip = Some(Clip::Box {
        low: bounds(|column| column.low),
        high: bounds(|column| column.high),
    });
    raw.name.get_or_insert_with(|| "demonstration".into());
    Ok(())
}

/// Returns the task on the patients' data, as a run file that a person can change.
pub(crate) fn run_file() -> String {
    let list = |of: &dyn Fn(&Column) -> String| COLUMNS.iter().map(of).collect::<Vec<_>>().join(", ");
    format!(
        "# The means of twelve columns over all patients of all hospitals, so that nobody learns more than\n\
         # ε about any one patient. `undertone plan --help` lists every key.\n\
         version = 1\n\
         task = \"mean\"\n\
         name = \"hospitals\"\n\n\
         [data]\n\
         shape = [{}]\n\
         unit = \"record\"    # one row of a table is protected, not a whole table\n\
         # Rows of each hospital. Where they differ: {{ aarhus = 843, … }}, or {{ at_most = 2000 }}.\n\
         records = {PATIENTS}\n\
         columns = [{}]\n\
         # Bounds that any physician would name before having seen a single patient: they are public, and\n\
         # noise is made for them.\n\
         clip = {{ kind = \"box\", low = [{}], high = [{}] }}\n\n\
         [privacy]\n\
         epsilon = 1.0\n\
         delta = 1e-6\n\
         colluding = 1\n\
         dropouts = 1\n\n\
         [run]\n\
         join_ms = 60000     # started by hand: who is not up yet is waited for as long\n",
        COLUMNS.len(),
        list(&|column| format!("{:?}", column.name)),
        list(&|column| format!("{:?}", column.low)),
        list(&|column| format!("{:?}", column.high)),
    )
}

/// Hospitals with their patients, one `.csv` each in a folder. The same seed makes the same
/// patients.
pub(crate) fn parties(nodes: usize, seed: u64, folder: &Path) -> Result<Vec<LocalParty>, Failure> {
    let party = |index: usize| {
        let name = CITIES
            .get(index)
            .map_or_else(|| format!("hospital-{index:04}"), |&city| city.to_owned());
        let input: PathBuf = folder.join(format!("{name}.csv"));
        let vector = write_patients(index, seed, &input)?;
        Ok(LocalParty {
            told: vec![],
            name,
            input,
            vector,
            records: Some(PATIENTS as u64),
        })
    };
    (0..nodes).map(party).collect()
}

/// Writes one hospital's patients as a `.csv`.
pub(crate) fn write_patients(hospital: usize, seed: u64, path: &Path) -> Result<VectorFile, Failure> {
    let header = COLUMNS.iter().map(|column| column.name.to_owned()).collect();
    let layout = Layout {
        shape: vec![PATIENTS, COLUMNS.len()],
        format: Format::Csv { header: Some(header) },
    };
    let values = patients(hospital, seed);
    formats::write(path, &layout, &values)?;
    Ok(VectorFile { layout, values })
}

/// The statistics of the hospitals' trial, as a run file that a person can change.
pub(crate) fn table_1() -> String {
    let number = |column: &Column| {
        let more = match column.name {
            "age (years)" => {
                "whole = true\nwant = [\"mean\", \"quantiles\"]    # quartiles, and any other quantile\n"
            }
            _ => "",
        };
        format!(
            "\n[[describe.column]]\nname = {:?}\nlow = {:?}\nhigh = {:?}\n{more}",
            column.name, column.low, column.high
        )
    };
    let flag = |column: &Column| {
        format!(
            "\n[[describe.column]]\nname = {:?}\ncategories = [0, 1]\n",
            column.name
        )
    };
    let column = |column: &Column| match column.values {
        Values::About(..) => number(column),
        Values::Share(_) => flag(column),
    };
    let columns: String = COLUMNS.iter().map(column).collect();
    format!(
        "# Table 1 of a trial: every column by treatment arm, and a survival curve, all from one release, so\n\
         # that nobody learns more than ε about any one patient. `undertone help describe` lists every key.\n\
         version = 1\n\
         task = \"describe\"\n\
         name = \"table-1\"\n\n\
         [data]\n\
         # Rows of each hospital. Where they differ: {{ aarhus = 843, … }}, or {{ at_most = 2000 }}.\n\
         records = {PATIENTS}\n\n\
         [describe]\n\
         group_by = \"arm\"\n\n\
         # Categories and bounds are public: they come from what is known, never from the data. A cell that is\n\
         # missing, or says something else, is counted as that.\n\
         [[describe.column]]\n\
         name = \"arm\"\n\
         categories = [\"old\", \"new\"]\n\
         {columns}\n\
         [[describe.column]]\n\
         name = \"months\"\n\
         low = 0\n\
         high = 60\n\
         want = [\"survival\"]\n\
         event = \"died\"    # 1: at that time; 0: not until then\n\n\
         [privacy]\n\
         epsilon = 1.0\n\
         delta = 1e-6\n\
         colluding = 1\n\
         dropouts = 1\n\n\
         [run]\n\
         join_ms = 60000     # started by hand: who is not up yet is waited for as long\n"
    )
}

/// How many of a hundred cells of a trial are missing. Our choice: as in good registers.
const MISSING_OF_100: u32 = 2;

/// Writes the same patients with their treatment arm, how long they were watched, and whether they
/// died then; some cells are missing.
pub(crate) fn write_trial(hospital: usize, seed: u64, path: &Path) -> Result<(), Failure> {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    // Beyond the streams of all hospitals: their patients stay the same.
    rng.set_stream(1_000_000 + hospital as u64);
    let mut text: String = COLUMNS.iter().map(|column| format!("{},", column.name)).collect();
    text += "arm,months,died\n";
    for row in patients(hospital, seed).chunks(COLUMNS.len()) {
        for value in row {
            match rng.random_range(0..100) < MISSING_OF_100 {
                true => text += "NA,",
                false => text += &format!("{value},"),
            }
        }
        let is_new = rng.random_bool(0.5);
        // A constant hazard, less under the new treatment; watched for one to five years.
        let hazard = if is_new { 0.012 } else { 0.018 };
        let died_at = -(1.0 - rng.random::<f64>()).ln() / hazard;
        let watched = rng.random_range(12.0..60.0f64);
        let arm = if is_new { "new" } else { "old" };
        let died = u8::from(died_at <= watched);
        text += &format!("{arm},{:.1},{died}\n", died_at.min(watched));
    }
    crate::reporting::output_file::write_bytes(path, "DIR", text.as_bytes())
}

fn patients(hospital: usize, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    rng.set_stream(hospital as u64);
    // Each hospital has patients of its own kind: shifted by about a quarter of the spread between
    // patients.
    let shifts: Vec<f64> = COLUMNS.iter().map(|_| 0.25 * normal(&mut rng)).collect();
    let mut values = Vec::with_capacity(PATIENTS * COLUMNS.len());
    for _ in 0..PATIENTS {
        for (column, shift) in COLUMNS.iter().zip(&shifts) {
            values.push(match column.values {
                Values::About(centre, spread, decimals) => {
                    let unit = 10f64.powi(decimals);
                    ((centre + spread * (shift + normal(&mut rng))) * unit).round() / unit
                }
                Values::Share(probability) => f64::from(u8::from(
                    rng.random_bool(probability * (1.0 + shift).clamp(0.3, 3.0)),
                )),
            });
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use undertone_protocol::clipping::range::clip_all;
    use undertone_protocol::plan::defaults::Defaults;

    use super::*;

    #[test]
    fn patients_are_within_their_bounds_but_for_a_few() {
        let mut raw = RawRunFile::default();
        describe(&mut raw).unwrap();
        let run = raw.resolve(8, Defaults::Local).unwrap();
        assert!(
            run.data.scales().differ() && run.data.scales().at(6) == 460.0,
            "the widest"
        );
        let root = run.data.sensitivity(1.0);
        assert!(
            root >= 12f64.sqrt() && root < 12f64.sqrt() + 1e-14,
            "width 1 each: {root}"
        );
        let folder = tempfile::tempdir().unwrap();
        let parties = parties(14, 5, folder.path()).unwrap();
        let mut clipped = 0;
        for party in &parties {
            let again = formats::read(&party.input).unwrap();
            assert!(again.layout == party.vector.layout && again.values == party.vector.values);
            clipped += clip_all(&run.data, &mut party.vector.values.clone()).changed;
        }
        assert!(
            (1..=14 * PATIENTS / 20).contains(&clipped),
            "{clipped} of {}",
            14 * PATIENTS
        );
        assert!(
            patients(3, 5) == patients(3, 5)
                && patients(3, 5) != patients(3, 6)
                && patients(3, 5) != patients(4, 5)
        );
    }

    #[test]
    fn the_compositions_run_file_describes_the_same_columns() {
        let text = include_str!("../../../../deploy/hospitals.toml");
        let written = RawRunFile::parse(text).unwrap().data;
        let mut ours = RawRunFile::default();
        describe(&mut ours).unwrap();
        assert_eq!(
            (written.shape, written.unit, written.clip),
            (ours.data.shape, ours.data.unit, ours.data.clip)
        );
    }

    #[test]
    fn a_run_file_with_data_of_its_own_needs_inputs() {
        for text in [
            "[data]\nshape = [3]",
            "[data]\nunit = \"party\"",
            "[data]\nclip = { kind = \"l2\", radius = 2.0 }",
        ] {
            let failure = describe(&mut RawRunFile::parse(text).unwrap()).unwrap_err();
            assert!(
                failure.field.is_some_and(|field| field.starts_with("data.")),
                "{text}"
            );
        }
        describe(&mut RawRunFile::parse("[data]\nadjacency = \"zero-out\"\nunit = \"record\"").unwrap())
            .unwrap();
    }
}
