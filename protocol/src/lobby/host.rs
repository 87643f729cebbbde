//! The host: sits people down, closes the lobby, passes on what guests say, collects signatures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use libp2p_identity::{Keypair, PeerId};

use crate::lobby::confirmed::sign_list;
use crate::lobby::guest::{MOST_CLOSES, Numbered};
use crate::lobby::host::closing::{CloseStep, Comparing, LobbyClose};
use crate::lobby::host::news::{HostNews, HostOutput};
use crate::lobby::names::look_alike;
use crate::messages::lobby::{Refusal, ToGuest, ToHost};
use crate::messages::signature::Signature;
use crate::plan::peers::contact::Relay;
use crate::plan::peers::difference::ListChange;
use crate::plan::peers::{Peer, Peers, PeersError, check_entries, check_relays};
use crate::time::Time;

mod closing;
pub mod news;

/// How long a guest may take for a step of a close: a few round trips, and a slow machine.
const STEP_MS: u64 = 30_000;

/// How often a key may sit down again while the lobby is being closed with it. Our choice: a
/// connection that breaks so often is no use.
pub(super) const MOST_AGAIN: u32 = 2;

/// The circumstances of an input.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Now.
    pub now: Time,
    /// 32 fresh random bytes, which are used if a close begins.
    pub drawn: [u8; 32],
}

/// The aim and the limits of a lobby.
pub struct LobbyPurpose {
    /// The list that the new one takes the place of: its parties need not come.
    pub old: Option<Peers>,
    /// The relays of the new list.
    pub relays: Vec<Relay>,
    /// The most who sit, the host among them; once all do, the lobby closes by itself.
    pub seats: usize,
    /// Keys that get no seat, and no line of the old list stays of: they were revoked.
    pub barred: BTreeSet<PeerId>,
}

enum HostPhase {
    Gathering,
    Closing(LobbyClose),
    Comparing(Comparing),
    Over,
}

/// The host of a lobby.
pub struct Host {
    key: Keypair,
    own: PeerId,
    purpose: LobbyPurpose,
    /// Names of the old list that the operator took out.
    removed: BTreeSet<String>,
    seats: BTreeMap<PeerId, Peer>,
    /// Those who sit have not heard yet who does.
    unsaid: bool,
    /// How often each key has sat down again while the lobby was being closed with it.
    again: BTreeMap<PeerId, u32>,
    closes: u32,
    phase: HostPhase,
    out: Vec<HostOutput>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({} seats, {} closes)", self.seats.len(), self.closes)
    }
}

impl Host {
    /// A lobby in which the host sits, with these lines.
    ///
    /// # Errors
    /// Its lines do not fit the old list or the relays.
    pub fn new(key: Keypair, own: Peer, purpose: LobbyPurpose) -> Result<Self, Refusal> {
        // No list may name a revoked key again.
        let old = purpose.old.iter().flat_map(|old| old.as_slice());
        let removed = old.filter(|peer| purpose.barred.contains(&peer.id));
        let removed = removed.map(|peer| peer.name.clone()).collect();
        let mut host = Host {
            key,
            own: own.id,
            purpose,
            removed,
            seats: BTreeMap::new(),
            unsaid: false,
            again: BTreeMap::new(),
            closes: 0,
            phase: HostPhase::Gathering,
            out: vec![],
        };
        host.seat(own.id, &own.to_toml())?;
        Ok(host)
    }

    /// All that is to be done now, in order.
    pub fn drain(&mut self) -> Vec<HostOutput> {
        std::mem::take(&mut self.out)
    }

    /// When [`Host::tick`] has something to do; [`Time::FAR`]: not before the next input.
    pub fn deadline(&self) -> Time {
        match &self.phase {
            HostPhase::Closing(closing) => closing.deadline,
            _ => Time::FAR,
        }
    }

    /// Whether the list is in force, or the lobby has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, HostPhase::Over)
    }

    /// A guest that proved to hold `id`'s key, and had the token, sits down with these lines, or
    /// does again on a new connection.
    ///
    /// # Errors
    /// Why it may not. An earlier seat of the same key stays as it was.
    pub fn sit(&mut self, at: Moment, id: PeerId, lines: &str) -> Result<(), Refusal> {
        self.sit_again(at, &id)?;
        let before = self.seats.get(&id).cloned();
        self.seat(id, lines)?;
        let peer = &self.seats[&id];
        let old = self.purpose.old.as_ref();
        let change = old.and_then(|old| change_of(peer, old));
        let name = peer.name.clone();
        if before.as_ref() != Some(peer) {
            self.out
                .push(HostOutput::News(HostNews::Sat { name, id, change }));
        }
        self.unsaid = true;
        let same = before.as_ref() == self.seats.get(&id);
        if before.is_some() && !(same && self.has_said_yes(&id)) {
            // Its new connection knows nothing of a close that is under way.
            self.without(at, &id);
        }
        if self.seats.len() == self.purpose.seats && matches!(self.phase, HostPhase::Gathering) {
            self.close(at);
        }
        Ok(())
    }

    /// Takes the seat of one that sits down again in the middle of a close, and names it: else one
    /// guest could use up all closes, and nobody would see who.
    fn sit_again(&mut self, at: Moment, id: &PeerId) -> Result<(), Refusal> {
        let closes_with_it =
            matches!(&self.phase, HostPhase::Closing(closing) if closing.sitting.contains(id));
        if !closes_with_it || *id == self.own {
            return Ok(());
        }
        let again = self.again.entry(*id).or_insert(0);
        *again += 1;
        if *again > MOST_AGAIN {
            self.purpose.barred.insert(*id);
            self.lose(at, *id, Some(Refusal::Barred));
            return Err(Refusal::Barred);
        }
        self.lose(at, *id, None);
        Ok(())
    }

    fn seat(&mut self, id: PeerId, lines: &str) -> Result<(), Refusal> {
        let peer = Peers::parse_peer(lines).map_err(|e| {
            Refusal::Lines(match e {
                PeersError::Count { .. } => "is not one [[peer]]".into(),
                other => other.to_string(),
            })
        })?;
        if peer.id != id {
            return Err(Refusal::Lines("has the id of another key".into()));
        }
        if self.purpose.barred.contains(&id) {
            return Err(Refusal::Barred);
        }
        if self.seats.len() >= self.purpose.seats && !self.seats.contains_key(&id) {
            return Err(Refusal::Full);
        }
        let others = || self.seats.values().filter(|other| other.id != id);
        let sits = others().find(|other| look_alike(&other.name, &peer.name));
        let kept = self.kept();
        // The same name as in the old list with another key is allowed: members see the change.
        let old = kept
            .iter()
            .find(|other| other.id != id && other.name != peer.name && look_alike(&other.name, &peer.name));
        if let Some(other) = sits.or(old.copied()) {
            return Err(Refusal::Name(other.name.clone()));
        }
        let stays = |other: &&&Peer| other.id != id && other.name != peer.name;
        let kept = kept.iter().filter(stays).copied();
        let all: Vec<Peer> = others().chain(kept).chain([&peer]).cloned().collect();
        let checked = check_entries(&all).and_then(|()| check_relays(&all, &self.purpose.relays));
        checked.map_err(|(_, key, problem)| Refusal::Lines(format!("{key} {problem}")))?;
        self.seats.insert(id, peer);
        Ok(())
    }

    /// The parties of the old list that stay and do not sit here.
    fn kept(&self) -> Vec<&Peer> {
        let stays = |peer: &&Peer| {
            let mut seats = self.seats.values();
            !self.removed.contains(&peer.name)
                && seats.all(|seat| seat.id != peer.id && seat.name != peer.name)
        };
        let old = self.purpose.old.iter().flat_map(|old| old.as_slice());
        old.filter(stays).collect()
    }

    /// Takes what a guest that sits says. What belongs to an earlier close was on its way, and is
    /// nothing.
    pub fn hear(&mut self, at: Moment, id: PeerId, message: ToHost) {
        if !self.seats.contains_key(&id) || self.is_over() {
            return;
        }
        let fine = match message {
            ToHost::Here => true,
            ToHost::Sit { .. } => false,
            ToHost::No => return self.lose(at, id, None),
            ToHost::Commit { close, commitment } => {
                self.step(close, |closing| closing.commit(id, commitment))
            }
            ToHost::Reveal { close, drawn } => self.step(close, |closing| closing.reveal(id, drawn)),
            ToHost::Yes { close, signature } => self.yes_of(close, id, signature),
        };
        if !fine {
            self.lose(at, id, Some(Refusal::Fault));
        }
    }

    /// Does a step of the close with this number; false: it does not belong there.
    fn step(
        &mut self,
        close: u32,
        take: impl FnOnce(&mut LobbyClose) -> Result<Option<CloseStep>, ()>,
    ) -> bool {
        let HostPhase::Closing(closing) = &mut self.phase else {
            return close <= self.closes;
        };
        if close != closing.close {
            return close < closing.close;
        }
        match take(closing) {
            Err(()) => return false,
            Ok(None) => {}
            Ok(Some(CloseStep::Commitments(message))) => self.say_to_sitting(message),
            Ok(Some(CloseStep::Number(message, numbered))) => {
                self.say_to_sitting(message);
                if let HostPhase::Closing(closing) = std::mem::replace(&mut self.phase, HostPhase::Gathering)
                {
                    self.phase = HostPhase::Comparing(Comparing::new(closing.sitting, *numbered.clone()));
                }
                self.out.push(HostOutput::News(HostNews::Number(*numbered)));
            }
        }
        true
    }

    /// Says it to all who take part in the close but to the host itself.
    fn say_to_sitting(&mut self, message: ToGuest) {
        let sitting = match &self.phase {
            HostPhase::Closing(closing) => closing.sitting.clone(),
            HostPhase::Comparing(comparing) => comparing.sitting.clone(),
            _ => vec![],
        };
        let guests = sitting.into_iter().filter(|id| *id != self.own);
        self.out.push(HostOutput::Say(guests.collect(), message));
    }

    fn yes_of(&mut self, close: u32, id: PeerId, signature: Signature) -> bool {
        let HostPhase::Comparing(comparing) = &mut self.phase else {
            return close <= self.closes;
        };
        if close != comparing.numbered.close {
            return close < comparing.numbered.close;
        }
        if !comparing.sitting.contains(&id) || !comparing.confirmed.add(id, signature) {
            return false;
        }
        let name = self.seats[&id].name.clone();
        self.out.push(HostOutput::News(HostNews::Yes { name }));
        let Some(message) = comparing.signatures() else {
            return true;
        };
        self.say_to_sitting(message);
        if let HostPhase::Comparing(comparing) = std::mem::replace(&mut self.phase, HostPhase::Over) {
            let (numbered, confirmed) = (comparing.numbered, comparing.confirmed);
            self.out
                .push(HostOutput::News(HostNews::InForce(numbered, confirmed)));
        }
        true
    }

    /// The host's operator has compared the number of this close, and says yes. False: that close
    /// is not the last one any more.
    pub fn yes(&mut self, close: u32) -> bool {
        let digest = match &self.phase {
            HostPhase::Comparing(comparing) if comparing.numbered.close == close => comparing.numbered.digest,
            _ => return false,
        };
        let signature = sign_list(&self.key, &digest);
        self.yes_of(close, self.own, signature)
    }

    /// The connection of a guest is gone. A yes that it has said stands, and so does its seat: it
    /// gets the list over its next connection, or by mail.
    pub fn left(&mut self, at: Moment, id: PeerId) {
        if !self.has_said_yes(&id) {
            self.lose(at, id, None);
        }
    }

    /// Whether a guest has signed the list that is compared now.
    fn has_said_yes(&self, id: &PeerId) -> bool {
        match &self.phase {
            HostPhase::Comparing(comparing) => comparing.confirmed.of(id).is_some(),
            _ => false,
        }
    }

    /// Takes a seat away, with a reason for the guest if it is the host's.
    fn lose(&mut self, at: Moment, id: PeerId, why: Option<Refusal>) {
        let Some(peer) = (id != self.own && !self.is_over())
            .then(|| self.seats.remove(&id))
            .flatten()
        else {
            return;
        };
        self.out.push(HostOutput::News(HostNews::Left {
            name: peer.name,
            why: why.clone(),
        }));
        if let Some(why) = why {
            self.out.push(HostOutput::Dismiss(id, ToGuest::Refused(why)));
        }
        self.unsaid = true;
        self.without(at, &id);
    }

    /// Somebody is not there any more as it was: a close that it takes part in cannot be finished.
    fn without(&mut self, at: Moment, id: &PeerId) {
        match &self.phase {
            HostPhase::Closing(closing) if closing.sitting.contains(id) => self.close(at),
            HostPhase::Comparing(comparing) if comparing.sitting.contains(id) => {
                self.phase = HostPhase::Gathering;
                self.out.push(HostOutput::News(HostNews::Void));
            }
            _ => {}
        }
    }

    /// The operator takes somebody out, for good. False: nobody has this name.
    pub fn remove(&mut self, at: Moment, name: &str) -> bool {
        if let Some(id) = self
            .seats
            .values()
            .find(|peer| peer.name == name)
            .map(|peer| peer.id)
        {
            if id == self.own {
                return false;
            }
            self.purpose.barred.insert(id);
            // Whoever does not sit keeps its line of the old list: without this it would come back.
            let old = self.purpose.old.iter().flat_map(|old| old.as_slice());
            let lines = old.filter(|peer| peer.id == id);
            self.removed.extend(lines.map(|peer| peer.name.clone()));
            self.lose(at, id, Some(Refusal::Barred));
            return true;
        }
        let kept = self.kept().iter().any(|peer| peer.name == name);
        if kept {
            self.removed.insert(name.to_owned());
            self.out.push(HostOutput::News(HostNews::Left {
                name: name.to_owned(),
                why: Some(Refusal::Barred),
            }));
            match &self.phase {
                HostPhase::Closing(_) => self.close(at),
                HostPhase::Comparing(_) => {
                    self.phase = HostPhase::Gathering;
                    self.out.push(HostOutput::News(HostNews::Void));
                }
                _ => {}
            }
        }
        kept
    }

    /// Closes the lobby with all who sit now, anew if it was closed.
    pub fn close(&mut self, at: Moment) {
        if self.is_over() {
            return;
        }
        if self.closes == MOST_CLOSES {
            return self.end();
        }
        let kept = self.kept().into_iter();
        let mut all: Vec<Peer> = self.seats.values().chain(kept).cloned().collect();
        all.sort_by(|one, next| one.name.cmp(&next.name));
        let sitting = all.iter().filter(|peer| self.seats.contains_key(&peer.id));
        let sitting: Vec<PeerId> = sitting.map(|peer| peer.id).collect();
        let found = all.len();
        let Ok(list) = Peers::with_relays(all, self.purpose.relays.clone()) else {
            // Each seat was checked beside all others; only their number can be wrong.
            self.phase = HostPhase::Gathering;
            return self.out.push(HostOutput::News(HostNews::TooFew { found }));
        };
        // So that no list that was in force once can be sent round again as the next.
        let list = match &self.purpose.old {
            Some(old) => list.following(old),
            None => list,
        };
        self.closes += 1;
        let deadline = at.now.plus_millis(STEP_MS);
        let (closing, message) =
            LobbyClose::begin((self.closes, list), sitting, deadline, (self.own, at.drawn));
        self.phase = HostPhase::Closing(closing);
        self.out.push(HostOutput::News(HostNews::Closing(self.closes)));
        self.say_to_sitting(message);
        self.step(self.closes, |closing| Ok(closing.number()));
    }

    /// Ends the lobby without a list.
    pub fn end(&mut self) {
        if self.is_over() {
            return;
        }
        self.phase = HostPhase::Over;
        let guests = self.seats.keys().filter(|id| **id != self.own);
        let ends = guests.map(|id| HostOutput::Dismiss(*id, ToGuest::Ended));
        self.out.extend(ends.collect::<Vec<_>>());
        self.out.push(HostOutput::News(HostNews::Ended));
    }

    /// Time goes by: says who sits if that changed, and closes anew without those who were silent.
    /// Called once a second, and at [`Host::deadline`].
    pub fn tick(&mut self, at: Moment) {
        if std::mem::take(&mut self.unsaid) && !self.is_over() {
            let mut names: Vec<String> = self.seats.values().map(|peer| peer.name.clone()).collect();
            names.sort();
            let guests = self.seats.keys().filter(|id| **id != self.own);
            let guests = guests.copied().collect();
            self.out.push(HostOutput::Say(guests, ToGuest::Sitting { names }));
        }
        let silent = match &self.phase {
            HostPhase::Closing(closing) if at.now >= closing.deadline => closing.silent(),
            _ => return,
        };
        // They go first, so that one close does for all of them.
        self.phase = HostPhase::Gathering;
        for id in silent {
            self.lose(at, id, Some(Refusal::Silent));
        }
        self.close(at);
    }

    /// The list that was last given a number, while it is compared.
    pub fn compared(&self) -> Option<&Numbered> {
        match &self.phase {
            HostPhase::Comparing(comparing) => Some(&comparing.numbered),
            _ => None,
        }
    }
}

/// How a line differs from the old list; `None`: it is in it.
fn change_of(peer: &Peer, old: &Peers) -> Option<ListChange> {
    let (name, known) = (peer.name.clone(), old.as_slice());
    match known.iter().find(|other| other.id == peer.id) {
        Some(before) if before == peer => None,
        Some(before) if before.name != name => Some(ListChange::Renamed {
            from: before.name.clone(),
            name,
        }),
        Some(_) => Some(ListChange::Moved { name }),
        None if old.index_of(&name).is_some() => Some(ListChange::Rekeyed { name }),
        None => Some(ListChange::Added { name, id: peer.id }),
    }
}
