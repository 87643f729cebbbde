use std::sync::Arc;

use libp2p_identity::Keypair;

use super::*;
use crate::messages::notice::{Recipient, item_hash};
use crate::messages::set::Set;
use crate::messages::signing::{Members, Signer};
use crate::messages::wire;
use crate::plan::quorum::Quorum;

const SETTLE_MS: u64 = 1600;
const STAGE: Stage = Stage::Settling;

fn key(party: Party) -> Keypair {
    Keypair::ed25519_from_bytes([party as u8 + 1; 32]).expect("32 bytes")
}

/// Party 0 of six, one of whom colludes.
struct Bench {
    flood: Flood,
    items: Items,
    unreachable: BTreeMap<Party, Time>,
    in_logs: Calls,
    machine: Agreement,
}

impl Bench {
    /// Four signatures make a set agreed: two may depart, who followed the protocol until then.
    fn new() -> Self {
        Bench::with_dropouts(2)
    }

    fn with_dropouts(dropouts: usize) -> Self {
        let electorate = Electorate {
            me: 0,
            parties: 6,
            colluding: 1,
            quorum: Quorum::of(6, 1, dropouts).signers(),
            min_parties: 6 - dropouts,
            private: Arc::new(Graph::complete(6)),
            public: Arc::new(Graph::complete(6)),
        };
        let members = Members::new([1; 32], (0..6).map(|party| key(party).public()).collect());
        let clock = Clock::new(Time::ZERO, SETTLE_MS);
        let mut bench = Bench {
            flood: Flood::new(0, members),
            items: Items::new(0, 100, SETTLE_MS),
            unreachable: BTreeMap::new(),
            in_logs: Calls::new(),
            machine: Agreement::new(electorate, STAGE, (0..6).collect(), clock, BTreeSet::new()),
        };
        bench.item(0);
        bench
    }

    fn item(&mut self, party: Party) {
        self.items.keep_own(party, item(party).into(), 4);
        self.say(
            party,
            Notice::Item {
                stage: STAGE,
                hash: hash(party),
                bytes: 4,
            },
        );
        self.in_logs.insert(party, BTreeSet::new());
    }

    fn say(&mut self, party: Party, notice: Notice) {
        let signed = Signer::new(party, [1; 32], key(party), 0)
            .sign(Recipient::All, notice)
            .expect("signs");
        self.flood.publish(signed);
    }

    fn vote(&mut self, party: Party, early: bool, set: &[Party]) {
        let set = self.flood.keep_set(Set::Items(set_of(set)));
        self.say(
            party,
            Notice::Vote {
                stage: STAGE,
                early,
                set,
            },
        );
    }

    fn list(&mut self, party: Party, set: &[Party]) {
        self.say(party, listing(set));
    }

    /// The next step at this time; what is said is heard.
    fn step(&mut self, ms: u64) -> Option<Step> {
        let sights = StageSights {
            flood: &self.flood,
            items: HeldItems::alone(&self.items),
            unreachable: &self.unreachable,
            in_logs: &self.in_logs,
        };
        let step = self.machine.step(Time::from_millis(ms), &sights);
        match &step {
            Some(Step::Say(notice)) => self.say(0, notice.clone()),
            Some(Step::Vote { early, set }) => {
                let parties: Vec<Party> = set.iter().map(|entry| entry.0).collect();
                self.vote(0, *early, &parties);
            }
            _ => {}
        }
        step
    }
}

fn item(party: Party) -> Vec<u8> {
    vec![party as u8; 4]
}

fn hash(party: Party) -> ItemHash {
    item_hash(&item(party))
}

fn set_of(parties: &[Party]) -> ItemSet {
    parties.iter().map(|&party| (party, hash(party))).collect()
}

fn vote(early: bool, set: &[Party]) -> Option<Step> {
    let set = set_of(set);
    Some(Step::Vote { early, set })
}

/// The list of somebody who holds these parties' items, of which nobody has signed two.
fn listing(set: &[Party]) -> Notice {
    Notice::List {
        stage: STAGE,
        held: Row::of(6, set.iter().copied()),
        versions: Vec::new(),
    }
}

fn list(set: &[Party]) -> Option<Step> {
    Some(Step::Say(listing(set)))
}

fn unreachable(party: Party) -> Option<Step> {
    Some(Step::Say(Notice::Unreachable { stage: STAGE, party }))
}

const ALL: [Party; 6] = [0, 1, 2, 3, 4, 5];
const HALF: u64 = SETTLE_MS / 2;
const THREE_QUARTERS: u64 = SETTLE_MS * 3 / 4;
const SEVEN_EIGHTHS: u64 = SETTLE_MS * 7 / 8;

#[test]
fn a_complete_set_is_signed_at_once_and_agreed_by_the_quorum() {
    let mut bench = Bench::new();
    (1..5).for_each(|party| bench.item(party));
    assert_eq!(bench.step(1), None);
    bench.item(5);
    assert_eq!(bench.step(2), vote(true, &ALL));
    assert_eq!(bench.step(2), None);
    (1..3).for_each(|party| bench.vote(party, true, &ALL));
    assert_eq!(
        bench.step(3),
        None,
        "three of six with one colluding are not enough"
    );
    bench.vote(3, true, &ALL);
    assert_eq!(bench.step(4), Some(Step::Agreed(set_of(&ALL))));
    assert_eq!(bench.step(SETTLE_MS), None, "agreed once, and not over");
}

/// Party 4 colludes and party 5 departs later: both sign two sets, and show each half of the others
/// one. Then neither half may take its set for agreed; all who are left, 5 not among them, can.
#[test]
fn sets_that_a_colluder_and_a_departed_party_signed_twice_are_not_agreed() {
    let mut bench = Bench::with_dropouts(1);
    (1..6).for_each(|party| bench.item(party));
    assert_eq!(bench.step(1), vote(true, &ALL));
    for party in [1, 4, 5] {
        bench.vote(party, true, &ALL);
    }
    assert_eq!(
        bench.step(2),
        None,
        "the other half may have as many for another set"
    );
    bench.vote(2, true, &ALL);
    assert_eq!(bench.step(3), Some(Step::Agreed(set_of(&ALL))));
    let mut bench = Bench::with_dropouts(1);
    (1..5).for_each(|party| bench.item(party));
    (1..5).for_each(|party| bench.vote(party, true, &[0, 1, 2, 3, 4]));
    assert_eq!(bench.step(THREE_QUARTERS), vote(false, &[0, 1, 2, 3, 4]));
    let agreed = std::iter::from_fn(|| bench.step(THREE_QUARTERS)).last();
    assert_eq!(
        agreed,
        Some(Step::Agreed(set_of(&[0, 1, 2, 3, 4]))),
        "all who are left"
    );
}

#[test]
fn an_agreed_set_counts_only_once_all_its_items_are_here() {
    let mut bench = Bench::new();
    (1..5).for_each(|party| bench.vote(party, true, &[0, 1]));
    assert_eq!(bench.step(1), None);
    bench.item(1);
    assert_eq!(bench.step(2), Some(Step::Agreed(set_of(&[0, 1]))));
}

#[test]
fn between_half_and_three_quarters_nothing_is_signed() {
    let mut bench = Bench::new();
    bench.item(1);
    assert_eq!(bench.step(HALF - 1), None);
    assert_eq!(bench.step(HALF), list(&[0, 1]));
    (2..6).for_each(|party| bench.item(party));
    assert_eq!(bench.step(HALF + 1), None, "complete, but late");
    assert_eq!(bench.step(SETTLE_MS - 1), None, "and nothing that most hold");
    assert_eq!(bench.machine.voted, None);
}

#[test]
fn at_three_quarters_a_set_signed_early_goes_before_lists() {
    let mut bench = Bench::new();
    (1..5).for_each(|party| bench.item(party));
    assert_eq!(bench.step(HALF), list(&[0, 1, 2, 3, 4]));
    bench.vote(1, true, &[1, 2, 3, 4]);
    bench.vote(2, true, &[1, 2, 3, 4]);
    bench.vote(3, true, &[0, 1, 2, 3]);
    bench.vote(4, true, &[0, 1, 2, 3]);
    bench.vote(5, true, &[0, 1, 2, 3]);
    (1..6).for_each(|party| bench.list(party, &[0, 1, 2, 3, 4]));
    assert_eq!(
        bench.step(THREE_QUARTERS),
        vote(false, &[0, 1, 2, 3]),
        "most signatures"
    );
}

#[test]
fn ties_go_to_the_smaller_hash_whatever_the_order() {
    let sets: [&[Party]; 2] = [&[0, 1, 2, 3], &[0, 1, 2, 4]];
    let smaller = *sets
        .iter()
        .min_by_key(|set| wire::set_hash(&Set::Items(set_of(set))))
        .expect("two");
    for order in [[2, 3, 4, 5], [4, 5, 3, 2]] {
        let mut bench = Bench::new();
        (1..5).for_each(|party| bench.item(party));
        (0..4).for_each(|at| bench.vote(order[at], true, sets[at / 2]));
        bench.step(HALF);
        assert_eq!(bench.step(THREE_QUARTERS), vote(false, smaller));
    }
}

#[test]
fn else_the_items_in_most_lists_are_signed_once_they_are_held() {
    let mut bench = Bench::new();
    (1..3).for_each(|party| bench.item(party));
    bench.step(HALF);
    bench.list(1, &[0, 1, 3]);
    bench.list(2, &[0, 1, 3]);
    assert_eq!(
        bench.step(THREE_QUARTERS),
        None,
        "three lists of six are not more than half"
    );
    bench.vote(3, false, &[0, 1, 3]);
    assert_eq!(
        bench.step(THREE_QUARTERS + 1),
        vote(false, &[0, 1]),
        "a signed set counts as a list; 3 is in three only"
    );
    let mut bench = Bench::new();
    bench.step(HALF);
    (1..5).for_each(|party| bench.list(party, &[0, 4]));
    assert_eq!(bench.step(THREE_QUARTERS), None, "the item of 4 is not here");
    bench.item(4);
    assert_eq!(bench.step(THREE_QUARTERS + 5), vote(false, &[0, 4]));
}

#[test]
fn an_empty_set_is_never_signed_and_the_stage_ends() {
    let mut bench = Bench::new();
    assert_eq!(bench.step(HALF), list(&[0]));
    (1..6).for_each(|party| bench.list(party, &[]));
    assert_eq!(bench.step(THREE_QUARTERS), None);
    assert_eq!(bench.step(SETTLE_MS - 1), None);
    assert_eq!(bench.step(SETTLE_MS), Some(Step::Over));
    assert_eq!(bench.step(SETTLE_MS), None);
}

#[test]
fn a_party_that_everybody_calls_gone_is_not_waited_for() {
    let mut bench = Bench::new();
    (1..5).for_each(|party| bench.item(party));
    bench.unreachable.insert(5, Time::from_millis(10));
    assert_eq!(bench.step(59), None, "its item may be on the way");
    assert_eq!(bench.step(60), unreachable(5));
    (1..4).for_each(|party| {
        bench.say(
            party,
            Notice::Unreachable {
                stage: STAGE,
                party: 5,
            },
        )
    });
    assert_eq!(bench.step(61), None, "4 has not called");
    bench.in_logs.insert(4, BTreeSet::from([5]));
    assert_eq!(
        bench.step(62),
        vote(true, &[0, 1, 2, 3, 4]),
        "a log's call counts too"
    );
}

#[test]
fn the_logs_alone_exclude_as_well() {
    let mut bench = Bench::new();
    (1..5).for_each(|party| bench.item(party));
    (1..5).for_each(|party| drop(bench.in_logs.insert(party, BTreeSet::from([5]))));
    bench.in_logs.insert(0, BTreeSet::from([5]));
    assert_eq!(bench.step(1), vote(true, &[0, 1, 2, 3, 4]));
}

#[test]
fn who_called_a_party_gone_signs_no_set_with_it_before_three_quarters() {
    let mut bench = Bench::new();
    (1..5).for_each(|party| bench.item(party));
    bench.unreachable.insert(5, Time::ZERO);
    assert_eq!(bench.step(60), unreachable(5));
    bench.item(5);
    assert_eq!(bench.step(61), None, "it turned up, too late for this node");
    (2..4).for_each(|party| bench.vote(party, true, &ALL));
    assert_eq!(bench.step(HALF), list(&ALL));
    assert_eq!(bench.step(THREE_QUARTERS), vote(false, &ALL));
}

#[test]
fn who_holds_an_item_does_not_call_its_party_gone() {
    let mut bench = Bench::new();
    (1..6).for_each(|party| bench.item(party));
    bench.unreachable.insert(5, Time::ZERO);
    assert_eq!(bench.step(60), vote(true, &ALL));
    assert_eq!(bench.step(61), None);
}

/// Party 0 holds 0…4 and has listed them; all others but `liars` have, too.
fn listed_by_all_but(liars: &[Party]) -> Bench {
    let mut bench = Bench::new();
    (1..5).for_each(|party| bench.item(party));
    assert_eq!(bench.step(HALF), list(&[0, 1, 2, 3, 4]));
    for party in (1..6).filter(|party| !liars.contains(party)) {
        bench.list(party, &[0, 1, 2, 3, 4]);
    }
    bench
}

#[test]
fn what_as_many_as_collude_sign_early_beats_no_lists() {
    // Half of the members voted out, everybody but one, or nobody: it is one signature.
    for set in [&[5][..], &[0], &[0, 1, 2, 4], &[0, 1, 2, 3]] {
        let mut bench = listed_by_all_but(&[5]);
        bench.vote(5, true, set);
        assert_eq!(
            bench.step(THREE_QUARTERS),
            vote(false, &[0, 1, 2, 3, 4]),
            "{set:?}"
        );
    }
}

#[test]
fn a_set_that_nobody_can_show_stops_no_run() {
    // Hashes of nothing; the hash of no set; and the item of somebody who signed early and fell
    // silent.
    let mut bench = listed_by_all_but(&[5]);
    let items = vec![(0, [7; 32]), (1, [8; 32]), (2, [9; 32]), (3, [1; 32])];
    let set = bench.flood.keep_set(Set::Items(items));
    let vote_for = |set| Notice::Vote {
        stage: STAGE,
        early: true,
        set,
    };
    bench.say(5, vote_for(set));
    bench.say(4, vote_for([3; 32]));
    assert_eq!(bench.step(THREE_QUARTERS), vote(false, &[0, 1, 2, 3, 4]));
    let mut bench = listed_by_all_but(&[]);
    bench.vote(4, true, &ALL);
    bench.vote(5, true, &ALL);
    assert_eq!(bench.step(THREE_QUARTERS), None, "5 may come yet");
    assert_eq!(
        bench.step(SEVEN_EIGHTHS),
        vote(false, &[0, 1, 2, 3, 4]),
        "5 is not here"
    );
}

#[test]
fn an_item_that_comes_a_little_late_does_not_split_the_vote() {
    let mut bench = listed_by_all_but(&[]);
    bench.vote(4, true, &ALL);
    bench.vote(5, true, &ALL);
    assert_eq!(bench.step(THREE_QUARTERS), None);
    bench.item(5);
    assert_eq!(bench.step(THREE_QUARTERS + 1), vote(false, &ALL));
}

#[test]
fn a_set_that_is_too_small_to_publish_is_not_signed_for_its_early_signers() {
    let mut bench = listed_by_all_but(&[]);
    (4..6).for_each(|party| bench.vote(party, true, &[0, 1, 2]));
    assert_eq!(bench.step(THREE_QUARTERS), vote(false, &[0, 1, 2, 3, 4]));
}

#[test]
fn a_stage_takes_as_many_items_as_it_can_come_to_anything_with() {
    let electorate = Bench::with_dropouts(1).machine.electorate;
    assert_eq!((electorate.quorum, electorate.min_parties), (5, 5));
    let electorate = Electorate {
        min_parties: 6,
        ..electorate
    };
    assert_eq!(electorate.least(Stage::Publishing), 5);
    for stage in [Stage::Settling, Stage::Sealed, Stage::Correction(1)] {
        assert_eq!(electorate.least(stage), 6);
    }
}
