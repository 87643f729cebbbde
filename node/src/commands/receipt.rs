//! `undertone receipt`: what a signed receipt states, checked, in sentences; and what of it nobody
//! can check.

mod recomputed;
mod sentences;
mod stated;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use undertone_protocol::plan::checked::Plan;

use crate::commands::receipt::stated::Stated;
use crate::party::receipt::write_signed;
use crate::planning::files;
use crate::reporting::failure::Failure;
use crate::reporting::output_file;
use crate::reporting::report::Report;

/// Flags of `receipt`.
#[derive(Args, Debug)]
pub struct ReceiptArgs {
    /// The receipt; its signature is beside it, in FILE.sig
    #[arg(value_name = "FILE")]
    receipt: PathBuf,
    /// FILE is the file `receipts` in a daemon's state folder: the receipt of this run in it (the
    /// plan's digest, 64 digits)
    #[arg(long, value_name = "DIGEST")]
    of: Option<String>,
    /// Write that receipt to a file of its own, byte for byte, and its signature to FILE.sig
    #[arg(long, value_name = "FILE", requires = "of")]
    export: Option<PathBuf>,
    /// The plan of its run: the receipt must be of this very file, and signed by one of its members
    #[arg(long, value_name = "PLAN.json")]
    plan: Option<PathBuf>,
    /// A peer list that has the key of whoever signed it
    #[arg(long, value_name = "PEERS.toml")]
    peers: Option<PathBuf>,
    /// The result that it is the receipt of: the very bytes that its party wrote
    #[arg(long, value_name = "FILE")]
    mean: Option<PathBuf>,
    /// Statistics of a table, in any file that has their sums: are these the sums that it states?
    #[arg(long, value_name = "X.json")]
    figures: Option<PathBuf>,
}

/// The receipt in a file of its own, or in a daemon's file of receipts.
fn read(arguments: &ReceiptArgs) -> Result<Stated, Failure> {
    match &arguments.of {
        Some(digest) => Stated::read_of(&arguments.receipt, digest),
        None => Stated::read(&arguments.receipt),
    }
}

/// Writes it to a file of its own, if that is asked for.
fn export(arguments: &ReceiptArgs, stated: &Stated) -> Result<(), Failure> {
    if let (Some(path), Ok(signature)) = (&arguments.export, &stated.signature) {
        output_file::check_named(path, "--export", ("the receipt", "json"))?;
        write_signed(path, "--export", [&stated.text, signature])?;
    }
    Ok(())
}

/// The loss μ that a receipt states, which a member of this plan has signed: infinite if it is
/// unbounded, 0 if nothing left whoever signed it.
///
/// # Errors
/// It is no receipt of this plan, or none of its members has signed it.
pub(super) fn stated_loss(receipt: &Path, plan: &Plan) -> Result<f64, Failure> {
    let stated = Stated::read(receipt)?;
    for key in stated.keys(Some(plan), None)? {
        stated.check_signature(&key)?;
    }
    stated.plan_as_run(plan)?;
    Ok(match stated.object["unbounded"].as_bool() {
        Some(true) => f64::INFINITY,
        _ => stated.number("mu").unwrap_or(0.0),
    })
}

/// Checks a receipt, and says what it says.
pub fn run(arguments: &ReceiptArgs) -> Result<Report, Failure> {
    let stated = read(arguments)?;
    let plan = arguments.plan.as_deref().map(files::load).transpose()?;
    let keys = stated.keys(plan.as_ref(), arguments.peers.as_deref())?;
    for key in &keys {
        stated.check_signature(key)?;
    }
    let plan = plan.map(|plan| stated.plan_as_run(&plan)).transpose()?;
    let recomputed = stated.recompute(plan.as_ref())?;
    let error_computed = stated.check_error(plan.as_ref())?;
    if let Some(mean) = &arguments.mean {
        stated.check_mean(mean)?;
    }
    if let Some(figures) = &arguments.figures {
        stated.check_figures(figures)?;
    }
    export(arguments, &stated)?;
    let sentences = stated.sentences(plan.as_ref(), !keys.is_empty(), error_computed);
    let (signature, of_plan, of_mean) = (!keys.is_empty(), plan.is_some(), arguments.mean.is_some());
    let checked = |yes: bool, what: &str| match yes {
        true => format!("{what}: checked"),
        false => format!("{what}: NOT CHECKED"),
    };
    let of_result = match arguments.figures {
        Some(_) => "sums (--figures): checked".to_owned(),
        None => checked(of_mean, "result (--mean)"),
    };
    // What was checked comes first: the rest is worth as much.
    let mut text = format!(
        "{}; {}; {of_result}; {}.\n",
        checked(signature, "signature (--plan or --peers)"),
        checked(of_plan, "plan (--plan)"),
        recomputed.summary(),
    );
    for sentence in sentences.iter().chain(&recomputed.unchecked) {
        text += &format!("\n{sentence}\n");
    }
    let object = json!({
        "party": stated.object["party"],
        "digest": stated.object["digest"],
        "outcome": stated.object["outcome"],
        "signature_checked": signature,
        "plan_checked": of_plan,
        "mean_checked": of_mean,
        "figures_checked": arguments.figures.is_some(),
        "mu": stated.object["mu"],
        "mu_recomputed": recomputed.mu,
        "epsilon": stated.object["epsilon"],
        "delta": stated.delta(),
        "result_sha256": stated.object["result_sha256"],
        "sentences": sentences,
        "unchecked": recomputed.unchecked,
        "exit_code": 0,
    });
    Ok(Report::done(object, text))
}
