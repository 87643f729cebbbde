//! A map from plans to some bytes each, of every run there ever was: half as large as a tree.

use std::collections::BTreeMap;

use crate::party::plan_digest::PlanDigest;

/// Plans that are kept in a tree before they are sorted in, if there are no more. Our choice.
const FEWEST: usize = 256;

/// The tree has one plan at most for each eight that are sorted. Sorting in copies all of them, so
/// that each plan is copied some times over a whole life. Our choice.
const SHARE: usize = 8;

/// The values of plans, in the order of the digests.
#[derive(Debug)]
pub struct PlanMap<V> {
    /// Sorted, nearly all of them.
    sorted: Vec<(PlanDigest, V)>,
    /// Those that came since, none of which is among the others.
    recent: BTreeMap<PlanDigest, V>,
}

impl<V> Default for PlanMap<V> {
    fn default() -> Self {
        PlanMap {
            sorted: vec![],
            recent: BTreeMap::new(),
        }
    }
}

impl<V: Copy> PlanMap<V> {
    fn place(&self, plan: &PlanDigest) -> Result<usize, usize> {
        self.sorted.binary_search_by_key(plan, |(known, _)| *known)
    }

    /// The value of a plan.
    pub fn get(&self, plan: &PlanDigest) -> Option<V> {
        match self.place(plan) {
            Ok(at) => Some(self.sorted[at].1),
            Err(_) => self.recent.get(plan).copied(),
        }
    }

    /// Puts the value of a plan in the place of the one before, if there was one.
    pub fn insert(&mut self, plan: PlanDigest, value: V) {
        if let Ok(at) = self.place(&plan) {
            self.sorted[at].1 = value;
            return;
        }
        self.recent.insert(plan, value);
        if self.recent.len() > FEWEST.max(self.sorted.len() / SHARE) {
            let recent = std::mem::take(&mut self.recent);
            self.sorted.reserve_exact(recent.len());
            self.sorted.extend(recent);
            // Two sorted parts: one pass.
            self.sorted.sort_by_key(|(plan, _)| *plan);
        }
    }

    /// All plans, in the order of their digests.
    pub fn iter(&self) -> impl Iterator<Item = (PlanDigest, V)> {
        let mut sorted = self.sorted.iter().copied().peekable();
        let mut recent = self.recent.iter().map(|(plan, value)| (*plan, *value)).peekable();
        std::iter::from_fn(move || match (sorted.peek(), recent.peek()) {
            (Some((old, _)), Some((new, _))) if old < new => sorted.next(),
            (Some(_), None) => sorted.next(),
            _ => recent.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(number: u64) -> PlanDigest {
        // Weyl's sequence, so that they come in no order.
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        PlanDigest::parse(&format!("{spread:016x}").repeat(4)).unwrap()
    }

    /// Against a tree: more plans than are kept apart, each inserted twice, some of them once they
    /// are sorted in.
    #[test]
    fn a_map_of_plans_is_a_tree_of_them() {
        let (mut map, mut tree) = (PlanMap::default(), BTreeMap::new());
        for step in 0..6000u64 {
            let plan = plan(step * 7 % 3001);
            assert_eq!(map.get(&plan), tree.get(&plan).copied());
            map.insert(plan, step);
            tree.insert(plan, step);
        }
        assert!(map.sorted.len() > 2000 && !map.recent.is_empty());
        assert!(map.iter().eq(tree.iter().map(|(plan, value)| (*plan, *value))));
        assert!(tree.iter().all(|(plan, value)| map.get(plan) == Some(*value)));
    }
}
