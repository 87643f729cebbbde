//! The lines of a ledger.

use serde::{Deserialize, Serialize};
use undertone_accountant::losses::charge::Charge;

use crate::daemon::ledger::account::{AccountName, Protected};
use crate::party::marks::Noted;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "entry", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Entry {
    /// A run's number for the draw of its schedule is about to be revealed. Nothing private leaves
    /// by that, and the draws that it is for can be chosen from: their chance stays charged,
    /// whatever becomes of the run.
    Drawn {
        digest: String,
        of: Protected,
        charge: Charge,
        at_ms: u64,
    },
    /// A run's plan is being marked as spent.
    Charged {
        digest: String,
        of: Protected,
        charge: Charge,
        at_ms: u64,
    },
    /// A charged run's loss turned out larger.
    Raised {
        digest: String,
        charge: Charge,
        at_ms: u64,
    },
    /// A charged run ended, and nobody opens what it sealed: it has cost nothing but its draw.
    Closed { digest: String, at_ms: u64 },
    /// A charged training ended by itself, and has cost this and no more.
    Settled {
        digest: String,
        charge: Charge,
        at_ms: u64,
    },
}

impl Entry {
    /// The plan's digest.
    pub(super) fn digest(&self) -> &str {
        match self {
            Entry::Drawn { digest, .. }
            | Entry::Charged { digest, .. }
            | Entry::Raised { digest, .. }
            | Entry::Closed { digest, .. }
            | Entry::Settled { digest, .. } => digest,
        }
    }
}

/// A charge, and what it is about. So the mark beside the key says it, too.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Booked {
    pub(super) of: Protected,
    pub(super) charge: Charge,
}

impl Booked {
    /// As the mark says it.
    pub(super) fn noted(&self) -> serde_json::Result<Noted> {
        let of = serde_json::to_value(&self.of)?;
        let charge = self.charge;
        Ok(Noted { of, charge })
    }

    pub(super) fn in_account(&self, account: &AccountName) -> Charge {
        self.of.in_account(account, self.charge)
    }
}
