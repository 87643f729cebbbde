//! The knowledge of a coalition about sums over circles, from its members' keys, from all that was
//! flooded, and from sealed vectors.
//!
//! Every sum over a subset of one circle in one round is tried. What several sums tell together is
//! what claims are about, and is computed there.

use super::*;
use crate::lattice::residue::ResidueVector;
use crate::messages::log::{Log, SealTerms};
use crate::messages::notice::Notice;
use crate::messages::signature::Digest;
use crate::messages::wire::PublicFrame;
use crate::sealing::deal::{CheckedDeal, Secret};
use crate::sealing::holders::HolderOrder;
use crate::sealing::letter::{self, Envelope};
use crate::sealing::mask::{MaskKey, MaskPlace};
use crate::simulator::cluster::gossiping::OpenedCircles;
use crate::simulator::cluster::lying::Sending;
use crate::topology::schedule::Schedule;

/// The messages of a stream of circles that may reveal something.
#[derive(Default)]
pub(super) struct Record {
    /// By round, author and reader, with what they are signed for.
    vectors: BTreeMap<(u32, Party, Party), (Digest, Vec<u8>)>,
    /// By round and author.
    logs: BTreeMap<(u32, Party), Log>,
    keys: BTreeMap<(u32, Party), Vec<[u8; 32]>>,
    /// By round and of whose secret, then by holder.
    shares: BTreeMap<(u32, Party), BTreeMap<Party, [u8; 32]>>,
    /// Once-keys of pairs, by round and giver.
    pairs: BTreeSet<(u32, Party, [u8; 32])>,
}

impl Record {
    pub(super) fn note(&mut self, plan: &Plan, sending: &Sending<'_>) {
        let frame = sending.frame;
        match sending.network {
            Network::Private => {
                if let Ok(PrivateFrame::Sealed {
                    digest, id, values, ..
                }) = wire::read_private(frame)
                {
                    let place = (id.round, id.from, id.to);
                    self.vectors.insert(place, (digest, frame[values].to_vec()));
                }
            }
            Network::Public => {
                let (round, inner) = wire::of_iteration(&Bytes::from_owner(frame.clone())).expect("ours");
                self.note_public(plan, round, &inner);
            }
        }
    }

    fn note_public(&mut self, plan: &Plan, round: u32, inner: &[u8]) {
        let Ok(frame) = wire::read_public(inner) else {
            return;
        };
        match frame.item() {
            Some((Stage::Settling, author, bytes)) => {
                let schedule = Schedule::both_ways(std::iter::once(&plan.active_edges(round)));
                let log = wire::log_from_bytes(&inner[bytes], author, &schedule);
                self.logs.insert((round, author), log.expect("a log"));
            }
            Some((Stage::Correction(_), giver, bytes)) => {
                let (keys, _) = inner[bytes].as_chunks::<32>();
                self.pairs.extend(keys.iter().map(|key| (round, giver, *key)));
            }
            _ => {}
        }
        let PublicFrame::Notice(signed) = frame else {
            return;
        };
        match signed.notice {
            Notice::Key { secret, .. } => {
                let revealed = self.keys.entry((round, signed.author)).or_default();
                revealed.push(secret.0);
            }
            Notice::Share { of, share, .. } => {
                let revealed = self.shares.entry((round, of as Party)).or_default();
                revealed.insert(signed.author, share.0);
            }
            _ => {}
        }
    }
}

/// The true masks of all parties in a simulated stream, and the sets for which its rounds were
/// closed.
pub(super) struct Truth<'a> {
    plan: &'a Plan,
    seed: u64,
    record: &'a Record,
    /// The set that began, and for each round that was closed its set.
    sets: Vec<BTreeSet<Party>>,
    /// The once-keys of each pair, the lower party first, one a round.
    once: BTreeMap<(Party, Party), Vec<[u8; 32]>>,
}

impl<'a> Truth<'a> {
    pub(super) fn of(
        plan: &'a Plan,
        seed: u64,
        record: &'a Record,
        events: &[(Time, Party, Event)],
    ) -> Truth<'a> {
        let mut sets = vec![(0..plan.parties()).collect()];
        for round in 1..=plan.rounds() {
            let closed = events.iter().filter_map(|(.., event)| match event {
                Event::Closed { round: of, set } if *of == round => {
                    Some(set.iter().copied().collect::<BTreeSet<Party>>())
                }
                _ => None,
            });
            let closed: BTreeSet<_> = closed.collect();
            assert!(closed.len() <= 1, "round {round} is closed for {closed:?}");
            sets.extend(closed);
        }
        let pair = |party: Party| PairKey::draw(&mut stream(seed, "pair key", party));
        let pairs = (0..plan.parties()).flat_map(|a| (a + 1..plan.parties()).map(move |b| (a, b)));
        let once = pairs.map(|(a, b)| {
            let mut chain = pair(a).chain(pair(b).public(), plan.digest(), a, b);
            let mut key = |_| {
                let key = *chain.once_key();
                chain.advance();
                key
            };
            ((a, b), (1..=plan.rounds()).map(&mut key).collect())
        });
        Truth {
            plan,
            seed,
            record,
            sets,
            once: once.collect(),
        }
    }

    /// The once-key of a pair in a round.
    pub(super) fn once_key(&self, round: u32, a: Party, b: Party) -> &[u8; 32] {
        &self.once[&(a.min(b), a.max(b))][round as usize - 1]
    }

    /// Who was in the round before this one; `None` if that was not closed.
    fn before(&self, round: u32) -> Option<&BTreeSet<Party>> {
        self.sets.get(round as usize - 1)
    }

    fn closed(&self, round: u32) -> Option<&BTreeSet<Party>> {
        self.sets.get(round as usize)
    }

    fn circle(&self, round: u32, reader: Party) -> BTreeSet<Party> {
        let edges = self.plan.active_edges(round);
        let of = edges.neighbours(reader).iter().copied();
        of.filter(|party| self.before(round).is_some_and(|set| set.contains(party)))
            .collect()
    }

    fn deal(&self, round: u32, author: Party) -> Option<CheckedDeal> {
        let log = self.record.logs.get(&(round, author))?;
        let started = self.before(round)?.len();
        let threshold = self.plan.threshold(started).expect("enough")?;
        let terms = SealTerms { threshold, bytes: 0 };
        log.check_sealed(Some(&terms)).expect("a good deal")
    }

    /// Once-keys that were told of others than those who were left out, or by others than members
    /// of the round's set, or that are of no mask of both in a circle of the round.
    pub(super) fn revealed_wrongly(&self) -> Vec<String> {
        let revealed = self.record.pairs.iter();
        let wrong = revealed.filter(|(round, giver, key)| {
            let (Some(before), Some(set)) = (self.before(*round), self.closed(*round)) else {
                return true;
            };
            let readers = before.iter().map(|&reader| self.circle(*round, reader));
            let circles: Vec<BTreeSet<Party>> = readers.collect();
            let shared = |other: Party| {
                circles
                    .iter()
                    .any(|circle| circle.contains(giver) && circle.contains(&other))
            };
            let mut left_out = before.difference(set).copied();
            let is_its = |other: Party| shared(other) && self.once_key(*round, *giver, other) == key;
            !(set.contains(giver) && left_out.any(is_its))
        });
        wrong
            .map(|(round, giver, _)| format!("round {round}: {giver} told a key that is not due"))
            .collect()
    }
}

/// The parties of a coalition, with the truth of the stream.
pub(super) struct Coalition<'a> {
    truth: &'a Truth<'a>,
    members: BTreeSet<Party>,
}

/// The findings of a coalition in the vectors of one stream.
#[derive(Default)]
pub(super) struct Findings {
    /// The findings that a coalition must not make.
    pub(super) wrong: Vec<String>,
    /// Sums of an agreed set that a member of it reads.
    pub(super) sums: usize,
    /// Secrets of parties outside of a round's set that it cannot find.
    pub(super) closed: usize,
}

impl<'a> Coalition<'a> {
    pub(super) fn of(truth: &'a Truth<'a>, members: impl IntoIterator<Item = Party>) -> Self {
        Coalition {
            truth,
            members: members.into_iter().collect(),
        }
    }

    /// The secret of a party in a round, told or recovered from shares that were told and from the
    /// letters to members.
    pub(super) fn secret(&self, round: u32, author: Party) -> Option<Secret> {
        let Truth {
            plan, seed, record, ..
        } = self.truth;
        let deal = self.truth.deal(round, author)?;
        let revealed = record.keys.get(&(round, author));
        if let Some(secret) = revealed
            .into_iter()
            .flatten()
            .find_map(|key| deal.secret(key).ok())
        {
            return Some(secret);
        }
        let mut shares = record.shares.get(&(round, author)).cloned().unwrap_or_default();
        let started = self.truth.before(round)?;
        let threshold = plan.threshold(started.len()).expect("enough")?;
        let order = HolderOrder::draw(plan.schedule_seed().unwrap_or(0), plan.parties());
        let holders = order.holders(author, started, threshold);
        let run_key = |party: Party| RunKey::draw(&mut stream(*seed, "run key", party));
        let sealed = record.logs[&(round, author)].sealed.as_ref()?;
        let digest = &record.vectors.iter().find(|((of, ..), _)| *of == round)?.1.0;
        for (holder, letter) in holders.into_iter().zip(&sealed.deal.letters) {
            if self.members.contains(&holder) {
                let envelope = Envelope {
                    digest,
                    round: plan.sealed_round(),
                    from: author,
                    to: holder,
                };
                let author = run_key(author);
                let share = letter::read(&run_key(holder), author.public(), &envelope, letter);
                shares.extend(share.map(|share| (holder, *share)));
            }
        }
        deal.recover(&shares).ok()
    }

    fn knows_mask(&self, round: u32, a: Party, b: Party) -> bool {
        let revealed = self.truth.record.pairs.iter().map(|(.., key)| key);
        let key = self.truth.once_key(round, a, b);
        self.members.contains(&a) || self.members.contains(&b) || revealed.into_iter().any(|it| it == key)
    }

    /// A vector without all masks that the coalition knows.
    fn stripped(&self, round: u32, author: Party, reader: Party) -> Option<ResidueVector> {
        let plan = self.truth.plan;
        let (digest, bytes) = self.truth.record.vectors.get(&(round, author, reader))?;
        let ring = plan.circle_ring().expect("circles");
        let mut vector = ResidueVector::from_bytes(ring, plan.draft().dimension(), bytes).expect("a vector");
        let circle = reader as u32;
        if let Some(secret) = self.secret(round, author) {
            let place = MaskPlace {
                digest,
                author,
                round: plan.sealed_round(),
                circle,
            };
            let own = MaskKey::own(&secret, &place);
            own.subtract_from(&mut vector).expect("short");
        }
        for other in self.truth.circle(round, reader) {
            if other == author || !self.knows_mask(round, author, other) {
                continue;
            }
            let mask = MaskKey::pair(self.truth.once_key(round, author, other), circle);
            match author < other {
                true => mask.subtract_from(&mut vector),
                false => mask.add_to(&mut vector),
            }
            .expect("short");
        }
        Some(vector)
    }

    /// Tries all sums of vectors of a circle's members outside of the coalition: what `of` gives
    /// for an author, a reader and a round is what was sealed. It may find one, that of those who
    /// are in the agreed set; and of who is in none no secret.
    pub(super) fn look(&self, rounds: u32, of: &dyn Fn(u32, Party, Party) -> Option<Vec<i128>>) -> Findings {
        let mut findings = Findings::default();
        for round in 1..=rounds {
            let none = BTreeSet::new();
            let set = self.truth.closed(round).unwrap_or(&none);
            self.look_at_secrets(round, set, &mut findings);
            for reader in 0..self.truth.plan.parties() {
                self.look_at_circle((round, reader), set, of, &mut findings);
            }
        }
        findings
    }

    fn look_at_secrets(&self, round: u32, set: &BTreeSet<Party>, findings: &mut Findings) {
        for author in 0..self.truth.plan.parties() {
            let dealt = self.truth.record.logs.contains_key(&(round, author));
            if !dealt || set.contains(&author) || self.members.contains(&author) {
                continue;
            }
            match self.secret(round, author) {
                None => findings.closed += 1,
                Some(_) => findings.wrong.push(format!(
                    "round {round}: {:?} know the secret of {author}",
                    self.members
                )),
            }
        }
    }

    fn look_at_circle(
        &self,
        (round, reader): (u32, Party),
        set: &BTreeSet<Party>,
        of: &dyn Fn(u32, Party, Party) -> Option<Vec<i128>>,
        findings: &mut Findings,
    ) {
        let circle = self.truth.circle(round, reader);
        let honest = circle.difference(&self.members).copied();
        let known = honest.filter_map(|author| {
            let stripped = self.stripped(round, author, reader)?;
            let sealed = of(round, author, reader)?;
            let residues: Vec<u128> = stripped.residues().collect();
            Some((author, residues, sealed))
        });
        let known: Vec<(Party, Vec<u128>, Vec<i128>)> = known.collect();
        let ring = self.truth.plan.circle_ring().expect("circles");
        for chosen in 1u32..1 << known.len() {
            let some = known
                .iter()
                .enumerate()
                .filter(|(place, _)| chosen >> place & 1 == 1);
            let some: Vec<_> = some.map(|(_, it)| it).collect();
            let found = (0..self.truth.plan.draft().dimension()).all(|at| {
                let sum = some
                    .iter()
                    .fold(0, |sum, (_, residues, _)| ring.add(sum, residues[at]));
                sum == ring.reduce(some.iter().map(|(.., sealed)| sealed[at]).sum())
            });
            if !found {
                continue;
            }
            let who: BTreeSet<Party> = some.iter().map(|(author, ..)| *author).collect();
            let agreed: BTreeSet<Party> = circle.intersection(set).copied().collect();
            let agreed: BTreeSet<Party> = agreed.difference(&self.members).copied().collect();
            // A reader that is left out reads that sum as well: the departed count as colluding.
            if who == agreed {
                let reads = set.contains(&reader) && self.members.contains(&reader);
                findings.sums += usize::from(reads);
            } else {
                findings.wrong.push(format!(
                    "round {round}, circle of {reader}: {:?} read {who:?} of {agreed:?}",
                    self.members
                ));
            }
        }
    }
}

/// Plays a stream, with what every coalition of two finds in it.
pub(super) fn every_pair_looks(
    simulation: &Simulation<'_>,
    opened: &OpenedCircles,
    record: &Record,
) -> Findings {
    let plan = &simulation.plan;
    let truth = Truth::of(plan, simulation.conditions.seed, record, &simulation.events);
    let of = |round: u32, author: Party, reader: Party| {
        let states = opened.states.get(round as usize - 1)?;
        simulation.vector_of(round, (author, reader), &states[author])
    };
    let mut all = Findings {
        wrong: truth.revealed_wrongly(),
        ..Findings::default()
    };
    for a in 0..plan.parties() {
        for b in a + 1..plan.parties() {
            let found = Coalition::of(&truth, [a, b]).look(plan.rounds(), &of);
            all.wrong.extend(found.wrong);
            all.sums += found.sums;
            all.closed += found.closed;
        }
    }
    all
}
