//! A folder of inputs, one file a party, and `undertone local` on it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{Ended, alone, run_in};

/// Little noise: what a mean is can be told from what it is not.
pub const LOUD: &str = "[privacy]\nepsilon = 20.0\ndelta = 0.01\n[mechanism]\nrounds = 4\n\
     [run]\njoin_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n";

/// A folder with an empty folder `inputs`.
pub fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("inputs")).expect("writable");
    folder
}

/// Writes a file into `inputs`.
pub fn input(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.join("inputs").join(name), content).expect("writable");
}

/// Runs `local` on the folder's inputs with this `[data]` section, keeping everything in `kept`.
/// The range is the unit ball unless the section has another one, and noise alone is good enough.
pub fn local(folder: &Path, data: &str) -> Ended {
    let _alone = alone();
    let ball = match data.contains("clip") {
        true => "",
        false => "clip = { kind = \"l2\", radius = 1.0 }\n",
    };
    let lines = data.strip_prefix("[data]\n").unwrap_or_default();
    let run = format!("[data]\nnoise_ok = true\n{ball}{lines}\n{LOUD}");
    fs::write(folder.join("run.toml"), run).expect("writable");
    run_in(
        folder,
        [
            "local", "--json", "--inputs", "inputs", "--run", "run.toml", "--output", "kept",
        ],
    )
}

/// A number by its key.
pub fn number(object: &Value, key: &str) -> f64 {
    object[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} is {}", object[key]))
}

/// A file that `local` kept.
pub fn kept(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join("kept").join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// Rows of two columns, some of them outside of the unit ball: party p brings `counts[p]`.
pub fn rows(party: usize, count: usize) -> Vec<[f64; 2]> {
    (0..count)
        .map(|row| {
            [
                ((row * 7 + party) as f64).sin(),
                0.3 + 0.2 * ((row * 3 + party) as f64).cos(),
            ]
        })
        .collect()
}

/// Rows as lines of a .csv.
pub fn table(rows: &[[f64; 2]]) -> String {
    rows.iter().map(|[x, y]| format!("{x:?},{y:?}\n")).collect()
}
