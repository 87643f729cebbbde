//! PLAN.json: writing and reading.

use std::io;

use libp2p_identity::PeerId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::draft::members;
use super::{Calibration, Claim, Draft, Drawn, Plan, PlanError, Predicted, hex};
use crate::graph::Graph;
use crate::peers::{Peer, PeerProblem, check_entries};
use crate::run_file::{
    Data, Dissemination, IndependentNoise, InjectionChoice, MOST_PARTIES, Mechanism, MechanismKind, Privacy,
    Rounds, RunSettings, Task, check_settings,
};
use crate::schedule::Schedule;

/// The longest plan that is read. Our choice: n = 1024 on complete graphs takes about 25 MB.
pub const MOST_PLAN_BYTES: usize = 64 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    version: u32,
    name: String,
    task: Task,
    nonce: String,
    data: Data,
    privacy: Privacy,
    run: RunSettings,
    members: Vec<MemberFile>,
    private_graph: Vec<(usize, usize)>,
    public_graph: Vec<(usize, usize)>,
    mechanism: MechanismFile,
    /// 16 lower-case hex digits. A string: JSON numbers above 2⁵³ are not safe everywhere. Null, like `out`, where START draws it.
    schedule_seed: Option<String>,
    out: Option<Vec<Vec<Vec<usize>>>>,
    claims: Vec<Claim>,
    predicted: Predicted,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberFile {
    name: String,
    id: String,
    private: String,
    public: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
    sensitivity: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MechanismFile {
    kind: MechanismKind,
    /// Null with PPSC.
    injection: Option<InjectionChoice>,
    rounds: u32,
    /// PPSC: S.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iterations: Option<u32>,
    fanout: u32,
    rollback: bool,
    /// PPSC: these three as the run file has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    independent_noise: Option<IndependentNoise>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accept_exact_sum: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    local_noise_ok: Option<bool>,
    /// Null with `independent_noise = "none"`.
    independent_std: Option<f64>,
    /// σ_Δ; null with PPSC.
    correlated_std: Option<f64>,
    /// σ_γ; null with INCA.
    pairwise_std: Option<f64>,
    step_log2: i32,
    state_bits: u32,
    wire_bytes: u32,
}

impl Plan {
    /// The file's text: one byte sequence for one plan.
    pub(super) fn write(&self) -> String {
        let (draft, calibration) = (&self.draft, &self.calibration);
        let file = PlanFile {
            version: 1,
            name: draft.name.clone(),
            task: draft.task,
            nonce: hex(&self.nonce),
            data: draft.data.clone(),
            privacy: draft.privacy.clone(),
            run: draft.run.clone(),
            members: draft.members.iter().map(MemberFile::from).collect(),
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
                .map(|drawn| drawn.schedule.out().to_vec()),
            claims: calibration.claims.clone(),
            predicted: calibration.predicted.clone(),
        };
        pretty(&file)
    }

    /// Reads a plan. Whatever follows from other parts (sensitivities, schedule, lattice, bytes) is derived again, and a difference is refused;
    /// whether the claims hold is the accountant's to say. The digest is that of these very bytes.
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

impl MechanismFile {
    fn of(plan: &Plan) -> Self {
        let (mechanism, calibration) = (&plan.draft.mechanism, &plan.calibration);
        let ppsc = mechanism.kind == MechanismKind::Ppsc;
        let cancelling = calibration.correlated_std;
        MechanismFile {
            kind: mechanism.kind,
            injection: (!ppsc).then(|| mechanism.injection.clone()),
            rounds: calibration.rounds,
            iterations: plan.iterations(),
            fanout: mechanism.fanout,
            rollback: mechanism.rollback,
            independent_noise: ppsc.then_some(mechanism.independent_noise),
            accept_exact_sum: ppsc.then_some(mechanism.accept_exact_sum),
            local_noise_ok: ppsc.then_some(mechanism.local_noise_ok),
            independent_std: (mechanism.independent_noise != IndependentNoise::None)
                .then_some(calibration.independent_std),
            correlated_std: (!ppsc).then_some(cancelling),
            pairwise_std: ppsc.then_some(cancelling),
            step_log2: plan.lattice.step_log2,
            state_bits: plan.lattice.state_bits,
            wire_bytes: plan.lattice.wire_bytes,
        }
    }

    /// The settings; which keys are there must go with the kind.
    fn settings(&self) -> Result<Mechanism, PlanError> {
        let ppsc = self.kind == MechanismKind::Ppsc;
        let refuse = |field: &str| {
            Err(PlanError::Derived {
                field: format!("mechanism.{field}"),
            })
        };
        let present = [
            ("injection", self.injection.is_some(), !ppsc),
            ("iterations", self.iterations.is_some(), ppsc),
            ("independent_noise", self.independent_noise.is_some(), ppsc),
            ("accept_exact_sum", self.accept_exact_sum.is_some(), ppsc),
            ("local_noise_ok", self.local_noise_ok.is_some(), ppsc),
            ("correlated_std", self.correlated_std.is_some(), !ppsc),
            ("pairwise_std", self.pairwise_std.is_some(), ppsc),
        ];
        if let Some((field, ..)) = present.into_iter().find(|(_, found, expected)| found != expected) {
            return refuse(field);
        }
        let independent_noise = self.independent_noise.unwrap_or(IndependentNoise::Calibrated);
        if self.independent_std.is_some() != (independent_noise == IndependentNoise::Calibrated) {
            return refuse("independent_std");
        }
        Ok(Mechanism {
            kind: self.kind,
            injection: self.injection.clone().unwrap_or(InjectionChoice::Incremental),
            rounds: Rounds::Fixed(self.rounds),
            fanout: self.fanout,
            rollback: self.rollback,
            independent_noise,
            accept_exact_sum: self.accept_exact_sum.unwrap_or(false),
            local_noise_ok: self.local_noise_ok.unwrap_or(false),
        })
    }
}

fn pretty(file: &PlanFile) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(
        &mut bytes,
        PlanLayout {
            depth: 0,
            empty: true,
        },
    );
    file.serialize(&mut serializer)
        .expect("a plan's keys are strings and writing to memory does not fail");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// People read plans: one line for each key, member, round, edge and claim; what is deeper stays on that line.
struct PlanLayout {
    depth: usize,
    empty: bool,
}

impl PlanLayout {
    fn open<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.empty = true;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.depth < 2 && !self.empty {
            write!(writer, "\n{:width$}", "", width = 2 * self.depth)?;
        }
        self.empty = false;
        writer.write_all(bracket)
    }

    fn item<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        let comma = if first { "" } else { "," };
        match self.depth {
            1 | 2 => write!(writer, "{comma}\n{:width$}", "", width = 2 * self.depth),
            _ if first => Ok(()),
            _ => writer.write_all(b", "),
        }
    }
}

impl serde_json::ser::Formatter for PlanLayout {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }
    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.item(writer, first)
    }
    fn end_array_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.empty = false;
        Ok(())
    }
    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }
    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }
    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.item(writer, first)
    }
    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.empty = false;
        Ok(())
    }
}

impl From<&super::Member> for MemberFile {
    fn from(member: &super::Member) -> Self {
        MemberFile {
            name: member.name.clone(),
            id: member.id.to_base58(),
            private: member.private.to_string(),
            public: member.public.to_string(),
            records: member.records,
            weight: member.weight,
            sensitivity: member.sensitivity,
        }
    }
}

impl MemberFile {
    fn peer(&self, index: usize) -> Result<Peer, PlanError> {
        let refuse = |key, problem| PlanError::Member { index, key, problem };
        let id = self
            .id
            .parse::<PeerId>()
            .map_err(|_| refuse("id", PeerProblem::Id))?;
        if id.to_base58() != self.id {
            return Err(refuse("id", PeerProblem::Id));
        }
        Ok(Peer {
            name: self.name.clone(),
            id,
            private: self
                .private
                .parse()
                .map_err(|e| refuse("private", PeerProblem::Address(e)))?,
            public: self
                .public
                .parse()
                .map_err(|e| refuse("public", PeerProblem::Address(e)))?,
            records: self.records,
        })
    }
}

impl PlanFile {
    fn check(mut self) -> Result<Plan, PlanError> {
        if self.version != 1 {
            return Err(PlanError::Version { found: self.version });
        }
        let nonce = unhex::<16>("nonce", &self.nonce)?;
        let drawn = match (&self.schedule_seed, self.out.take()) {
            (Some(seed), Some(out)) => {
                let seed = u64::from_be_bytes(unhex::<8>("schedule_seed", seed)?);
                Some(Drawn {
                    seed,
                    schedule: Schedule::from_out(out),
                })
            }
            (None, None) => None,
            (seed, _) => {
                let field = if seed.is_none() { "schedule_seed" } else { "out" };
                return Err(PlanError::Derived { field: field.into() });
            }
        };
        let mechanism = self.mechanism.settings()?;
        let peers = self.peers()?;
        let parties = peers.len();
        // Settings first: members' sensitivities are derived from them.
        check_settings(
            &self.name,
            &self.data,
            &self.privacy,
            &mechanism,
            &self.run,
            parties,
        )
        .map_err(|(field, problem)| PlanError::Settings { field, problem })?;
        // A plan says what was chosen.
        if self.run.dissemination == Dissemination::Auto {
            return Err(PlanError::Derived {
                field: "run.dissemination".into(),
            });
        }
        let members = members(&self.data, &peers)?;
        let written: Vec<MemberFile> = members.iter().map(MemberFile::from).collect();
        for (index, (found, derived)) in self.members.iter().zip(&written).enumerate() {
            if found.sensitivity != derived.sensitivity {
                return Err(PlanError::Derived {
                    field: format!("members.{index}.sensitivity"),
                });
            }
            if found.weight != derived.weight {
                return Err(PlanError::Derived {
                    field: format!("members.{index}.weight"),
                });
            }
        }
        let graph = |field, edges: &[(usize, usize)]| {
            Graph::from_edges(parties, edges).map_err(|error| PlanError::Graph { field, error })
        };
        let draft = Draft {
            private_graph: graph("private_graph", &self.private_graph)?,
            public_graph: graph("public_graph", &self.public_graph)?,
            name: self.name,
            task: self.task,
            data: self.data,
            privacy: self.privacy,
            mechanism,
            run: self.run,
            members,
        };
        let calibration = Calibration {
            rounds: self.mechanism.rounds,
            drawn,
            independent_std: self.mechanism.independent_std.unwrap_or(0.0),
            correlated_std: self
                .mechanism
                .correlated_std
                .or(self.mechanism.pairwise_std)
                .unwrap_or(0.0),
            claims: self.claims,
            predicted: self.predicted,
        };
        let plan = Plan::checked(draft, calibration, nonce)?;
        plan.check_derived(&self.mechanism.numbers())?;
        Ok(plan)
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
}

/// What the file says of numbers that follow from the rest.
struct Numbers {
    iterations: Option<u32>,
    step_log2: i32,
    state_bits: u32,
    wire_bytes: u32,
}

impl MechanismFile {
    fn numbers(&self) -> Numbers {
        let MechanismFile {
            iterations,
            step_log2,
            state_bits,
            wire_bytes,
            ..
        } = *self;
        Numbers {
            iterations,
            step_log2,
            state_bits,
            wire_bytes,
        }
    }
}

impl Plan {
    fn check_derived(&self, found: &Numbers) -> Result<(), PlanError> {
        let pairs = [
            ("mechanism.iterations", found.iterations == self.iterations()),
            ("mechanism.step_log2", found.step_log2 == self.lattice.step_log2),
            (
                "mechanism.state_bits",
                found.state_bits == self.lattice.state_bits,
            ),
            (
                "mechanism.wire_bytes",
                found.wire_bytes == self.lattice.wire_bytes,
            ),
            (
                "predicted.bytes_per_party",
                self.calibration.predicted.bytes_per_party == self.bytes_per_party(),
            ),
        ];
        match pairs.into_iter().find(|&(_, same)| !same) {
            Some((field, _)) => Err(PlanError::Derived { field: field.into() }),
            None => Ok(()),
        }
    }
}

fn unhex<const N: usize>(field: &'static str, text: &str) -> Result<[u8; N], PlanError> {
    let refuse = || PlanError::Hex { field, digits: 2 * N };
    if text.len() != 2 * N || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(refuse());
    }
    let mut bytes = [0u8; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| refuse())?;
    }
    Ok(bytes)
}
