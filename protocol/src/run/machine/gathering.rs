//! The phase from READY to the mark that the plan is spent.

use std::collections::{BTreeMap, BTreeSet};

use crate::agreement::gathering::{Gathering, GatheringStep, Unstarted};
use crate::agreement::presence::Standing;
use crate::messages::notice::Notice;
use crate::messages::set::Set;
use crate::plan::run_file::settings::RunSettings;
use crate::run::config::RunConfig;
use crate::run::context::StepContext;
use crate::run::interface::Output;
use crate::run::outcome::Event;
use crate::run::phase::{GatheringPhase, RunPhase, SpendingPhase};
use crate::run::seals::Seals;
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
    // More time helps no party at whose address nothing answers: it takes other advice.
    if missing.iter().any(is_unanswered) {
        advice += "; `undertone doctor` says more of addresses at which nothing answers";
    }
    if !missing.iter().all(is_unanswered) {
        advice += &format!("; if they only need longer, raise {key}");
    }
    advice
}

/// Returns the reason why there is no START, with the names of the parties that it depends on.
fn unstarted(config: &RunConfig, why: &Unstarted) -> String {
    let RunSettings {
        join_ms,
        grace_ms,
        min_parties,
        ..
    } = config.plan.draft().run;
    match why {
        Unstarted::TooFew { ready, missing } => format!(
            "{} ready after join_ms = {join_ms}, min_parties is {min_parties}; {}{}",
            match ready {
                1 => "1 party is".to_owned(),
                ready => format!("{ready} parties are"),
            },
            standings(config, missing),
            advice(missing, "run.join_ms")
        ),
        Unstarted::LeftOut { by } => format!(
            "the others begin without this party: START was signed without it by {}; it was not ready \
             and connected in time; raise run.grace_ms = {grace_ms}, or start it earlier",
            config.names(by)
        ),
        Unstarted::Unanswered => "this node did not run for a while, and nobody has told it since whether \
                                  the others have begun; nothing has left it"
            .to_owned(),
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
            let parts = listed(&parts, |parties| config.names(parties));
            format!("no common START within join_ms = {join_ms}; {parts}; raise run.join_ms if all were up")
        }
    }
}

/// "where they stand: names" of these.
fn standings(config: &RunConfig, missing: &[(Party, Standing)]) -> String {
    let mut by_standing: BTreeMap<Standing, Vec<Party>> = BTreeMap::new();
    for (party, standing) in missing {
        by_standing.entry(*standing).or_default().push(*party);
    }
    let parts = by_standing.into_iter();
    let parts: Vec<_> = parts
        .map(|(standing, parties)| (parties, standing.phrase()))
        .collect();
    listed(&parts, |parties| config.names(parties))
}

/// Tells a person why this node begins without some.
fn tell_without(gathering: &Gathering, begun: &BTreeSet<Party>, cx: &mut StepContext<'_>) {
    let mut missing = gathering.without(&cx.public_state.flood, cx.now);
    missing.retain(|(party, _)| !begun.contains(party));
    if missing.is_empty() {
        return;
    }
    // The grace ends the wait for those who are away, if only another member has found them so.
    // Anybody else was waited for until `join_ms`.
    let of_grace = missing.iter().all(|(_, standing)| standing.is_away());
    let key = if of_grace || gathering.is_within_join(cx.now) {
        "run.grace_ms"
    } else {
        "run.join_ms"
    };
    let text = format!(
        "the run begins without some parties: {}{}",
        standings(cx.config, &missing),
        advice(&missing, key)
    );
    cx.fault(text);
}

impl GatheringPhase {
    /// Carries out a step of gathering. The configuration has the schedule that START draws by now.
    pub(super) fn gather(mut self: Box<Self>, step: GatheringStep, cx: &mut StepContext<'_>) -> RunPhase {
        match step {
            GatheringStep::Say(notice) => cx.public_state.say(notice),
            GatheringStep::Reveal => cx.output(Output::Reveal),
            GatheringStep::Start { seats, notice } => {
                cx.public_state.flood.keep_set(Set::Seats(seats));
                cx.public_state.event(Event::Signed);
                cx.public_state.say(notice);
                cx.public_state.gathered(cx.now);
            }
            GatheringStep::GiveUp { notice, lacking } => {
                cx.public_state.event(Event::GivenUp(lacking));
                // The START may have failed since a party committed twice: whoever holds the other
                // commitment must see both.
                if let Notice::GiveUp { number, .. } = notice {
                    cx.public_state.show_commitments(number);
                }
                cx.public_state.say(notice);
            }
            GatheringStep::Call => cx.public_state.hurry(cx.now),
            GatheringStep::Pulse => cx.public_state.pulse(),
            GatheringStep::Await(parties) => cx.public_state.event(Event::Awaiting(parties)),
            GatheringStep::Abort(why) => {
                // The others need not wait for a node that will never begin.
                self.withdraw(cx);
                let reason = unstarted(cx.config, &why);
                if let Unstarted::LeftOut { by } = why {
                    cx.public_state.event(Event::LeftOut(by));
                }
                cx.abort(reason);
                return RunPhase::Over;
            }
            GatheringStep::Liar(party) => {
                let name = cx.config.name(party);
                cx.abort(format!(
                    "{name} revealed another nonce for the schedule than it had committed to"
                ));
                return RunPhase::Over;
            }
            GatheringStep::Begin {
                number,
                parties,
                seed,
            } => {
                cx.record.start_number = number;
                cx.public_state.begun(number, &parties);
                // Before the draw a share of any neighbour might have been due, so that all were
                // kept.
                if seed.is_some() {
                    self.early.drop_undue(cx);
                }
                return self.begin(parties, cx);
            }
        }
        RunPhase::Gathering(self)
    }

    fn begin(self: Box<Self>, parties: BTreeSet<Party>, cx: &mut StepContext<'_>) -> RunPhase {
        tell_without(&self.gathering, &parties, cx);
        (cx.record.started, cx.record.started_at) = (parties, Some(cx.now));
        // Whose keys count is known only now: until START a node that starts anew replaces its
        // READY.
        let seals = match Seals::prepare(self.seal_seed, self.gathering.into_keys(), cx) {
            Ok(seals) => seals,
            Err(reason) => {
                cx.abort(reason);
                return RunPhase::Over;
            }
        };
        // The mark is durable before the first share leaves, so that no party takes part twice in
        // one plan.
        cx.output(Output::Spend);
        RunPhase::Spending(Box::new(SpendingPhase {
            mixing: self.mixing_start.mixing(&cx.config.mixing),
            seals,
            early: self.early,
            marked: false,
        }))
    }

    /// This node's nonce may leave with its START, or why not: then nothing of START does.
    pub(super) fn revealed(
        mut self: Box<Self>,
        result: Result<(), String>,
        cx: &mut StepContext<'_>,
    ) -> RunPhase {
        if let Err(reason) = result {
            // A nonce that is not counted must not leave, nor a START that would reveal it.
            self.withdraw(cx);
            cx.abort(reason);
            return RunPhase::Over;
        }
        match self.gathering.revealed() {
            Some(step) => self.gather(step, cx),
            None => RunPhase::Gathering(self),
        }
    }

    /// Floods that what this node has said of being ready is void, unless it has said its START.
    pub(super) fn withdraw(&self, cx: &mut StepContext<'_>) {
        if let Some(withdrawal) = self.gathering.withdrawal() {
            cx.public_state.say(withdrawal);
        }
    }
}
