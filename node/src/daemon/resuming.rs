//! A daemon that starts takes up what an earlier one had accepted or been handed, and not begun.
//!
//! A run that was submitted is taken up while the others may still wait for it. Its new READY
//! replaces the one before. Where the others have signed a START over the one before, it leaves at
//! once (`Unstarted::LeftOut`, exit 4): a party that is connected and silent would cost them every
//! deadline. One that has cost something is not taken up at all: see
//! [`reading_back`](crate::party::reading_back).

use std::path::Path;
use std::sync::Arc;

use undertone_protocol::plan::checked::Plan;

use crate::daemon::admission::PlanSource;
use crate::daemon::contribution::totals;
use crate::daemon::kept::{self, Kept};
use crate::daemon::ledger::now_ms;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::runs::Run;
use crate::daemon::service::Service;
use crate::daemon::status::{OfferState, OfferStatus, RunStatus};

impl Service {
    /// Sets aside again what is kept of runs that had not begun, before anything else can be taken;
    /// those that have begun or expired are let go.
    pub(super) fn set_aside_again(&self) {
        for (offer, kept) in self.shared.offers.kept() {
            let taken_up = self
                .is_open(&offer)
                .and_then(|()| self.reserve_again(&offer.digest, &kept));
            if let Err(refusal) = taken_up {
                self.drop_accepted(&offer, &refusal);
            }
        }
        for (run, kept) in self.submitted() {
            let digest = &run.status().digest;
            let unspent = self.shared.ledger().check(digest);
            if let Err(refusal) = unspent.and_then(|()| self.reserve_again(digest, &kept)) {
                self.drop_submitted(&run, &refusal);
            }
        }
    }

    fn reserve_again(&self, digest: &str, kept: &Kept) -> Result<(), Refusal> {
        let totals = totals(&self.config(), &kept.of);
        let mut ledger = self.shared.ledger();
        ledger.reserve(digest, kept.of.clone(), kept.charge, totals)
    }

    /// The runs that an earlier daemon had been handed and that had not begun, with what is kept of
    /// each.
    fn submitted(&self) -> Vec<(Arc<Run>, Kept)> {
        let runs = &self.shared.runs;
        let kept = |run: Arc<Run>| {
            let record = kept::record(run.folder());
            let found = record
                .exists()
                .then(|| runs.damaged.record(&record, |kept: &Kept| &kept.digest));
            Some((run, found.flatten()?))
        };
        runs.all().into_iter().filter_map(kept).collect()
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

    /// Whether a plan is of no schedule, or of the latest attempt that this node has taken at an
    /// occurrence that is not spent: a crash may lie between an occurrence's mark and a charge.
    fn is_latest_attempt(&self, plan: &Plan) -> Result<(), Refusal> {
        let Some(scheduled) = plan.draft().scheduled else {
            return Ok(());
        };
        let occurrence = scheduled.occurrence.to_string();
        self.shared.ledger().check_occurrence(&occurrence)?;
        match self.shared.timetable.latest_attempt(&occurrence) {
            Some(latest) if latest > scheduled.attempt => {
                let what = format!("this node is in attempt {latest} of this occurrence");
                Err(Refusal::new(Kind::Conflict, what))
            }
            _ => Ok(()),
        }
    }

    /// Takes up what was set aside again. Its plan is checked anew, and the configuration may have
    /// changed: an offer that is refused is open again.
    pub(super) async fn take_up_again(&self) {
        for (offer, kept) in self.shared.offers.kept() {
            match self.take_up(&offer, &kept).await {
                Ok(_) => {}
                // It is kept for the next one.
                Err(_) if self.stopping() => return,
                Err(refusal) => self.drop_accepted(&offer, &refusal),
            }
        }
        for (run, kept) in self.submitted() {
            match self.take_up_submitted(&run, &kept).await {
                Ok(_) => {}
                Err(_) if self.stopping() => return,
                Err(refusal) => self.drop_submitted(&run, &refusal),
            }
        }
    }

    async fn take_up(&self, offer: &OfferStatus, kept: &Kept) -> Result<RunStatus, Refusal> {
        let plan = PlanSource::Text(self.shared.offers.plan(&offer.digest)?);
        let plan = self.check(move || plan.checked()).await?;
        self.is_latest_attempt(&plan)?;
        let folder = self.shared.offers.folder(&offer.digest);
        self.take(
            PlanSource::Checked(plan),
            kept.contribution(&folder),
            Some(offer),
            kept.unasked,
        )
        .await
    }

    async fn take_up_submitted(&self, run: &Run, kept: &Kept) -> Result<RunStatus, Refusal> {
        let text = self.plan(&run.status().digest).await?;
        let plan = PlanSource::Text(text.into_bytes());
        let plan = self.check(move || plan.checked()).await?;
        let until_ms = kept
            .gathering_ms
            .map(|since| since.saturating_add(plan.draft().run.join_ms));
        if until_ms.is_some_and(|until_ms| until_ms <= now_ms()) {
            let what = "join_ms was over when this daemon started again";
            return Err(Refusal::new(Kind::Conflict, what));
        }
        let contribution = kept.contribution(Path::new(""));
        self.take(PlanSource::Checked(plan), contribution, None, false)
            .await
    }

    /// Whether a run of this plan is under way: somebody has handed it in again meanwhile, and what
    /// is kept and set aside is that one's.
    fn is_under_way(&self, digest: &str) -> bool {
        let run = self.shared.runs.get(digest);
        run.is_some_and(|run| !run.status().state.is_over())
    }

    fn drop_submitted(&self, run: &Run, refusal: &Refusal) {
        let digest = run.status().digest;
        if self.is_under_way(&digest) {
            return;
        }
        tracing::error!(digest, "a run that was submitted is not taken up: {refusal}");
        kept::let_go(run.folder());
        self.shared.ledger().release(&digest);
    }

    fn drop_accepted(&self, offer: &OfferStatus, refusal: &Refusal) {
        let digest = &offer.digest;
        if self.is_under_way(digest) {
            return;
        }
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
