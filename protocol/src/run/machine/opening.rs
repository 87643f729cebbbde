//! The opening of the agreed set, and the run's end.

use std::collections::{BTreeMap, BTreeSet};

use crate::agreement::agreeing::Clock;
use crate::agreement::items::Body;
use crate::lattice::grid::LatticeWeight;
use crate::messages::log::Sealed;
use crate::messages::stage::Stage;
use crate::plan::slices::Slices;
use crate::publishing::interface::{FinalError, Published};
use crate::publishing::opening::{Dealt, OpeningSights, OpeningStep, Unopened};
use crate::publishing::sealed::{OpenedSum, RevealedKeys};
use crate::publishing::way::Way;
use crate::run::context::StepContext;
use crate::run::outcome::{Ending, Event, SealedFinal};
use crate::run::phase::{Confirmation, OpeningPhase, RunPhase, Transfers, Unsealing};
use crate::time::Time;
use crate::topology::party::Party;

impl OpeningPhase {
    /// Begins to open the set, by whoever is in it or holds shares, once nothing is corrected any
    /// more.
    pub(super) fn begin(transfers: Transfers, unsealing: Unsealing, cx: &mut StepContext<'_>) -> RunPhase {
        let Transfers {
            circle,
            seals: Some(mut seals),
            ..
        } = transfers
        else {
            return cx.remain_closed("this plan seals nothing");
        };
        let terms = cx.public_state.rules.terms;
        let dealt = |party: &Party| -> Option<(Party, (Sealed, Dealt))> {
            let log = unsealing.logs.get(party)?;
            let deal = log.check_sealed(terms.as_ref()).ok().flatten()?;
            let dealt = seals.dealt(*party, deal, &cx.record.started);
            Some((*party, (log.sealed.clone()?, dealt)))
        };
        let of: BTreeMap<Party, (Sealed, Dealt)> = unsealing.members.iter().filter_map(dealt).collect();
        // Nothing is corrected any more: nobody needs the keys of these masks again.
        seals.wipe_masks(cx.config.may_go_on());
        let kept = seals.keep_secrets(&of, cx);
        let clock = Clock::new(cx.stage_begins(unsealing.corrections.len()), cx.config.settle_ms);
        let set = of.into_iter().map(|(party, (_, dealt))| (party, dealt)).collect();
        RunPhase::Opening(Box::new(OpeningPhase {
            opening: kept.open(set, clock),
            unsealing,
            confirmation: Confirmation::Unasked,
            summing: None,
            circle,
            seals: Some(seals),
        }))
    }

    /// A step of opening, or of the agreement on what was opened. `false`: it wants nothing now.
    pub(super) fn step(&mut self, cx: &mut StepContext<'_>) -> bool {
        self.step_opening(cx) || self.step_confirming(cx) || self.step_summing(cx)
    }

    /// Returns the moment to step again although nothing happened.
    pub(super) fn wake(&self, now: Time, unreachable: &BTreeMap<Party, Time>) -> Time {
        let agreement = self.confirmation.agreement();
        let confirmed = agreement.map_or(Time::FAR, |it| it.wake(now, &BTreeMap::new()));
        let summing = self
            .summing
            .as_ref()
            .map_or(Time::FAR, |summing| summing.wake(now));
        self.opening.wake(now, unreachable).min(confirmed).min(summing)
    }

    fn step_opening(&mut self, cx: &mut StepContext<'_>) -> bool {
        let calls = cx.public_state.flood.calls(Stage::Sealed);
        let called: BTreeSet<Party> = calls.into_values().flatten().collect();
        let mut sights = OpeningSights {
            flood: &mut cx.public_state.flood,
            unreachable: &cx.peers.unreachable,
            called: &called,
        };
        match self.opening.step(cx.now, &mut sights) {
            None => return false,
            Some(OpeningStep::Say(notice)) => cx.public_state.say(notice),
            Some(OpeningStep::Wrong { author, reason }) => cx.public_state.offence(author, reason),
            // Only this node can read the letter, so that an offence could not be proved.
            Some(OpeningStep::NoShare { of, reason }) => {
                let name = cx.config.name(of);
                cx.fault(format!("{name} dealt this node no share of its secret: {reason}"));
            }
            Some(OpeningStep::Open) => self.all_secrets_known(cx),
            Some(OpeningStep::Over(lacking)) => self.secrets_lack(lacking, cx),
        }
        true
    }

    /// Every secret is here. Where finals went to everybody all that is sealed is, too; else its
    /// slices are added up.
    pub(super) fn opened(&mut self, cx: &mut StepContext<'_>) {
        if cx.public_state.is_sliced() {
            return self.begin_summing(cx);
        }
        self.add_up(cx);
    }

    /// Everything is here that the sum is made of.
    pub(super) fn add_up(&mut self, cx: &mut StepContext<'_>) {
        let opened_for = self.opening.opened_for();
        let included = self.unsealing.members.clone();
        let mine = included.contains(&cx.config.mixing.me);
        let opened = match &self.circle {
            Some(circle) if mine => self.circle_sum(circle, cx),
            Some(_) => Ok(None),
            None => self.sum(cx).map(|sum| Some((sum, 0))),
        };
        // A circle's sum is missing without an error only where it was out of range.
        cx.record.out_of_range = self.circle.is_some() && mine && matches!(opened, Ok(None));
        let sum = match opened {
            Ok(opened) => opened.map(|(sum, weight)| sum.weighing(LatticeWeight(weight.into()))),
            Err(reason) => {
                cx.fault(reason);
                None
            }
        };
        if mine && cx.record.sealed != Some(SealedFinal::Closed) {
            cx.record.sealed = Some(SealedFinal::Opened);
        }
        cx.public_state.event(Event::Opened(opened_for.clone()));
        cx.record.opened_for = opened_for;
        cx.conclude(Published {
            sum,
            ..Published::without_sum(included, true)
        });
    }

    /// The sum of all that the set has sealed and corrected.
    fn sum(&self, cx: &StepContext<'_>) -> Result<OpenedSum, FinalError> {
        let Way::Sealed(finals) = &cx.public_state.rules.way else {
            return Err(FinalError::NoResidues);
        };
        let unsealing = &self.unsealing;
        let secrets = self.opening.secrets().unwrap_or_default();
        let (mut vectors, mut revealed) = (Vec::new(), Vec::new());
        for (stage, giver, body) in self.corrections_given(cx) {
            match unsealing.masks.get(stage).map(|masks| masks.get(&giver)) {
                None => vectors.push(body),
                Some(None) => {}
                Some(Some(with)) => revealed.push(RevealedKeys {
                    giver,
                    with,
                    keys: body.bytes().ok_or(FinalError::Unreadable)?,
                }),
            }
        }
        if let Some(summing) = &self.summing {
            let sums = finals.slices().into_iter().flat_map(Slices::all);
            let sums = sums.map(|slice| summing.sums.get(&slice).and_then(Body::bytes));
            return finals.join_slices(sums, vectors.into_iter().map(Body::bytes), &revealed);
        }
        let of = |party: &Party| -> Option<&Body> {
            let hash = unsealing.logs.get(party)?.sealed.as_ref()?.hash;
            cx.public_state.items(Stage::Sealed).version(*party, &hash)
        };
        let sealed: Vec<&Body> = unsealing.members.iter().filter_map(of).collect();
        // All of it is held, or the set would not be agreed.
        if sealed.len() < unsealing.members.len() || secrets.len() < sealed.len() {
            return Err(FinalError::NoResidues);
        }
        let items = sealed.into_iter().chain(vectors).map(Body::bytes);
        finals.open(items, &revealed, &secrets)
    }

    /// The corrections of those who are opened, each with its stage from 0 and its giver; who owes
    /// none has given an empty one, and is left out.
    pub(super) fn corrections_given<'a>(&'a self, cx: &'a StepContext<'_>) -> Vec<(usize, Party, &'a Body)> {
        let unsealing = &self.unsealing;
        let corrections = unsealing.corrections.iter().zip(1..);
        let corrections = corrections.flat_map(|(set, number)| {
            let items = cx.public_state.items(Stage::Correction(number));
            let of_members = set.iter().filter(|(party, _)| unsealing.members.contains(party));
            let given = of_members.filter_map(|(party, hash)| Some((*party, items.version(*party, hash)?)));
            given.map(move |(giver, body)| (number as usize - 1, giver, body))
        });
        corrections.filter(|(_, _, body)| !body.is_empty()).collect()
    }

    /// The stage is over, and a secret is lacking: there is no mean, and no smaller set is opened.
    pub(super) fn unopened(&mut self, lacking: Vec<Unopened>, cx: &mut StepContext<'_>) {
        cx.fault(format!("not opened: {}", cx.sentences(&lacking)));
        cx.record.unopened = lacking;
        self.end_without_sum(cx);
    }

    /// The set is agreed, and its sum is not known here.
    pub(super) fn end_without_sum(&self, cx: &mut StepContext<'_>) {
        let published = Published::without_sum(self.unsealing.members.clone(), true);
        let ending = match cx.record.withheld.clone() {
            Some(reason) => Ending::Withheld { reason },
            None => Ending::Degraded,
        };
        cx.finish(ending, published);
    }
}
