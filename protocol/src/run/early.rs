//! Early shares: messages of parties that began before this node.

use std::collections::BTreeMap;

use crate::messages::log::ShareId;
use crate::mixing::exchange::ArrivedShare;
use crate::run::context::StepContext;
use crate::topology::party::Party;

/// Shares, or vectors of circles, that came before this node has begun. Only what is due is kept,
/// one of each.
#[derive(Default)]
pub(super) struct EarlyShares(pub(super) BTreeMap<ShareId, ArrivedShare>);

fn undue(id: ShareId) -> String {
    format!(
        "a share that is not due: round {}, from {} to {}",
        id.round, id.from, id.to
    )
}

impl EarlyShares {
    pub(super) fn keep_share(
        &mut self,
        cx: &mut StepContext<'_>,
        from: Party,
        id: ShareId,
        it: ArrivedShare,
    ) {
        let parameters = &cx.config.mixing;
        let due = id.from == from && id.to == parameters.me && cx.config.may_be_due(id);
        if due && it.values.len() == parameters.share_bytes() {
            // The first one counts: an honest sender repeats it bit for bit.
            self.0.entry(id).or_insert(it);
        } else {
            cx.public_state.offence(from, undue(id));
        }
    }

    pub(super) fn keep_sealed(
        &mut self,
        cx: &mut StepContext<'_>,
        from: Party,
        id: ShareId,
        it: ArrivedShare,
    ) {
        let (plan, me) = (&cx.config.plan, cx.config.mixing.me);
        let edges = cx
            .config
            .circle_edges()
            .filter(|_| id.from == from && id.to == me);
        let due = edges.is_some_and(|edges| edges.joins(from, me));
        let bytes = plan.circle_ring().map_or(0, |ring| ring.width()) * plan.draft().dimension();
        if due && it.values.len() == bytes {
            self.0.entry(id).or_insert(it);
        } else {
            cx.public_state.offence(from, "a sealed vector that is not due");
        }
    }

    /// START has drawn the schedule: what is not due by it is dropped.
    pub(super) fn drop_undue(&mut self, cx: &mut StepContext<'_>) {
        let parameters = &cx.config.mixing;
        let mut dropped = vec![];
        self.0.retain(|id, _| {
            let due = parameters.is_due(id.round, id.from);
            dropped.extend((!due).then_some(*id));
            due
        });
        for id in dropped {
            // A party that has begun with another START goes by another draw, and is no offender.
            if cx.public_state.has_begun_with(id.from) {
                cx.public_state.offence(id.from, undue(id));
            }
        }
    }
}

impl IntoIterator for EarlyShares {
    type Item = (ShareId, ArrivedShare);
    type IntoIter = std::collections::btree_map::IntoIter<ShareId, ArrivedShare>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
