//! All that is known of a run before it is calibrated.

use std::collections::BTreeMap;

use libp2p_identity::{PeerId, PublicKey};

use super::error::DraftError;
use crate::graph::Graph;
use crate::lattice::WEIGHT_UNIT;
use crate::peers::{Address, Peer, Peers, public_key};
use crate::run_file::{
    Data, GraphChoice, Mechanism, MechanismKind, Privacy, RunFile, RunFileError, RunSettings, Task, Unit,
    check_settings, supported,
};

/// A party of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Unique.
    pub name: String,
    /// Of its ed25519 key, unique.
    pub id: PeerId,
    /// Where it listens for private neighbours.
    pub private: Address,
    /// Where it listens for everybody.
    pub public: Address,
    /// `unit = "record"`: how many rows it brings.
    pub records: Option<u64>,
    /// Its public weight, if the run file gives weights.
    pub weight: Option<f64>,
    /// Δ of this party, in a state's units (see [`crate::sensitivity::Scales`]).
    pub sensitivity: f64,
}

impl Member {
    /// Its key, which the id contains.
    pub fn public_key(&self) -> PublicKey {
        public_key(&self.id).expect("members come from checked peers, whose ids contain an ed25519 key")
    }
}

/// Settings, members and graphs. Everything that a calibration needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Of the run.
    pub name: String,
    /// What is computed.
    pub task: Task,
    /// What each party brings.
    pub data: Data,
    /// The target.
    pub privacy: Privacy,
    /// How noise is shared out. `rounds` may still be `auto`.
    pub mechanism: Mechanism,
    /// Time-outs and sizes.
    pub run: RunSettings,
    /// In plan order.
    pub members: Vec<Member>,
    /// Who may exchange shares.
    pub private_graph: Graph,
    /// Who exchanges in the clear.
    pub public_graph: Graph,
}

impl Draft {
    /// Joins a run file and a peer list. `graph_seed` draws random graphs; it is public.
    pub fn new(file: RunFile, peers: &Peers, graph_seed: u64) -> Result<Self, DraftError> {
        let name = |party: usize| &peers.as_slice()[party].name;
        let private_graph = graph("topology.private", &file.topology.private, peers, graph_seed)?;
        self::private_graph("topology.private", &private_graph, file.mechanism.kind, name)?;
        let public_graph = graph(
            "topology.public",
            &file.topology.public,
            peers,
            graph_seed.wrapping_add(1),
        )?;
        connected("topology.public", &public_graph, name)?;
        let RunFile {
            task,
            name,
            data,
            privacy,
            mechanism,
            topology: _,
            run,
        } = file;
        let members = members(&data, peers.as_slice())?;
        let draft = Draft {
            name,
            task,
            data,
            privacy,
            mechanism,
            run,
            members,
            private_graph,
            public_graph,
        };
        draft.check()?;
        Ok(draft)
    }

    /// All checks; also for what was read from a plan.
    pub(super) fn check(&self) -> Result<(), DraftError> {
        check_settings(
            &self.name,
            &self.data,
            &self.privacy,
            &self.mechanism,
            &self.run,
            self.parties(),
        )
        .map_err(|(field, problem)| DraftError::Setting { field, problem })?;
        let name = |party: usize| &self.members[party].name;
        private_graph("private_graph", &self.private_graph, self.mechanism.kind, name)?;
        connected("public_graph", &self.public_graph, name)?;
        for (party, member) in self.members.iter().enumerate() {
            let degree = self.private_graph.neighbours(party).len();
            // To all neighbours in every round is no schedule; with one neighbour and k = 1 there is no other.
            let fanout = self.mechanism.fanout as usize;
            if degree < fanout || (degree == fanout && fanout > 1) {
                return Err(DraftError::Fanout {
                    fanout: self.mechanism.fanout,
                    name: member.name.clone(),
                    degree,
                });
            }
            if member.records.is_some() != (self.data.unit == Unit::Record) {
                return Err(DraftError::Records {
                    name: member.name.clone(),
                });
            }
        }
        Ok(())
    }

    /// Refuses what this version's plans do not carry, like [`RunFile::supported`].
    pub fn supported(&self) -> Result<(), RunFileError> {
        supported(&self.privacy, &self.mechanism).map_err(|(field, problem)| RunFileError::Field {
            field,
            line: None,
            problem,
        })
    }

    /// n.
    pub fn parties(&self) -> usize {
        self.members.len()
    }

    /// d: coordinates of a state.
    pub fn dimension(&self) -> usize {
        self.data.dimension()
    }

    /// n_H = n − colluding.
    pub fn honest(&self) -> usize {
        self.parties().saturating_sub(self.privacy.colluding)
    }

    /// Δ of a party, in a state's units; see [`Data::sensitivity`].
    pub fn sensitivity(&self, party: usize) -> f64 {
        self.members[party].sensitivity
    }

    /// The largest Δ of all parties.
    pub fn largest_sensitivity(&self) -> f64 {
        self.members
            .iter()
            .fold(0.0, |largest, member| largest.max(member.sensitivity))
    }

    /// How much a party's value counts in the result: its public weight, its number of records, or 1.
    pub fn weight(&self, party: usize) -> f64 {
        // Exact: at most 2⁵¹ units of a power of two.
        self.weight_units(party) as f64 / WEIGHT_UNIT as f64
    }

    /// The weight in the lattice's units of 1/[`WEIGHT_UNIT`].
    pub fn weight_units(&self, party: usize) -> u64 {
        let member = &self.members[party];
        match (member.records, member.weight) {
            (Some(records), _) => records.saturating_mul(WEIGHT_UNIT),
            // A checked weight is a positive multiple of the unit, at most 10⁶.
            (None, Some(weight)) => (weight * WEIGHT_UNIT as f64) as u64,
            (None, None) => WEIGHT_UNIT,
        }
    }

    /// W: the sum of weights.
    pub fn total_weight(&self) -> f64 {
        (0..self.parties()).map(|party| self.weight(party)).sum()
    }

    /// The largest absolute coordinate that a party injects, in a state's units: clipped and weighted, or the sum of its clipped records.
    pub fn value_bound(&self) -> f64 {
        let largest_weight = (0..self.parties())
            .map(|party| self.weight(party))
            .fold(0.0, f64::max);
        self.data.largest_coordinate() * largest_weight
    }

    /// The index of a name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.name == name)
    }
}

/// Members with their derived sensitivities.
pub(super) fn members(data: &Data, peers: &[Peer]) -> Result<Vec<Member>, DraftError> {
    let names: BTreeMap<&str, ()> = peers.iter().map(|peer| (peer.name.as_str(), ())).collect();
    for name in data.weights.iter().flatten().map(|(name, _)| name) {
        if !names.contains_key(name.as_str()) {
            return Err(DraftError::UnknownName {
                field: format!("data.weights.{name}"),
                name: name.clone(),
            });
        }
    }
    let member = |peer: &Peer| {
        let weight = data
            .weights
            .as_ref()
            .map(|weights| weights.get(&peer.name).copied().unwrap_or(1.0));
        Member {
            name: peer.name.clone(),
            id: peer.id,
            private: peer.private.clone(),
            public: peer.public.clone(),
            records: peer.records,
            weight,
            sensitivity: data.sensitivity(weight.unwrap_or(1.0)),
        }
    };
    Ok(peers.iter().map(member).collect())
}

fn graph(field: &str, choice: &GraphChoice, peers: &Peers, seed: u64) -> Result<Graph, DraftError> {
    let parties = peers.as_slice().len();
    let refuse = |error| DraftError::Graph {
        field: field.to_string(),
        error,
    };
    Ok(match choice {
        GraphChoice::Complete => Graph::complete(parties),
        GraphChoice::Ring => Graph::ring(parties),
        GraphChoice::RandomRegular { degree } => {
            Graph::random_regular(parties, *degree, seed).map_err(refuse)?
        }
        GraphChoice::Edges { edges } => {
            let index = |name: &String| {
                let unknown = || DraftError::UnknownName {
                    field: format!("{field}.edges"),
                    name: name.chars().take(40).collect(),
                };
                peers.index_of(name).ok_or_else(unknown)
            };
            let pairs = edges
                .iter()
                .map(|(from, to)| Ok((index(from)?, index(to)?)))
                .collect::<Result<Vec<_>, DraftError>>()?;
            Graph::from_edges(parties, &pairs).map_err(refuse)?
        }
    })
}

/// INCA mixes over one piece. PPSC may have several, each with a sum of its own, but nobody may be alone.
fn private_graph<'a>(
    field: &str,
    graph: &Graph,
    kind: MechanismKind,
    name: impl Fn(usize) -> &'a String,
) -> Result<(), DraftError> {
    if kind != MechanismKind::Ppsc {
        return connected(field, graph, name);
    }
    match (0..graph.parties()).find(|&party| graph.neighbours(party).is_empty()) {
        Some(party) => Err(DraftError::Alone {
            field: field.into(),
            name: name(party).clone(),
        }),
        None => Ok(()),
    }
}

fn connected<'a>(field: &str, graph: &Graph, name: impl Fn(usize) -> &'a String) -> Result<(), DraftError> {
    match graph.unreached() {
        Some(party) => Err(DraftError::Disconnected {
            field: field.into(),
            name: name(party).clone(),
        }),
        None => Ok(()),
    }
}
