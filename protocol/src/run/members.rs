//! What a plan says of its members as a whole: who must come, and whose votes count.

use std::sync::Arc;

use crate::agreement::agreeing::Electorate;
use crate::agreement::gathering::Attendance;
use crate::messages::commitment::MOST_REVEALS;
use crate::plan::checked::Plan;
use crate::topology::party::Party;

/// How many STARTs of a run there may be at most. Our choice: each but the last is given up after
/// seven seconds or more, and each takes memory at every node, whatever liars sign.
const MOST_STARTS: u64 = 8;

/// How many STARTs a run may have: one more than parties may depart, since each leaves somebody
/// out; where START draws the schedule, no more than a node has nonces.
pub(super) fn starts(plan: &Plan) -> u8 {
    let most = if plan.draws_at_start() {
        MOST_REVEALS
    } else {
        MOST_STARTS
    };
    (plan.draft().privacy.dropouts as u64 + 1).min(most) as u8
}

/// What a plan says about who must come, and by when.
pub(super) fn attendance(plan: &Plan) -> Attendance {
    let run = &plan.draft().run;
    Attendance {
        parties: plan.parties(),
        min_parties: run.min_parties,
        join_ms: run.join_ms,
        grace_ms: run.grace_ms,
        colluding: plan.draft().privacy.colluding,
        numbers: starts(plan),
    }
}

/// The members of a plan, as far as votes go.
pub(super) fn electorate(plan: &Plan, me: Party) -> Electorate {
    let draft = plan.draft();
    Electorate {
        me,
        parties: plan.parties(),
        colluding: draft.privacy.colluding,
        quorum: draft.run.quorum,
        min_parties: draft.run.min_parties,
        private: Arc::new(plan.private_links()),
        public: Arc::new(plan.public_links()),
    }
}
