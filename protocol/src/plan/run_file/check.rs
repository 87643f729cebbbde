//! Every check that a run file alone allows.

use std::collections::BTreeSet;

use super::settings::*;
use crate::lattice::grid::WEIGHT_UNIT;
use crate::plan::run_file::error::RunFileError;
use crate::plan::run_file::gossip::GOSSIP;
use crate::plan::run_file::gossip_case::GossipCase;
use crate::plan::run_file::handed_over::{ClippedBy, ReleaseKind};
use crate::plan::run_file::limits::*;
use crate::plan::run_file::outer::OuterSettings;
use crate::plan::run_file::parsed::RunFile;
use crate::plan::run_file::problem::*;
use crate::plan::run_file::tensors::check_radius;
use crate::plan::run_file::training::ModelSettings;

/// The tasks that release sums in sequence, as messages call them.
pub(super) const TRAININGS: &str = "task = \"regression\" or \"rounds\"";

/// The task of what programs hand over, as messages call it.
pub(super) const ROUNDS: &str = "task = \"rounds\"";

/// What may have many releases, as messages call it.
pub(super) const RELEASED: &str = "task = \"rounds\" or mechanism.kind = \"gossip\"";

pub(super) fn count_parties(parties: usize) -> Checked {
    count("the number of parties", parties as u64, 3, MOST_PARTIES as u64)
}

/// Whether `parties − dropouts` (parties: at most [`MOST_PARTIES`]) is more than (parties +
/// colluding)/2, so that any two agreed sets share an honest signer.
pub(super) fn majority(parties: usize, colluding: usize, dropouts: usize) -> bool {
    2 * parties.saturating_sub(dropouts) > parties.saturating_add(colluding)
}

/// What a run file and a plan both say of a run; members and graphs are beside it.
pub(crate) struct Asked<'a> {
    /// What the parties compute.
    pub(crate) task: TaskKind,
    /// The run's name, for people.
    pub(crate) name: &'a str,
    /// What each party brings.
    pub(crate) data: &'a Data,
    /// What a training fits.
    pub(crate) model: Option<&'a ModelSettings>,
    /// What PPSC's outer recursions iterate.
    pub(crate) outer: Option<&'a OuterSettings>,
    /// The target: ε, δ, and against whom.
    pub(crate) privacy: &'a Privacy,
    /// How noise is shared out.
    pub(crate) mechanism: &'a MechanismSettings,
    /// The run's time-outs and sizes.
    pub(crate) run: &'a RunSettings,
}

impl Asked<'_> {
    /// Everything that can be said without the list of peers.
    pub(crate) fn check(&self, parties: usize) -> Checked {
        count_parties(parties)?;
        let name_fine = (1..=64).contains(&self.name.len())
            && self
                .name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b" ._-".contains(&b))
            && self.name.trim() == self.name;
        require(name_fine, "name", || Problem::Name)?;
        self.check_outer()?;
        self.check_training()?;
        // Of anybody else's vectors it would be a false Δ.
        let moments = self.model.is_some_and(ModelSettings::is_statistics);
        require(self.data.moments == moments, "data.moments", || {
            Problem::OnlyFor {
                only: "method = \"statistics\"",
            }
        })?;
        self.data.check()?;
        self.privacy.check(parties)?;
        self.mechanism.check(parties)?;
        self.check_gossip(parties)?;
        self.check_unmixed(parties)?;
        if let Some(share_faults) = self.privacy.share_faults {
            let only = || Problem::OnlyFor {
                only: "mechanism.correlated = \"uniform\"",
            };
            let uniform = self.mechanism.correlated == CorrelatedNoise::Uniform;
            require(uniform, "privacy.share_faults", only)?;
            count("privacy.share_faults", share_faults as u64, 0, parties as u64)?;
        }
        // Residues are summed; no average of them is worth anything.
        let uniform = self.mechanism.correlated == CorrelatedNoise::Uniform;
        let averaged = self.run.dissemination == Dissemination::Consensus;
        require(!(uniform && averaged), "run.dissemination", || Problem::OnlyFor {
            only: "mechanism.correlated = \"gaussian\"",
        })?;
        let sealable = uniform || self.mechanism.gossip.is_some();
        require(sealable || !self.run.sealed, "run.sealed", || Problem::OnlyFor {
            only: "mechanism.correlated = \"uniform\"",
        })?;
        self.run.check(parties, self.privacy)
    }

    /// PPSC's outer recursions are asked for as what they are, and carried out as they are printed.
    fn check_outer(&self) -> Checked {
        let Some(outer) = self.outer else {
            return Ok(());
        };
        let mechanism = self.mechanism;
        let printed = |holds: bool, field: &str, needs| require(holds, field, || Problem::Printed { needs });
        let ppsc = mechanism.kind == MechanismKind::Ppsc;
        printed(ppsc, "mechanism.kind", "kind = \"ppsc\"")?;
        let none = mechanism.independent_noise == IndependentNoise::None;
        printed(
            none,
            "mechanism.independent_noise",
            "independent_noise = \"none\"",
        )?;
        let accepted = mechanism.accept_exact_sum;
        printed(accepted, "mechanism.accept_exact_sum", "accept_exact_sum = true")?;
        let any = self.privacy.coalitions == Coalitions::Any;
        printed(any, "privacy.coalitions", "coalitions = \"any\"")?;
        count("privacy.dropouts", self.privacy.dropouts as u64, 0, 0)?;
        let flood = self.run.dissemination == Dissemination::Flood;
        printed(flood, "run.dissemination", "dissemination = \"flood\"")?;
        printed(
            self.data.unit == Unit::Record,
            "data.unit",
            "unit = \"record\": parties bring rows",
        )?;
        let bounds = matches!(
            self.data.clip,
            Clip::Box {
                low: Bound::All(_),
                high: Bound::All(_)
            }
        );
        printed(bounds, "data.clip", "one box for all coordinates of a state")?;
        outer.check(self.task)
    }

    /// A training's sums are of clipped gradients, sealed each by itself, by masks of pairs.
    fn check_training(&self) -> Checked {
        self.check_handed_over()?;
        self.data.check_template(self.task)?;
        if !self.task.is_training() {
            let once = self.data.releases == 1 || self.mechanism.kind == MechanismKind::Gossip;
            require(once, "data.releases", || Problem::OnlyFor { only: RELEASED })?;
            self.check_attempts()?;
            let none = self.run.iteration_ms.is_none();
            return require(none, "run.iteration_ms", || Problem::OnlyFor { only: TRAININGS });
        }
        let not_yet = |found, instead| Problem::NotYet { found, instead };
        if let Some(model) = self.model {
            model.check()?;
            let rows = self.data.unit == Unit::Record || !model.is_statistics();
            require(rows, "data.unit", || {
                not_yet("\"party\" with method = \"statistics\"", "unit = \"record\"")
            })?;
        }
        count("data.releases", self.data.releases, 1, MOST_ITERATIONS)?;
        let summed = self.mechanism.kind != MechanismKind::Ppsc;
        require(summed, "mechanism.kind", || Problem::OnlyFor {
            only: "another task: a training takes kind = \"inca\" or \"pairwise\"",
        })?;
        require(self.run.sealed, "run.sealed", || Problem::OnlyFor {
            only: "another task: each sum of a training is sealed (sealed = true, or left out)",
        })?;
        let any = self.privacy.coalitions == Coalitions::Any;
        require(any, "privacy.coalitions", || {
            not_yet("\"static\" in a training", "coalitions = \"any\"")
        })?;
        self.check_attempts()?;
        let iteration_ms = self.run.iteration_ms.unwrap_or(0);
        count("run.iteration_ms", iteration_ms, 8, LONGEST_MS)?;
        let halved = self.run.settle_ms == iteration_ms / 2;
        require(halved, "run.settle_ms", || Problem::Count {
            found: self.run.settle_ms,
            least: iteration_ms / 2,
            most: iteration_ms / 2,
        })
    }

    /// Noise is mixed several times where it is mixed ahead. Plans of earlier versions do not say
    /// how often: once.
    fn check_attempts(&self) -> Checked {
        let Some(attempts) = self.run.mixing_attempts else {
            return Ok(());
        };
        let ahead = self.task.is_training() && self.mechanism.kind == MechanismKind::Inca;
        require(ahead, "run.mixing_attempts", || Problem::OnlyFor {
            only: "task = \"regression\" or \"rounds\" with kind = \"inca\", whose noise is mixed ahead",
        })?;
        count("run.mixing_attempts", attempts, 1, MOST_ATTEMPTS)
    }

    /// SumsChoice, and rows that a program clips, are of what programs hand over.
    fn check_handed_over(&self) -> Checked {
        let rounds = self.task == TaskKind::Rounds;
        let mean = self.data.result == ReleaseKind::Mean;
        require(rounds || mean, "data.result", || Problem::OnlyFor {
            only: ROUNDS,
        })?;
        if self.data.clipped == ClippedBy::ByNode {
            return Ok(());
        }
        let rows = rounds && self.data.unit == Unit::Record;
        let within_a_ball = matches!(self.data.clip, Clip::L2 { .. });
        require(rows && within_a_ball, "data.clipped", || Problem::OnlyFor {
            only: "task = \"rounds\" with unit = \"record\" and a clip of kind \"l2\"",
        })
    }

    /// Where nothing is mixed there are no shares to go astray, the number of rounds follows, and
    /// what leaves is sealed.
    fn check_unmixed(&self, parties: usize) -> Checked {
        let rules = self.mechanism.rules();
        if let (Rounds::Fixed(found), Some(only)) =
            (self.mechanism.rounds, rules.rounds(parties, self.privacy))
        {
            count("mechanism.rounds", found.into(), only.into(), only.into())?;
        }
        if rules.mixes() {
            return Ok(());
        }
        let other = || Problem::OnlyFor {
            only: "another mechanism.kind than \"pairwise\"",
        };
        require(self.run.sealed, "run.sealed", other)?;
        let none = self.privacy.share_faults.is_none();
        require(none, "privacy.share_faults", other)
    }

    /// Gossip's keys stand with gossip, and with nothing that does not go with it.
    fn check_gossip(&self, parties: usize) -> Checked {
        let kind = self.mechanism.kind == MechanismKind::Gossip;
        let Some(gossip) = &self.mechanism.gossip else {
            require(!kind, "mechanism.sums", || Problem::Missing {
                example: "sums = \"open\"",
            })?;
            require(!self.data.adaptive, "data.adaptive", || Problem::OnlyFor {
                only: GOSSIP,
            })?;
            let all = self.privacy.protect == Protect::All;
            return require(all, "privacy.protect", || Problem::OnlyFor { only: GOSSIP });
        };
        require(kind, "mechanism.sums", || Problem::OnlyFor { only: GOSSIP })?;
        let case = GossipCase {
            task: self.task,
            data: self.data,
            privacy: self.privacy,
            mechanism: self.mechanism,
            run: self.run,
        };
        case.check(gossip, parties, MOST_EXCHANGE_ROUNDS.into())
    }

    /// Refuses what parses, and will run one day, but that this version's plans do not carry.
    pub(crate) fn check_carried(&self) -> Checked {
        if self.privacy.coalitions == Coalitions::Static {
            self.mechanism.rules().check_static(self.mechanism)?;
        }
        Ok(())
    }

    /// [`Asked::check_carried`] in a run file's words.
    pub(crate) fn supported(&self) -> Result<(), RunFileError> {
        self.check_carried()
            .map_err(|(field, problem)| RunFileError::Field {
                field,
                line: None,
                problem,
            })
    }
}

impl RunFile {
    /// Everything that can be said without the list of peers.
    pub(crate) fn check(&self, parties: usize) -> Checked {
        self.asked().check(parties)
    }

    /// Refuses what parses, and will run one day, but that this version's plans do not carry.
    pub fn supported(&self) -> Result<(), RunFileError> {
        self.asked().supported()
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            task: self.task,
            name: &self.name,
            data: &self.data,
            model: self.model.as_ref(),
            outer: self.outer.as_ref(),
            privacy: &self.privacy,
            mechanism: &self.mechanism,
            run: &self.run,
        }
    }
}

impl Data {
    fn check(&self) -> Checked {
        let coordinates = self.dimension();
        let fits = (1..=32).contains(&self.shape.len())
            && self.shape.iter().all(|&extent| extent >= 1)
            && coordinates <= MOST_COORDINATES;
        require(fits, "data.shape", || Problem::Shape { coordinates })?;
        self.check_tensors()?;
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
    pub(super) fn check(&self, coordinates: usize) -> Checked {
        match self {
            Clip::L2 { radius } => check_radius(*radius),
            // With the tensors that they are of.
            Clip::Tensors { .. } => Ok(()),
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
        )
    }
}

impl MechanismSettings {
    fn check(&self, parties: usize) -> Checked {
        if let Rounds::Fixed(rounds) = self.rounds {
            let most = self.rules().most_rounds();
            count("mechanism.rounds", rounds.into(), 1, most.into())?;
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
        self.check_correlated()?;
        self.rules().check(self)
    }

    /// Uniform noise goes with shares that are halves, with departed parties taken out again, and
    /// with an injection of its own.
    fn check_correlated(&self) -> Checked {
        let late = self.injection == InjectionChoice::Late;
        let only_for = |only| Problem::OnlyFor { only };
        match self.correlated {
            CorrelatedNoise::Gaussian => require(!late, "mechanism.injection", || {
                only_for("mechanism.correlated = \"uniform\"")
            }),
            CorrelatedNoise::Uniform => {
                let gaussian = || only_for("mechanism.correlated = \"gaussian\"");
                require(late, "mechanism.injection", gaussian)?;
                require(self.fanout == 1, "mechanism.fanout", gaussian)?;
                let own = self.independent_noise == IndependentNoise::Calibrated;
                require(own, "mechanism.independent_noise", gaussian)?;
                require(self.rollback, "mechanism.rollback", gaussian)
            }
        }
    }
}

impl RunSettings {
    fn check(&self, parties: usize, privacy: &Privacy) -> Checked {
        count(
            "run.min_parties",
            self.min_parties as u64,
            parties.saturating_sub(privacy.dropouts) as u64,
            parties as u64,
        )?;
        // Nobody's choice: what no two sets can have both, and all who are left reach.
        let quorum = privacy.quorum(parties).signers() as u64;
        count("run.quorum", self.quorum as u64, quorum, quorum)?;
        count("run.join_ms", self.join_ms, 1, LONGEST_MS)?;
        count("run.grace_ms", self.grace_ms, 0, LONGEST_MS)?;
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
