//! Exchanges statements with the other daemons of the group until all hold the same ones.

use std::time::Duration;

use libp2p::PeerId;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};
use undertone_protocol::messages::revocation::ids_in;

use crate::daemon::keys::turns::Turns;
use crate::daemon::service::Service;
use crate::network::ask::AskFault;

/// How long a peer may take to be reached and to answer.
const ANSWER: Duration = Duration::from_secs(15);

impl Service {
    /// Keeps the statements of this daemon and of all others the same, in the background.
    pub(in crate::daemon) fn keep_keys(&self) {
        let (weak, mut links) = (self.downgrade(), self.hub().links());
        let mut news = self.shared.keys_news.subscribe();
        self.in_background(async move {
            let (mut turns, mut asked) = (Turns::default(), JoinSet::new());
            let listed = || weak.upgrade().map(|service| service.others()).unwrap_or_default();
            turns.all(Instant::now(), listed());
            loop {
                while let Some(peer) = turns.next(Instant::now()) {
                    let Some(service) = weak.upgrade() else { return };
                    asked.spawn(async move { (peer, service.ask_for_keys(peer).await) });
                }
                let wakes = turns.wakes();
                let wakes = async {
                    match wakes {
                        Some(wakes) => sleep_until(wakes).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    Some(Ok((peer, answered))) = asked.join_next() => {
                        turns.done(Instant::now(), peer, answered);
                    }
                    linked = links.next() => {
                        let others = listed();
                        let linked = linked.into_iter().filter(|peer| others.contains(peer));
                        linked.for_each(|peer| turns.linked(Instant::now(), peer));
                    }
                    Ok(()) = news.changed() => {
                        let others = listed();
                        turns.retain(|peer| others.contains(peer));
                        turns.all(Instant::now(), others);
                    }
                    () = wakes => {}
                }
            }
        });
    }

    /// The listed peers that are trusted, but for this node.
    fn others(&self) -> Vec<PeerId> {
        let (config, barred) = (self.config(), self.shared.keys.barred());
        let me = config.identity.peer_id();
        let ids = config.peers.as_slice().iter().map(|peer| peer.id);
        ids.filter(|id| *id != me && !barred.contains(id)).collect()
    }

    /// Asks one peer; whether it answered.
    async fn ask_for_keys(&self, peer: PeerId) -> bool {
        match timeout(ANSWER, self.exchange(peer)).await {
            Ok(Ok(())) => true,
            Ok(Err(fault)) => {
                tracing::debug!(%peer, %fault, "not asked for keys");
                false
            }
            Err(_) => false,
        }
    }

    /// Takes what a peer holds, and tells it what it lacks.
    async fn exchange(&self, peer: PeerId) -> Result<(), AskFault> {
        let keys = &self.shared.keys;
        let mut inquiry = self.hub().inquire(Network::Private, peer).await?;
        let question = Question::Keys { held: keys.digest() };
        let (reply, theirs) = inquiry.ask(&question, &[]).await?;
        // Whoever is no daemon holds none, and keeps none.
        let Reply::Keys { held } = reply else {
            return Ok(());
        };
        let service = self.clone();
        let bytes = theirs.clone();
        let taken = tokio::task::spawn_blocking(move || {
            service.heed(&service.shared.keys.take_all(&service.config().peers, &bytes));
        });
        let _ = taken.await;
        if held != keys.digest() {
            let lacking = keys.to_bytes_but(&ids_in(&theirs));
            if !lacking.is_empty() {
                let question = Question::Keys { held: keys.digest() };
                inquiry.ask(&question, &lacking).await?;
            }
        }
        Ok(())
    }
}
