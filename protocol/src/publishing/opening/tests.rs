//! One machine alone, and several that hear each other.

mod world;

use std::sync::Arc;

use libp2p_identity::Keypair;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use super::*;
use crate::messages::notice::{Recipient, SignedNotice};
use crate::messages::signing::{Members, Signer};
use crate::messages::stage::Stages;
use crate::messages::wire;
use crate::sealing::deal::{Dealer, Polynomial};
use crate::sealing::holders::{HolderOrder, Threshold, Tolerance};

const DIGEST: [u8; 32] = [1; 32];
const SETTLE_MS: u64 = 4000;

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn keypair(party: Party) -> Keypair {
    Keypair::ed25519_from_bytes([party as u8 + 1; 32]).expect("32 bytes")
}

fn empty_flood(me: Party, parties: usize) -> Flood {
    let keys = (0..parties).map(|party| keypair(party).public()).collect();
    Flood::new(me, Members::new(DIGEST, keys)).with_stages(Stages::sealed(1))
}

/// The deals of all parties. Letters are read by others: shares are handed out here.
struct Deals {
    polynomials: Vec<Polynomial>,
    order: HolderOrder,
    threshold: Threshold,
}

impl Deals {
    fn draw(parties: usize, colluding: usize, dropouts: usize, seed: u64) -> Self {
        let threshold = Threshold::of(Tolerance {
            members: parties,
            started: parties,
            colluding,
            dropouts,
        })
        .expect("enough members");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let polynomial = |_| Polynomial::draw(threshold.needed(), &mut rng);
        Deals {
            polynomials: (0..parties).map(polynomial).collect(),
            order: HolderOrder::draw(seed, parties),
            threshold,
        }
    }

    fn parties(&self) -> usize {
        self.polynomials.len()
    }

    fn holders(&self, of: Party) -> Vec<Party> {
        let everybody = (0..self.parties()).collect();
        self.order.holders(of, &everybody, self.threshold)
    }

    fn checked(&self, of: Party) -> CheckedDeal {
        let (commitments, letters) = (self.polynomials[of].commitments(), vec![]);
        let deal = Deal { commitments, letters };
        deal.check(self.threshold.needed(), 0).expect("a deal")
    }

    fn secret(&self, of: Party) -> [u8; 32] {
        *self.polynomials[of].secret().to_bytes()
    }

    fn share(&self, of: Party, holder: Party) -> [u8; 32] {
        *self.polynomials[of].share(holder)
    }

    /// Returns the record of a party that has read all letters to it.
    fn kept(&self, me: Party) -> Kept {
        let mut kept = Kept::new(me, 0, Some(self.polynomials[me].secret()));
        let of_me = |of: &Party| self.holders(*of).contains(&me);
        for of in (0..self.parties()).filter(of_me) {
            kept.hold(of, Zeroizing::new(self.share(of, me)));
        }
        kept
    }

    fn set(&self, of: &[Party]) -> BTreeMap<Party, Dealt> {
        let dealt = |&party: &Party| {
            let (deal, holders) = (self.checked(party), self.holders(party));
            (party, Dealt { deal, holders })
        };
        of.iter().map(dealt).collect()
    }

    fn key(&self, of: Party) -> Notice {
        let (round, secret) = (0, Disclosed(self.secret(of)));
        Notice::Key { round, secret }
    }

    fn revealed_share(&self, of: Party, holder: Party) -> Notice {
        let share = Disclosed(self.share(of, holder));
        Notice::Share {
            round: 0,
            of: of as u32,
            share,
        }
    }
}

/// A scalar that nobody dealt.
fn wrong(byte: u8) -> Disclosed {
    let mut scalar = [0; 32];
    scalar[0] = byte;
    Disclosed(scalar)
}

/// One machine and what it hears.
struct Bench {
    deals: Deals,
    me: Party,
    flood: Flood,
    opening: SetOpening,
    unreachable: BTreeMap<Party, Time>,
    called: BTreeSet<Party>,
    sequence: u64,
}

impl Bench {
    /// Eight parties of which one colludes and one departs: t = 3, four holders.
    fn new(me: Party, set: &[Party]) -> Self {
        Self::heard_before(me, set, &[])
    }

    fn heard_before(me: Party, set: &[Party], early: &[(Party, Notice)]) -> Self {
        let deals = Deals::draw(8, 1, 1, 7);
        let opening = deals
            .kept(me)
            .open(deals.set(set), Clock::new(Time::ZERO, SETTLE_MS));
        let mut bench = Bench {
            flood: empty_flood(me, 8),
            me,
            opening,
            deals,
            unreachable: BTreeMap::new(),
            called: BTreeSet::new(),
            sequence: 0,
        };
        for (party, notice) in early {
            bench.hear(*party, notice.clone());
        }
        bench
    }

    fn sign(&mut self, author: Party, notice: Notice) -> SignedNotice {
        self.sequence += 1;
        let mut signer = Signer::new(author, DIGEST, keypair(author), self.sequence);
        signer.sign(Recipient::All, notice).expect("signs")
    }

    fn hear(&mut self, party: Party, notice: Notice) {
        let signed = self.sign(party, notice);
        let frame: Arc<[u8]> = wire::notice_frame(&signed);
        self.flood.receive(&frame, signed, true).expect("it is taken");
    }

    /// Everybody of the set tells its own secret but this node, whose step does, and one more.
    fn keys_of_all_but(&mut self, silent: Party) {
        for party in SET.into_iter().filter(|&party| party != 0 && party != silent) {
            self.key_of(party);
        }
    }

    fn key_of(&mut self, party: Party) {
        let key = self.deals.key(party);
        self.hear(party, key);
    }

    fn share_of(&mut self, of: Party, holder: Party) {
        let share = self.deals.revealed_share(of, holder);
        self.hear(holder, share);
    }

    /// All steps at this time.
    fn steps(&mut self, ms: u64) -> Vec<OpeningStep> {
        let mut steps = vec![];
        loop {
            let mut sights = OpeningSights {
                flood: &mut self.flood,
                unreachable: &self.unreachable,
                called: &self.called,
            };
            let Some(step) = self.opening.step(at(ms), &mut sights) else {
                return steps;
            };
            if let OpeningStep::Say(notice) = &step {
                let signed = self.sign(self.me, notice.clone());
                self.flood.publish(signed);
            }
            steps.push(step);
        }
    }

    fn opened(&self) -> BTreeMap<Party, [u8; 32]> {
        let secrets = self.opening.secrets().expect("it is open");
        secrets
            .into_iter()
            .map(|(party, secret)| (party, *secret.to_bytes()))
            .collect()
    }

    fn is_open_for(&self, set: &[Party]) -> bool {
        let secrets = set.iter().map(|&party| (party, self.deals.secret(party)));
        self.opened() == secrets.collect()
    }
}

const SET: [Party; 6] = [0, 1, 2, 3, 5, 6];

/// A member of [`SET`] and its holders, of whom party 0 is one.
fn held_by_0(bench: &Bench) -> (Party, Vec<Party>) {
    let of = |&party: &Party| bench.deals.holders(party).contains(&0);
    let party = SET.into_iter().find(of).expect("everybody holds four");
    let holders = bench.deals.holders(party);
    (party, holders.into_iter().filter(|&holder| holder != 0).collect())
}

#[test]
fn all_keys_open_at_once_and_nobody_tells_a_share() {
    let mut bench = Bench::new(0, &SET);
    let own = OpeningStep::Say(bench.deals.key(0));
    assert_eq!(bench.steps(0), [own]);
    for &party in &SET[1..5] {
        bench.key_of(party);
        assert_eq!(bench.steps(5), []);
    }
    assert!(bench.opening.secrets().is_none());
    assert_eq!(bench.opening.wake(at(5), &bench.unreachable), at(SETTLE_MS / 2));
    bench.key_of(6);
    assert_eq!(bench.steps(9), [OpeningStep::Open]);
    assert!(bench.is_open_for(&SET));
    assert_eq!(bench.opening.opened_for(), [0; 0]);
    assert_eq!(bench.opening.wake(at(9), &bench.unreachable), Time::FAR);
    assert_eq!(bench.steps(SETTLE_MS), []);
}

#[test]
fn what_came_before_the_stage_counts() {
    let deals = Deals::draw(8, 1, 1, 7);
    let early: Vec<_> = SET[1..].iter().map(|&party| (party, deals.key(party))).collect();
    let mut bench = Bench::heard_before(0, &SET, &early);
    let own = OpeningStep::Say(bench.deals.key(0));
    assert_eq!(bench.steps(0), [own, OpeningStep::Open]);
}

#[test]
fn a_member_that_is_gone_is_opened_by_its_holders_at_once() {
    for by_others in [false, true] {
        let mut bench = Bench::new(0, &SET);
        let (unreachable, others) = held_by_0(&bench);
        for party in SET
            .into_iter()
            .filter(|&party| party != 0 && party != unreachable)
        {
            bench.key_of(party);
        }
        assert_eq!(bench.steps(0).len(), 1, "its own key");
        if by_others {
            bench.called.insert(unreachable);
        } else {
            bench.unreachable.insert(unreachable, at(3));
        }
        let share = OpeningStep::Say(bench.deals.revealed_share(unreachable, 0));
        assert_eq!(bench.steps(3), [share], "once");
        bench.share_of(unreachable, others[0]);
        assert_eq!(bench.steps(4), [], "two of three");
        bench.share_of(unreachable, others[1]);
        assert_eq!(bench.steps(5), [OpeningStep::Open]);
        assert!(bench.is_open_for(&SET));
        assert_eq!(bench.opening.opened_for(), [unreachable]);
    }
}

#[test]
fn a_member_that_is_silent_is_opened_from_half_time_on() {
    let mut bench = Bench::new(0, &SET);
    let (silent, others) = held_by_0(&bench);
    bench.keys_of_all_but(silent);
    bench.steps(0);
    // A holder whose clock is ahead, or that found it gone.
    bench.share_of(silent, others[0]);
    assert_eq!(bench.steps(SETTLE_MS / 2 - 1), []);
    let share = OpeningStep::Say(bench.deals.revealed_share(silent, 0));
    assert_eq!(bench.steps(SETTLE_MS / 2), [share]);
    assert_eq!(
        bench.opening.wake(at(SETTLE_MS / 2), &bench.unreachable),
        at(SETTLE_MS)
    );
    // One holder is silent, too: three of four are enough.
    bench.share_of(silent, others[2]);
    assert_eq!(bench.steps(SETTLE_MS / 2 + 9), [OpeningStep::Open]);
    assert!(bench.is_open_for(&SET));
    // Had its own word come as well, nobody would have opened for it.
    assert_eq!(bench.opening.opened_for(), [silent]);
}

#[test]
fn a_share_that_only_this_node_has_does_not_count_until_it_is_revealed() {
    let mut bench = Bench::new(0, &SET);
    let (silent, others) = held_by_0(&bench);
    bench.keys_of_all_but(silent);
    bench.steps(0);
    bench.share_of(silent, others[0]);
    bench.share_of(silent, others[1]);
    assert_eq!(bench.steps(9), [], "others would be left one short");
    let steps = bench.steps(SETTLE_MS / 2);
    let share = OpeningStep::Say(bench.deals.revealed_share(silent, 0));
    assert_eq!(steps, [share, OpeningStep::Open]);
}

#[test]
fn an_owner_that_speaks_after_its_holders_has_spoken() {
    let mut bench = Bench::new(0, &SET);
    let (late, others) = held_by_0(&bench);
    others.iter().for_each(|&holder| bench.share_of(late, holder));
    bench.steps(9);
    bench.key_of(late);
    for party in SET.into_iter().filter(|&party| party != 0 && party != late) {
        bench.key_of(party);
    }
    assert_eq!(bench.steps(10), [OpeningStep::Open]);
    assert_eq!(bench.opening.opened_for(), [0; 0]);
}

#[test]
fn a_wrong_key_is_forgotten_and_a_later_good_one_counts() {
    let mut bench = Bench::new(0, &SET);
    bench.steps(0);
    SET[1..5].iter().for_each(|&party| bench.key_of(party));
    for round in 0..3 {
        let not_a_scalar = Disclosed([0xff - round; 32]);
        for (secret, reason) in [
            (wrong(round), DealError::Secret),
            (not_a_scalar, DealError::Scalar),
        ] {
            bench.hear(6, Notice::Key { round: 0, secret });
            let author = 6;
            assert_eq!(bench.steps(1), [OpeningStep::Wrong { author, reason }]);
        }
    }
    bench.key_of(6);
    assert_eq!(bench.steps(2), [OpeningStep::Open]);
    assert!(bench.is_open_for(&SET));
}

#[test]
fn a_wrong_share_does_not_count() {
    let mut bench = Bench::new(0, &SET);
    let (silent, others) = held_by_0(&bench);
    bench.keys_of_all_but(silent);
    bench.steps(SETTLE_MS / 2);
    bench.share_of(silent, others[0]);
    let of = silent as u32;
    let liar = others[1];
    // One that nobody dealt, and another's good one as its own.
    for share in [wrong(9), Disclosed(bench.deals.share(silent, others[2]))] {
        bench.hear(liar, Notice::Share { round: 0, of, share });
        let reason = DealError::Share { holder: liar };
        let wrong = OpeningStep::Wrong { author: liar, reason };
        assert_eq!(bench.steps(SETTLE_MS / 2), [wrong]);
    }
    // A good one of somebody who was dealt none.
    let no_holder = |party: &Party| *party != silent && !others.contains(party) && *party != 0;
    let stranger = (0..8).find(no_holder).expect("four of eight hold");
    bench.share_of(silent, stranger);
    let reason = DealError::Share { holder: stranger };
    let author = stranger;
    assert_eq!(
        bench.steps(SETTLE_MS / 2),
        [OpeningStep::Wrong { author, reason }]
    );
    let over = OpeningStep::Over(vec![Unopened {
        party: silent,
        shares: 2,
        needed: 3,
        word: OwnWord::None,
    }]);
    assert_eq!(bench.steps(SETTLE_MS), [over]);
    bench.share_of(silent, liar);
    assert_eq!(bench.steps(SETTLE_MS + 1), [], "it is over");
}

#[test]
fn too_few_shares_end_the_stage_with_their_number() {
    let mut bench = Bench::new(0, &SET);
    let (silent, others) = held_by_0(&bench);
    for party in SET
        .into_iter()
        .filter(|&party| party != 0 && party != silent && party != 5)
    {
        bench.key_of(party);
    }
    bench.share_of(silent, others[0]);
    let steps = bench.steps(SETTLE_MS);
    let Some(OpeningStep::Over(lacking)) = steps.last() else {
        panic!("{steps:?}")
    };
    let own = usize::from(bench.deals.holders(5).contains(&0));
    let of = |party| {
        lacking
            .iter()
            .find(|it| it.party == party)
            .expect("it lacks")
            .sentence("x")
    };
    assert_eq!(of(silent), "x's secret has 2 of 3 shares");
    assert_eq!(of(5), format!("x's secret has {own} of 3 shares"));
    assert_eq!(lacking.len(), 2);
}

#[test]
fn a_holder_outside_of_the_set_gives_shares_and_keeps_its_secret() {
    let deals = Deals::draw(8, 1, 1, 7);
    let outside = |me: &Party| !SET.contains(me) && SET.iter().any(|&of| deals.holders(of).contains(me));
    let me = (0..8).find(outside).expect("somebody");
    let mut bench = Bench::new(me, &SET);
    assert_eq!(bench.steps(0), []);
    let said = bench.steps(SETTLE_MS / 2);
    let held: Vec<_> = SET
        .into_iter()
        .filter(|&of| deals.holders(of).contains(&me))
        .collect();
    let shares: Vec<_> = held
        .iter()
        .map(|&of| OpeningStep::Say(deals.revealed_share(of, me)))
        .collect();
    assert_eq!(said, shares);
}

#[test]
fn a_share_that_its_deal_contradicts_is_never_revealed() {
    let deals = Deals::draw(8, 1, 1, 7);
    let mut kept = Kept::new(0, 0, None);
    for of in SET.into_iter().filter(|&of| deals.holders(of).contains(&0)) {
        kept.hold(of, Zeroizing::new(wrong(3).0));
    }
    let mut bench = Bench::new(0, &SET);
    bench.opening = kept.open(deals.set(&SET), Clock::new(Time::ZERO, SETTLE_MS));
    let steps = bench.steps(SETTLE_MS / 2);
    let reason = DealError::Share { holder: 0 };
    let no_share =
        |step: &OpeningStep| matches!(step, OpeningStep::NoShare { reason: found, .. } if *found == reason);
    assert!(!steps.is_empty() && steps.iter().all(no_share), "{steps:?}");
}

#[test]
fn what_a_holder_reads_in_its_letter_is_what_it_tells() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let keys: Vec<Arc<RunKey>> = (0..4).map(|_| Arc::new(RunKey::draw(&mut rng))).collect();
    let holders: Vec<Party> = vec![3, 0, 2];
    let named: Vec<_> = holders
        .iter()
        .map(|&party| (party, *keys[party].public()))
        .collect();
    let dealer = Dealer {
        key: &keys[1],
        party: 1,
        digest: &DIGEST,
        round: 0,
    };
    let (secret, deal) = dealer.deal(2, &named, &mut rng);
    let checked = deal.check(2, 3).expect("a deal");
    let dealt = Dealt {
        deal: checked,
        holders,
    };
    let read = |me: Party, key: &Arc<RunKey>, author: &RunKey, deal: &Deal| {
        let mut kept = Kept::new(me, 0, None);
        kept.keep_letter(key, &DIGEST, (1, author.public()), deal, &dealt);
        kept.share(1, &dealt)
    };
    let mut shares = BTreeMap::new();
    for me in [3, 0, 2, 1] {
        let share = read(me, &keys[me], &keys[1], &deal);
        shares.extend(share.map(|share| (me, share.expect("it opens"))));
        // Somebody else's key, or another author's: it does not open, and nothing is held.
        let no_letter = (me != 1).then_some(Err(DealError::Letter { holder: me }));
        assert_eq!(read(me, &keys[(me + 1) % 4], &keys[1], &deal), no_letter);
        assert_eq!(read(me, &keys[me], &keys[0], &deal), no_letter);
    }
    assert_eq!(shares.keys().copied().collect::<Vec<_>>(), [0, 2, 3]);
    let recovered = dealt.deal.recover(&shares).expect("enough");
    assert_eq!(*recovered.to_bytes(), *secret.to_bytes());
    // A dealer that writes what its commitments contradict has one holder fewer, and no more.
    let mut lies = deal.clone();
    let envelope = Envelope {
        digest: &DIGEST,
        round: 0,
        from: 1,
        to: 3,
    };
    lies.letters[0] = letter::write(&keys[1], keys[3].public(), &envelope, &wrong(5).0, &mut rng);
    let refused = read(3, &keys[3], &keys[1], &lies);
    assert_eq!(refused, Some(Err(DealError::Share { holder: 3 })));
}

#[test]
fn colluders_and_departed_together_hold_one_share_too_few() {
    let deals = Deals::draw(8, 1, 1, 7);
    for of in 0..8 {
        let holders = deals.holders(of);
        let (deal, needed) = (deals.checked(of), deals.threshold.needed());
        let revealed = |count| {
            holders[..count]
                .iter()
                .map(|&holder| (holder, deals.share(of, holder)))
        };
        let few = deal.recover(&revealed(needed - 1).collect());
        assert_eq!(few.err(), Some(DealError::Few { found: 2, needed: 3 }));
        let enough = deal.recover(&revealed(needed).collect()).expect("t shares");
        assert_eq!(*enough.to_bytes(), deals.secret(of));
    }
}
