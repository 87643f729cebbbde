//! The file format of executions where parties have masks in common and exchange nothing: the
//! pairs, and who is opened.
//!
//! It is an [`Execution`] in other words: a mask is a share that one party of the pair hands to the
//! other, and that always arrives.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize, Serializer, ser};
use undertone_protocol::plan::run_file::settings::ExchangeName;
use undertone_protocol::topology::party::Party;

use crate::execution::adversary::Adversary;
use crate::execution::checked::Execution;
use crate::execution::error::{ExecutionError, check_party, check_some, invalid};
use crate::execution::raw::RawExecution;
use crate::mechanism::chosen::Mechanism;

/// The file as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecutionOfMasks {
    /// "pairwise".
    kind: ExchangeName,
    parties: usize,
    /// Pairs that have a mask in common.
    masks: Vec<(Party, Party)>,
    corrupted: Vec<Party>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    published: Option<Vec<Party>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sensitivity: Option<Vec<f64>>,
}

/// Whether a text is an object that says it is of masks of pairs.
pub(super) fn is_of_masks(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        kind: ExchangeName,
    }
    let kind = serde_json::from_str::<Kind>(text).map(|found| found.kind);
    kind.is_ok_and(|kind| kind == ExchangeName::Pairwise)
}

/// Reads the file; unknown keys are refused.
pub(super) fn parse(text: &str) -> Result<Execution, ExecutionError> {
    let file: ExecutionOfMasks =
        serde_json::from_str(text).map_err(|error| ExecutionError::syntax(&error))?;
    file.check()
}

/// Writes an execution with masks of pairs in this format.
pub(super) fn serialize<S: Serializer>(execution: &Execution, serializer: S) -> Result<S::Ok, S::Error> {
    let Adversary::Corrupted(corrupted) = execution.adversary() else {
        let problem = "an execution with masks has a coalition, no eavesdropper";
        return Err(ser::Error::custom(problem));
    };
    let raw = execution.raw();
    let each = raw.out.iter().flat_map(|round| round.iter().enumerate());
    let pairs = each.flat_map(|(from, to)| to.iter().map(move |&to| (from.min(to), from.max(to))));
    let masks: BTreeSet<(Party, Party)> = pairs.collect();
    let file = ExecutionOfMasks {
        kind: ExchangeName::Pairwise,
        parties: execution.parties(),
        masks: masks.into_iter().collect(),
        corrupted: corrupted.iter().copied().collect(),
        published: Some(execution.published().iter().copied().collect()),
        sensitivity: raw.sensitivity.clone(),
    };
    file.serialize(serializer)
}

impl ExecutionOfMasks {
    fn check(self) -> Result<Execution, ExecutionError> {
        check_some(self.parties)?;
        let rules = Mechanism::Pairwise;
        rules.rules().check_size(self.parties, 1, self.masks.len())?;
        // A party hands out at most one a round: as many rounds as one has masks, at most.
        let mut out: Vec<Vec<Vec<Party>>> = vec![vec![vec![]; self.parties]];
        let mut rounds = vec![0; self.parties];
        let mut seen = BTreeSet::new();
        for (index, &(one, other)) in self.masks.iter().enumerate() {
            let place = || format!("masks[{index}]");
            check_party(self.parties, place, one)?;
            check_party(self.parties, place, other)?;
            if one == other || !seen.insert((one.min(other), one.max(other))) {
                return Err(invalid(place(), "is no pair, or is listed twice"));
            }
            if rounds[one] == out.len() {
                rules
                    .rules()
                    .check_size(self.parties, out.len() + 1, self.masks.len())?;
                out.push(vec![vec![]; self.parties]);
            }
            out[rounds[one]][one].push(other);
            rounds[one] += 1;
        }
        RawExecution {
            parties: self.parties,
            rounds: out.len(),
            mechanism: rules,
            out,
            online: None,
            shares: None,
            corrupted: Some(self.corrupted),
            observed: None,
            rolled_back: None,
            published: self.published,
            sensitivity: self.sensitivity,
        }
        .try_into()
    }
}

#[cfg(test)]
mod tests {
    use undertone_protocol::topology::schedule::Schedule;

    use super::*;
    use crate::execution::usable::revealed;

    #[test]
    fn what_is_written_is_read() {
        let out = Schedule::harary(7, 3, 1).out().to_vec();
        let run = Execution::fault_free(Mechanism::Pairwise, out).expect("a graph");
        let run = run.with_corrupted([2, 5]).expect("a coalition");
        let run = run.with_published([0, 1, 2, 3, 4, 5]).expect("parties");
        let text = serde_json::to_string(&run).expect("a file");
        let read = Execution::parse(&text).expect("what we write we read");
        assert_eq!(*read.mechanism(), Mechanism::Pairwise);
        assert_eq!(revealed(&read), revealed(&run));
        assert_eq!(serde_json::to_string(&read).expect("a file"), text);
    }

    #[test]
    fn nonsense_is_refused_by_its_place() {
        let refused = |masks: &str| {
            let text =
                format!("{{\"kind\": \"pairwise\", \"parties\": 4, \"masks\": {masks}, \"corrupted\": []}}");
            Execution::parse(&text).expect_err("nonsense").to_string()
        };
        for (masks, word) in [
            ("[[0, 4]]", "masks[0]"),
            ("[[0, 1], [1, 0]]", "masks[1]"),
            ("[[2, 2]]", "masks[0]"),
            ("7", "expected a sequence"),
        ] {
            let said = refused(masks);
            assert!(said.contains(word), "{said}");
        }
        let key = "{\"kind\": \"pairwise\", \"parties\": 4, \"masks\": [], \"corrupted\": [], \"rounds\": 1}";
        assert!(Execution::parse(key).is_err());
    }
}
