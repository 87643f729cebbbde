//! `task = "stream"`: gossip of one vector of each party, or of a row of each in every round.

use serde::{Deserialize, Serialize};

use crate::plan::computation::beside::Beside;
use crate::plan::exchange::choice::Exchange;
use crate::plan::exchange::gossip::{Gossip, MessagesRead};
use crate::plan::run_file::limits::{LONGEST_MS, MOST_EXCHANGE_ROUNDS};
use crate::plan::run_file::problem::{Checked, Problem, count, require};
use crate::plan::run_file::settings::{Dissemination, Rounds, RunSettings, Unit};

/// A round of secure sums lasts at least so many times `settle_ms`, in each of which a flood comes
/// to an end: of what is sealed, two of agreeing, and of what opens it.
pub(in crate::plan) const SETTLING_STAGES: u64 = 4;

/// The sums of a round that one reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sums {
    /// Its neighbours' messages: what hides a value from a neighbour is its own noise alone.
    Open,
    /// The sum of its neighbours' messages.
    Neighbours,
    /// The sum of everybody's rows, one for all.
    Everybody,
}

/// The changes of a stream that are hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protect {
    /// All of a party's releases may change, together.
    #[default]
    All,
    /// One of them may.
    One,
}

/// The number of rows that each party contributes, and the claims about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSettings {
    /// The number of vectors that a party contributes, one a round; of one, all rounds are about
    /// it.
    pub releases: u64,
    /// The changes that are hidden.
    pub protect: Protect,
    /// Whether rows may depend on estimates of the run (gradients at them, say): then nothing is
    /// claimed that rests on rows that do not.
    pub adaptive: bool,
}

impl StreamSettings {
    /// Refuses what does not go with a stream.
    pub(super) fn check(&self, beside: &Beside<'_>) -> Checked {
        let (data, run) = (beside.data, beside.run);
        require(data.unit == Unit::Party, "data.unit", || Problem::NotYet {
            found: "\"record\" in a stream",
            alternative: "unit = \"party\"",
        })?;
        require(data.weights.is_none(), "data.weights", || Problem::OnlyFor {
            only: "another task than \"stream\", whose parties all weigh the same",
        })?;
        // No file says otherwise; a plan that does would average what is no final.
        let flood = run.dissemination == Dissemination::Flood;
        require(flood, "run.dissemination", || Problem::OnlyFor {
            only: "task = \"mean\"",
        })?;
        count("data.releases", self.releases, 1, MOST_EXCHANGE_ROUNDS.into())?;
        let steered = self.adaptive && self.releases == 1;
        require(!steered, "data.adaptive", || Problem::OnlyFor {
            only: "data.releases of 2 or more",
        })?;
        match beside.exchange {
            Exchange::PairMasks(_) => self.check_sums(run),
            Exchange::Gossip(gossip) => self.check_gossip(gossip, run),
            Exchange::Inca(_) | Exchange::Ppsc(_) => Err((
                "mechanism.kind".into(),
                Problem::OnlyFor {
                    only: "another task than \"stream\"",
                },
            )),
        }
    }

    /// Each round is about one release, or all about the one that there is.
    fn check_gossip(&self, gossip: &Gossip, run: &RunSettings) -> Checked {
        if let (Rounds::Fixed(rounds), true) = (gossip.rounds, self.releases > 1) {
            count("mechanism.rounds", rounds.into(), self.releases, self.releases)?;
        }
        match gossip.read {
            MessagesRead::Sums => self.check_sums(run),
            MessagesRead::Each => require(!run.sealed, "run.sealed", || Problem::OnlyFor {
                only: "sums = \"neighbours\" or \"everybody\", which have it",
            }),
        }
    }

    /// Sums are of many releases, and sealed.
    fn check_sums(&self, run: &RunSettings) -> Checked {
        require(self.releases > 1, "mechanism.sums", || Problem::NotYet {
            found: "a secure sum of one release",
            alternative: "task = \"mean\", the secure sum of everybody; sums = \"open\"; or data.releases of 2 or \
                      more",
        })?;
        require(run.sealed, "run.sealed", || Problem::OnlyFor {
            only: "another task: the sums of a stream are sealed",
        })?;
        let least = run.settle_ms.saturating_mul(SETTLING_STAGES);
        count("run.round_ms", run.round_ms, least, LONGEST_MS.max(least))
    }
}
