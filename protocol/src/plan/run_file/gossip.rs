//! Gossip averaging (`kind = "gossip"`): who reads what of a party's messages, and which edges are
//! active in a round.

use std::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::topology::active_edges::ActiveEdges;

/// The kinds that gossip's keys belong to, as messages call them.
pub(super) const GOSSIP: &str = "mechanism.kind = \"gossip\"";

/// What neighbours read of a party's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SumsChoice {
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
    pub sums: SumsChoice,
    /// Whose messages one reader adds up; of sums only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circle: Option<Circle>,
    /// Which edges of the private graph are active in a round.
    pub edges: ActiveEdges,
}

impl GossipSettings {
    /// Whether neighbours read sums of each other's messages, and nothing else of them.
    pub fn sums_neighbours(&self) -> bool {
        self.sums == SumsChoice::Secure && self.circle != Some(Circle::Everybody)
    }

    /// Whether everybody reads the one sum of all messages of a round, and nothing else of them.
    pub fn sums_everybody(&self) -> bool {
        self.sums == SumsChoice::Secure && self.circle == Some(Circle::Everybody)
    }
}
