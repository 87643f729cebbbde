//! The accounts that runs are charged to, and the total that each may cost.

use std::fmt;

use serde::{Deserialize, Serialize};
use undertone_accountant::losses::charge::Charge;
use undertone_protocol::plan::run_file::settings::{Adjacency, Unit};

/// The name of an account: whose budget it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountName {
    /// The data set's name in the configuration.
    pub data_set: String,
    /// "party" or "record": their losses are of different things.
    pub unit: String,
}

impl AccountName {
    /// The account of this data set for losses of this unit.
    pub fn new(data_set: &str, unit: Unit) -> Self {
        AccountName {
            data_set: data_set.to_owned(),
            unit: unit_name(unit).to_owned(),
        }
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.data_set, self.unit)
    }
}

/// As files write it.
pub fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Party => "party",
        Unit::Record => "record",
    }
}

/// The subject of a run's charge: the change of which data, and of what kind.
///
/// A run counts in the account of its own unit. One that protects a party counts in the account of
/// the data set's records, too: a record is a part of what its party contributes, so that another
/// record makes of the party's value x another one, x′, in the range.
///
/// - `replace-one` hides every such change: what is seen of x and of x′ is μ-Gaussian-DP, and the
///   record's loss is the party's.
/// - `zero-out` hides x against 0, and 0 against x′. Both changes one after another are
///   2μ-Gaussian-DP (Dong, Roth and Su 2022, theorem 2.14), and no less holds for all: of a ball of
///   radius C it hides a move by C, and x and x′ may lie 2C apart. So the record's loss is twice
///   the party's, its square four times.
///
/// Draws and sampling are the run's, whoever's change is looked at. The other way round nothing
/// follows: a party may change in all of its records, and what these together cost is not what one
/// costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protected {
    /// The data set's name in the configuration.
    pub data_set: String,
    /// The unit whose change the run hides.
    pub unit: Unit,
    /// The changes of it that are hidden.
    pub adjacency: Adjacency,
}

impl Protected {
    /// Every account that a run is charged to, its own unit's first.
    pub fn accounts(&self) -> Vec<AccountName> {
        let units: &[Unit] = match self.unit {
            Unit::Party => &[Unit::Party, Unit::Record],
            Unit::Record => &[Unit::Record],
        };
        let account = |unit: &Unit| AccountName::new(&self.data_set, *unit);
        units.iter().map(account).collect()
    }

    /// Converts a run's charge to what counts in an account: nothing in one that it is not charged
    /// to.
    pub fn in_account(&self, account: &AccountName, charge: Charge) -> Charge {
        if !self.accounts().contains(account) {
            return Charge::NOTHING;
        }
        let own = account.unit == unit_name(self.unit);
        match self.adjacency {
            Adjacency::ZeroOut if !own => charge.times(2.0),
            Adjacency::ZeroOut | Adjacency::ReplaceOne => charge,
        }
    }
}

/// The total that an account may spend: ε at δ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Total {
    /// The ε that all its runs together may cost.
    pub epsilon: f64,
    /// The δ at which that holds, with the chance of bad draws and what sampling adds.
    pub delta: f64,
}

impl Total {
    /// Whether a charge is within it.
    pub(super) fn allows(self, charge: Charge) -> bool {
        charge.is_within(self.epsilon, self.delta)
    }
}
