//! Plans travel: how this daemon offers one to the members, and what it answers when others do. One
//! of a schedule has every member's number of records in it: it goes over encrypted connections
//! alone, the others over the public graph.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use libp2p::PeerId;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::accept_by::AcceptBy;
use undertone_protocol::plan::scheduled::Scheduled;

use crate::daemon::kept;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::service::Service;
use crate::daemon::status::{OfferState, RunState};
use crate::network::ask::{AskFault, Asked, NotTaken};

/// Questions of others that wait for an answer.
const QUESTIONS: usize = 16;

/// Offers of others that are looked at or wait for that: each holds a plan's bytes.
const LOOKED_AT: usize = 4;

/// Plans of schedules that are due and looked at: they have places of their own, since an attempt
/// has one proposer and little time.
const DUE_LOOKED_AT: usize = 2;

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
    let weak = service.downgrade();
    let places = Arc::new(OfferPlaces::new());
    service.in_background(async move {
        while let Some(asked) = questions.recv().await {
            let Some(service) = weak.upgrade() else {
                return;
            };
            match asked {
                Asked::Plan { peer, digest, answer } => {
                    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                    let _ = answer.send(service.word_for(&digest));
                    service.nudge(peer, &digest);
                }
                Asked::Attend {
                    peer,
                    scheduled,
                    answer,
                } => {
                    let daemon = service.clone();
                    daemon.in_background(async move {
                        let said = match service.is_early(scheduled) {
                            Some(time_ms) => Err(NotTaken::Early { time_ms }),
                            None => {
                                let said = service.attend(peer, scheduled).await;
                                said.map_err(|refusal| NotTaken::Unacceptable(refusal.for_others()))
                            }
                        };
                        drop(answer.send(said));
                    });
                }
                Asked::Outcome {
                    peer,
                    digest,
                    from,
                    answer,
                } => {
                    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                    let daemon = service.clone();
                    daemon.in_background(async move {
                        let _ = answer.send(service.outcome_for(peer, &digest, from).await);
                    });
                }
                Asked::Keys {
                    held,
                    statements,
                    answer,
                } => {
                    // Signatures, and files that are synced.
                    tokio::task::spawn_blocking(move || {
                        drop(answer.send(service.keys_for(held, &statements)))
                    });
                }
                Asked::Offer {
                    peer,
                    graph,
                    plan,
                    answer,
                } => match places.clone().of_peer(peer) {
                    None => drop(answer.send(Err(NotTaken::Busy))),
                    Some(place) => {
                        let daemon = service.clone();
                        daemon.in_background(async move {
                            service.consider(&place, (graph, plan), answer).await;
                        });
                    }
                },
            }
        }
    });
}

/// OfferPlaces for offers of others that are looked at.
struct OfferPlaces {
    peers: Mutex<BTreeSet<PeerId>>,
    due: Semaphore,
    others: Semaphore,
}

impl OfferPlaces {
    fn new() -> Self {
        OfferPlaces {
            peers: Mutex::default(),
            due: Semaphore::new(DUE_LOOKED_AT),
            others: Semaphore::new(LOOKED_AT),
        }
    }

    fn peers(&self) -> MutexGuard<'_, BTreeSet<PeerId>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one place that a peer may have, unless it has it.
    fn of_peer(self: Arc<Self>, peer: PeerId) -> Option<OfPeer> {
        let is_new = self.peers().insert(peer);
        is_new.then(|| OfPeer { places: self, peer })
    }
}

/// A peer whose offer is looked at, until this is dropped.
struct OfPeer {
    places: Arc<OfferPlaces>,
    peer: PeerId,
}

impl Drop for OfPeer {
    fn drop(&mut self) {
        self.places.peers().remove(&self.peer);
    }
}

impl Service {
    /// A place for an offer, before anything expensive is done with it. One of a schedule must be
    /// due, its proposer's, and have come over Noise: it has everybody's number of records in it.
    fn look_at<'a>(
        &self,
        place: &'a OfPeer,
        graph: Network,
        plan: &[u8],
    ) -> Result<SemaphorePermit<'a>, NotTaken> {
        let places = match Scheduled::named(plan) {
            None => &place.places.others,
            Some(_) if graph != Network::Private => {
                let reason = "plans of schedules are taken over encrypted connections only";
                return Err(NotTaken::Unacceptable(reason.to_owned()));
            }
            Some(scheduled) => {
                self.due(place.peer, scheduled).map_err(|refusal| {
                    tracing::warn!(from = %place.peer, "a schedule's plan was refused: {refusal}");
                    NotTaken::Unacceptable(refusal.for_others())
                })?;
                &place.places.due
            }
        };
        places.try_acquire().map_err(|_| NotTaken::Busy)
    }

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
    async fn consider(
        &self,
        place: &OfPeer,
        (graph, plan): (Network, Vec<u8>),
        answer: oneshot::Sender<Result<(), NotTaken>>,
    ) {
        let from = place.peer;
        let _permit = match self.look_at(place, graph, &plan) {
            Ok(permit) => permit,
            Err(not_taken) => return drop(answer.send(Err(not_taken))),
        };
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

    /// Offers a plan to all other members: what each says to it. Those who cannot be reached, or
    /// look at other offers, are tried again in the background for as long as the offer is open.
    pub(super) async fn offer_to_members(&self, plan: &Plan) -> Vec<(String, String)> {
        let me = self.config().identity.peer_id();
        let others = plan.draft().members.iter().filter(|member| member.id != me);
        let others: Vec<(String, PeerId)> = others.map(|member| (member.name.clone(), member.id)).collect();
        let text: Arc<str> = plan.to_json().into();
        let graph = match plan.draft().scheduled {
            Some(_) => Network::Private,
            None => Network::Public,
        };
        let said = join_all(
            others
                .iter()
                .map(|(_, peer)| self.offer_to((graph, *peer), &text, *plan.digest())),
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
                    if service.offer_to((graph, peer), &text, digest).await.is_ok() {
                        return;
                    }
                }
            });
        }
        let words = said.into_iter().map(|said| {
            said.unwrap_or_else(|why| match why {
                AskFault::Busy => why.to_string(),
                why => format!("not reached: {why}"),
            })
        });
        others.into_iter().map(|(name, _)| name).zip(words).collect()
    }

    /// Offers the plan to one member and returns its answer, or why it cannot be reached.
    pub(super) async fn offer_to(
        &self,
        (graph, peer): (Network, PeerId),
        plan: &str,
        digest: [u8; 32],
    ) -> Result<String, AskFault> {
        let ask = async {
            let mut inquiry = self.hub().inquire(graph, peer).await?;
            let (reply, _) = inquiry.ask(&Question::Offer, plan.as_bytes()).await?;
            if let Reply::Refused { reason } = reply {
                // Its places are taken by others, who may want just that.
                if reason == NotTaken::Busy.to_string() {
                    return Err(AskFault::Busy);
                }
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

    /// Returns the proposer's name, if this node's peer list has it and its key was not revoked:
    /// other peers' plans are not looked at.
    pub(super) fn proposer(&self, from: PeerId) -> Result<String, Refusal> {
        let config = self.config();
        let name = config.peers.as_slice().iter().find(|peer| peer.id == from);
        let unknown = || Refusal::new(Kind::Policy, "the proposer is not in this node's peer list");
        let name = name.map(|peer| peer.name.clone()).ok_or_else(unknown)?;
        match self.shared.keys.sentence(&name, &from) {
            None => Ok(name),
            Some(sentence) => Err(Refusal::new(Kind::Policy, sentence)),
        }
    }
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::peers::simulated_keypair;

    use super::*;

    #[test]
    fn a_peer_has_one_place_until_its_offer_was_looked_at() {
        let id = |party| simulated_keypair(party).public().to_peer_id();
        let places = Arc::new(OfferPlaces::new());
        let of = |party| places.clone().of_peer(id(party));
        let first = of(0).expect("a place");
        assert!(of(0).is_none());
        let other = of(1);
        assert!(other.is_some());
        drop(first);
        assert!(of(0).is_some());
    }
}
