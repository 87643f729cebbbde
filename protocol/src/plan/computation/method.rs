//! Ways to a model, and what goes with one way alone.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The method by which a model comes from rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodChoice {
    /// Step by step, from sums of clipped gradients.
    #[default]
    Descent,
    /// Least squares only: from one sum of second moments, solved by each for itself.
    Statistics,
}

impl MethodChoice {
    /// Whether it is what a file without a word on it means.
    pub(super) fn is_default(&self) -> bool {
        *self == MethodChoice::default()
    }
}

/// The restraint on a model's length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RidgeChoice {
    /// Statistics only: a fixed share of the expected spectral norm of the noise in the moments.
    Auto,
    /// λ ≥ 0: what the gradient grows by, or each feature's second moment.
    Constant(f64),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum AnyRidge {
    Named(String),
    Number(f64),
}

impl RidgeChoice {
    /// The number, where the choice is one.
    pub fn constant(self) -> Option<f64> {
        match self {
            RidgeChoice::Auto => None,
            RidgeChoice::Constant(ridge) => Some(ridge),
        }
    }
}

impl Serialize for RidgeChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            RidgeChoice::Auto => AnyRidge::Named("auto".into()),
            RidgeChoice::Constant(ridge) => AnyRidge::Number(ridge),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RidgeChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match AnyRidge::deserialize(deserializer) {
            Ok(AnyRidge::Named(name)) if name == "auto" => Ok(RidgeChoice::Auto),
            Ok(AnyRidge::Number(ridge)) => Ok(RidgeChoice::Constant(ridge)),
            _ => Err(D::Error::custom("a ridge is \"auto\" or a number")),
        }
    }
}
