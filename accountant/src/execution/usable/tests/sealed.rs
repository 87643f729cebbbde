//! Finals that are sealed, corrected while they are sealed, and opened for one set: what a
//! coalition and the departed are revealed, by ranks modulo a prime. Random executions go through
//! the mixing machine, their logs through the corrections that every node computes. What is under
//! its own mask is uniformly random and no row of a view: letters, shares of secrets and bodies
//! tell nothing here.

use undertone_protocol::lattice::residue::Sign;
use undertone_protocol::messages::log::{AgreedLogs, Log, ReceivedEntry, SentEntry, ShareId};
use undertone_protocol::publishing::corrections::{CorrectionTerm, first_corrections, next_corrections};

use super::*;
use crate::execution::share::ShareFault;
use crate::execution::trace::Trace;

/// 2^31 − 1, a prime that divides 2^32 − 1, and one that divides 2^24 − 1.
const FIELDS: [i128; 3] = [(1 << 31) - 1, 65_537, 241];

/// Random executions of each mechanism.
const CASES: u64 = 600;

/// When somebody leaves a run whose finals are sealed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// After this round of mixing: it has no log.
    Mixing(u32),
    /// Its log is agreed on, and the gate lets it publish nothing.
    Gate,
    /// In this stage of corrections, from 0, if it comes to that.
    Stage(usize),
}

/// A random run up to its opening.
struct SealedRun {
    /// The events of mixing. A share that left and that its receiver does not list is lost, so a
    /// final state is the one its party has sealed.
    execution: Execution,
    trace: Trace,
    logs: AgreedLogs,
    /// The parties that may publish, and those left of them after each stage of corrections.
    sets: Vec<BTreeSet<Party>>,
    /// All corrections that anybody gave, those of parties among them that departed meanwhile.
    given: Vec<(Party, Vec<CorrectionTerm>)>,
    /// The coalition, and most of those who left.
    adversary: BTreeSet<Party>,
    /// Whether the adversary has read all shares that joined nobody.
    overheard: bool,
}

/// Returns the receivers of each party: in each round a cycle through all parties, from which with
/// PPSC some senders drop out.
fn cycles(parties: usize, rounds: usize, ppsc: bool, random: &mut ChaCha8Rng) -> Vec<Vec<Vec<Party>>> {
    let mut round = || {
        let mut order: Vec<Party> = (0..parties).collect();
        testing::shuffle(&mut order, random);
        let mut out = vec![vec![]; parties];
        for (place, &from) in order.iter().enumerate() {
            if !ppsc || random.random_bool(0.8) {
                out[from].push(order[(place + 1) % parties]);
            }
        }
        out
    };
    (0..rounds).map(|_| round()).collect()
}

/// Shares that are late, lost, or never leave, a `trouble` of all.
fn fates(run: &Execution, trouble: f64, random: &mut ChaCha8Rng) -> Vec<ShareFault> {
    let rounds = run.rounds() as u32;
    let mut faults = vec![];
    for (round, from) in (1..=rounds).flat_map(|round| (0..run.parties()).map(move |from| (round, from))) {
        for &to in run.out(round, from).iter().filter(|_| run.online(round, from)) {
            if !random.random_bool(trouble) {
                continue;
            }
            let later: Vec<u32> = (round + 1..=rounds).filter(|&it| run.online(it, to)).collect();
            let (fate, applied) = match random.random_range(0..3) {
                0 if !later.is_empty() => (Fate::Accepted, Some(later[random.random_range(0..later.len())])),
                1 => (Fate::Returned, Some(round)),
                _ => (Fate::Lost, None),
            };
            let seen = fate != Fate::Returned;
            faults.push(ShareFault {
                round,
                from,
                to,
                fate,
                applied,
                seen,
            });
        }
    }
    faults
}

/// All shares that were due from parties that were there, with what became of them.
fn shares(run: &Execution) -> impl Iterator<Item = (ShareId, Fate, u32)> {
    let rounds = 1..=run.rounds() as u32;
    let senders = rounds.flat_map(move |round| (0..run.parties()).map(move |from| (round, from)));
    let online = senders.filter(|&(round, from)| run.online(round, from));
    online.flat_map(move |(round, from)| {
        run.out(round, from).iter().map(move |&to| {
            let outcome = run.outcome(round, from, to);
            (ShareId { round, from, to }, outcome.fate, outcome.applied)
        })
    })
}

/// Returns the log of `party`'s shares.
fn log(run: &Execution, party: Party) -> Log {
    let of = |own: fn(&ShareId) -> Party| shares(run).filter(move |(id, ..)| own(id) == party);
    let sent = of(|id| id.from).map(|(id, fate, _)| SentEntry {
        round: id.round,
        to: id.to,
        left: fate != Fate::Returned,
        answer: None,
    });
    let received = of(|id| id.to).filter(|(_, fate, _)| *fate == Fate::Accepted);
    Log {
        party,
        sent: sent.collect(),
        received: received
            .map(|(id, _, applied)| ReceivedEntry {
                round: id.round,
                from: id.from,
                applied,
            })
            .collect(),
        ..Log::default()
    }
}

impl SealedRun {
    fn random(case: u64, ppsc: bool) -> Self {
        let random = &mut ChaCha8Rng::seed_from_u64(case);
        let (parties, rounds) = (random.random_range(4..=8), random.random_range(3..=5));
        let out = cycles(parties, rounds, ppsc, random);
        let mechanism = if ppsc {
            Mechanism::Ppsc
        } else {
            value_first(rounds)
        };
        let run = Execution::fault_free(mechanism, out).expect("a run");
        let mut others: Vec<Party> = (0..parties).collect();
        testing::shuffle(&mut others, random);
        let departing = others.split_off(parties - random.random_range(1..=3.min(parties - 2)));
        let colluding = random.random_range(0..=2.min(others.len() - 1));
        let mut adversary: BTreeSet<Party> = others[..colluding].iter().copied().collect();
        adversary.extend(departing.iter().filter(|_| random.random_bool(0.7)));
        let leaving: BTreeMap<Party, Leaving> = departing
            .into_iter()
            .map(|party| match random.random_range(0..6) {
                0 => (party, Leaving::Mixing(random.random_range(0..rounds as u32))),
                1 => (party, Leaving::Gate),
                number => (party, Leaving::Stage(number % 2)),
            })
            .collect();
        let online = |round: usize, party: Party| match leaving.get(&party) {
            Some(Leaving::Mixing(last)) => round <= *last as usize,
            _ => true,
        };
        let row = |round| (0..parties).map(|party| online(round, party)).collect();
        let run = run.with_online((0..=rounds).map(row).collect()).expect("a run");
        let faults = fates(&run, [0.2, 0.5, 0.8][case as usize % 3], random);
        let execution = run.with_shares(faults).expect("an execution");
        let with_log = |party: &Party| !matches!(leaving.get(party), Some(Leaving::Mixing(_)));
        let logs = (0..parties).filter(with_log);
        let mut it = SealedRun {
            trace: Trace::of(&execution, &vec![1.0; parties]),
            logs: logs.map(|party| (party, log(&execution, party))).collect(),
            execution,
            sets: vec![],
            given: vec![],
            adversary,
            overheard: random.random_bool(0.5),
        };
        it.settle(&leaving, random);
        it
    }

    /// Stages of corrections until nobody owes any, or nobody departs.
    fn settle(&mut self, leaving: &BTreeMap<Party, Leaving>, random: &mut ChaCha8Rng) {
        let passed = |party: &Party| leaving.get(party) != Some(&Leaving::Gate);
        let mut set: BTreeSet<Party> = self.logs.keys().copied().filter(passed).collect();
        for stage in 0.. {
            let owed = match self.sets.last() {
                None => first_corrections(&self.logs, &set),
                Some(before) => next_corrections(&self.logs, before, &set),
            };
            let mut remaining = set.clone();
            remaining.retain(|party| leaving.get(party) != Some(&Leaving::Stage(stage)));
            self.sets.push(set);
            if owed.is_empty() {
                break;
            }
            // A correction of somebody who departs may have come to some.
            self.given.extend(
                owed.into_iter()
                    .filter(|(party, _)| remaining.contains(party) || random.random_bool(0.5)),
            );
            if self.sets.last() == Some(&remaining) {
                break;
            }
            set = remaining;
        }
    }

    /// Returns the parties whose finals are opened.
    fn opened(&self) -> &BTreeSet<Party> {
        self.sets.last().expect("who may publish")
    }

    fn is_hidden(&self, party: Party) -> bool {
        !self.adversary.contains(&party)
    }

    fn share(&self, share: ShareId) -> Vec<f64> {
        let state = self.trace.state(share.from, share.round - 1);
        let part = if self.execution.injection().is_some() {
            0.5
        } else {
            1.0
        };
        let state = state.expect("it was sent").iter();
        state.map(|entry| part * entry).collect()
    }

    fn correction(&self, terms: &[CorrectionTerm]) -> Vec<f64> {
        let mut row = vec![0.0; self.trace.unknowns()];
        for term in terms {
            let factor = if term.sign == Sign::Plus { 1.0 } else { -1.0 };
            add(&mut row, factor, &self.share(term.share));
        }
        row
    }

    /// Returns the adversary's view before anything is opened.
    fn sealed_view(&self) -> Vec<Vec<f64>> {
        let seen = |&(id, fate, _): &(ShareId, Fate, u32)| {
            let received = fate != Fate::Returned && !self.is_hidden(id.to);
            received || !self.is_hidden(id.from) || (self.overheard && fate == Fate::Lost)
        };
        let shares = shares(&self.execution)
            .filter(seen)
            .map(|(id, ..)| self.share(id));
        let corrections = self.given.iter().map(|(_, terms)| self.correction(terms));
        shares.chain(corrections).collect()
    }

    /// Returns the adversary's view after the set's finals are opened.
    fn opened_view(&self) -> Vec<Vec<f64>> {
        let finals = self
            .opened()
            .iter()
            .map(|&party| self.trace.final_state(party).to_vec());
        self.sealed_view().into_iter().chain(finals).collect()
    }

    /// Whether these rows tell the sums of these sets, and nothing else, in each of the fields.
    fn rows_tell(&self, rows: &[Vec<f64>], sets: &[Vec<Party>]) -> bool {
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let hidden = (0..self.trace.parties()).filter(|&party| self.is_hidden(party));
        let view = View::from_rows(&rows, hidden.collect(), |party| self.trace.noises(party));
        let halvings = self.trace.rounds() as u32;
        FIELDS
            .into_iter()
            .all(|prime| view_tells(&view, halvings, sets, prime))
    }

    /// Those of the opened set who are hidden, as shares that arrived join them; these do not join
    /// who is `apart`.
    fn pieces(&self, apart: Option<Party>) -> Vec<Vec<Party>> {
        let counts = |party: &Party| self.opened().contains(party) && self.is_hidden(*party);
        let joins = |party: &Party| counts(party) && apart != Some(*party);
        let arrived = shares(&self.execution).filter(|(_, fate, _)| *fate == Fate::Accepted);
        let edges = arrived.map(|(id, ..)| (id.from, id.to));
        let usable = edges.filter(|(from, to)| joins(from) && joins(to));
        let mut pieces = connected(self.trace.parties(), usable);
        pieces.retain(|piece| counts(&piece[0]));
        pieces
    }

    /// The execution that corrections make of this one, as the accountant has it: who is not opened
    /// is taken out, and what was lost between those who are is back with its sender.
    fn settled(&self) -> Execution {
        let opened = |party: &Party| self.opened().contains(party);
        let mut faults = self.execution.shares().to_vec();
        let lost =
            |fault: &&mut ShareFault| fault.fate == Fate::Lost && opened(&fault.from) && opened(&fault.to);
        for fault in faults.iter_mut().filter(lost) {
            fault.fate = Fate::Returned;
            fault.applied = Some(self.trace.rounds() as u32);
        }
        let run = self.execution.clone().with_shares(faults);
        run.and_then(|run| run.with_rolled_back((0..self.trace.parties()).filter(|it| !opened(it))))
            .and_then(|run| run.with_corrupted(self.adversary.clone()))
            .expect("an execution")
    }

    /// Returns the sealed final of each party in the opened set, with all of its corrections. Those
    /// after the first are computed from `later`.
    fn corrected(&self, later: &AgreedLogs) -> BTreeMap<Party, Vec<f64>> {
        let first = first_corrections(&self.logs, &self.sets[0]);
        let next = self
            .sets
            .windows(2)
            .map(|two| next_corrections(later, &two[0], &two[1]));
        let all: Vec<_> = std::iter::once(first).chain(next).collect();
        let row = |&party: &Party| {
            let mut row = self.trace.final_state(party).to_vec();
            for terms in all.iter().filter_map(|each| each.get(&party)) {
                add(&mut row, 1.0, &self.correction(terms));
            }
            (party, row)
        };
        self.opened().iter().map(row).collect()
    }

    /// Whether this adds up to the values of the opened set and nothing else: fractions are exact.
    fn adds_up(&self, corrected: &BTreeMap<Party, Vec<f64>>) -> bool {
        let mut sum = vec![0.0; self.trace.unknowns()];
        corrected.values().for_each(|row| add(&mut sum, 1.0, row));
        let expected = |unknown: usize| {
            if self.opened().contains(&unknown) {
                1.0
            } else {
                0.0
            }
        };
        (0..sum.len()).all(|unknown| sum[unknown] == expected(unknown))
    }
}

fn add(row: &mut [f64], factor: f64, other: &[f64]) {
    row.iter_mut()
        .zip(other)
        .for_each(|(entry, it)| *entry += factor * it);
}

/// All random runs, with a name for what fails.
fn runs() -> impl Iterator<Item = (String, SealedRun)> {
    let kinds = (0..CASES).flat_map(|case| [(case, false), (case, true)]);
    kinds.map(|(case, ppsc)| (format!("case {case}, ppsc {ppsc}"), SealedRun::random(case, ppsc)))
}

#[test]
fn before_opening_nothing_is_revealed_and_after_it_the_sums_of_the_pieces() {
    let (mut stages, mut apart, mut silent) = ([0; 3], 0, 0);
    for (name, run) in runs() {
        assert!(run.rows_tell(&run.sealed_view(), &[]), "{name}: before opening");
        let pieces = run.pieces(None);
        assert!(run.rows_tell(&run.opened_view(), &pieces), "{name}: {pieces:?}");
        let settled = run.settled();
        assert_eq!(revealed(&settled), pieces, "{name}");
        let corrected = run.corrected(&run.logs);
        assert!(run.adds_up(&corrected), "{name}");
        let trace = Trace::of(&settled, &vec![1.0; run.trace.parties()]);
        for (&party, row) in &corrected {
            assert_eq!(row, trace.final_state(party), "{name}: party {party}");
        }
        stages[run.sets.len() - 1] += 1;
        apart += usize::from(pieces.len() > 1);
        let outside = |party: &Party| !run.opened().contains(party) && run.is_hidden(*party);
        silent += usize::from((0..run.trace.parties()).any(|party| outside(&party)));
    }
    assert!(
        stages.iter().all(|&count| count > 50) && apart > 50 && silent > 50,
        "{stages:?} {apart} {silent}"
    );
}

/// A later correction is a difference: with all that was deducted for the departed, a share that
/// went back to its sender already goes back twice.
#[test]
fn a_later_correction_that_is_no_difference_corrupts_the_sum() {
    let mut twice = 0;
    for (name, run) in runs() {
        let departed = |party: &Party| run.sets[0].contains(party) && !run.opened().contains(party);
        let again = |(id, fate, _): &(ShareId, Fate, u32)| {
            *fate == Fate::Lost && departed(&id.to) && run.opened().contains(&id.from)
        };
        // As if the departed listed all that left for them.
        let mut whole = run.logs.clone();
        for (id, ..) in shares(&run.execution).filter(again) {
            let ShareId { round, from, to } = id;
            let applied = round;
            let received = &mut whole.get_mut(&to).expect("it may publish").received;
            received.push(ReceivedEntry { round, from, applied });
            received.sort_by_key(|entry| (entry.round, entry.from));
        }
        let matters = shares(&run.execution).any(|share| again(&share));
        assert_eq!(run.adds_up(&run.corrected(&whole)), !matters, "{name}");
        twice += usize::from(matters);
    }
    assert!(twice > 50, "{twice}");
}

/// Nobody is corrected for once its key is out: the adversary would have its value alone.
#[test]
fn a_correction_after_opening_tells_a_value() {
    let mut owed = 0;
    for (name, run) in runs() {
        let pieces = run.pieces(None);
        for late in pieces
            .iter()
            .filter(|piece| piece.len() > 1)
            .map(|piece| piece[0])
        {
            let mut remaining = run.opened().clone();
            remaining.remove(&late);
            let given = next_corrections(&run.logs, run.opened(), &remaining);
            let mut rows = run.opened_view();
            rows.extend(given.values().map(|terms| run.correction(terms)));
            assert!(!run.rows_tell(&rows, &pieces), "{name}: party {late}");
            let pieces = run.pieces(Some(late));
            assert!(pieces.contains(&vec![late]));
            assert!(run.rows_tell(&rows, &pieces), "{name}: party {late}, {pieces:?}");
            owed += 1;
        }
    }
    assert!(owed > 50, "{owed}");
}
