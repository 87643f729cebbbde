//! Exact numbers as a run file writes them.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::lattice::payload::Ratio;

/// An exact fraction as a person writes it: "1/3", "-1/2", "0.25", "2". Prints as "1/3" or "2".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction(pub Ratio);

/// Text that is no fraction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} is not an exact number; write a fraction or a decimal in a string, such as \"1/3\", \"-1/2\" or \"0.25\""
)]
pub struct NotAFraction {
    found: String,
}

impl FromStr for Fraction {
    type Err = NotAFraction;

    fn from_str(text: &str) -> Result<Self, NotAFraction> {
        // Short enough that nothing below can be large; a long text is cut in the message.
        let refuse = || NotAFraction {
            found: text.chars().take(32).collect(),
        };
        let digits =
            |part: &str| !part.is_empty() && part.len() <= 17 && part.bytes().all(|b| b.is_ascii_digit());
        let trimmed = text.trim();
        let (negative, magnitude) = match trimmed.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, trimmed),
        };
        let (numerator, denominator): (i64, i64) = if let Some((above, below)) = magnitude.split_once('/') {
            let (above, below) = (above.trim_end(), below.trim_start());
            if !digits(above) || !digits(below) {
                return Err(refuse());
            }
            (
                above.parse().map_err(|_| refuse())?,
                below.parse().map_err(|_| refuse())?,
            )
        } else if let Some((whole, decimals)) = magnitude.split_once('.') {
            let joined = format!("{whole}{decimals}");
            if !digits(whole) || !digits(decimals) || !digits(&joined) {
                return Err(refuse());
            }
            (
                joined.parse().map_err(|_| refuse())?,
                10i64.pow(decimals.len() as u32),
            )
        } else if digits(magnitude) {
            (magnitude.parse().map_err(|_| refuse())?, 1)
        } else {
            return Err(refuse());
        };
        let signed = if negative { -numerator } else { numerator };
        Ratio::new(signed, denominator).map(Fraction).ok_or_else(refuse)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.denominator() {
            1 => write!(f, "{}", self.0.numerator()),
            denominator => write!(f, "{}/{denominator}", self.0.numerator()),
        }
    }
}

impl Serialize for Fraction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FractionVisitor;
        impl Visitor<'_> for FractionVisitor {
            type Value = Fraction;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an exact number in a string, such as \"1/3\" or \"0.25\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Fraction, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(FractionVisitor)
    }
}
