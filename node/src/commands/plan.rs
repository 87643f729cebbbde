//! `undertone plan` and `undertone verify`.

use std::path::PathBuf;

use clap::Args;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::raw::RawRunFile;

use crate::commands::local::parties;
use crate::planning::policy::{self, Policy};
use crate::planning::revoked::KnownKeys;
use crate::planning::utility::Utility;
use crate::planning::{alternatives, brief, files, make, plot, quote};
use crate::reporting::failure::Failure;
use crate::reporting::output_file::{self, OutputFile};
use crate::reporting::report::Report;

/// Flags of `plan`.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// The run file: task, clipping, privacy target, time-outs
    #[arg(value_name = "RUN.toml")]
    run: PathBuf,
    /// The peer list, in plan order
    #[arg(long, value_name = "PEERS.toml")]
    peers: PathBuf,
    /// A file like the parties': its shape and columns
    ///
    /// Shape, columns and tensors that the run file leaves out are this file's. None of its values
    /// gets into the plan.
    #[arg(long, value_name = "FILE")]
    like: Option<PathBuf>,
    /// Where to write the plan; send this very file to every member
    #[arg(long, value_name = "PLAN.json")]
    out: PathBuf,
    /// Draw the error against epsilon and against the share of parties gone, as SVG
    #[arg(long, value_name = "QUOTE.svg")]
    plot: Option<PathBuf>,
    /// Print everything that is known of the plan
    ///
    /// All claims and what each rests on, noise, errors with parties gone and at other ε, and what
    /// the plan could use instead. Without it the quote fits on one screen; --json has all of it.
    #[arg(long)]
    full: bool,
}

/// Flags of `verify`.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// The plan
    #[arg(value_name = "PLAN.json")]
    plan: PathBuf,
    /// Print everything that is known of the plan
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    policy: Policy,
    #[command(flatten)]
    known: KnownKeys,
}

/// Looks at what will be written before the plan is calibrated, which may take minutes.
fn check_outputs(arguments: &PlanArgs) -> Result<(), Failure> {
    let (out, plot) = (&*arguments.out, arguments.plot.as_deref());
    output_file::check_named(out, "--out", ("a plan", "json"))?;
    OutputFile::of_flag(out, "--out")?;
    plot.map_or(Ok(()), plot::check)?;
    let points = plot.map(|plot| plot.with_extension("csv"));
    output_file::apart(
        [(&*arguments.run, "RUN.toml"), (&*arguments.peers, "--peers")],
        [(out, "--out")].into_iter().chain(
            plot.into_iter()
                .chain(points.as_deref())
                .map(|path| (path, "--plot")),
        ),
    )
}

/// Makes a plan from files.
pub fn plan(arguments: PlanArgs) -> Result<Report, Failure> {
    check_outputs(&arguments)?;
    let peers = Peers::parse(&files::read_text(&arguments.peers, "--peers")?)
        .map_err(|e| make::peers_failure(&arguments.peers, &e))?;
    let text = files::read_text(&arguments.run, "RUN.toml").map_err(|failure| {
        failure.hint("`undertone example DIR` writes a run file to start from, DIR/run.toml")
    })?;
    let like = |raw: &mut RawRunFile| match &arguments.like {
        Some(file) => parties::describe_like(raw, file),
        None => Ok(()),
    };
    let run = make::run_file_beside(&text, &peers, &arguments.run, like)?;
    let plan = make::make(run, &peers, rand::random()).map_err(|failure| failure.in_file(&arguments.run))?;
    files::write_plan(&arguments.out, &plan)?;
    if let Some(path) = &arguments.plot {
        plot::quote(&plan, path)?;
    }
    if Utility::of(&plan).is_noise() {
        tracing::warn!("the result of this plan would be nothing but noise: see what its quote says");
    }
    let ways = alternatives::of(&plan);
    let mut text = match arguments.full {
        true => quote::comparing_text(&plan, &ways),
        false => brief::text(&plan, &ways),
    };
    let full = match arguments.full {
        true => "",
        false => " (with --full: everything that is known of it)",
    };
    text += &format!(
        "\nPlan {}\nis in {}. Send that very file to every member, who checks it:\n  undertone verify {}{full}\n",
        plan.digest_hex(),
        arguments.out.display(),
        arguments.out.display(),
    );
    Ok(Report::done(quote::comparing_json(&plan, &ways), text))
}

/// Checks a plan as a member would before joining.
pub fn verify(arguments: VerifyArgs) -> Result<Report, Failure> {
    let plan = files::load(&arguments.plan)?;
    arguments.known.check(&plan)?;
    policy::check_aloud(&plan, &arguments.policy)?;
    let mut json = quote::json(&plan);
    json["verified"] = true.into();
    let quoted = match arguments.full {
        true => quote::text(&plan),
        false => brief::text(&plan, &[]),
    };
    Ok(Report::done(json, verdict(&plan, &arguments.policy) + &quoted))
}

/// Says what was checked, and that it holds: the first thing that a member wants to know.
fn verdict(plan: &Plan, policy: &Policy) -> String {
    let claims = plan.calibration().claims.len();
    let within = match policy.max_epsilon {
        Some(most) => format!("ε at most {most}, "),
        None => String::new(),
    };
    format!(
        "The plan holds: all of its {claims} claims were computed again. It is within your policy \
         ({within}coalitions of {} or more).\nPlan {}\n\n",
        policy.min_colluders,
        plan.digest_hex()
    )
}
