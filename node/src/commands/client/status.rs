//! `undertone status`, `undertone withdraw` and `undertone decline`.

use clap::Args;
use hyper::Method;

use crate::commands::client::daemon::{ApiArgs, run};
use crate::commands::client::show;
use crate::daemon::status::{OfferState, OfferStatus, Readiness, RunStatus, Status};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// Flags of `status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// One run or offer, by the first digits of its digest
    ///
    /// Default: the whole daemon.
    #[arg(value_name = "DIGEST")]
    digest: Option<String>,
    /// Only whether a run could be taken now: then exit 0
    ///
    /// For health checks: without looking for the peers.
    #[arg(long, conflicts_with = "digest")]
    ready: bool,
    /// The newest N of what is over [default: all]
    ///
    /// Leaves out runs that are over, and offers that are not open, but for the newest N of each.
    #[arg(long, value_name = "N", conflicts_with_all = ["digest", "ready"])]
    limit: Option<u32>,
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

/// Flags of `decline`.
#[derive(Args, Debug)]
pub struct DeclineArgs {
    /// The offered plan's digest; its first digits will do
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
        let damaged = readiness
            .damaged
            .iter()
            .map(|file| format!("Damaged, and not served: {file}\n"));
        let closed = readiness
            .closed
            .iter()
            .map(|set| format!("Closed since a restore: data set {set:?} takes no run\n"));
        let ready = std::iter::once("Ready.\n".to_owned());
        let text = ready.chain(closed).chain(damaged).collect();
        return Ok(Report::done(show::object(&readiness), text));
    }
    run(async {
        let Some(given) = &arguments.digest else {
            let limit = arguments
                .limit
                .map_or(String::new(), |limit| format!("?limit={limit}"));
            let status: Status = daemon.get(&format!("/v1/status{limit}")).await?;
            return Ok(Report::done(show::object(&status), show::status(&status)));
        };
        match daemon.digest(given, "runs").await {
            Ok(digest) if daemon.knows(&digest, "runs").await? => {
                let run: RunStatus = daemon.get(&format!("/v1/runs/{digest}")).await?;
                daemon.tell_owner(&digest).await;
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

/// Says no to an offer, so that it waits no longer.
pub fn decline(arguments: DeclineArgs) -> Result<Report, Failure> {
    let daemon = arguments.api.daemon()?;
    let offer: OfferStatus = run(async {
        let digest = daemon.digest(&arguments.digest, "offers").await?;
        daemon
            .ask(Method::DELETE, &format!("/v1/offers/{digest}"))
            .await?
            .object()
            .await
    })?;
    let (name, digest, proposer) = (&offer.name, show::short(&offer.digest), &offer.proposer);
    let text = match offer.state {
        OfferState::Declined => format!("Declined: {name} ({digest}), proposed by {proposer}.\n"),
        _ => format!("{name} ({digest}), proposed by {proposer}, had ended before: nobody waits for it.\n"),
    };
    Ok(Report::done(show::object(&offer), text))
}
