//! `undertone submit` and `undertone accept`: a vector for a plan.

use std::path::{Path, PathBuf};

use clap::Args;
use hyper::Method;
use serde_json::Value;

use crate::commands::client::daemon::{ApiArgs, Daemon, run};
use crate::commands::client::form::Form;
use crate::commands::client::show;
use crate::commands::client::stream::EventOutput;
use crate::daemon::status::RunStatus;
use crate::telling::failure::Failure;
use crate::telling::report::Report;
use crate::telling::{input_file, output};

/// What this party brings.
#[derive(Args, Debug)]
#[group(id = "brings", multiple = true)]
pub(super) struct Brings {
    /// The private vector, or a matrix of records: .npy, .csv, .json or .safetensors; it is sent to
    /// the daemon
    #[arg(long, value_name = "X", conflicts_with = "data_file")]
    input: Option<PathBuf>,
    #[arg(
        long,
        value_name = "NAME",
        help = "The same by its name in the daemon's data folder"
    )]
    data_file: Option<String>,
    /// The data set whose budget pays; alone, its file is the vector
    #[arg(long, value_name = "NAME")]
    data_set: Option<String>,
}

impl Brings {
    fn empty(&self) -> bool {
        self.input.is_none() && self.data_file.is_none() && self.data_set.is_none()
    }

    fn add_to(&self, mut form: Form) -> Result<Form, Failure> {
        // Short parts first: what is wrong with them is found before the long one is sent.
        for (name, value) in [("data_file", &self.data_file), ("data_set", &self.data_set)] {
            if let Some(value) = value {
                form = form.text(name, value);
            }
        }
        match &self.input {
            Some(path) => form.file("vector", path),
            None => Ok(form),
        }
    }

    fn check(&self) -> Result<(), Failure> {
        if self.empty() {
            return Err(Failure::usage("no vector is named")
                .field("--input")
                .hint("add --input X, --data-file NAME or --data-set NAME"));
        }
        Ok(())
    }
}

/// Flags of `submit`.
#[derive(Args, Debug)]
pub struct SubmitArgs {
    /// The plan, byte for byte the file that everybody has
    #[arg(value_name = "PLAN.json", required_unless_present = "propose")]
    plan: Option<PathBuf>,
    /// Let the daemon make the plan from a run file, and offer it to all members; with a vector it
    /// takes part itself
    #[arg(long, value_name = "RUN.toml", conflicts_with = "plan")]
    propose: Option<PathBuf>,
    #[command(flatten)]
    brings: Brings,
    /// Follow this node's run to its end, and exit as `undertone join` would have
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    api: ApiArgs,
}

/// Flags of `accept`.
#[derive(Args, Debug)]
pub struct AcceptArgs {
    /// The offered plan's digest; its first digits will do
    #[arg(value_name = "DIGEST")]
    digest: String,
    #[command(flatten)]
    brings: Brings,
    /// Follow this node's run to its end, and exit as `undertone join` would have
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    api: ApiArgs,
}

/// Hands a plan and a vector to the daemon, or lets it propose a run.
pub fn submit(arguments: SubmitArgs, json: bool) -> Result<Report, Failure> {
    let daemon = arguments.api.daemon()?;
    let wait = arguments.wait.then_some(json);
    match (&arguments.propose, &arguments.plan) {
        (Some(run_file), _) => propose(&daemon, run_file, &arguments.brings, wait),
        (None, Some(plan)) => {
            arguments.brings.check()?;
            let contents = read(plan, "PLAN.json")?;
            let form = arguments
                .brings
                .add_to(Form::new().contents("plan", plan, contents))?;
            taken(&daemon, run(daemon.post("/v1/runs", form))?, wait)
        }
        (None, None) => Err(Failure::usage("no plan is named")
            .field("PLAN.json")
            .hint("name a plan, or --propose RUN.toml")),
    }
}

/// Takes part in a plan that somebody offered.
pub fn accept(arguments: AcceptArgs, json: bool) -> Result<Report, Failure> {
    let daemon = arguments.api.daemon()?;
    arguments.brings.check()?;
    let form = arguments.brings.add_to(Form::new())?;
    let run_status = run(async {
        let digest = daemon.digest(&arguments.digest, "offers").await?;
        daemon.post(&format!("/v1/offers/{digest}/accept"), form).await
    })?;
    taken(&daemon, run_status, arguments.wait.then_some(json))
}

/// `wait`: to the end of this node's run; whether its events are not to be shown, because one JSON
/// object is.
fn propose(daemon: &Daemon, run_file: &Path, brings: &Brings, wait: Option<bool>) -> Result<Report, Failure> {
    let contents = read(run_file, "--propose")?;
    let form = brings.add_to(Form::new().contents("run", run_file, contents))?;
    let proposed: Value = run(daemon.post("/v1/offers", form))?;
    let text = show::proposed(&proposed);
    let Some(json) = wait else {
        return Ok(Report::done(proposed, text));
    };
    if !json {
        output::print(&text)?;
    }
    let own = proposed["run"]["digest"].as_str().ok_or_else(|| {
        Failure::usage(
            "the plan was offered, but this node takes no part in it, so that there is no run to wait for",
        )
        .field("--wait")
        .hint("add --input X, --data-file NAME or --data-set NAME")
    })?;
    run(daemon.until_end(own, EventOutput::open(None, json)?))
}

fn taken(daemon: &Daemon, status: RunStatus, wait: Option<bool>) -> Result<Report, Failure> {
    if let Some(json) = wait {
        return run(daemon.until_end(&status.digest, EventOutput::open(None, json)?));
    }
    let text = format!(
        "{}\nFollow it:  undertone watch {}\n",
        show::run(&status),
        show::short(&status.digest)
    );
    Ok(Report::done(show::object(&status), text))
}

impl Daemon {
    async fn post<T: serde::de::DeserializeOwned>(&self, path: &str, form: Form) -> Result<T, Failure> {
        self.send(Method::POST, path, form.sent()).await?.object().await
    }
}

fn read(path: &Path, field: &str) -> Result<Vec<u8>, Failure> {
    input_file::read(path, u64::MAX)
        .map_err(|e| Failure::usage(format!("{}: cannot be read: {e}", path.display())).field(field))
}
