//! What a hostile member of a run with `dissemination = "consensus"` does so that two honest nodes
//! hold different means and both call them agreed: lies that no neighbour can see alone, and false
//! claims when results are compared. At the level of the machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::averaging::integers;
use undertone_protocol::averaging::sketch::{MOST_SKETCHES, SUMS, Seed};
use undertone_protocol::messages::notice::{Form, Notice, Recipient, Round, Sketch};
use undertone_protocol::messages::signing::Signer;
use undertone_protocol::messages::wire;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::simulated_keypair;
use undertone_protocol::run::interface::Output;
use undertone_protocol::run::outcome::Ending;
use undertone_protocol::simulator::invariants::mass;
use undertone_protocol::topology::party::Party;
use undertone_tests::simulated::others;
use undertone_tests::table::hostile::{
    DIMENSION, FAR, OTHER, PARTIES, VICTIM, fell_back, is_of_result, last_round, lies, once, ring, said,
    says, sends, sends_round, signer_of, star, to, unseen_lie, victim_averages,
};
use undertone_tests::table::{HOSTILE, Slip, Table, Turn};

fn sums(number: u8, unheard: Vec<Party>, sum: i64) -> Notice {
    Notice::Sums {
        number,
        unheard,
        sketch: Box::new(Sketch {
            seed: [5; 16],
            sums: [sum; SUMS],
        }),
    }
}

/// Signs for the hostile member of any plan.
fn signer_in(plan: &Plan) -> Signer {
    Signer::new(HOSTILE, *plan.digest(), simulated_keypair(HOSTILE), 1 << 40)
}

fn says_result(output: &Output) -> bool {
    says(output).is_some_and(|(_, notice)| is_of_result(&notice))
}

/// One that says that it holds another mean, or holds one for two: the others hold theirs by
/// quorum.
#[test]
fn a_false_claim_of_another_mean_is_told_and_costs_nobody_the_agreement() {
    let (mut table, mut signer) = (Table::new(&ring()), signer_of(HOSTILE));
    let claims = [
        Notice::Averaged { whole: true },
        sums(0, vec![], 0),
        sums(0, vec![], 1),
        sums(0, vec![VICTIM], i64::MIN),
        Notice::Averaged { whole: false },
        sums(MOST_SKETCHES, vec![], 0),
        sums(1, vec![PARTIES], 0),
    ];
    let lies = claims.map(|notice| wire::notice_frame(&signer.sign(Recipient::All, notice).expect("signs")));
    let mut slip = once(
        victim_averages,
        lies.iter().map(|frame| to(VICTIM, frame.clone())).collect(),
    );
    table.play(|party, output| match output {
        Output::Public { .. } if party == HOSTILE && says_result(output) => Turn::instead(vec![]),
        _ => slip(party, output),
    });
    assert_eq!(table.assert_averaged(), (others(&ring(), &[]), PARTIES - 1));
    for (party, outcome) in table.honest() {
        assert!(
            outcome
                .accuracy
                .is_some_and(|accuracy| accuracy.steps.is_finite())
        );
        assert_eq!(
            table
                .faults
                .iter()
                .filter(|(by, text)| *by == party && text.contains("another mean"))
                .count(),
            1
        );
    }
    let told = |word: &str| {
        table
            .told_by(VICTIM)
            .iter()
            .filter(|(_, text)| text.contains(word))
            .count()
    };
    assert_eq!(
        (told("two different notices"), told("malformed")),
        (3, 2),
        "{:?}",
        table.told_by(VICTIM)
    );
}

/// One sketch each, which takes all into account; a second one for somebody who says only later
/// that it has ended.
#[test]
fn sums_are_told_once_to_all_and_again_for_whoever_ends_later() {
    for late in [false, true] {
        let (mut table, mut told, mut kept) = (Table::new(&ring()), BTreeMap::new(), vec![]);
        table.play(|party, output| {
            let Some((author, notice)) = says(output) else {
                let ended = party == VICTIM && matches!(output, Output::Finished(_));
                return Turn::slip(if ended { std::mem::take(&mut kept) } else { vec![] });
            };
            if let (Output::Public { to: VICTIM, frame }, true) =
                (output, late && author == HOSTILE && is_of_result(&notice))
            {
                kept.push(to(VICTIM, frame.clone()));
            }
            match notice {
                Notice::Sums { number, unheard, .. } if author == party => {
                    drop(told.insert((party, number), unheard))
                }
                _ => {}
            }
            Turn {
                passes: !(late && party == HOSTILE && says_result(output)),
                slips: vec![],
            }
        });
        assert_eq!(table.assert_averaged(), (others(&ring(), &[]), PARTIES - 1));
        if late {
            // Nor has it passed on what others said. Whom it tells late takes that into account.
            let first = |party: Party| told[&(party, 0)].contains(&HOSTILE) == (party != HOSTILE);
            assert!((0..PARTIES).all(first), "{told:?}");
            assert_eq!(told.get(&(VICTIM, 1)), Some(&vec![]), "{told:?}");
        } else {
            assert_eq!(told, (0..PARTIES).map(|party| ((party, 0), vec![])).collect());
        }
    }
}

/// It holds back its last round from the victim until all others have told their sums, reads their
/// seeds, and then sends a lie that none of them shows.
#[test]
fn a_lie_made_for_the_signs_that_others_have_told_is_seen() {
    let last = last_round(&ring());
    let (mut seen, mut unharmed) = (0, 0);
    for shift in 1..26 {
        let (mut table, mut rng) = (Table::new(&ring()), ChaCha8Rng::seed_from_u64(5));
        let (mut truth, mut seeds) = (None, BTreeMap::new());
        table.play(|party, output| {
            if let Some((VICTIM, round, values)) = sends(output).filter(|_| party == HOSTILE)
                && (round.form, round.round) == (Form::Fast, last)
            {
                truth = Some(values);
                return Turn::instead(vec![]);
            }
            if let Some((author, Notice::Sums { sketch, .. })) =
                says(output).filter(|(author, _)| ![HOSTILE, VICTIM].contains(author))
            {
                seeds.entry(author).or_insert(sketch.seed);
            }
            if seeds.len() < PARTIES - 2 {
                return Turn::none();
            }
            let Some(truth) = truth.take() else {
                return Turn::none();
            };
            let seeds: Vec<Seed> = seeds.values().copied().collect();
            let size = ((8 * truth.len() / DIMENSION - 1) as f64 - f64::from(shift)).exp2();
            let lie = unseen_lie(&seeds, &truth, size, &mut rng);
            Turn::slip(vec![to(VICTIM, said(Form::Fast, last, 0, 0.0, &lie))])
        });
        assert!(
            seeds.len() == PARTIES - 2 && truth.is_none(),
            "shift {shift}: the victim is not waited for"
        );
        table.assert_no_claim_is_false();
        assert!(
            table.agreed_apart() <= 2.0,
            "shift {shift}: they agree, {} ν apart",
            table.agreed_apart()
        );
        let agreed: Vec<Party> = table
            .honest()
            .filter(|(_, outcome)| outcome.agreed)
            .map(|(party, _)| party)
            .collect();
        match agreed.len() {
            count if count == PARTIES - 1 => unharmed += 1,
            count if count == PARTIES - 2 => seen += usize::from(!agreed.contains(&VICTIM)),
            _ => panic!("shift {shift}: {agreed:?} agree"),
        }
    }
    println!("seen: {seen}, unharmed: {unharmed}");
    assert!(seen > 5 && unharmed > 0, "seen: {seen}, unharmed: {unharmed}");
}

/// The victim has a wrong mean of the fast form when all others fall back to the right one.
#[test]
fn a_mean_of_the_fast_form_is_compared_itself_also_once_others_fall_back() {
    let last = last_round(&ring());
    let missed = wire::notice_frame(
        &signer_of(HOSTILE)
            .sign(Recipient::All, Notice::Missed)
            .expect("signs"),
    );
    let (mut seen, mut unharmed) = (0, 0);
    for shift in 1..26 {
        let (mut table, mut lied, mut called) = (Table::new(&ring()), false, false);
        table.play(|party, output| match sends(output) {
            // So the other neighbour's fast form ends here.
            Some((OTHER, round, _)) if party == HOSTILE && (round.form, round.round) == (Form::Fast, 0) => {
                Turn::instead(vec![])
            }
            Some((_, round, values))
                if party == VICTIM && (round.form, round.round) == (Form::Fast, last) && !lied =>
            {
                lied = true;
                let (width, mut lie) = (values.len() / DIMENSION, vec![0; values.len()]);
                let size = 1i128 << (8 * width as u32 - 1).saturating_sub(shift);
                assert!(integers::write(
                    [size - 1; DIMENSION].into_iter(),
                    width,
                    &mut lie
                ));
                Turn::slip(vec![to(VICTIM, said(Form::Fast, last, 0, 0.0, &lie))])
            }
            _ if matches!(says(output), Some((VICTIM, Notice::Averaged { .. })))
                && !std::mem::replace(&mut called, true) =>
            {
                Turn::slip(vec![to(VICTIM, missed.clone()), to(OTHER, missed.clone())])
            }
            _ => Turn::none(),
        });
        assert!(lied && called && fell_back(&table));
        table.assert_no_claim_is_false();
        assert!(
            table.agreed_apart() <= 2.0,
            "shift {shift}: they agree, {} ν apart",
            table.agreed_apart()
        );
        let sum = |party: Party| {
            table.outcomes[party]
                .as_ref()
                .and_then(|outcome| outcome.sum.clone())
                .expect("a mean")
        };
        let same = mass::largest_difference(&sum(VICTIM).value, &sum(FAR).value) < 1.0;
        let agreed = table.honest().filter(|(_, outcome)| outcome.agreed).count();
        let victim = table
            .honest()
            .any(|(party, outcome)| party == VICTIM && outcome.agreed);
        assert!(agreed >= PARTIES - 2, "shift {shift}: the others hold one mean");
        // A lie that is found out at once has the victim fall back like all.
        if victim {
            unharmed += 1
        } else {
            seen += usize::from(!same)
        }
    }
    println!("seen: {seen}, unharmed: {unharmed}");
    assert!(seen > 3 && unharmed > 0, "seen: {seen}, unharmed: {unharmed}");
}

/// Lies within every bound: what it tells one neighbour is not what it tells the other. On a ring
/// of which it is a part no honest node can see that from where it stands, and two of them end with
/// different means.
#[test]
fn a_lie_that_no_node_can_see_alone_is_seen_when_they_compare() {
    for number in [1, 2] {
        let mut table = Table::new(&ring());
        lies(&mut table, Form::Fast, number, |peer, _, values| {
            let width = values.len() / DIMENSION;
            let sign = if peer == VICTIM { -1 } else { 1 };
            let mut lie = vec![0; values.len()];
            assert!(integers::write(
                integers::read(&values, width).map(|x| sign * x),
                width,
                &mut lie
            ));
            lie
        });
        assert!(!fell_back(&table), "nobody is told anything");
        assert!(table.told_by(VICTIM).is_empty());
        table.assert_no_claim_is_false();
        let different = table.honest().any(|(_, outcome)| !outcome.agreed);
        assert!(different, "round {number}: all hold one mean");
        for (party, outcome) in table.honest().filter(|(_, outcome)| !outcome.agreed) {
            assert_eq!(outcome.ending, Ending::Degraded);
            assert!(
                outcome
                    .accuracy
                    .is_none_or(|accuracy| accuracy.standard_errors.is_infinite()),
                "party {party}: {outcome:?}"
            );
            assert!(
                table
                    .faults
                    .iter()
                    .any(|(by, text)| *by == party && text.contains("another mean")),
                "{:?}",
                table.faults
            );
        }
    }
}

/// The only neighbour of all tells each that everybody holds just what it holds itself, and may
/// keep from them what the others say.
#[test]
fn a_star_whose_centre_lies_agrees_on_nothing() {
    for passes_on in [true, false] {
        let plan = star();
        let mut table = Table::new(&plan);
        let mut signer = signer_in(&plan);
        let missed = wire::notice_frame(&signer.sign(Recipient::All, Notice::Missed).expect("signs"));
        let mut called = false;
        table.play(|party, output| {
            let mut turn = Turn::none();
            if party == HOSTILE {
                let hidden = says_result(output) && !passes_on;
                turn.passes = !hidden
                    && sends(output).is_none_or(|(_, round, _)| round.form == Form::Fast && round.round == 0);
                return turn;
            }
            // With the first change that anybody tells it: all fall back.
            if sends_round(output, Form::Fast, 1) && !std::mem::replace(&mut called, true) {
                turn.slips = (0..PARTIES)
                    .filter(|party| *party != HOSTILE)
                    .map(|party| to(party, missed.clone()))
                    .collect();
            }
            if let Some((_, round, values)) = sends(output).filter(|(_, round, _)| round.form == Form::Ratio)
            {
                let echo = signer
                    .round(Form::Ratio, round.round, round.view, 0.0, &values)
                    .expect("signs");
                turn.slips.push(to(party, wire::round_frame(&echo, &values)));
            }
            turn
        });
        assert!(called);
        let ends: Vec<_> = table
            .honest()
            .map(|(_, outcome)| (outcome.agreed, outcome.sum.is_some()))
            .collect();
        assert!(
            ends.iter().all(|end| *end == (false, true)),
            "passes on {passes_on}: {ends:?}"
        );
        table.assert_no_claim_is_false();
        let told = table
            .faults
            .iter()
            .filter(|(by, text)| *by != HOSTILE && text.contains("another mean"))
            .count();
        assert_eq!(told > 0, passes_on, "{:?}", table.faults);
    }
}

/// A member that signs anything, at any time, beside, in place of or instead of what it should say.
struct Malice {
    rng: ChaCha8Rng,
    signer: Signer,
    neighbours: Vec<Party>,
    /// How often it says something of its own beside what is said.
    rate: f64,
    /// How often it leaves out a round that it should send.
    drops: f64,
    /// How many frames of its own it still has.
    budget: usize,
    /// Whether it will keep its last round from the victim.
    holds_back: bool,
    /// What it kept: the round's view and values.
    kept: Option<(u64, Vec<u8>)>,
    /// Whether it will have all fall back once the victim has ended.
    calls: bool,
    /// The number of the last round.
    last: u32,
    /// How many seeds of sketches it reads before it lies.
    heard: usize,
    seeds: Vec<Seed>,
}

impl Malice {
    fn new(plan: &Plan, seed: u64, last: u32) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        Malice {
            signer: signer_in(plan),
            neighbours: plan.draft().public_graph.neighbours(HOSTILE).to_vec(),
            rate: [0.002, 0.02, 0.1][seed as usize % 3],
            drops: [0.0, 0.02, 0.3][seed as usize / 3 % 3],
            budget: 3000,
            holds_back: seed.is_multiple_of(2),
            kept: None,
            calls: seed % 8 < 4,
            last,
            heard: rng.random_range(0..PARTIES),
            seeds: vec![],
            rng,
        }
    }

    fn turn(&mut self, party: Party, output: &Output) -> Turn {
        let averages = sends(output);
        let passes = !(party == HOSTILE && averages.is_some() && self.rng.random_bool(self.drops));
        let mut slips = vec![];
        match (says(output), &averages) {
            (Some((author, Notice::Sums { sketch, .. })), _) if author == party && party != HOSTILE => {
                self.seeds.push(sketch.seed)
            }
            (Some((VICTIM, Notice::Averaged { .. })), _)
                if party == VICTIM && std::mem::take(&mut self.calls) =>
            {
                let missed = self.notice(Recipient::All, Notice::Missed);
                slips.extend(self.neighbours.iter().map(|peer| to(*peer, missed.clone())));
            }
            (_, Some((VICTIM, said, values)))
                if party == HOSTILE && sends_round(output, Form::Fast, self.last) && self.holds_back =>
            {
                (self.holds_back, self.kept) = (false, Some((said.view, values.clone())));
                return Turn::instead(vec![]);
            }
            _ => {}
        }
        self.seeds.dedup();
        slips.extend(self.lie());
        while self.budget > 0 && self.rng.random_bool(self.rate) {
            self.budget -= 1;
            let peer = self.neighbours[self.rng.random_range(0..self.neighbours.len())];
            let frame = self.anything(peer, averages.as_ref());
            slips.extend(frame.map(|frame| to(peer, frame)));
        }
        Turn { passes, slips }
    }

    /// In place of the round that it kept, once it has read enough: a lie that none of these sums
    /// show.
    fn lie(&mut self) -> Option<Slip> {
        let (view, values) = self.kept.take_if(|_| self.seeds.len() >= self.heard)?;
        let size = (self.rng.random_range(0..8 * values.len() / DIMENSION) as f64).exp2();
        let lie = unseen_lie(&self.seeds, &values, size, &mut self.rng);
        let round = self.signer.round(Form::Fast, self.last, view, 0.0, &lie);
        Some(to(VICTIM, wire::round_frame(&round.expect("signs"), &lie)))
    }

    fn notice(&mut self, recipient: Recipient, notice: Notice) -> Arc<[u8]> {
        wire::notice_frame(&self.signer.sign(recipient, notice).expect("signs"))
    }

    /// A frame of its own, or none; `averages`: the round that is being sent.
    fn anything(&mut self, peer: Party, averages: Option<&(Party, Round, Vec<u8>)>) -> Option<Arc<[u8]>> {
        Some(match (self.rng.random_range(0..9), averages) {
            (0, _) => self.notice(Recipient::All, Notice::Missed),
            (1, _) => {
                let cut = Notice::Severed {
                    party: self.rng.random_range(0..PARTIES),
                    held: self.rng.random_bool(0.5),
                };
                self.notice(Recipient::All, cut)
            }
            (2, _) => self.notice(Recipient::Party(peer), Notice::Waiting),
            (3, _) if self.rng.random_bool(0.2) => {
                let rng = &mut self.rng;
                let unheard = (0..PARTIES).filter(|_| rng.random_bool(0.2)).collect();
                let claim = sums(rng.random_range(0..5), unheard, rng.random());
                let end = Notice::Averaged {
                    whole: rng.random_bool(0.8),
                };
                let claim = if rng.random_bool(0.5) { claim } else { end };
                self.notice(Recipient::All, claim)
            }
            (_, Some((_, said, values))) => self.another_round(said, values.clone()),
            _ => return None,
        })
    }

    /// A round with other values, another number, form or spread.
    fn another_round(&mut self, said: &Round, mut values: Vec<u8>) -> Arc<[u8]> {
        let rng = &mut self.rng;
        match rng.random_range(0..4) {
            0 => values.iter_mut().for_each(|x| *x = rng.random_range(0..=255)),
            1 => values.truncate(rng.random_range(0..=values.len())),
            2 => values[rng.random_range(0..DIMENSION)] ^= 1,
            _ => {}
        }
        let number = said
            .round
            .wrapping_add(rng.random_range(0..3))
            .wrapping_sub(rng.random_range(0..3));
        let form = if rng.random_bool(0.5) {
            said.form
        } else {
            [Form::Fast, Form::Ratio][rng.random_range(0..2)]
        };
        let spread = if rng.random_bool(0.5) {
            said.spread
        } else {
            f64::from_bits(rng.random())
        };
        let round = self.signer.round(form, number, said.view, spread, &values);
        wire::round_frame(&round.expect("signs"), &values)
    }
}

/// In half of the runs the member also keeps its last round from the victim, then sends a lie that
/// no sums show which it has read so far, and has all fall back once the victim has ended.
#[test]
fn random_malice_ends_every_run_without_a_false_claim() {
    let last = [last_round(&ring()), last_round(&star())];
    let ends_of = |seed: u64| {
        let plan = if seed % 4 == 3 { star() } else { ring() };
        let mut malice = Malice::new(&plan, seed, last[usize::from(seed % 4 == 3)]);
        let mut table = Table::new(&plan);
        table.play(|party, output| malice.turn(party, output));
        table.assert_no_claim_is_false();
        let honest = table.honest().map(|(_, outcome)| outcome);
        let end = honest.map(|it| (it.agreed, it.sum.is_some(), it.included.len()));
        end.collect::<Vec<_>>()
    };
    let mut ends = BTreeMap::new();
    std::thread::scope(|threads| {
        let begin = |seed: u64| {
            let named = std::thread::Builder::new().name(format!("seed {seed}"));
            named
                .spawn_scoped(threads, move || ends_of(seed))
                .expect("a thread")
        };
        let runs: Vec<_> = (0..16).map(begin).collect();
        for run in runs {
            for end in run.join().expect("no claim is false") {
                *ends.entry(end).or_insert(0) += 1;
            }
        }
    });
    println!("{ends:?}");
    assert!(
        ends.len() >= 3,
        "it is a test only if runs end in several ways: {ends:?}"
    );
}
