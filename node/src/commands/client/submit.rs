//! `undertone submit` and `undertone accept`: a vector for a plan.

use std::path::{Path, PathBuf};

use clap::Args;
use futures::stream::{self, StreamExt};
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commands::client::connection::Sent;
use crate::commands::client::daemon::{ApiArgs, Daemon, run};
use crate::commands::client::stream::EventOutput;
use crate::commands::client::{show, vector};
use crate::daemon::status::{RunStatus, Status};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::report::Report;
use crate::reporting::{input_file, output};
use crate::vector_file::formats;

/// The flags that say what this party contributes.
#[derive(Args, Debug)]
#[group(id = "contribution", multiple = true)]
pub(super) struct ContributionArguments {
    /// The private vector or rows; sent to the daemon
    ///
    /// A vector or a matrix of records: .npy, .csv, .json or .safetensors.
    #[arg(long, value_name = "X", conflicts_with = "data_file")]
    input: Option<PathBuf>,
    #[arg(
        long,
        value_name = "NAME",
        help = "The same by its name in the daemon's data folder"
    )]
    data_file: Option<String>,
    /// The data set whose budget pays
    ///
    /// Without --input and --data-file, its own file is the vector.
    #[arg(long, value_name = "NAME")]
    data_set: Option<String>,
    /// How many records the input is a sum of
    ///
    /// Where the plan says at most how many this party contributes. Of a table it is the number of
    /// its rows.
    #[arg(long, value_name = "N")]
    records: Option<u32>,
}

impl ContributionArguments {
    fn empty(&self) -> bool {
        self.input.is_none() && self.data_file.is_none() && self.data_set.is_none()
    }

    /// A path with what is named as its query.
    fn query(&self, path: &str) -> String {
        let records = self.records.map(|records| records.to_string());
        let named = [
            ("data_file", &self.data_file),
            ("data_set", &self.data_set),
            ("records", &records),
        ];
        let mut query = form_urlencoded::Serializer::new(format!("{path}?"));
        query.extend_pairs(
            named
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.as_ref()?))),
        );
        query.finish()
    }

    fn body(&self) -> Result<Sent, Failure> {
        self.input.as_deref().map_or(Ok(Sent::default()), vector::opened)
    }

    /// The daemon's refusal with the file's name, which the daemon does not know.
    fn named(&self, failure: Failure) -> Failure {
        let Some(path) = self
            .input
            .as_ref()
            .filter(|_| failure.field.as_deref() == Some("vector"))
        else {
            return failure;
        };
        let message = failure
            .message
            .replacen("the vector", &path.display().to_string(), 1);
        Failure { message, ..failure }.field("--input")
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
    /// Let the daemon plan it, and offer it to all
    ///
    /// It makes the plan from a run file, and offers it to all members; with a vector it takes part
    /// itself.
    #[arg(long, value_name = "RUN.toml", conflicts_with = "plan")]
    propose: Option<PathBuf>,
    #[command(flatten)]
    contribution: ContributionArguments,
    /// Follow the run to its end, and exit as `join` does
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
    contribution: ContributionArguments,
    /// Follow the run to its end, and exit as `join` does
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
        (Some(run_file), _) => propose(&daemon, run_file, &arguments.contribution, wait),
        (None, Some(plan)) => {
            arguments.contribution.check()?;
            let (vector, contents) = (arguments.contribution.body()?, read(plan, "PLAN.json")?);
            let run_status = run(async {
                let plan: Value = daemon.hand_in(contents, formats::JSON).await?;
                let digest = plan["digest"].as_str().unwrap_or_default();
                let place = arguments.contribution.query(&format!("/v1/runs/{digest}"));
                daemon.bring_own(Method::PUT, &place, vector).await
            });
            taken(
                &daemon,
                run_status.map_err(|failure| arguments.contribution.named(failure))?,
                wait,
            )
        }
        (None, None) => Err(Failure::usage("no plan is named")
            .field("PLAN.json")
            .hint("name a plan, or --propose RUN.toml")),
    }
}

/// Takes part in a plan that somebody offered.
pub fn accept(arguments: AcceptArgs, json: bool) -> Result<Report, Failure> {
    let daemon = arguments.api.daemon()?;
    arguments.contribution.check()?;
    let vector = arguments.contribution.body()?;
    let run_status = run(async {
        let digest = daemon.digest(&arguments.digest, "offers").await?;
        let place = arguments
            .contribution
            .query(&format!("/v1/offers/{digest}/accept"));
        daemon.bring_own(Method::POST, &place, vector).await
    });
    let run_status = run_status.map_err(|failure| arguments.contribution.named(failure))?;
    taken(&daemon, run_status, arguments.wait.then_some(json))
}

/// `wait`: to the end of this node's run; whether its events are not to be shown, because one JSON
/// object is.
fn propose(
    daemon: &Daemon,
    run_file: &Path,
    contribution: &ContributionArguments,
    wait: Option<bool>,
) -> Result<Report, Failure> {
    let (vector, contents) = (contribution.body()?, read(run_file, "--propose")?);
    let proposed = run(async {
        let plan: Value = daemon.hand_in(contents, "application/toml").await?;
        let digest = plan["digest"].as_str().unwrap_or_default();
        let place = contribution.query(&format!("/v1/offers/{digest}"));
        let mut proposed: Value = daemon.bring(Method::PUT, &place, vector).await?;
        proposed["quote"] = plan["quote"].clone();
        if let Some(own) = proposed["run"]["digest"].as_str() {
            daemon.tell_owner(own).await;
        }
        Ok(proposed)
    });
    let proposed = proposed.map_err(|failure| contribution.named(failure))?;
    let text = show::proposed(&proposed);
    let digest = proposed["digest"].as_str().unwrap_or_default();
    let place = run(daemon.output())?;
    let Some(json) = wait else {
        let text = text + &show::next_commands(digest, place.as_deref());
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
    ended(daemon, own, json)
}

/// Follows a run to its end, and says where its mean and receipt lie.
fn ended(daemon: &Daemon, digest: &str, json: bool) -> Result<Report, Failure> {
    let sink = EventOutput::open(None, json)?;
    run(async {
        let mut report = daemon.until_end(digest, sink).await?;
        if report.exit == Exit::Done.code() {
            let output = daemon.output().await?;
            report.text += "\n";
            report.text += &show::place_of_result(digest, output.as_deref(), "The run is over");
        }
        Ok(report)
    })
}

fn taken(daemon: &Daemon, status: RunStatus, wait: Option<bool>) -> Result<Report, Failure> {
    if let Some(json) = wait {
        return ended(daemon, &status.digest, json);
    }
    let output = run(daemon.output())?;
    let text = show::run(&status) + &show::next_commands(&status.digest, output.as_deref());
    Ok(Report::done(show::object(&status), text))
}

impl Daemon {
    /// The folder to which the daemon copies means and receipts, if it does.
    async fn output(&self) -> Result<Option<String>, Failure> {
        let status: Status = self.get("/v1/status?limit=0").await?;
        Ok(status.output)
    }

    /// Hands in a plan, or a run file to make one of.
    async fn hand_in(&self, contents: Vec<u8>, media_type: &'static str) -> Result<Value, Failure> {
        let length = contents.len() as u64;
        let whole = stream::once(async { Ok(Bytes::from(contents)) }).boxed();
        let sent = Sent {
            headers: vec![(header::CONTENT_TYPE, HeaderValue::from_static(media_type))],
            body: Some((whole, length)),
        };
        self.send(Method::POST, "/v1/plans", sent).await?.object().await
    }

    /// Brings what makes a run, and tells the owner of its table.
    async fn bring_own(&self, method: Method, place: &str, vector: Sent) -> Result<RunStatus, Failure> {
        let taken: RunStatus = self.bring(method, place, vector).await?;
        self.tell_owner(&taken.digest).await;
        Ok(taken)
    }

    async fn bring<T: DeserializeOwned>(
        &self,
        method: Method,
        place: &str,
        vector: Sent,
    ) -> Result<T, Failure> {
        self.send(method, place, vector).await?.object().await
    }
}

fn read(path: &Path, field: &str) -> Result<Vec<u8>, Failure> {
    input_file::read(path, u64::MAX)
        .map_err(|e| Failure::usage(format!("{}: cannot be read: {e}", path.display())).field(field))
}
