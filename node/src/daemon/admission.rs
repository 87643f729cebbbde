//! Checks that a plan and a vector must pass before they are a run.

use std::sync::Arc;

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::accept_by::AcceptBy;
use undertone_protocol::topology::party::Party;

use crate::daemon::config::Config;
use crate::daemon::contribution::Contribution;
use crate::daemon::ledger::account::{AccountName, Protected, Total, unit_name};
use crate::daemon::ledger::now_ms;
use crate::daemon::policy;
use crate::daemon::refusal::Refusal;
use crate::daemon::shared::Shared;
use crate::daemon::state::checksum;
use crate::daemon::status::{OfferState, OfferStatus, RunState, RunStatus};
use crate::daemon::taking_part::Job;
use crate::party::silence::Silence;
use crate::party::{input, part};
use crate::planning::utility::{self, Utility};
use crate::planning::{files, template};
use crate::table_file::reading::MostlyWords;

/// A plan that was checked, and what this party contributes to it.
pub(super) struct Admitted {
    pub(super) job: Job,
    pub(super) status: RunStatus,
    pub(super) of: Protected,
    pub(super) totals: Vec<(AccountName, Total)>,
    /// Sentences on the owner's table, for the owner alone.
    pub(super) told: Vec<String>,
}

/// A plan on its way in.
pub(super) enum PlanSource {
    /// One that was checked when it was handed in.
    Checked(Arc<Plan>),
    /// The bytes of an offered plan's file.
    Text(Vec<u8>),
}

impl PlanSource {
    pub(super) fn digest(&self) -> String {
        match self {
            PlanSource::Checked(plan) => plan.digest_hex(),
            PlanSource::Text(text) => checksum(text),
        }
    }

    /// The plan, once its claims were found to hold.
    pub(super) fn checked(self) -> Result<Arc<Plan>, Refusal> {
        match self {
            PlanSource::Checked(plan) => Ok(plan),
            PlanSource::Text(text) => {
                let plan = files::parse(&text, "the plan").map_err(|failure| failure.field("plan"))?;
                Ok(Arc::new(plan))
            }
        }
    }
}

/// Checks that this node is a member of a plan that it accepts; its place in it.
pub(super) fn check(config: &Config, plan: &Plan) -> Result<Party, Refusal> {
    let me = part::member(plan, config.identity.peer_id()).map_err(|failure| failure.field("plan"))?;
    utility::check(plan)?;
    policy::check(config, plan, me)?;
    Ok(me)
}

/// Checks a plan against the policy, and what this party contributes to it as `join` does before a
/// byte is sent; finds the budgets.
pub(super) fn admit(
    shared: &Shared,
    plan: Arc<Plan>,
    contribution: Contribution,
    proposer: Option<String>,
    unasked: bool,
) -> Result<Admitted, Refusal> {
    let config = shared.config();
    let config = config.as_ref();
    shared.keys.check(&plan)?;
    let me = check(config, &plan)?;
    if unasked {
        policy::check_unasked(config, &plan, me)?;
    }
    let data = &plan.draft().data;
    let records = contribution.records;
    let contribution = contribution.find(config, data.unit, data.adjacency)?;
    // Read again when the run begins: it may wait for long, and its vector need not lie in memory
    // for that.
    let mut told = vec![];
    let counted = part::own_data(&plan, me, &contribution.vector, MostlyWords::Refused).and_then(|data| {
        told = data.sentences();
        input::counted(plan.clone(), me, Some(data.layout()), records)
    });
    let plan = counted.map_err(|failure| {
        let field = match failure.field.as_deref() {
            Some("--records") => "records",
            _ => "vector",
        };
        let refusal = Refusal::from(failure.field(field));
        match &contribution.upload {
            Some(ours) => refusal.rename(&ours.display().to_string(), "the vector"),
            None => refusal,
        }
    })?;
    template::in_folder(&plan, &config.data)?;
    let status = run_status(&plan, contribution.data_set.clone(), proposer);
    let job = Job {
        plan,
        me,
        vector: contribution.vector,
        upload: contribution.upload,
        until_ms: None,
    };
    Ok(Admitted {
        job,
        status,
        of: contribution.of,
        totals: contribution.totals,
        told,
    })
}

fn run_status(plan: &Plan, data_set: Option<String>, proposer: Option<String>) -> RunStatus {
    let draft = plan.draft();
    RunStatus {
        digest: plan.digest_hex(),
        name: draft.name.clone(),
        state: RunState::Waiting,
        phase: None,
        round: None,
        iteration: None,
        asked: None,
        part: None,
        iterations: draft.releases(),
        owners_alone: plan.reads_circles(),
        waiting_for: vec![],
        accepted_by: vec![],
        accept_until_ms: None,
        reserved: None,
        without: vec![],
        unreachable: vec![],
        rounds: plan.mixing_rounds(),
        parties: plan.parties(),
        dimension: draft.dimension(),
        unit: unit_name(draft.data.unit).into(),
        data_set,
        proposer,
        occurrence: draft.scheduled.map(|it| it.occurrence.to_string()),
        attempt: draft.scheduled.map(|it| it.attempt),
        submitted_ms: now_ms(),
        started_ms: None,
        ended_ms: None,
        epsilon_claimed: plan.epsilon_claimed(),
        delta: draft.privacy.delta,
        epsilon: None,
        unbounded: false,
        charged: None,
        outcome: None,
        reason: None,
        exit_code: None,
        included: vec![],
        silence: Silence::default(),
        opened_for: vec![],
        standard_error: None,
        utility: Some(Utility::of(plan).sentence()),
        private_bytes: 0,
        public_bytes: 0,
    }
}

/// A plan that was just offered.
pub(super) fn offer_status(plan: &Plan, proposer: &str) -> OfferStatus {
    let (draft, received_ms) = (plan.draft(), now_ms());
    let open_ms = draft.run.accept_by.map_or(draft.run.join_ms, AcceptBy::as_millis);
    OfferStatus {
        digest: plan.digest_hex(),
        name: draft.name.clone(),
        proposer: proposer.into(),
        state: OfferState::Open,
        reason: None,
        parties: plan.parties(),
        dimension: draft.dimension(),
        unit: unit_name(draft.data.unit).into(),
        epsilon_claimed: plan.epsilon_claimed(),
        delta: draft.privacy.delta,
        received_ms,
        expires_ms: received_ms.saturating_add(open_ms),
    }
}
