//! Plans that were handed in or made of a run file, for the requests that take part in them or
//! offer them. They are kept in memory: nothing of a plan is secret, and whoever handed one in can
//! do so again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use undertone_protocol::plan::checked::Plan;

use crate::daemon::refusal::{Kind, Refusal};

/// Plans that are kept; of more, the oldest go. Our choice: as many as uploads at once.
const MOST_PLANS: usize = 8;

/// Plans whose claims were found to hold, the oldest first.
#[derive(Default)]
pub(super) struct HandedIn(Mutex<VecDeque<Arc<Plan>>>);

impl HandedIn {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Arc<Plan>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self, plan: Arc<Plan>) {
        let mut kept = self.kept();
        kept.retain(|known| known.digest() != plan.digest());
        if kept.len() == MOST_PLANS {
            kept.pop_front();
        }
        kept.push_back(plan);
    }

    /// Takes a plan out: two requests at once do not both have it.
    pub(super) fn take(&self, digest: &str) -> Result<Arc<Plan>, Refusal> {
        let mut kept = self.kept();
        let found = kept.iter().position(|plan| plan.digest_hex() == digest);
        found.and_then(|at| kept.remove(at)).ok_or_else(|| {
            let what = format!("no plan {digest:?} was handed in, or {MOST_PLANS} others were since");
            Refusal::new(Kind::Unknown, what)
                .field("digest")
                .hint("POST /v1/plans takes the plan, and answers its digest")
        })
    }
}
