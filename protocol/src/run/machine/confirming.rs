//! Going on without whose secret could not be opened.
//!
//! Where a release follows, a set that is not opened need not end the run: its release is spent,
//! and the next one is of those whose secrets are known. All must see that alike: one node goes on
//! with the sum, another without it, and their next vectors do not fit together. So they agree, by
//! the machine that agrees on logs ([`crate::agreement::agreeing`]), in a stage of its own that
//! follows opening: an item of [`Stage::Opened`] is that its party's secret is known to whoever
//! holds it. Nobody announces one; each node holds those whose secrets it knows. If the agreed set
//! is all of the set, the sum counts, also at whoever gets the last secret now; if it is smaller,
//! the sum counts nowhere, also not at whoever could read it.
//!
//! A node whose secrets all came in the first half of opening goes on at once and says that it has
//! them all only if somebody asks. So nothing of this is said in most releases.
//!
//! **What a liar can do.** It can tell its secret late, to some, or not at all, and deal bad
//! letters. *Nobody honest is left out for it.* Let floods take f at most and the nodes' clocks be
//! s apart, f + s ≤ `settle_ms`, which plans are checked for. Every honest member tells its secret
//! as it enters, so that each honest node holds it before anybody signs a set here. Whoever signs
//! a set that lacks a member follows lists of more than half of all members, which lack it, or a
//! set that more than `colluding` signed early; who follows the protocol signs early only what
//! lacks nobody. So no agreed set lacks an honest member. *No node goes on alone:* one that goes on
//! at once held all secrets in the first half of its own opening, and passed them on; all others
//! hold them before half of this stage, and sign the whole set. Any other node acts on an agreed
//! set alone, of which there is one ([`crate::plan::quorum`]). *It costs one release:* whoever is
//! not in the agreed set is in no later run. What remains is what a liar can do to any agreement
//! here: with its secret told to about half of the nodes at the moment at which they sign, it can
//! split the vote, and end the run.
//!
//! *Nothing more is told by it.* A node that goes on, with the sum or without it, seals one vector
//! for the next release: no key masks two. What it sealed for this one counts as read.
//!
//! Sums over neighbourhoods have none of this: a round whose sum is void at some node, and not at
//! another, tells the difference.

use std::collections::{BTreeMap, BTreeSet};

use crate::agreement::agreeing::{Clock, Step};
use crate::messages::notice::{ItemSet, item_hash};
use crate::messages::stage::Stage;
use crate::publishing::interface::Published;
use crate::publishing::opening::Unopened;
use crate::run::context::StepContext;
use crate::run::outcome::Ending;
use crate::run::phase::{Confirmation, OpeningPhase};
use crate::topology::party::Party;

impl StepContext<'_> {
    /// Whether those of this run agree on what was opened before they go on.
    fn confirms(&self) -> bool {
        let follows = self.public_state.rules.stages.agree_in(Stage::Opened) && self.config.may_go_on();
        follows && self.record.withheld.is_none()
    }
}

impl OpeningPhase {
    /// Every secret is here. In the second half of opening, or later, others may have gone on
    /// without one.
    pub(super) fn all_secrets_known(&mut self, cx: &mut StepContext<'_>) {
        match self.confirmation {
            // What the agreement makes of it comes next.
            Confirmation::Under(_) => {}
            Confirmation::Unasked if cx.confirms() && cx.now >= self.opening.clock().half => {
                self.begin_confirming(cx);
            }
            Confirmation::Unasked => self.opened(cx),
            Confirmation::Answered | Confirmation::Without(_) | Confirmation::Over => {}
        }
    }

    /// Opening is over, and these secrets are lacking.
    pub(super) fn secrets_lack(&mut self, lacking: Vec<Unopened>, cx: &mut StepContext<'_>) {
        if !cx.confirms() {
            return self.unopened(lacking, cx);
        }
        cx.fault(format!(
            "not opened in time: {}; the parties agree on whom they go on without",
            cx.sentences(&lacking)
        ));
        self.begin_confirming(cx);
    }

    fn begin_confirming(&mut self, cx: &StepContext<'_>) {
        self.opening.wait_on();
        // Nodes enter this stage at different moments: opening's end is where all place it alike.
        let clock = Clock::new(self.opening.clock().end, cx.config.settle_ms);
        let agreement = cx.agree_on(Stage::Opened, self.unsealing.members.clone(), clock);
        self.confirmation = Confirmation::Under(Box::new(agreement));
    }

    /// A step of the agreement on what was opened. `false`: it wants nothing now.
    pub(super) fn step_confirming(&mut self, cx: &mut StepContext<'_>) -> bool {
        match &mut self.confirmation {
            Confirmation::Unasked if cx.record.finished || self.summing.is_some() => {
                let opened = self.opening.secrets().is_some();
                if !opened || !cx.public_state.flood.says_anything_in(Stage::Opened) {
                    return false;
                }
                // Somebody lacks a secret, and must not go on without a sum that this node has
                // used.
                self.confirmation = Confirmation::Answered;
                let members = self.unsealing.members.iter();
                let whole = members.map(|party| (*party, item_hash(&[])));
                cx.public_state.vote(Stage::Opened, true, whole.collect());
            }
            Confirmation::Under(agreement) => {
                cx.public_state.hold_opened(self.opening.known());
                // Whoever is gone may have told its secret before.
                let nobody = BTreeMap::new();
                match cx.public_state.step(agreement, Stage::Opened, cx.now, &nobody) {
                    None => return false,
                    Some(Step::Say(notice)) => cx.public_state.say(notice),
                    Some(Step::Vote { early, set }) => cx.public_state.vote(Stage::Opened, early, set),
                    Some(Step::Agreed(set)) => self.confirmed(&set, cx),
                    Some(Step::Over) => self.unconfirmed(cx),
                }
            }
            _ => return false,
        }
        true
    }

    /// Goes on once it is agreed whose secrets are known.
    fn confirmed(&mut self, set: &ItemSet, cx: &mut StepContext<'_>) {
        let remaining: BTreeSet<Party> = set.iter().map(|(party, _)| *party).collect();
        if remaining == self.unsealing.members {
            self.confirmation = Confirmation::Over;
            return self.opened(cx);
        }
        let without = self.unsealing.members.difference(&remaining).copied();
        let unopened = self.opening.unopened(&without.collect());
        self.confirmation = Confirmation::Without(remaining.clone());
        cx.fault(format!("not opened: {}", cx.sentences(&unopened)));
        cx.record.unopened = unopened;
        cx.finish(Ending::Degraded, Published::without_sum(remaining, true));
    }

    /// The stage is over, and nothing is agreed.
    fn unconfirmed(&mut self, cx: &mut StepContext<'_>) {
        self.confirmation = Confirmation::Over;
        let lacking = self.opening.lacking_secrets();
        if !lacking.is_empty() {
            return self.unopened(lacking, cx);
        }
        // This node has the sum, but the next vectors of others may not rest on it.
        cx.finish_withheld(
            "too few parties said in time that they hold every secret, and some may go on without this \
             sum; if all were up, raise run.settle_ms",
        );
    }

    /// Whether this node is among those of whom the next release is, where the agreed set of this
    /// one was not opened.
    pub(super) fn goes_on_without_sum(&self, me: Party) -> bool {
        let remaining = self.confirmation.remaining();
        remaining.is_some_and(|remaining| remaining.contains(&me))
    }
}
