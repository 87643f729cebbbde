//! How fast tables are read, and in how much memory.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::describe::columns::Description;
use undertone_protocol::plan::computation::describe::RawDescription;

use crate::reporting::process::peak_memory_bytes;
use crate::table_file::reading::{MostlyWords, read};

const ROWS: usize = 1_000_000;

/// Twelve columns: numbers with means, three of them with quantiles, survival, and categories.
fn description() -> Description {
    let mut text =
        "group_by = \"arm\"\n[[column]]\nname = \"arm\"\ncategories = [\"old\", \"new\"]\n".to_owned();
    for number in 0..7 {
        let quantiles = if number < 3 {
            "want = [\"mean\", \"quantiles\"]\n"
        } else {
            ""
        };
        let _ = write!(
            text,
            "[[column]]\nname = \"n{number}\"\nlow = 0\nhigh = 200\n{quantiles}"
        );
    }
    text += "[[column]]\nname = \"sex\"\ncategories = [\"f\", \"m\"]\n\
             [[column]]\nname = \"stage\"\ncategories = [\"I\", \"II\", \"III\", \"IV\"]\n\
             [[column]]\nname = \"months\"\nlow = 0\nhigh = 60\nwant = [\"survival\"]\nevent = \"died\"\n";
    let raw: RawDescription = toml::from_str(&text).expect("a description");
    raw.complete().expect("complete")
}

/// Writes a table, with cells that are missing, too, row by row: memory is measured. Returns its
/// size.
fn write_table(path: &Path) -> io::Result<u64> {
    let mut rng = ChaCha12Rng::seed_from_u64(3);
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "arm,n0,n1,n2,n3,n4,n5,n6,sex,stage,months,died")?;
    for _ in 0..ROWS {
        write!(file, "{}", ["old", "new"][rng.random_range(0..2)])?;
        for _ in 0..7 {
            match rng.random_range(0..20) {
                0 => write!(file, ",NA")?,
                _ => write!(file, ",{:.1}", rng.random_range(0.0..200.0))?,
            }
        }
        let sex = ["f", "m", ""][rng.random_range(0..3)];
        let stage = ["I", "II", "III", "IV"][rng.random_range(0..4)];
        let (months, died) = (rng.random_range(0.0..60.0), rng.random_range(0..2));
        writeln!(file, ",{sex},{stage},{months:.1},{died}")?;
    }
    file.into_inner()?.metadata().map(|of| of.len())
}

/// `cargo test --release -p undertone --lib -- --ignored --nocapture a_million_rows`: prints how
/// long a party reads and encodes, and the memory that it takes.
#[test]
#[ignore = "a measurement: at most 3 s on a quiet machine"]
fn a_million_rows_of_twelve_columns_are_read_and_encoded_in_3_s() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table.csv");
    let size = write_table(&path).expect("written");
    let described = description();
    let mut took: Vec<f64> = (0..5)
        .map(|_| {
            let begun = Instant::now();
            let table = read(&path, &described, (2f64.powi(-20), MostlyWords::Refused));
            assert!(table.is_ok_and(|table| table.rows == ROWS as u64));
            begun.elapsed().as_secs_f64()
        })
        .collect();
    took.sort_by(f64::total_cmp);
    let peak = peak_memory_bytes().expect("Linux says");
    println!(
        "{ROWS} rows, {} MB: {took:.2?} s, peak memory {} MB",
        size / 1_000_000,
        peak / 1_000_000
    );
    assert!(took[2] <= 3.0, "{took:?}");
    assert!(peak <= 2 * size + (64 << 20), "{peak}");
}
