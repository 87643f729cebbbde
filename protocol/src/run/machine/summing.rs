//! Adding up slices, once the set is open here: every keeper adds up its own and signs the sums,
//! and everybody fetches those.
//!
//! The right sum of a slice has a hash that more members have signed than may lie: one of them is
//! honest, and checked every slice against the root that its party's log names. A node that has all
//! of these slices adds them up itself, and believes nobody. If no sum is signed by so many in
//! time, whoever has slices of it floods them, and whoever lacks the sum adds them up, uses that,
//! and signs it too.
//!
//! All honest nodes use the same bits: each sum is a function of the agreed set and of the roots in
//! the logs of its members. A sum that is lacking at the end is like a lacking secret: there is no
//! mean, and no smaller set is added up.

use std::collections::BTreeMap;

use crate::messages::notice::ItemHash;
use crate::publishing::interface::FinalError;
use crate::publishing::way::Way;
use crate::run::context::StepContext;
use crate::run::phase::{OpeningPhase, Summing};
use crate::time::Time;
use crate::topology::party::Party;

impl Summing {
    /// Returns the moment to step again although nothing happened.
    pub(super) fn wake(&self, now: Time) -> Time {
        let next = self.flood_at.into_iter().chain([self.end]);
        next.filter(|&at| at > now).min().unwrap_or(Time::FAR)
    }
}

impl OpeningPhase {
    /// Every secret and every correction is here.
    pub(super) fn begin_summing(&mut self, cx: &mut StepContext<'_>) {
        if self.summing.is_some() {
            return;
        }
        let logs = &self.unsealing.logs;
        let root = |party: &Party| Some((*party, logs.get(party)?.sealed.as_ref()?.hash));
        let roots: BTreeMap<Party, ItemHash> = self.unsealing.members.iter().filter_map(root).collect();
        // From here on the set is fixed: sums are of these roots, whatever comes later.
        let all = cx.slices();
        let settle_ms = cx.config.settle_ms;
        self.summing = Some(Summing {
            roots,
            sums: BTreeMap::new(),
            unsigned: all.collect(),
            flood_at: Some(cx.now.plus_millis(settle_ms / 2)),
            end: self.opening.clock().end.max(cx.now).plus_millis(settle_ms),
        });
        let Some(summing) = &mut self.summing else { return };
        for slice in summing.unsigned.clone() {
            self.look_at_slice(slice, cx);
        }
        self.end_summing(cx);
    }

    /// A step of adding up. `false`: it wants nothing now.
    pub(super) fn step_summing(&mut self, cx: &mut StepContext<'_>) -> bool {
        let Some(summing) = &mut self.summing else {
            return false;
        };
        let news = cx.public_state.take_slice_news();
        // Also once this node has its result: others may lack what only it can give.
        let due = summing.flood_at.is_some_and(|at| cx.now >= at);
        if due {
            summing.flood_at = None;
            for &slice in &summing.unsigned {
                cx.public_state.flood_slices(slice, &summing.roots);
            }
        }
        for slice in &news {
            self.look_at_slice(*slice, cx);
        }
        self.end_summing(cx);
        due || !news.is_empty()
    }

    /// Uses the sum of a slice that is signed and here, or adds it up if all its slices are.
    fn look_at_slice(&mut self, slice: u32, cx: &mut StepContext<'_>) {
        let Some(summing) = self.summing.as_mut().filter(|it| it.unsigned.contains(&slice)) else {
            return;
        };
        // One of them is honest. With as many as may lie, a wrong sum could be used.
        let needed = cx.config.electorate.colluding + 1;
        let signed = cx.public_state.signed_sum(slice, &cx.record.started, needed);
        let signed = signed.and_then(|hash| cx.public_state.sum_with(slice, &hash).cloned());
        if let Some(body) = signed {
            summing.unsigned.remove(&slice);
            summing.sums.entry(slice).or_insert(body);
            return;
        }
        // Signed by this node already; it waits only to know that others have the same.
        if summing.sums.contains_key(&slice) {
            return;
        }
        let roots = &self
            .summing
            .as_ref()
            .map_or(BTreeMap::new(), |it| it.roots.clone());
        let Some(sum) = self.add_slices(slice, roots, cx).transpose() else {
            return;
        };
        match sum {
            Ok(sum) => {
                let body = cx.public_state.give_sum(cx.now, slice, &sum);
                if let (Some(summing), Some(body)) = (&mut self.summing, body) {
                    summing.sums.insert(slice, body);
                }
            }
            Err(reason) => cx.fault(reason),
        }
    }

    /// The sum of a slice, if all of that number are here.
    fn add_slices(
        &self,
        slice: u32,
        roots: &BTreeMap<Party, ItemHash>,
        cx: &StepContext<'_>,
    ) -> Result<Option<Vec<u8>>, FinalError> {
        let (Some(bodies), Way::Sealed(finals)) = (
            cx.public_state.slices_for(slice, roots),
            &cx.public_state.rules.way,
        ) else {
            return Ok(None);
        };
        let secrets = self.opening.secrets().unwrap_or_default();
        let bytes = bodies.iter().map(|body| body.bytes());
        finals.add_slices(slice, bytes, &secrets).map(Some)
    }

    /// Ends the run once every sum is here, or the time is over.
    fn end_summing(&mut self, cx: &mut StepContext<'_>) {
        let Some(summing) = self.summing.as_ref().filter(|_| !cx.record.finished) else {
            return;
        };
        let lacking = cx
            .slices()
            .filter(|slice| !summing.sums.contains_key(slice))
            .count();
        if lacking == 0 {
            return self.add_up(cx);
        }
        if cx.now >= summing.end {
            cx.fault(format!(
                "no mean: {lacking} of {} sums of slices did not come in time; if all were up, raise \
                 run.settle_ms",
                cx.slices().count()
            ));
            self.end_without_sum(cx);
        }
    }
}

impl StepContext<'_> {
    /// The numbers of the slices in which finals travel.
    fn slices(&self) -> impl Iterator<Item = u32> + use<> {
        let count = match &self.public_state.rules.way {
            Way::Sealed(finals) => finals.slices().map_or(0, |slices| slices.count()),
            _ => 0,
        };
        0..count as u32
    }
}
