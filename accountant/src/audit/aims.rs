//! The aims of an attack: a claim, an execution that it covers, and the weights of the observations
//! there.

use std::collections::BTreeSet;

use faer::Mat;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Claim, Faults};
use undertone_protocol::topology::connectivity::connectivity;
use undertone_protocol::topology::party::Party;

use crate::audit::gossip::GossipSeen;
use crate::audit::revealed::RevealedSum;
use crate::audit::solved::solved;
use crate::bounds::before_publishing::bound;
use crate::bounds::bound::{Bound, all_but, everybody_else};
use crate::bounds::uniform::meetings;
use crate::class::faults::cut_off;
use crate::class::random::worst_drawn;
use crate::class::setting::Setting;
use crate::execution::adversary::Adversary;
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::seen::seen_states;
use crate::losses::loss::Noise;
use crate::losses::view::View;

/// Executions that are drawn for each claim, and as many that change the worst of them a little: a
/// second with eight parties.
const DRAWN: usize = 256;

/// Unknowns up to which executions are drawn: 16 parties with 7 rounds have so many, and their
/// draws take some seconds. It grows with the third power.
const MOST_UNKNOWNS: usize = 128;

/// A claim and an execution that it covers.
pub struct Aim {
    /// The claim that is attacked.
    pub(super) claim: Claim,
    /// The party whose value changes.
    pub(super) victim: Party,
    /// Whether the execution was drawn by chance; else it is the claim's own worst one.
    pub(super) drawn: bool,
    /// The attacker's view.
    pub(super) sight: Sight,
}

/// The view of an attacker, and the weights of its observations.
pub(super) enum Sight {
    /// Shares and finals, in an execution of mixing.
    Shares(Box<SharesSeen>),
    /// Messages that parties send each other in gossip.
    Gossip(GossipSeen),
}

/// The view that an attacker has of mixing.
pub(super) struct SharesSeen {
    pub(super) execution: Execution,
    /// States that the attacker sees: what the party hands out in the round after.
    pub(super) states: BTreeSet<(Party, u32)>,
    /// The parties whose finals the attacker sees.
    pub(super) finals: Vec<Party>,
    /// The weight of each state, then of each final, in the log-likelihood ratio, per unit of data;
    /// where correlated noise is uniform of the sum that is revealed, alone.
    pub(super) weights: Vec<f64>,
    /// The sum that is revealed, where correlated noise is uniform.
    pub(super) revealed: Option<RevealedSum>,
}

impl Aim {
    fn at(
        setting: &Setting,
        claim: &Claim,
        noise: Noise,
        (execution, victim, drawn): (Execution, Party, bool),
    ) -> Self {
        let view = View::of(&execution);
        let place = view
            .honest
            .iter()
            .position(|&party| party == victim)
            .expect("the victim is honest");
        let weights = optimal_weights(&view, noise, place)
            .into_iter()
            .map(|w| w * setting.sensitivity[victim])
            .collect();
        let corrupted = corrupted(&execution);
        let finals = execution
            .published()
            .iter()
            .copied()
            .filter(|party| !corrupted.contains(party))
            .collect();
        let seen = SharesSeen {
            states: seen_states(&execution),
            execution,
            finals,
            weights,
            revealed: None,
        };
        Aim {
            claim: claim.clone(),
            victim,
            drawn,
            sight: Sight::Shares(Box::new(seen)),
        }
    }

    /// An attack on uniform noise: the sum that has the victim's value, of a variance that is that
    /// of its parties' own noise. None if no such sum is revealed.
    fn on_sum(
        setting: &Setting,
        claim: &Claim,
        independent_std: f64,
        (execution, victim): (Execution, Party),
    ) -> Option<Self> {
        let revealed = RevealedSum::of(&execution, victim)?;
        let variance = revealed.members.len() as f64 * independent_std * independent_std;
        let seen = SharesSeen {
            states: revealed.handed_out.iter().map(|&(place, _)| place).collect(),
            finals: revealed.members.iter().copied().collect(),
            weights: vec![setting.sensitivity[victim] / variance],
            execution,
            revealed: Some(revealed),
        };
        Some(Aim {
            claim: claim.clone(),
            victim,
            drawn: false,
            sight: Sight::Shares(Box::new(seen)),
        })
    }

    /// The claim that is attacked.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The party whose value changes.
    pub fn victim(&self) -> Party {
        self.victim
    }

    /// Where the claim is attacked, in words.
    pub fn place(&self) -> &'static str {
        if self.drawn {
            "the worst execution that was drawn by chance"
        } else {
            "the claim's own worst execution"
        }
    }
}

/// Each claim of a plan of gossip, against the coalition that learns most by it.
pub(super) fn gossip_aims(plan: &Plan) -> Vec<Aim> {
    let aim = |claim: &Claim| {
        let (seen, victim) = GossipSeen::of(plan, claim)?;
        Some(Aim {
            claim: claim.clone(),
            victim,
            drawn: false,
            sight: Sight::Gossip(seen),
        })
    };
    plan.calibration().claims.iter().filter_map(aim).collect()
}

/// Each headline claim in its own worst execution, and in the worst of some that are drawn by
/// chance from `seed` on.
pub(super) fn aims(
    setting: &Setting,
    headline: &[&Claim],
    noise: Noise,
    seed: u64,
) -> Result<Vec<Aim>, ExecutionError> {
    if setting.uniform {
        return on_sums(setting, headline, noise.independent_std);
    }
    let mut aims = Vec::new();
    let base = setting.fault_free()?;
    let few = base.unknowns() <= MOST_UNKNOWNS;
    for claim in headline {
        if let Some((execution, victim)) = worst_execution(setting, claim, noise)? {
            aims.push(Aim::at(setting, claim, noise, (execution, victim, false)));
        }
        let covered = (claim.faults, claim.size);
        if few && let Some(worst) = worst_drawn(setting, noise, covered, DRAWN, seed)? {
            aims.push(Aim::at(
                setting,
                claim,
                noise,
                (worst.execution, worst.victim, true),
            ));
        }
    }
    Ok(aims)
}

/// Each headline claim of a plan whose correlated noise is uniform, against a coalition that is as
/// much of a least cut as the claim lets it be, joined by who departs; or, where START draws the
/// schedule, against one that knows of none. (Before publishing no sum is
/// revealed, and the claim is that nothing is lost.)
fn on_sums(setting: &Setting, headline: &[&Claim], independent_std: f64) -> Result<Vec<Aim>, ExecutionError> {
    let mut aims = Vec::new();
    // Where START draws the schedule nobody chooses by it.
    let known = setting.drawn_share_faults.is_none();
    let cut = known.then(|| connectivity(&meetings(&setting.out, setting.parties())).cut);
    let cut = cut.flatten();
    for claim in headline {
        let size = match claim.faults {
            Faults::Class => setting.coalition_size(),
            Faults::Any => setting.parties() - 1,
            Faults::BeforePublishing | Faults::None => continue,
        };
        let (execution, victim) = everybody_else(setting)?;
        let first = cut.iter().flatten().copied().chain(0..setting.parties());
        let mut coalition = BTreeSet::new();
        for party in first.filter(|&party| party != victim) {
            if coalition.len() < size {
                coalition.insert(party);
            }
        }
        let execution = execution.with_corrupted(coalition)?;
        aims.extend(Aim::on_sum(setting, claim, independent_std, (execution, victim)));
    }
    Ok(aims)
}

/// Returns the parties that collude in an execution.
pub(super) fn corrupted(execution: &Execution) -> BTreeSet<Party> {
    match execution.adversary() {
        Adversary::Corrupted(corrupted) => corrupted.clone(),
        Adversary::Observed(_) => BTreeSet::new(),
    }
}

/// The execution that the claim's loss is that of, or the one that is thought to come closest to
/// it, with its coalition, and who loses it; none if nothing is known of it.
pub(super) fn worst_execution(
    setting: &Setting,
    claim: &Claim,
    noise: Noise,
) -> Result<Option<(Execution, Party)>, ExecutionError> {
    let ratio = (noise.correlated_std / noise.independent_std).powi(2);
    let all_others = claim.size + 1 >= setting.parties();
    match claim.faults {
        Faults::Class => Bound::of(setting).worst_execution(ratio).map(Some),
        Faults::Any => Ok(Some(everybody_else(setting)?).filter(|_| all_others)),
        Faults::None => Ok(None),
        Faults::BeforePublishing if all_others => {
            let bounds = (0..setting.parties()).map(|party| Ok((bound(setting, party, noise)?, party)));
            let bounds = bounds.collect::<Result<Vec<_>, ExecutionError>>()?;
            let largest = bounds.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
            let (_, victim) = largest.expect("a plan has parties");
            Ok(Some((all_but(setting, victim)?.with_published([])?, victim)))
        }
        // A theorem knows no smaller coalitions: a plan that claims so has it from somewhere else.
        Faults::BeforePublishing => {
            let (_, victim) = everybody_else(setting)?;
            let coalition = most_met(setting, victim);
            Ok(Some((
                cut_off(&setting.fault_free()?, victim, &coalition)?,
                victim,
            )))
        }
    }
}

/// As many as collude: those to whom a party sends most often.
fn most_met(setting: &Setting, party: Party) -> Vec<Party> {
    let received = |other: Party| {
        setting
            .out
            .iter()
            .filter(|round| round[party].contains(&other))
            .count()
    };
    let mut order: Vec<Party> = (0..setting.parties()).filter(|&other| other != party).collect();
    order.sort_by_key(|&other| (std::cmp::Reverse(received(other)), other));
    order.truncate(setting.colluding);
    order
}

/// Weights w of what is seen, y, for which wᵀy is the statistic of the optimal test: Σ w = h, Σ the
/// covariance of y, h the column of the honest party at `place`. Any other w would only be a weaker
/// attack.
fn optimal_weights(view: &View, noise: Noise, place: usize) -> Vec<f64> {
    let (rows, honest) = view.b.dim();
    let entry = |unknown: usize, row: usize| match unknown.checked_sub(honest) {
        None => noise.independent_std * view.b[[row, unknown]],
        Some(k) => noise.correlated_std * view.a[[row, k]],
    };
    let root = Mat::from_fn(honest + view.a.ncols(), rows, entry);
    solved(root, |row| view.b[[row, place]])
}
