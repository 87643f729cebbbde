//! Ratio consensus: begun from the very same openings, around edges that were cut, until a mean is
//! verified.

use std::collections::BTreeMap;

use crate::averaging::integers;
use crate::averaging::ratio::{self, RatioConsensus};
use crate::messages::notice::{Form, Notice};
use crate::publishing::averaging::cuts::{self, View};
use crate::publishing::averaging::fallback::{Fallback, Said};
use crate::publishing::averaging::inbox::Arrival;
use crate::publishing::averaging::machine::{Averaging, FALLBACK_STAGES, FAST_STAGES, Mode};
use crate::publishing::interface::{PublishingDeed, Surroundings};
use crate::time::Time;
use crate::topology::party::Party;

impl Averaging {
    pub(super) fn fall_back(&mut self, now: Time, around: &Surroundings<'_>) {
        let Some(electorate) = &self.electorate else {
            return;
        };
        let view = View::of(around.flood, &self.setup.graph, &electorate.members);
        let roles = view.roles(&self.setup.graph, &electorate.members, self.setup.me);
        let mut ratio = RatioConsensus::new(self.own.iter().copied());
        for (party, steward) in &roles.stewards {
            if *steward == self.setup.me {
                self.enter(&mut ratio, *party, false);
            }
        }
        let fallback = Box::new(Fallback::new(ratio, electorate.ratio_width, view, roles));
        // What the fast form has not used of its time is there for this one, which has many times
        // as many rounds to do: a mean that is given up too early is far from the exact one.
        let ends = self.stages_end(FAST_STAGES + FALLBACK_STAGES);
        self.stage = Mode::Fallback { fallback, ends };
        self.inbox.retain(|_, form, _| form == Form::Ratio);
        self.wait(now);
        self.say_round(around);
    }

    fn enter(&self, ratio: &mut RatioConsensus, party: Party, out: bool) {
        if let Some(bytes) = self.openings.get(&party) {
            ratio.enter(integers::read_narrow(bytes, self.terms.opening_bytes), out);
        }
    }

    /// Sends the present round of ratio consensus.
    fn say_round(&mut self, around: &Surroundings<'_>) {
        let Mode::Fallback { fallback, .. } = &self.stage else {
            return;
        };
        let round = fallback.round();
        if let Some((view, spread, bytes)) = fallback.message() {
            let signed = self.setup.signer.round(Form::Ratio, round, view, spread, &bytes);
            return self.send(signed, &bytes, around.connected);
        }
        // Only what somebody made up leads here. The others go on without this node; it says
        // nothing more, also in later rounds.
        self.fault("a running sum does not fit into a message: somebody sent wrong ones");
        self.sent = Some((Form::Ratio, round));
        if let Mode::Fallback { ends, .. } = &mut self.stage {
            *ends = Time::ZERO;
        }
    }

    /// Takes up what was flooded about cut edges, and cuts those to neighbours that are lost.
    pub(super) fn look_around(&mut self, now: Time, around: &Surroundings<'_>) {
        let (Mode::Fallback { fallback, .. }, Some(electorate)) = (&self.stage, &self.electorate) else {
            return;
        };
        let (me, round) = (self.setup.me, fallback.round());
        let view = View::of(around.flood, &self.setup.graph, &electorate.members);
        let lacking =
            |party: &&Party| !self.inbox.has(**party, Form::Ratio, round) || self.broken.contains(*party);
        let lost = |party: &&Party| !view.is_cut(me, **party) && lacking(party);
        // Only once this round's wait has begun. Who has its result waits only where its message is
        // waited for; others may have left by then.
        let waits = self.sent == Some((Form::Ratio, round));
        let gone = |party: &&Party| waits && self.is_lost(**party, now, around);
        let cut_by_other = |party: &&Party| view.has_cut(**party, me) && !view.has_cut(me, **party);
        let cut = electorate
            .neighbours
            .iter()
            .filter(|party| cut_by_other(party) || (lost(party) && gone(party)));
        let notices = cut.map(|&party| Notice::Severed {
            party,
            held: self.openings.contains_key(&party),
        });
        let notices: Vec<PublishingDeed> = notices.map(PublishingDeed::Say).collect();
        self.deeds.extend(notices);
        let (Mode::Fallback { fallback, .. }, Some(electorate)) = (&mut self.stage, &self.electorate) else {
            return;
        };
        if view != *fallback.view() {
            let roles = view.roles(&self.setup.graph, &electorate.members, me);
            let (openings, width) = (&self.openings, self.terms.opening_bytes);
            fallback.change(view, roles, |ratio, before, after| {
                let mine = |roles: &cuts::Roles, party: Party| roles.stewards.get(&party) == Some(&me);
                for (&party, bytes) in openings {
                    match (mine(before, party), mine(after, party)) {
                        (false, true) => ratio.enter(integers::read_narrow(bytes, width), false),
                        (true, false) => ratio.enter(integers::read_narrow(bytes, width), true),
                        _ => {}
                    }
                }
            });
            let live = fallback.roles().live.clone();
            self.inbox.retain(|party, _, _| live.contains(&party));
        }
    }

    pub(super) fn step_fallback(&mut self, now: Time, around: &Surroundings<'_>) -> bool {
        // A cut that this node has just decided on is taken up when it comes back as a held notice.
        if self
            .deeds
            .iter()
            .any(|deed| matches!(deed, PublishingDeed::Say(Notice::Severed { .. })))
        {
            return false;
        }
        let Mode::Fallback { fallback, ends } = &mut self.stage else {
            return false;
        };
        let round = fallback.round();
        let given_up = now >= *ends || round >= ratio::MOST_ROUNDS - 1;
        if given_up && !self.ended {
            self.conclude_fallback(now, false);
            return false;
        }
        let live = fallback.roles().live.clone();
        let ahead = live
            .iter()
            .any(|party| self.inbox.has(*party, Form::Ratio, round));
        if self.sent != Some((Form::Ratio, round)) {
            // Who has its result goes on only for others' sake.
            if self.ended && !ahead {
                return false;
            }
            self.wait(now);
            self.say_round(around);
            return true;
        }
        let Mode::Fallback { fallback, .. } = &mut self.stage else {
            return false;
        };
        if given_up
            || !live
                .iter()
                .all(|party| self.inbox.has(*party, Form::Ratio, round))
        {
            return false;
        }
        let messages = live.iter().filter_map(|party| {
            let Arrival {
                view, spread, values, ..
            } = self.inbox.take(*party, Form::Ratio, round)?;
            Some((
                *party,
                Said {
                    view,
                    spread,
                    sums: values,
                },
            ))
        });
        let messages: BTreeMap<Party, Said> = messages.collect();
        let verified = fallback.step(messages).is_some();
        if verified && !self.ended {
            self.conclude_fallback(now, true);
        }
        let alone = live.is_empty() && !self.ended && verified;
        if alone {
            self.conclude_fallback(now, false);
        }
        true
    }
}
