//! A statement that is new: what it ends at once.

use std::time::Duration;

use futures::future::join_all;
use libp2p::PeerId;
use tokio::time::timeout;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};
use undertone_protocol::messages::revocation::Revoked;

use crate::daemon::keys::store::RevokedKey;
use crate::daemon::listening::{listening, relays};
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::runs::Stop;
use crate::daemon::service::Service;
use crate::daemon::status::OfferState;
use crate::planning::revoked::{parse_line, sentence};

/// For how long one whose key was revoked may still be told so, before it is turned away.
const FAREWELL: Duration = Duration::from_secs(2);

impl Service {
    /// The keys that are revoked, with the statements.
    pub fn revoked_keys(&self) -> Vec<RevokedKey> {
        self.shared.keys.all(&self.config().peers)
    }

    /// Takes a statement that somebody handed in as a line of text; whether it is new.
    ///
    /// # Errors
    /// It is no statement, of no listed id, or not signed by who may.
    pub fn revoke(&self, line: &str) -> Result<(RevokedKey, bool), Refusal> {
        let statement = parse_line(line).map_err(|failure| Refusal::from(failure).field("statement"))?;
        let new = self.shared.keys.take(&self.config().peers, statement)?;
        self.heed(new.as_slice());
        let held = self.revoked_keys();
        let held = held.into_iter().find(|key| key.id == statement.id.to_string());
        let lost = || Refusal::new(Kind::Internal, "the statement was taken and is not there");
        Ok((held.ok_or_else(lost)?, new.is_some()))
    }

    /// The answer to a peer that asks which statements are held, and gives some.
    pub(in crate::daemon) fn keys_for(&self, held: [u8; 32], statements: &[u8]) -> (Reply, Vec<u8>) {
        let keys = &self.shared.keys;
        let new = keys.take_all(&self.config().peers, statements);
        self.heed(&new);
        let ours = keys.digest();
        let bytes = match held == ours {
            true => vec![],
            false => keys.to_bytes_but(&Default::default()),
        };
        (Reply::Keys { held: ours }, bytes)
    }

    /// Puts new statements in force: from here on nothing is accepted that names these keys.
    pub(super) fn heed(&self, new: &[Revoked]) {
        let config = self.config();
        let me = config.identity.peer_id();
        for revoked in new {
            let id = revoked.statement.id;
            let name = config.peers.name_of(&id).unwrap_or("nobody in the list");
            if id == me {
                tracing::error!(
                    "THIS NODE'S OWN KEY IS REVOKED: {}; it takes no new part, and the others turn it away",
                    sentence(name, revoked)
                );
            } else {
                tracing::warn!(%id, "{}", sentence(name, revoked));
            }
        }
        if new.is_empty() {
            return;
        }
        self.shared.keys_news.send_replace(());
        let ids: Vec<PeerId> = new.iter().map(|revoked| revoked.statement.id).collect();
        self.leave_runs_with(&ids);
        let service = self.clone();
        self.in_background(async move {
            // Its owner is to know; then it is turned away.
            let lines = new_bytes(&service, &ids);
            let question = Question::Keys { held: [0; 32] };
            let told = ids.iter().map(|id| {
                let told = service.hub().ask(Network::Private, *id, &question, &lines);
                timeout(FAREWELL, told)
            });
            join_all(told).await;
            service.bar_revoked();
        });
    }

    /// Has the hub turn away all whose keys are revoked, and use no relay of theirs.
    pub(in crate::daemon) fn bar_revoked(&self) {
        let (config, barred) = (self.config(), self.shared.keys.barred());
        self.hub().bar(&barred);
        let [private, public] =
            [Network::Private, Network::Public].map(|graph| listening(&config, graph).peers);
        if let Err(error) = self.hub().relist(&private, &public, &relays(&config, &barred)) {
            tracing::error!(%error, "relays whose keys were revoked stay in use");
        }
    }

    /// Leaves runs that have cost nothing and name one of these keys, and declines offers that do.
    /// One that is spent goes on: nodes hear at different times, and would agree on different sets.
    fn leave_runs_with(&self, ids: &[PeerId]) {
        let runs = self.shared.runs.all().into_iter();
        for run in runs.filter(|run| !run.status().state.is_over()) {
            // One whose plan cannot be read may name it, and has cost nothing.
            let Some(id) = ids.iter().find(|id| run.names(id).unwrap_or(true)) else {
                continue;
            };
            let digest = run.status().digest;
            match run.cancel(Stop::Revoked(*id)) {
                Ok(()) => {
                    let service = self.clone();
                    self.in_background(async move {
                        let mut events = run.events.follow(u64::MAX);
                        while events.next().await.is_some() {}
                        service.tell_declined(&run.status().digest);
                    });
                }
                Err(_) => tracing::warn!(
                    digest,
                    %id,
                    "a run that is spent goes on with a key that was revoked: who holds it is one of the colluding"
                ),
            }
        }
        let offers = &self.shared.offers;
        for offer in offers
            .all()
            .into_iter()
            .filter(|offer| offer.state == OfferState::Open)
        {
            let plan = offers.plan(&offer.digest).unwrap_or_default();
            let plan = String::from_utf8_lossy(&plan);
            if let Some(id) = ids.iter().find(|id| plan.contains(&id.to_string())) {
                let reason = format!("it names {id}, whose key was revoked");
                offers.settle(&offer.digest, OfferState::Declined, Some(reason));
                self.tell_declined(&offer.digest);
            }
        }
    }
}

/// The statements about these ids alone.
fn new_bytes(service: &Service, ids: &[PeerId]) -> Vec<u8> {
    let keys = &service.shared.keys;
    let others = keys.barred().into_iter().filter(|id| !ids.contains(id)).collect();
    keys.to_bytes_but(&others)
}
