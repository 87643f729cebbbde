//! A daemon that restarted in the middle of a run reads its result from the other members, and
//! gives others the outcomes that it has: see [`reading_back`].

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use libp2p::PeerId;
use serde_json::Value;
use tokio::time::sleep;
use undertone_protocol::messages::question::Reply;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::daemon::charged::Iterations;
use crate::daemon::mean_file::MeanFile;
use crate::daemon::outcome_file;
use crate::daemon::published::hand_out;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::runs::Run;
use crate::daemon::service::Service;
use crate::daemon::shared::Shared;
use crate::daemon::status::RunState;
use crate::network::links::LinkNews;
use crate::party::agreed_outcome::AgreedOutcome;
use crate::party::figures_file::FiguresFile;
use crate::party::receipt::resumed::{ChargedAtRestart, receipt};
use crate::party::receipt::write;
use crate::party::{input, part, reading_back};
use crate::planning::{files, template};
use crate::reporting::failure::{Exit, Failure};
use crate::table_file::reading::MostlyWords;
use crate::vector_file::layout::{Dtype, Layout};

/// Between the first two times at which the others are asked. Our guess: who has just come back may
/// be the first of several.
const SOON: Duration = Duration::from_secs(1);

/// Between two such times at the latest. Our choice: a result is wanted within a minute of the
/// moment at which enough members have it and are up.
const SELDOM: Duration = Duration::from_secs(60);

/// Between two such times where everybody has answered, and too few have a result. Our choice: they
/// seldom have one later, as those do who are read from themselves.
const HARDLY: Duration = Duration::from_secs(3600);

/// The reasons why there is no result yet.
enum Unread {
    /// Members that have one may answer later.
    Yet(Refusal),
    /// All have answered.
    Answered(Refusal),
}

impl From<Refusal> for Unread {
    fn from(refusal: Refusal) -> Self {
        Unread::Yet(refusal)
    }
}

impl Service {
    /// Reads the results of runs that an earlier daemon was in the middle of, in the background.
    pub(super) fn read_results_back(&self) {
        for run in self.shared.runs.all() {
            if !is_unread(&self.shared, &run) {
                continue;
            }
            let (service, mut links) = (self.downgrade(), self.hub().links());
            let why = run.status().reason.unwrap_or_default();
            self.in_background(async move {
                let mut pause = SOON;
                while let Some(service) = service.upgrade() {
                    links.skip();
                    let (refusal, longest) = match service.try_to_read(&run).await {
                        Ok(()) => return,
                        Err(Unread::Yet(refusal)) => (refusal, SELDOM),
                        Err(Unread::Answered(refusal)) => (refusal, HARDLY),
                    };
                    let digest = run.status().digest;
                    tracing::info!(digest, "no result from the other members yet: {refusal}");
                    run.update(|status| status.reason = Some(format!("{why}; {}", refusal.message)));
                    drop(service);
                    until_asked_again((pause, SOON), &mut links).await;
                    pause = (2 * pause).min(longest);
                }
            });
        }
    }

    /// Asks the members once. Done as well where nothing can ever come of it.
    async fn try_to_read(&self, run: &Arc<Run>) -> Result<(), Unread> {
        let digest = run.status().digest;
        let text = match self.plan(&digest).await {
            Ok(text) if is_unread(&self.shared, run) => text,
            // Its folder was deleted, or it is damaged and named elsewhere.
            _ => return Ok(()),
        };
        let plan = self
            .check(move || Ok(files::parse(text.as_bytes(), "the plan")?))
            .await?;
        let me = part::member(&plan, self.config().identity.peer_id()).map_err(Refusal::from)?;
        // Runs one after the other: members serve two streams of a peer at a time, and results may
        // be long.
        let _one = self.shared.reading.lock().await;
        let (folder, of) = (run.folder().to_owned(), plan.clone());
        let own = self.check(move || Ok(outcome_file::read(&folder, &of))).await?;
        let outcome = match own {
            Some(outcome) => outcome,
            None => match reading_back::read(self.hub(), &plan, me).await {
                Ok(outcome) => outcome,
                Err(why) => {
                    let refusal = Refusal::new(Kind::Unavailable, why.to_string());
                    return Err(match why.is_final() {
                        true => Unread::Answered(refusal),
                        false => Unread::Yet(refusal),
                    });
                }
            },
        };
        let (shared, run) = (self.shared.clone(), run.clone());
        let taken = tokio::task::spawn_blocking(move || take(&shared, &run, (&plan, me), &outcome));
        let taken = taken
            .await
            .map_err(|e| Refusal::new(Kind::Internal, e.to_string()))?;
        Ok(taken.map_err(Refusal::from)?)
    }

    /// The reply to a member that asks what came of a run: what all hold alike, and to members of
    /// its plan only.
    pub(super) async fn outcome_for(&self, peer: PeerId, digest: &str, from: u64) -> (Reply, Vec<u8>) {
        let none = |running| (Reply::NoOutcome { running }, vec![]);
        let Ok(run) = self.known(digest) else {
            return none(false);
        };
        // One that reads its result itself may have it in a moment.
        if !run.status().state.is_over() || is_unread(&self.shared, &run) {
            return none(true);
        }
        let read = tokio::task::spawn_blocking(move || match run.names(&peer)? {
            true => outcome_file::piece(run.folder(), from),
            false => Ok(None),
        });
        match read.await.map_err(io::Error::other).flatten() {
            Ok(piece) => piece.unwrap_or_else(|| none(false)),
            Err(error) => {
                tracing::error!(%error, digest, "the outcome of a run cannot be read");
                let reason = "its disk cannot be read now".to_owned();
                (Reply::Refused { reason }, vec![])
            }
        }
    }
}

/// Waits for the pause, or for a link that was not there, and `soon` after it for others that come
/// up with it. The asking itself makes links, too: so the others are asked twice at most.
async fn until_asked_again((pause, soon): (Duration, Duration), links: &mut LinkNews) {
    let linked = async {
        links.next().await;
        sleep(soon).await;
    };
    tokio::select! {
        () = sleep(pause) => {}
        () = linked => {}
    }
}

/// Whether a run was interrupted after it had cost something, and has no result.
fn is_unread(shared: &Shared, run: &Run) -> bool {
    let status = run.status();
    status.state == RunState::Interrupted && shared.ledger().charged(&status.digest).is_some()
}

/// The layout of the mean of a node that read no input: the plan's template, that of its data set's
/// file now, or plain numbers.
fn layout(shared: &Shared, run: &Run, (plan, me): (&Plan, Party)) -> Result<Layout, Failure> {
    let config = shared.config();
    if let Some(layout) = template::in_folder(plan, &config.data)? {
        return Ok(layout);
    }
    let set = run.status().data_set;
    let set = config
        .data_sets
        .iter()
        .find(|known| Some(&known.name) == set.as_ref());
    let file = set.and_then(|set| set.file.as_ref());
    let own =
        file.and_then(|file| part::own_data(plan, me, &config.data.join(file), MostlyWords::Refused).ok());
    let plain = Layout::npy(plan.draft().data.shape.clone(), Dtype::F64);
    let layout = own.as_ref().map_or(&plain, |own| own.layout());
    Ok(input::layout_of_mean(plan, layout))
}

/// The receipt that this node wrote of this very result before it was killed: there are no two of
/// one run.
fn own_receipt(folder: &Path, digest: &str, result_sha256: &str) -> Option<Value> {
    let text = std::fs::read(folder.join("receipt.json")).ok()?;
    let receipt: Value = serde_json::from_slice(&text).ok()?;
    let is_signed = folder.join("receipt.json.sig").exists();
    (is_signed && receipt["digest"] == digest && receipt["result_sha256"] == result_sha256).then_some(receipt)
}

/// Writes what was read: mean, receipt, the outcome for others, and the run's record last.
fn take(
    shared: &Shared,
    run: &Run,
    (plan, me): (&Plan, Party),
    outcome: &AgreedOutcome,
) -> Result<(), Failure> {
    let (folder, record) = (run.folder(), &outcome.record);
    let digest = plan.digest_hex();
    let charge = shared.ledger().charged(&digest);
    let charge = charge.ok_or_else(|| Failure::new(Exit::Internal, "the run was never charged"))?;
    let described = record.noise.and_then(|noise| {
        let rows = record.rows.unwrap_or(0.0);
        FiguresFile::of(plan, &outcome.mean, (noise, rows), &record.included)
    });
    let mean = match described {
        Some(figures) => MeanFile::write_figures(folder, &figures)?,
        None => MeanFile::write(folder, &layout(shared, run, (plan, me))?, &outcome.mean)?,
    };
    let charged = ChargedAtRestart {
        charge,
        iterations: match record.iterations {
            0 => 0,
            _ => Iterations::of(plan, me).paid_by(charge),
        },
    };
    let receipt = match own_receipt(folder, &digest, &mean.sha256) {
        Some(receipt) => receipt,
        None => {
            let receipt = receipt(plan, me, record, charged, &mean.sha256);
            let key = &shared.config().identity.keypair;
            write(&folder.join("receipt.json"), &receipt, key)?;
            receipt
        }
    };
    let unwritten = |e: std::io::Error| {
        Failure::storage(&e, format!("{}: cannot be written: {e}", folder.display())).field("state")
    };
    outcome_file::write(folder, outcome).map_err(unwritten)?;
    // The result is there, also where this copy of it cannot be made.
    let handed_out = hand_out(shared, run, Some(&mean));
    let completed = run.complete(mean, |status| {
        status.state = RunState::Ended;
        status.outcome = receipt["outcome"].as_str().map(str::to_owned);
        status.reason = receipt["reason"].as_str().map(str::to_owned);
        let exit = if receipt["outcome"] == "done" {
            Exit::Done
        } else {
            Exit::Degraded
        };
        status.exit_code = Some(exit.code());
        status.included = record.included.clone();
        status.epsilon = receipt["epsilon"].as_f64();
        status.unbounded = receipt["unbounded"] == true;
    });
    completed.map_err(unwritten)?;
    if let Err(failure) = handed_out {
        tracing::error!(digest, "{failure}");
        run.update(|status| status.reason = Some(failure.message));
    }
    tracing::info!(
        digest,
        "the result of a run that a restart had interrupted was read from other members"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::timeout;

    use super::*;
    use crate::network::links::LinkLog;

    #[tokio::test]
    async fn the_others_are_asked_again_once_one_has_come_up_and_else_after_the_pause() {
        let links = LinkLog::default();
        let mut news = links.news();
        let soon = Duration::from_secs(10);
        let again = until_asked_again((HARDLY, Duration::ZERO), &mut news);
        assert!(again.now_or_never().is_none());
        links.note(PeerId::random());
        let again = until_asked_again((HARDLY, Duration::ZERO), &mut news);
        timeout(soon, again).await.expect("there is news");
        let again = until_asked_again((Duration::ZERO, HARDLY), &mut news);
        timeout(soon, again).await.expect("the pause is over");
    }
}
