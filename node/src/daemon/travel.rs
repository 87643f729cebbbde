//! Plans travel: how this daemon offers one to the members over the public graph, and what it
//! answers when others do.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use libp2p::PeerId;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::accept_by::AcceptBy;

use crate::daemon::kept;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::service::Service;
use crate::daemon::status::{OfferState, RunState};
use crate::network::ask::{AskFault, Asked, NotTaken};

/// Questions of others that wait for an answer.
const QUESTIONS: usize = 16;

/// Offers of others that are looked at or wait for that: each holds a plan's bytes.
const LOOKED_AT: usize = 4;

/// How long whoever offers a plan waits to hear what is thought of it. Shorter than the hub's own
/// patience; after it the offer counts as taken.
const THOUGHT: Duration = Duration::from_secs(4);

/// How long a member may take to answer an offer.
const ANSWER: Duration = Duration::from_secs(15);

/// Between the first two attempts to reach a member. Our guess: a daemon that is being restarted is
/// back by then.
const AGAIN: Duration = Duration::from_secs(3);

/// Between two attempts at the latest. Our choice: offers are open for days.
const SELDOM: Duration = Duration::from_secs(60);

/// Answers what the hub cannot, until the daemon is gone.
pub(super) fn answer(service: &Service) {
    let (sender, mut questions) = mpsc::channel(QUESTIONS);
    service.hub().answer_with(sender);
    let service = service.downgrade();
    let places = Arc::new(Semaphore::new(LOOKED_AT));
    tokio::spawn(async move {
        while let Some(asked) = questions.recv().await {
            let Some(service) = service.upgrade() else {
                return;
            };
            match asked {
                Asked::Plan { peer, digest, answer } => {
                    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                    let _ = answer.send(service.word_for(&digest));
                    service.nudge(peer, &digest);
                }
                Asked::Offer { peer, plan, answer } => match places.clone().try_acquire_owned() {
                    Err(_) => drop(answer.send(Err(NotTaken::Busy))),
                    Ok(place) => {
                        tokio::spawn(async move {
                            service.consider(peer, plan, answer).await;
                            drop(place);
                        });
                    }
                },
            }
        }
    });
}

impl Service {
    /// The fate of a plan, in a word.
    fn word_for(&self, digest: &str) -> Option<String> {
        let offer = self.offer(digest).ok().map(|offer| offer.state);
        match (self.run(digest).ok().map(|run| run.state), offer) {
            (Some(RunState::Accepted | RunState::Waiting | RunState::Gathering | RunState::Running), _)
            | (None, Some(OfferState::Accepted)) => Some("accepted".into()),
            // A daemon that has just started takes it up in a moment.
            _ if kept::record(&self.shared.offers.folder(digest)).exists() => Some("accepted".into()),
            (Some(RunState::Ended | RunState::Withdrawn | RunState::Interrupted), _) => Some("over".into()),
            (None, Some(OfferState::Open)) => Some("open".into()),
            (None, Some(OfferState::Declined)) => Some("declined".into()),
            (None, Some(OfferState::Expired)) => Some("over".into()),
            (None, None) => None,
        }
    }

    /// A member asks about an offer that was accepted here: it may have accepted it just now.
    fn nudge(&self, peer: PeerId, digest: &str) {
        let Some(run) = self.shared.runs.get(digest) else {
            return;
        };
        let status = run.status();
        let is_news = |name: String| !status.accepted_by.contains(&name);
        if status.state == RunState::Accepted && self.proposer(peer).is_ok_and(is_news) {
            run.nudge.notify_one();
        }
    }

    /// Looks at an offer, and answers once it is known what becomes of it, or that it takes longer.
    async fn consider(&self, from: PeerId, plan: Vec<u8>, answer: oneshot::Sender<Result<(), NotTaken>>) {
        let mut answer = Some(answer);
        let mut tell = |said| answer.take().map(|answer| answer.send(said));
        let looked = self.receive_offer(from, plan);
        tokio::pin!(looked);
        let state = match timeout(THOUGHT, &mut looked).await {
            Ok(state) => state,
            Err(_) => {
                tell(Ok(()));
                looked.await
            }
        };
        match state {
            Ok(OfferState::Declined) => drop(tell(Err(NotTaken::Declined))),
            Ok(_) => drop(tell(Ok(()))),
            Err(refusal) => {
                tracing::warn!(%from, "an offered plan was refused: {refusal}");
                tell(Err(NotTaken::Unacceptable(refusal.for_others())));
            }
        }
    }

    /// Offers a plan to all other members: what each says to it. Those who cannot be reached are
    /// tried again in the background for as long as the offer is open.
    pub(super) async fn offer_to_members(&self, plan: &Plan) -> Vec<(String, String)> {
        let me = self.config().identity.peer_id();
        let others = plan.draft().members.iter().filter(|member| member.id != me);
        let others: Vec<(String, PeerId)> = others.map(|member| (member.name.clone(), member.id)).collect();
        let text: Arc<str> = plan.to_json().into();
        let said = join_all(
            others
                .iter()
                .map(|(_, peer)| self.offer_to(*peer, &text, *plan.digest())),
        )
        .await;
        let run = &plan.draft().run;
        let open_ms = run.accept_by.map_or(run.join_ms, AcceptBy::as_millis);
        let until = Instant::now() + Duration::from_millis(open_ms);
        for ((_, peer), _) in others.iter().zip(&said).filter(|(_, said)| said.is_err()) {
            let (service, peer, text, digest) = (self.clone(), *peer, text.clone(), *plan.digest());
            self.in_background(async move {
                let mut pause = AGAIN;
                while Instant::now() + pause < until {
                    sleep(pause).await;
                    pause = (2 * pause).min(SELDOM);
                    if service.offer_to(peer, &text, digest).await.is_ok() {
                        return;
                    }
                }
            });
        }
        let words = said
            .into_iter()
            .map(|said| said.unwrap_or_else(|why| format!("not reached: {why}")));
        others.into_iter().map(|(name, _)| name).zip(words).collect()
    }

    /// Offers the plan to one member and returns its answer, or why it cannot be reached.
    async fn offer_to(&self, peer: PeerId, plan: &str, digest: [u8; 32]) -> Result<String, AskFault> {
        let ask = async {
            let mut inquiry = self.hub().inquire(Network::Public, peer).await?;
            let (reply, _) = inquiry.ask(&Question::Offer, plan.as_bytes()).await?;
            if let Reply::Refused { reason } = reply {
                return Ok(format!("refused: {reason}"));
            }
            let (reply, _) = inquiry
                .ask(&Question::Check { digest: Some(digest) }, &[])
                .await?;
            Ok(match reply {
                Reply::Checked { plan: Some(word), .. }
                    if ["open", "declined", "over"].contains(&word.as_str()) =>
                {
                    word
                }
                // The hub of a member that takes part says where the run is.
                Reply::Checked { plan: Some(_), .. } => "accepted".into(),
                _ => "taken".into(),
            })
        };
        timeout(ANSWER, ask).await.unwrap_or(Err(AskFault::Silent))
    }

    /// Returns the proposer's name, if this node's peer list has it: other peers' plans are not
    /// looked at.
    pub(super) fn proposer(&self, from: PeerId) -> Result<String, Refusal> {
        let config = self.config();
        let peers = config.peers.as_slice();
        peers
            .iter()
            .find(|peer| peer.id == from)
            .map(|peer| peer.name.clone())
            .ok_or_else(|| Refusal::new(Kind::Policy, "the proposer is not in this node's peer list"))
    }
}
