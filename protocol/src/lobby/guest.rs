//! A guest: checks all that the host says, takes part in the number, and signs its operator's yes.

use std::fmt;

use libp2p_identity::{Keypair, PeerId};
use thiserror::Error;

use crate::lobby::check_number::{check_number, commitment};
use crate::lobby::confirmed::{Confirmed, sign_list};
use crate::lobby::names::look_alike;
use crate::messages::lobby::{Refusal, ToGuest, ToHost};
use crate::plan::peers::number::list_digest;
use crate::plan::peers::{Peer, Peers, is_party_name};
use crate::plan::run_file::limits::MOST_PARTIES;

/// The most closes of one lobby. Each is one chance in 10^10 for a host that shows two lists.
pub const MOST_CLOSES: u32 = 20;

/// A list that all who sit have drawn a number for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The close's number.
    pub close: u32,
    /// The list as a file.
    pub text: String,
    /// The list.
    pub list: Peers,
    /// The places in the list of those who sit, in its order.
    pub sitting: Vec<usize>,
    /// SHA-256 of the file.
    pub digest: [u8; 32],
    /// Ten digits for people to compare.
    pub number: String,
}

/// The news of a lobby for a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestNews {
    /// These sit.
    Sitting(Vec<String>),
    /// The lobby is being closed for the n-th time.
    Closing(u32),
    /// Here is the number: do all have it?
    Number(Numbered),
    /// The list is in force.
    InForce(Numbered, Confirmed),
    /// A list has come into force that this program has not seen: its key said yes to it before
    /// the program was started again.
    Missed,
    /// The host sent this guest away.
    Refused(Refusal),
    /// The lobby ended without a list.
    Ended,
}

/// Something that an honest host never says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Cheat {
    /// A step out of turn, or one of another close.
    #[error("it said a step of closing the lobby out of turn, or twice")]
    Turn,
    /// More closes than there are chances to be given.
    #[error(
        "it closed the lobby more than {MOST_CLOSES} times; each time is a chance to show you another list than the others"
    )]
    Closes,
    /// A list that is not one, or is written in another way than all programs write it.
    #[error("its list is not usable: {0}")]
    List(String),
    /// The guest's own lines are missing or changed.
    #[error("its list does not have your lines as you sent them")]
    OwnLines,
    /// The host itself is not in the list.
    #[error("the host is not in its own list")]
    Host,
    /// A name that people would take for another.
    #[error("its list has the names {0:?} and {1:?}, which look alike")]
    Names(String, String),
    /// A party that is not here, and whose lines are not those of the guest's list of now.
    #[error(
        "its list has {0}, who is not here and does not stand like that in your list of now: only the host vouches for this"
    )]
    Absent(String),
    /// The names of those who sit are none.
    #[error("it wrote something else than names onto your screen")]
    Screen,
    /// Those who sit are not of the list, or not in its order.
    #[error("it named people as sitting here who are not in the list")]
    Sitting,
    /// The commitments or drawn numbers are not one for each, or do not belong to each other.
    #[error("the numbers that it passed on do not belong to what it passed on before")]
    Numbers,
    /// A signature that is missing or does not hold.
    #[error("it said that all have signed, and {0}'s signature does not hold")]
    Signature(String),
}

/// A list under way to its number.
struct NumberDrawing {
    close: u32,
    text: String,
    list: Peers,
    sitting: Vec<usize>,
    digest: [u8; 32],
    drawn: [u8; 32],
    commitment: [u8; 32],
}

enum GuestPhase {
    Waiting,
    Committed(NumberDrawing),
    Revealed(NumberDrawing, Vec<[u8; 32]>),
    Numbered(Numbered),
    Confirmed(Numbered),
    Over,
}

/// A guest of one lobby, over all its connections.
pub struct Guest {
    key: Keypair,
    own: Peer,
    host: PeerId,
    /// The list of now, if this guest has one.
    old: Option<Peers>,
    /// The number of the last close on this connection: none is repeated.
    last: u32,
    /// Closes that it took part in, on all connections.
    closes: u32,
    phase: GuestPhase,
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guest({})", self.own.name)
    }
}

/// A guest's next message, and the news for its operator.
type GuestTurn = (Option<ToHost>, Option<GuestNews>);

impl Guest {
    /// A guest with its own lines, which knows the host by the invitation's key. Parties that do
    /// not sit here it takes from the list of now, and from nobody's word.
    pub fn new(key: Keypair, own: Peer, host: PeerId, old: Option<Peers>) -> Self {
        Guest {
            key,
            own,
            host,
            old,
            last: 0,
            closes: 0,
            phase: GuestPhase::Waiting,
        }
    }

    /// The connection is a new one: nothing of an earlier one goes on, but that a yes stands. The
    /// closes still count.
    pub fn reconnected(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, GuestPhase::Waiting) {
            GuestPhase::Confirmed(numbered) => GuestPhase::Confirmed(numbered),
            _ => GuestPhase::Waiting,
        };
    }

    /// Takes what the host says. `drawn` are 32 fresh random bytes, used if a close begins.
    ///
    /// # Errors
    /// The host says what an honest one never says. The guest is over then.
    pub fn hear(&mut self, message: ToGuest, drawn: [u8; 32]) -> Result<GuestTurn, Cheat> {
        let heard = match (message, std::mem::replace(&mut self.phase, GuestPhase::Over)) {
            (ToGuest::Here, phase) => self.stay(phase, None),
            (ToGuest::Sitting { names }, GuestPhase::Waiting) => {
                if names.len() > MOST_PARTIES || !names.iter().all(|name| is_party_name(name)) {
                    return Err(Cheat::Screen);
                }
                self.stay(GuestPhase::Waiting, Some(GuestNews::Sitting(names)))
            }
            // Nothing comes onto the screen between a number and the answer to it.
            (ToGuest::Sitting { .. }, phase) => self.stay(phase, None),
            (ToGuest::Refused(why), _) => (None, Some(GuestNews::Refused(why))),
            (ToGuest::Ended, _) => (None, Some(GuestNews::Ended)),
            (_, GuestPhase::Over) => return Err(Cheat::Turn),
            (ToGuest::List { close, list, sitting }, _) => self.closing(close, list, &sitting, drawn)?,
            (ToGuest::Commitments { close, all }, GuestPhase::Committed(closing)) => {
                self.reveal(close, all, closing)?
            }
            (ToGuest::Drawn { close, all }, GuestPhase::Revealed(closing, commitments)) => {
                self.number(close, &all, closing, &commitments)?
            }
            (ToGuest::Signatures { .. }, GuestPhase::Waiting) => (None, Some(GuestNews::Missed)),
            (ToGuest::Signatures { close, all }, GuestPhase::Confirmed(numbered)) => {
                if close != numbered.close || all.len() != numbered.sitting.len() {
                    return Err(Cheat::Turn);
                }
                let mut confirmed = Confirmed::none(numbered.digest);
                for (place, signature) in numbered.sitting.iter().zip(all) {
                    let peer = &numbered.list.as_slice()[*place];
                    if !confirmed.add(peer.id, signature) {
                        return Err(Cheat::Signature(peer.name.clone()));
                    }
                }
                (None, Some(GuestNews::InForce(numbered, confirmed)))
            }
            _ => return Err(Cheat::Turn),
        };
        Ok(heard)
    }

    fn stay(&mut self, phase: GuestPhase, news: Option<GuestNews>) -> GuestTurn {
        self.phase = phase;
        (None, news)
    }

    /// Step 1: checks the list and commits to what was drawn.
    fn closing(
        &mut self,
        close: u32,
        text: String,
        sitting: &[String],
        drawn: [u8; 32],
    ) -> Result<GuestTurn, Cheat> {
        if close <= self.last {
            return Err(Cheat::Turn);
        }
        self.last = close;
        self.closes += 1;
        if self.closes > MOST_CLOSES || close > MOST_CLOSES {
            return Err(Cheat::Closes);
        }
        let list = Peers::parse(&text).map_err(|e| Cheat::List(e.to_string()))?;
        if list.to_toml() != text {
            return Err(Cheat::List(
                "it is not written as this program writes lists".into(),
            ));
        }
        let sitting = self.check_seats(&list, sitting)?;
        self.check_absent(&list, &sitting)?;
        let digest = list_digest(text.as_bytes());
        let commitment = commitment(close, &digest, &self.own.id, &drawn);
        self.phase = GuestPhase::Committed(NumberDrawing {
            close,
            text,
            list,
            sitting,
            digest,
            drawn,
            commitment,
        });
        let said = ToHost::Commit { close, commitment };
        Ok((Some(said), Some(GuestNews::Closing(close))))
    }

    /// The places of those who sit, ourselves and the host among them; no name of theirs looks like
    /// another of the list.
    fn check_seats(&self, list: &Peers, sitting: &[String]) -> Result<Vec<usize>, Cheat> {
        let places = sitting.iter().map(|name| list.index_of(name));
        let places: Vec<usize> = places.collect::<Option<_>>().ok_or(Cheat::Sitting)?;
        if !places.is_sorted_by(|one, next| one < next) {
            return Err(Cheat::Sitting);
        }
        let peers = list.as_slice();
        let sits = |wanted: &dyn Fn(&Peer) -> bool| places.iter().any(|place| wanted(&peers[*place]));
        if !sits(&|peer| *peer == self.own) {
            return Err(Cheat::OwnLines);
        }
        if !sits(&|peer| peer.id == self.host) {
            return Err(Cheat::Host);
        }
        for place in &places {
            let name = &peers[*place].name;
            let mut others = peers.iter().filter(|peer| peer.name != *name);
            if let Some(other) = others.find(|peer| look_alike(&peer.name, name)) {
                return Err(Cheat::Names(name.clone(), other.name.clone()));
            }
        }
        Ok(places)
    }

    /// Who does not sit is in the list of now, word for word: else the host could add parties of
    /// its own, or change those of people who are away, and nobody's signature would be missed.
    fn check_absent(&self, list: &Peers, sitting: &[usize]) -> Result<(), Cheat> {
        let stands = |peer: &Peer| self.old.as_ref().is_some_and(|old| old.as_slice().contains(peer));
        let mut absent = list.as_slice().iter().enumerate();
        match absent.find(|(place, peer)| !sitting.contains(place) && !stands(peer)) {
            Some((_, peer)) => Err(Cheat::Absent(peer.name.clone())),
            None => Ok(()),
        }
    }

    /// Step 2: its own commitment is among them, so it reveals what it drew.
    fn reveal(&mut self, close: u32, all: Vec<[u8; 32]>, closing: NumberDrawing) -> Result<GuestTurn, Cheat> {
        if close != closing.close {
            return Err(Cheat::Turn);
        }
        let peers = closing.list.as_slice();
        let own = closing
            .sitting
            .iter()
            .position(|place| peers[*place].id == self.own.id);
        let shown = own.and_then(|own| all.get(own));
        if all.len() != closing.sitting.len() || shown != Some(&closing.commitment) {
            return Err(Cheat::Numbers);
        }
        let drawn = closing.drawn;
        self.phase = GuestPhase::Revealed(closing, all);
        Ok((Some(ToHost::Reveal { close, drawn }), None))
    }

    /// Step 3: what each drew belongs to its commitment.
    fn number(
        &mut self,
        close: u32,
        all: &[[u8; 32]],
        closing: NumberDrawing,
        commitments: &[[u8; 32]],
    ) -> Result<GuestTurn, Cheat> {
        if close != closing.close {
            return Err(Cheat::Turn);
        }
        let peers = closing.list.as_slice();
        let belongs = |((place, drawn), shown): ((&usize, &[u8; 32]), &[u8; 32])| {
            commitment(close, &closing.digest, &peers[*place].id, drawn) == *shown
        };
        let mut each = closing.sitting.iter().zip(all).zip(commitments);
        if all.len() != closing.sitting.len() || !each.all(belongs) {
            return Err(Cheat::Numbers);
        }
        let numbered = Numbered {
            close,
            number: check_number(&closing.digest, commitments, all),
            text: closing.text,
            list: closing.list,
            sitting: closing.sitting,
            digest: closing.digest,
        };
        self.phase = GuestPhase::Numbered(numbered.clone());
        Ok((None, Some(GuestNews::Number(numbered))))
    }

    /// Whether the operator has said yes to the last list.
    pub fn has_said_yes(&self) -> bool {
        matches!(self.phase, GuestPhase::Confirmed(_))
    }

    /// The operator has compared the number of close `close`, knows all, and says yes. None: that
    /// close is not the last one any more.
    pub fn yes(&mut self, close: u32) -> Option<ToHost> {
        match std::mem::replace(&mut self.phase, GuestPhase::Over) {
            GuestPhase::Numbered(numbered) if numbered.close == close => {
                let signature = sign_list(&self.key, &numbered.digest);
                self.phase = GuestPhase::Confirmed(numbered);
                Some(ToHost::Yes { close, signature })
            }
            other => {
                self.phase = other;
                None
            }
        }
    }
}
