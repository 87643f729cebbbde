//! `undertone status` and `undertone withdraw`.

use clap::Args;
use hyper::Method;

use super::{ApiArgs, Daemon, run, show};
use crate::cli::Report;
use crate::daemon::status::{OfferStatus, Readiness, RunStatus, Status};
use crate::failure::Failure;

/// Flags of `status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// One run or offer: its digest, or the first digits of it [default: the whole daemon]
    #[arg(value_name = "DIGEST")]
    digest: Option<String>,
    /// Only whether a run could be taken now, without looking for the peers: exit 0 if so (health checks)
    #[arg(long, conflicts_with = "digest")]
    ready: bool,
    #[command(flatten)]
    api: ApiArgs,
}

/// Flags of `withdraw`.
#[derive(Args, Debug)]
pub struct WithdrawArgs {
    /// The run's digest; its first digits will do
    #[arg(value_name = "DIGEST")]
    digest: String,
    #[command(flatten)]
    api: ApiArgs,
}

/// Shows the daemon, or one of its runs or offers.
pub fn status(arguments: StatusArgs) -> Result<Report, Failure> {
    let daemon = arguments.api.daemon()?;
    if arguments.ready {
        let readiness: Readiness = run(daemon.get("/readyz"))?;
        return Ok(Report::done(show::object(&readiness), "Ready.\n".into()));
    }
    run(async {
        let Some(given) = &arguments.digest else {
            let status: Status = daemon.get("/v1/status").await?;
            return Ok(Report::done(show::object(&status), show::status(&status)));
        };
        match daemon.digest(given, "runs").await {
            Ok(digest) if daemon.knows(&digest, "runs").await? => {
                let run: RunStatus = daemon.get(&format!("/v1/runs/{digest}")).await?;
                Ok(Report::done(show::object(&run), show::run(&run)))
            }
            _ => {
                let digest = daemon.digest(given, "offers").await?;
                let offer: OfferStatus = daemon.get(&format!("/v1/offers/{digest}")).await?;
                Ok(Report::done(show::object(&offer), show::offer(&offer)))
            }
        }
    })
}

/// Takes a run back that has not begun.
pub fn withdraw(arguments: WithdrawArgs) -> Result<Report, Failure> {
    let daemon = arguments.api.daemon()?;
    let withdrawn: RunStatus = run(async {
        let digest = daemon.digest(&arguments.digest, "runs").await?;
        daemon
            .ask(Method::DELETE, &format!("/v1/runs/{digest}"))
            .await?
            .object()
            .await
    })?;
    let text = format!(
        "Withdrawn: {} ({}). Nothing private has left this node.\n",
        withdrawn.name,
        show::short(&withdrawn.digest)
    );
    Ok(Report::done(show::object(&withdrawn), text))
}

/// Of a digest.
const DIGITS: usize = 64;

impl Daemon {
    /// The whole digest of one of the daemon's `runs` or `offers`, from its first digits.
    pub(super) async fn digest(&self, given: &str, of: &str) -> Result<String, Failure> {
        if given.is_empty() || !given.bytes().all(|b| b.is_ascii_hexdigit()) || given.len() > DIGITS {
            return Err(Failure::usage(format!(
                "{given:?} is no digest: 64 digits of hex, or the first of them"
            ))
            .field("DIGEST"));
        }
        let given = given.to_ascii_lowercase();
        if given.len() == DIGITS {
            return Ok(given);
        }
        let known = self.known(of).await?;
        match known
            .iter()
            .filter(|digest| digest.starts_with(&given))
            .collect::<Vec<_>>()[..]
        {
            [digest] => Ok(digest.clone()),
            [] => Err(unknown(&format!(
                "the daemon has no such thing among its {of}: {given}"
            ))),
            [..] => Err(unknown(&format!(
                "several of the daemon's {of} begin with {given}; give more digits"
            ))),
        }
    }

    async fn knows(&self, digest: &str, of: &str) -> Result<bool, Failure> {
        Ok(self.known(of).await?.iter().any(|known| known == digest))
    }

    async fn known(&self, of: &str) -> Result<Vec<String>, Failure> {
        let list: serde_json::Value = self.get(&format!("/v1/{of}")).await?;
        let digests = list[of]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|entry| entry["digest"].as_str());
        Ok(digests.map(String::from).collect())
    }
}

fn unknown(what: &str) -> Failure {
    Failure::usage(what)
        .field("DIGEST")
        .hint("`undertone status` lists them")
}
