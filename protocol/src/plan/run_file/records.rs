//! The number of records of each party, where a record is what a plan protects.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::run_file::limits::MOST_RECORDS;
use crate::plan::run_file::problem::{Checked, Problem};

/// The number of records of one party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// The number that the plan says.
    Exactly(u64),
    /// At most the number that the plan says: the party's READY says how many, and START fixes it.
    AtMost(u64),
}

impl Records {
    /// The largest number that the party may bring.
    pub fn most(self) -> u64 {
        match self {
            Records::Exactly(most) | Records::AtMost(most) => most,
        }
    }

    /// Whether the party may bring this many.
    pub fn admits(self, count: u64) -> bool {
        match self {
            Records::Exactly(exactly) => count == exactly,
            Records::AtMost(most) => (1..=most).contains(&count),
        }
    }

    /// Whether a READY with this count may be of the party: a count within the bound where the plan
    /// has one, and none where the plan has the count.
    pub(crate) fn admit_announced(records: Option<Records>, announced: Option<u32>) -> bool {
        match (records, announced) {
            (Some(bound @ Records::AtMost(_)), Some(count)) => bound.admits(count.into()),
            (Some(Records::Exactly(_)) | None, announced) => announced.is_none(),
            (Some(Records::AtMost(_)), None) => false,
        }
    }
}

/// `data.records`: how many records each party brings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected records = 1000, the number of rows of every party; { aarhus = 843, … }, that of each; or { at_most = 1000 } or { at_most = { aarhus = 1000, … } }, if each party says its own when it joins"
)]
pub enum RecordCounts {
    /// A bound, for all parties or for each.
    AtMost(Bounded),
    /// The number, of all parties or of each.
    Exactly(Each),
}

/// The one key of a bound. A party cannot be called so: names have no underscore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounded {
    /// The largest number of records.
    pub at_most: Each,
}

/// One number for all parties, or one for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Each {
    /// The number of every party.
    Same(u64),
    /// The number of each party, by its name.
    Named(BTreeMap<String, u64>),
}

impl RecordCounts {
    /// Every party brings this many.
    pub fn exactly(count: u64) -> Self {
        RecordCounts::Exactly(Each::Same(count))
    }

    /// No party brings more than this.
    pub fn at_most(most: u64) -> Self {
        RecordCounts::AtMost(Bounded {
            at_most: Each::Same(most),
        })
    }

    /// Each party brings as many as this says of its name.
    pub fn named(counts: BTreeMap<String, u64>) -> Self {
        RecordCounts::Exactly(Each::Named(counts))
    }

    fn numbers(&self) -> &Each {
        match self {
            RecordCounts::AtMost(Bounded { at_most }) => at_most,
            RecordCounts::Exactly(each) => each,
        }
    }

    /// Returns the largest numbers as numbers that the plan has: a capacity of each.
    pub(in crate::plan) fn into_capacity(self) -> Self {
        match self {
            RecordCounts::AtMost(Bounded { at_most }) => RecordCounts::Exactly(at_most),
            exactly => exactly,
        }
    }

    /// Forgets the parties of these names.
    pub fn forget(&mut self, these: impl Fn(&String) -> bool) {
        let (RecordCounts::AtMost(Bounded { at_most: numbers }) | RecordCounts::Exactly(numbers)) = self;
        if let Each::Named(numbers) = numbers {
            numbers.retain(|name, _| !these(name));
        }
    }

    /// Returns the records of the party with this name; `None` if no entry names it.
    pub fn of(&self, name: &str) -> Option<Records> {
        let number = match self.numbers() {
            Each::Same(number) => *number,
            Each::Named(numbers) => *numbers.get(name)?,
        };
        Some(match self {
            RecordCounts::AtMost(_) => Records::AtMost(number),
            RecordCounts::Exactly(_) => Records::Exactly(number),
        })
    }

    /// The parties that they name, with the key of each.
    pub(crate) fn names(&self) -> impl Iterator<Item = (String, &String)> {
        let named = match self.numbers() {
            Each::Same(_) => None,
            Each::Named(numbers) => Some(numbers.keys()),
        };
        let key = self.key();
        named
            .into_iter()
            .flatten()
            .map(move |name| (format!("{key}.{name}"), name))
    }

    /// The dotted key that the numbers stand below.
    fn key(&self) -> &'static str {
        match self {
            RecordCounts::AtMost(_) => "data.records.at_most",
            RecordCounts::Exactly(_) => "data.records",
        }
    }

    /// Refuses a party without a record, or with too many.
    pub(crate) fn check(&self) -> Checked {
        let numbers: Vec<(String, u64)> = match self.numbers() {
            Each::Same(number) => vec![(self.key().to_owned(), *number)],
            Each::Named(numbers) => {
                let each = numbers.iter();
                each.map(|(name, &number)| (format!("{}.{name}", self.key()), number))
                    .collect()
            }
        };
        let odd = numbers
            .into_iter()
            .find(|(_, number)| !(1..=MOST_RECORDS).contains(number));
        odd.map_or(Ok(()), |(field, found)| {
            let (least, most) = (1, MOST_RECORDS);
            Err((field, Problem::Count { found, least, most }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        records: RecordCounts,
    }

    fn read(text: &str) -> Result<RecordCounts, String> {
        let file: Result<File, _> = toml::from_str(text);
        file.map(|file| file.records)
            .map_err(|error| error.message().to_owned())
    }

    #[test]
    fn counts_are_of_all_or_of_each_and_exact_or_bounds() {
        let of = |text: &str, name: &str| read(text).expect(text).of(name);
        assert_eq!(of("records = 7", "a"), Some(Records::Exactly(7)));
        assert_eq!(of("records = { a = 7 }", "a"), Some(Records::Exactly(7)));
        assert_eq!(of("records = { a = 7 }", "b"), None);
        assert_eq!(of("records = { at_most = 7 }", "b"), Some(Records::AtMost(7)));
        // A name that no party can have: the draft refuses it.
        assert_eq!(
            of("records = { at_most = 7, a = 3 }", "a"),
            Some(Records::Exactly(3))
        );
        assert_eq!(
            of("records = { at_most = { b = 7 } }", "b"),
            Some(Records::AtMost(7))
        );
        for odd in ["records = \"many\"", "records = { a = \"7\" }", "records = -1"] {
            let message = read(odd).expect_err(odd);
            assert!(message.contains("{ at_most = 1000 }"), "{odd}: {message}");
        }
    }

    #[test]
    fn counts_of_zero_or_beyond_the_lattice_are_refused_by_name() {
        let refused = |text: &str| read(text).expect(text).check().expect_err(text).0;
        assert_eq!(refused("records = 0"), "data.records");
        assert_eq!(refused("records = { a = 1, b = 0 }"), "data.records.b");
        assert_eq!(
            refused("records = { at_most = { b = 2147483649 } }"),
            "data.records.at_most.b"
        );
        assert_eq!(read("records = 2147483648").expect("most").check(), Ok(()));
    }

    #[test]
    fn announced_counts_must_be_within_their_bound() {
        let admits = |records, announced| Records::admit_announced(records, announced);
        let bound = Some(Records::AtMost(5));
        assert!(admits(bound, Some(1)) && admits(bound, Some(5)));
        assert!(!admits(bound, Some(0)) && !admits(bound, Some(6)) && !admits(bound, None));
        for fixed in [Some(Records::Exactly(5)), None] {
            assert!(admits(fixed, None) && !admits(fixed, Some(5)));
        }
    }
}
