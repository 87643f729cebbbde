//! Shared parts of the whole-system tests: the binary, vectors on disk, processes under watch, and
//! parties with keys and plans.

pub mod booted;
pub mod browser;
pub mod composition;
pub mod daemon;
pub mod digits;
pub mod dist;
pub mod documents;
pub mod house;
pub mod http;
pub mod inputs;
pub mod journey;
pub mod killed;
pub mod network;
pub mod nginx;
pub mod openapi;
pub mod outer;
mod parties;
pub mod person;
pub mod plans;
pub mod ports;
pub mod private_rounds;
mod process;
pub mod python;
pub mod receipt;
pub mod recorded;
pub mod simulated;
pub mod soak;
pub mod survivors;
pub mod table;
pub mod testnet;
pub mod year;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub use parties::{PLAN, Parties};
pub use process::{
    Ended, Followed, Running, Signal, alone, follow_at, follow_in, run_in, run_on_terminal, run_within,
    signal, signal_if_alive, start_in, start_narrow_in, watched_in,
};

/// The `undertone` binary that cargo built beside this test. Panics with the command to build it if
/// it is absent.
pub fn undertone() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    // A program lies beside it, a test in a folder there.
    let beside = test.parent().expect("a file lies in a folder");
    let folder = if beside.ends_with("deps") {
        beside.parent()
    } else {
        Some(beside)
    };
    let folder = folder.expect("a test lies in target/PROFILE/deps");
    let binary = folder.join(format!("undertone{}", std::env::consts::EXE_SUFFIX));
    assert!(
        binary.is_file(),
        "{} is absent: run `cargo build -p undertone` (or `cargo test --workspace`)",
        binary.display()
    );
    binary
}

/// Says that a test is left out because the machine lacks what it needs. Where `CI` is set nothing
/// may be left out: panics.
pub fn left_out(test: &str, missing: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "{test}: {missing}; CI leaves nothing out"
    );
    // Not by a macro: those are captured, and nobody would see it.
    let _ = writeln!(std::io::stderr(), "\n*** LEFT OUT: {test}: {missing}\n");
}

/// Reads a JSON file.
#[track_caller]
pub fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Whether two numbers agree to a relative tolerance.
#[track_caller]
pub fn assert_close(found: &Value, expected: f64, relative: f64, what: &str) {
    let found = found
        .as_f64()
        .unwrap_or_else(|| panic!("{what}: {found} is no number"));
    let within = (found - expected).abs() <= relative * expected.abs().max(f64::MIN_POSITIVE);
    assert!(
        within,
        "{what}: found {found:e}, expected {expected:e} to {relative:e}"
    );
}

/// Whether a mean is that of the inputs but for its noise. Seven standard errors are exceeded once
/// in 4 × 10^11 coordinates; six are once in 2,500 means of 200,000 coordinates.
#[track_caller]
pub fn assert_mean_of(mean: &[f64], inputs: &[Vec<f64>], standard_error: f64) {
    assert_eq!(mean.len(), inputs[0].len());
    for (coordinate, found) in mean.iter().enumerate() {
        let truth = inputs.iter().map(|input| input[coordinate]).sum::<f64>() / inputs.len() as f64;
        assert!(
            (found - truth).abs() < 7.0 * standard_error,
            "coordinate {coordinate}: {found}, truth {truth}, ± {standard_error}"
        );
    }
}

/// Writes a `.npy` of f64, C order.
pub fn write_npy(path: &Path, shape: &[usize], values: &[f64]) {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes());
    write_raw_npy(path, "<f8", shape, bytes);
}

/// Writes a `.npy` of f32, C order.
pub fn write_npy_f32(path: &Path, shape: &[usize], values: &[f32]) {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes());
    write_raw_npy(path, "<f4", shape, bytes);
}

/// Writes a `.npy` with any descriptor and bytes.
pub fn write_raw_npy(path: &Path, descriptor: &str, shape: &[usize], data: impl IntoIterator<Item = u8>) {
    let axes: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let header = format!("{{'descr': '{descriptor}', 'fortran_order': False, 'shape': ({axes}), }}");
    let padded = format!("{header}{}\n", " ".repeat(63 - (10 + header.len()) % 64));
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((padded.len() as u16).to_le_bytes());
    bytes.extend(padded.bytes());
    bytes.extend(data);
    std::fs::write(path, bytes).expect("the test's folder is writable");
}

/// Reads a `.npy` of f32 or f64 as (descriptor, header, values).
pub fn read_npy(path: &Path) -> (String, String, Vec<f64>) {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[10..10 + length]).into_owned();
    let data = &bytes[10 + length..];
    let (descriptor, values) = if header.contains("<f4") {
        let values = data
            .chunks_exact(4)
            .map(|c| f64::from(f32::from_le_bytes(c.try_into().expect("4 bytes"))));
        ("<f4", values.collect())
    } else {
        (
            "<f8",
            data.chunks_exact(8)
                .map(|c| f64::from_le_bytes(c.try_into().expect("8 bytes")))
                .collect(),
        )
    };
    (descriptor.into(), header, values)
}

/// The shape that a `.npy` header announces.
pub fn npy_shape(header: &str) -> Vec<usize> {
    let axes = header
        .split_once("'shape': (")
        .and_then(|(_, rest)| rest.split_once(')'))
        .expect("a shape")
        .0;
    axes.split(',')
        .map(str::trim)
        .filter(|axis| !axis.is_empty())
        .map(|axis| axis.parse().expect("a length"))
        .collect()
}

/// Vectors that differ from party to party, with norm below 1: `count` of them, named party-a,
/// party-b, …
pub fn write_inputs(folder: &Path, count: usize, shape: &[usize]) -> Vec<Vec<f64>> {
    let dimension: usize = shape.iter().product();
    (0..count)
        .map(|party| {
            let scale = 0.9 / (dimension as f64).sqrt();
            let values: Vec<f64> = (0..dimension)
                .map(|i| scale * ((i * 7 + party * 13) as f64).sin())
                .collect();
            let name = format!("party-{}.npy", (b'a' + party as u8) as char);
            write_npy(&folder.join(name), shape, &values);
            values
        })
        .collect()
}
