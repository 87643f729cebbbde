//! What a plan says of its members as a whole: who must come, and whose votes count.

use std::sync::Arc;

use crate::agreement::agreeing::Electorate;
use crate::agreement::gathering::Attendance;
use crate::plan::checked::Plan;
use crate::topology::party::Party;

/// What a plan says about who must come, and by when.
pub(super) fn attendance(plan: &Plan) -> Attendance {
    let run = &plan.draft().run;
    Attendance {
        parties: plan.parties(),
        min_parties: run.min_parties,
        join_ms: run.join_ms,
        grace_ms: run.grace_ms,
    }
}

/// The members of a plan, as far as votes go.
pub(super) fn electorate(plan: &Plan, me: Party) -> Electorate {
    let draft = plan.draft();
    Electorate {
        me,
        parties: plan.parties(),
        colluding: draft.privacy.colluding,
        min_parties: draft.run.min_parties,
        private: Arc::new(plan.private_links()),
        public: Arc::new(plan.public_links()),
    }
}
