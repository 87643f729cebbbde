//! The 8 × 8 digits of `tests/data`, shared out among parties.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::Parties;

/// All of them, a row a line: 64 pixels from 0 to 16, and the digit.
pub fn all() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/digits.csv.gz");
    let unpacked = Command::new("gzip").arg("-dc").arg(file).output().expect("gzip");
    let text = String::from_utf8(unpacked.stdout).expect("text");
    let rows: Vec<String> = text.lines().map(String::from).collect();
    assert_eq!(rows.len(), 1797);
    rows
}

/// Writes NAME.csv of each party, a twelfth of the rows.
pub fn share_out_to(parties: &Parties) {
    let rows = all();
    for (party, name) in parties.names().iter().enumerate() {
        let own: Vec<&str> = rows.iter().skip(party).step_by(12).map(String::as_str).collect();
        parties.write(&format!("{name}.csv"), &(own.join("\n") + "\n"));
    }
}

/// Writes `tables/` of so many parties, and every fifth row to `test.csv`.
pub fn share_out(folder: &Path, parties: usize) {
    let rows = all();
    let is_held_out = |at: &usize| at % 5 == 4;
    let fitted: Vec<&String> = (0..rows.len())
        .filter(|at| !is_held_out(at))
        .map(|at| &rows[at])
        .collect();
    std::fs::create_dir(folder.join("tables")).expect("writable");
    for party in 0..parties {
        let table = folder.join(format!("tables/party-{party}.csv"));
        let mut table = std::fs::File::create(table).expect("writable");
        for row in fitted.iter().skip(party).step_by(parties) {
            writeln!(table, "{row}").expect("writable");
        }
    }
    let test: Vec<String> = (0..rows.len())
        .filter(is_held_out)
        .map(|at| rows[at].clone())
        .collect();
    std::fs::write(folder.join("test.csv"), test.join("\n") + "\n").expect("writable");
}

/// Pixels from 0 to 1 and the digit, of each row of a file.
pub fn read(path: &Path) -> Vec<(Vec<f64>, usize)> {
    let text = std::fs::read_to_string(path).expect("readable");
    let row = |line: &str| {
        let numbers: Vec<f64> = line
            .split(',')
            .map(|cell| cell.parse().expect("a number"))
            .collect();
        let (digit, pixels) = numbers.split_last().expect("columns");
        (pixels.iter().map(|pixel| pixel / 16.0).collect(), *digit as usize)
    };
    text.lines().map(row).collect()
}
