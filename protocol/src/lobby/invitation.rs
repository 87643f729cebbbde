//! The text that lets somebody into a lobby: where it is, whose it is, and a token.

use std::fmt;

use libp2p_identity::{PeerId, PublicKey, ed25519};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::plan::peers::entry::Address;
use crate::plan::peers::{is_party_name, public_key};

/// Every invitation begins so.
const PREFIX: &str = "utn1";
const VERSION: u8 = 1;
/// The most addresses of a host.
pub const MOST_ADDRESSES: usize = 3;
/// Characters of the longest invitation: three addresses of 255 bytes.
const LONGEST: usize = 1600;
/// Base32 of RFC 4648, in small letters.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// An invitation. It prints no token.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    /// The host's id: an ed25519 key.
    pub host: PeerId,
    /// Lets its bearer sit down.
    pub token: [u8; 16],
    /// Minutes since 1970, after which nobody sits down any more.
    pub expires_min: u32,
    /// The group's name, `[a-z0-9-]{1,32}`.
    pub name: String,
    /// Where the host is reached: one to three addresses.
    pub at: Vec<Address>,
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invitation({}, {})", self.name, self.host)
    }
}

/// The reason why a text is no invitation (exit 2). The text is secret and not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InvitationError {
    /// It begins otherwise.
    #[error("an invitation begins with {PREFIX}; paste the whole text that the host sent")]
    Prefix,
    /// Signs that no invitation has, or a wrong sum: letters were lost or changed on the way.
    #[error("the invitation was damaged on the way; paste the whole text that the host sent")]
    Damaged,
    /// It is of a later program.
    #[error("the invitation is of a later version of this program; install that one")]
    Version,
}

fn base32(bytes: &[u8]) -> String {
    let mut text = String::new();
    for five in bytes.chunks(5) {
        let mut group = [0; 8];
        group[3..3 + five.len()].copy_from_slice(five);
        let bits = u64::from_be_bytes(group);
        let signs = (8 * five.len()).div_ceil(5);
        text.extend((0..signs).map(|sign| ALPHABET[(bits >> (35 - 5 * sign) & 31) as usize] as char));
    }
    text
}

fn of_base32(text: &str) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    for eight in text.as_bytes().chunks(8) {
        let mut bits: u64 = 0;
        for (place, sign) in eight.iter().enumerate() {
            let value = ALPHABET.iter().position(|known| known == sign)?;
            bits |= (value as u64) << (35 - 5 * place);
        }
        bytes.extend(&bits.to_be_bytes()[3..3 + 5 * eight.len() / 8]);
    }
    // One invitation has one spelling.
    (base32(&bytes) == text).then_some(bytes)
}

fn sum(bytes: &[u8]) -> [u8; 4] {
    let hash: [u8; 32] = Sha256::digest(bytes).into();
    [hash[0], hash[1], hash[2], hash[3]]
}

/// Takes bytes from the front.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

/// Takes a text behind its length.
fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let length = take(rest, 1)?[0];
    std::str::from_utf8(take(rest, usize::from(length))?).ok()
}

impl Invitation {
    /// The text to be sent.
    ///
    /// # Panics
    /// The host's id is not of an ed25519 key, or an address has more than 255 bytes: neither is in
    /// a checked [`Peer`](crate::plan::peers::Peer).
    pub fn to_text(&self) -> String {
        let key = public_key(&self.host).and_then(|key| key.try_into_ed25519().ok());
        let mut bytes = vec![VERSION];
        bytes.extend(key.expect("a host has an ed25519 key").to_bytes());
        bytes.extend(self.token);
        bytes.extend(self.expires_min.to_be_bytes());
        let addresses = self.at.iter().take(MOST_ADDRESSES).map(Address::as_str);
        for text in [self.name.as_str()].into_iter().chain(addresses) {
            bytes.push(u8::try_from(text.len()).expect("names and addresses are short"));
            bytes.extend(text.as_bytes());
        }
        bytes.extend(sum(&bytes));
        format!("{PREFIX}{}", base32(&bytes))
    }

    /// Reads the text as somebody pasted it: spaces and line breaks do not count, nor do capitals.
    ///
    /// # Errors
    /// It is none, or was damaged.
    pub fn parse(text: &str) -> Result<Self, InvitationError> {
        let signs = text
            .chars()
            .filter(|sign| !sign.is_whitespace())
            .take(LONGEST + 1);
        let text: String = signs.map(|sign| sign.to_ascii_lowercase()).collect();
        let code = text.strip_prefix(PREFIX).ok_or(InvitationError::Prefix)?;
        let bytes = of_base32(code).ok_or(InvitationError::Damaged)?;
        match bytes.split_last_chunk::<4>() {
            Some((body, found)) if sum(body) == *found => match body {
                [VERSION, rest @ ..] => Self::of_body(rest).ok_or(InvitationError::Damaged),
                _ => Err(InvitationError::Version),
            },
            _ => Err(InvitationError::Damaged),
        }
    }

    fn of_body(mut rest: &[u8]) -> Option<Self> {
        let rest = &mut rest;
        let key = ed25519::PublicKey::try_from_bytes(take(rest, 32)?).ok()?;
        let token = take(rest, 16)?.try_into().ok()?;
        let expires_min = u32::from_be_bytes(take(rest, 4)?.try_into().ok()?);
        let name = take_text(rest)?.to_owned();
        let mut at = vec![];
        while !rest.is_empty() {
            let address: Address = take_text(rest)?.parse().ok()?;
            address.check_reachable().ok()?;
            at.push(address);
        }
        let host = PublicKey::from(key).to_peer_id();
        let fine = is_party_name(&name) && (1..=MOST_ADDRESSES).contains(&at.len());
        fine.then_some(Invitation {
            host,
            token,
            expires_min,
            name,
            at,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::peers::simulated_keypair;

    fn invitation() -> Invitation {
        Invitation {
            host: simulated_keypair(0).public().to_peer_id(),
            token: [0xa5; 16],
            expires_min: 29_900_000,
            name: "heart".into(),
            at: vec![
                "/dns/alice.example/tcp/7001".parse().unwrap(),
                "/ip6/2001:db8::1/tcp/7001".parse().unwrap(),
            ],
        }
    }

    #[test]
    fn an_invitation_is_read_as_it_was_written_and_prints_no_token() {
        let text = invitation().to_text();
        assert_eq!(Invitation::parse(&text), Ok(invitation()));
        // As mail programs break and people type it.
        let broken: String = text.chars().flat_map(|sign| [' ', sign, '\n']).collect();
        assert_eq!(Invitation::parse(&broken.to_uppercase()), Ok(invitation()));
        let shown = format!("{:?}", invitation());
        assert!(!shown.contains("165") && !shown.contains("a5a5"), "{shown}");
    }

    #[test]
    fn the_code_is_that_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "my"),
            ("fo", "mzxq"),
            ("foo", "mzxw6"),
            ("foob", "mzxw6yq"),
            ("fooba", "mzxw6ytb"),
            ("foobar", "mzxw6ytboi"),
        ] {
            assert_eq!(base32(bytes.as_bytes()), text);
            assert_eq!(of_base32(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(of_base32("mz"), None, "a second spelling of \"f\"");
    }

    #[test]
    fn every_changed_or_lost_letter_is_noticed() {
        let text = invitation().to_text();
        for place in 4..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[place] = if changed[place] == b'a' { b'b' } else { b'a' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(Invitation::parse(&changed), Err(InvitationError::Damaged));
            assert_eq!(Invitation::parse(&text[..place]), Err(InvitationError::Damaged));
        }
        assert_eq!(Invitation::parse("utn2abc"), Err(InvitationError::Prefix));
        let body = [2, 0, 0];
        let later = format!("utn1{}", base32(&[&body[..], &sum(&body)].concat()));
        assert_eq!(Invitation::parse(&later), Err(InvitationError::Version));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,300}", body: Vec<u8>) {
            let _ = Invitation::parse(&text);
            let _ = Invitation::parse(&format!("utn1{text}"));
            let body = [&[VERSION][..], &body].concat();
            let code = base32(&[&body[..], &sum(&body)].concat());
            let _ = Invitation::parse(&format!("utn1{code}"));
        }
    }
}
