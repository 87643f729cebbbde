//! Checks the receipt of another party's run against its plan: who signed it, that it repeats what
//! was planned, and that it states no smaller loss than its execution has.
//!
//! `cargo run -p undertone-accountant --example checking_a_receipt -- receipt.json plan.json`
//!
//! `undertone receipt` does this, too, and knows more kinds of runs.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use undertone_accountant::gate::stated::StatedExecution;
use undertone_protocol::plan::checked::Plan;

/// How much two machines' arithmetic may differ by, and more.
const ROUNDING: f64 = 1e-9;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(receipt), Some(plan)) = (arguments.next(), arguments.next()) else {
        return Err(
            "usage: checking_a_receipt RECEIPT.json PLAN.json (and RECEIPT.json.sig beside it)".into(),
        );
    };
    let plan = Plan::parse(&fs::read(plan)?)?;
    let text = fs::read_to_string(&receipt)?;
    let stated: Value = serde_json::from_str(&text)?;
    check_signature(&plan, &stated, &text, &fs::read_to_string(receipt + ".sig")?)?;
    check_plan(&plan, &stated)?;
    let (mu, epsilon) = loss(&plan, &stated)?;
    println!("{} signed it, and its plan is this one", stated["party"]);
    println!("mu      {} stated, {mu} computed", stated["mu"]);
    println!("epsilon {} stated, {epsilon} computed", stated["epsilon"]);
    if stated["mu"].as_f64() < Some(mu * (1.0 - ROUNDING)) {
        return Err("it states less than its execution costs".into());
    }
    Ok(())
}

/// A member of the plan has signed SHA-256 of the text, behind a name that is only for receipts.
fn check_signature(plan: &Plan, stated: &Value, text: &str, signature: &str) -> Result<(), Box<dyn Error>> {
    let members = &plan.draft().members;
    let member = members.iter().find(|member| stated["party"] == member.name);
    let key = member.ok_or("it is of no member of the plan")?.public_key();
    let mut signed = b"undertone/receipt/1\0".to_vec();
    signed.extend_from_slice(&Sha256::digest(text));
    match key.verify(&signed, &STANDARD.decode(signature.trim_end())?) {
        true => Ok(()),
        false => Err("its party's key has not signed it".into()),
    }
}

/// Everything that it repeats of the plan is the plan's.
fn check_plan(plan: &Plan, stated: &Value) -> Result<(), Box<dyn Error>> {
    let repeated = [
        ("digest", json!(plan.digest_hex())),
        ("delta", json!(plan.draft().privacy.delta)),
        ("epsilon_claimed", json!(plan.epsilon_claimed())),
        ("claims", json!(plan.calibration().claims)),
    ];
    let other = repeated
        .into_iter()
        .find(|(key, planned)| stated[*key] != *planned);
    other.map_or(Ok(()), |(key, _)| {
        Err(format!("its {key} is not the plan's").into())
    })
}

/// The loss μ and the ε of the execution that it states, of which nothing is taken over but who
/// sent to whom.
fn loss(plan: &Plan, stated: &Value) -> Result<(f64, f64), Box<dyn Error>> {
    let execution = StatedExecution::read(plan, &stated["execution"].to_string())?;
    let index = |name: &Value| {
        let mut members = plan.draft().members.iter();
        members.position(|member| *name == member.name)
    };
    let included = stated["included"].as_array().ok_or("it includes nobody")?;
    let included: Option<BTreeSet<usize>> = included.iter().map(index).collect();
    let included = included.ok_or("it includes somebody who is no member")?;
    let mu = execution.loss_of(&included)?;
    let mu = mu.ok_or("no loss follows from such an execution")?;
    Ok((mu, execution.epsilon(mu)))
}
