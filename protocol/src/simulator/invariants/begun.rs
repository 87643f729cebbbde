//! Invariant 11: each party begins once, all who begin with the START of one number begin with the
//! same set, and no honest member of the set of a later START has begun with an earlier one. So
//! each key masks one vector, and no two sets of one plan come to a result.

use std::collections::{BTreeMap, BTreeSet};

use crate::simulator::invariants::violation::Violation;
use crate::topology::party::Party;

/// The sets that parties have begun with, by party, each with the number of its START.
#[derive(Default)]
pub struct Begun {
    by: BTreeMap<Party, (u8, BTreeSet<Party>)>,
    liar: Option<Party>,
}

impl Begun {
    /// Nobody has begun yet. The begin of `liar` is not looked at.
    pub fn except(liar: Option<Party>) -> Self {
        Begun {
            liar,
            ..Begun::default()
        }
    }

    /// A party begins with this set of the START of this number.
    ///
    /// # Errors
    /// The party has begun before, is not in its set, or others have begun with a set that excludes
    /// this one.
    pub fn begins(&mut self, party: Party, number: u8, members: BTreeSet<Party>) -> Result<(), Violation> {
        if self.liar == Some(party) {
            return Ok(());
        }
        let wrong = |text: String| Err(Violation::new("begun", text));
        if !members.contains(&party) {
            return wrong(format!("party {party} begins with {members:?}, without itself"));
        }
        for (other, (earlier, theirs)) in &self.by {
            let fits = match number.cmp(earlier) {
                std::cmp::Ordering::Equal => *theirs == members,
                std::cmp::Ordering::Greater => !members.contains(other),
                std::cmp::Ordering::Less => !theirs.contains(&party),
            };
            if !fits {
                return wrong(format!(
                    "party {party} begins with {members:?} of START {number}, party {other} with \
                     {theirs:?} of START {earlier}"
                ));
            }
        }
        match self.by.insert(party, (number, members)) {
            None => Ok(()),
            Some(_) => wrong(format!("party {party} begins twice")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sets_and_a_set_over_somebody_who_has_begun_are_seen() {
        let set = |parties: &[Party]| parties.iter().copied().collect::<BTreeSet<Party>>();
        let mut begun = Begun::default();
        assert!(begun.begins(0, 0, set(&[1, 2])).is_err(), "without itself");
        assert!(begun.begins(0, 0, set(&[0, 1, 2])).is_ok());
        assert!(begun.begins(1, 0, set(&[1, 2])).is_err(), "another set");
        assert!(
            begun.begins(1, 1, set(&[0, 1, 2])).is_err(),
            "0 has begun without 1"
        );
        assert!(begun.begins(1, 1, set(&[1, 2])).is_ok());
        assert!(
            begun.begins(2, 0, set(&[0, 1, 2])).is_err(),
            "1 has begun with 2 later"
        );
        assert!(begun.begins(2, 1, set(&[1, 2])).is_ok());
        assert!(begun.begins(2, 1, set(&[1, 2])).is_err(), "twice");
        assert!(Begun::except(Some(3)).begins(3, 0, set(&[])).is_ok());
    }
}
