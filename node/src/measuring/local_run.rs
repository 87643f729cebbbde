//! A local run of real nodes, as a benchmark starts it.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::measuring::failed::failed;
use crate::reporting::failure::Failure;

/// The final object of `local`, which must end well.
pub(crate) fn run(nodes: usize, dimension: usize, more: &[&str]) -> Result<Value, Failure> {
    let (nodes, dimension) = (nodes.to_string(), dimension.to_string());
    let size = ["--nodes", &nodes, "--dimension", &dimension];
    ended(&[&size[..], more].concat())
}

/// The final object of `local` with these arguments, which must end well.
pub(crate) fn ended(arguments: &[&str]) -> Result<Value, Failure> {
    let output = Command::new(std::env::current_exe().map_err(failed)?)
        .args(["local", "--json"])
        .args(arguments)
        .stderr(Stdio::null())
        .output()
        .map_err(failed)?;
    let object: Value = serde_json::from_slice(&output.stdout).map_err(failed)?;
    if object["exit_code"] == 0 {
        return Ok(object);
    }
    // What `local` refuses is a flag of the benchmark, which has the same name.
    let ended = || failed(format!("the run ended with {}", object["exit_code"]));
    Err(Failure::from_json(&object).unwrap_or_else(ended))
}

/// A share's length, near enough: what a party sends in a round.
pub(crate) fn share_bytes(object: &Value, private_bytes: u64) -> usize {
    let shares = object["rounds"].as_u64().unwrap_or(1) * object["parties"].as_u64().unwrap_or(1);
    (private_bytes / shares.max(1)).clamp(1, 1 << 30) as usize
}
