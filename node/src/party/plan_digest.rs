//! A plan's digest as it is kept in memory: of every run there ever was.

use std::fmt;

use crate::party::plan_map::{Fixed, Key};

/// SHA-256 of a plan's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanDigest([u8; 32]);

impl PlanDigest {
    /// Reads 64 digits of lower-case hex; `None` of anything else.
    pub fn parse(hex: &str) -> Option<Self> {
        let digits = hex.as_bytes();
        let plain = digits.len() == 64 && digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)).filter(|_| plain) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        plain.then_some(PlanDigest(bytes))
    }
}

impl Fixed for PlanDigest {
    const BYTES: usize = 32;

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.0);
    }

    fn get(bytes: &[u8]) -> Self {
        let mut digest = [0; 32];
        digest.copy_from_slice(bytes);
        PlanDigest(digest)
    }
}

impl Key for PlanDigest {
    fn leading(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Display for PlanDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PlanDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanDigest({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_64_digits_of_lower_case_hex_and_nothing_else() {
        let digest = "0123456789abcdef".repeat(4);
        assert_eq!(PlanDigest::parse(&digest).unwrap().to_string(), digest);
        for other in [
            "",
            "d1",
            &digest[1..],
            &digest.to_uppercase(),
            &"+1".repeat(32),
            &"é".repeat(32),
        ] {
            assert_eq!(PlanDigest::parse(other), None, "{other}");
        }
    }
}
