//! From the gate's verdict to the run's end: the second agreement, and what the plan's way of
//! publishing wants.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::agreement::agreeing::{Agreement, Clock, Step};
use crate::lattice::grid::LatticeWeight;
use crate::messages::log::AgreedLogs;
use crate::messages::notice::ItemSet;
use crate::messages::stage::Stage;
use crate::mixing::exchange::ShareExchange;
use crate::publishing::averaging::machine::FLOODING_STAGES;
use crate::publishing::interface::{FinalError, OwnItem, Published, PublishingDeed, Setup};
use crate::publishing::publication::Publication;
use crate::publishing::result::Sum;
use crate::publishing::way::Way;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::{Ending, Event};
use crate::time::Time;
use crate::topology::party::Party;

/// Why a node that may publish gives no final.
#[derive(Debug, Error)]
pub(super) enum NotGiven {
    #[error("party {0} signed for a share that its log denies")]
    Liar(Party),
    #[error(transparent)]
    Final(#[from] FinalError),
}

/// Why a sum of finals has no mean.
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
    /// This node gives what its final is in the plan's way of publishing.
    pub(super) fn give_final(
        &mut self,
        exchange: ShareExchange,
        logs: &AgreedLogs,
        publishers: &BTreeSet<Party>,
    ) -> Result<Option<Box<dyn Publication>>, NotGiven> {
        let final_state = exchange.settle(logs, publishers).map_err(NotGiven::Liar)?;
        let setup = Setup {
            me: self.course.me,
            signer: self.commons.signer().clone(),
            graph: self.electorate.public.clone(),
            settle_ms: self.settle_ms,
        };
        let early = std::mem::take(&mut self.early_rounds);
        let Way::Readable(finals) = &self.commons.rules.way else {
            return Ok(None);
        };
        let reached = self.commons.reached();
        let (item, publication) = finals.begin(final_state, setup, reached, early)?;
        self.commons.give_body(Stage::Publishing, item);
        Ok(Some(publication))
    }

    /// Hands on the rounds that neighbours sent to this node.
    pub(super) fn hand_on_rounds(&mut self) {
        for (round, values) in std::mem::take(&mut self.commons.rounds) {
            match &mut self.machine {
                Machine::Publishing {
                    publication: Some(publication),
                    ..
                } => publication.round(round, values),
                Machine::Settling { .. } | Machine::Auditing { .. } => self.early_rounds.keep(round, values),
                _ => {}
            }
        }
    }

    /// A step of an agreement on finals, or on what stands for them.
    pub(super) fn publish(&mut self, stage: Stage, step: Step) {
        let (set, agreed) = match step {
            Step::Say(notice) => return self.commons.say(notice),
            Step::Vote { early, set } => return self.commons.vote(stage, early, set),
            Step::Agreed(set) => (set, true),
            Step::Over => (self.items_held(stage), false),
        };
        let Machine::Publishing { publication, .. } = &mut self.machine else {
            return;
        };
        let items = self.commons.items(stage);
        match publication {
            Some(publication) if agreed => {
                publication.agreed(self.now, &set, items, &self.commons.around(&self.gone));
            }
            Some(publication) => publication.unresolved(&set, items),
            None => {
                let included = set.iter().map(|(party, _)| *party).collect();
                return self.conclude(Published::without_sum(included, agreed));
            }
        }
        self.carry_out_publication();
    }

    /// The items of a stage that this node holds of those who may publish.
    fn items_held(&self, stage: Stage) -> ItemSet {
        let mut set = self.commons.items(stage).set();
        if let Machine::Publishing { agreement, .. } = &self.machine {
            set.retain(|(party, _)| agreement.expected().contains(party));
        }
        set
    }

    /// Lets the publication do what it can. False: it wants nothing now.
    pub(super) fn step_publication(&mut self) -> bool {
        if let Machine::Publishing {
            publication: Some(publication),
            ..
        } = &mut self.machine
        {
            publication.advance(self.now, &self.commons.around(&self.gone));
        }
        self.carry_out_publication()
    }

    /// Turns what the publication wants into outputs. False: it wants nothing.
    pub(super) fn carry_out_publication(&mut self) -> bool {
        let Machine::Publishing {
            publication: Some(publication),
            ..
        } = &mut self.machine
        else {
            return false;
        };
        let deeds = publication.take_deeds();
        let any = !deeds.is_empty();
        for deed in deeds {
            match deed {
                PublishingDeed::Say(notice) => self.commons.say(notice),
                PublishingDeed::Tell(peer, notice) => self.commons.tell(peer, notice),
                PublishingDeed::Send(peer, frame) => self.commons.send(peer, frame),
                PublishingDeed::Offence(peer, text) => self.commons.offence(peer, text),
                PublishingDeed::Fault(text) => self.commons.event(Event::Fault(text)),
                PublishingDeed::Flood { members, item } => self.begin_flooding(members, item),
                PublishingDeed::Ended(published) => self.conclude(*published),
            }
        }
        any
    }

    /// A message of averaging was missed: the finals themselves are agreed on, among those who
    /// averaged. Where these are fewer than the plan's quorum all of them have to sign: any two
    /// sets that are agreed on have a signer in common that follows the protocol, as ever.
    fn begin_flooding(&mut self, members: BTreeSet<Party>, item: OwnItem) {
        let machine = std::mem::replace(&mut self.machine, Machine::Over);
        let publication = match machine {
            Machine::Publishing { publication, .. } => publication.map(Publication::into_flooding),
            _ => None,
        };
        self.commons.give_body(Stage::Finals, item);
        let mut electorate = self.electorate.clone();
        electorate.quorum = electorate.quorum.min(members.len());
        let flooding_ms = self.settle_ms.saturating_mul(FLOODING_STAGES);
        let clock = Clock::new(self.now, flooding_ms);
        let agreement = Agreement::new(electorate, Stage::Finals, members, clock, BTreeSet::new());
        self.machine = Machine::Publishing {
            agreement,
            publication,
        };
    }

    pub(super) fn conclude(&mut self, published: Published) {
        let everybody = published.included.len() == self.electorate.parties;
        if let Some(reason) = self.record.withheld.clone() {
            let unknown = Published::without_sum(published.included, published.agreed);
            return self.finish(Ending::Withheld { reason }, unknown);
        }
        let published = match self.circle {
            // Each reader has looked at its own sum.
            Some(_) => published,
            None => self.with_sum_checked(published),
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
    /// the sum an even vector: then there is no mean.
    fn with_sum_checked(&mut self, mut published: Published) -> Published {
        let Some(sum) = published.sum.take() else {
            return published;
        };
        let sum = published.sum.insert(sum.weighed(&self.plan, &published.included));
        let checked = self.check_weight(sum.weight, &published.included);
        let Err(reason) = checked.and_then(|()| self.check_range(sum, &published.included)) else {
            return published;
        };
        self.record.out_of_range = matches!(reason, NoMean::OutOfRange);
        self.commons.event(Event::Fault(reason.to_string()));
        Published::without_sum(published.included, false)
    }

    /// A sum of residues that some noise is missing from, or into which a wrong share or final
    /// went, is an even vector: some coordinate of it is out of range but for a chance of 2^-40.
    fn check_range(&self, sum: &Sum, included: &BTreeSet<Party>) -> Result<(), NoMean> {
        let verdict = self.record.verdict.as_ref();
        let whole = verdict.and_then(|verdict| verdict.publish.as_ref()) == Some(included);
        if !whole || sum.is_in_range(self.plan.lattice()) {
            Ok(())
        } else {
            Err(NoMean::OutOfRange)
        }
    }

    /// After roll-back the finals of all who may publish weigh what their parties do, to the bit.
    /// Where finals are missing, as much of that is missing as they held: with hand-overs that may
    /// be nearly all.
    fn check_weight(&self, weight: LatticeWeight, included: &BTreeSet<Party>) -> Result<(), NoMean> {
        let (draft, lattice) = (self.plan.draft(), self.plan.lattice());
        if lattice.ring().is_some() {
            return Ok(());
        }
        let of = |&party: &Party| lattice.weight(draft.weight_units(party));
        let own: i128 = included.iter().map(of).sum();
        let verdict = self.record.verdict.as_ref();
        let publishers = verdict.and_then(|verdict| verdict.publish.as_ref());
        let all = draft.exchange.rolls_back() && publishers == Some(included);
        if all && weight.0 != own {
            return Err(NoMean::Lie);
        }
        if weight.0 > 0 {
            Ok(())
        } else {
            Err(NoMean::Weightless)
        }
    }

    /// When the publication is to be looked at although nothing happened.
    pub(super) fn publication_wake(&self) -> Time {
        match &self.machine {
            Machine::Publishing {
                publication: Some(publication),
                ..
            } => publication.wake(self.now, &self.commons.around(&self.gone)),
            _ => Time::FAR,
        }
    }

    /// Whether nobody's publishing needs this node any more, as far as it knows.
    fn is_publication_over(&self) -> bool {
        match &self.machine {
            Machine::Publishing {
                publication: Some(publication),
                ..
            } => publication.is_over(&self.commons.around(&self.gone)),
            _ => true,
        }
    }

    /// Whether the others' votes are here and nobody's publishing needs this node any more, as far
    /// as it knows; where nothing is published, always.
    pub(super) fn is_published(&self) -> bool {
        let Machine::Publishing { agreement, .. } = &self.machine else {
            return true;
        };
        let votes = self.commons.flood.votes(agreement.stage());
        let signers: BTreeSet<Party> = votes.map(|vote| vote.signer).collect();
        let mut expected = agreement.expected().iter();
        let voted = expected.all(|party| signers.contains(party) || self.gone.contains_key(party));
        let own = agreement.has_voted() || self.record.withheld.is_some();
        own && voted && self.is_publication_over()
    }
}
