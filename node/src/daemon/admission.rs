//! What a plan and a vector must pass before they are a run.

use std::sync::Arc;

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::accept_by::AcceptBy;

use crate::daemon::contribution::Contribution;
use crate::daemon::ledger::account::{AccountName, Protected, Total, unit_name};
use crate::daemon::ledger::now_ms;
use crate::daemon::policy;
use crate::daemon::refusal::Refusal;
use crate::daemon::shared::Shared;
use crate::daemon::status::{OfferState, OfferStatus, RunState, RunStatus};
use crate::daemon::taking_part::Job;
use crate::party::part;
use crate::party::silence::Silence;
use crate::planning::worth::{self, Worth};
use crate::planning::{files, template};

/// A plan that was checked, and what this party brings to it.
pub(super) struct Admitted {
    pub(super) job: Job,
    pub(super) status: RunStatus,
    pub(super) of: Protected,
    pub(super) totals: Vec<(AccountName, Total)>,
}

/// Everything that `join` checks before a byte is sent, the policy, and the budget's name.
pub(super) fn admit(
    shared: &Shared,
    plan: &[u8],
    brings: Contribution,
    proposer: Option<String>,
    unasked: bool,
) -> Result<Admitted, Refusal> {
    let config = shared.config();
    let config = config.as_ref();
    let plan = files::parse(plan, "the plan").map_err(|failure| Refusal::from(failure.field("plan")))?;
    let me = part::member(&plan, config.identity.peer_id())
        .map_err(|failure| Refusal::from(failure.field("plan")))?;
    worth::check(&plan)?;
    policy::check(config, &plan, me)?;
    if unasked {
        policy::check_unasked(config, &plan, me)?;
    }
    let data = &plan.draft().data;
    let brought = brings.find(config, data.unit, data.adjacency)?;
    // Read again when the run begins: it may wait for long, and its vector need not lie in memory
    // for that.
    part::vector(&plan, me, &brought.vector).map_err(|failure| Refusal::from(failure.field("vector")))?;
    template::in_folder(&plan, &config.data)?;
    let status = run_status(&plan, brought.data_set.clone(), proposer);
    let job = Job {
        plan: Arc::new(plan),
        me,
        vector: brought.vector,
        upload: brought.upload,
        until_ms: None,
    };
    Ok(Admitted {
        job,
        status,
        of: brought.of,
        totals: brought.totals,
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
        iterations: draft.releases(),
        owners_alone: plan.reads_circles(),
        waiting_for: vec![],
        accepted_by: vec![],
        accept_until_ms: None,
        reserved: None,
        gone: vec![],
        rounds: plan.mixing_rounds(),
        parties: plan.parties(),
        dimension: draft.dimension(),
        unit: unit_name(draft.data.unit).into(),
        data_set,
        proposer,
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
        worth: Some(Worth::of(plan).sentence()),
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
