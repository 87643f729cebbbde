//! Fills the gaps of a run file: defaults depend on the number of parties.

use std::collections::BTreeMap;

use crate::lattice::grid::WEIGHT_UNIT;
use crate::plan::ahead;
use crate::plan::defaults::Defaults;
use crate::plan::run_file::check::{RELEASED, TRAININGS, count_parties, majority};
use crate::plan::run_file::error::RunFileError;
use crate::plan::run_file::gossip::{Circle, GOSSIP, GossipSettings, SumsChoice};
use crate::plan::run_file::gossip_case::SETTLING_STAGES;
use crate::plan::run_file::outer::{OuterSettings, RawOuter};
use crate::plan::run_file::parsed::RunFile;
use crate::plan::run_file::problem::{Checked, Problem, require};
use crate::plan::run_file::raw::{
    RawData, RawMechanism, RawPrivacy, RawRunFile, RawRunSettings, RawTopology,
};
use crate::plan::run_file::settings::{
    CorrelatedNoise, Data, Dissemination, GraphChoice, IndependentNoise, InjectionChoice, MechanismKind,
    MechanismSettings, Privacy, RunSettings, TaskKind, Topology, Unit,
};
use crate::plan::run_file::template::TemplateChoice;
use crate::plan::run_file::tensors::coordinates_of_all;
use crate::plan::run_file::training::{RawModel, RowsOf};
use crate::topology::active_edges::ActiveEdges;

/// No range is right for whatever rows there are: outside of it they count for less than they are,
/// and too wide a one is paid for in noise.
const CLIP_OF_RECORDS: &str = "clip = { kind = \"box\", low = [18, 80], high = [100, 220] }, a range \
                               for each column from what is known of it, never from the data";

impl RawRunFile {
    /// Fills the gaps from the table of defaults, which depend on the number of parties, and checks
    /// everything.
    pub fn resolve(mut self, parties: usize, defaults: Defaults) -> Result<RunFile, RunFileError> {
        let lines = std::mem::take(&mut self.lines);
        let locate = |(field, problem): (String, Problem)| {
            let line = lines.line(&field);
            RunFileError::Field { field, line, problem }
        };
        count_parties(parties).map_err(locate)?;
        let complete = self.complete(parties, defaults).map_err(locate)?;
        complete.check(parties).map_err(locate)?;
        Ok(complete)
    }

    fn complete(mut self, parties: usize, defaults: Defaults) -> Checked<RunFile> {
        let table = RawRunFile::defaults(defaults);
        self.leave_a_majority(parties, &table);
        if self.task.is_some_and(TaskKind::is_outer) {
            self.prepare_outer();
        }
        if self.data.unit == Some(Unit::Record) && self.task != Some(TaskKind::Regression) {
            given(self.data.clip.as_ref(), "data.clip", CLIP_OF_RECORDS)?;
        }
        let regression = self.task == Some(TaskKind::Regression);
        let training = self.task.is_some_and(TaskKind::is_training);
        let template = self.model.template.take();
        self.check_task_keys(&table)?;
        self.model.settle_method(&table.model)?;
        let clipped = self.model.clip.is_some();
        let bounds = if regression { self.data.clip.take() } else { None };
        if training {
            self.time_iterations(&table)?;
        }
        let chosen = self.mechanism.kind.is_some();
        if training && !chosen {
            self.mechanism.kind = Some(MechanismKind::Pairwise);
        }
        if regression {
            self.data.unit = self.data.unit.or(Some(Unit::Record));
        }
        self.time_secure_rounds(&table);
        let attempts = table.run.mixing_attempts;
        self.fill(table);
        let version = given(self.version, "version", "version = 1")?;
        require(version == 1, "version", || Problem::Version { found: version })?;
        let topology = std::mem::take(&mut self.topology).complete()?;
        let gossip = self.mechanism.gossip(&topology)?;
        let correlated = self.correlated(gossip);
        let sums = self.mechanism.sums == Some(SumsChoice::Secure) || correlated == CorrelatedNoise::Uniform;
        let sealed = self.run.sealed.unwrap_or(sums);
        let mut data = self.data.complete(template)?;
        let mut model = None;
        let mut outer = None;
        let takes_rows = self.task.is_some_and(TaskKind::takes_rows);
        let rows = takes_rows.then(|| RowsOf {
            shape: std::mem::take(&mut data.shape),
            names: data.columns.take(),
            bounds,
        });
        if let (Some(rows), false) = (rows.clone(), regression) {
            let iterated = self.outer.complete(rows, self.model)?;
            data = iterated.states(data);
            outer = Some(iterated);
        } else if let Some(rows) = rows {
            let fitted = self.model.complete(rows, clipped)?;
            data = fitted.contributions(data);
            model = Some(fitted);
        }
        if training && !chosen && fits_ahead(&data, &topology, parties, self.run.ahead_bytes) {
            self.mechanism.kind = Some(MechanismKind::Inca);
        }
        let ahead = training && self.mechanism.kind == Some(MechanismKind::Inca);
        self.run.leave_out((training, ahead), attempts);
        let privacy = self.privacy.complete()?;
        Ok(RunFile {
            task: given(self.task, "task", "task = \"mean\"")?,
            name: given(self.name, "name", "name = \"blood-pressure-2026\"")?,
            data,
            model,
            outer,
            mechanism: self.mechanism.complete(correlated, gossip)?,
            topology,
            run: self.run.complete(parties, &privacy, sealed)?,
            privacy,
        })
    }

    /// Few parties tolerate no departure: too few would be left to agree.
    fn leave_a_majority(&mut self, parties: usize, table: &RawRunFile) {
        let colluding = self.privacy.colluding.or(table.privacy.colluding).unwrap_or(0);
        if self.privacy.dropouts.is_none() && !majority(parties, colluding, 1) {
            self.privacy.dropouts = Some(0);
        }
    }

    /// Refuses keys that only other tasks have; the documented defaults may stand in any file.
    fn check_task_keys(&self, table: &RawRunFile) -> Checked {
        let is_outer = self.task.is_some_and(TaskKind::is_outer);
        if is_outer {
            require(self.model.is_of_outer(&table.model), "model", || {
                Problem::OnlyFor {
                    only: "task = \"regression\", but for loss, ridge and set",
                }
            })?;
        } else {
            let unsaid = self.outer == RawOuter::default() || self.outer == table.outer;
            require(unsaid, "outer", || Problem::OnlyFor {
                only: "task = \"linear-equations\" or \"optimise\"",
            })?;
        }
        if self.task != Some(TaskKind::Regression) && !is_outer {
            let unsaid = self.model == RawModel::default() || self.model == table.model;
            require(unsaid, "model", || Problem::OnlyFor {
                only: "task = \"regression\"",
            })?;
        }
        if !self.task.is_some_and(TaskKind::is_training) {
            let documented =
                [Defaults::File, Defaults::Local].map(|defaults| RawRunFile::defaults(defaults).run);
            let unsaid = |said: fn(&RawRunSettings) -> Option<u64>| {
                let found = said(&self.run);
                found.is_none() || documented.iter().any(|run| said(run) == found)
            };
            for (field, unsaid) in [
                ("run.iteration_ms", unsaid(|run| run.iteration_ms)),
                ("run.ahead_bytes", unsaid(|run| run.ahead_bytes)),
                ("run.mixing_attempts", unsaid(|run| run.mixing_attempts)),
            ] {
                require(unsaid, field, || Problem::OnlyFor { only: TRAININGS })?;
            }
        }
        self.check_releases()
    }

    /// States are of rows' coordinates, kept in a box; nobody may leave.
    fn prepare_outer(&mut self) {
        self.data.unit = self.data.unit.or(Some(Unit::Record));
        self.data.clip.get_or_insert_with(OuterSettings::range);
        self.privacy.dropouts = self.privacy.dropouts.or(Some(0));
    }

    /// A training's stages take half of an iteration each.
    fn time_iterations(&mut self, table: &RawRunFile) -> Checked {
        let unsaid = self.run.settle_ms.is_none();
        require(unsaid, "run.settle_ms", || Problem::OnlyFor {
            only: "task = \"mean\": a training's stages take half of run.iteration_ms each",
        })?;
        let iteration_ms = self.run.iteration_ms.or(table.run.iteration_ms);
        self.run.settle_ms = iteration_ms.map(|iteration_ms| iteration_ms / 2);
        Ok(())
    }

    /// A round of secure sums has time for a flood, an agreement and an opening.
    fn time_secure_rounds(&mut self, table: &RawRunFile) {
        let secure = self.mechanism.sums == Some(SumsChoice::Secure);
        if secure && self.run.round_ms.is_none() {
            let settle_ms = self.run.settle_ms.or(table.run.settle_ms);
            self.run.round_ms = settle_ms.map(|settle_ms| settle_ms.saturating_mul(SETTLING_STAGES));
        }
    }

    /// How many means there are is said where there may be more than one, and nowhere else.
    fn check_releases(&self) -> Checked {
        let said = self.data.releases;
        match self.task {
            Some(TaskKind::Rounds) => given(
                said,
                "data.releases",
                "releases = 20 under [data], the number of rounds",
            )
            .map(drop),
            _ if self.mechanism.kind == Some(MechanismKind::Gossip) => Ok(()),
            _ => require(said.is_none_or(|said| said == 1), "data.releases", || {
                Problem::OnlyFor { only: RELEASED }
            }),
        }
    }

    /// The noise that cancels, where the run file leaves it open: even residues, unless it asks for
    /// something that only Gaussian noise goes with. Masks of pairs are always even.
    /// Called once the gaps are filled.
    fn correlated(&self, gossip: Option<GossipSettings>) -> CorrelatedNoise {
        if let Some(gossip) = gossip {
            let masked = gossip.sums_everybody();
            let even = if masked {
                CorrelatedNoise::Uniform
            } else {
                CorrelatedNoise::Gaussian
            };
            return self.mechanism.correlated.unwrap_or(even);
        }
        let mechanism = &self.mechanism;
        let own_noise = mechanism.independent_noise != Some(IndependentNoise::None);
        let late = matches!(mechanism.injection, None | Some(InjectionChoice::Late));
        let halved = mechanism.fanout == Some(1) && mechanism.rollback == Some(true) && late;
        let summed = self.run.dissemination != Some(Dissemination::Consensus);
        let uniform = own_noise && halved && summed && self.run.sealed != Some(false)
            || mechanism.kind == Some(MechanismKind::Pairwise);
        mechanism.correlated.unwrap_or(if uniform {
            CorrelatedNoise::Uniform
        } else {
            CorrelatedNoise::Gaussian
        })
    }
}

impl RawData {
    fn complete(self, template: Option<TemplateChoice>) -> Checked<Data> {
        let of_tensors = self
            .tensors
            .as_ref()
            .map(|tensors| vec![coordinates_of_all(tensors)]);
        Ok(Data {
            shape: given(
                self.shape.or(of_tensors),
                "data.shape",
                "shape = [1000] under [data]",
            )?,
            unit: given(self.unit, "data.unit", "unit = \"party\"")?,
            adjacency: given(self.adjacency, "data.adjacency", "adjacency = \"replace-one\"")?,
            clip: given(self.clip, "data.clip", "clip = { kind = \"l2\", radius = 1.0 }")?,
            weights: self.weights.map(on_weight_grid),
            columns: self.columns,
            tensors: self.tensors,
            template: template.map(TemplateChoice::settled).transpose()?,
            releases: self.releases.unwrap_or(1),
            result: given(self.result, "data.result", "result = \"mean\"")?,
            clipped: given(self.clipped, "data.clipped", "clipped = \"by-node\"")?,
            moments: false,
            noise_ok: given(self.noise_ok, "data.noise_ok", "noise_ok = false")?,
            adaptive: given(self.adaptive, "data.adaptive", "adaptive = false")?,
        })
    }
}

impl RawPrivacy {
    fn complete(self) -> Checked<Privacy> {
        Ok(Privacy {
            epsilon: given(self.epsilon, "privacy.epsilon", "epsilon = 1.0")?,
            delta: given(self.delta, "privacy.delta", "delta = 1e-6")?,
            colluding: given(self.colluding, "privacy.colluding", "colluding = 1")?,
            coalitions: given(self.coalitions, "privacy.coalitions", "coalitions = \"any\"")?,
            dropouts: given(self.dropouts, "privacy.dropouts", "dropouts = 1")?,
            draws: self.draws,
            share_faults: self.share_faults,
            protect: self.protect.unwrap_or_default(),
        })
    }
}

impl RawMechanism {
    fn complete(
        self,
        correlated: CorrelatedNoise,
        gossip: Option<GossipSettings>,
    ) -> Checked<MechanismSettings> {
        let injection = match correlated {
            CorrelatedNoise::Gaussian => InjectionChoice::Incremental,
            CorrelatedNoise::Uniform => InjectionChoice::Late,
        };
        Ok(MechanismSettings {
            kind: given(self.kind, "mechanism.kind", "kind = \"inca\"")?,
            correlated,
            injection: self.injection.unwrap_or(injection),
            rounds: given(self.rounds, "mechanism.rounds", "rounds = \"auto\"")?,
            fanout: given(self.fanout, "mechanism.fanout", "fanout = 1")?,
            rollback: given(self.rollback, "mechanism.rollback", "rollback = true")?,
            independent_noise: given(
                self.independent_noise,
                "mechanism.independent_noise",
                "independent_noise = \"calibrated\"",
            )?,
            accept_exact_sum: given(
                self.accept_exact_sum,
                "mechanism.accept_exact_sum",
                "accept_exact_sum = false",
            )?,
            local_noise_ok: given(
                self.local_noise_ok,
                "mechanism.local_noise_ok",
                "local_noise_ok = false",
            )?,
            gossip,
        })
    }

    /// How parties gossip; keys of gossip stand with no other kind.
    fn gossip(&self, topology: &Topology) -> Checked<Option<GossipSettings>> {
        let said = [
            ("mechanism.sums", self.sums.is_some()),
            ("mechanism.circle", self.circle.is_some()),
            ("mechanism.edges", self.edges.is_some()),
        ];
        if self.kind != Some(MechanismKind::Gossip) {
            let said = said.into_iter().find(|&(_, said)| said);
            return match said {
                Some((field, _)) => Err((field.into(), Problem::OnlyFor { only: GOSSIP })),
                None => Ok(None),
            };
        }
        let sums = self.sums.unwrap_or_default();
        // Where everybody is everybody's neighbour, one sum is all that anybody reads.
        let edges = self.edges.unwrap_or(ActiveEdges::All);
        let complete = topology.private == GraphChoice::Complete && edges == ActiveEdges::All;
        let circle = if complete {
            Circle::Everybody
        } else {
            Circle::Neighbours
        };
        Ok(Some(GossipSettings {
            sums,
            circle: match sums {
                SumsChoice::Open => self.circle,
                SumsChoice::Secure => Some(self.circle.unwrap_or(circle)),
            },
            edges,
        }))
    }
}

impl RawTopology {
    fn complete(self) -> Checked<Topology> {
        Ok(Topology {
            private: given(
                self.private,
                "topology.private",
                "private = { kind = \"complete\" }",
            )?,
            public: given(self.public, "topology.public", "public = { kind = \"complete\" }")?,
        })
    }
}

impl RawRunSettings {
    /// Leaves out what other runs have; the documented default may stand in any file.
    fn leave_out(&mut self, (training, ahead): (bool, bool), attempts: Option<u64>) {
        if !training {
            (self.iteration_ms, self.ahead_bytes) = (None, None);
        }
        if !ahead && self.mixing_attempts == attempts {
            self.mixing_attempts = None;
        }
    }

    fn complete(self, parties: usize, privacy: &Privacy, sealed: bool) -> Checked<RunSettings> {
        let left = parties.saturating_sub(privacy.dropouts);
        let join_ms = given(self.join_ms, "run.join_ms", "join_ms = 120000")?;
        Ok(RunSettings {
            min_parties: self.min_parties.unwrap_or(left),
            quorum: privacy.quorum(parties).signers(),
            dissemination: given(
                self.dissemination,
                "run.dissemination",
                "dissemination = \"flood\"",
            )?,
            sealed,
            join_ms,
            // People who start their nodes by hand do not do so at the same moment.
            grace_ms: self.grace_ms.unwrap_or(join_ms),
            accept_by: self.accept_by,
            round_ms: given(self.round_ms, "run.round_ms", "round_ms = 2000")?,
            settle_ms: given(self.settle_ms, "run.settle_ms", "settle_ms = 4000")?,
            accuracy: given(self.accuracy, "run.accuracy", "accuracy = 1e-3")?,
            pace_ms: given(self.pace_ms, "run.pace_ms", "pace_ms = 0")?,
            iteration_ms: self.iteration_ms,
            ahead_bytes: self.ahead_bytes,
            mixing_attempts: self.mixing_attempts,
        })
    }
}

/// The most neighbours that a party has among so many.
fn most_neighbours(graph: &GraphChoice, parties: usize) -> usize {
    let others = parties.saturating_sub(1);
    match graph {
        GraphChoice::Complete => others,
        GraphChoice::Ring => others.min(2),
        GraphChoice::RandomRegular { degree } => others.min(*degree),
        GraphChoice::Edges { edges } => {
            let mut degrees = BTreeMap::new();
            for name in edges.iter().flat_map(|(a, b)| [a, b]) {
                *degrees.entry(name).or_insert(0) += 1;
            }
            degrees.into_values().max().unwrap_or(0)
        }
    }
}

/// Whether noise of all releases, mixed ahead, is within the bytes that a node may hold of it,
/// whatever its plan will be.
fn fits_ahead(data: &Data, topology: &Topology, parties: usize, ahead_bytes: Option<u64>) -> bool {
    let bytes = ahead::bytes_held(
        most_neighbours(&topology.private, parties),
        data.releases.saturating_mul(data.dimension() as u64),
        ahead::WIDEST,
    );
    ahead_bytes.is_some_and(|most| bytes <= most)
}

fn given<T>(value: Option<T>, field: &str, example: &'static str) -> Checked<T> {
    value.ok_or_else(|| (field.to_string(), Problem::Missing { example }))
}

/// Rounds weights to multiples of 1/[`WEIGHT_UNIT`]; what is out of range stays and is refused
/// later.
fn on_weight_grid(weights: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let unit = WEIGHT_UNIT as f64;
    weights
        .into_iter()
        .map(|(name, weight)| (name, (weight * unit).round() / unit))
        .collect()
}
