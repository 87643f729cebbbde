//! `undertone simulate`: the very machines of a node in one process, over a simulated network, with the real gate.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use undertone_accountant::gate::{Verdict, gate};
use undertone_accountant::utility::realised;
use undertone_protocol::defaults::Defaults;
use undertone_protocol::invariants::mass::largest_difference;
use undertone_protocol::lattice::LatticeVector;
use undertone_protocol::log::AgreedLogs;
use undertone_protocol::message::Phase;
use undertone_protocol::mixing::Party;
use undertone_protocol::peers::Peers;
use undertone_protocol::plan::Plan;
use undertone_protocol::run::{Ending, Event, GateVerdict, Outcome};
use undertone_protocol::run_file::{RawRunFile, Unit};
use undertone_protocol::simulator::{Conditions, Fault, Leaving, Report as Simulated, Simulation, direct};
use undertone_protocol::time::Time;

use crate::cli::Report;
use crate::failure::{Exit, Failure};
use crate::progress::Progress;
use crate::table::{Table, at_most, number};
use crate::{clipping, plan_command, plot, quote, synthetic};

mod paper;

use paper::Paper;

/// Flags of `simulate`.
#[derive(Args, Debug)]
pub struct SimulateArgs {
    /// The run file; `local`'s defaults fill its gaps, and data.shape is [100] if it has none
    #[arg(value_name = "RUN.toml", required_unless_present = "paper")]
    run: Option<PathBuf>,
    /// Number of parties
    #[arg(long, value_name = "N", required_unless_present = "paper")]
    parties: Option<usize>,
    /// Instead of a run: a table of a paper, computed again, beside the numbers that it prints
    #[arg(long, value_enum, value_name = "TABLE", conflicts_with_all = ["run", "parties", "runs", "seed", "kills", "plot"])]
    paper: Option<Paper>,
    /// Number of runs, each with fresh noise
    #[arg(long, value_name = "R", default_value_t = 1)]
    runs: u64,
    /// Seeds inputs, schedule, network, kills and (only here) noise
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Kill this many parties in each run, at random moments of mixing: loudly in even runs, silently in odd ones
    #[arg(long, value_name = "K", default_value_t = 0)]
    kills: usize,
    /// Mixing, settling, gate and finals only, on an ideal network and without signatures, as hundreds of parties need: kills then are at
    /// random rounds, with or without the share of that round
    #[arg(long)]
    direct: bool,
    /// Draw the error of each run beside the accounted one, as SVG
    #[arg(long, value_name = "RUNS.svg")]
    plot: Option<PathBuf>,
}

/// 97.5 % of a standard normal distribution lie below: intervals are at 95 %.
const NORMAL_975: f64 = 1.959964;

/// Records of each party, where they are what is protected.
const RECORDS: u64 = 20;

/// What all runs add up to.
#[derive(Default)]
struct Totals {
    /// Nodes by how they ended.
    endings: BTreeMap<&'static str, u64>,
    /// Runs in which every survivor ended with the same result, without the killed.
    exact: u64,
    /// Runs in which all that finished hold the same bits.
    same_bits: u64,
    finished: u64,
    epsilon: f64,
    squares: f64,
    coordinates: u64,
    largest: f64,
    /// Of each run that was measured: its error, root of the mean square over coordinates.
    errors: Vec<f64>,
    accounted: f64,
    private_bytes: u64,
    public_bytes: u64,
    violations: Vec<String>,
    included: BTreeSet<Party>,
    agreed: bool,
}

/// Runs it.
pub fn run(arguments: SimulateArgs) -> Result<Report, Failure> {
    if let Some(paper) = arguments.paper {
        return Ok(paper::report(paper));
    }
    let (Some(path), Some(parties)) = (&arguments.run, arguments.parties) else {
        return Err(Failure::usage("give RUN.toml and --parties, or --paper"));
    };
    let text = plan_command::read_text(path, "RUN.toml")?;
    let refuse = |e: undertone_protocol::run_file::RunFileError| plan_command::run_failure(path, &e);
    let mut raw = RawRunFile::parse(&text).map_err(refuse)?;
    raw.data.shape.get_or_insert(vec![100]);
    let run = raw.resolve(parties, Defaults::Local).map_err(refuse)?;
    run.supported().map_err(refuse)?;
    if arguments.kills + 2 > parties {
        return Err(Failure::usage("--kills leaves fewer than two parties").field("--kills"));
    }
    let records = (run.data.unit == Unit::Record).then_some(RECORDS);
    let peers =
        Peers::simulated(parties, records).map_err(|e| Failure::usage(e.to_string()).field("--parties"))?;
    let plan = Arc::new(plan_command::make(run, &peers, arguments.seed)?);
    let inputs = inputs(&plan, arguments.seed);
    let asked = Asked::default();
    let mut totals = Totals {
        agreed: true,
        ..Totals::default()
    };
    let mut progress = Progress::start();
    for number in 0..arguments.runs.max(1) {
        progress.show(&format!("run {} of {}", number + 1, arguments.runs.max(1)));
        let seed = arguments.seed.wrapping_mul(1_000_003).wrapping_add(number);
        let simulated = match arguments.direct {
            true => {
                let gate = |plan: &Plan, logs: &AgreedLogs| asked.gate(plan, logs);
                direct(
                    &plan,
                    on_lattice(&plan, &inputs),
                    &gate,
                    seed,
                    &leaving(&plan, arguments.kills, seed),
                )
            }
            false => {
                let faults = kills(&plan, &inputs, &arguments, number, seed, &asked);
                simulate(&plan, &inputs, Conditions::new(seed).with_faults(faults), &asked)
            }
        };
        totals.add(&plan, &inputs, &simulated, &asked)?;
    }
    progress.end();
    if let Some(path) = &arguments.plot {
        let accounted = (totals.accounted / totals.coordinates.max(1) as f64).sqrt();
        plot::simulation(&totals.errors, accounted, &plan, path)?;
    }
    Ok(totals.report(&plan, &arguments))
}

/// The real gate, which every node of a run asks the same: its verdict follows from the plan and the agreed logs alone.
#[derive(Default)]
pub(crate) struct Asked {
    latest: RefCell<Option<(Question, Verdict)>>,
}

/// Digest, schedule drawn at START, logs.
type Question = ([u8; 32], Option<u64>, AgreedLogs);

impl Asked {
    pub(crate) fn gate(&self, plan: &Plan, logs: &AgreedLogs) -> GateVerdict {
        self.answer(plan, logs, |verdict| GateVerdict {
            publish: verdict.publish.clone(),
            reason: verdict.reason.clone(),
        })
    }

    fn answer<R>(&self, plan: &Plan, logs: &AgreedLogs, of: impl FnOnce(&Verdict) -> R) -> R {
        let mut latest = self.latest.borrow_mut();
        let same = |asked: &Question| {
            asked.0 == *plan.digest() && asked.1 == plan.seed_at_start() && asked.2 == *logs
        };
        match &*latest {
            Some((question, verdict)) if same(question) => of(verdict),
            _ => {
                let question = (*plan.digest(), plan.seed_at_start(), logs.clone());
                of(&latest.insert((question, gate(plan, logs))).1)
            }
        }
    }
}

/// A run of these inputs, one vector of all of its rows a party.
pub(crate) fn simulate(
    plan: &Arc<Plan>,
    inputs: &[Vec<f64>],
    conditions: Conditions,
    asked: &Asked,
) -> Simulated {
    let gate = |plan: &Plan, logs: &AgreedLogs| asked.gate(plan, logs);
    Simulation::new(plan.clone(), on_lattice(plan, inputs), &gate, conditions).run()
}

fn on_lattice(plan: &Plan, inputs: &[Vec<f64>]) -> Vec<LatticeVector> {
    inputs
        .iter()
        .enumerate()
        .map(|(party, values)| clipping::onto_lattice(plan, party, values))
        .collect()
}

/// So many parties that leave for good, in random rounds.
fn leaving(plan: &Plan, count: usize, seed: u64) -> Vec<Leaving> {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut parties: Vec<Party> = (0..plan.parties()).collect();
    let mut leave = |_| {
        let party = parties.swap_remove(rng.random_range(0..parties.len()));
        Leaving {
            party,
            round: rng.random_range(1..=plan.rounds()),
            sends: rng.random_bool(0.5),
        }
    };
    (0..count).map(&mut leave).collect()
}

/// Synthetic vectors, inside of the clipping range.
pub(crate) fn inputs(plan: &Plan, seed: u64) -> Vec<Vec<f64>> {
    let data = &plan.draft().data;
    let rows = |party: Party| plan.draft().members[party].records.unwrap_or(1) as usize;
    let row = |party: Party, row: usize| {
        synthetic::vector(&data.clip, data.dimension(), seed, party + row * plan.parties())
    };
    (0..plan.parties())
        .map(|party| (0..rows(party)).flat_map(|index| row(party, index)).collect())
        .collect()
}

/// Kills at moments of mixing: between the first round's begin and the first log in a run of the same seed without kills.
fn kills(
    plan: &Arc<Plan>,
    inputs: &[Vec<f64>],
    arguments: &SimulateArgs,
    number: u64,
    seed: u64,
    asked: &Asked,
) -> Vec<Fault> {
    if arguments.kills == 0 {
        return vec![];
    }
    let calm = simulate(plan, inputs, Conditions::new(seed), asked);
    let times = |phase: Phase| {
        calm.events
            .iter()
            .filter(move |(_, _, event)| *event == Event::Phase(phase))
            .map(|(at, _, _)| *at)
    };
    let from = times(Phase::Mixing).min().unwrap_or(Time::ZERO).as_nanos();
    let to = times(Phase::Settling)
        .min()
        .unwrap_or(Time::ZERO)
        .as_nanos()
        .max(from + 1);
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut parties: Vec<Party> = (0..plan.parties()).collect();
    let mut kill = |_| {
        let party = parties.swap_remove(rng.random_range(0..parties.len()));
        let at = Time::from_nanos(rng.random_range(from..to));
        if number.is_multiple_of(2) {
            Fault::Crash { party, at }
        } else {
            Fault::Silence { party, at }
        }
    };
    (0..arguments.kills).map(&mut kill).collect()
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

impl Totals {
    fn add(
        &mut self,
        plan: &Plan,
        inputs: &[Vec<f64>],
        simulated: &Simulated,
        asked: &Asked,
    ) -> Result<(), Failure> {
        simulated
            .outcomes
            .iter()
            .for_each(|outcome| *self.endings.entry(ending(outcome)).or_insert(0) += 1);
        self.violations.extend(
            simulated
                .violations
                .iter()
                .map(|violation| format!("{violation:?}")),
        );
        let bytes = simulated.bytes.iter();
        bytes.for_each(|(private, public)| {
            (self.private_bytes, self.public_bytes) =
                (self.private_bytes + private, self.public_bytes + public)
        });
        let results: Vec<(Party, &Outcome)> = simulated
            .outcomes
            .iter()
            .enumerate()
            .filter_map(|(p, o)| Some((p, o.as_ref().filter(|o| o.sum.is_some())?)))
            .collect();
        let first = results.first().map(|(_, outcome)| *outcome);
        let sum = |outcome: &Outcome| outcome.sum.as_ref().map(|sum| (sum.value.clone(), sum.weight));
        let averages = plan.terms().is_some();
        // Averages are within their bounds of each other: an invariant that is checked at every run's end.
        let weight = |outcome: &Outcome| outcome.sum.as_ref().map(|sum| sum.weight);
        let same = results.iter().all(|(_, outcome)| match averages {
            true => outcome.agreed && weight(outcome) == first.and_then(weight),
            false => sum(outcome) == first.and_then(sum),
        });
        self.same_bits += u64::from(same);
        let survivors: BTreeSet<Party> = (0..plan.parties())
            .filter(|&p| simulated.outcomes[p].is_some())
            .collect();
        let exact = |outcome: &Outcome| {
            let steps = outcome.accuracy.map_or(0.0, |accuracy| accuracy.steps);
            let off = outcome
                .sum
                .as_ref()
                .zip(simulated.sum_over(&survivors))
                .map(|(s, exact)| largest_difference(&s.value, &exact));
            outcome.included == survivors && off.is_some_and(|off| off <= steps)
        };
        self.exact +=
            u64::from(results.len() == survivors.len() && results.iter().all(|(_, outcome)| exact(outcome)));
        self.finished += results.len() as u64;
        let Some(outcome) = first else { return Ok(()) };
        self.included = outcome.included.clone();
        self.agreed &= outcome.agreed;
        self.measure(plan, inputs, outcome, asked)
    }

    fn measure(
        &mut self,
        plan: &Plan,
        inputs: &[Vec<f64>],
        outcome: &Outcome,
        asked: &Asked,
    ) -> Result<(), Failure> {
        let publishers = outcome
            .verdict
            .as_ref()
            .and_then(|verdict| verdict.publish.as_ref());
        let (Some(logs), Some(publishers), Some(sum)) = (&outcome.logs, publishers, &outcome.sum) else {
            return Ok(());
        };
        let plan = &*outcome.plan(plan);
        let internal = |e: &dyn std::fmt::Display| Failure::new(Exit::Internal, e.to_string());
        let realised = realised(plan, logs, publishers, &outcome.included).map_err(|e| internal(&e))?;
        self.epsilon = self
            .epsilon
            .max(asked.answer(plan, logs, |verdict| verdict.audit.epsilon));
        self.accounted += realised.standard_error.powi(2) * plan.draft().dimension() as f64;
        let factor = plan.lattice().step() / plan.lattice().weight_to_f64(sum.weight.0);
        let before = self.squares;
        let means: Vec<Vec<f64>> = inputs
            .iter()
            .map(|input| clipping::mean_of_rows(input, plan.draft().dimension()))
            .collect();
        for (i, value) in sum.value.to_f64(factor).into_iter().enumerate() {
            let value = value * plan.scales().at(i);
            let truth: f64 = realised
                .weights
                .iter()
                .zip(&means)
                .map(|(b, mean)| b * mean[i])
                .sum();
            self.squares += (value - truth).powi(2);
            self.largest = self.largest.max((value - truth).abs());
            self.coordinates += 1;
        }
        self.errors
            .push(((self.squares - before) / plan.draft().dimension() as f64).sqrt());
        Ok(())
    }

    fn report(self, plan: &Plan, arguments: &SimulateArgs) -> Report {
        let names = |parties: &BTreeSet<Party>| {
            parties
                .iter()
                .map(|&p| plan.draft().members[p].name.clone())
                .collect::<Vec<_>>()
        };
        let per = |total: f64| (self.coordinates > 0).then(|| (total / self.coordinates as f64).sqrt());
        let (rms, accounted) = (per(self.squares), per(self.accounted));
        // The mean of N squares of normal errors has a relative standard deviation of √(2/N), its root half of that.
        let interval = rms.map(|rms| {
            let width = NORMAL_975 / (2.0 * self.coordinates as f64).sqrt();
            [rms * (1.0 - width).max(0.0), rms * (1.0 + width)]
        });
        let predicted = &plan.calibration().predicted;
        let runs = arguments.runs.max(1);
        let exit = if self.violations.is_empty() {
            Exit::Done
        } else {
            Exit::Internal
        };
        let json = json!({
            "parties": plan.parties(), "runs": runs, "finished": self.finished, "endings": self.endings,
            "included": names(&self.included), "agreed": self.agreed,
            "outcome": if self.finished > 0 { "done" } else { "withheld" },
            "epsilon": self.epsilon, "delta": plan.draft().privacy.delta,
            "epsilon_claimed": plan.epsilon_claimed(), "epsilon_searched": plan.epsilon_searched(),
            "threat": quote::threat(plan), "claims": plan.calibration().claims,
            "standard_error": accounted, "error_floor": plan.calibration().predicted.error_floor,
            "central": predicted.central, "local": predicted.local,
            "rms_error": rms, "rms_error_interval": interval, "max_abs_error": self.largest,
            "runs_with_the_survivors_exact_sum": self.exact, "runs_with_the_same_bits": self.same_bits,
            "rounds": plan.rounds(), "private_bytes": self.private_bytes, "public_bytes": self.public_bytes,
            "dissemination": plan.draft().run.dissemination, "predicted_bytes_per_party": predicted.bytes_per_party,
            "public_bytes_per_party": self.public_bytes / (runs * plan.parties() as u64),
            "violations": self.violations, "digest": plan.digest_hex(), "exit_code": exit.code(),
        });
        let shown = |value: Option<f64>| value.map_or("–".to_owned(), number);
        let mut table = Table::new();
        for (ending, nodes) in &self.endings {
            table.row([format!("nodes {ending}"), nodes.to_string()]);
        }
        table
            .row([
                "runs whose survivors hold their exact sum".into(),
                format!("{} of {runs}", self.exact),
            ])
            .row([
                "runs whose results have the same bits".into(),
                format!("{} of {runs}", self.same_bits),
            ])
            .row(["ε claimed".into(), shown(plan.epsilon_claimed())])
            .row(["largest ε as it turned out".into(), at_most(self.epsilon)])
            .row(["accounted error per coordinate".into(), shown(accounted)])
            .row(["measured error per coordinate (rms)".into(), shown(rms)])
            .row(["  its square".into(), shown(rms.map(|rms| rms * rms))])
            .row([
                "  95 % interval".into(),
                interval.map_or("–".to_owned(), |[low, high]| {
                    format!("{} to {}", number(low), number(high))
                }),
            ])
            .row(["a trusted server".into(), number(predicted.central)])
            .row(["local noise alone".into(), number(predicted.local)])
            .row(["invariants broken".into(), self.violations.len().to_string()]);
        let title = format!(
            "{} parties, {runs} runs, {} kills each, seed {}\n",
            plan.parties(),
            arguments.kills,
            arguments.seed
        );
        Report {
            json,
            text: title + &table.render(),
            exit: exit.code(),
        }
    }
}
