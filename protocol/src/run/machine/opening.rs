//! The opening of the agreed set, and the run's end.

use std::collections::{BTreeMap, BTreeSet};

use crate::agreement::agreeing::Clock;
use crate::agreement::items::Body;
use crate::lattice::grid::LatticeWeight;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::Sealed;
use crate::messages::stage::Stage;
use crate::publishing::interface::{FinalError, Published};
use crate::publishing::opening::{Dealt, OpeningSights, OpeningStep, Unopened};
use crate::publishing::result::Sum;
use crate::publishing::sealed::ToldKeys;
use crate::publishing::way::Way;
use crate::run::confirmation::Confirmation;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::{Ending, Event, SealedFinal};
use crate::run::unsealing::Unsealing;
use crate::topology::party::Party;

impl Run {
    /// Nothing is corrected any more: the set is opened, by whoever is in it or holds shares.
    pub(super) fn begin_opening(&mut self, unsealing: Unsealing) {
        let terms = self.commons.rules.terms;
        let dealt = |party: &Party| -> Option<(Party, (Sealed, Dealt))> {
            let log = unsealing.logs.get(party)?;
            let deal = log.check_sealed(terms.as_ref()).ok().flatten()?;
            Some((*party, (log.sealed.clone()?, self.dealt(*party, deal)?)))
        };
        let of: BTreeMap<Party, (Sealed, Dealt)> = unsealing.members.iter().filter_map(dealt).collect();
        // Nothing is corrected any more: nobody needs the keys of these masks again.
        let goes_on = self.may_go_on();
        self.seals.iter_mut().for_each(|seals| seals.wipe_masks(goes_on));
        let Some(kept) = self.keep_secrets(&of) else {
            return self.remain_closed("this plan seals nothing");
        };
        let clock = Clock::new(self.stage_begins(&unsealing), self.settle_ms);
        let set = of.into_iter().map(|(party, (_, dealt))| (party, dealt)).collect();
        let opening = kept.open(set, clock);
        self.machine = Machine::Opening {
            opening,
            unsealing,
            confirmation: Confirmation::Unasked,
        };
    }

    /// A step of opening. False: it wants nothing now.
    pub(super) fn step_opening(&mut self) -> bool {
        let Machine::Opening { opening, .. } = &mut self.machine else {
            return false;
        };
        let calls = self.commons.flood.calls(Stage::Sealed);
        let called: BTreeSet<Party> = calls.into_values().flatten().collect();
        let mut sights = OpeningSights {
            flood: &mut self.commons.flood,
            gone: &self.gone,
            called: &called,
        };
        match opening.step(self.now, &mut sights) {
            None => return false,
            Some(OpeningStep::Say(notice)) => self.commons.say(notice),
            Some(OpeningStep::Wrong { author, reason }) => self.commons.offence(author, reason),
            Some(OpeningStep::NoShare { of, reason }) => self.tell_of_no_share(of, reason),
            Some(OpeningStep::Open) => self.all_secrets_known(),
            Some(OpeningStep::Over(lacking)) => self.secrets_lack(lacking),
        }
        true
    }

    /// Every secret is here, and so is everything that is sealed.
    pub(super) fn opened(&mut self) {
        let Machine::Opening {
            opening, unsealing, ..
        } = &self.machine
        else {
            return;
        };
        let opened_for = opening.opened_for();
        let included = unsealing.members.clone();
        let mine = included.contains(&self.course.me);
        let opened = match self.circle.is_some() {
            true if mine => self.circle_sum(),
            true => Ok(None),
            false => self.sum().map(|value| Some((value, 0))),
        };
        self.record.out_of_range = self.circle.is_some() && mine && matches!(opened, Ok(None));
        let sum = match opened {
            Ok(opened) => opened.map(|(value, weight)| Sum {
                value,
                weight: LatticeWeight(weight.into()),
            }),
            Err(reason) => {
                self.commons.event(Event::Fault(reason.to_string()));
                None
            }
        };
        if included.contains(&self.course.me) && !self.is_closed() {
            self.record.sealed = Some(SealedFinal::Opened);
        }
        self.commons.event(Event::Opened(opened_for.clone()));
        self.record.opened_for = opened_for;
        self.conclude(Published {
            sum,
            ..Published::without_sum(included, true)
        });
    }

    /// The sum of all that the set has sealed and corrected.
    fn sum(&self) -> Result<LatticeVector, FinalError> {
        let (
            Machine::Opening {
                opening, unsealing, ..
            },
            Way::Sealed(finals),
        ) = (&self.machine, &self.commons.rules.way)
        else {
            return Err(FinalError::NoResidues);
        };
        let secrets = opening.secrets().unwrap_or_default();
        let of = |party: &Party| -> Option<&Body> {
            let hash = unsealing.logs.get(party)?.sealed.as_ref()?.hash;
            self.commons.items(Stage::Sealed).version(*party, &hash)
        };
        let sealed: Vec<&Body> = unsealing.members.iter().filter_map(of).collect();
        let (mut vectors, mut told) = (Vec::new(), Vec::new());
        for (stage, giver, body) in self.corrections_given(unsealing) {
            match unsealing.masks.get(stage).map(|masks| masks.get(&giver)) {
                None => vectors.push(body),
                Some(None) => {}
                Some(Some(with)) => told.push(ToldKeys {
                    giver,
                    with,
                    keys: body.bytes().ok_or(FinalError::Unreadable)?,
                }),
            }
        }
        // All of it is held, or the set would not be agreed.
        if sealed.len() < unsealing.members.len() || secrets.len() < sealed.len() {
            return Err(FinalError::NoResidues);
        }
        let items = sealed.into_iter().chain(vectors).map(Body::bytes);
        finals.open(items, &told, &secrets)
    }

    /// The corrections of those who are opened, each with its stage from 0 and its giver; who owes
    /// none has given an empty one, and is left out.
    pub(super) fn corrections_given<'a>(&'a self, unsealing: &'a Unsealing) -> Vec<(usize, Party, &'a Body)> {
        let corrections = unsealing.corrections.iter().zip(1..);
        let corrections = corrections.flat_map(|(set, number)| {
            let items = self.commons.items(Stage::Correction(number));
            let of_members = set.iter().filter(|(party, _)| unsealing.members.contains(party));
            let given = of_members.filter_map(|(party, hash)| Some((*party, items.version(*party, hash)?)));
            given.map(move |(giver, body)| (number as usize - 1, giver, body))
        });
        corrections.filter(|(_, _, body)| !body.is_empty()).collect()
    }

    /// The stage is over, and a secret is lacking: there is no mean, and no smaller set is opened.
    pub(super) fn unopened(&mut self, lacking: Vec<Unopened>) {
        let sentences = self.sentences(&lacking);
        self.commons
            .event(Event::Fault(format!("not opened: {sentences}")));
        self.record.unopened = lacking;
        let Machine::Opening { unsealing, .. } = &self.machine else {
            return;
        };
        let included = unsealing.members.clone();
        let published = Published::without_sum(included, true);
        match self.record.withheld.clone() {
            Some(reason) => self.finish(Ending::Withheld { reason }, published),
            None => self.finish(Ending::Degraded, published),
        }
    }
}
