//! The notation of gossip's active edges in a run file and a plan.

use std::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::topology::active_edges::ActiveEdges;

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
