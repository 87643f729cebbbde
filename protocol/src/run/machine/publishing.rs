//! The phase from the gate's verdict to the run's end: the second agreement, and what the plan's
//! way of publishing wants.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::agreement::agreeing::{Agreement, Clock, Step};
use crate::lattice::grid::LatticeWeight;
use crate::messages::log::AgreedLogs;
use crate::messages::stage::Stage;
use crate::mixing::exchange::ShareExchange;
use crate::mixing::finals::FinalState;
use crate::publishing::averaging::early::EarlyRounds;
use crate::publishing::averaging::machine::FLOODING_STAGES;
use crate::publishing::interface::{FinalError, OwnItem, Published, PublishingAction, Setup};
use crate::publishing::publication::Publication;
use crate::publishing::result::Sum;
use crate::publishing::way::Way;
use crate::run::config::Connectivity;
use crate::run::context::StepContext;
use crate::run::machine::Run;
use crate::run::outcome::Ending;
use crate::run::phase::{Audited, PublishingPhase, RunPhase};
use crate::run::public_state::PublicState;
use crate::time::Time;
use crate::topology::party::Party;

/// A reason why a sum of finals has no mean.
#[derive(Debug, Error)]
enum NoMean {
    #[error("the finals' weights do not add up to their parties': somebody lied, and there is no mean")]
    Lie,
    #[error("the finals that are here weigh nothing together: there is no mean")]
    Weightless,
    #[error(
        "the sum is further out than the parties' values and noise can be: somebody's share or final was a lie, and there is no mean"
    )]
    OutOfRange,
}

impl Run {
    /// Hands on the rounds that neighbours sent to this node.
    pub(super) fn hand_on_rounds(&mut self) {
        for (round, values) in std::mem::take(&mut self.public_state.rounds) {
            match &mut self.phase {
                RunPhase::Publishing(phase) => {
                    if let Some(publication) = &mut phase.publication {
                        publication.round(round, values);
                    }
                }
                // A neighbour whose gate answered sooner averages already: a round that was dropped
                // here would count as missed.
                RunPhase::Settling(phase) => phase.early_rounds.keep(round, values),
                RunPhase::Auditing(phase) => {
                    if let Audited::All(early_rounds) = &mut phase.audited {
                        early_rounds.keep(round, values);
                    }
                }
                _ => {}
            }
        }
    }
}

impl PublishingPhase {
    /// Finals are readable: this node gives its own, if it may, and agrees with the others on
    /// theirs.
    pub(super) fn begin(
        shares: ShareExchange,
        (logs, publishers): (&AgreedLogs, BTreeSet<Party>),
        early: EarlyRounds,
        cx: &mut StepContext<'_>,
    ) -> RunPhase {
        let mut publication = None;
        if cx.record.withheld.is_none() {
            match cx.give_final(shares.settle(logs, &publishers), early) {
                Ok(begun) => publication = begun,
                Err(reason) => cx.withhold(reason),
            }
        }
        let clock = Clock::new(cx.now.max(cx.settling_ends()), cx.config.settle_ms);
        RunPhase::Publishing(Box::new(PublishingPhase {
            agreement: cx.agree_on(Stage::Publishing, publishers, clock),
            publication,
        }))
    }

    /// A step of the agreement, or of the publication. `false`: they want nothing now.
    pub(super) fn step(&mut self, cx: &mut StepContext<'_>) -> bool {
        let stage = self.agreement.stage();
        match cx
            .public_state
            .step(&mut self.agreement, stage, cx.now, &cx.peers.unreachable)
        {
            Some(step) => {
                self.publish(step, cx);
                true
            }
            None => {
                if let Some(publication) = &mut self.publication {
                    publication.advance(cx.now, &cx.public_state.around(&cx.peers.unreachable));
                }
                self.carry_out(cx)
            }
        }
    }

    /// A step of an agreement on finals, or on what stands for them.
    pub(super) fn publish(&mut self, step: Step, cx: &mut StepContext<'_>) {
        let stage = self.agreement.stage();
        let items = cx.public_state.items(stage);
        let (set, agreed) = match step {
            Step::Say(notice) => return cx.public_state.say(notice),
            Step::Vote { early, set } => return cx.public_state.vote(stage, early, set),
            Step::Agreed(set) => (set, true),
            Step::Over => {
                // Nothing is agreed on: each node's result is of what it holds itself.
                let mut held = items.set();
                held.retain(|(party, _)| self.agreement.expected().contains(party));
                (held, false)
            }
        };
        match &mut self.publication {
            Some(publication) if agreed => {
                publication.agreed(
                    cx.now,
                    &set,
                    items,
                    &cx.public_state.around(&cx.peers.unreachable),
                );
            }
            Some(publication) => publication.unresolved(&set, items),
            None => {
                let included = set.iter().map(|(party, _)| *party).collect();
                return cx.conclude(Published::without_sum(included, agreed));
            }
        }
        self.carry_out(cx);
    }

    /// Turns what the publication wants into outputs. `false`: it wants nothing.
    pub(super) fn carry_out(&mut self, cx: &mut StepContext<'_>) -> bool {
        let Some(publication) = &mut self.publication else {
            return false;
        };
        let actions = publication.take_actions();
        let any = !actions.is_empty();
        for action in actions {
            match action {
                PublishingAction::Say(notice) => cx.public_state.say(notice),
                PublishingAction::Tell(peer, notice) => cx.public_state.tell(peer, notice),
                PublishingAction::Send(peer, frame) => cx.public_state.send(peer, frame),
                PublishingAction::Offence(peer, text) => cx.public_state.offence(peer, text),
                PublishingAction::Fault(text) => cx.fault(text),
                PublishingAction::Flood { members, item } => self.begin_flooding(members, item, cx),
                PublishingAction::Ended(published) => cx.conclude(*published),
            }
        }
        any
    }

    /// A message of averaging was missed: the finals themselves are agreed on, among those who
    /// averaged. Where these are fewer than the plan's quorum all of them have to sign: any two
    /// sets that are agreed on have a signer in common that follows the protocol, as ever.
    fn begin_flooding(&mut self, members: BTreeSet<Party>, item: OwnItem, cx: &mut StepContext<'_>) {
        self.publication = self.publication.take().map(Publication::into_flooding);
        cx.public_state.give_body(Stage::Finals, item);
        let mut electorate = cx.config.electorate.clone();
        electorate.quorum = electorate.quorum.min(members.len());
        let flooding_ms = cx.config.settle_ms.saturating_mul(FLOODING_STAGES);
        let clock = Clock::new(cx.now, flooding_ms);
        self.agreement = Agreement::new(electorate, Stage::Finals, members, clock, BTreeSet::new());
    }

    /// Returns the moment to step again although nothing happened.
    pub(super) fn wake(
        &self,
        now: Time,
        public_state: &PublicState,
        unreachable: &BTreeMap<Party, Time>,
    ) -> Time {
        let publication = self.publication.as_ref();
        let wake = publication.map_or(Time::FAR, |it| it.wake(now, &public_state.around(unreachable)));
        self.agreement.wake(now, unreachable).min(wake)
    }

    /// Whether the others' votes are here and nobody's publishing needs this node any more, as far
    /// as it knows.
    pub(super) fn is_over(&self, public_state: &PublicState, peers: &Connectivity, withheld: bool) -> bool {
        let votes = public_state.flood.votes(self.agreement.stage());
        let signers: BTreeSet<Party> = votes.map(|vote| vote.signer).collect();
        let mut expected = self.agreement.expected().iter();
        let voted = expected.all(|party| signers.contains(party) || peers.unreachable.contains_key(party));
        let publication = self.publication.as_ref();
        (self.agreement.has_voted() || withheld)
            && voted
            && publication.is_none_or(|it| it.is_over(&public_state.around(&peers.unreachable)))
    }
}

impl StepContext<'_> {
    /// This node gives what its final is in the plan's way of publishing.
    ///
    /// # Errors
    /// Why a node that may publish gives no final.
    fn give_final(
        &mut self,
        settled: Result<FinalState, Party>,
        early: EarlyRounds,
    ) -> Result<Option<Box<dyn Publication>>, String> {
        let final_state =
            settled.map_err(|liar| format!("party {liar} signed for a share that its log denies"))?;
        let setup = Setup {
            me: self.config.mixing.me,
            signer: self.public_state.signer().clone(),
            graph: self.config.electorate.public.clone(),
            settle_ms: self.config.settle_ms,
        };
        let Way::Readable(finals) = &self.public_state.rules.way else {
            return Ok(None);
        };
        let reached = self.public_state.reached();
        let begun = finals.begin(final_state, setup, reached, early);
        let (item, publication) = begun.map_err(|reason: FinalError| reason.to_string())?;
        self.public_state.give_body(Stage::Publishing, item);
        Ok(Some(publication))
    }

    pub(super) fn conclude(&mut self, published: Published) {
        let everybody = published.included.len() == self.config.electorate.parties;
        if let Some(reason) = self.record.withheld.clone() {
            let unknown = Published::without_sum(published.included, published.agreed);
            return self.finish(Ending::Withheld { reason }, unknown);
        }
        let published = match self.config.plan.reads_circles() {
            // Each reader has looked at its own sum.
            true => published,
            false => self.with_sum_checked(published),
        };
        // Averages are not agreed on: each node is within ν/2 of the mean by itself.
        let stands = published.agreed || published.accuracy.is_some();
        let ending = if stands && everybody && published.sum.is_some() {
            Ending::Done
        } else {
            Ending::Degraded
        };
        self.finish(ending, published);
    }

    /// A liar's weight could make the sum of weights zero, or the mean anything, and its residues
    /// the sum a uniformly random vector: then there is no mean.
    fn with_sum_checked(&mut self, mut published: Published) -> Published {
        let Some(sum) = published.sum.take() else {
            return published;
        };
        let sum = published
            .sum
            .insert(sum.weighed(&self.config.plan, &published.included));
        let checked = self.check_weight(sum.weight, &published.included);
        let Err(reason) = checked.and_then(|()| self.check_range(sum, &published.included)) else {
            return published;
        };
        self.record.out_of_range = matches!(reason, NoMean::OutOfRange);
        self.fault(reason);
        Published::without_sum(published.included, false)
    }

    /// A sum of residues that some noise is missing from, or into which a wrong share or final
    /// went, is a uniformly random vector: some coordinate of it is out of range but for a chance
    /// of 2^-40. Of tables more is known: how many rows there are, and how far a row reaches.
    fn check_range(&self, sum: &Sum, included: &BTreeSet<Party>) -> Result<(), NoMean> {
        let verdict = self.record.verdict.as_ref();
        // Where a final is missing, so is noise that cancels: out of range proves no lie then.
        let whole = verdict.and_then(|verdict| verdict.publish.as_ref()) == Some(included);
        let plan = &self.config.plan;
        let of_rows = plan.furthest_steps(included);
        let possible = of_rows.is_none_or(|furthest| sum.value.within(furthest));
        if !whole || (possible && sum.is_in_range(plan.lattice())) {
            Ok(())
        } else {
            Err(NoMean::OutOfRange)
        }
    }

    /// Checks that the finals of all who may publish weigh, after roll-back, what their parties do,
    /// to the bit. Where finals are missing, as much of that is missing as they held: with
    /// hand-overs that may be nearly all.
    fn check_weight(&self, weight: LatticeWeight, included: &BTreeSet<Party>) -> Result<(), NoMean> {
        let (plan, lattice) = (&self.config.plan, self.config.plan.lattice());
        // With residues the weight follows from who is included: nobody can lie about it.
        if lattice.ring().is_some() {
            return Ok(());
        }
        let of = |&party: &Party| lattice.weight(plan.weight_units(party));
        let own: i128 = included.iter().map(of).sum();
        let verdict = self.record.verdict.as_ref();
        let publishers = verdict.and_then(|verdict| verdict.publish.as_ref());
        let all = plan.draft().exchange.rolls_back() && publishers == Some(included);
        if all && weight.0 != own {
            return Err(NoMean::Lie);
        }
        if weight.0 > 0 {
            Ok(())
        } else {
            Err(NoMean::Weightless)
        }
    }
}
