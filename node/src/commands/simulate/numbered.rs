//! RunsAsked by number, and what is counted of them, whatever they compute.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::{Ending, Outcome};
use undertone_protocol::simulator::scenario::Report as Simulated;

use crate::planning::quote;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::progress::Progress;
use crate::reporting::report::Report;
use crate::reporting::table::{Table, precise};

/// Refuses so many kills that nobody could publish anything.
pub(super) fn check_kills(kills: usize, parties: usize) -> Result<(), Failure> {
    if kills + 2 > parties {
        return Err(Failure::usage("--kills leaves fewer than two parties").field("--kills"));
    }
    Ok(())
}

/// How many runs there are, with how many kills in each.
#[derive(Clone, Copy)]
pub(super) struct RunsAsked {
    pub(super) count: u64,
    pub(super) kills: usize,
    pub(super) seed: u64,
}

impl RunsAsked {
    /// Calls `run` for each, with a seed of its own and whether its kills are silent: those of even
    /// runs are loud.
    pub(super) fn each(self, mut run: impl FnMut(u64, bool) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut progress = Progress::start();
        for number in 0..self.count {
            progress.count("runs", number, self.count);
            let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(number);
            run(seed, !number.is_multiple_of(2))?;
        }
        progress.end();
        Ok(())
    }

    /// The line above the table of all runs, which are called `runs`.
    pub(super) fn title(self, plan: &Plan, runs: &str) -> String {
        format!(
            "{} parties, {} {runs}, {} kill{} each, seed {}\n",
            plan.parties(),
            self.count,
            self.kills,
            if self.kills == 1 { "" } else { "s" },
            self.seed
        )
    }
}

/// The counts over all runs.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) runs: u64,
    /// Nodes by how they ended.
    endings: BTreeMap<&'static str, u64>,
    pub(super) private_bytes: u64,
    pub(super) public_bytes: u64,
    /// The largest ε as it turned out.
    pub(super) epsilon: f64,
    violations: Vec<String>,
}

impl Counted {
    pub(super) fn add(&mut self, simulated: &Simulated) {
        self.runs += 1;
        for outcome in &simulated.outcomes {
            *self.endings.entry(ending(outcome)).or_insert(0) += 1;
        }
        let violations = simulated.violations.iter();
        self.violations
            .extend(violations.map(|violation| format!("{violation:?}")));
        for (private, public) in &simulated.bytes {
            self.private_bytes += private;
            self.public_bytes += public;
        }
    }

    /// A table that begins with how nodes ended.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new();
        for (ending, nodes) in &self.endings {
            table.row([format!("nodes {ending}"), nodes.to_string()]);
        }
        table
    }

    /// The row that a table ends with.
    pub(super) fn violations(&self) -> [String; 2] {
        ["invariants broken".into(), self.violations.len().to_string()]
    }

    /// The report: `own` has the keys that not all kinds of runs share.
    pub(super) fn report(&self, plan: &Plan, mut own: Value, text: String) -> Report {
        let exit = match self.violations.is_empty() {
            true => Exit::Done,
            false => Exit::Internal,
        };
        let predicted = &plan.calibration().predicted;
        let shared = json!({
            "parties": plan.parties(), "runs": self.runs, "endings": self.endings,
            "epsilon": self.epsilon, "delta": plan.draft().privacy.delta,
            "epsilon_claimed": plan.epsilon_claimed(), "threat": quote::threat(plan),
            "claims": plan.calibration().claims, "central": predicted.central, "local": predicted.local,
            "violations": self.violations, "digest": plan.digest_hex(), "exit_code": exit.code(),
        });
        if let (Value::Object(own), Value::Object(shared)) = (&mut own, shared) {
            own.extend(shared);
        }
        Report {
            json: own,
            text,
            exit: exit.code(),
        }
    }
}

/// The ε that a plan claims, as tables show it.
pub(super) fn claimed(plan: &Plan) -> String {
    plan.epsilon_claimed().map_or("–".into(), precise)
}

fn ending(outcome: &Option<Outcome>) -> &'static str {
    match outcome.as_ref().map(|outcome| &outcome.ending) {
        None => "killed",
        Some(Ending::Done) => "done",
        Some(Ending::Degraded) => "degraded",
        Some(Ending::Aborted { .. }) => "aborted",
        Some(Ending::Spent { .. } | Ending::Withheld { .. }) => "withheld",
    }
}
