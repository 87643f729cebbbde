//! Liars in streams of circles: who says that it lacks what it has, who shows two logs, deals what
//! nobody can read, gives its secret late, or sends what no value and noise come to.

use std::cell::RefCell;

use rand::rngs::ChaCha20Rng;
use rand::{Rng, SeedableRng};

use super::knowledge::{Coalition, Record, Truth, every_pair_looks};
use super::*;
use crate::lattice::residue::ResidueVector;
use crate::messages::log::Log;
use crate::messages::notice::{Disclosed, Notice, Recipient, SignedNotice, item_hash};
use crate::messages::signature::Digest;
use crate::messages::signing::Signer;
use crate::messages::wire::PublicFrame;
use crate::sealing::deal::Polynomial;
use crate::topology::schedule::Schedule;

/// The round in which somebody lies.
const ROUND: u32 = 2;

/// A liar's hand on the wire: what it signs, it signs with its own key.
struct Hand<'a> {
    plan: &'a Plan,
    liar: Party,
    /// The digest that the lied-about round is signed for, once a vector of it was seen.
    digest: RefCell<Option<Digest>>,
}

impl<'a> Hand<'a> {
    fn of(plan: &'a Plan, liar: Party) -> Self {
        let digest = RefCell::new(None);
        Hand { plan, liar, digest }
    }

    fn note(&self, sending: &Sending<'_>) {
        if let Ok(PrivateFrame::Sealed { digest, id, .. }) = wire::read_private(sending.frame)
            && (sending.network, id.round) == (Network::Private, ROUND)
        {
            *self.digest.borrow_mut() = Some(digest);
        }
    }

    /// Returns the content of a public frame of the round.
    fn read(&self, sending: &Sending<'_>) -> Option<(Bytes, PublicFrame)> {
        if sending.network != Network::Public {
            return None;
        }
        let (round, inner) = wire::of_iteration(&Bytes::from_owner(sending.frame.clone())).ok()?;
        let read = wire::read_public(&inner).ok()?;
        (round == ROUND).then_some((inner, read))
    }

    fn signed(&self, sequence: u64, notice: Notice) -> SignedNotice {
        let digest = self.digest.borrow().expect("vectors come before all else");
        let mut signer = Signer::new(self.liar, digest, simulated_keypair(self.liar), sequence);
        signer.sign(Recipient::All, notice).expect("a key of ours signs")
    }

    /// The liar's log with something changed, where it sends its log.
    fn other_log(&self, sending: &Sending<'_>, change: impl Fn(&mut Log)) -> Sent {
        let Some((inner, frame)) = self.read(sending).filter(|_| sending.from == self.liar) else {
            return Sent::AsItIs;
        };
        let other = |bytes: std::ops::Range<usize>| {
            let schedule = Schedule::both_ways(std::iter::once(&self.plan.active_edges(ROUND)));
            let mut log = wire::log_from_bytes(&inner[bytes], self.liar, &schedule).expect("its own log");
            change(&mut log);
            wire::log_to_bytes(&log, &schedule)
        };
        let frame = match frame {
            PublicFrame::Item { signed, bytes }
                if signed.author == self.liar && signed.notice.is_item_of(Stage::Settling) =>
            {
                let body = other(bytes);
                let notice = Notice::Item {
                    stage: Stage::Settling,
                    hash: item_hash(&body),
                    bytes: body.len() as u64,
                };
                wire::announcement_frame(&self.signed(signed.sequence, notice), &body)
            }
            PublicFrame::Body { stage, author, bytes } if (stage, author) == (Stage::Settling, self.liar) => {
                wire::body_frame(stage, author, &other(bytes))
            }
            // What announces the log that nobody is to see.
            PublicFrame::Notice(signed)
                if signed.author == self.liar && signed.notice.is_item_of(Stage::Settling) =>
            {
                return Sent::Later(vec![]);
            }
            _ => return Sent::AsItIs,
        };
        Sent::Replaced(wire::iteration_frame(ROUND, &frame))
    }

    /// Whether this is somebody's own secret of the round, on its way from its owner.
    fn is_key(&self, sending: &Sending<'_>) -> bool {
        let read = self.read(sending);
        let signed = read.as_ref().and_then(|(_, frame)| frame.notice());
        signed.is_some_and(|it| it.author == sending.from && matches!(it.notice, Notice::Key { .. }))
    }

    /// The liar's secret of the round, as it tells it: what its machine draws is drawn once more.
    fn key(&self, seed: u64) -> Arc<[u8]> {
        let mut rng = ChaCha20Rng::from_seed(identity_of(seed, self.liar).seal_seed);
        let threshold = self.plan.threshold(PARTIES).expect("enough").expect("it seals");
        let mut drawn = None;
        for _ in 1..=ROUND {
            drawn = Some(Polynomial::draw(threshold.needed(), &mut rng));
            (0..threshold.holders()).for_each(|_| rng.fill_bytes(&mut [0; 32]));
        }
        let secret = drawn.expect("a round").secret();
        let notice = Notice::Key {
            round: self.plan.sealed_round(),
            secret: Disclosed(*secret.to_bytes()),
        };
        wire::iteration_frame(ROUND, &wire::notice_frame(&self.signed(0, notice)))
    }
}

/// Plays a stream with a liar. What its machine comes to is nobody's concern.
fn play<'a>(
    plan: &'a Arc<Plan>,
    (seed, liar): (u64, Party),
    mut wire: impl FnMut(&Sending<'_>) -> Sent + 'a,
    prepare: impl FnOnce(&mut Simulation<'a>),
) -> Report {
    let mut simulation = simulation(plan, Conditions::new(seed));
    simulation.liar = Some(liar);
    simulation.wire = Some(Box::new(move |sending| wire(sending)));
    prepare(&mut simulation);
    let report = simulation.run();
    assert_eq!(report.violations, [], "seed {seed}");
    report
}

/// The set of a round by all who closed it.
fn closed(report: &Report, round: u32) -> BTreeSet<BTreeSet<Party>> {
    let closed = report.events.iter().filter_map(|(.., event)| match event {
        Event::Closed { round: of, set } if *of == round => Some(set.iter().copied().collect()),
        _ => None,
    });
    closed.collect()
}

fn all_but(party: Party) -> BTreeSet<Party> {
    (0..PARTIES).filter(|it| *it != party).collect()
}

/// All but `out` go on to the end, and lack its messages from a round on.
fn go_on_without(report: &Report, out: Party, since: u32) {
    for (who, _, gossip) in ended(report).into_iter().filter(|(who, ..)| *who != out) {
        let stopped = gossip.stopped.as_ref();
        assert_eq!((stopped, u64::from(gossip.rounds)), (None, RELEASES), "{who}");
        let missed: Vec<_> = gossip.missed.iter().map(|(of, it)| (*of, it.first)).collect();
        assert_eq!(missed, [(out, since)], "{who}");
    }
}

/// The honest neighbour is later in the plan: without the signed answer it would be out.
#[test]
fn who_denies_a_vector_that_it_answered_is_out_and_its_neighbour_is_not() {
    for (seed, graph) in (0..).zip(GRAPHS) {
        let plan = circles(graph, "");
        let liar = 0;
        let denied = *plan.active_edges(ROUND).neighbours(liar).last().expect("some");
        let hand = Hand::of(&plan, liar);
        let denies = |sending: &Sending<'_>| {
            hand.note(sending);
            hand.other_log(sending, |log| log.received.retain(|entry| entry.from != denied))
        };
        let report = play(&plan, (seed, liar), denies, |_| {});
        assert_eq!(closed(&report, ROUND), [all_but(liar)].into(), "{graph}");
        go_on_without(&report, liar, ROUND);
    }
}

/// Who never gives its answer puts an honest neighbour out, at the price of a departure: what that
/// one has sealed stays closed to any two, the liar among them. One holder more would open it.
#[test]
fn who_is_denied_before_any_answer_is_out_and_stays_closed() {
    let plan = circles(GRAPHS[0], "");
    let (liar, denied, seed) = (2, 6, 5);
    let record = RefCell::new(Record::default());
    let mut simulation = simulation(&plan, Conditions::new(seed));
    simulation.wire = Some(Box::new(|sending| {
        let lost = match wire::read_private(sending.frame) {
            Ok(PrivateFrame::Sealed { id, .. }) => {
                let place = (id.round, id.from, id.to);
                sending.network == Network::Private && place == (ROUND, denied, liar)
            }
            _ => false,
        };
        record.borrow_mut().note(&plan, sending);
        match lost {
            // As if it had not come: the liar has it all the same.
            true => Sent::Later(vec![]),
            false => Sent::AsItIs,
        }
    }));
    simulation.play();
    let opened = simulation.opened_circles();
    let record = record.borrow();
    let findings = every_pair_looks(&simulation, &opened, &record);
    assert_eq!(findings.wrong, Vec::<String>::new());
    assert_eq!(findings.closed, 21, "each two of the seven others");
    let truth = Truth::of(&plan, seed, &record, &simulation.events);
    let three = (0..PARTIES).flat_map(|a| (0..a).flat_map(move |b| (0..b).map(move |c| [a, b, c])));
    let three: Vec<[Party; 3]> = three.filter(|three| !three.contains(&denied)).collect();
    let open = three
        .iter()
        .filter(|three| Coalition::of(&truth, **three).secret(ROUND, denied).is_some());
    // Of its four holders each three.
    assert_eq!((three.len(), open.count()), (35, 4));
    let report = simulation.finish();
    assert_eq!(report.violations, []);
    assert_eq!(closed(&report, ROUND), [all_but(denied)].into());
    go_on_without(&report, denied, ROUND);
}

/// A reader that shows some another log asks for a second set of the round: there is one, or none,
/// and nobody is told what opens anything else.
#[test]
fn a_party_that_shows_two_logs_learns_the_sum_of_one_set_at_most() {
    let plan = circles(GRAPHS[0], "");
    let (liar, denied) = (2, 6);
    let mut whole = 0;
    for seed in 0..6 {
        let hand = Hand::of(&plan, liar);
        let record = RefCell::new(Record::default());
        let fooled: BTreeSet<Party> = (0..=seed as usize).map(|step| (3 + step) % PARTIES).collect();
        let mut simulation = simulation(&plan, Conditions::new(seed));
        simulation.liar = Some(liar);
        simulation.wire = Some(Box::new(|sending| {
            hand.note(sending);
            let sent = match fooled.contains(&sending.to) {
                true => hand.other_log(sending, |log| log.received.retain(|entry| entry.from != denied)),
                false => Sent::AsItIs,
            };
            let frame = match &sent {
                Sent::Replaced(other) => other,
                _ => sending.frame,
            };
            record.borrow_mut().note(&plan, &Sending { frame, ..*sending });
            sent
        }));
        simulation.play();
        let opened = simulation.opened_circles();
        let findings = every_pair_looks(&simulation, &opened, &record.borrow());
        assert_eq!(findings.wrong, Vec::<String>::new(), "seed {seed}");
        let report = simulation.finish();
        assert_eq!(report.violations, [], "seed {seed}");
        assert!(closed(&report, ROUND).len() <= 1, "seed {seed}");
        let others = ended(&report).into_iter().filter(|(who, ..)| *who != liar);
        whole += others.filter(|(.., it)| u64::from(it.rounds) == RELEASES).count();
    }
    println!("{whole} of 42 streams of others went on");
    assert!(whole > 0);
}

fn garble(log: &mut Log) {
    let sealed = log.sealed.iter_mut();
    sealed.for_each(|sealed| sealed.deal.letters.iter_mut().for_each(|letter| letter[40] ^= 1));
}

/// Letters that no holder can read cost nothing as long as their dealer tells its secret.
#[test]
fn letters_that_nobody_can_read_cost_nothing_where_their_dealer_speaks() {
    let plan = circles(GRAPHS[1], "");
    let (liar, seed) = (3, 6);
    let hand = Hand::of(&plan, liar);
    let reported = RefCell::new(false);
    let speaks = |sending: &Sending<'_>| {
        hand.note(sending);
        // Its machine does not know of its other log: its secret is told for it, once.
        let first = hand.is_key(sending) && sending.from != liar && !reported.replace(true);
        match first {
            true => Sent::Later(vec![(0, sending.frame.clone()), (0, hand.key(seed))]),
            false => hand.other_log(sending, garble),
        }
    };
    let report = play(&plan, (seed, liar), speaks, |_| {});
    assert_eq!(closed(&report, ROUND), [(0..PARTIES).collect()].into());
    for (who, _, gossip) in ended(&report).into_iter().filter(|(who, ..)| *who != liar) {
        assert_eq!(u64::from(gossip.rounds), RELEASES, "{who}: {:?}", gossip.stopped);
        assert!(gossip.missed.values().all(|missed| missed.first > ROUND));
    }
}

/// The dealer of such letters keeps its secret, too: who lacks it has the sums of the rounds before
/// and no other.
fn keeps_its_key<'a>(hand: &'a Hand<'a>) -> impl FnMut(&Sending<'_>) -> Sent + 'a {
    |sending: &Sending<'_>| {
        hand.note(sending);
        match hand.is_key(sending) && sending.from == hand.liar {
            true => Sent::Later(vec![]),
            false => hand.other_log(sending, garble),
        }
    }
}

fn stopped_before_the_round(report: &Report, who: Party) -> bool {
    let ended = ended(report);
    let (.., gossip) = ended.iter().find(|(it, ..)| *it == who).expect("it ended");
    gossip.rounds == ROUND - 1 && gossip.stopped.is_some()
}

#[test]
fn a_secret_that_nobody_has_ends_the_stream_for_all_and_one_that_comes_late_goes_to_one_at_most() {
    let plan = circles(GRAPHS[0], "");
    let (liar, seed) = (3, 8);
    let hand = Hand::of(&plan, liar);
    let report = play(&plan, (seed, liar), keeps_its_key(&hand), |_| {});
    assert_eq!(closed(&report, ROUND), [(0..PARTIES).collect()].into());
    for who in all_but(liar) {
        assert!(stopped_before_the_round(&report, who), "{who}");
    }
    // The last to give up gets it a moment before: the others have given up already.
    let last = all_but(liar)
        .into_iter()
        .max_by_key(|&who| report.finished_at[who]);
    let last = last.expect("others");
    let ends = report.finished_at[last].expect("it ended");
    let at = Time::from_nanos(ends.as_nanos() - 1);
    let late = |simulation: &mut Simulation<'_>| {
        let frame = Bytes::from_owner(hand.key(seed));
        let input = Input::Public { from: liar, frame };
        simulation.schedule(at, Occurrence::Input { party: last, input });
    };
    let report = play(&plan, (seed, liar), keeps_its_key(&hand), late);
    let ended = ended(&report);
    for &(who, outcome, gossip) in ended.iter().filter(|(who, ..)| *who != liar) {
        if who == last {
            // It has read the round's sum, and there is nobody for another one.
            assert_eq!(
                (gossip.rounds, gossip.spent),
                (ROUND, ROUND + 1),
                "{:?}",
                gossip.stopped
            );
            assert_eq!(outcome.ending, Ending::Degraded);
        } else {
            assert!(stopped_before_the_round(&report, who), "{who}");
        }
    }
    assert_eq!(closed(&report, ROUND + 1), BTreeSet::new());
}

/// Simulates a liar whose vector for one reader brings that reader's sum to `target`, in units of
/// 2^-16 of a step.
fn shifted_to(plan: &Arc<Plan>, target: i128, of: &[i128; 2]) -> Report {
    let (liar, reader, seed) = (3, 0, 4);
    let shift: Vec<i128> = vec![target.wrapping_sub(of[0]), 0];
    let mut simulation = simulation(plan, Conditions::new(seed));
    simulation.liar = Some(liar);
    simulation.wire = Some(Box::new(move |sending| match wire::read_private(sending.frame) {
        Ok(PrivateFrame::Sealed {
            digest, id, values, ..
        }) if sending.network == Network::Private && (id.round, id.from, id.to) == (ROUND, liar, reader) => {
            let ring = plan.circle_ring().expect("circles");
            let mut vector =
                ResidueVector::from_bytes(ring, 2, &sending.frame[values]).expect("a good vector");
            vector.add(&ResidueVector::of(ring, shift.iter().copied()));
            Sent::Replaced(wire::sealed_frame(&digest, id, &vector.to_bytes()))
        }
        _ => Sent::AsItIs,
    }));
    simulation.run()
}

#[test]
fn a_sum_at_its_bound_is_taken_and_one_beyond_it_or_at_the_rings_edge_stops_its_reader() {
    let plan = circles(GRAPHS[0], "");
    let mut calm = simulation(&plan, Conditions::new(4));
    calm.play();
    let opened = calm.opened_circles();
    let states = &opened.states[ROUND as usize - 1];
    let terms = |of: std::ops::Range<Party>| {
        let terms = of.map(|author| calm.vector_of(ROUND, (author, 0), &states[author]));
        terms.fold([0, 0], |sum, term| {
            let term = term.expect("all brought theirs");
            [sum[0] + term[0], sum[1] + term[1]]
        })
    };
    let (all, of_others) = (terms(0..PARTIES), terms(1..PARTIES));
    let most = plan.lattice().circle_bound(ROUND);
    for target in [most, -most] {
        let report = shifted_to(&plan, target, &all);
        let ended = ended(&report);
        assert!(ended[0].2.rounds >= ROUND, "{:?}", ended[0].2.stopped);
        // What it takes is what came, not what would be near.
        let state = (target + (1 << 15)).div_euclid(1 << 16);
        let step = plan.lattice().step();
        let row = ended[0].2.estimates[2];
        let expected = ended[0].2.estimates[0] + step * (state as f64 - states[0][0] as f64);
        assert_eq!(row, expected, "{target}");
    }
    let half = 1i128 << (8 * plan.circle_ring().expect("circles").width() - 1);
    let beyond = [
        (most + 1, all),
        (-most - 1, all),
        (half - 1, of_others),
        (-half, of_others),
    ];
    for (target, of) in beyond {
        let report = shifted_to(&plan, target, &of);
        assert_eq!(report.violations, [], "{target}");
        let ended = ended(&report);
        assert_eq!(
            (ended[0].2.rounds, ended[0].2.spent),
            (ROUND - 1, ROUND),
            "{target}"
        );
        let reason = ended[0].2.stopped.as_deref().unwrap_or_default();
        assert!(
            reason.contains("further out than values and noise can be"),
            "{reason}"
        );
        // It counts as departed from the next round on, and the others have it in this one.
        go_on_without(&report, 0, ROUND + 1);
    }
}
