//! All that is known of a run before it is calibrated.

use std::collections::BTreeMap;

use libp2p_identity::{PeerId, PublicKey};

use crate::lattice::grid::WEIGHT_UNIT;
use crate::plan::computation::asked::Asked;
use crate::plan::computation::beside::Beside;
use crate::plan::computation::choice::Computation;
use crate::plan::computation::stream::{Protect, Sums};
use crate::plan::error::DraftError;
use crate::plan::exchange::choice::Exchange;
use crate::plan::exchange::gossip::MessagesRead;
use crate::plan::named_graph::NamedGraph;
use crate::plan::peers::contact::{Contact, Relay};
use crate::plan::peers::{Peer, Peers, public_key};
use crate::plan::run_file::parsed::RunFile;
use crate::plan::run_file::problem::Problem;
use crate::plan::run_file::records::{RecordCounts, Records};
use crate::plan::run_file::settings::{
    Coalitions, Contributed, Data, GraphChoice, Privacy, RunSettings, Unit,
};
use crate::plan::scheduled::{Identified, Scheduled};
use crate::topology::connectivity::at_least;
use crate::topology::graph::Graph;

/// A party of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The member's name, unique.
    pub name: String,
    /// The id of its ed25519 key, unique.
    pub id: PeerId,
    /// Where it is reached.
    pub contact: Contact,
    /// The number of records that the member contributes, where a record is protected.
    pub records: Option<Records>,
    /// The member's public weight, if the run file gives weights.
    pub weight: Option<f64>,
    /// The sensitivity Δ of this party, in a state's units (see
    /// [`crate::plan::sensitivity::Scales`]).
    pub sensitivity: f64,
}

impl Member {
    /// The member's key, which the id contains.
    pub fn public_key(&self) -> PublicKey {
        public_key(&self.id).expect("members come from checked peers, whose ids contain an ed25519 key")
    }
}

/// Settings, members and graphs. Everything that a calibration needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The run's name, for people.
    pub name: String,
    /// The computation of the parties.
    pub computation: Computation,
    /// The data that each party contributes to a sum: in a training one clipped gradient a row.
    pub data: Data,
    /// The target: ε, δ, and against whom.
    pub privacy: Privacy,
    /// The way in which values travel and cancel. Its rounds may still be `auto`.
    pub exchange: Exchange,
    /// The run's time-outs and sizes.
    pub run: RunSettings,
    /// The parties, in plan order.
    pub members: Vec<Member>,
    /// Relays that are no parties.
    pub relays: Vec<Relay>,
    /// The attempt at an occurrence of a schedule that the plan is, if it is one. Such a plan has
    /// no addresses: each member has them in its own list.
    pub scheduled: Option<Scheduled>,
    /// The graph of the parties that may exchange shares.
    pub private_graph: Graph,
    /// The graph of the parties that exchange in the clear.
    pub public_graph: Graph,
}

impl Draft {
    /// Joins a run file and a peer list. `graph_seed` draws random graphs; it is public.
    pub fn new(file: RunFile, peers: &Peers, graph_seed: u64) -> Result<Self, DraftError> {
        Draft::joined(file, peers, |_| (graph_seed, None))
    }

    /// Joins a run file and those of a peer list who take part in an attempt of a schedule. Where
    /// they are is left out, and the graphs' seed follows from the attempt and from them.
    pub fn scheduled(file: RunFile, peers: &Peers, scheduled: Scheduled) -> Result<Self, DraftError> {
        let peers = peers.without_contacts();
        Draft::joined(file, &peers, |members| {
            let ids = identified(members).map(|(id, _)| id);
            (scheduled.seed(ids, "graph"), Some(scheduled))
        })
    }

    fn joined(
        file: RunFile,
        peers: &Peers,
        seeded: impl FnOnce(&[Member]) -> (u64, Option<Scheduled>),
    ) -> Result<Self, DraftError> {
        let members = members(&file.data, peers.as_slice())?;
        let (graph_seed, scheduled) = seeded(&members);
        let name = |party: usize| peers.as_slice()[party].name.clone();
        let named = |field, graph| NamedGraph {
            field,
            graph,
            name: &name,
        };
        let wanted = file.privacy.colluding + file.privacy.dropouts + 2;
        let private = &file.topology.private;
        let private_graph = connected_graph("topology.private", private, peers, (graph_seed, wanted))?;
        let rules = file.exchange.rules();
        rules.check_private_graph(&named("topology.private", &private_graph))?;
        let public_graph = graph(
            "topology.public",
            &file.topology.public,
            peers,
            graph_seed.wrapping_add(1),
        )?;
        named("topology.public", &public_graph).check_connected()?;
        let RunFile {
            name,
            computation,
            data,
            privacy,
            exchange,
            topology: _,
            run,
        } = file;
        let draft = Draft {
            name,
            computation,
            data,
            privacy,
            exchange,
            run,
            members,
            relays: peers.relays().to_vec(),
            scheduled,
            private_graph,
            public_graph,
        };
        draft.check()?;
        Ok(draft)
    }

    /// Its members as the nonce of a schedule's plan has them.
    pub fn identified(&self) -> impl Iterator<Item = Identified> + '_ {
        identified(&self.members)
    }

    /// All checks; also for what was read from a plan.
    pub(super) fn check(&self) -> Result<(), DraftError> {
        self.asked()
            .check(self.parties())
            .map_err(|(field, problem)| DraftError::Setting { field, problem })?;
        let name = |party: usize| self.members[party].name.clone();
        let named = |field, graph| NamedGraph {
            field,
            graph,
            name: &name,
        };
        let rules = self.exchange.rules();
        rules.check_private_graph(&named("private_graph", &self.private_graph))?;
        named("public_graph", &self.public_graph).check_connected()?;
        self.check_ways()?;
        if self.privacy.coalitions == Coalitions::Static && rules.mixes() {
            self.check_complete()?;
        }
        self.check_circles(self.private_graph.least_degree())?;
        for (party, member) in self.members.iter().enumerate() {
            let degree = self.private_graph.neighbours(party).len();
            // To all neighbours in every round is no schedule; with one neighbour and k = 1 there
            // is no other.
            let fanout = self.exchange.fanout() as usize;
            if degree < fanout || (degree == fanout && fanout > 1) {
                return Err(DraftError::Fanout {
                    fanout: self.exchange.fanout(),
                    name: member.name.clone(),
                    degree,
                });
            }
            self.check_sums_of(member)?;
        }
        Ok(())
    }

    /// Refuses secure sums over circles in which all others may be against a party: a sum would
    /// reveal its message to the reader. `neighbours`: the fewest of a party.
    pub(super) fn check_circles(&self, neighbours: usize) -> Result<(), DraftError> {
        let others = match self.sums() {
            Some(Sums::Everybody) => self.parties() - 1,
            Some(Sums::Neighbours) => neighbours,
            Some(Sums::Open) | None => return Ok(()),
        };
        let against = self.privacy.colluding + self.privacy.dropouts;
        if others > against {
            return Ok(());
        }
        Err(DraftError::Setting {
            field: "privacy.colluding".into(),
            problem: Problem::Circle { others, against },
        })
    }

    /// Returns the number of a party's releases that count for a loss: all of them, or one where
    /// only one may change.
    pub fn protected_releases(&self) -> u64 {
        match self.computation.protect() {
            Protect::All => self.releases(),
            Protect::One => 1,
        }
    }

    /// Refuses more numbers of a program's rows than f64 can add up within the room in Δ
    /// ([`Data::coarsest_cell`]). Each row and coordinate takes a 2⁻⁵² of it.
    fn check_sums_of(&self, member: &Member) -> Result<(), DraftError> {
        let rows = member.records.map_or(0, Records::most);
        let numbers = rows.saturating_mul(self.dimension() as u64);
        if self.data.contributed != Contributed::ByProgram || numbers <= MOST_SUMMED {
            return Ok(());
        }
        Err(DraftError::Setting {
            field: "data.clipped".into(),
            problem: Problem::Summed { numbers },
        })
    }

    /// Two parties of which nobody can dial the other need a relay. Where everybody is in a
    /// schedule's plan, everybody's own list says.
    fn check_ways(&self) -> Result<(), DraftError> {
        if self.scheduled.is_some() {
            return Ok(());
        }
        let dialled = |party: usize| !self.members[party].contact.at.is_empty();
        if !self.relays.is_empty() || self.members.iter().any(|member| member.contact.relay) {
            return Ok(());
        }
        let edges = self.private_graph.edges().iter();
        let mut edges = edges.chain(self.public_graph.edges());
        match edges.find(|(one, other)| !dialled(*one) && !dialled(*other)) {
            None => Ok(()),
            Some((one, other)) => Err(DraftError::NoWay {
                one: self.members[*one].name.clone(),
                other: self.members[*other].name.clone(),
            }),
        }
    }

    /// A draw of permutations lets everybody send to everybody.
    fn check_complete(&self) -> Result<(), DraftError> {
        if self.private_graph.least_degree() + 1 == self.parties() {
            return Ok(());
        }
        Err(DraftError::Setting {
            field: "topology.private".into(),
            problem: Problem::NotYet {
                found: "a graph in which some pair is not joined, while coalitions = \"static\"",
                alternative: "\"complete\"",
            },
        })
    }

    /// Returns the settings that the run file asked for.
    pub(super) fn asked(&self) -> Asked<'_> {
        Asked {
            name: &self.name,
            computation: &self.computation,
            beside: Beside {
                data: &self.data,
                privacy: &self.privacy,
                exchange: &self.exchange,
                run: &self.run,
            },
        }
    }

    /// Returns the sums that one reader reads of a round of a stream; `None` for another
    /// computation.
    pub fn sums(&self) -> Option<Sums> {
        self.computation.stream()?;
        Some(match &self.exchange {
            Exchange::Gossip(gossip) => match gossip.read {
                MessagesRead::Each => Sums::Open,
                MessagesRead::Sums => Sums::Neighbours,
            },
            _ => Sums::Everybody,
        })
    }

    /// Whether neighbours read sums of each other's messages, and nothing else of them.
    pub fn sums_neighbours(&self) -> bool {
        self.sums() == Some(Sums::Neighbours)
    }

    /// Whether it is a stream of which everybody reads one sum a round.
    pub fn sums_everybody(&self) -> bool {
        self.sums() == Some(Sums::Everybody)
    }

    /// Whether it is gossip over edges: each party has a state, and averages what it gets.
    pub fn averages(&self) -> bool {
        matches!(self.exchange, Exchange::Gossip(_))
    }

    /// SHA-256 of the model that the last of means in sequence is written as, if the plan has one.
    pub fn template(&self) -> Option<&String> {
        self.computation.rounds()?.template.as_ref()
    }

    /// The number of parties n.
    pub fn parties(&self) -> usize {
        self.members.len()
    }

    /// Returns the number of sums that are released, each of which costs: the iterations of a
    /// training, or 1.
    pub fn releases(&self) -> u64 {
        self.computation.releases()
    }

    /// The number of coordinates of a state, d.
    pub fn dimension(&self) -> usize {
        self.data.dimension()
    }

    /// Returns the number of honest parties, n_H: all but those that may collude.
    pub fn honest(&self) -> usize {
        self.parties().saturating_sub(self.privacy.colluding)
    }

    /// The sensitivity Δ of a party, in a state's units; see [`Data::sensitivity`].
    pub fn sensitivity(&self, party: usize) -> f64 {
        self.members[party].sensitivity
    }

    /// The largest sensitivity Δ of all parties.
    pub fn largest_sensitivity(&self) -> f64 {
        self.members
            .iter()
            .fold(0.0, |largest, member| largest.max(member.sensitivity))
    }

    /// Returns the largest weight of a party's value in the result. It is the public weight, the
    /// number of records or its bound, or 1. See [`Plan::weight_units`] for what START fixes.
    ///
    /// [`Plan::weight_units`]: crate::plan::checked::Plan::weight_units
    pub fn weight(&self, party: usize) -> f64 {
        // Exact: at most 2⁵¹ units of a power of two.
        self.weight_units(party) as f64 / WEIGHT_UNIT as f64
    }

    /// The weight in the lattice's units of 1/[`WEIGHT_UNIT`].
    pub fn weight_units(&self, party: usize) -> u64 {
        let member = &self.members[party];
        match (member.records, member.weight) {
            (Some(records), _) => records.most().saturating_mul(WEIGHT_UNIT),
            // A checked weight is a positive multiple of the unit, at most 10⁶.
            (None, Some(weight)) => (weight * WEIGHT_UNIT as f64) as u64,
            (None, None) => WEIGHT_UNIT,
        }
    }

    /// μᵣ of a stream of gossip: what rounding to such steps, in a state's units, adds at most to a
    /// loss μ that was accounted without it, where each party's noise in a round has the standard
    /// deviation `independent_std`. 0 of one value, of which all later messages are functions of
    /// what round 1 sent.
    ///
    /// Planned changes of messages are rounded to half a step, and so is what is averaged: a change
    /// of what a party contributes moves each coordinate of each message by at most 2 steps more
    /// than without rounding, which with fresh noise in all E rounds adds μᵣ² ≤ 4·E·n·d·(step/σ)²
    /// over n parties and d coordinates. Against all others together nothing is added: each message
    /// tells them its sender's release with its noise, both on the lattice, and what they know.
    pub fn rounding_loss(&self, step: f64, independent_std: f64) -> f64 {
        match self.releases() {
            0 | 1 => 0.0,
            releases => {
                let rounded = releases as f64 * self.parties() as f64 * self.dimension() as f64;
                // In sums of neighbours each term's own noise, of a 64th, takes up its rounding.
                let against = (self.privacy.colluding + self.privacy.dropouts) as f64;
                let kept = match self.sums_neighbours() {
                    true => 4.0 + 2048.0 * against,
                    false => 4.0,
                };
                (kept * rounded).sqrt() * step / independent_std
            }
        }
    }

    /// The most that a step of gossip may be, in a state's units, so that [`Draft::rounding_loss`]
    /// stays below a ten-thousandth of the loss against all others together: √E·Δ/σ where all
    /// releases are protected, Δ/σ where one is. ∞ for one value.
    pub(super) fn finest_average(&self) -> f64 {
        let protected = self.protected_releases() as f64;
        // 1/0 of one value.
        let most =
            ROUNDING_SHARE * self.largest_sensitivity() * protected.sqrt() / self.rounding_loss(1.0, 1.0);
        match self.sums_neighbours() {
            // Among all parties a loss may be as small.
            true => most / (self.parties() as f64).sqrt(),
            false => most,
        }
    }

    /// The sum of all parties' weights, W.
    pub fn total_weight(&self) -> f64 {
        (0..self.parties()).map(|party| self.weight(party)).sum()
    }

    /// The largest absolute coordinate that a party injects, in a state's units: clipped and
    /// weighted, or the sum of its clipped records.
    pub fn value_bound(&self) -> f64 {
        let largest_weight = (0..self.parties())
            .map(|party| self.weight(party))
            .fold(0.0, f64::max);
        self.data.largest_coordinate() * largest_weight
    }
}

/// The part of a loss of gossip that rounding may add.
const ROUNDING_SHARE: f64 = 1e-4;

/// Numbers of all rows whose sum a program hands over, at most.
const MOST_SUMMED: u64 = 1 << 40;

fn identified(members: &[Member]) -> impl Iterator<Item = Identified> + '_ {
    members.iter().map(|member| (member.id, member.records))
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
    for (field, name) in data.records.iter().flat_map(RecordCounts::names) {
        if !names.contains_key(name.as_str()) {
            let name = name.clone();
            return Err(DraftError::UnknownName { field, name });
        }
    }
    let member = |peer: &Peer| {
        let records = match (data.unit, &data.records) {
            (Unit::Party, _) => None,
            (Unit::Record, None) => return Err(DraftError::NoRecords),
            (Unit::Record, Some(counts)) => {
                let name = peer.name.clone();
                Some(counts.of(&name).ok_or(DraftError::Records { name })?)
            }
        };
        let weight = data
            .weights
            .as_ref()
            .map(|weights| weights.get(&peer.name).copied().unwrap_or(1.0));
        Ok(Member {
            name: peer.name.clone(),
            id: peer.id,
            contact: peer.contact.clone(),
            records,
            weight,
            sensitivity: data.sensitivity(weight.unwrap_or(1.0)),
        })
    };
    peers.iter().map(member).collect()
}

/// Graphs that are drawn until one of them is as connected as is wanted, at most so many.
const MOST_GRAPHS: u64 = 64;

/// The chosen graph; one that is drawn at random is drawn again while it takes fewer than `wanted`
/// parties to separate its others, or fewer than everybody has neighbours. Nobody need draw again
/// by hand what chance made thin.
fn connected_graph(
    field: &str,
    choice: &GraphChoice,
    peers: &Peers,
    (seed, wanted): (u64, usize),
) -> Result<Graph, DraftError> {
    let first = graph(field, choice, peers, seed)?;
    let GraphChoice::RandomRegular { degree } = choice else {
        return Ok(first);
    };
    let wanted = wanted.min(*degree);
    // Other numbers than those of the public graph, which is drawn from the next seed.
    let others = (1..MOST_GRAPHS).map(|draw| graph(field, choice, peers, seed ^ (draw << 32)));
    let graphs = std::iter::once(Ok(first.clone())).chain(others);
    let mut connected = graphs.filter(|graph| {
        let enough = |graph: &Graph| at_least(graph, wanted).is_ok();
        graph.as_ref().map_or(true, enough)
    });
    connected.next().unwrap_or(Ok(first))
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
