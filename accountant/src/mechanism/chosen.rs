//! The mechanism of a run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use undertone_protocol::lattice::injection::InjectionError;
use undertone_protocol::plan::exchange::choice::Exchange;
use undertone_protocol::plan::run_file::settings::InjectionChoice;

use crate::mechanism::inca::{CustomInjection, InjectionSpec, NamedInjection};
use crate::mechanism::pairwise::Pairwise;
use crate::mechanism::ppsc::Ppsc;
use crate::mechanism::rules::Rules;

/// How value and noise get into states, and what a share is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "injection must be \"incremental\", \"early\", \"late\", or {\"c\": [T + 1 numbers], \"z\": [T + 1 rows of T numbers]}"
)]
pub enum Mechanism {
    /// INCA: a part of the value and some noise come in in each round, by a row of (c, Z); a share
    /// is an equal part of the state.
    Inca(InjectionSpec),
    /// PPSC: the value comes in before round 1. A party that sends hands out its whole state less a
    /// fresh noise, which it keeps.
    #[serde(skip)]
    Ppsc,
    /// Masks of pairs: a share is a noise that its sender deducts, and that both expand from a key.
    #[serde(skip)]
    Pairwise,
    /// A mechanism of one's own, for accounts of its executions: no plan has one, and no file.
    #[serde(skip)]
    Custom(OwnRules),
}

/// The rules of a mechanism that is none of ours. Two are equal if they are the same object.
#[derive(Debug, Clone)]
pub struct OwnRules(Arc<dyn Rules>);

impl PartialEq for OwnRules {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Mechanism {
    /// A mechanism of one's own. An execution of it runs on the protocol's machine for its
    /// [`Rules::injection`], or for states that are handed over or masked; losses are read off what
    /// that machine sends. All else that the rules say is taken at its word.
    pub fn of_own(rules: impl Rules + 'static) -> Self {
        Mechanism::Custom(OwnRules(Arc::new(rules)))
    }

    /// Returns this mechanism's own answers.
    pub fn rules(&self) -> &dyn Rules {
        match self {
            Mechanism::Inca(injection) => injection,
            Mechanism::Ppsc => &Ppsc,
            Mechanism::Pairwise => &Pairwise,
            Mechanism::Custom(OwnRules(rules)) => &**rules,
        }
    }

    /// The mechanism of an exchange, with its default injection, for what does not depend on the
    /// injection; `None` for gossip over edges, which has its own accounts.
    pub fn with_default_injection(exchange: &Exchange) -> Option<Self> {
        match exchange {
            Exchange::Inca(_) => Some(InjectionSpec::Named(NamedInjection::Incremental).into()),
            Exchange::Ppsc(_) => Some(Mechanism::Ppsc),
            Exchange::PairMasks(_) => Some(Mechanism::Pairwise),
            Exchange::Gossip(_) => None,
        }
    }

    /// The mechanism of a run of `rounds` rounds with this exchange; gossip over edges as INCA with
    /// its default injection.
    pub fn of_exchange(exchange: &Exchange, rounds: usize) -> Result<Self, InjectionError> {
        let noise = match exchange {
            Exchange::Inca(inca) => &inca.noise,
            Exchange::Ppsc(_) => return Ok(Mechanism::Ppsc),
            Exchange::PairMasks(_) => return Ok(Mechanism::Pairwise),
            Exchange::Gossip(_) => return Ok(InjectionSpec::Named(NamedInjection::Incremental).into()),
        };
        Ok(Mechanism::Inca(match noise.injection() {
            InjectionChoice::Incremental => InjectionSpec::Named(NamedInjection::Incremental),
            InjectionChoice::Early => InjectionSpec::Named(NamedInjection::Early),
            InjectionChoice::Late => InjectionSpec::Named(NamedInjection::Late),
            custom => {
                let exact = custom.exact(rounds as u32)?.to_f64();
                let z = (0..=exact.rounds()).map(|t| exact.z(t).to_vec()).collect();
                InjectionSpec::Custom(CustomInjection {
                    c: exact.c().to_vec(),
                    z,
                })
            }
        }))
    }
}

impl From<InjectionSpec> for Mechanism {
    fn from(injection: InjectionSpec) -> Self {
        Mechanism::Inca(injection)
    }
}
