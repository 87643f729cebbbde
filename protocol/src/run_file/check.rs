//! Defaults that depend on the number of parties, and every check that a run file alone allows.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::raw::RawRunFile;
use super::settings::*;
use super::{RunFile, RunFileError};
use crate::defaults::Defaults;
use crate::injection::{Injection, InjectionError};
use crate::lattice::WEIGHT_UNIT;
use crate::payload::Ratio;

/// The largest number of parties. Our choice: an exchange of everybody with everybody is the wrong tool beyond.
pub const MOST_PARTIES: usize = 1024;
/// The largest T: the lattice carries common denominators up to 64, and D_Inc's is T + 1 (DESIGN section 4, Lattice).
pub const MOST_ROUNDS: u32 = 63;
/// The largest number of network rounds of PPSC, whose lattice grows with no power of them. Our choice: a plan lists them all.
pub const MOST_EXCHANGE_ROUNDS: u32 = 4096;
/// The largest fan-out. Our choice: beyond it (k+1)^T leaves room for few rounds, and drawing a schedule takes seconds.
pub const MOST_FANOUT: u32 = 16;
/// The largest dimension. Our choice: 2³¹ coordinates are 16 GiB a state.
const MOST_COORDINATES: usize = 1 << 31;
/// The longest time-out: a day. Keeps every sum of deadlines far from overflow.
const LONGEST_MS: u64 = 86_400_000;

/// The largest T of a mechanism.
pub fn most_rounds(kind: MechanismKind) -> u32 {
    match kind {
        MechanismKind::Ppsc => MOST_EXCHANGE_ROUNDS,
        MechanismKind::Inca | MechanismKind::Gossip => MOST_ROUNDS,
    }
}

/// What is wrong with a value. Prints what was found; [`Problem::fix`] says what to do.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Problem {
    /// A key without a default is missing.
    #[error("is missing")]
    Missing {
        /// A line that would do.
        example: &'static str,
    },
    /// Another version of the format.
    #[error("is {found}, which this program does not read")]
    Version {
        /// The version found.
        found: u32,
    },
    /// A name that cannot be shown everywhere.
    #[error("is not a usable name")]
    Name,
    /// A number outside of its range, or not finite.
    #[error("is {}, outside of its range", readable(*.found))]
    Range {
        /// What was found.
        found: f64,
        /// What would do.
        expected: &'static str,
    },
    /// A count outside of its range.
    #[error("is {found}, which must be from {least} to {most} here")]
    Count {
        /// What was found.
        found: u64,
        /// The least that would do.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A shape without coordinates, or with too many.
    #[error("has {coordinates} coordinates")]
    Shape {
        /// The product of the extents, saturated.
        coordinates: usize,
    },
    /// Box bounds as many as something else.
    #[error("lists {found} bounds for {expected} coordinates")]
    BoundCount {
        /// The length of the list.
        found: usize,
        /// d.
        expected: usize,
    },
    /// Names as many as something else.
    #[error("lists {found} names for {expected} columns")]
    ColumnCount {
        /// The length of the list.
        found: usize,
        /// The extent of the last axis.
        expected: usize,
    },
    /// A column without a name of its own.
    #[error("has no name of its own for column {column}")]
    ColumnName {
        /// From 1.
        column: usize,
    },
    /// A box without an inside.
    #[error("has low = {low} not below high = {high} at coordinate {coordinate}")]
    BoxOrder {
        /// The first such coordinate.
        coordinate: usize,
        /// Its low.
        low: f64,
        /// Its high.
        high: f64,
    },
    /// A key that does not apply to what was chosen.
    #[error("applies to {only} only")]
    OnlyFor {
        /// To what.
        only: &'static str,
    },
    /// More departures than leave a majority that the coalition cannot forge.
    #[error(
        "is {found}: {remaining} of {parties} parties would remain, which must be more than (parties + colluding)/2 = {half}"
    )]
    Dropouts {
        /// What was found.
        found: usize,
        /// parties − dropouts.
        remaining: usize,
        /// n.
        parties: usize,
        /// (parties + colluding)/2.
        half: f64,
    },
    /// A pace slower than the deadline.
    #[error("is {pace_ms} ms, longer than round_ms = {round_ms}")]
    Pace {
        /// As found.
        pace_ms: u64,
        /// As found.
        round_ms: u64,
    },
    /// (c, Z) is not valid.
    #[error("is not usable: {0}")]
    Injection(InjectionError),
    /// (c, Z) is for another number of rounds.
    #[error("is {found}, but the injection's c is for {expected} rounds")]
    Rounds {
        /// As found.
        found: u32,
        /// By the length of c.
        expected: u32,
    },
    /// Exact sums would be revealed without the owner saying so.
    #[error("is \"none\", which reveals the exact sum of every component")]
    ExactSum,
    /// Something that plans do not carry yet.
    #[error("is {found}, which this version does not run yet")]
    NotYet {
        /// The value.
        found: &'static str,
        /// What it does run.
        instead: &'static str,
    },
}

/// Without hundreds of zeros.
fn readable(number: f64) -> String {
    if number == 0.0 || (1e-5..1e15).contains(&number.abs()) {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

impl Problem {
    /// What to do about it.
    pub fn fix(&self) -> String {
        match self {
            Problem::Missing { example } => format!("add a line such as {example}"),
            Problem::Version { .. } => "write version = 1".into(),
            Problem::Name => "use 1 to 64 letters, digits, spaces or . _ -".into(),
            Problem::Range { expected, .. } => format!("it must be {expected}"),
            Problem::Count { least, most, .. } if least == most => format!("write {least}"),
            Problem::Count { least, most, .. } => format!("choose a number from {least} to {most}"),
            Problem::Shape { .. } => {
                format!(
                    "list 1 to 32 extents of at least 1 each, with a product of at most {MOST_COORDINATES}"
                )
            }
            Problem::BoundCount { expected, .. } => format!("give one number, or a list of {expected}"),
            Problem::ColumnCount { expected, .. } => format!("name all {expected}, or leave the key out"),
            Problem::ColumnName { .. } => {
                "give each a different name of 1 to 256 characters, without spaces around it".into()
            }
            Problem::BoxOrder { .. } => "every low must be a finite number below its high".into(),
            Problem::OnlyFor { .. } => "leave the key out".into(),
            Problem::Dropouts { .. } => "lower privacy.dropouts or privacy.colluding, or add parties".into(),
            Problem::Pace { .. } => "lower run.pace_ms or raise run.round_ms".into(),
            Problem::Injection(_) => "correct mechanism.injection, or use \"incremental\"".into(),
            Problem::Rounds { expected, .. } => format!("leave it out, or write rounds = {expected}"),
            Problem::ExactSum => "use \"calibrated\", or add accept_exact_sum = true if that is meant".into(),
            Problem::NotYet { instead, .. } => format!("use {instead}"),
        }
    }
}

type Checked = Result<(), (String, Problem)>;

fn refuse(field: &str, problem: Problem) -> Checked {
    Err((field.to_string(), problem))
}

fn require(holds: bool, field: &str, problem: impl FnOnce() -> Problem) -> Checked {
    if holds { Ok(()) } else { refuse(field, problem()) }
}

/// Fresh draws that a sampled claim rests on: below, it says next to nothing; above, nobody waits for them.
const FEWEST_DRAWS: u64 = 100;
const MOST_DRAWS: u64 = 10_000_000;

fn count(field: &str, found: u64, least: u64, most: u64) -> Checked {
    require((least..=most).contains(&found), field, || Problem::Count {
        found,
        least,
        most,
    })
}

fn count_parties(parties: usize) -> Checked {
    count("the number of parties", parties as u64, 3, MOST_PARTIES as u64)
}

impl RawRunFile {
    /// Fills the gaps from the table of defaults, which depend on the number of parties, and checks everything.
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

    fn complete(mut self, parties: usize, defaults: Defaults) -> Result<RunFile, (String, Problem)> {
        let table = RawRunFile::defaults(defaults);
        if self.privacy.dropouts.is_none() {
            let colluding = self.privacy.colluding.or(table.privacy.colluding).unwrap_or(0);
            if !majority(parties, colluding, 1) {
                self.privacy.dropouts = Some(0);
            }
        }
        self.fill(table);
        let version = given(self.version, "version", "version = 1")?;
        require(version == 1, "version", || Problem::Version { found: version })?;
        let dropouts = given(self.privacy.dropouts, "privacy.dropouts", "dropouts = 1")?;
        Ok(RunFile {
            task: given(self.task, "task", "task = \"mean\"")?,
            name: given(self.name, "name", "name = \"blood-pressure-2026\"")?,
            data: Data {
                shape: given(self.data.shape, "data.shape", "shape = [1000] under [data]")?,
                unit: given(self.data.unit, "data.unit", "unit = \"party\"")?,
                adjacency: given(
                    self.data.adjacency,
                    "data.adjacency",
                    "adjacency = \"replace-one\"",
                )?,
                clip: given(
                    self.data.clip,
                    "data.clip",
                    "clip = { kind = \"l2\", radius = 1.0 }",
                )?,
                weights: self.data.weights.map(on_weight_grid),
                columns: self.data.columns,
            },
            privacy: Privacy {
                epsilon: given(self.privacy.epsilon, "privacy.epsilon", "epsilon = 1.0")?,
                delta: given(self.privacy.delta, "privacy.delta", "delta = 1e-6")?,
                colluding: given(self.privacy.colluding, "privacy.colluding", "colluding = 1")?,
                coalitions: given(
                    self.privacy.coalitions,
                    "privacy.coalitions",
                    "coalitions = \"any\"",
                )?,
                dropouts,
                draws: self.privacy.draws,
            },
            mechanism: Mechanism {
                kind: given(self.mechanism.kind, "mechanism.kind", "kind = \"inca\"")?,
                injection: given(
                    self.mechanism.injection,
                    "mechanism.injection",
                    "injection = \"incremental\"",
                )?,
                rounds: given(self.mechanism.rounds, "mechanism.rounds", "rounds = \"auto\"")?,
                fanout: given(self.mechanism.fanout, "mechanism.fanout", "fanout = 1")?,
                rollback: given(self.mechanism.rollback, "mechanism.rollback", "rollback = true")?,
                independent_noise: given(
                    self.mechanism.independent_noise,
                    "mechanism.independent_noise",
                    "independent_noise = \"calibrated\"",
                )?,
                accept_exact_sum: given(
                    self.mechanism.accept_exact_sum,
                    "mechanism.accept_exact_sum",
                    "accept_exact_sum = false",
                )?,
                local_noise_ok: given(
                    self.mechanism.local_noise_ok,
                    "mechanism.local_noise_ok",
                    "local_noise_ok = false",
                )?,
            },
            topology: Topology {
                private: given(
                    self.topology.private,
                    "topology.private",
                    "private = { kind = \"complete\" }",
                )?,
                public: given(
                    self.topology.public,
                    "topology.public",
                    "public = { kind = \"complete\" }",
                )?,
            },
            run: RunSettings {
                min_parties: self.run.min_parties.unwrap_or(parties.saturating_sub(dropouts)),
                dissemination: given(
                    self.run.dissemination,
                    "run.dissemination",
                    "dissemination = \"flood\"",
                )?,
                join_ms: given(self.run.join_ms, "run.join_ms", "join_ms = 120000")?,
                round_ms: given(self.run.round_ms, "run.round_ms", "round_ms = 2000")?,
                settle_ms: given(self.run.settle_ms, "run.settle_ms", "settle_ms = 4000")?,
                accuracy: given(self.run.accuracy, "run.accuracy", "accuracy = 1e-3")?,
                pace_ms: given(self.run.pace_ms, "run.pace_ms", "pace_ms = 0")?,
            },
        })
    }
}

fn given<T>(value: Option<T>, field: &str, example: &'static str) -> Result<T, (String, Problem)> {
    value.ok_or_else(|| (field.to_string(), Problem::Missing { example }))
}

/// Whether `parties − dropouts` (parties: at most [`MOST_PARTIES`]) is more than (parties + colluding)/2, so that any two agreed sets share an honest signer.
fn majority(parties: usize, colluding: usize, dropouts: usize) -> bool {
    2 * parties.saturating_sub(dropouts) > parties.saturating_add(colluding)
}

/// Rounds weights to multiples of 1/[`WEIGHT_UNIT`]; what is out of range stays and is refused later.
fn on_weight_grid(weights: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let unit = WEIGHT_UNIT as f64;
    weights
        .into_iter()
        .map(|(name, weight)| (name, (weight * unit).round() / unit))
        .collect()
}

impl RunFile {
    /// Everything that can be said without the list of peers.
    pub(crate) fn check(&self, parties: usize) -> Result<(), (String, Problem)> {
        check_settings(
            &self.name,
            &self.data,
            &self.privacy,
            &self.mechanism,
            &self.run,
            parties,
        )
    }

    /// Refuses what parses, and will run one day, but that this version's plans do not carry.
    pub fn supported(&self) -> Result<(), RunFileError> {
        supported(&self.privacy, &self.mechanism).map_err(|(field, problem)| RunFileError::Field {
            field,
            line: None,
            problem,
        })
    }
}

/// Checks the settings of a run file or of a plan.
pub(crate) fn check_settings(
    name: &str,
    data: &Data,
    privacy: &Privacy,
    mechanism: &Mechanism,
    run: &RunSettings,
    parties: usize,
) -> Checked {
    count_parties(parties)?;
    let name_fine = (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b" ._-".contains(&b))
        && name.trim() == name;
    require(name_fine, "name", || Problem::Name)?;
    data.check()?;
    privacy.check(parties)?;
    mechanism.check(parties)?;
    run.check(parties, privacy.dropouts)
}

pub(crate) fn supported(privacy: &Privacy, mechanism: &Mechanism) -> Checked {
    let not_yet = |field: &str, found, instead| refuse(field, Problem::NotYet { found, instead });
    match mechanism.kind {
        MechanismKind::Inca | MechanismKind::Ppsc => {}
        MechanismKind::Gossip => return not_yet("mechanism.kind", "\"gossip\"", "\"inca\" or \"ppsc\""),
    }
    if privacy.coalitions == Coalitions::Static {
        // Random draws are computed by a fast path that knows this mechanism only.
        if mechanism.kind != MechanismKind::Inca {
            return not_yet(
                "mechanism.kind",
                "\"ppsc\" while coalitions = \"static\"",
                "\"inca\"",
            );
        }
        if mechanism.injection != InjectionChoice::Incremental {
            let found = "another injection than \"incremental\" while coalitions = \"static\"";
            return not_yet("mechanism.injection", found, "\"incremental\"");
        }
        if !mechanism.rollback {
            return not_yet(
                "mechanism.rollback",
                "false while coalitions = \"static\"",
                "true",
            );
        }
    }
    Ok(())
}

impl Data {
    fn check(&self) -> Checked {
        let coordinates = self.dimension();
        let fits = (1..=32).contains(&self.shape.len())
            && self.shape.iter().all(|&extent| extent >= 1)
            && coordinates <= MOST_COORDINATES;
        require(fits, "data.shape", || Problem::Shape { coordinates })?;
        self.clip.check(coordinates)?;
        self.check_columns()?;
        let Some(weights) = &self.weights else {
            return Ok(());
        };
        require(self.unit == Unit::Party, "data.weights", || Problem::OnlyFor {
            only: "unit = \"party\"",
        })?;
        for (name, &found) in weights {
            let on_grid = (found * WEIGHT_UNIT as f64).fract() == 0.0;
            require(
                (0.01..=1e6).contains(&found) && on_grid,
                &format!("data.weights.{name}"),
                || Problem::Range {
                    found,
                    expected: "from 0.01 to 1000000, a multiple of 2^-20 (only the ratios of weights matter)",
                },
            )?;
        }
        Ok(())
    }
}

impl Data {
    fn check_columns(&self) -> Checked {
        let Some(columns) = &self.columns else {
            return Ok(());
        };
        let (found, expected) = (columns.len(), self.shape.last().copied().unwrap_or(0));
        require(found == expected, "data.columns", || Problem::ColumnCount {
            found,
            expected,
        })?;
        let wrong = unnamed(columns);
        require(wrong.is_none(), "data.columns", || Problem::ColumnName {
            column: wrong.map_or(0, |at| at + 1),
        })
    }
}

/// The first column, from 0, that has no name of its own that a plan can carry.
pub fn unnamed(columns: &[String]) -> Option<usize> {
    let fine = |name: &str| {
        (1..=256).contains(&name.len()) && name.trim() == name && !name.contains(char::is_control)
    };
    let mut names = BTreeSet::new();
    columns.iter().position(|name| !fine(name) || !names.insert(name))
}

/// Bounds outside of which squares of f64 would overflow or vanish.
fn sizeable(number: f64) -> bool {
    number.is_finite() && number.abs() <= 1e100
}

impl Clip {
    fn check(&self, coordinates: usize) -> Checked {
        match self {
            Clip::L2 { radius } => require((1e-100..=1e100).contains(radius), "data.clip.radius", || {
                Problem::Range {
                    found: *radius,
                    expected: "a finite number above 0 (1e-100 to 1e100)",
                }
            }),
            Clip::Box { low, high } => {
                for (field, bound) in [("data.clip.low", low), ("data.clip.high", high)] {
                    if let Bound::Each(bounds) = bound {
                        let found = bounds.len();
                        require(found == coordinates, field, || Problem::BoundCount {
                            found,
                            expected: coordinates,
                        })?;
                    }
                }
                let listed = match (low, high) {
                    (Bound::All(_), Bound::All(_)) => 1,
                    _ => coordinates,
                };
                for coordinate in 0..listed {
                    let (low, high) = (low.at(coordinate), high.at(coordinate));
                    let inside = sizeable(low) && sizeable(high) && high - low >= 1e-100;
                    require(inside, "data.clip", || Problem::BoxOrder {
                        coordinate,
                        low,
                        high,
                    })?;
                }
                Ok(())
            }
        }
    }
}

impl Privacy {
    fn check(&self, parties: usize) -> Checked {
        let positive = self.epsilon.is_finite() && self.epsilon > 0.0;
        require(positive, "privacy.epsilon", || Problem::Range {
            found: self.epsilon,
            expected: "a finite number above 0, such as 1.0",
        })?;
        let inside = self.delta > 0.0 && self.delta < 1.0;
        require(inside, "privacy.delta", || Problem::Range {
            found: self.delta,
            expected: "above 0 and below 1, such as 1e-6",
        })?;
        count(
            "privacy.colluding",
            self.colluding as u64,
            0,
            parties.saturating_sub(2) as u64,
        )?;
        require(
            majority(parties, self.colluding, self.dropouts),
            "privacy.dropouts",
            || Problem::Dropouts {
                found: self.dropouts,
                remaining: parties.saturating_sub(self.dropouts),
                parties,
                half: (parties + self.colluding) as f64 / 2.0,
            },
        )?;
        let Some(draws) = self.draws else { return Ok(()) };
        let only = Problem::OnlyFor {
            only: "privacy.coalitions = \"static\"",
        };
        require(self.coalitions == Coalitions::Static, "privacy.draws", || only)?;
        count("privacy.draws", draws, FEWEST_DRAWS, MOST_DRAWS)
    }
}

impl Mechanism {
    fn check(&self, parties: usize) -> Checked {
        if let Rounds::Fixed(rounds) = self.rounds {
            count(
                "mechanism.rounds",
                rounds.into(),
                1,
                most_rounds(self.kind).into(),
            )?;
        }
        if let InjectionChoice::Custom { c, .. } = &self.injection {
            count(
                "mechanism.injection.c",
                c.len() as u64,
                2,
                u64::from(MOST_ROUNDS) + 1,
            )?;
            let expected = c.len() as u32 - 1;
            if let Rounds::Fixed(found) = self.rounds {
                require(found == expected, "mechanism.rounds", || Problem::Rounds {
                    found,
                    expected,
                })?;
            }
            self.injection
                .exact(expected)
                .map_err(|e| ("mechanism.injection".to_string(), Problem::Injection(e)))?;
        }
        // Below the number of neighbours, of which a party has at most parties − 1.
        count(
            "mechanism.fanout",
            self.fanout.into(),
            1,
            u64::from(MOST_FANOUT).min(parties.saturating_sub(2).max(1) as u64),
        )?;
        if self.kind != MechanismKind::Ppsc {
            let only = Problem::OnlyFor {
                only: "mechanism.kind = \"ppsc\"",
            };
            require(
                self.independent_noise == IndependentNoise::Calibrated,
                "mechanism.independent_noise",
                || only.clone(),
            )?;
            require(!self.accept_exact_sum, "mechanism.accept_exact_sum", || {
                only.clone()
            })?;
            return require(!self.local_noise_ok, "mechanism.local_noise_ok", || only);
        }
        // A hand-over has one receiver, and is what roll-back takes back; value and noise come in as Algorithm 1 has them.
        count("mechanism.fanout", self.fanout.into(), 1, 1)?;
        let only = Problem::OnlyFor {
            only: "mechanism.kind = \"inca\"",
        };
        require(
            self.injection == InjectionChoice::Incremental,
            "mechanism.injection",
            || only.clone(),
        )?;
        require(self.rollback, "mechanism.rollback", || only)?;
        let said = self.independent_noise == IndependentNoise::Calibrated || self.accept_exact_sum;
        require(said, "mechanism.independent_noise", || Problem::ExactSum)
    }
}

impl InjectionChoice {
    /// The exact (c, Z) for `rounds` rounds (1…63); refused if a custom one is not valid or for another number of rounds.
    pub fn exact(&self, rounds: u32) -> Result<Injection<Ratio>, InjectionError> {
        let rounds = rounds as usize;
        match self {
            InjectionChoice::Incremental => Ok(Injection::exact_incremental(rounds)),
            InjectionChoice::Early => Ok(Injection::exact_early(rounds)),
            InjectionChoice::Custom { c, z } => {
                if c.len() != rounds + 1 {
                    return Err(InjectionError::Shape {
                        what: "c".into(),
                        found: c.len(),
                        expected: rounds + 1,
                        rounds,
                    });
                }
                let ratios = |row: &Vec<Fraction>| row.iter().map(|fraction| fraction.0).collect::<Vec<_>>();
                Injection::exact_custom(ratios(c), z.iter().map(ratios).collect())
            }
        }
    }
}

impl RunSettings {
    fn check(&self, parties: usize, dropouts: usize) -> Checked {
        count(
            "run.min_parties",
            self.min_parties as u64,
            parties.saturating_sub(dropouts) as u64,
            parties as u64,
        )?;
        count("run.join_ms", self.join_ms, 1, LONGEST_MS)?;
        count("run.round_ms", self.round_ms, 1, LONGEST_MS)?;
        count("run.settle_ms", self.settle_ms, 4, LONGEST_MS)?;
        let (pace_ms, round_ms) = (self.pace_ms, self.round_ms);
        require(pace_ms <= round_ms, "run.pace_ms", || Problem::Pace {
            pace_ms,
            round_ms,
        })?;
        let usable = self.accuracy.is_finite() && self.accuracy > 0.0;
        require(usable, "run.accuracy", || Problem::Range {
            found: self.accuracy,
            expected: "a finite number above 0",
        })
    }
}
