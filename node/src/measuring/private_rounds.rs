//! `benchmark --private-rounds`: the network rounds that PPSC's private phase takes, beside the
//! critical path of its edge sequence.
//!
//! The *critical path* is the longest chain of exchanges of the sequence in which each shares a
//! party with the one before it: no protocol whose parties act on their own edges in order and wait
//! for each exchange takes fewer rounds. *Rounds used* are counted in the simulator, which drives
//! the very machines of a node: every message is on its way for one unit of time and nothing else
//! takes any, from the moment the first share leaves to the moment the last one arrives, or until
//! its answer has arrived, too. A party that hands out twice in a row need not wait for the first
//! answer, so that fewer rounds can do than the critical path has.

use std::sync::Arc;

use serde_json::{Value, json};
use undertone_accountant::calibration::claims::predicted;
use undertone_accountant::class::setting::Setting;
use undertone_accountant::losses::gaussian;
use undertone_accountant::losses::loss::Noise;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::plan::calibration::{Calibration, SeededSchedule};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Adversary, Claim, Established, Faults};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;
use undertone_protocol::simulator::cluster::{Simulation, permissive_gate};
use undertone_protocol::simulator::scenario::Conditions;
use undertone_protocol::time::Time;
use undertone_protocol::topology::multi_gossip::MultiGossip;
use undertone_protocol::topology::schedule::Schedule;

use crate::measuring::failed::failed;
use crate::telling::failure::{Exit, Failure};
use crate::telling::output;
use crate::telling::report::Report;
use crate::telling::table::Table;

/// Rounds used may be this many times the critical path.
const AT_MOST: f64 = 1.3;

/// Exchanges of a sequence: so many times the number of parties, each of which takes part in twice
/// as many.
const EXCHANGES: usize = 4;

/// A message's way, in microseconds.
const UNIT_US: u64 = 1000;

const GRAPHS: [(&str, &str); 3] = [
    ("complete", "\"complete\""),
    (
        "random-regular, degree 4",
        "{ kind = \"random-regular\", degree = 4 }",
    ),
    ("ring", "{ kind = \"ring\" }"),
];

/// One edge sequence, with the rounds that it took.
struct Row {
    parties: usize,
    graph: &'static str,
    exchanges: usize,
    critical_path: u32,
    to_last_share: f64,
    to_last_answer: f64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.to_last_answer / f64::from(self.critical_path)
    }
}

/// One sequence for each number of parties and each graph.
pub(crate) fn run(sizes: &[usize]) -> Result<Report, Failure> {
    let mut rows = vec![];
    for &parties in sizes {
        for (graph, topology) in GRAPHS {
            output::tell(format_args!("{parties} parties, {graph} …"));
            rows.push(measured(parties, graph, topology)?);
        }
    }
    Ok(report(&rows))
}

fn measured(parties: usize, graph: &'static str, topology: &str) -> Result<Row, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::usage(error.to_string()).field("--private-rounds");
    let public = if parties > 5 {
        "{ kind = \"random-regular\", degree = 4 }"
    } else {
        "\"complete\""
    };
    let text = format!(
        "name = \"rounds\"\n[data]\nshape = [2]\n[privacy]\ncolluding = 1\ndropouts = 0\n\
         [mechanism]\nkind = \"ppsc\"\ncorrelated = \"gaussian\"\nlocal_noise_ok = true\n\
         [topology]\nprivate = {topology}\npublic = {public}\n"
    );
    let file = RunFile::parse(&text, parties).map_err(|e| usage(&e))?;
    let peers = Peers::simulated(parties, None).map_err(|e| usage(&e))?;
    let plan = Arc::new(plan(Draft::new(file, &peers, 1).map_err(|e| usage(&e))?)?);
    let zero = || plan.lattice().encode([0.0; 2].into_iter());
    let inputs: Vec<LatticeVector> = (0..parties).map(|_| zero()).collect();
    let conditions = Conditions {
        latency_us: (UNIT_US, UNIT_US),
        instant: true,
        ..Conditions::new(1)
    };
    let simulated = Simulation::new(plan.clone(), inputs, &permissive_gate, conditions).run();
    if let Some(violation) = simulated.violations.first() {
        return Err(failed(format!("{violation:?}")));
    }
    let first = simulated
        .private
        .first_left
        .ok_or_else(|| failed("no share left"))?;
    let rounds = |last: Option<Time>| {
        Ok(
            last.ok_or_else(|| failed("a share never arrived"))?.since(first) as f64
                / (UNIT_US * 1000) as f64,
        )
    };
    Ok(Row {
        parties,
        graph,
        exchanges: plan.schedule().shares(),
        critical_path: longest_chain(plan.schedule(), parties),
        to_last_share: rounds(simulated.private.last_arrived)?,
        to_last_answer: rounds(simulated.private.last_answered)?,
    })
}

/// A plan with local noise, of which no more is claimed than that: no number here depends on the
/// noise.
fn plan(draft: Draft) -> Result<Plan, Failure> {
    let rounds = MultiGossip::draw(&draft.private_graph, EXCHANGES * draft.parties(), 1)
        .ok_or_else(|| failed("no exchanges"))?
        .rounds();
    let schedule = Calibration::draw_schedule(&draft, rounds, 1).ok_or_else(|| failed("no schedule"))?;
    let setting = Setting::of_draft(&draft, &schedule).map_err(failed)?;
    let (epsilon, delta) = (draft.privacy.epsilon, draft.privacy.delta);
    let mu = gaussian::mu(epsilon, delta).map_err(failed)?;
    let independent_std = draft.largest_sensitivity() / mu;
    let noise = Noise {
        independent_std,
        correlated_std: independent_std,
    };
    let claim = Claim {
        adversary: Adversary::Coalition,
        size: draft.parties() - 1,
        faults: Faults::Any,
        mu,
        epsilon,
        delta,
        sampling_delta: 0.0,
        established: Established::Theorem,
        cases: 1,
        seed: None,
        changes: None,
        basis: None,
        connectivity: None,
        draw: None,
        sealed: false,
        unbounded: false,
        sentence: None,
        holds_as_headline: true,
    };
    let calibration = Calibration {
        rounds,
        drawn: Some(SeededSchedule { seed: 1, schedule }),
        independent_std,
        correlated_std: noise.correlated_std,
        claims: vec![claim],
        predicted: predicted(&setting, noise, mu).map_err(failed)?,
    };
    Plan::assemble(draft, calibration, [0; 16]).map_err(failed)
}

/// The longest chain of exchanges with common parties, in the order of the sequence.
fn longest_chain(schedule: &Schedule, parties: usize) -> u32 {
    let mut chain = vec![0u32; parties];
    for round in 1..=schedule.rounds() as u32 {
        for out in 0..parties {
            for &into in schedule.sends_to(round, out) {
                let longer = 1 + chain[out].max(chain[into]);
                (chain[out], chain[into]) = (longer, longer);
            }
        }
    }
    chain.into_iter().max().unwrap_or(0)
}

fn report(rows: &[Row]) -> Report {
    let holds = rows.iter().all(|row| row.ratio() <= AT_MOST);
    let exit = if holds { Exit::Done } else { Exit::Internal };
    let mut table = Table::with_headings([
        "parties",
        "private graph",
        "exchanges",
        "critical path",
        "rounds to the last share",
        "to its answer",
        "ratio",
    ]);
    for row in rows {
        table.row([
            row.parties.to_string(),
            row.graph.to_owned(),
            row.exchanges.to_string(),
            row.critical_path.to_string(),
            row.to_last_share.to_string(),
            row.to_last_answer.to_string(),
            format!("{:.2}", row.ratio()),
        ]);
    }
    let each: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "parties": row.parties,
                "graph": row.graph,
                "exchanges": row.exchanges,
                "critical_path": row.critical_path,
                "rounds_to_last_share": row.to_last_share,
                "rounds_to_last_answer": row.to_last_answer,
                "ratio": row.ratio(),
            })
        })
        .collect();
    let json =
        json!({ "private_rounds": each, "at_most": AT_MOST, "holds": holds, "exit_code": exit.code() });
    let title = "Network rounds of PPSC's private phase, each message one unit of time, \
                 against the longest chain of exchanges\n";
    let verdict = format!(
        "\nAt most {AT_MOST} times the critical path: {}.\n",
        if holds { "yes" } else { "NO" }
    );
    Report {
        json,
        text: title.to_owned() + &table.render() + &verdict,
        exit: exit.code(),
    }
}
