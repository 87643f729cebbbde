//! Gossip averaging (`kind = "gossip"`): who reads what of a party's messages, and which edges are
//! active in a round.

use std::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::plan::run_file::problem::{Checked, Problem, count, require};
use crate::plan::run_file::settings::{
    Coalitions, Data, Dissemination, IndependentNoise, InjectionChoice, MechanismSettings, Privacy, Rounds,
    RunSettings, TaskKind, Unit,
};
use crate::topology::active_edges::ActiveEdges;

/// The kinds that gossip's keys belong to, as messages call them.
pub(super) const GOSSIP: &str = "mechanism.kind = \"gossip\"";

/// What neighbours read of a party's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sums {
    /// The messages themselves: what hides a value from a neighbour is its own noise alone.
    #[default]
    Open,
    /// Only sums of them, each over a circle.
    Secure,
}

/// Whose messages one reader adds up, where it reads sums only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Circle {
    /// Those of its neighbours.
    Neighbours,
    /// Everybody's, one sum a round for all.
    Everybody,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DrawnEdges {
    degree: usize,
}

impl Serialize for ActiveEdges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            ActiveEdges::All => serializer.serialize_str("all"),
            ActiveEdges::Matching => serializer.serialize_str("matching"),
            ActiveEdges::Degree(degree) => DrawnEdges { degree }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ActiveEdges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EdgesVisitor;
        impl<'de> Visitor<'de> for EdgesVisitor {
            type Value = ActiveEdges;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\", \"matching\" or { degree = 3 }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ActiveEdges, E> {
                match text {
                    "all" => Ok(ActiveEdges::All),
                    "matching" => Ok(ActiveEdges::Matching),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ActiveEdges, A::Error> {
                let drawn = DrawnEdges::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(ActiveEdges::Degree(drawn.degree))
            }
        }
        deserializer.deserialize_any(EdgesVisitor)
    }
}

/// How parties gossip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GossipSettings {
    /// What neighbours read of a party's messages.
    pub sums: Sums,
    /// Whose messages one reader adds up; of sums only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circle: Option<Circle>,
    /// Which edges of the private graph are active in a round.
    pub edges: ActiveEdges,
}

impl GossipSettings {
    /// Refuses what a run file may say and that this version's plans do not carry.
    pub(super) fn check_carried(&self) -> Checked {
        require(self.sums == Sums::Open, "mechanism.sums", || Problem::NotYet {
            found: "\"secure\"",
            instead: "\"open\", or kind = \"pairwise\": the secure sum of everybody, one release a plan",
        })
    }
}

/// What a run file says beside a mechanism of gossip.
pub(super) struct GossipCase<'a> {
    pub(super) task: TaskKind,
    pub(super) data: &'a Data,
    pub(super) privacy: &'a Privacy,
    pub(super) mechanism: &'a MechanismSettings,
    pub(super) run: &'a RunSettings,
}

impl GossipCase<'_> {
    /// Refuses what does not go with gossip, so many parties taking part.
    pub(super) fn check(&self, gossip: &GossipSettings, parties: usize, most_releases: u64) -> Checked {
        let not_yet = |found, instead| Problem::NotYet { found, instead };
        require(self.task == TaskKind::Mean, "task", || {
            not_yet(
                "another task than \"mean\" with kind = \"gossip\"",
                "task = \"mean\"",
            )
        })?;
        require(self.data.unit == Unit::Party, "data.unit", || {
            not_yet("\"record\" with kind = \"gossip\"", "unit = \"party\"")
        })?;
        require(self.data.weights.is_none(), "data.weights", || Problem::OnlyFor {
            only: "another mechanism.kind than \"gossip\", whose parties all weigh the same",
        })?;
        let any = self.privacy.coalitions == Coalitions::Any;
        require(any, "privacy.coalitions", || {
            not_yet("\"static\" with kind = \"gossip\"", "coalitions = \"any\"")
        })?;
        count("data.releases", self.data.releases, 1, most_releases)?;
        if let ActiveEdges::Degree(degree) = gossip.edges {
            count(
                "mechanism.edges.degree",
                degree as u64,
                1,
                parties.saturating_sub(1) as u64,
            )?;
        }
        self.check_mechanism()?;
        self.check_sums(gossip)
    }

    /// Refuses keys of other mechanisms, and another number of rounds than there are releases.
    fn check_mechanism(&self) -> Checked {
        let settings = self.mechanism;
        let other = || Problem::OnlyFor {
            only: "another mechanism.kind than \"gossip\"",
        };
        let injection = settings.injection == InjectionChoice::Incremental;
        require(injection, "mechanism.injection", other)?;
        require(settings.rollback, "mechanism.rollback", other)?;
        require(settings.fanout == 1, "mechanism.fanout", other)?;
        let own = settings.independent_noise == IndependentNoise::Calibrated && !settings.accept_exact_sum;
        require(own, "mechanism.independent_noise", other)?;
        require(!settings.local_noise_ok, "mechanism.local_noise_ok", other)?;
        require(
            self.run.dissemination == Dissemination::Flood,
            "run.dissemination",
            other,
        )?;
        match settings.rounds {
            Rounds::Fixed(rounds) if self.data.releases > 1 => count(
                "mechanism.rounds",
                rounds.into(),
                self.data.releases,
                self.data.releases,
            ),
            _ => Ok(()),
        }
    }

    /// Sums are of streams, and sealed; open messages are not.
    fn check_sums(&self, gossip: &GossipSettings) -> Checked {
        let secure = gossip.sums == Sums::Secure;
        require(gossip.circle.is_none() || secure, "mechanism.circle", || {
            Problem::OnlyFor {
                only: "mechanism.sums = \"secure\"",
            }
        })?;
        require(!secure || self.data.releases > 1, "mechanism.sums", || {
            Problem::NotYet {
                found: "\"secure\" for one release",
                instead: "kind = \"pairwise\", the secure sum of everybody, or data.releases of 2 or more",
            }
        })?;
        require(secure == self.run.sealed, "run.sealed", || Problem::OnlyFor {
            only: "mechanism.sums = \"secure\", which has it (of gossip)",
        })
    }
}
