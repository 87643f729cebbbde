//! `undertone simulate`: the very machines of a node in one process, over a simulated network, with
//! the real gate.

mod described;
mod gossiped;
mod numbered;
mod totals;
mod trainings;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use undertone_accountant::papers::Draws;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::defaults::Defaults;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::error::RunFileError;
use undertone_protocol::plan::run_file::raw::RawRunFile;
use undertone_protocol::plan::run_file::records::RecordCounts;
use undertone_protocol::plan::run_file::settings::Unit;
use undertone_protocol::simulator::scenario::Conditions;

use crate::commands::simulate::described::SimulatedTables;
use crate::commands::simulate::gossiped::GossipTotals;
use crate::commands::simulate::numbered::{RunsAsked, check_kills};
use crate::commands::simulate::totals::Totals;
use crate::commands::simulate::trainings::SimulatedTrainings;
use crate::measuring::papers::{self, Grounds};
use crate::measuring::trial::{KillPhase, Trial};
use crate::measuring::vectors::Vectors;
use crate::planning::files::not_a_training;
use crate::planning::{files, make, plot};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// Flags of `simulate`.
#[derive(Args, Debug)]
pub struct SimulateArgs {
    // Not a doc comment: rustdoc takes `[100]` for a link.
    #[arg(
        value_name = "RUN.toml",
        required_unless_present = "paper",
        help = "The run file; `local`'s defaults fill its gaps",
        long_help = "The run file; `local`'s defaults fill its gaps, and data.shape is [100] if it has none"
    )]
    run: Option<PathBuf>,
    /// Number of parties
    #[arg(long, value_name = "N", required_unless_present_any = ["paper", "inputs"])]
    parties: Option<usize>,
    /// A table per party for a model or statistics
    ///
    /// For a model, rows are made up without it.
    #[arg(long, value_name = "DIR", conflicts_with = "paper")]
    inputs: Option<PathBuf>,
    /// With --inputs: rows to hold models against
    ///
    /// Rows that no party has.
    #[arg(long, value_name = "FILE", requires = "inputs")]
    test: Option<PathBuf>,
    // Not a doc comment: it lists the names.
    #[arg(
        long,
        help = "Compute a paper's figure or table instead",
        long_help = paper_help(),
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(papers::names()),
        value_name = "TABLE",
        conflicts_with_all = ["run", "parties", "kills", "plot"]
    )]
    paper: Option<String>,
    /// With --paper: a folder with the data it takes
    ///
    /// MNIST's test digits, for figures that are trained on them, or the Facebook graph
    /// (facebook_combined.txt) for kk-first-fig1.
    #[arg(long, value_name = "DIR", requires = "paper")]
    data: Option<PathBuf>,
    /// With --paper: a folder to write CSV and SVG into
    ///
    /// Of several figures an index, too, with what deviates from the papers and why.
    #[arg(long, value_name = "DIR", requires = "paper")]
    out: Option<PathBuf>,
    /// Number of runs, each with fresh noise
    ///
    /// Default: 1; with --paper, for each point of a figure that is drawn: as many as take seconds.
    #[arg(long, value_name = "R")]
    runs: Option<u64>,
    /// The seed, here also of noise
    ///
    /// Inputs, schedule, network, kills and (only here) noise.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Kill this many parties in each run
    ///
    /// At random moments of a phase: loudly in even runs, silently in odd ones.
    #[arg(long, value_name = "K", default_value_t = 0)]
    kills: usize,
    /// When --kills happen
    ///
    /// Those of a training happen anywhere in it.
    #[arg(
        long,
        value_enum,
        value_name = "PHASE",
        default_value = "mixing",
        conflicts_with_all = ["direct", "paper"]
    )]
    kill_phase: KillPhase,
    /// For many parties: no network, no signatures
    ///
    /// Mixing, settling, gate and finals only, as hundreds of parties need: kills then are at
    /// random rounds, with or without the share of that round.
    #[arg(long)]
    direct: bool,
    /// Draw the errors of the runs, as SVG
    ///
    /// Each beside the accounted one.
    #[arg(long, value_name = "RUNS.svg")]
    plot: Option<PathBuf>,
}

/// The names of the papers' figures and tables.
fn paper_help() -> String {
    let names = papers::names();
    let names: Vec<&str> = names.iter().map(PossibleValue::get_name).collect();
    format!(
        "Instead of a run: a figure or table of a paper, computed again, beside what it prints: one of {}",
        names.join(", ")
    )
}

impl SimulateArgs {
    fn simulated(&self) -> RunsAsked {
        RunsAsked {
            count: self.runs.unwrap_or(1).max(1),
            kills: self.kills,
            seed: self.seed,
        }
    }
}

/// Records of each party, where they are what is protected.
const RECORDS: u64 = 20;

fn tables(arguments: &SimulateArgs) -> Result<SimulatedTables, Failure> {
    if arguments.direct || arguments.plot.is_some() || arguments.test.is_some() {
        return Err(Failure::usage("--direct, --plot and --test are not for statistics").field("task"));
    }
    let inputs = arguments.inputs.clone().ok_or_else(|| {
        Failure::usage("statistics are of tables, and there are none to make up")
            .field("--inputs")
            .hint("give a folder with a .csv or .json for each party: --inputs DIR (undertone example makes one)")
    })?;
    Ok(SimulatedTables {
        inputs,
        parties: arguments.parties,
        runs: arguments.simulated(),
        phase: arguments.kill_phase,
    })
}

fn trainings(arguments: &SimulateArgs) -> Result<SimulatedTrainings, Failure> {
    if arguments.inputs.is_some() && arguments.test.is_none() {
        return Err(
            Failure::usage("models of tables are held against rows that no party has")
                .field("--test")
                .hint("give a file with such rows: --test FILE"),
        );
    }
    if arguments.direct || arguments.plot.is_some() {
        return Err(Failure::usage("--direct and --plot are not for trainings").field("task"));
    }
    Ok(SimulatedTrainings {
        parties: arguments.parties,
        inputs: arguments.inputs.clone(),
        test: arguments.test.clone(),
        runs: arguments.simulated(),
    })
}

/// Gossip, of which each node has an estimate of its own.
fn gossiped(arguments: &SimulateArgs, plan: Arc<Plan>) -> Result<Report, Failure> {
    if arguments.direct {
        return Err(Failure::usage("--direct is not for gossip, which settles nothing").field("--direct"));
    }
    if arguments.kill_phase != KillPhase::Mixing {
        let message = "gossip has no phase but mixing that anybody can be killed in";
        return Err(Failure::usage(message).field("--kill-phase"));
    }
    let vectors = Vectors::drawn(&plan, arguments.seed);
    let trial = Trial::new(plan, vectors);
    let runs = arguments.simulated();
    let totals = GossipTotals::of(&trial, runs)?;
    if let Some(path) = &arguments.plot {
        let accounted = trial.plan.calibration().predicted.standard_error;
        plot::simulation(&totals.each, accounted, &trial.plan, path)?;
    }
    Ok(totals.report(&trial.plan, runs.title(&trial.plan, "runs")))
}

/// A paper's figure or table, or all.
fn paper(name: &str, arguments: &SimulateArgs) -> Result<Report, Failure> {
    let papers = papers::named(name, arguments.data.is_some());
    let drawn = |how: fn(Draws) -> bool| papers.iter().any(|paper| how(paper.drawn));
    if !drawn(|how| how != Draws::Nothing) && (arguments.runs.is_some() || arguments.seed != 0) {
        let message = "this figure or table is exact: nothing is drawn";
        return Err(Failure::usage(message)
            .field("--paper")
            .hint("leave out --runs and --seed"));
    }
    if !drawn(|how| how == Draws::Runs) && arguments.runs.is_some() {
        return Err(Failure::usage("this figure is drawn once")
            .field("--runs")
            .hint("choose another --seed"));
    }
    let grounds = Grounds {
        runs: arguments.runs.map(|runs| runs.max(1)),
        seed: arguments.seed,
        data: arguments.data.as_deref(),
    };
    papers::report(&papers, grounds, arguments.out.as_deref())
}

/// Numbers that are made up at most, of all parties together: 800 MB of them. Our choice.
const MOST_MADE_UP: f64 = 1e8;

/// Refuses more made-up rows than fit into memory.
fn check_size(plan: &Plan) -> Result<(), Failure> {
    let rows = match plan.draft().data.unit {
        Unit::Record => plan.total_weight(),
        Unit::Party => plan.parties() as f64,
    };
    let numbers = rows * plan.draft().dimension() as f64 * plan.draft().releases() as f64;
    match numbers > MOST_MADE_UP {
        true => Err(Failure::usage(format!(
            "{numbers:.0} numbers would be made up, more than {MOST_MADE_UP:.0}"
        ))
        .field("data.records")
        .hint("simulate with fewer records, columns or parties: errors only scale with them")),
        false => Ok(()),
    }
}

/// Simulates the runs and reports what they add up to.
pub fn run(arguments: SimulateArgs) -> Result<Report, Failure> {
    if let Some(name) = &arguments.paper {
        return paper(name, &arguments);
    }
    let missing = || Failure::usage("give RUN.toml and --parties, or --paper");
    let path = &arguments.run.clone().ok_or_else(missing)?;
    arguments.plot.as_deref().map_or(Ok(()), plot::check)?;
    let text = files::read_text(path, "RUN.toml")?;
    let refuse = |e: RunFileError| make::run_failure(path, &e);
    let mut raw = RawRunFile::parse(&text).map_err(refuse)?;
    if raw.task().takes_cells() {
        return tables(&arguments)?.run(path, raw);
    }
    if raw.task().fits_model() {
        return trainings(&arguments)?.run(path, raw);
    }
    if arguments.inputs.is_some() {
        return Err(
            Failure::usage("--inputs is for task = \"regression\" or \"describe\"")
                .field("--inputs")
                .hint("leave it out: values are made up"),
        );
    }
    let parties = arguments.parties.ok_or_else(missing)?;
    raw.data.shape.get_or_insert(vec![100]);
    let mut run = raw.resolve(parties, Defaults::Local).map_err(refuse)?;
    run.supported().map_err(refuse)?;
    check_kills(arguments.kills, parties)?;
    if run.data.unit == Unit::Record {
        run.data.records.get_or_insert(RecordCounts::exactly(RECORDS));
    }
    let peers = Peers::simulated(parties).map_err(|e| Failure::usage(e.to_string()).field("--parties"))?;
    let plan = Arc::new(make::make(run, &peers, arguments.seed)?);
    not_a_training(&plan)?;
    check_size(&plan)?;
    if plan.draft().computation.stream().is_some() {
        return gossiped(&arguments, plan);
    }
    let vectors = Vectors::drawn(&plan, arguments.seed);
    let (trial, runs) = (Trial::new(plan, vectors), arguments.simulated());
    let mut totals = Totals::new();
    runs.each(|seed, silent| {
        let simulated = if arguments.direct {
            trial.direct(runs.kills, seed)
        } else {
            let faults = trial.kills(runs.kills, arguments.kill_phase, seed, silent);
            trial.simulate(Conditions::new(seed).with_faults(faults))
        };
        totals.add(&trial, &simulated)
    })?;
    if let Some(path) = &arguments.plot {
        plot::simulation(&totals.errors, totals.accounted_error(), &trial.plan, path)?;
    }
    Ok(totals.report(&trial.plan, runs.title(&trial.plan, "runs")))
}
