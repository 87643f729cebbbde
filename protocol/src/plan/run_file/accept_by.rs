//! For how long members may accept what a daemon proposes, as a person writes it.

use std::fmt;
use std::str::FromStr;

use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Units that a time may be written in, with their milliseconds, the largest first.
const UNITS: [(&str, u64); 4] = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)];

/// The longest such time, in milliseconds: 30 days. Our choice: for as long a budget may be set
/// aside for a run that nobody else wants.
const LONGEST_MS: u64 = 30 * UNITS[0].1;

/// A time in milliseconds, 1 s to 30 days. Prints as "3d", "90min" or "45s".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptBy(u64);

impl AcceptBy {
    /// The time that a daemon's proposal stays open unless its run file says otherwise: three days,
    /// which span a weekend. Our choice.
    pub const DEFAULT: AcceptBy = AcceptBy(3 * UNITS[0].1);

    /// The time in milliseconds.
    pub fn as_millis(self) -> u64 {
        self.0
    }
}

/// Text that is no such time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} is not a duration from \"1s\" to \"30d\"; write a whole number with d, h, min or s, such as \"3d\" or \"90min\""
)]
pub struct NotATime {
    found: String,
}

impl FromStr for AcceptBy {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        let refuse = || NotATime {
            found: text.chars().take(32).collect(),
        };
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !c.is_ascii_digit()).ok_or_else(refuse)?;
        let (number, unit) = trimmed.split_at(end);
        let number: u64 = number.parse().map_err(|_| refuse())?;
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim_start());
        let milliseconds = unit.and_then(|(_, each)| number.checked_mul(*each));
        milliseconds
            .filter(|ms| (1..=LONGEST_MS).contains(ms))
            .map(AcceptBy)
            .ok_or_else(refuse)
    }
}

impl fmt::Display for AcceptBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |unit: &&(&str, u64)| self.0.is_multiple_of(unit.1);
        let (name, each) = UNITS.iter().find(fits).unwrap_or(&UNITS[3]);
        write!(f, "{}{name}", self.0 / each)
    }
}

impl Serialize for AcceptBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AcceptBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit_and_printed_in_the_largest_that_fits() {
        for (text, ms, printed) in [
            ("3d", 259_200_000, "3d"),
            ("48 h", 172_800_000, "2d"),
            ("90min", 5_400_000, "90min"),
            (" 1s ", 1000, "1s"),
            ("30d", LONGEST_MS, "30d"),
        ] {
            let read: AcceptBy = text.parse().expect(text);
            assert_eq!((read.as_millis(), read.to_string().as_str()), (ms, printed));
            assert_eq!(printed.parse(), Ok(read));
        }
        assert_eq!(AcceptBy::DEFAULT.to_string(), "3d");
        for wrong in [
            "",
            "3",
            "d",
            "-1d",
            "1.5h",
            "0s",
            "31d",
            "721h",
            "3 days",
            "18446744073709551615d",
            "99999999999999999999d",
        ] {
            let refused = wrong.parse::<AcceptBy>().expect_err(wrong).to_string();
            assert!(refused.contains("\"3d\""), "{refused}");
        }
    }
}
