//! The rules that make bytes an item, stage by stage, from the plan alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::agreement::placing::{KeeperReport, item_bytes};
use crate::messages::log::{Log, SealTerms, ShareId};
use crate::messages::signing::Members;
use crate::messages::stage::{Stage, Stages};
use crate::messages::wire::{self, Bytes};
use crate::mixing::parameters::MixingParameters;
use crate::plan::checked::Plan;
use crate::plan::slices::Slices;
use crate::publishing::way::Way;
use crate::sealing::slice_tree::{HASH_BYTES, path_length};
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// The correction that a party owes in a stage of corrections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owed {
    /// A vector.
    Vector,
    /// The keys of so many masks.
    Keys(usize),
}

/// The parties that owe something in a stage of corrections, and the kind of it.
pub(super) enum Owing {
    /// The parties that owe a vector each.
    Vectors(BTreeSet<Party>),
    /// The keys of masks with these.
    Keys(BTreeMap<Party, Vec<Party>>),
}

impl Owing {
    pub(super) fn of(&self, party: Party) -> Option<Owed> {
        match self {
            Owing::Vectors(owing) => owing.contains(&party).then_some(Owed::Vector),
            Owing::Keys(owing) => Some(Owed::Keys(owing.get(&party)?.len())),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Owing::Vectors(owing) => owing.is_empty(),
            Owing::Keys(owing) => owing.is_empty(),
        }
    }
}

/// The rules that make bytes an item, from the plan.
pub(super) struct ItemRules {
    /// No rounds until START has drawn it, where it does.
    pub(super) schedule: Arc<Schedule>,
    /// The terms of sealing in logs; `None` before START, or where nothing is sealed.
    pub(super) terms: Option<SealTerms>,
    /// The number of the plan's members.
    parties: usize,
    /// The most bytes that a log may have.
    log_limit: usize,
    /// The mean number of secrets and shares that each party reveals.
    disclosures: usize,
    pub(super) settle_ms: u64,
    /// The stages that the run may have.
    pub(super) stages: Stages,
    /// The way in which finals become one result.
    pub(super) way: Way,
    /// The corrections that parties owe, by stage: those of stages that this node has come to.
    pub(super) owing: BTreeMap<u32, Owing>,
}

impl ItemRules {
    pub(super) fn of(plan: &Plan, parameters: &MixingParameters) -> Self {
        // Nobody logs what a task does by itself; of circles each run is one round.
        let rounds = match plan.goes_on_by_task() {
            true => 0,
            false if plan.reads_circles() => 1,
            false => parameters.rounds as usize,
        };
        let sent =
            (1..=parameters.rounds).flat_map(|round| (0..plan.parties()).map(move |party| (round, party)));
        let fanout = sent
            .map(|(round, party)| parameters.schedule.sends_to(round, party).len())
            .max()
            .filter(|&most| most > 0);
        let degree = plan.reads_circles().then(|| plan.shares().most_at_once);
        let fanout = degree.or(fanout).unwrap_or(plan.fanout() as usize);
        let stages = stages(plan, parameters);
        // The fewer members start, the fewer hold shares. A plan has a threshold if it seals.
        let threshold = plan.threshold(plan.parties()).ok().flatten();
        let threshold = threshold.filter(|_| stages.are_sealed());
        let unsealed = wire::log_limit(plan.parties(), rounds, fanout, plan.shares().most_received);
        let schedule = match plan.reads_circles() {
            true => Arc::new(Schedule::both_ways(std::iter::once(&plan.active_edges(1)))),
            false => parameters.schedule.clone(),
        };
        ItemRules {
            schedule,
            terms: None,
            parties: plan.parties(),
            log_limit: unsealed + threshold.map_or(0, wire::sealed_bytes),
            // Each is dealt to as many as each holds of on average; a party may hold of more.
            disclosures: threshold.map_or(0, |threshold| 1 + threshold.holders()),
            settle_ms: plan.draft().run.settle_ms,
            stages,
            way: Way::of(plan, parameters),
            owing: BTreeMap::new(),
        }
    }

    /// Returns the rules of each kind of run that a plan has. Where noise is precomputed its mixing
    /// comes first, and releases are runs of another kind.
    pub(super) fn of_all_runs(plan: &Plan) -> impl Iterator<Item = Self> {
        let first = MixingParameters::of(plan, 0);
        let later = first.precomputed.then(|| first.of_release(plan, *plan.digest()));
        std::iter::once(first)
            .chain(later)
            .map(|parameters| ItemRules::of(plan, &parameters))
    }

    /// Returns the mean number of secrets and shares that each party reveals: its own, and as many
    /// shares as it deals. (Wrong ones of a liar find room in what is counted for each party beside
    /// these.)
    pub(super) fn revealed_by_a_party(&self) -> usize {
        self.disclosures
    }

    pub(super) fn largest(&self) -> usize {
        let stages = self.stages.all().into_iter();
        stages.map(|stage| self.largest_of(stage)).max().unwrap_or(0)
    }

    /// The most bytes that an item of a stage has.
    pub(super) fn largest_of(&self, stage: Stage) -> usize {
        let slices = match &self.way {
            Way::Sealed(finals) => finals.slices(),
            _ => None,
        };
        match (stage, slices) {
            (Stage::Settling, _) => self.log_limit,
            (Stage::Keeping, Some(slices)) => KeeperReport::most_bytes(self.parties, slices.count()),
            (Stage::Slice(slice), Some(slices)) => item_bytes(slices, slice),
            (Stage::Sum(slice), Some(slices)) => slices.bytes(slice),
            (Stage::Opened, _) => 0,
            _ => self.way.item_limit(),
        }
    }

    pub(super) fn log(&self, author: Party, members: &Members, bytes: &[u8]) -> Result<Log, String> {
        let log = wire::log_from_bytes(bytes, author, &self.schedule).map_err(|reason| reason.to_string())?;
        log.check(author, members.len(), &self.schedule)
            .map_err(|reason| reason.to_string())?;
        log.check_sealed(self.terms.as_ref())
            .map_err(|reason| reason.to_string())?;
        for entry in &log.sent {
            if let Some(answer) = &entry.answer {
                let id = ShareId {
                    round: entry.round,
                    from: author,
                    to: entry.to,
                };
                members
                    .verify_answer(id, answer)
                    .map_err(|reason| reason.to_string())?;
            }
        }
        Ok(log)
    }
}

impl ItemRules {
    /// Refuses the bytes of an item that break the rules of its stage, any but the first.
    pub(super) fn check_item(&self, stage: Stage, author: Party, bytes: &Bytes) -> Result<(), String> {
        let checked = match (&self.way, stage) {
            (Way::Kept, _) => return Err("an item of a run whose states are kept".to_string()),
            (Way::Readable(finals), stage) => finals.check_item(stage, bytes),
            (Way::Sealed(finals), Stage::Correction(number)) => {
                let owed = self.owing.get(&number).and_then(|owing| owing.of(author));
                match owed {
                    None if bytes.is_empty() => Ok(()),
                    None => return Err("a correction of a party that owes none".to_string()),
                    Some(Owed::Vector) => finals.check(bytes),
                    Some(Owed::Keys(count)) => finals.check_keys(bytes, count),
                }
            }
            (Way::Sealed(finals), Stage::Slice(slice)) => {
                let slices = finals.slices().map_or(1, Slices::count);
                finals.check_slice(slice, bytes, path_length(slice, slices) * HASH_BYTES)
            }
            (Way::Sealed(finals), Stage::Sum(slice)) => finals.check_slice(slice, bytes, 0),
            (Way::Sealed(finals), _) => finals.check(bytes),
        };
        checked.map_err(|reason| reason.to_string())
    }
}

/// The stages that a run of a plan may have.
pub(super) fn stages(plan: &Plan, parameters: &MixingParameters) -> Stages {
    if parameters.precomputed {
        Stages::KEPT
    } else if plan.draft().run.sealed {
        let stages = Stages::sealed(plan.draft().privacy.dropouts);
        let stages = match plan.slices() {
            Some(slices) => stages.in_slices(slices.count() as u32),
            None => stages,
        };
        // Sums over neighbourhoods are opened for everybody, or nothing follows.
        match plan.draft().releases() > 1 && !plan.reads_circles() {
            true => stages.followed(),
            false => stages,
        }
    } else if plan.terms().is_some() {
        Stages::AVERAGED
    } else {
        Stages::READABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealing::pair_masks::KEY_BYTES;
    use crate::simulator::cluster::tests::plan;
    use crate::task::tests::ensemble::rounds_plan;

    /// The rules of a plan in which party 1 owes as `owing` says, in the second correction.
    fn rules(plan: &Plan, owing: Owing) -> ItemRules {
        let mut rules = ItemRules::of(plan, &MixingParameters::of(plan, 0));
        rules.owing.insert(2, owing);
        rules
    }

    fn taken(rules: &ItemRules, (stage, author): (Stage, Party), bytes: usize) -> bool {
        rules
            .check_item(stage, author, &Bytes::from(vec![0; bytes]))
            .is_ok()
    }

    /// A correction is what its party owes in that stage, and of who owes none it is empty: anybody
    /// could add to the sum else.
    #[test]
    fn a_correction_is_what_its_party_owes() {
        let uniform = "[run]\nsealed = true\n[mechanism]\ncorrelated = \"uniform\"";
        let pairwise = "[run]\nsealed = true\n[mechanism]\nkind = \"pairwise\"";
        let (second, first) = (Stage::Correction(2), Stage::Correction(1));
        let of = |lines: &str, owing: Owing| {
            let plan = plan(8, lines, 4);
            let vector = 2 * plan.lattice().final_bytes as usize;
            (rules(&plan, owing), vector)
        };
        let (rules, vector) = of(uniform, Owing::Vectors(BTreeSet::from([1])));
        for (place, bytes, good) in [
            ((second, 1), vector, true),
            ((second, 1), vector - 1, false),
            ((second, 1), vector + 1, false),
            ((second, 1), 0, false),
            ((second, 2), 0, true),
            ((second, 2), vector, false),
            ((second, 2), 1, false),
            // It owes nothing in another stage.
            ((first, 1), vector, false),
            ((first, 1), 0, true),
        ] {
            assert_eq!(taken(&rules, place, bytes), good, "{place:?}, {bytes} bytes");
        }
        let owing = [(1, vec![3, 4]), (5, vec![3])].into();
        let (rules, vector) = of(pairwise, Owing::Keys(owing));
        for (author, keys) in [(1, 2), (5, 1), (2, 0)] {
            for bytes in (0..=4)
                .map(|count| count * KEY_BYTES)
                .chain([1, KEY_BYTES + 1, vector])
            {
                let good = bytes == keys * KEY_BYTES;
                let found = taken(&rules, (second, author), bytes);
                assert_eq!(found, good, "{author} owes {keys} keys: {bytes} bytes");
            }
        }
        // What is sealed is a vector whoever owes what.
        assert!(taken(&rules, (Stage::Sealed, 1), vector) && !taken(&rules, (Stage::Sealed, 1), 0));
    }

    #[test]
    fn a_mixing_of_precomputed_noise_has_no_items_but_logs() {
        let plan = rounds_plan("inca", 2, "");
        let rules = ItemRules::of(&plan, &MixingParameters::of(&plan, 0));
        for stage in [Stage::Sealed, Stage::Publishing, Stage::Correction(1)] {
            assert!(!taken(&rules, (stage, 1), 0), "{stage:?}");
        }
    }
}
