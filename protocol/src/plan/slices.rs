//! Slices of sealed vectors, their keepers, and the ways to these: the same for everybody, from the
//! plan and the members alone.
//!
//! With `dissemination = "slices"` a sealed vector is not sent to everybody. Each of its slices is
//! placed with k keepers, k = colluding + dropouts + 1, of whom one at least neither lies nor
//! departs. They add their slices up once the set is open, and everybody fetches the sums: a party
//! sends about (k + 1) vectors, whatever the number of parties.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::plan::checked::Plan;
use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::public_draw::PublicDraw;
use crate::topology::ways::{depth_first, tree};

/// No slice of a vector is shorter, but for the last one's rounding. Our choice: the envelope of a
/// slice, its path in the hash tree and the notice of its sum are some 5 % of so much.
const LEAST_SLICE_BYTES: usize = 4 << 10;

/// Slices are chosen by themselves only for vectors of so many bytes. Our choice: below it a flood
/// takes no longer than the notices of both ways.
const LEAST_SLICED_BYTES: u64 = 64 << 10;

/// The ways that are measured for an estimate of all. Our choice: their mean is within a few per
/// cent.
const SAMPLED_WAYS: usize = 1000;

/// The bytes of a keeper's report for each party: the beginning of the root that it is meant for.
pub const ROOT_BYTES: usize = 16;

/// The slices of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    coordinates: usize,
    width: usize,
    count: usize,
}

impl Slices {
    /// The slices of a vector of so many coordinates, `width` bytes each: as many as there are
    /// parties, or fewer where they would be too short.
    pub fn of(parties: usize, coordinates: usize, width: usize) -> Self {
        let bytes = coordinates.saturating_mul(width);
        Slices {
            coordinates,
            width,
            count: parties
                .min(bytes.div_ceil(LEAST_SLICE_BYTES))
                .clamp(1, coordinates.max(1)),
        }
    }

    /// The number of slices m, at least one.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The coordinates of a slice: from ⌊a·d/m⌋ on, to the next one's.
    pub fn range(&self, slice: u32) -> Range<usize> {
        let begin = |slice: usize| (slice as u128 * self.coordinates as u128 / self.count as u128) as usize;
        begin(slice as usize)..begin(slice as usize + 1)
    }

    /// The bytes of a slice's residues.
    pub fn bytes(&self, slice: u32) -> usize {
        self.range(slice).len() * self.width
    }

    /// The numbers of all slices.
    pub fn all(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.count as u32
    }
}

/// The keepers of each slice, and the ways of slices to them.
#[derive(Clone, Debug)]
pub struct Keepers {
    /// The members, neighbours next to each other as far as they can be.
    order: Vec<Party>,
    members: BTreeSet<Party>,
    graph: Arc<Graph>,
    slices: usize,
    /// The number of keepers of each slice.
    each: usize,
    /// The slices that each member keeps, ascending.
    kept: BTreeMap<Party, Vec<u32>>,
}

impl Keepers {
    /// The keepers among `members` in this order, `each` of each slice.
    fn new(order: Vec<Party>, members: &BTreeSet<Party>, graph: Graph, slices: usize, each: usize) -> Self {
        let mut keepers = Keepers {
            order,
            members: members.clone(),
            graph: Arc::new(graph),
            slices,
            each: each.min(members.len()),
            kept: BTreeMap::new(),
        };
        let mut kept: BTreeMap<Party, Vec<u32>> = BTreeMap::new();
        for slice in 0..slices as u32 {
            keepers
                .of(slice)
                .for_each(|keeper| kept.entry(keeper).or_default().push(slice));
        }
        keepers.kept = kept;
        keepers
    }

    /// The keepers of slice a: the k members from place ⌊a·|members|/m⌋ of the order on.
    pub fn of(&self, slice: u32) -> impl Iterator<Item = Party> + '_ {
        let first = slice as usize * self.order.len() / self.slices;
        let places = (0..self.each).map(move |at| (first + at) % self.order.len());
        places.map(|place| self.order[place])
    }

    /// The number of keepers of each slice, k.
    pub fn each(&self) -> usize {
        self.each
    }

    /// The slices that a party keeps, ascending.
    pub fn kept_by(&self, party: Party) -> &[u32] {
        self.kept.get(&party).map_or(&[], Vec::as_slice)
    }

    /// The parties among whom slices are placed.
    pub fn members(&self) -> &BTreeSet<Party> {
        &self.members
    }

    /// The way of an author's slice: a tree in the public graph from the author to all keepers, as
    /// pairs of a party and the next one after it. Who is found gone changes no way: not all see
    /// that alike.
    pub fn way(&self, author: Party, slice: u32) -> Vec<(Party, Party)> {
        tree(
            &self.graph,
            &self.members,
            author,
            &self.of(slice).collect::<Vec<_>>(),
        )
    }

    /// The mean number of pairs in a way, over evenly spread samples of authors and slices.
    fn mean_way(&self) -> f64 {
        let all = self.order.len() * self.slices;
        let step = all.div_ceil(SAMPLED_WAYS).max(1);
        // Coprime to the number of slices or not: the author changes with each sample, too.
        let samples = (0..all).step_by(step);
        let pairs = samples.clone().map(|at| {
            let (author, slice) = (self.order[at % self.order.len()], at / self.order.len());
            self.way(author, slice as u32).len()
        });
        pairs.sum::<usize>() as f64 / samples.count().max(1) as f64
    }
}

impl Plan {
    /// The slices of what is sealed, as they would be where the plan is run by slices; `None` where
    /// vectors are no residues that everybody's sum is made of.
    pub(super) fn possible_slices(&self) -> Option<Slices> {
        let sealed = self.draft().run.sealed && !self.reads_circles();
        let (parties, width) = (self.parties(), self.lattice().final_bytes as usize);
        sealed.then(|| Slices::of(parties, self.draft().dimension(), width))
    }

    /// The slices of what is sealed, where the plan is run by slices.
    pub fn slices(&self) -> Option<Slices> {
        self.possible_slices().filter(|_| self.is_sliced())
    }

    /// The keepers of slices among `members`, each slice with so many.
    pub fn keepers(&self, members: &BTreeSet<Party>, each: usize) -> Option<Keepers> {
        self.possible_keepers(members, each).filter(|_| self.is_sliced())
    }

    /// Whether sealed vectors travel in slices, to their keepers alone.
    pub fn is_sliced(&self) -> bool {
        self.draft().run.dissemination.is_in_slices()
    }

    fn possible_keepers(&self, members: &BTreeSet<Party>, each: usize) -> Option<Keepers> {
        let mut order: Vec<Party> = (0..self.parties()).collect();
        PublicDraw::new("undertone/keepers/1", self.schedule_seed().unwrap_or(0)).shuffle(&mut order);
        let graph = self.public_links();
        let order = depth_first(&graph, members, &order);
        let slices = self.possible_slices()?.count();
        Some(Keepers::new(order, members, graph, slices, each))
    }

    /// The fewest parties with which slices can be placed: with fewer, one who lies and those who
    /// depart could keep all keepers of a slice from being heard.
    pub(super) fn fewest_for_slices(&self) -> usize {
        let privacy = &self.draft().privacy;
        privacy.colluding + 2 * privacy.dropouts + 2
    }

    /// Bytes of finals that a party sends on average in a run without faults: where they go to
    /// everybody, and where they travel in slices. `None` where that cannot be, or where vectors
    /// are so short that it does not matter.
    pub fn bytes_of_ways(&self) -> Option<(u64, u64)> {
        let vector = self.draft().dimension() as u64 * u64::from(self.lattice().final_bytes);
        let matters = self.is_sliced() || vector >= LEAST_SLICED_BYTES;
        if !matters || self.possible_slices().is_none() || self.parties() < self.fewest_for_slices() {
            return None;
        }
        Some((
            vector.saturating_mul(self.parties() as u64 - 1),
            self.bytes_of_slices()?,
        ))
    }

    /// Bytes that a party sends on average in a run by slices without faults: its vector along the
    /// ways and all sums, and all reports. `None` where it cannot be run so.
    pub(super) fn bytes_of_slices(&self) -> Option<u64> {
        let parties = self.parties() as u64;
        let each = self.threshold(self.parties()).ok()??.needed();
        let keepers = self.possible_keepers(&(0..self.parties()).collect(), each)?;
        let vector = self.draft().dimension() as u64 * u64::from(self.lattice().final_bytes);
        let sent = (keepers.mean_way() + 1.0) * vector as f64;
        let report = ROOT_BYTES as u64 * parties + keepers.each() as u64 * parties.div_ceil(8);
        Some((sent.ceil() as u64).saturating_add((parties - 1) * report))
    }

    /// Whether slices are chosen where the run file leaves it open: of long vectors, if fewer than
    /// two thirds of a flood's bytes travel.
    pub(super) fn prefers_slices(&self) -> bool {
        let vector = self.draft().dimension() as u64 * u64::from(self.lattice().final_bytes);
        if vector < LEAST_SLICED_BYTES || self.parties() < self.fewest_for_slices() {
            return false;
        }
        let ways = self.bytes_of_ways();
        ways.is_some_and(|(flood, slices)| slices.saturating_mul(3) < flood.saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::cluster::tests::plan_of;

    #[test]
    fn slices_cover_a_vector_once() {
        for (parties, coordinates, width) in [
            (8, 3000, 3),
            (8, 1_000_000, 3),
            (200, 1_000_000, 4),
            (5, 1, 3),
            (7, 10, 16),
        ] {
            let slices = Slices::of(parties, coordinates, width);
            assert!(slices.count() >= 1 && slices.count() <= parties.min(coordinates));
            let mut next = 0;
            for slice in slices.all() {
                let range = slices.range(slice);
                assert_eq!(range.start, next);
                assert!(!range.is_empty());
                assert_eq!(slices.bytes(slice), range.len() * width);
                next = range.end;
            }
            assert_eq!(next, coordinates);
        }
        assert_eq!(Slices::of(8, 3000, 3).count(), 3, "9,000 bytes");
        assert_eq!(Slices::of(200, 1_000_000, 4).count(), 200);
    }

    fn keepers(parties: usize, lines: &str, coordinates: usize, each: usize) -> Keepers {
        let sealed = "[run]\nsealed = true\n[mechanism]\nkind = \"pairwise\"\n";
        let plan = plan_of(
            coordinates,
            parties,
            &format!("{sealed}{lines}"),
            if parties > 32 { 2 } else { parties as u32 / 2 },
        );
        plan.possible_keepers(&(0..parties).collect(), each)
            .expect("it seals")
    }

    #[test]
    fn each_slice_has_as_many_keepers_and_each_party_its_part() {
        let sparse = "[topology]\npublic = { kind = \"random-regular\", degree = 4 }";
        for (parties, lines) in [(8, ""), (30, sparse)] {
            let keepers = keepers(parties, lines, 50_000, 3);
            let mut kept = vec![0; parties];
            for slice in 0..parties as u32 {
                let of: BTreeSet<Party> = keepers.of(slice).collect();
                assert_eq!(of.len(), 3);
                of.iter().for_each(|&party| kept[party] += 1);
            }
            assert_eq!(kept, vec![3; parties]);
            for party in 0..parties {
                assert!(
                    keepers
                        .kept_by(party)
                        .iter()
                        .all(|&slice| keepers.of(slice).any(|it| it == party))
                );
                assert_eq!(keepers.kept_by(party).len(), 3);
            }
        }
        let complete = keepers(8, "", 50_000, 3);
        assert!((2.0..=3.0).contains(&complete.mean_way()));
        // On random graphs of 200 parties of degree 4 others have counted 5.9.
        let many = keepers(200, sparse, 60_000, 3);
        let pairs = many.mean_way();
        assert!((5.0..7.0).contains(&pairs), "{pairs}");
    }
}
