//! What goes with gossip, and what does not.

use crate::plan::run_file::gossip::{GossipSettings, SumsChoice};
use crate::plan::run_file::limits::LONGEST_MS;
use crate::plan::run_file::problem::{Checked, Problem, count, require};
use crate::plan::run_file::settings::{
    Coalitions, Data, Dissemination, IndependentNoise, InjectionChoice, MechanismSettings, Privacy, Rounds,
    RunSettings, TaskKind, Unit,
};
use crate::topology::active_edges::ActiveEdges;

/// A round of secure sums lasts at least so many times `settle_ms`, in each of which a flood comes
/// to an end: of what is sealed, two of agreeing, and of what opens it.
pub(super) const SETTLING_STAGES: u64 = 4;

/// What a run file says beside a mechanism of gossip.
pub(super) struct GossipCase<'a> {
    pub(super) task: TaskKind,
    pub(super) data: &'a Data,
    pub(super) privacy: &'a Privacy,
    pub(super) mechanism: &'a MechanismSettings,
    pub(super) run: &'a RunSettings,
}

impl GossipCase<'_> {
    /// Refuses what does not go with gossip, so many parties taking part.
    pub(super) fn check(&self, gossip: &GossipSettings, parties: usize, most_releases: u64) -> Checked {
        let not_yet = |found, instead| Problem::NotYet { found, instead };
        require(self.task == TaskKind::Mean, "task", || {
            not_yet(
                "another task than \"mean\" with kind = \"gossip\"",
                "task = \"mean\"",
            )
        })?;
        require(self.data.unit == Unit::Party, "data.unit", || {
            not_yet("\"record\" with kind = \"gossip\"", "unit = \"party\"")
        })?;
        require(self.data.weights.is_none(), "data.weights", || Problem::OnlyFor {
            only: "another mechanism.kind than \"gossip\", whose parties all weigh the same",
        })?;
        let any = self.privacy.coalitions == Coalitions::Any;
        require(any, "privacy.coalitions", || {
            not_yet("\"static\" with kind = \"gossip\"", "coalitions = \"any\"")
        })?;
        count("data.releases", self.data.releases, 1, most_releases)?;
        let steered = self.data.adaptive && self.data.releases == 1;
        require(!steered, "data.adaptive", || Problem::OnlyFor {
            only: "a stream: data.releases of 2 or more",
        })?;
        if let ActiveEdges::Degree(degree) = gossip.edges {
            count(
                "mechanism.edges.degree",
                degree as u64,
                1,
                parties.saturating_sub(1) as u64,
            )?;
        }
        self.check_mechanism()?;
        self.check_sums(gossip)
    }

    /// Refuses keys of other mechanisms, and another number of rounds than there are releases.
    fn check_mechanism(&self) -> Checked {
        let settings = self.mechanism;
        let other = || Problem::OnlyFor {
            only: "another mechanism.kind than \"gossip\"",
        };
        let masked = settings.sums_everybody();
        let only = match masked {
            true => InjectionChoice::Late,
            false => InjectionChoice::Incremental,
        };
        let injection = settings.injection == only;
        require(injection, "mechanism.injection", other)?;
        require(settings.rollback, "mechanism.rollback", other)?;
        require(settings.fanout == 1, "mechanism.fanout", other)?;
        let own = settings.independent_noise == IndependentNoise::Calibrated && !settings.accept_exact_sum;
        require(own, "mechanism.independent_noise", other)?;
        require(!settings.local_noise_ok, "mechanism.local_noise_ok", other)?;
        require(
            self.run.dissemination == Dissemination::Flood,
            "run.dissemination",
            other,
        )?;
        match settings.rounds {
            Rounds::Fixed(rounds) if self.data.releases > 1 && !masked => count(
                "mechanism.rounds",
                rounds.into(),
                self.data.releases,
                self.data.releases,
            ),
            _ => Ok(()),
        }
    }

    /// Sums are of streams, and sealed; open messages are not.
    fn check_sums(&self, gossip: &GossipSettings) -> Checked {
        let secure = gossip.sums == SumsChoice::Secure;
        require(gossip.circle.is_none() || secure, "mechanism.circle", || {
            Problem::OnlyFor {
                only: "mechanism.sums = \"secure\"",
            }
        })?;
        require(!secure || self.data.releases > 1, "mechanism.sums", || {
            Problem::NotYet {
                found: "\"secure\" for one release",
                instead: "kind = \"pairwise\", the secure sum of everybody, or data.releases of 2 or more",
            }
        })?;
        require(secure == self.run.sealed, "run.sealed", || Problem::OnlyFor {
            only: "mechanism.sums = \"secure\", which has it (of gossip)",
        })?;
        if !secure {
            return Ok(());
        }
        let least = self.run.settle_ms.saturating_mul(SETTLING_STAGES);
        count("run.round_ms", self.run.round_ms, least, LONGEST_MS.max(least))
    }
}
