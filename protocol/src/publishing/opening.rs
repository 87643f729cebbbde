//! Opening: the secrets with which the members of one agreed set have sealed their vectors become
//! known, all of them or none that counts.
//!
//! A node makes a secret or a share known only for a set that is agreed and that its own gate has
//! passed, never for anybody outside of that set, and never for two sets of one round. Here this is
//! how the types are made: what a node may make known is [`Kept`], which says nothing; the one way
//! out is [`Kept::open`], which takes it away and wipes all that is not of the set. Whoever calls
//! that says that the set is agreed and has passed.
//!
//! 1. On entering, a member of the set makes its own secret known.
//! 2. A holder makes its share of a member's secret known, once, if that secret is not here and its
//!    owner is found or called gone; else at half-time. A holder need not be of the set.
//! 3. The set is open once every secret is here: revealed by its owner, or recovered from t shares
//!    that were revealed. What cannot be opened whole by the end of the stage is not opened.
//!
//! A letter is opened when its share is first needed: in most rounds every owner tells its secret,
//! and none is.
//!
//! A share counts once it was revealed, this node's own as well: a node that recovered a secret
//! with a share that only it has would never tell it, and others would be left one short.
//!
//! Nothing that was revealed is believed: a secret has to be the one that its deal commits to, a
//! share its holder's. What is wrong is taken out of the flood and counts as if it had not come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::agreement::agreeing::Clock;
use crate::agreement::flood::Flood;
use crate::agreement::flood::slot::Slot;
use crate::messages::notice::{Disclosed, Notice};
use crate::messages::signature::Digest;
use crate::messages::stage::Stage;
use crate::sealing::deal::{CheckedDeal, Deal, DealError, Secret};
use crate::sealing::letter::{self, Envelope, LETTER_BYTES};
use crate::sealing::run_key::RunKey;
use crate::time::Time;
use crate::topology::party::Party;

/// The deal of a member of the set, with the holders of its shares.
#[derive(Clone, Debug)]
pub struct Dealt {
    /// The commitments to its secret.
    pub deal: CheckedDeal,
    /// The holders of its shares.
    pub holders: Vec<Party>,
}

/// The secrets of one round that a node keeps until a set is agreed: its own, and shares of others.
/// Wiped when it is dropped, never printed.
///
/// It opens one set, once:
///
/// ```compile_fail,E0382
/// # use std::collections::BTreeMap;
/// # use undertone_protocol::agreement::agreeing::Clock;
/// # use undertone_protocol::publishing::opening::{Dealt, Kept};
/// # type Set = BTreeMap<usize, Dealt>;
/// fn for_two_sets(kept: Kept, one: Set, other: Set, clock: Clock) {
///     let first = kept.open(one, clock);
///     let second = kept.open(other, clock);
/// }
/// ```
pub struct Kept {
    me: Party,
    round: u32,
    own: Option<Secret>,
    shares: BTreeMap<Party, HeldShare>,
}

/// A holder's share of a party's secret, read already or not.
enum HeldShare {
    Read(Zeroizing<[u8; 32]>),
    Unread {
        own: Arc<RunKey>,
        author: [u8; 32],
        digest: Digest,
        letter: Box<[u8; LETTER_BYTES]>,
    },
}

impl HeldShare {
    /// The share, if it is `holder`'s by what the party `of` has dealt in a round.
    fn read(
        self,
        (of, dealt): (Party, &Dealt),
        holder: Party,
        round: u32,
    ) -> Result<Zeroizing<[u8; 32]>, DealError> {
        let share = match self {
            HeldShare::Read(share) => share,
            HeldShare::Unread {
                own,
                author,
                digest,
                letter,
            } => {
                let envelope = Envelope {
                    digest: &digest,
                    round,
                    from: of,
                    to: holder,
                };
                letter::read(&own, &author, &envelope, &letter).ok_or(DealError::Letter { holder })?
            }
        };
        dealt.deal.check_share(holder, &share)?;
        Ok(share)
    }
}

impl Kept {
    /// Returns the record that `me` keeps of a round: only its own secret at first, if it has
    /// sealed a vector.
    pub fn new(me: Party, round: u32, own: Option<Secret>) -> Self {
        Kept {
            me,
            round,
            own,
            shares: BTreeMap::new(),
        }
    }

    /// Keeps this node's share of a party's secret, which it knows already.
    pub fn hold(&mut self, of: Party, share: Zeroizing<[u8; 32]>) {
        self.shares.insert(of, HeldShare::Read(share));
    }

    /// Keeps the letter to this node, the owner of a run key, in what a party, given with its run
    /// key, has dealt. Nothing happens if this node is no holder.
    pub fn keep_letter(
        &mut self,
        own: &Arc<RunKey>,
        digest: &Digest,
        (of, author): (Party, &[u8; 32]),
        deal: &Deal,
        dealt: &Dealt,
    ) {
        let place = dealt.holders.iter().position(|&party| party == self.me);
        let Some(letter) = place.and_then(|place| deal.letters.get(place)) else {
            return;
        };
        let unread = HeldShare::Unread {
            own: own.clone(),
            author: *author,
            digest: *digest,
            letter: Box::new(*letter),
        };
        self.shares.insert(of, unread);
    }

    /// The share of a party's secret, for tests of what a coalition knows. `None` if this node is
    /// no holder.
    #[cfg(test)]
    pub(crate) fn share(mut self, of: Party, dealt: &Dealt) -> Option<Result<[u8; 32], DealError>> {
        let share = self.shares.remove(&of)?.read((of, dealt), self.me, self.round);
        Some(share.map(|share| *share))
    }

    /// Begins to open a set that is agreed and that this node's gate has passed, whether this node
    /// is in it or not. What is kept of anybody outside of it is wiped.
    pub fn open(self, set: BTreeMap<Party, Dealt>, clock: Clock) -> SetOpening {
        let Kept {
            me,
            round,
            own,
            mut shares,
        } = self;
        shares.retain(|of, _| set.get(of).is_some_and(|dealt| dealt.holders.contains(&me)));
        SetOpening {
            me,
            round,
            clock,
            unsaid: own.filter(|_| set.contains_key(&me)),
            shares,
            set: set
                .into_iter()
                .map(|(party, dealt)| (party, Opened::of(dealt)))
                .collect(),
            called: BTreeSet::new(),
            ended: false,
            waits_on: false,
            looked: 0,
        }
    }
}

/// The progress of a member's secret towards being known.
struct Opened {
    dealt: Dealt,
    secret: Option<Secret>,
    /// Whether its owner revealed it.
    by_owner: bool,
    /// Whether its owner signed another one than it has dealt.
    lied: bool,
    /// Good shares that were revealed.
    shares: BTreeMap<Party, [u8; 32]>,
}

impl Opened {
    fn of(dealt: Dealt) -> Self {
        Opened {
            dealt,
            secret: None,
            by_owner: false,
            lied: false,
            shares: BTreeMap::new(),
        }
    }

    fn unopened(&self, party: Party) -> Unopened {
        Unopened {
            party,
            shares: self.shares.len(),
            needed: self.dealt.deal.threshold(),
            word: match (self.secret.is_some(), self.lied) {
                (true, _) => OwnWord::Late,
                (false, true) => OwnWord::Wrong,
                (false, false) => OwnWord::None,
            },
        }
    }

    fn take_secret(&mut self, revealed: &Disclosed) -> Result<(), DealError> {
        let secret = self
            .dealt
            .deal
            .secret(&revealed.0)
            .inspect_err(|_| self.lied = true)?;
        self.secret = Some(secret);
        self.by_owner = true;
        Ok(())
    }

    fn take_share(&mut self, holder: Party, revealed: &Disclosed) -> Result<(), DealError> {
        if !self.dealt.holders.contains(&holder) {
            return Err(DealError::Share { holder });
        }
        self.dealt.deal.check_share(holder, &revealed.0)?;
        self.shares.insert(holder, revealed.0);
        if self.shares.len() >= self.dealt.deal.threshold() {
            self.secret = self.dealt.deal.recover(&self.shares).ok();
        }
        Ok(())
    }
}

/// The inputs of opening besides its own state.
pub struct OpeningSights<'a> {
    /// All notices that this node holds: what was revealed before it began counts, too. What is
    /// wrong is taken out of it.
    pub flood: &'a mut Flood,
    /// The parties that this node finds unreachable, with the moment since when.
    pub unreachable: &'a BTreeMap<Party, Time>,
    /// The parties that others call unreachable.
    pub called: &'a BTreeSet<Party>,
}

/// The arrival of a member's own word on its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnWord {
    /// The member said nothing, or what came was good and no more was needed.
    None,
    /// The member signed a secret that is not the one that it has dealt, with its own signature on
    /// both.
    Wrong,
    /// The secret is known here, later than others went on without it.
    Late,
}

/// A member whose secret was not known in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unopened {
    /// The party whose secret is lacking.
    pub party: Party,
    /// The number of valid shares revealed so far.
    pub shares: usize,
    /// The number of shares that recover the secret.
    pub needed: usize,
    /// The fate of its own word.
    pub word: OwnWord,
}

impl Unopened {
    /// The sentence for a person, with the party's name.
    pub fn sentence(&self, name: &str) -> String {
        let Unopened { shares, needed, .. } = self;
        match self.word {
            OwnWord::None => format!("{name}'s secret has {shares} of {needed} shares"),
            OwnWord::Wrong => format!(
                "{name} signed a secret that is not the one that it dealt, which has {shares} of {needed} \
                 shares"
            ),
            OwnWord::Late => format!("{name}'s secret came too late"),
        }
    }
}

/// The next step that opening asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpeningStep {
    /// Sign this notice and flood it.
    Say(Notice),
    /// The author revealed what is wrong; it is forgotten, so that a later good one finds its
    /// place.
    Wrong {
        /// The party that revealed it.
        author: Party,
        /// The error in the revealed secret or share.
        reason: DealError,
    },
    /// The letter from a member to this node does not open, or its share is not this node's: it is
    /// no holder then, and a person is informed. Nobody could prove it.
    NoShare {
        /// The dealer of the share.
        of: Party,
        /// The error in the letter or in its share.
        reason: DealError,
    },
    /// Every secret of the set is here: see [`SetOpening::secrets`].
    Open,
    /// The stage ended, and these secrets are lacking.
    Over(Vec<Unopened>),
}

/// Something that was revealed and is not what it should be.
struct Wrong {
    author: Party,
    slot: Slot,
    revealed: Disclosed,
    reason: DealError,
}

/// The opening of one set at one node.
pub struct SetOpening {
    me: Party,
    round: u32,
    clock: Clock,
    set: BTreeMap<Party, Opened>,
    /// This node's own secret, until it is said.
    unsaid: Option<Secret>,
    /// This node's shares of members' secrets, until they are revealed.
    shares: BTreeMap<Party, HeldShare>,
    /// The parties that this node has called unreachable.
    called: BTreeSet<Party>,
    ended: bool,
    /// Whether secrets that come after the end are looked at.
    waits_on: bool,
    /// The number of revealed secrets and shares that were checked.
    looked: usize,
}

impl SetOpening {
    /// The next thing to do; call again until there is none.
    pub fn step(&mut self, now: Time, sights: &mut OpeningSights<'_>) -> Option<OpeningStep> {
        if let Some(secret) = self.unsaid.take() {
            return Some(OpeningStep::Say(self.tell_own(secret)));
        }
        if self.ended && !self.waits_on {
            return None;
        }
        let flood = &*sights.flood;
        if let Some(wrong) = self.look_at_revealed(flood) {
            let Wrong {
                author,
                slot,
                revealed,
                reason,
            } = wrong;
            sights.flood.retract(slot, &revealed);
            return Some(OpeningStep::Wrong { author, reason });
        }
        if self.lacking().next().is_none() {
            self.end();
            self.waits_on = false;
            return Some(OpeningStep::Open);
        }
        if self.ended {
            return None;
        }
        let call = self.next_call(now, sights).map(OpeningStep::Say);
        if let Some(step) = call.or_else(|| self.next_share(now, sights)) {
            return Some(step);
        }
        if now >= self.clock.end {
            self.end();
            return Some(OpeningStep::Over(self.lacking().collect()));
        }
        None
    }

    /// Goes on looking at what is revealed, after the end: whoever lacks a secret may still get it.
    pub fn wait_on(&mut self) {
        let all_known = self.set.values().all(|opened| opened.secret.is_some());
        self.waits_on = !all_known;
    }

    /// The deadlines of opening.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Reveals nothing more: letters that were not needed are wiped, unread.
    fn end(&mut self) {
        self.ended = true;
        self.shares.clear();
    }

    /// Returns the moment to step again although nothing happened.
    pub fn wake(&self, now: Time, unreachable: &BTreeMap<Party, Time>) -> Time {
        let calls = unreachable.iter().filter(|(party, _)| self.is_unknown(party));
        let calls = calls.map(|(_, since)| self.clock.call_at(*since));
        let clock = [self.clock.half, self.clock.end].into_iter().chain(calls);
        let next = clock.filter(|&at| at > now && !self.ended).min();
        next.unwrap_or(Time::FAR)
    }

    /// The secrets of all members, once all of them are here.
    pub fn secrets(&self) -> Option<BTreeMap<Party, &Secret>> {
        let known = self
            .set
            .iter()
            .map(|(party, opened)| Some((*party, opened.secret.as_ref()?)));
        known.collect()
    }

    /// Members whose own word did not come and whose secret others made known, ascending.
    pub fn opened_for(&self) -> Vec<Party> {
        let by_others = |(_, opened): &(&Party, &Opened)| opened.secret.is_some() && !opened.by_owner;
        self.set
            .iter()
            .filter(by_others)
            .map(|(party, _)| *party)
            .collect()
    }

    /// Members whose secrets nobody here knows yet, ascending.
    pub fn awaited(&self) -> Vec<Party> {
        self.lacking().map(|lacking| lacking.party).collect()
    }

    /// Members whose secrets are known here, ascending.
    pub fn known(&self) -> impl Iterator<Item = Party> {
        let known = self.set.iter().filter(|(_, opened)| opened.secret.is_some());
        known.map(|(party, _)| *party)
    }

    /// Members whose secrets nobody here knows.
    pub fn lacking_secrets(&self) -> Vec<Unopened> {
        self.lacking().collect()
    }

    /// The words on these members, whose secrets were not known in time.
    pub fn unopened(&self, of: &BTreeSet<Party>) -> Vec<Unopened> {
        let these = self.set.iter().filter(|(party, _)| of.contains(party));
        these.map(|(party, opened)| opened.unopened(*party)).collect()
    }

    /// Returns the number of letters and shares of others that are kept.
    #[cfg(test)]
    pub(crate) fn held_shares(&self) -> usize {
        self.shares.len()
    }

    fn lacking(&self) -> impl Iterator<Item = Unopened> {
        let unknown = self.set.iter().filter(|(_, opened)| opened.secret.is_none());
        unknown.map(|(&party, opened)| opened.unopened(party))
    }

    fn tell_own(&mut self, secret: Secret) -> Notice {
        let notice = Notice::Key {
            round: self.round,
            secret: Disclosed(*secret.to_bytes()),
        };
        if let Some(opened) = self.set.get_mut(&self.me) {
            opened.secret = Some(secret);
            opened.by_owner = true;
        }
        notice
    }

    /// Takes every good secret that its owner revealed, and every good share of a secret that is
    /// not known; the first wrong one. What was looked at is not looked at again.
    fn look_at_revealed(&mut self, flood: &Flood) -> Option<Wrong> {
        while let Some(slot) = flood.slot_revealed_after(self.looked) {
            for revealed in flood.revealed(slot) {
                if let Err(reason) = self.take(slot, revealed) {
                    let (_, author) = slot.kind();
                    return Some(Wrong {
                        author,
                        slot,
                        revealed: *revealed,
                        reason,
                    });
                }
            }
            self.looked += 1;
        }
        None
    }

    fn take(&mut self, slot: Slot, revealed: &Disclosed) -> Result<(), DealError> {
        match slot {
            Slot::Key(round, author) if round == self.round => match self.set.get_mut(&author) {
                Some(opened) if !opened.by_owner => opened.take_secret(revealed),
                _ => Ok(()),
            },
            Slot::Share(round, holder, of) if round == self.round => match self.set.get_mut(&of) {
                Some(opened) if opened.secret.is_none() && !opened.shares.contains_key(&holder) => {
                    opened.take_share(holder, revealed)
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn is_unknown(&self, party: &Party) -> bool {
        self.set.get(party).is_some_and(|opened| opened.secret.is_none())
    }

    /// A member to call gone: found gone a while ago, its secret not known. Holders need not be its
    /// neighbours.
    fn next_call(&mut self, now: Time, sights: &OpeningSights<'_>) -> Option<Notice> {
        let due = |(party, since): &(&Party, &Time)| {
            self.is_unknown(party) && !self.called.contains(party) && now >= self.clock.call_at(**since)
        };
        let party = *sights.unreachable.iter().find(due)?.0;
        self.called.insert(party);
        Some(Notice::Unreachable {
            stage: Stage::Sealed,
            party,
        })
    }

    /// A share to tell: of a member whose secret is not known and that is gone, or of any such
    /// member from half-time on.
    fn next_share(&mut self, now: Time, sights: &OpeningSights<'_>) -> Option<OpeningStep> {
        let due = |of: &Party| {
            let is_gone = sights.unreachable.contains_key(of) || sights.called.contains(of);
            self.is_unknown(of) && (is_gone || now >= self.clock.half)
        };
        let of = self.shares.keys().copied().find(due)?;
        let held = self.shares.remove(&of)?;
        let dealt = &self.set.get(&of)?.dealt;
        Some(match held.read((of, dealt), self.me, self.round) {
            Ok(share) => OpeningStep::Say(Notice::Share {
                round: self.round,
                // A plan has far fewer parties than this holds.
                of: of as u32,
                share: Disclosed(*share),
            }),
            Err(reason) => OpeningStep::NoShare { of, reason },
        })
    }
}

#[cfg(test)]
mod tests;
