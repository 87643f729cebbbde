//! `undertone result`: a run's mean and receipt as files.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use hyper::Method;
use hyper::header::{self, HeaderValue};
use serde_json::{Value, json};

use crate::commands::client::connection::{Answer, Sent};
use crate::commands::client::daemon::{ApiArgs, run};
use crate::commands::client::schedule::latest_result;
use crate::commands::client::show;
use crate::commands::from_peers::FromPeers;
use crate::daemon::status::RunStatus;
use crate::party::receipt;
use crate::planning::revoked::KnownKeys;
use crate::reporting::failure::Failure;
use crate::reporting::output_file::{self, OutputFile};
use crate::reporting::report::Report;

/// Flags of `result`.
#[derive(Args, Debug)]
#[group(id = "files", required = true, multiple = true, args = ["output", "receipt"])]
pub struct ResultArgs {
    /// The run's digest; its first digits will do
    ///
    /// Or a schedule's name, for its latest result. With --from-peers: the plan's file.
    #[arg(value_name = "DIGEST")]
    digest: String,
    /// Where to write the mean: .npy or .json; .csv or .safetensors if the input was one
    #[arg(long, value_name = "MEAN")]
    output: Option<PathBuf>,
    /// Where to write the receipt; its signature goes to FILE.sig
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// Ask the other members' daemons instead, after `join` ended in the middle of a run
    ///
    /// A result counts once at least two members, and more than privacy.colluding, give the same.
    #[arg(long, requires = "identity", conflicts_with_all = ["api", "token_file", "config"])]
    from_peers: bool,
    /// This party's key, for --from-peers
    #[arg(long, value_name = "FILE", requires = "from_peers", hide_short_help = true)]
    identity: Option<PathBuf>,
    #[command(flatten)]
    known: KnownKeys,
    #[command(flatten)]
    api: ApiArgs,
}

impl ResultArgs {
    /// The files to go by where the other members are asked.
    ///
    /// # Errors
    /// A file that cannot be written, or a format that there is none of (exit 2).
    pub fn of_peers(&self) -> Result<Option<FromPeers<'_>>, Failure> {
        let Some(identity) = self.identity.as_deref().filter(|_| self.from_peers) else {
            return Ok(None);
        };
        self.output.as_deref().map(media_type).transpose()?;
        check_outputs(self)?;
        Ok(Some(FromPeers {
            plan: Path::new(&self.digest),
            identity,
            known: &self.known,
            output: self.output.as_ref(),
            receipt: self.receipt.as_ref(),
        }))
    }
}

/// Writes what a run gave.
pub fn result(arguments: ResultArgs) -> Result<Report, Failure> {
    let daemon = arguments.api.daemon()?;
    let media_type = arguments.output.as_deref().map(media_type).transpose()?;
    check_outputs(&arguments)?;
    run(async {
        let digest = match latest_result(&daemon, &arguments.digest).await? {
            Some(digest) => digest,
            None => daemon.digest(&arguments.digest, "runs").await?,
        };
        let at = |what: &str| format!("/v1/runs/{digest}{what}");
        // The receipt first: there is one even where there is no mean, or no folder of the run any
        // more.
        if let Some(path) = &arguments.receipt {
            write(path, "--receipt", daemon.ask(Method::GET, &at("/receipt")).await?).await?;
            let signature = daemon.ask(Method::GET, &at("/receipt.sig")).await?;
            write(&receipt::signature_of(path), "--receipt", signature).await?;
        }
        if let (Some(path), Some(media_type)) = (&arguments.output, media_type) {
            let headers = vec![(header::ACCEPT, HeaderValue::from_static(media_type))];
            let mean = daemon
                .send(Method::GET, &at("/result"), Sent { headers, body: None })
                .await?;
            write(path, "--output", mean).await?;
        }
        let run: Option<RunStatus> = match &arguments.output {
            Some(_) => Some(daemon.get(&at("")).await?),
            None => daemon.get(&at("")).await.ok(),
        };
        Ok(report(&arguments, run.as_ref()))
    })
}

fn report(arguments: &ResultArgs, run: Option<&RunStatus>) -> Report {
    let mut text = String::new();
    let mut object = run.map_or_else(
        || json!({ "digest": arguments.digest, "exit_code": 0 }),
        show::object,
    );
    for (name, path) in [("output", &arguments.output), ("receipt", &arguments.receipt)] {
        object[name] = path
            .as_ref()
            .map_or(Value::Null, |path| path.display().to_string().into());
    }
    if let (Some(path), Some(run)) = (&arguments.output, run) {
        text += &format!(
            "The mean of {} of {} parties is in {}.\n",
            run.included.len(),
            run.parties,
            path.display()
        );
    }
    if let Some(path) = &arguments.receipt {
        text += &format!(
            "The receipt is in {}, its signature in {}.sig.\n",
            path.display(),
            path.display()
        );
    }
    if let Some(run) = run {
        text += &format!("\n{}", show::run(run));
    }
    Report::done(object, text)
}

fn media_type(path: &Path) -> Result<&'static str, Failure> {
    match output_file::extension_of(path).as_deref() {
        Some("npy") => Ok("application/x-npy"),
        Some("json") => Ok("application/json"),
        Some("csv") => Ok("text/csv"),
        Some("safetensors") => Ok("application/x-safetensors"),
        _ => Err(Failure::usage(format!(
            "{}: its extension is no format of a mean",
            path.display()
        ))
        .field("--output")
        .hint("end it in .npy, .json, .csv or .safetensors")),
    }
}

/// Looks at what will be written before the daemon is asked.
fn check_outputs(arguments: &ResultArgs) -> Result<(), Failure> {
    let (output, receipt) = (arguments.output.as_deref(), arguments.receipt.as_deref());
    if let Some(receipt) = receipt {
        output_file::check_named(receipt, "--receipt", ("the receipt", "json"))?;
    }
    let signature = receipt.map(receipt::signature_of);
    let receipts = receipt.into_iter().chain(signature.as_deref());
    let written: Vec<(&Path, &str)> = output
        .map(|path| (path, "--output"))
        .into_iter()
        .chain(receipts.map(|path| (path, "--receipt")))
        .collect();
    for (path, flag) in &written {
        OutputFile::of_flag(path, flag)?;
    }
    output_file::apart([], written)
}

/// The file appears whole or not at all.
async fn write(path: &Path, flag: &str, mut answer: Answer) -> Result<(), Failure> {
    let refused = |e: std::io::Error| output_file::unwritten(path, flag, &e);
    let mut file = OutputFile::at(path)
        .and_then(OutputFile::begin)
        .map_err(refused)?;
    while let Some(piece) = answer.piece().await? {
        file.write_all(&piece).map_err(refused)?;
    }
    file.finish().map_err(refused)
}
