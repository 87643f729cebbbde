//! Invariants of the parties of a run, whatever happened to them: nobody publishes above the
//! budget, and no two hold different means as agreed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{read_json, run_in};

/// A party of a run that is over.
#[derive(Debug)]
pub struct Survivor {
    /// As the plan names it.
    pub name: String,
    /// The exit code of its process.
    pub code: i64,
    /// Where its mean would lie.
    pub mean: PathBuf,
    /// Where its receipt would lie.
    pub receipt: PathBuf,
}

/// How many means a run left as agreed, and how each party ended: its receipt's outcome, or `gone`.
#[derive(Debug)]
pub struct Left {
    /// Different ones; more than one is wrong but after averaging.
    pub agreed: usize,
    /// In the order of the survivors.
    pub ends: Vec<String>,
}

/// Checks every party's exit code, receipt and mean. `averaged`: nodes average over the public
/// graph, so that their means differ within the accuracy that the plan states.
pub fn check(folder: &Path, plan: &Path, parties: &[Survivor], averaged: bool) -> Left {
    let mut agreed: BTreeSet<Vec<u8>> = BTreeSet::new();
    let ends = parties.iter().map(|party| {
        let mean = party
            .mean
            .exists()
            .then(|| std::fs::read(&party.mean).expect("readable"));
        let (agrees, end) = check_party(folder, plan, party);
        agreed.extend(mean.filter(|_| agrees));
        end
    });
    let ends = ends.collect();
    assert!(averaged || agreed.len() <= 1, "{} means are agreed", agreed.len());
    Left {
        agreed: agreed.len(),
        ends,
    }
}

/// Whether its receipt says that its mean is agreed, and how it ended.
fn check_party(folder: &Path, plan: &Path, party: &Survivor) -> (bool, String) {
    let Survivor {
        name,
        code,
        mean,
        receipt,
    } = party;
    assert!([0, 4, 5, 6, 137, 143].contains(code), "{name} exited with {code}");
    assert!(*code != 0 || mean.exists(), "{name} is done without a mean");
    if !receipt.exists() {
        assert!(
            !mean.exists(),
            "{name} has a mean of which no receipt says anything"
        );
        return (false, "gone".into());
    }
    let object = read_json(receipt);
    if mean.exists() {
        let claimed = object["epsilon_claimed"].as_f64().expect("a claim");
        assert!(
            object["epsilon"]
                .as_f64()
                .is_some_and(|epsilon| epsilon <= claimed * (1.0 + 1e-9)),
            "{name} published above the budget: {object}"
        );
    }
    let checked = run_in(folder, [Path::new("receipt"), receipt, Path::new("--plan"), plan]);
    assert_eq!(checked.code, 0, "{name}: {}{}", checked.stdout, checked.stderr);
    (
        object["agreed"] == true,
        object["outcome"].as_str().expect("an outcome").into(),
    )
}
