//! Plans that other daemons offer.

use std::sync::Arc;

use libp2p::PeerId;

use crate::daemon::admission::{PlanSource, offer_status};
use crate::daemon::contribution::Contribution;
use crate::daemon::ledger::account::unit_name;
use crate::daemon::policy;
use crate::daemon::refusal::Refusal;
use crate::daemon::service::Service;
use crate::daemon::state::checksum;
use crate::daemon::status::{OfferState, RunStatus};
use crate::party::part;
use crate::planning::files;

impl Service {
    /// Takes a plan that another daemon offers, and accepts it if the configuration says so.
    /// Refused if it does not verify, not within the policy, or is not of a peer.
    pub async fn receive_offer(&self, from: PeerId, plan: Vec<u8>) -> Result<OfferState, Refusal> {
        self.not_stopping()?;
        let proposer = self.proposer(from)?;
        self.shared.counters.offered();
        let offered = checksum(&plan);
        if let Some(offer) = self.shared.offers.get(&offered) {
            return Ok(offer.state);
        }
        self.shared.offers.has_room_for(&proposer)?;
        let shared = self.shared.clone();
        let me = self.config().identity.peer_id();
        let plan = self.check(move || {
            let plan = files::parse(&plan, "the offered plan")?;
            let me = part::member(&plan, me)?;
            shared.keys.check(&plan)?;
            // One of a schedule is held against this node's own first.
            if plan.draft().scheduled.is_none() {
                policy::check(&shared.config(), &plan, me)?;
            }
            Ok(plan)
        });
        // What is refused here stays refused: those who accept need not wait for this node.
        let refused = |_: &Refusal| self.tell_declined(&offered);
        let plan = plan.await.inspect_err(refused)?;
        if plan.draft().scheduled.is_some() {
            let taken = self.receive_scheduled(from, Arc::new(plan)).await;
            return taken.inspect_err(refused);
        }
        self.shared
            .offers
            .insert(offer_status(&plan, &proposer), plan.to_json())?;
        let digest = plan.digest_hex();
        tracing::info!(digest, proposer, parties = plan.parties(), "a plan was offered");
        self.accept_unasked(&digest).await;
        Ok(self.offer(&digest)?.state)
    }

    /// Accepts an open offer by `auto_accept`; else it stays open, with the reason.
    pub(super) async fn accept_unasked(&self, digest: &str) -> Option<RunStatus> {
        let offer = self.offer(digest).ok()?;
        let config = self.config();
        let rules = config
            .auto_accept
            .iter()
            .filter(|rule| rule.proposer == offer.proposer);
        let fits = |name: &str| {
            config
                .data_sets
                .iter()
                .any(|set| set.name == name && unit_name(set.unit) == offer.unit)
        };
        let mut reason = format!(
            "no auto_accept for {} and a data set of unit {:?}",
            offer.proposer, offer.unit
        );
        for rule in rules.filter(|rule| fits(&rule.data_set)) {
            let contribution = Contribution {
                vector: None,
                data_set: Some(rule.data_set.clone()),
                records: None,
            };
            let plan = self.shared.offers.plan(digest).ok()?;
            match self
                .take(PlanSource::Text(plan), contribution, Some(&offer), true)
                .await
            {
                Ok(run) => {
                    self.shared.offers.settle(digest, OfferState::Accepted, None);
                    return Some(run);
                }
                Err(refusal) => reason = format!("data set {}: {}", rule.data_set, refusal.message),
            }
        }
        if self.not_twice(digest).is_ok() {
            self.shared.offers.settle(digest, OfferState::Open, Some(reason));
        }
        None
    }
}
