//! What a hostile member sends to another one, at the level of the machines: each is ignored and told, and the run goes on to the exact result.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use libp2p_identity::Keypair;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use undertone_protocol::lattice::{LatticeVector, LatticeWeight};
use undertone_protocol::log::ShareId;
use undertone_protocol::message::{Network, Notice, Recipient, SignedNotice, Signer, Stage};
use undertone_protocol::mixing::Party;
use undertone_protocol::noise::LatticeNoise;
use undertone_protocol::payload::Payload;
use undertone_protocol::peers::simulated_keypair;
use undertone_protocol::plan::Plan;
use undertone_protocol::run::{Ending, Event, Identity, Input, Outcome, Output, Run};
use undertone_protocol::time::Time;
use undertone_protocol::wire::{self, Bytes};
use undertone_tests::simulated::{on_lattice, others, plan, real_gate};

const PARTIES: usize = 4;
const VICTIM: Party = 0;
const HOSTILE: Party = 3;

fn four() -> Arc<Plan> {
    plan(PARTIES, 3, "[mechanism]\nrounds = 4")
}

/// Four machines that hear each other at once, and what somebody slips in when the victim's first round begins.
struct Table {
    runs: Vec<Run>,
    noised: Vec<LatticeVector>,
    plan: Arc<Plan>,
    outcomes: Vec<Option<Outcome>>,
    /// Told by the victim: of whom, what.
    offences: Vec<(Party, String)>,
    /// Frames that the victim sent.
    sent: usize,
    now: Time,
}

impl Table {
    fn new(plan: &Arc<Plan>) -> Self {
        let mut table = Table {
            runs: vec![],
            noised: vec![],
            plan: plan.clone(),
            outcomes: vec![None; PARTIES],
            offences: vec![],
            sent: 0,
            now: Time::ZERO,
        };
        for (party, mut value) in on_lattice(plan).into_iter().enumerate() {
            let calibration = plan.calibration();
            let rng = ChaCha8Rng::seed_from_u64(party as u64);
            let mut noise = LatticeNoise::new(rng, *plan.lattice(), plan.draft().dimension(), calibration.correlated_std);
            noise.add_independent(calibration.independent_std, &mut value);
            let identity = Identity {
                party,
                key: simulated_keypair(party),
                incarnation: [party as u8; 16],
                nonce: [party as u8; 32],
                epoch: 0,
            };
            table.noised.push(value.clone());
            table.runs.push(Run::new(plan.clone(), identity, value, Box::new(noise), Time::ZERO));
        }
        table
    }

    fn feed(&mut self, party: Party, input: Input) {
        self.runs[party].handle(self.now, input).expect("the table asks for nothing that it should not");
    }

    /// Runs to the end; `slip` gives the frames that reach the victim from the hostile member right when its first round begins.
    fn play(&mut self, mut slip: impl FnMut() -> Vec<(Network, Arc<[u8]>)>) {
        for party in 0..PARTIES {
            for peer in (0..PARTIES).filter(|&peer| peer != party) {
                for network in [Network::Private, Network::Public] {
                    self.feed(party, Input::Connected { network, peer });
                }
            }
        }
        let mut wakes = [Time::FAR; PARTIES];
        while self.outcomes.iter().any(Option::is_none) {
            let mut idle = true;
            for (party, wake) in wakes.iter_mut().enumerate() {
                let mut outputs = VecDeque::new();
                loop {
                    match self.runs[party].poll_output() {
                        Output::Wait { until } => break *wake = until,
                        output => outputs.push_back(output),
                    }
                }
                for output in outputs {
                    idle = false;
                    if party == VICTIM && matches!(output, Output::Event(Event::Round(1))) {
                        for (network, frame) in slip() {
                            self.deliver(network, HOSTILE, VICTIM, frame);
                        }
                    }
                    self.carry_out(party, output);
                }
            }
            if idle {
                self.now = wakes.into_iter().min().expect("four of them");
                assert!(self.now < Time::FAR, "everybody waits for ever");
                (0..PARTIES).for_each(|party| self.feed(party, Input::Tick));
            }
        }
    }

    fn deliver(&mut self, network: Network, from: Party, to: Party, frame: Arc<[u8]>) {
        let frame = Bytes::from_owner(frame);
        self.feed(
            to,
            match network {
                Network::Public => Input::Public { from, frame },
                Network::Private => Input::Private { from, frame },
            },
        );
    }

    fn carry_out(&mut self, party: Party, output: Output) {
        self.sent += usize::from(party == VICTIM && matches!(output, Output::Public { .. } | Output::Private { .. }));
        match output {
            Output::Public { to, frame } => self.deliver(Network::Public, party, to, frame),
            Output::Private { to, frame, ticket } => {
                let leaves = ticket.is_none_or(|ticket| ticket.take());
                assert!(leaves, "nothing is slow here, so nothing is recalled");
                self.deliver(Network::Private, party, to, frame);
                self.feed(party, Input::Left);
            }
            Output::Spend => self.feed(party, Input::Spent(Ok(()))),
            Output::Audit(logs) => {
                let verdict = real_gate(&self.plan, &logs);
                self.feed(party, Input::Verdict(verdict));
            }
            Output::Event(Event::Offence { peer, text }) if party == VICTIM => self.offences.push((peer, text)),
            Output::Finished(outcome) => self.outcomes[party] = Some(*outcome),
            _ => {}
        }
    }

    /// Everybody holds the exact sum over all four.
    #[track_caller]
    fn assert_undisturbed(&self) {
        let everybody: BTreeSet<Party> = others(&self.plan, &[]);
        let exact = self.noised.iter().cloned().reduce(|mut sum, value| {
            sum.add(&value);
            sum
        });
        for outcome in self.outcomes.iter().flatten() {
            assert_eq!((&outcome.ending, outcome.agreed, &outcome.included), (&Ending::Done, true, &everybody));
            assert!(outcome.sum.as_ref().map(|sum| &sum.value) == exact.as_ref(), "another sum");
        }
    }
}

/// What comes of these frames: the run is undisturbed; the offences that the victim tells of the hostile member.
#[track_caller]
fn told_of(plan: &Arc<Plan>, frames: Vec<(Network, Arc<[u8]>)>) -> Vec<String> {
    let mut table = Table::new(plan);
    let mut frames = Some(frames);
    table.play(|| frames.take().unwrap_or_default());
    assert!(frames.is_none(), "they were slipped in");
    table.assert_undisturbed();
    assert!(table.offences.iter().all(|(peer, _)| *peer == HOSTILE), "{:?}", table.offences);
    table.offences.into_iter().map(|(_, text)| text).collect()
}

fn call_gone() -> Notice {
    Notice::Gone { stage: Stage::Settling, party: 1 }
}

fn sign(party: Party, digest: [u8; 32], key: Keypair, notice: Notice) -> SignedNotice {
    Signer::new(party, digest, key, 1 << 40).sign(Recipient::All, notice).expect("signs")
}

#[test]
fn a_public_message_that_is_not_its_authors_is_told_and_ignored() {
    let plan = four();
    let digest = *plan.digest();
    let mut forged = sign(HOSTILE, digest, simulated_keypair(HOSTILE), call_gone());
    forged.signature.0[7] ^= 1;
    let stranger = Keypair::ed25519_from_bytes([99; 32]).expect("32 bytes");
    let cases = [
        ("its signature", forged),
        // In the name of party 1, with a key that is in no plan.
        ("its signature", sign(1, digest, stranger.clone(), call_gone())),
        // In the name of a party that the plan does not have.
        ("author 9", sign(9, digest, stranger, call_gone())),
        ("belongs to plan", sign(HOSTILE, [0xee; 32], simulated_keypair(HOSTILE), call_gone())),
    ];
    for (word, notice) in cases {
        let told = told_of(&plan, vec![(Network::Public, wire::notice_frame(&notice))]);
        assert!(told.len() == 1 && told[0].contains(word), "{word}: {told:?}");
    }
    assert_eq!(
        told_of(&plan, vec![(Network::Public, [1, 77, 0].into()), (Network::Private, [9].into())]).len(),
        2,
        "no frame at all"
    );
}

#[test]
fn a_replayed_public_message_changes_nothing() {
    let plan = four();
    // The hostile member's own READY of an earlier start, and a newer one, after everybody has signed START; a thousand times.
    let ready = |incarnation| Notice::Ready { incarnation: [incarnation; 16] };
    let newer = wire::notice_frame(&sign(HOSTILE, *plan.digest(), simulated_keypair(HOSTILE), ready(8)));
    let same = wire::notice_frame(
        &Signer::new(HOSTILE, *plan.digest(), simulated_keypair(HOSTILE), 0)
            .sign(Recipient::All, ready(HOSTILE as u8))
            .expect("signs"),
    );
    let mut table = Table::new(&plan);
    table.play(Vec::new);
    let usual = table.sent;
    let mut table = Table::new(&plan);
    let many = (0..1000).map(|i| (Network::Public, if i % 2 == 0 { newer.clone() } else { same.clone() }));
    let mut frames = Some(many.collect());
    table.play(|| frames.take().unwrap_or_default());
    table.assert_undisturbed();
    assert_eq!(table.sent, usual, "nobody is told twice");
    assert_eq!(table.offences, [], "a replay may be anybody's, and costs a look");
}

/// The hostile member's share of a round to the victim, with the coordinates that it should have, or others.
fn share(plan: &Plan, digest: &[u8; 32], round: u32, weight: i128, change: impl Fn(&mut Vec<u8>)) -> Arc<[u8]> {
    let lattice = plan.lattice();
    let mut values = lattice.share_to_bytes(&lattice.zeros(plan.draft().dimension()), 1).expect("zeros fit");
    change(&mut values);
    wire::share_frame(digest, ShareId { round, from: HOSTILE, to: VICTIM }, LatticeWeight(weight), &values)
}

/// Rounds in which the hostile member sends to the victim, and in which it does not.
fn rounds(plan: &Plan) -> (u32, u32) {
    let due = |round: &u32| plan.schedule().sends_to(*round, HOSTILE).contains(&VICTIM);
    let all = 1..=plan.rounds();
    (all.clone().find(due).expect("once in four rounds"), all.clone().find(|round| !due(round)).expect("not always"))
}

#[test]
fn a_share_of_another_run_or_out_of_schedule_is_told_and_ignored() {
    let plan = four();
    let (due, not_due) = rounds(&plan);
    let cases = [
        ("belongs to plan", share(&plan, &[0xee; 32], due, 0, |_| {})),
        ("not due", share(&plan, plan.digest(), not_due, 0, |_| {})),
        ("not due", share(&plan, plan.digest(), 77, 0, |_| {})),
        ("not due", wire::share_frame(plan.digest(), ShareId { round: due, from: 1, to: VICTIM }, LatticeWeight(0), &[0; 9])),
    ];
    for (word, frame) in cases {
        let told = told_of(&plan, vec![(Network::Private, frame)]);
        assert!(told.len() == 1 && told[0].contains(word), "{word}: {told:?}");
    }
}

/// A share that no honest party sends takes the place of the true one: it is refused, and its sender keeps the mass.
#[test]
fn a_share_off_its_grid_too_large_or_too_long_is_refused() {
    let plan = four();
    let (due, _) = rounds(&plan);
    let width = plan.lattice().wire_bytes as usize;
    let grid = plan.lattice().round_grid(due);
    assert!(due < plan.rounds() && grid > 1, "the last round's grid is 1: nothing is off it");
    let off_grid = share(&plan, plan.digest(), due, 0, |values| values[0] = 1);
    let too_large = share(&plan, plan.digest(), due, 0, |values| values[width - 1] = 0x7f);
    let too_long = share(&plan, plan.digest(), due, 0, |values| values.push(0));
    let heavy = share(&plan, plan.digest(), due, i128::MAX - (i128::MAX % grid), |_| {});
    for frame in [off_grid, too_large, too_long, heavy] {
        let told = told_of(&plan, vec![(Network::Private, frame)]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("share of round"), "{told:?}");
    }
}

#[test]
fn a_share_that_comes_twice_counts_once() {
    let plan = four();
    let (due, _) = rounds(&plan);
    // The victim counts this one of nothing, and the true one that follows is a second share under one id.
    let first = share(&plan, plan.digest(), due, 0, |_| {});
    let mut table = Table::new(&plan);
    let mut frames = Some(vec![(Network::Private, first.clone()), (Network::Private, first)]);
    table.play(|| frames.take().unwrap_or_default());
    // Its sender's machine deducted more than the victim added: that mass is lost to the sum, and to nobody's privacy.
    let sums: Vec<_> = table.outcomes.iter().flatten().map(|outcome| outcome.sum.as_ref().map(|sum| sum.value.clone())).collect();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "one result");
    assert!(sums[0].is_some());
}

/// Everything that a member can sign, again and again, and replays at full speed.
#[test]
fn a_flood_of_valid_frames_is_survived_and_not_amplified() {
    let plan = four();
    let mut signer = Signer::new(HOSTILE, *plan.digest(), simulated_keypair(HOSTILE), 1 << 40);
    let mut frames = vec![];
    for turn in 0..400u64 {
        let hash = [turn as u8; 32];
        let mut all = vec![Notice::Ready { incarnation: [turn as u8; 16] }];
        for stage in Stage::ALL {
            all.extend([Notice::List { stage, set: vec![(1, hash)] }, Notice::Gone { stage, party: turn as usize % PARTIES }]);
        }
        frames.extend(all.into_iter().map(|notice| signer.sign(Recipient::All, notice).expect("signs")));
        let to_victim = Recipient::Party(VICTIM);
        frames.push(signer.sign(to_victim, Notice::Call).expect("signs"));
    }
    let frames: Vec<_> = frames.iter().map(|signed| (Network::Public, wire::notice_frame(signed))).collect();
    let count = 2 * frames.len();
    let mut frames = Some([frames.clone(), frames].concat());
    let mut calm = Table::new(&plan);
    calm.play(Vec::new);
    let mut table = Table::new(&plan);
    table.play(|| frames.take().unwrap_or_default());
    table.assert_undisturbed();
    assert!(
        table.offences.iter().any(|(peer, text)| *peer == HOSTILE && text.contains("two different")),
        "{:?}",
        table.offences.first()
    );
    // Calls are answered 64 times with what is held (8 notices), one of each slot is passed on to two others.
    let extra = table.sent.saturating_sub(calm.sent);
    println!("{count} hostile frames made the victim send {extra} more than the usual {}", calm.sent);
    assert!(extra <= 64 * 2 * PARTIES + 3 * 20, "{extra}");
}
