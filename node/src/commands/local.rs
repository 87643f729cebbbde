//! `undertone local`: a cluster of real nodes on this machine, each a process of its own with its
//! own identity.

mod cluster;
pub(crate) mod demonstration;
pub(crate) mod described;
mod ends;
mod folders;
pub(crate) mod parties;
mod summary;
mod time_outs;
mod truth;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use undertone_protocol::plan::defaults::Defaults;
use undertone_protocol::plan::run_file::parsed::RunFile;
use undertone_protocol::plan::run_file::raw::{RawRunFile, RawRunSettings};

use crate::commands::local::cluster::Handed;
use crate::commands::local::folders::Folders;
use crate::commands::local::parties::LocalParty;
use crate::party::events::Events;
use crate::planning::{files, make, template, utility};
use crate::reporting::failure::Failure;
use crate::reporting::logging::GlobalFlags;
use crate::reporting::output_file;
use crate::reporting::progress::Progress;
use crate::reporting::report::Report;
use crate::table_file::reading::MostlyWords;

/// Flags of `local`. A flag beats the run file.
#[derive(Args, Debug)]
pub struct LocalArgs {
    /// Number of nodes (with --inputs: of its files)
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// A folder with one file per party: NAME.csv
    ///
    /// Also .npy, .json or .safetensors; the file's stem is the party's name.
    #[arg(long, value_name = "DIR", conflicts_with = "dimension")]
    inputs: Option<PathBuf>,
    /// Length of made-up vectors
    ///
    /// They are drawn within the clipping range. Without this and --inputs: a demonstration with
    /// hospitals.
    #[arg(long, value_name = "D", value_parser = whole)]
    dimension: Option<usize>,
    /// Hands over each party's part of every round
    ///
    /// For task = "rounds", and streams; its only argument is the party's file (see undertone join
    /// --help).
    #[arg(long, value_name = "FILE", requires = "inputs")]
    program: Option<PathBuf>,
    /// Public rows to hold a trained model against
    ///
    /// In the parties' format.
    #[arg(long, value_name = "FILE", requires = "inputs")]
    test: Option<PathBuf>,
    /// Take tables of which most cells of a column of numbers are none
    #[arg(long)]
    anyway: bool,
    /// A run file; flags and defaults fill its gaps
    #[arg(long, value_name = "RUN.toml")]
    run: Option<PathBuf>,
    /// ε [default: 1]
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// δ [default: 1e-6]
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    delta: Option<f64>,
    /// Keep the plan, means, receipts and logs here
    ///
    /// In this folder, with a summary of the run.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Write what happens as JSON lines
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Let a round last at least this long
    #[arg(long, value_name = "MS")]
    pace_ms: Option<u64>,
    /// Deadline of a round [default: 1000]
    #[arg(long, value_name = "MS")]
    round_ms: Option<u64>,
    /// Seeds synthetic data and the schedule; never noise
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

/// A count, also as people write large ones: 1e6.
fn whole(text: &str) -> Result<usize, String> {
    let count = text.parse::<usize>().ok();
    let written = text.parse::<f64>().ok();
    // Above 2⁵³ a number with an exponent may mean its neighbour.
    let exact = written.filter(|count| count.fract() == 0.0 && (0.0..9e15).contains(count));
    count
        .or(exact.map(|count| count as usize))
        .ok_or_else(|| "write a whole number, such as 1000000 or 1e6".to_owned())
}

/// Starts a node for each party, waits for all of them, and sums up.
pub fn run(arguments: LocalArgs, shared: &GlobalFlags) -> Result<Report, Failure> {
    let begun = Instant::now();
    let (raw, template) = raw_run(&arguments)?;
    let folders = Folders::new(arguments.output.as_deref())?;
    let events = Events::open(arguments.events.as_deref(), begun)?;
    let seed = arguments.seed.unwrap_or_else(rand::random);
    let (mut run, parties) = gather_parties(&arguments, raw, &folders, seed)?;
    parties::count_records(&mut run, &parties);
    let handed = Handed {
        program: arguments.program.clone(),
        template,
        anyway: arguments.anyway,
    };
    let cluster = cluster::prepare(&parties, &folders, handed)?;
    let mut progress = Progress::start();
    progress.milestone(&format!("Calibrating noise for {} parties …", parties.len()));
    let in_file = |failure: Failure| match &arguments.run {
        Some(path) => failure.in_file(path),
        None => failure,
    };
    let plan = make::make(run, cluster.peers(), seed).map_err(in_file)?;
    // Made-up vectors are there to be timed: nobody takes their mean for one.
    if arguments.inputs.is_some() {
        utility::check(&plan).map_err(in_file)?;
    }
    progress.milestone(&format!(
        "Plan {}: {} rounds, ε = {}",
        &plan.digest_hex()[..12],
        plan.mixing_rounds(),
        plan.draft().privacy.epsilon
    ));
    files::write_plan(&folders.output.join("plan.json"), &plan)?;
    let ended = cluster.run(&plan, &events, &mut progress, shared)?;
    progress.end();
    let plan = plan.with_records(&parties::records_of(&parties));
    let demonstrated = arguments.inputs.is_none() && arguments.dimension.is_none();
    let summary =
        summary::Summary::of(&plan, &parties, &ended, &folders.output, begun)?.of_demonstration(demonstrated);
    let summary = match &arguments.test {
        Some(test) => summary.tested(&plan, test)?,
        None => summary,
    };
    let json = summary.json();
    let place = folders.output.join("summary.json");
    output_file::write_bytes(&place, "--output", format!("{json:#}\n").as_bytes())?;
    Ok(Report {
        text: summary.text(arguments.output.as_deref()),
        json,
        exit: summary.exit(),
    })
}

/// The run file with what the flags say, and its template.
fn raw_run(arguments: &LocalArgs) -> Result<(RawRunFile, Option<PathBuf>), Failure> {
    let (mut raw, template) = match &arguments.run {
        None => (RawRunFile::default(), None),
        Some(path) => {
            let text = files::read_text(path, "--run")?;
            let mut raw = RawRunFile::parse(&text).map_err(|e| make::run_failure(path, &e))?;
            let template = template::settle(&mut raw, path)?;
            (raw, template)
        }
    };
    fn beat<T: Copy>(field: &mut Option<T>, flag: Option<T>) {
        if flag.is_some() {
            *field = flag;
        }
    }
    beat(&mut raw.privacy.epsilon, arguments.epsilon);
    beat(&mut raw.privacy.delta, arguments.delta);
    beat(&mut raw.run.pace_ms, arguments.pace_ms);
    beat(&mut raw.run.round_ms, arguments.round_ms);
    // A pace that was asked for stretches the deadline, unless that was given too.
    if arguments.round_ms.is_none() && raw.run.round_ms.is_none() {
        raw.run.round_ms = arguments.pace_ms.map(|pace| pace.saturating_add(1000));
    }
    Ok((raw, template))
}

/// A program goes with rounds, which need one, and with streams.
fn check_program(raw: &RawRunFile, program: Option<&Path>) -> Result<(), Failure> {
    match (raw.task().needs_program(), program) {
        (true, None) => Err(Failure::usage("nothing hands over what the rounds are of")
            .field("--program")
            .hint("name a program, and a folder with a file for each party: --program ./step --inputs DIR")),
        (false, Some(_)) if !parties::streams(raw) => Err(Failure::usage(
            "--program is for task = \"rounds\", and for streams",
        )
        .field("--program")
        .hint("leave it out, or write task = \"rounds\" into the run file (--run)")),
        _ => Ok(()),
    }
}

/// No range is right for whatever vectors there are.
fn no_clip(place: &Path) -> Failure {
    Failure::usage(format!(
        "{}: data.clip is missing: noise is made for a public range, and there is none for these vectors",
        place.display()
    ))
    .field("data.clip")
    .hint(
        "write it into a run file (--run): clip = { kind = \"l2\", radius = 1.0 } under [data] for vectors \
         of norm at most 1, or { kind = \"box\", low = [18, 80], high = [100, 220] } for columns; take it \
         from what is known of the quantities, never from the data",
    )
}

/// The whole run file, for so many parties; `place` is what messages call it.
fn resolve(mut raw: RawRunFile, parties: usize, place: &Path) -> Result<RunFile, Failure> {
    let shape = raw.data.shape.iter().flatten();
    let dimension = shape.fold(1usize, |all, extent| all.saturating_mul(*extent));
    let stretched = |run: &mut RawRunSettings| {
        time_outs::stretch(run, parties, dimension, time_outs::cores());
    };
    if raw.task().releases_in_sequence() {
        // Its stages take half of an iteration each.
        let mut stages = raw.run.clone();
        stretched(&mut stages);
        let iteration_ms = stages.settle_ms.map(|settle_ms| settle_ms.saturating_mul(2));
        raw.run.iteration_ms = raw.run.iteration_ms.or(iteration_ms);
        raw.run.join_ms = stages.join_ms;
    } else {
        stretched(&mut raw.run);
    }
    let run = raw
        .resolve(parties, Defaults::Local)
        .map_err(|e| make::run_failure(place, &e))?;
    run.supported().map_err(|e| make::run_failure(place, &e))?;
    make::among_machines(&run).map_err(|failure| failure.in_file(place))?;
    Ok(run)
}

fn gather_parties(
    arguments: &LocalArgs,
    mut raw: RawRunFile,
    folders: &Folders,
    seed: u64,
) -> Result<(RunFile, Vec<LocalParty>), Failure> {
    let place = arguments.run.clone().unwrap_or_else(|| PathBuf::from("local"));
    let resolve = |raw: RawRunFile, parties: usize| resolve(raw, parties, &place);
    // Everybody's own files.
    check_program(&raw, arguments.program.as_deref())?;
    if let (Some(inputs), true) = (&arguments.inputs, arguments.program.is_some()) {
        if raw.data.clip.is_none() {
            return Err(no_clip(&place));
        }
        let unit = parties::unit(&raw);
        let parties = parties::for_programs(inputs, arguments.nodes, unit)?;
        return Ok((resolve(raw, parties.len())?, parties));
    }
    if raw.task().takes_cells() {
        let inputs = arguments.inputs.as_ref().ok_or_else(|| {
            Failure::usage("statistics are of a table, and there is none to make up")
                .field("--inputs")
                .hint("give a folder with a .csv or .json for each party: --inputs DIR")
        })?;
        let parties = described::read(
            inputs,
            arguments.nodes,
            (&raw, &place),
            MostlyWords::by_flag(arguments.anyway),
        )?;
        return Ok((resolve(raw, parties.len())?, parties));
    }
    if let Some(inputs) = &arguments.inputs {
        let mut parties = parties::read(inputs, arguments.nodes, &raw)?;
        parties::shape(&mut raw, &mut parties)?;
        if raw.data.clip.is_none() && !parties::takes_features(&raw) {
            return Err(no_clip(&place));
        }
        return Ok((resolve(raw, parties.len())?, parties));
    }
    if parties::takes_features(&raw) {
        return Err(Failure::usage(
            "a model is fitted to rows, and equations are rows: there are none to make up",
        )
        .field("--inputs")
        .hint("give a folder with a table for each party: --inputs DIR"));
    }
    // Else made-up data: of patients in the demonstration, or plain vectors of a given length.
    let nodes = arguments.nodes.unwrap_or(8);
    if nodes < 3 {
        return Err(Failure::usage(format!(
            "--nodes is {nodes}; a private average needs at least 3 parties"
        ))
        .field("--nodes"));
    }
    let Some(dimension) = arguments.dimension else {
        demonstration::describe(&mut raw)?;
        let run = resolve(raw, nodes)?;
        return Ok((run, demonstration::parties(nodes, seed, folders.scratch.path())?));
    };
    if dimension == 0 {
        return Err(
            Failure::usage("--dimension is 0; a vector needs at least one coordinate").field("--dimension"),
        );
    }
    match &raw.data.shape {
        None => raw.data.shape = Some(vec![dimension]),
        Some(shape) if shape.iter().product::<usize>() == dimension => {}
        Some(shape) => {
            return Err(Failure::usage(format!(
                "--dimension {dimension} does not fit data.shape {shape:?}"
            ))
            .field("--dimension"));
        }
    }
    let run = resolve(raw, nodes)?;
    let parties = parties::synthesize(&run, nodes, seed, folders.scratch.path())?;
    Ok((run, parties))
}
