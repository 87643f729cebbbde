//! From READY to the mark that the plan is spent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::agreement::gathering::{GatheringStep, Unstarted};
use crate::agreement::presence::Standing;
use crate::messages::log::ShareId;
use crate::messages::notice::Notice;
use crate::messages::set::Set;
use crate::messages::stage::Phase;
use crate::mixing::exchange::{Outset, ShareExchange};
use crate::plan::run_file::settings::RunSettings;
use crate::publishing::interface::Published;
use crate::run::interface::Output;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::{Ending, Event};
use crate::topology::party::Party;

/// "what: names" of all that are not empty.
fn listed(parts: &[(Vec<Party>, &str)], names: impl Fn(&[Party]) -> String) -> String {
    let parts = parts.iter().filter(|(parties, _)| !parties.is_empty());
    let parts: Vec<String> = parts
        .map(|(parties, what)| format!("{what}: {}", names(parties)))
        .collect();
    parts.join("; ")
}

/// Advice for the next time, where these are missing; `key` gives them longer.
fn advice(missing: &[(Party, Standing)], key: &str) -> String {
    let is_unanswered = |(_, standing): &(Party, Standing)| *standing == Standing::Unanswered;
    let mut advice = String::new();
    if missing.iter().any(is_unanswered) {
        advice += "; `undertone doctor` says more of addresses at which nothing answers";
    }
    if !missing.iter().all(is_unanswered) {
        advice += &format!("; if they only need longer, raise {key}");
    }
    advice
}

impl Run {
    pub(super) fn gather(&mut self, step: GatheringStep) {
        match step {
            GatheringStep::Say(notice) => self.commons.say(notice),
            GatheringStep::Reveal => self.commons.outbox.push_back(Output::Reveal),
            GatheringStep::Start { seats, notice } => {
                self.commons.flood.keep_set(Set::Seats(seats));
                self.commons.say(notice);
                self.commons.gathered(self.now);
            }
            GatheringStep::GiveUp { notice, lacking } => {
                self.commons.event(Event::GivenUp(lacking));
                if let Notice::GiveUp { number, .. } = notice {
                    self.commons.show_commitments(number);
                }
                self.commons.say(notice);
            }
            GatheringStep::Call => self.commons.hurry(self.now),
            GatheringStep::Pulse => self.commons.pulse(),
            GatheringStep::Await(parties) => self.commons.event(Event::Awaiting(parties)),
            GatheringStep::Abort(why) => {
                self.withdraw();
                self.machine = Machine::Over;
                let reason = self.unstarted(&why);
                if let Unstarted::LeftOut { by } = why {
                    self.commons.event(Event::LeftOut(by));
                }
                self.finish(Ending::Aborted { reason }, Published::default());
            }
            GatheringStep::Liar(party) => {
                self.machine = Machine::Over;
                let name = &self.plan.draft().members[party].name;
                let reason =
                    format!("{name} revealed another nonce for the schedule than it had committed to");
                self.finish(Ending::Aborted { reason }, Published::default());
            }
            GatheringStep::Begin {
                number,
                parties,
                seed,
            } => {
                self.record.start_number = number;
                self.commons.begun(number, &parties);
                seed.into_iter().for_each(|seed| self.draw(seed));
                let Machine::Gathering { gathering, onset } =
                    std::mem::replace(&mut self.machine, Machine::Over)
                else {
                    return;
                };
                self.tell_without(gathering.without(), &parties);
                (self.record.started, self.record.started_at) = (parties, Some(self.now));
                if let Err(reason) = self.prepare_seals(gathering.into_keys()) {
                    let reason = reason.to_string();
                    return self.finish(Ending::Aborted { reason }, Published::default());
                }
                let mixing = onset.mixing(&self.course);
                self.machine = Machine::Spending { mixing };
                self.commons.outbox.push_back(Output::Spend);
            }
        }
    }

    /// Whether START waits for its nonce to be counted.
    pub(super) fn is_revealing(&self) -> bool {
        matches!(&self.machine, Machine::Gathering { gathering, .. } if gathering.is_revealing())
    }

    /// This node's nonce may leave with its START, or why not: then nothing of START does.
    pub(super) fn revealed(&mut self, result: Result<(), String>) {
        if let Err(reason) = result {
            self.withdraw();
            self.machine = Machine::Over;
            return self.finish(Ending::Aborted { reason }, Published::default());
        }
        let step = match &mut self.machine {
            Machine::Gathering { gathering, .. } => gathering.revealed(),
            _ => None,
        };
        step.into_iter().for_each(|step| self.gather(step));
    }

    /// Floods that what this node has said of being ready is void, unless it has said its START.
    pub(super) fn withdraw(&mut self) {
        if let Machine::Gathering { gathering, .. } = &self.machine
            && let Some(withdrawal) = gathering.withdrawal()
        {
            self.commons.say(withdrawal);
        }
    }

    /// Why there is no START, with the names of those it hangs on.
    fn unstarted(&self, why: &Unstarted) -> String {
        let RunSettings {
            join_ms,
            grace_ms,
            min_parties,
            ..
        } = self.plan.draft().run;
        let name = |party: Party| self.plan.draft().members[party].name.as_str();
        let names = |parties: &[Party]| {
            let names: Vec<&str> = parties.iter().map(|&party| name(party)).collect();
            names.join(", ")
        };
        match why {
            Unstarted::TooFew { ready, missing } => format!(
                "{ready} parties are ready after join_ms = {join_ms}, min_parties is {min_parties}; {}{}",
                self.standings(missing),
                advice(missing, "run.join_ms")
            ),
            Unstarted::LeftOut { by } => format!(
                "the others begin without this party: START was signed without it by {}; it was not ready \
                 and connected in time; raise run.grace_ms = {grace_ms}, or start it earlier",
                names(by)
            ),
            Unstarted::Unanswered => {
                "this node did not run for a while, and nobody has told it since whether \
                                      the others have begun; nothing has left it"
                    .to_owned()
            }
            Unstarted::NotCommon {
                silent,
                other,
                two,
                kept,
            } => {
                let parts = [
                    (silent.clone(), "signed none"),
                    (other.clone(), "signed another one"),
                    (two.clone(), "signed two"),
                    (kept.clone(), "signed it, and did not give it up with this node"),
                ];
                let parts = listed(&parts, names);
                format!(
                    "no common START within join_ms = {join_ms}; {parts}; raise run.join_ms if all were up"
                )
            }
        }
    }

    /// "where they stand: names" of these.
    fn standings(&self, missing: &[(Party, Standing)]) -> String {
        let members = &self.plan.draft().members;
        let names = |parties: &[Party]| {
            let names: Vec<&str> = parties
                .iter()
                .map(|&party| members[party].name.as_str())
                .collect();
            names.join(", ")
        };
        let mut by_standing: BTreeMap<Standing, Vec<Party>> = BTreeMap::new();
        for (party, standing) in missing {
            by_standing.entry(*standing).or_default().push(*party);
        }
        let parts = by_standing.into_iter();
        let parts: Vec<_> = parts
            .map(|(standing, parties)| (parties, standing.phrase()))
            .collect();
        listed(&parts, names)
    }

    /// Tells a person why this node begins without some.
    fn tell_without(&mut self, missing: &[(Party, Standing)], begun: &BTreeSet<Party>) {
        let missing: Vec<_> = missing
            .iter()
            .filter(|(party, _)| !begun.contains(party))
            .copied()
            .collect();
        if missing.is_empty() {
            return;
        }
        let of_grace = missing.iter().all(|(_, standing)| standing.is_away());
        let key = if of_grace { "run.grace_ms" } else { "run.join_ms" };
        let text = format!(
            "the run begins without some: {}{}",
            self.standings(&missing),
            advice(&missing, key)
        );
        self.commons.event(Event::Fault(text));
    }

    pub(super) fn spent(&mut self, result: Result<(), String>) {
        if result.is_ok() && self.waits_for_words() {
            self.waking.spent = true;
            return;
        }
        let Machine::Spending { mixing } = std::mem::replace(&mut self.machine, Machine::Over) else {
            return;
        };
        if let Err(reason) = result {
            return self.finish(Ending::Spent { reason }, Published::default());
        }
        self.commons.event(Event::Phase(Phase::Mixing));
        if self.plan.goes_on_by_task() {
            // What follows is no release of this machine.
            self.record.handed_over = true;
            return;
        }
        if self.plan.reads_circles()
            && let Err(reason) = self.begin_circle(&mixing.state().value)
        {
            return self.finish(Ending::Aborted { reason }, Published::default());
        }
        let start = self.record.started_at.unwrap_or(self.now);
        let absent = (0..self.electorate.parties).filter(|party| !self.record.started.contains(party));
        let gone = absent.chain(self.gone.keys().copied()).collect();
        let outset = Outset {
            start,
            now: self.now,
            absent: gone,
            connected: self.private.clone(),
        };
        let mut exchange = ShareExchange::new(self.course.clone(), mixing, outset);
        let started = &self.record.started;
        let early = std::mem::take(&mut self.early).into_iter();
        for (id, arrival) in early.filter(|(id, _)| started.contains(&id.from)) {
            exchange.share(id.from, id, arrival);
        }
        self.machine = Machine::Mixing { exchange };
    }

    /// START has drawn the schedule.
    pub(super) fn draw(&mut self, seed: u64) {
        self.plan = Arc::new(self.plan.with_draw(seed));
        let schedule = Arc::new(self.plan.exchanges().clone());
        let mechanism = self.plan.mechanism(self.course.me);
        self.course.draw(schedule.clone(), mechanism);
        self.commons.rules.schedule = schedule;
        let due = |id: &ShareId| self.course.is_due(id.round, id.from);
        let undue: Vec<ShareId> = self.early.keys().copied().filter(|id| !due(id)).collect();
        for id in undue {
            self.early.remove(&id);
            if !self.commons.has_begun_with(id.from) {
                continue;
            }
            self.commons.offence(
                id.from,
                format!(
                    "a share that is not due: round {}, from {} to {}",
                    id.round, id.from, id.to
                ),
            );
        }
    }
}
