//! PLAN.json: writing and reading.

mod layout;
mod mechanism;
mod member;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plan::calibration::{Calibration, SeededSchedule};
use crate::plan::checked::Plan;
use crate::plan::claim::{Claim, Predicted};
use crate::plan::computation::asked::Asked;
use crate::plan::computation::beside::Beside;
use crate::plan::computation::choice::Computation;
use crate::plan::draft::{Draft, Member, members};
use crate::plan::error::PlanError;
use crate::plan::file::layout::pretty;
use crate::plan::file::mechanism::MechanismFile;
use crate::plan::file::member::MemberFile;
use crate::plan::hex::{hex, unhex};
use crate::plan::peers::contact::{Relay, RelayKeys};
use crate::plan::peers::{Peer, check_entries, check_relays};
use crate::plan::run_file::limits::MOST_PARTIES;
use crate::plan::run_file::settings::{Data, Dissemination, Privacy, RunSettings};
use crate::plan::scheduled::{OccurrenceId, Scheduled};
use crate::topology::graph::Graph;
use crate::topology::schedule::Schedule;

/// The longest plan that is read. Our choice: n = 1024 on complete graphs takes about 25 MB.
pub(super) const MOST_PLAN_BYTES: usize = 64 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    version: u32,
    name: String,
    nonce: String,
    /// The attempt at an occurrence of a schedule that this is: both or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    occurrence: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    computation: Computation,
    data: Data,
    privacy: Privacy,
    run: RunSettings,
    members: Vec<MemberFile>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    relays: Vec<RelayKeys>,
    private_graph: Vec<(usize, usize)>,
    public_graph: Vec<(usize, usize)>,
    mechanism: MechanismFile,
    /// 16 lower-case hex digits. A string: JSON numbers above 2⁵³ are not safe everywhere. Null,
    /// like `out`, where START draws it.
    schedule_seed: Option<String>,
    out: Option<Vec<Vec<Vec<usize>>>>,
    /// Gossip: the active edges of each round, where there is no `out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edges: Option<Vec<Vec<(usize, usize)>>>,
    claims: Vec<Claim>,
    predicted: Predicted,
}

impl Plan {
    /// The file's text: one byte sequence for one plan.
    pub(super) fn write(&self) -> String {
        let (draft, calibration) = (&self.draft, &self.calibration);
        let file = PlanFile {
            version: 1,
            name: draft.name.clone(),
            nonce: hex(&self.nonce),
            occurrence: draft.scheduled.map(|it| it.occurrence.to_string()),
            attempt: draft.scheduled.map(|it| it.attempt),
            computation: draft.computation.clone(),
            data: draft.data.clone(),
            privacy: draft.privacy.clone(),
            run: draft.run.clone(),
            members: draft.members.iter().map(MemberFile::from).collect(),
            relays: draft.relays.iter().map(RelayKeys::from).collect(),
            private_graph: draft.private_graph.edges().to_vec(),
            public_graph: draft.public_graph.edges().to_vec(),
            mechanism: MechanismFile::of(self),
            schedule_seed: calibration
                .drawn
                .as_ref()
                .map(|drawn| format!("{:016x}", drawn.seed)),
            out: calibration
                .drawn
                .as_ref()
                .filter(|_| !draft.averages())
                .map(|drawn| drawn.schedule.out().to_vec()),
            edges: calibration
                .drawn
                .as_ref()
                .filter(|_| draft.averages())
                .map(|drawn| {
                    let rounds = 1..=drawn.schedule.rounds() as u32;
                    rounds.map(|round| drawn.schedule.pairs(round)).collect()
                }),
            claims: calibration.claims.clone(),
            predicted: calibration.predicted.clone(),
        };
        pretty(&file)
    }

    /// Reads a plan. Whatever follows from other parts (sensitivities, schedule, lattice, bytes) is
    /// derived again, and a difference is refused; whether the claims hold is the accountant's to
    /// say. The digest is that of these very bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, PlanError> {
        if bytes.len() > MOST_PLAN_BYTES {
            return Err(PlanError::TooLong {
                found: bytes.len(),
                most: MOST_PLAN_BYTES,
            });
        }
        // Grows with what is really there: serde trusts no length, and JSON has none.
        let file: PlanFile = serde_json::from_slice(bytes).map_err(|error| PlanError::Json {
            line: error.line(),
            message: error.to_string(),
        })?;
        let json = std::str::from_utf8(bytes)
            .map_err(|error| PlanError::Json {
                line: 1,
                message: error.to_string(),
            })?
            .into();
        let mut plan = file.check()?;
        plan.digest = Sha256::digest(bytes).into();
        plan.json = json;
        Ok(plan)
    }
}

impl PlanFile {
    fn check(mut self) -> Result<Plan, PlanError> {
        if self.version != 1 {
            return Err(PlanError::Version { found: self.version });
        }
        let nonce = unhex::<16>("nonce", &self.nonce)?;
        let scheduled = self.scheduled()?;
        let drawn = self.drawn()?;
        let exchange = self.mechanism.exchange()?;
        let peers = self.peers()?;
        // Settings first: members' sensitivities are derived from them.
        let asked = Asked {
            name: &self.name,
            computation: &self.computation,
            beside: Beside {
                data: &self.data,
                privacy: &self.privacy,
                exchange: &exchange,
                run: &self.run,
            },
        };
        asked
            .check(peers.len())
            .map_err(|(field, problem)| PlanError::Settings { field, problem })?;
        // A plan says what was chosen.
        if self.run.dissemination == Dissemination::Auto {
            return Err(derived("run.dissemination"));
        }
        // What each party contributes follows from the model, where there is one.
        if self.computation.contributions(self.data.clone()) != self.data {
            return Err(derived("data"));
        }
        let members = self.derive_members(&peers)?;
        let relays = self.relays(&peers)?;
        let graph = |field, edges: &[(usize, usize)]| {
            Graph::from_edges(peers.len(), edges).map_err(|error| PlanError::Graph { field, error })
        };
        let draft = Draft {
            private_graph: graph("private_graph", &self.private_graph)?,
            public_graph: graph("public_graph", &self.public_graph)?,
            name: self.name,
            computation: self.computation,
            data: self.data,
            privacy: self.privacy,
            exchange,
            run: self.run,
            members,
            relays,
            scheduled,
        };
        // What the accountant answered is checked again with all that follows from it.
        let calibration = Calibration {
            rounds: self.mechanism.rounds,
            drawn,
            independent_std: self.mechanism.independent_std(),
            correlated_std: self.mechanism.cancelling_std(),
            claims: self.claims,
            predicted: self.predicted,
        };
        let plan = Plan::checked(draft, calibration, nonce)?;
        self.mechanism.check_derived(&plan)?;
        if plan.calibration.predicted.bytes_per_party != plan.bytes_per_party() {
            return Err(derived("predicted.bytes_per_party"));
        }
        Ok(plan)
    }

    /// The attempt that it is, if the file names one.
    fn scheduled(&self) -> Result<Option<Scheduled>, PlanError> {
        match (&self.occurrence, self.attempt) {
            (None, None) => Ok(None),
            (Some(occurrence), Some(attempt)) => Ok(Some(Scheduled {
                occurrence: OccurrenceId(unhex::<32>("occurrence", occurrence)?),
                attempt,
            })),
            (None, Some(_)) => Err(derived("attempt")),
            (Some(_), None) => Err(derived("occurrence")),
        }
    }

    /// The schedule and its seed, which stand in a plan together or not at all.
    fn drawn(&mut self) -> Result<Option<SeededSchedule>, PlanError> {
        let schedule = match (self.out.take(), self.edges.take()) {
            (out, None) => out.map(Schedule::from_out),
            (None, Some(edges)) if self.mechanism.averages() => Some(self.schedule_of(&edges)?),
            _ => return Err(derived("edges")),
        };
        match (&self.schedule_seed, schedule) {
            (Some(seed), Some(schedule)) => Ok(Some(SeededSchedule {
                seed: u64::from_be_bytes(unhex::<8>("schedule_seed", seed)?),
                schedule,
            })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(derived("schedule_seed")),
            (Some(_), None) => Err(derived("out")),
        }
    }

    /// The schedule of these edges, each of which is used both ways.
    fn schedule_of(&self, edges: &[Vec<(usize, usize)>]) -> Result<Schedule, PlanError> {
        let graph = |edges: &Vec<(usize, usize)>| {
            let graph = Graph::from_edges(self.members.len(), edges);
            graph.map_err(|error| PlanError::Graph {
                field: "edges",
                error,
            })
        };
        let graphs = edges.iter().map(graph).collect::<Result<Vec<_>, _>>()?;
        Ok(Schedule::both_ways(graphs.iter()))
    }

    fn peers(&self) -> Result<Vec<Peer>, PlanError> {
        let found = self.members.len();
        if !(3..=MOST_PARTIES).contains(&found) {
            return Err(PlanError::MemberCount { found });
        }
        let peers = self
            .members
            .iter()
            .enumerate()
            .map(|(index, member)| member.peer(index))
            .collect::<Result<Vec<_>, _>>()?;
        check_entries(&peers).map_err(|(index, key, problem)| PlanError::Member { index, key, problem })?;
        Ok(peers)
    }

    /// The relays beside these peers.
    fn relays(&self, peers: &[Peer]) -> Result<Vec<Relay>, PlanError> {
        let refuse = |index, (key, problem)| PlanError::Relay { index, key, problem };
        let relays = self.relays.iter().enumerate();
        let relays = relays
            .map(|(index, keys)| keys.relay().map_err(|e| refuse(index, e)))
            .collect::<Result<Vec<_>, _>>()?;
        check_relays(peers, &relays).map_err(|(index, key, problem)| refuse(index, (key, problem)))?;
        Ok(relays)
    }

    /// The members that these peers make; refused where the file has other numbers.
    fn derive_members(&self, peers: &[Peer]) -> Result<Vec<Member>, PlanError> {
        let members = members(&self.data, peers)?;
        for (index, (found, member)) in self.members.iter().zip(&members).enumerate() {
            if found.sensitivity != member.sensitivity {
                return Err(derived(&format!("members.{index}.sensitivity")));
            }
            if found.weight != member.weight {
                return Err(derived(&format!("members.{index}.weight")));
            }
        }
        Ok(members)
    }
}

fn derived(field: &str) -> PlanError {
    PlanError::Derived { field: field.into() }
}
