//! Fills the gaps of a run file: defaults depend on the number of parties.

use std::collections::BTreeMap;

use crate::lattice::grid::WEIGHT_UNIT;
use crate::plan::computation::asked::{count_parties, majority};
use crate::plan::computation::choice::Computation;
use crate::plan::computation::describe::DescribeSettings;
use crate::plan::computation::model::RowsOf;
use crate::plan::computation::rounds::{ClippedBy, RoundsSettings};
use crate::plan::computation::sequence::SequenceSettings;
use crate::plan::computation::stream::{SETTLING_STAGES, StreamSettings, Sums};
use crate::plan::computation::template::TemplateChoice;
use crate::plan::defaults::Defaults;
use crate::plan::exchange::choice::Exchange;
use crate::plan::exchange::gossip::{Gossip, MessagesRead};
use crate::plan::exchange::inca::{Cancelling, GaussianNoise, Inca};
use crate::plan::exchange::pair_masks::PairwiseMasks;
use crate::plan::exchange::ppsc::{Ppsc, PpscNoise};
use crate::plan::precomputed_noise;
use crate::plan::run_file::error::RunFileError;
use crate::plan::run_file::parsed::RunFile;
use crate::plan::run_file::problem::{Checked, Problem, require};
use crate::plan::run_file::raw::{
    RawData, RawMechanism, RawPrivacy, RawRunFile, RawRunSettings, RawTopology,
};
use crate::plan::run_file::settings::{
    Adjacency, Clip, Coalitions, Contributed, CorrelatedNoise, Data, Dissemination, ExchangeName,
    GraphChoice, IndependentNoise, InjectionChoice, Privacy, Rounds, RunSettings, TaskName, Topology, Unit,
};
use crate::plan::run_file::tensors::coordinates_of_all;

/// `run.accuracy` of plans that average nothing: unused.
const ACCURACY: f64 = 1e-3;

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
        let task = self.task.unwrap_or_default();
        let table = RawRunFile::defaults(task, defaults);
        self.leave_a_majority(parties, &table);
        self.prepare(task, &table)?;
        let clipped = self.model.clip.is_some();
        let chosen = self.mechanism.kind;
        // The documented default may stand in any file.
        let attempts = self.run.mixing_attempts;
        let attempts = attempts.filter(|_| attempts != table.run.mixing_attempts);
        self.fill(table);
        let version = given(self.version, "version", "version = 1")?;
        require(version == 1, "version", || Problem::Version { found: version })?;
        let topology = std::mem::take(&mut self.topology).complete()?;
        let (computation, data) = self.computation(task, clipped)?;
        let privacy = self.privacy.complete()?;
        let wishes = Wishes {
            dissemination: self.run.dissemination.unwrap_or(Dissemination::Flood),
            sealed: self.run.sealed,
        };
        let exchange = match &computation {
            Computation::Mean {} => self.mechanism.of_mean(&wishes)?,
            Computation::Regression { sequence, .. }
            | Computation::Rounds(RoundsSettings { sequence, .. }) => {
                let all = computation.releases().saturating_mul(data.dimension() as u64);
                let fits = fits_precomputed(all, &topology, parties, sequence.precomputed_bytes);
                self.mechanism.in_sequence(chosen, fits)?
            }
            Computation::Describe(_) => self.mechanism.in_sequence(chosen, true)?,
            Computation::Stream(_) => self.mechanism.of_stream(),
            Computation::LinearEquations(_) | Computation::Optimise(_) => self.mechanism.of_recursion(),
        };
        let mixes = exchange.rules().mixes();
        require(attempts.is_none() || mixes, "run.mixing_attempts", || {
            Problem::OnlyFor {
                only: "kind = \"inca\", whose noise is precomputed",
            }
        })?;
        let sealed = wishes.sealed.unwrap_or(seals(&exchange));
        let run = self
            .run
            .complete(parties, &privacy, (wishes.dissemination, sealed))?;
        Ok(RunFile {
            name: given(self.name, "name", "name = \"blood-pressure-2026\"")?,
            computation,
            data,
            privacy,
            exchange,
            topology,
            run,
        })
    }

    /// Few parties tolerate no departure: too few would be left to agree.
    fn leave_a_majority(&mut self, parties: usize, table: &RawRunFile) {
        let colluding = self.privacy.colluding.or(table.privacy.colluding).unwrap_or(0);
        if self.privacy.dropouts.is_none() && !majority(parties, colluding, 1) {
            self.privacy.dropouts = Some(0);
        }
    }

    /// Says what follows from other keys where the file does not, before gaps are filled.
    fn prepare(&mut self, task: TaskName, table: &RawRunFile) -> Checked {
        match task {
            TaskName::Mean | TaskName::Rounds => {
                if self.data.unit == Some(Unit::Record) {
                    given(self.data.clip.as_ref(), "data.clip", CLIP_OF_RECORDS)?;
                }
            }
            TaskName::Describe => {
                self.data.unit = Some(Unit::Record);
                self.data.shape = Some(vec![1]);
            }
            TaskName::Regression => self.model.settle_method(&table.model)?,
            TaskName::Stream => {
                // A round of secure sums has time for a flood, an agreement and an opening.
                let open = self.mechanism.sums.or(table.mechanism.sums) == Some(Sums::Open);
                let settle_ms = self.run.settle_ms.or(table.run.settle_ms);
                let stages = settle_ms.map(|settle_ms| settle_ms.saturating_mul(SETTLING_STAGES));
                self.run.round_ms = self.run.round_ms.or(stages.filter(|_| !open));
                if open {
                    self.data.releases = self.data.releases.or(Some(1));
                }
            }
            // As in the paper: parties contribute rows, and nobody may leave.
            TaskName::LinearEquations | TaskName::Optimise => {
                self.data.unit = Some(Unit::Record);
                self.privacy.dropouts = Some(0);
            }
        }
        // The stages of releases in sequence take half of an iteration each.
        let iteration_ms = self.run.iteration_ms.or(table.run.iteration_ms);
        self.run.settle_ms = self
            .run
            .settle_ms
            .or(iteration_ms.map(|iteration_ms| iteration_ms / 2));
        Ok(())
    }

    /// Returns the computation, and the data that each party contributes to it. `clipped`: whether
    /// the file itself says `model.clip`. Called once gaps are filled.
    fn computation(&mut self, task: TaskName, clipped: bool) -> Checked<(Computation, Data)> {
        let of_rows = task.takes_features();
        let bounds = match task {
            TaskName::Regression => self.data.clip.take(),
            _ => None,
        };
        let raw = std::mem::take(&mut self.data);
        let (releases, result, template) = (raw.releases, raw.result, raw.template.clone());
        let adaptive = raw.adaptive.unwrap_or(false);
        let mut data = raw.complete()?;
        let rows = of_rows.then(|| RowsOf {
            shape: std::mem::take(&mut data.shape),
            names: data.columns.take(),
            bounds,
        });
        let recursion = std::mem::take(&mut self.recursion);
        let computation = match (task, rows) {
            (TaskName::Mean, _) => Computation::Mean {},
            (TaskName::Describe, _) => {
                let described = std::mem::take(&mut self.describe).complete()?;
                Computation::Describe(DescribeSettings::of(described))
            }
            (TaskName::Rounds, _) => Computation::Rounds(RoundsSettings {
                releases: given(
                    releases,
                    "data.releases",
                    "releases = 20 under [data], the number of rounds",
                )?,
                result: given(result, "data.result", "result = \"mean\"")?,
                template: template.map(TemplateChoice::settled).transpose()?,
                sequence: self.run.sequence()?,
            }),
            (TaskName::Regression, Some(rows)) => Computation::Regression {
                model: std::mem::take(&mut self.model).complete(rows, clipped)?,
                sequence: self.run.sequence()?,
            },
            (TaskName::LinearEquations, Some(rows)) => {
                Computation::LinearEquations(recursion.complete(rows)?)
            }
            (TaskName::Optimise, Some(rows)) => Computation::Optimise(recursion.complete(rows)?),
            (TaskName::Stream, _) | (_, None) => Computation::Stream(StreamSettings {
                releases: given(
                    releases,
                    "data.releases",
                    "releases = 20 under [data], the number of rows that each party brings",
                )?,
                protect: self.privacy.protect.unwrap_or_default(),
                adaptive,
            }),
        };
        let data = computation.contributions(data);
        Ok((computation, data))
    }
}

/// The choices about finals in a run file that bear on which noise cancels.
struct Wishes {
    dissemination: Dissemination,
    sealed: Option<bool>,
}

/// Whether finals leave sealed where the file does not say: all that can be.
fn seals(exchange: &Exchange) -> bool {
    match exchange {
        Exchange::Gossip(gossip) => gossip.read == MessagesRead::Sums,
        _ => exchange.correlated() == CorrelatedNoise::Uniform,
    }
}

impl RawRunSettings {
    /// The time of an iteration, and the precomputed noise.
    fn sequence(&self) -> Checked<SequenceSettings> {
        Ok(SequenceSettings {
            iteration_ms: given(self.iteration_ms, "run.iteration_ms", "iteration_ms = 8000")?,
            precomputed_bytes: given(
                self.precomputed_bytes,
                "run.precomputed_bytes",
                "precomputed_bytes = 268435456",
            )?,
            mixing_attempts: given(self.mixing_attempts, "run.mixing_attempts", "mixing_attempts = 3")?,
        })
    }
}

impl RawData {
    fn complete(self) -> Checked<Data> {
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
            unit: self.unit.unwrap_or(Unit::Party),
            adjacency: self.adjacency.unwrap_or(Adjacency::ReplaceOne),
            // A model's contributions have a range of their own.
            clip: self.clip.unwrap_or(Clip::L2 { radius: 1.0 }),
            weights: self.weights.map(on_weight_grid),
            // How many rows a protected party has concerns nobody.
            records: self.records.filter(|_| self.unit == Some(Unit::Record)),
            columns: self.columns,
            tensors: self.tensors,
            contributed: match self.clipped {
                Some(ClippedBy::ByProgram) => Contributed::ByProgram,
                Some(ClippedBy::ByNode) | None => Contributed::AsTheyAre,
            },
            noise_ok: self.noise_ok.unwrap_or(false),
        })
    }
}

impl RawPrivacy {
    fn complete(&self) -> Checked<Privacy> {
        Ok(Privacy {
            epsilon: given(self.epsilon, "privacy.epsilon", "epsilon = 1.0")?,
            delta: given(self.delta, "privacy.delta", "delta = 1e-6")?,
            colluding: given(self.colluding, "privacy.colluding", "colluding = 1")?,
            coalitions: self.coalitions.unwrap_or(Coalitions::Any),
            dropouts: given(self.dropouts, "privacy.dropouts", "dropouts = 1")?,
            share_faults: self.share_faults,
        })
    }
}

/// The exchanges that messages name.
const INCA: &str = "mechanism.kind = \"inca\" with correlated = \"gaussian\"";
const PPSC: &str = "mechanism.kind = \"ppsc\"";

impl RawMechanism {
    /// The exchange of one mean. Uniform noise, unless the file asks for something that only
    /// Gaussian noise goes with.
    fn of_mean(self, wishes: &Wishes) -> Checked<Exchange> {
        let rounds = self.rounds.unwrap_or(Rounds::Auto);
        let exact = self.independent_noise == Some(IndependentNoise::None);
        let readable = wishes.dissemination == Dissemination::Consensus || wishes.sealed == Some(false);
        let gaussian = match self.correlated {
            Some(noise) => noise == CorrelatedNoise::Gaussian,
            None => exact || readable || self.asks_for_gaussian(),
        };
        match self.kind.unwrap_or(ExchangeName::Inca) {
            ExchangeName::Inca => {
                self.refuse_ppscs()?;
                Ok(Exchange::Inca(Inca {
                    rounds,
                    noise: if gaussian {
                        self.gaussian()
                    } else {
                        self.uniform()?
                    },
                }))
            }
            ExchangeName::Ppsc => {
                self.refuse_incas()?;
                let accepted = self.accept_exact_sum == Some(true);
                require(!exact || accepted, "mechanism.independent_noise", || {
                    Problem::ExactSum
                })?;
                require(gaussian || !exact, "mechanism.independent_noise", || {
                    Problem::OnlyFor {
                        only: "mechanism.correlated = \"gaussian\"",
                    }
                })?;
                Ok(Exchange::Ppsc(Ppsc {
                    rounds,
                    noise: match (exact, gaussian) {
                        (true, _) => PpscNoise::ExactSum,
                        (false, true) => PpscNoise::Gaussian,
                        (false, false) => PpscNoise::Uniform,
                    },
                    local_noise_ok: self.local_noise_ok.unwrap_or(false),
                }))
            }
            ExchangeName::Pairwise => {
                self.refuse_ppscs()?;
                self.refuse_incas()?;
                let uniform = self.correlated != Some(CorrelatedNoise::Gaussian);
                require(uniform, "mechanism.correlated", || Problem::OnlyFor {
                    only: "another mechanism.kind than \"pairwise\"",
                })?;
                Ok(Exchange::PairMasks(PairwiseMasks { rounds }))
            }
            ExchangeName::Gossip => foreign_kind("task = \"stream\", which has no other kind"),
        }
    }

    /// The exchange of releases in sequence: precomputed noise where a node may hold as
    /// much, masks of pairs else.
    fn in_sequence(self, chosen: Option<ExchangeName>, fits_precomputed: bool) -> Checked<Exchange> {
        let rounds = self.rounds.unwrap_or(Rounds::Auto);
        let precomputed = Exchange::Inca(Inca {
            rounds,
            noise: Cancelling::Uniform,
        });
        match chosen {
            Some(ExchangeName::Inca) => Ok(precomputed),
            Some(ExchangeName::Pairwise) => Ok(Exchange::PairMasks(PairwiseMasks { rounds })),
            None if fits_precomputed => Ok(precomputed),
            None => Ok(Exchange::PairMasks(PairwiseMasks { rounds })),
            Some(ExchangeName::Ppsc | ExchangeName::Gossip) => {
                foreign_kind("task = \"mean\": here it is \"inca\" or \"pairwise\"")
            }
        }
    }

    fn of_stream(self) -> Exchange {
        let rounds = self.rounds.unwrap_or(Rounds::Auto);
        let edges = self.edges.unwrap_or_default();
        let gossip = |read| Exchange::Gossip(Gossip { rounds, read, edges });
        match self.sums.unwrap_or(Sums::Everybody) {
            Sums::Everybody => Exchange::PairMasks(PairwiseMasks { rounds }),
            Sums::Neighbours => gossip(MessagesRead::Sums),
            Sums::Open => gossip(MessagesRead::Each),
        }
    }

    /// PPSC as in the paper. Without `accept_exact_sum` it is an exchange that the computation
    /// refuses.
    fn of_recursion(self) -> Exchange {
        Exchange::Ppsc(Ppsc {
            rounds: Rounds::Auto,
            noise: match self.accept_exact_sum {
                Some(true) => PpscNoise::ExactSum,
                _ => PpscNoise::Gaussian,
            },
            local_noise_ok: false,
        })
    }

    /// Whether something is asked for that only INCA's Gaussian noise goes with.
    fn asks_for_gaussian(&self) -> bool {
        let late = matches!(self.injection, None | Some(InjectionChoice::Late));
        !late || self.fanout.is_some_and(|fanout| fanout != 1) || self.rollback == Some(false)
    }

    fn gaussian(self) -> Cancelling {
        let default = GaussianNoise::default();
        Cancelling::Gaussian(GaussianNoise {
            injection: self.injection.unwrap_or(default.injection),
            fanout: self.fanout.unwrap_or(default.fanout),
            rollback: self.rollback.unwrap_or(default.rollback),
        })
    }

    fn uniform(self) -> Checked<Cancelling> {
        self.refuse_incas()?;
        Ok(Cancelling::Uniform)
    }

    /// Refuses choices that only INCA's Gaussian noise has.
    fn refuse_incas(&self) -> Checked {
        let only = || Problem::OnlyFor { only: INCA };
        let late = matches!(self.injection, None | Some(InjectionChoice::Late));
        require(late, "mechanism.injection", only)?;
        require(
            self.fanout.is_none_or(|fanout| fanout == 1),
            "mechanism.fanout",
            only,
        )?;
        require(self.rollback != Some(false), "mechanism.rollback", only)
    }

    /// Refuses choices that only PPSC has.
    fn refuse_ppscs(&self) -> Checked {
        let only = || Problem::OnlyFor { only: PPSC };
        let calibrated = self.independent_noise != Some(IndependentNoise::None);
        require(calibrated, "mechanism.independent_noise", only)?;
        require(
            self.accept_exact_sum != Some(true),
            "mechanism.accept_exact_sum",
            only,
        )?;
        require(
            self.local_noise_ok != Some(true),
            "mechanism.local_noise_ok",
            only,
        )
    }
}

fn foreign_kind(only: &'static str) -> Checked<Exchange> {
    Err(("mechanism.kind".to_owned(), Problem::OnlyFor { only }))
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
    fn complete(
        self,
        parties: usize,
        privacy: &Privacy,
        (dissemination, sealed): (Dissemination, bool),
    ) -> Checked<RunSettings> {
        let left = parties.saturating_sub(privacy.dropouts);
        let join_ms = given(self.join_ms, "run.join_ms", "join_ms = 120000")?;
        Ok(RunSettings {
            min_parties: self.min_parties.unwrap_or(left),
            quorum: privacy.quorum(parties).signers(),
            dissemination,
            sealed,
            join_ms,
            // People who start their nodes by hand do not do so at the same moment.
            grace_ms: self.grace_ms.unwrap_or(join_ms),
            accept_by: self.accept_by,
            round_ms: given(self.round_ms, "run.round_ms", "round_ms = 2000")?,
            settle_ms: given(self.settle_ms, "run.settle_ms", "settle_ms = 4000")?,
            accuracy: self.accuracy.unwrap_or(ACCURACY),
            pace_ms: given(self.pace_ms, "run.pace_ms", "pace_ms = 0")?,
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

/// Whether noise of so many coordinates of all releases, precomputed, is within the bytes that a
/// node may hold of it, whatever its plan will be.
fn fits_precomputed(coordinates: u64, topology: &Topology, parties: usize, precomputed_bytes: u64) -> bool {
    let neighbours = most_neighbours(&topology.private, parties);
    precomputed_noise::bytes_held(neighbours, coordinates, precomputed_noise::WIDEST) <= precomputed_bytes
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
