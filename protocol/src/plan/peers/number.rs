//! Numbers that stand for a list or a meeting, for people to compare.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::plan::hex::{hex, unhex};
use crate::plan::peers::entry::PeerProblem;

/// SHA-256 of a list as programs write it: which list another one takes the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListDigest(pub(super) [u8; 32]);

impl ListDigest {
    /// Reads 64 of 0-9 and a-f.
    pub(super) fn parse(text: &str) -> Result<Self, PeerProblem> {
        let digest = unhex::<32>("follows", text).map_err(|_| PeerProblem::Digest)?;
        Ok(ListDigest(digest))
    }
}

impl fmt::Display for ListDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// SHA-256 of a list's bytes, which names it.
pub fn list_digest(list: &[u8]) -> [u8; 32] {
    Sha256::digest(list).into()
}

/// The last `digits` decimal digits of a number of 32 bytes, big endian.
pub(crate) fn last_digits(mut number: [u8; 32], digits: usize) -> String {
    let mut found = vec![b'0'; digits];
    for digit in found.iter_mut().rev() {
        let mut rest = 0;
        for byte in &mut number {
            let part = rest * 256 + u16::from(*byte);
            // A quotient of a rest below 10 and a byte is below 256.
            *byte = (part / 10) as u8;
            rest = part % 10;
        }
        *digit = b'0' + rest as u8;
    }
    String::from_utf8(found).expect("digits")
}

/// How often the hash is repeated: each try of somebody who looks for two lists with one number
/// costs as much.
const REPEATED: u32 = 1 << 20;

/// The number of a list that goes by mail: 40 digits of SHA-256, repeated 2^20 times. Two lists
/// with one number take 2^86 hashes (2^66 lists). It takes some tenths of a second.
pub fn list_number(list: &[u8]) -> String {
    let mut hash = Sha256::new_with_prefix(b"undertone/peers-number/1\0");
    hash.update(list);
    let mut number: [u8; 32] = hash.finalize().into();
    for _ in 1..REPEATED {
        number = Sha256::digest(number).into();
    }
    last_digits(number, 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_decimal_number() {
        let of = |number: u128| {
            let mut bytes = [0; 32];
            bytes[16..].copy_from_slice(&number.to_be_bytes());
            bytes
        };
        assert_eq!(last_digits(of(0), 10), "0000000000");
        assert_eq!(last_digits(of(41_873_204_660_000_000_123), 10), "0000000123");
        for number in [7, u128::from(u64::MAX), u128::MAX] {
            assert_eq!(last_digits(of(number), 40), format!("{number:040}"));
        }
        // 2^256 - 1, from an independent program.
        assert_eq!(
            last_digits([255; 32], 40),
            "3269984665640564039457584007913129639935"
        );
    }

    #[test]
    fn a_lists_number_is_that_of_the_repeated_hash() {
        // From Python: hashlib.sha256, 2^20 times, modulo 10^40.
        assert_eq!(
            list_number(b"version = 1\n"),
            "7277118772239390011043107568703467446662"
        );
        assert_ne!(list_number(b"version = 1\n"), list_number(b"version = 1"));
    }
}
