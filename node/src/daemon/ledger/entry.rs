//! The lines of a ledger.

use serde::{Deserialize, Serialize};

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "entry", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Entry {
    /// A run's plan is being marked as spent.
    Charged {
        digest: String,
        data_set: String,
        unit: String,
        #[serde(with = "loss")]
        mu_squared: f64,
        at_ms: u64,
    },
    /// A charged run's loss turned out larger.
    Raised {
        digest: String,
        #[serde(with = "loss")]
        mu_squared: f64,
        at_ms: u64,
    },
    /// A charged run ended, and nobody opens what it sealed: it has cost nothing.
    Closed { digest: String, at_ms: u64 },
    /// A charged training ended by itself, and has cost this and no more.
    Settled {
        digest: String,
        #[serde(with = "loss")]
        mu_squared: f64,
        at_ms: u64,
    },
}

/// What the mark beside the key says of a charged run.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Noted {
    pub(super) data_set: String,
    pub(super) unit: String,
    #[serde(with = "loss")]
    pub(super) mu_squared: f64,
}

/// A loss as JSON has it: null for an infinite one.
mod loss {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(loss: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        loss.is_finite().then_some(*loss).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        let loss = Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::INFINITY);
        if loss >= 0.0 {
            Ok(loss)
        } else {
            Err(serde::de::Error::custom("a loss below 0"))
        }
    }
}
