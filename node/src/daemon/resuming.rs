//! A daemon that starts takes up the offers that an earlier one had accepted.

use crate::daemon::admission::PlanSource;
use crate::daemon::contribution::totals;
use crate::daemon::kept::{self, Kept};
use crate::daemon::ledger::now_ms;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::service::Service;
use crate::daemon::status::{OfferState, OfferStatus, RunStatus};

impl Service {
    /// Sets aside again what is kept of accepted offers, before anything else can be taken; those
    /// that have begun or expired are let go.
    pub(super) fn set_aside_again(&self) {
        let config = self.config();
        for (offer, kept) in self.shared.offers.kept() {
            let taken_up = self.is_open(&offer).and_then(|()| {
                let totals = totals(&config, &kept.of);
                let mut ledger = self.shared.ledger();
                ledger.reserve(&offer.digest, kept.of.clone(), kept.charge, totals)
            });
            if let Err(refusal) = taken_up {
                self.drop_accepted(&offer, &refusal);
            }
        }
    }

    /// Whether an accepted offer can still become a run.
    fn is_open(&self, offer: &OfferStatus) -> Result<(), Refusal> {
        if offer.state != OfferState::Accepted {
            return Err(Refusal::new(Kind::Conflict, "it was not accepted"));
        }
        self.shared.ledger().check(&offer.digest)?;
        if offer.expires_ms <= now_ms() {
            let what = "it expired while this daemon was down";
            return Err(Refusal::new(Kind::Conflict, what));
        }
        Ok(())
    }

    /// Takes up what was set aside again. Its plan is checked anew, and the configuration may have
    /// changed: what is refused is an open offer again.
    pub(super) async fn take_up_accepted(&self) {
        for (offer, kept) in self.shared.offers.kept() {
            match self.take_up(&offer, &kept).await {
                Ok(_) => {}
                // It is kept for the next one.
                Err(_) if self.stopping() => return,
                Err(refusal) => self.drop_accepted(&offer, &refusal),
            }
        }
    }

    async fn take_up(&self, offer: &OfferStatus, kept: &Kept) -> Result<RunStatus, Refusal> {
        let plan = self.shared.offers.plan(&offer.digest)?;
        let folder = self.shared.offers.folder(&offer.digest);
        self.take(
            PlanSource::Text(plan),
            kept.contribution(&folder),
            Some(offer),
            kept.unasked,
        )
        .await
    }

    fn drop_accepted(&self, offer: &OfferStatus, refusal: &Refusal) {
        let digest = &offer.digest;
        tracing::error!(digest, "an accepted offer is not taken up: {refusal}");
        kept::let_go(&self.shared.offers.folder(digest));
        self.shared.ledger().release(digest);
        if offer.state == OfferState::Accepted && self.shared.ledger().charged(digest).is_none() {
            let reason = format!(
                "it was accepted and not taken up after a restart: {}",
                refusal.message
            );
            let state = match offer.expires_ms <= now_ms() {
                true => OfferState::Expired,
                false => OfferState::Open,
            };
            self.shared.offers.settle(digest, state, Some(reason));
        }
    }
}
