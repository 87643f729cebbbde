//! From a plan or a run file to this node's part in it: handed in first, then submitted with what
//! the party contributes, or offered to the members.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use undertone_protocol::plan::checked::Plan;
use utoipa::ToSchema;

use crate::daemon::admission::{PlanSource, check, offer_status};
use crate::daemon::contribution::Contribution;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::service::Service;
use crate::daemon::status::RunStatus;
use crate::planning::{alternatives, make, quote};

/// A plan that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct KeptPlan {
    /// The plan's digest, in lower-case hex.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub digest: String,
    /// The object of `undertone plan --json`; null for a plan that was handed in as such.
    #[schema(value_type = Option<Object>)]
    pub quote: Option<Value>,
}

/// A plan that was offered to its members.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Proposed {
    /// The plan's digest, in lower-case hex.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub digest: String,
    /// This node's own run, if it contributed a vector or accepts such plans by itself.
    pub run: Option<RunStatus>,
    /// Each other member's answer: "accepted", "open", "declined", "over" (it has had its
    /// part), "taken" (it still looks at it), "refused: …", "not reached: …".
    pub members: BTreeMap<String, String>,
}

impl Service {
    /// Checks a plan, given as the bytes of its file, and keeps it.
    pub async fn hand_in(&self, plan: Vec<u8>) -> Result<KeptPlan, Refusal> {
        let handed_in = self.keep_checked(PlanSource::Text(plan)).await;
        self.note_refused(&handed_in);
        handed_in
    }

    async fn keep_checked(&self, plan: PlanSource) -> Result<KeptPlan, Refusal> {
        self.not_stopping()?;
        let digest = plan.digest();
        self.not_twice(&digest)?;
        let shared = self.shared.clone();
        self.check(move || {
            let plan = plan.checked()?;
            shared.keys.check(&plan)?;
            check(&shared.config(), &plan)?;
            shared.handed_in.keep(plan);
            Ok(())
        })
        .await?;
        Ok(KeptPlan { digest, quote: None })
    }

    /// Makes a plan of a run file for the peers of the peer list, and keeps it.
    pub async fn make_plan(&self, run_file: String) -> Result<KeptPlan, Refusal> {
        self.not_stopping()?;
        let shared = self.shared.clone();
        self.check(move || {
            let config = shared.config();
            let peers = &config.peers;
            let run = make::run_file(&run_file, peers, "RUN.toml".as_ref())?;
            let plan = make::make(run, peers, rand::random())?;
            shared.keys.check(&plan)?;
            let made = KeptPlan {
                digest: plan.digest_hex(),
                quote: Some(quote::comparing_json(&plan, &alternatives::of(&plan))),
            };
            shared.handed_in.keep(Arc::new(plan));
            Ok(made)
        })
        .await
    }

    /// Takes part in a plan that was handed in. Returns once vector and budget are checked and the
    /// run has its place in the queue.
    pub async fn submit(&self, digest: &str, contribution: Contribution) -> Result<RunStatus, Refusal> {
        // A plan that goes on is not reported as one that was not handed in.
        let taken = match self
            .not_twice(digest)
            .and_then(|()| self.shared.handed_in.take(digest))
        {
            Ok(plan) => {
                let taken = self
                    .take(PlanSource::Checked(plan.clone()), contribution, None, false)
                    .await;
                taken.inspect_err(|_| self.shared.handed_in.keep(plan))
            }
            Err(refusal) => Err(refusal),
        };
        self.note_refused(&taken);
        taken
    }

    /// Offers a plan that is kept to all members. Where something is contributed, this node takes
    /// part itself.
    pub async fn propose(&self, digest: &str, contribution: Contribution) -> Result<Proposed, Refusal> {
        self.not_stopping()?;
        if self.shared.offers.get(digest).is_some() {
            let what = "this plan was offered before";
            return Err(Refusal::new(Kind::Conflict, what)
                .field("digest")
                .hint("POST /v1/offers/DIGEST/accept takes part in it"));
        }
        let plan = self.shared.handed_in.take(digest)?;
        let offered = self.own_offer(&plan, contribution).await;
        let run = offered.inspect_err(|_| self.shared.handed_in.keep(plan.clone()))?;
        let members = self.offer_to_members(&plan).await.into_iter().collect();
        Ok(Proposed {
            digest: digest.to_owned(),
            run,
            members,
        })
    }

    /// Keeps a plan as this node's own offer; its run, where it takes part.
    async fn own_offer(&self, plan: &Plan, contribution: Contribution) -> Result<Option<RunStatus>, Refusal> {
        let (digest, name) = (plan.digest_hex(), self.config().identity.name.clone());
        let offers = &self.shared.offers;
        offers.insert(offer_status(plan, &name), plan.to_json())?;
        if contribution.is_empty() {
            return Ok(self.accept_unasked(&digest).await);
        }
        let accepted = self.accept(&digest, contribution).await;
        // Nobody else knows of it yet: what is refused here is no offer.
        accepted.map(Some).inspect_err(|_| offers.forget(&digest))
    }

    fn note_refused<T>(&self, taken: &Result<T, Refusal>) {
        if let Err(refusal) = taken {
            self.shared.counters.refused();
            tracing::info!("a submission was refused: {refusal}");
        }
    }
}
