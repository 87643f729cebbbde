//! The parties for which a stage does not wait, since every party whose report counts has called
//! them unreachable.
//!
//! Two rules, and why neither can split the vote before half-time:
//!
//! - *By logs* (settling only): p is excluded if the logs of all its private neighbours that are
//!   expected and not excluded call it gone, there is such a neighbour, and of all its neighbours
//!   that are expected more than collude do: nobody is taken out on the word of a coalition, or of
//!   nobody. This is a function of the items themselves. Let two
//!   nodes exclude G₁ and G₂ and each hold all logs of what it still expects. In G₁ ∪ G₂ every
//!   party's neighbours outside of both call it gone, by logs that both nodes hold, so each had the
//!   union to choose, and the rule takes the greatest set: G₁ = G₂. (A party whose neighbours are
//!   all in the union is the exception; the vote then falls back on its deadlines.)
//! - *By calls* (ours, so that a process that is killed after others signed their logs, or with its
//!   own log or final half sent, costs milliseconds and not three quarters of the stage): p is
//!   excluded if every expected member that is not excluded has called it gone, in its log or by a
//!   signed call, except for members whom this node itself finds gone (their items may be here,
//!   their call never will), and at least a quorum has called it. A node calls p gone only while it
//!   does not hold p's item, and one that has called p gone signs no set with p before three
//!   quarters. So if a set without p is signed by this rule, a quorum has called p gone, none of
//!   them signs a set with p before three quarters, and those who may are too few to agree on one.
//!   At three quarters everybody signs what was signed early.
//!
//! Neighbours find out for themselves. A party that is no neighbour of p calls it gone when all of
//! p's neighbours have who are not themselves called gone; so sparse graphs need a few more
//! messages, not the deadlines.
//!
//! Safety rests on none of this: it rests on the quorum, and on everybody signing once.

use std::collections::{BTreeMap, BTreeSet};

use crate::topology::party::Party;

/// The parties that each caller has called unreachable.
pub type Calls = BTreeMap<Party, BTreeSet<Party>>;

/// The calls that this node knows of.
#[derive(Clone, Copy)]
pub struct Heard<'a> {
    /// The calls of the logs at hand.
    pub in_logs: &'a Calls,
    /// The calls that were signed on their own.
    pub said: &'a Calls,
}

impl Heard<'_> {
    /// Whether `caller` called `party` gone, in its log or since.
    pub fn called(&self, caller: Party, party: Party) -> bool {
        calls(self.in_logs, caller, party) || calls(self.said, caller, party)
    }
}

fn calls(calls: &Calls, caller: Party, party: Party) -> bool {
    calls.get(&caller).is_some_and(|called| called.contains(&party))
}

/// The counts that decide whether the reports about a party are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enough {
    /// The fewest members that agree on a set.
    pub quorum: usize,
    /// The most parties that collude.
    pub colluding: usize,
}

/// The greatest set G of called parties of which each one is excluded by one of the two rules,
/// given that the others are. Empty if fewer than a quorum would remain (no set of fewer can be
/// agreed on). `found` says whom this node finds gone itself.
pub fn excluded(
    expected: &BTreeSet<Party>,
    heard: Heard<'_>,
    found: impl Fn(Party) -> bool,
    private_neighbours: impl Fn(Party) -> Vec<Party>,
    Enough { quorum, colluding }: Enough,
) -> BTreeSet<Party> {
    let called = heard.in_logs.values().chain(heard.said.values()).flatten();
    let mut unreachable: BTreeSet<Party> = called.copied().filter(|party| expected.contains(party)).collect();
    // From all who were called, take out whoever no rule excludes, until each one is excluded.
    loop {
        let remaining: Vec<Party> = expected.difference(&unreachable).copied().collect();
        let by_logs = |party: Party| {
            let neighbours = private_neighbours(party);
            let says = |caller: &Party| calls(heard.in_logs, *caller, party);
            let near = |caller: &&Party| neighbours.contains(caller);
            let mut speaking = remaining.iter().filter(near).peekable();
            // Of the excluded ones the word counts, too: the number does not depend on who is out.
            expected.iter().filter(near).filter(|caller| says(caller)).count() > colluding
                && speaking.peek().is_some()
                && speaking.all(says)
        };
        let by_calls = |party: Party| {
            let called = |caller: Party| heard.called(caller, party);
            let callers = remaining.iter().filter(|&&caller| called(caller)).count();
            callers >= quorum && remaining.iter().all(|&caller| called(caller) || found(caller))
        };
        let kept = |party: &Party| !by_logs(*party) && !by_calls(*party);
        match unreachable.iter().copied().find(kept) {
            Some(party) => unreachable.remove(&party),
            None => break,
        };
    }
    if expected.len() - unreachable.len() < quorum {
        BTreeSet::new()
    } else {
        unreachable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(list: &[(Party, &[Party])]) -> Calls {
        list.iter()
            .map(|(caller, called)| (*caller, called.iter().copied().collect()))
            .collect()
    }

    fn heard<'a>(in_logs: &'a Calls, said: &'a Calls) -> Heard<'a> {
        Heard { in_logs, said }
    }

    fn complete(party: Party) -> Vec<Party> {
        (0..5).filter(|&other| other != party).collect()
    }

    fn ring(party: Party) -> Vec<Party> {
        vec![(party + 4) % 5, (party + 1) % 5]
    }

    /// One may collude.
    fn enough(quorum: usize) -> Enough {
        Enough { quorum, colluding: 1 }
    }

    fn nobody(_: Party) -> bool {
        false
    }

    fn everybody() -> BTreeSet<Party> {
        (0..5).collect()
    }

    #[test]
    fn the_logs_of_all_remaining_neighbours_exclude() {
        let none = Calls::new();
        let two_dead = list(&[(0, &[3, 4]), (1, &[3, 4]), (2, &[3, 4])]);
        assert_eq!(
            excluded(&everybody(), heard(&two_dead, &none), nobody, complete, enough(3)),
            BTreeSet::from([3, 4])
        );
        assert_eq!(
            excluded(&everybody(), heard(&two_dead, &none), nobody, complete, enough(4)),
            BTreeSet::new(),
            "too few would remain"
        );
        let one_keeps_it = list(&[(0, &[3, 4]), (1, &[3]), (2, &[3, 4])]);
        assert_eq!(
            excluded(
                &everybody(),
                heard(&one_keeps_it, &none),
                nobody,
                complete,
                enough(3)
            ),
            BTreeSet::new(),
            "4 has a log to give"
        );
        let cut_off = list(&[(0, &[4]), (1, &[4]), (2, &[4]), (3, &[4]), (4, &[0, 1, 2, 3])]);
        assert_eq!(
            excluded(&everybody(), heard(&cut_off, &none), nobody, complete, enough(3)),
            BTreeSet::from([4]),
            "who calls all others gone has lost them"
        );
        assert_eq!(
            excluded(
                &everybody(),
                heard(&list(&[(2, &[3]), (4, &[3])]), &none),
                nobody,
                ring,
                enough(4)
            ),
            BTreeSet::from([3])
        );
    }

    #[test]
    fn calls_exclude_only_when_everybody_called() {
        let none = Calls::new();
        let logs = list(&[(0, &[3])]);
        let said = list(&[(1, &[3]), (2, &[3]), (4, &[3])]);
        assert_eq!(
            excluded(&everybody(), heard(&logs, &said), nobody, complete, enough(3)),
            BTreeSet::from([3])
        );
        let silent = list(&[(0, &[3]), (1, &[3]), (2, &[3])]);
        assert_eq!(
            excluded(&everybody(), heard(&none, &silent), nobody, complete, enough(3)),
            BTreeSet::new(),
            "4 may hold its item"
        );
        assert_eq!(
            excluded(
                &everybody(),
                heard(&none, &silent),
                |party| party == 4,
                complete,
                enough(3)
            ),
            BTreeSet::from([3]),
            "4 is gone too"
        );
        assert_eq!(
            excluded(
                &everybody(),
                heard(&none, &silent),
                |party| party == 4,
                complete,
                enough(4)
            ),
            BTreeSet::new(),
            "no quorum called"
        );
        let neighbours_only = list(&[(2, &[3]), (4, &[3])]);
        assert_eq!(
            excluded(
                &everybody(),
                heard(&none, &neighbours_only),
                nobody,
                ring,
                enough(3)
            ),
            BTreeSet::new(),
            "0 and 1 may hold its item"
        );
    }
    #[test]
    fn nobody_is_taken_out_on_the_word_of_a_coalition_or_of_nobody() {
        let none = Calls::new();
        let of = |calls: &Calls, near: fn(Party) -> Vec<Party>| {
            excluded(&everybody(), heard(calls, &none), nobody, near, enough(3))
        };
        // On a ring each has two neighbours. Both speak of 3; of its other neighbour one liar does.
        let one_lies_of_4 = list(&[(2, &[3]), (4, &[3]), (0, &[4])]);
        assert_eq!(of(&one_lies_of_4, ring), BTreeSet::from([3]));
        let one_lies_of_2 = list(&[(2, &[3]), (4, &[3]), (1, &[2])]);
        assert_eq!(of(&one_lies_of_2, ring), BTreeSet::from([3]));
        // One neighbour alone is no more than collude.
        assert_eq!(
            of(&list(&[(2, &[3])]), |party| vec![(party + 4) % 5]),
            BTreeSet::new()
        );
        // Whose neighbours are all called has nobody left to speak of it.
        let pair = |party: Party| match party {
            3 => vec![4],
            4 => vec![3],
            _ => vec![],
        };
        let of_each_other = list(&[(0, &[3, 4]), (3, &[4]), (4, &[3])]);
        assert_eq!(of(&of_each_other, pair), BTreeSet::new());
    }

    /// All neighbours of 2 are excluded themselves. More of them than collude had called it gone,
    /// which is the word of nobody who is left: it stays, and so would 1 and 3 with it.
    #[test]
    fn the_words_of_excluded_neighbours_alone_exclude_nobody() {
        let everybody: BTreeSet<Party> = (0..9).collect();
        // 1 and 3 are the neighbours of 2, and each has three others that call it gone.
        let near = |party: Party| match party {
            1 => vec![2, 4, 5, 6],
            2 => vec![1, 3],
            3 => vec![2, 4, 5, 6],
            _ => vec![1, 3],
        };
        let dead = list(&[
            (1, &[2]),
            (2, &[1, 3]),
            (3, &[2]),
            (4, &[1, 3]),
            (5, &[1, 3]),
            (6, &[1, 3]),
        ]);
        let none = Calls::new();
        let excluded = excluded(&everybody, heard(&dead, &none), nobody, near, enough(5));
        assert_eq!(
            excluded,
            BTreeSet::from([1, 3]),
            "2 has nobody left to speak of it"
        );
    }

    /// The rules' numbers, at the last that does not suffice and the first that does.
    #[test]
    fn a_quorum_calls_more_than_collude_log_and_a_quorum_remains() {
        let none = Calls::new();
        let expected: BTreeSet<Party> = (0..7).collect();
        for (quorum, unreachable) in [(5, vec![6]), (6, vec![6]), (7, vec![])] {
            let said: Vec<(Party, &[Party])> = (0..6).map(|caller| (caller, &[6][..])).collect();
            let said = list(&said);
            let enough = Enough { quorum, colluding: 9 };
            let found = excluded(&expected, heard(&none, &said), nobody, |_| vec![], enough);
            assert_eq!(found, unreachable.into_iter().collect(), "a quorum of {quorum}");
        }
        for (colluding, unreachable) in [(1, vec![6]), (2, vec![])] {
            let logs = list(&[(0, &[6]), (1, &[6])]);
            let near = |party: Party| if party == 6 { vec![0, 1] } else { vec![] };
            let enough = Enough { quorum: 6, colluding };
            let found = excluded(&expected, heard(&logs, &none), nobody, near, enough);
            assert_eq!(found, unreachable.into_iter().collect(), "{colluding} collude");
        }
    }
}
