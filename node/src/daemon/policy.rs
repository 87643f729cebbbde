//! The policy of this node beyond a plan's claims: a bound on the loss against all members that
//! nobody vouches for.
//!
//! A plan's claims are about coalitions of a size that its proposer chose. One who fills 6 of 8
//! seats satisfies any claim about one colluder, so the members outside of `policy.vouched` are
//! taken as *one* coalition, and what it can learn about this party must be within
//! `policy.max_epsilon`, too.

use std::collections::BTreeSet;

use libp2p::PeerId;
use undertone_accountant::bounds::bound::loss_against as loss_of_coalition;
use undertone_accountant::bounds::uniform;
use undertone_accountant::class::setting::Setting;
use undertone_accountant::execution::error::ExecutionError;
use undertone_accountant::guarantee::own_noise;
use undertone_accountant::losses::charge::Charge;
use undertone_accountant::losses::gaussian::{self, SLACK};
use undertone_accountant::losses::loss::Noise;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Established, Faults};
use undertone_protocol::topology::party::Party;

use crate::daemon::config::Config;
use crate::daemon::refusal::{Kind, Refusal};
use crate::planning::policy;
use crate::reporting::failure::Failure;

/// Refuses a plan whose claims do not hold, whose claims are not within the policy, or that costs
/// too much if all that are not vouched for collude. (Where it says that listed peers are has no
/// effect: the peer list's addresses are dialled.)
pub fn check(config: &Config, plan: &Plan, me: Party) -> Result<(), Refusal> {
    policy::check(plan, &config.policy).map_err(refused_plan)?;
    let Some(vouched) = &config.vouched else {
        return Ok(());
    };
    let strangers = not_vouched_for(plan, me, vouched);
    let mu = loss_against(plan, me, &strangers)
        .map_err(|e| Refusal::new(Kind::Plan, e.to_string()).field("plan"))?;
    let names: Vec<&str> = strangers
        .iter()
        .map(|&party| plan.draft().members[party].name.as_str())
        .collect();
    within(
        config,
        plan,
        mu,
        &format!("if all that are not vouched for collude ({})", shown(&names)),
        "policy.vouched",
    )
}

/// Refuses a plan that may not be accepted unasked: without a list of who is vouched for only Δ/σ*,
/// which holds against everybody and under any faults, is good enough. The plan has passed
/// [`check`].
pub fn check_unasked(config: &Config, plan: &Plan, me: Party) -> Result<(), Refusal> {
    if config.vouched.is_some() {
        return Ok(());
    }
    within(
        config,
        plan,
        theorem(plan, me),
        "if everybody else colludes",
        "policy.vouched",
    )
}

fn within(config: &Config, plan: &Plan, mu: f64, when: &str, field: &str) -> Result<(), Refusal> {
    let refuse =
        |message: String, hint: &str| Err(Refusal::new(Kind::Policy, message).field(field).hint(hint));
    let Some(most) = config.policy.max_epsilon else {
        return refuse(
            "policy.max_epsilon is not set, so that nothing is accepted unasked".into(),
            "set it",
        );
    };
    let delta = plan.draft().privacy.delta;
    match gaussian::epsilon(delta, mu) {
        Ok(epsilon) if epsilon <= most => Ok(()),
        epsilon => {
            let epsilon = epsilon.map_or(f64::INFINITY, |epsilon| epsilon);
            refuse(
                format!(
                    "the plan costs epsilon {epsilon:.4} at delta {delta:e} {when}; the policy allows {most}"
                ),
                "vouch for members that you trust not to collude, or ask for a plan with more noise",
            )
        }
    }
}

fn shown(names: &[&str]) -> String {
    match names {
        [] => "nobody".into(),
        [.., _] if names.len() > 6 => format!("{} and {} more", names[..5].join(", "), names.len() - 5),
        names => names.join(", "),
    }
}

/// A plan that was refused by the checks that `verify` and `join` make, in the daemon's words.
fn refused_plan(failure: Failure) -> Refusal {
    let key = match failure.field.as_deref() {
        Some("--max-epsilon") => Some("policy.max_epsilon"),
        Some("--max-delta") => Some("policy.max_delta"),
        Some("--min-colluders") => Some("policy.min_colluders"),
        _ => None,
    };
    let refusal = Refusal::from(failure);
    match key {
        Some(key) => Refusal {
            kind: Kind::Policy,
            ..refusal.field(key)
        },
        None => refusal,
    }
}

/// Everybody but this party and those who are vouched for.
fn not_vouched_for(plan: &Plan, me: Party, vouched: &BTreeSet<PeerId>) -> BTreeSet<Party> {
    let members = plan.draft().members.iter().enumerate();
    members
        .filter(|(party, member)| *party != me && !vouched.contains(&member.id))
        .map(|(party, _)| party)
        .collect()
}

/// μ that a run of this plan is charged with before it begins: the largest of the claims that its
/// headline rests on, which cover the tolerated class and what leaves before publishing. Δ/σ* if
/// the plan has none: then it reveals exact sums, and that is without a bound.
pub fn charged_mu(plan: &Plan, me: Party) -> f64 {
    let sure = |established| established != Established::Searched;
    let headline = plan
        .calibration()
        .claims
        .iter()
        .filter(|claim| claim.holds_as_headline && sure(claim.established));
    let covers = |faults: Faults| {
        headline
            .clone()
            .any(|claim| claim.faults == faults || claim.faults == Faults::Any)
    };
    if !(covers(Faults::Class) && covers(Faults::BeforePublishing)) {
        return theorem(plan, me);
    }
    headline
        .clone()
        .fold(0.0, |largest: f64, claim| largest.max(claim.mu))
}

/// Computes the charge of a run of this plan for party `me`, before it begins: its loss
/// ([`charged_mu`]), the chance of a bad draw where its headline rests on one, however often it is
/// tried, and what sampling the noise of all its releases adds.
pub fn charge(plan: &Plan, me: Party) -> Charge {
    Charge {
        draw: plan.draw_chance(),
        distance: plan.sampling_distance(),
        ..Charge::of_loss(charged_mu(plan, me))
    }
}

/// Δ/σ*: the loss against any coalition, under any faults. Never below it.
fn theorem(plan: &Plan, me: Party) -> f64 {
    plan.draft().sensitivity(me) / plan.calibration().independent_std * (1.0 + SLACK)
}

/// Returns the loss of party `me` against so many together. It is infinite where exact sums are
/// revealed at every iterate. With gossip it is the claim against as many, or against all others.
fn loss_to_anybody(plan: &Plan, me: Party, together: usize) -> Option<f64> {
    let draft = plan.draft();
    let revealed = draft.computation.recursion().map(|_| f64::INFINITY);
    let gossips =
        draft.averages().then(
            || match plan.reads_circles() && together > draft.privacy.colluding {
                true => own_noise::loss_of(draft, plan.calibration().independent_std, draft.releases()),
                false => charged_mu(plan, me),
            },
        );
    revealed.or(gossips)
}

/// The loss of party `me` against `coalition` together: the largest over the tolerated class (the
/// departed join the coalition) and over what leaves before publishing, if that is feasible; else
/// Δ/σ*. Never below it.
pub fn loss_against(plan: &Plan, me: Party, coalition: &BTreeSet<Party>) -> Result<f64, Refused> {
    let bound = theorem(plan, me);
    if let Some(loss) = loss_to_anybody(plan, me, coalition.len()) {
        return Ok(loss);
    }
    if plan.draws_at_start() {
        // Who is not vouched for is known before the draw: the claim is against as many. More may
        // part this party from others, and the schedule is not here yet.
        let covered = coalition.len() <= plan.draft().privacy.colluding;
        return Ok(if covered { charged_mu(plan, me) } else { bound });
    }
    let setting = Setting::of_plan(plan).map_err(|e| Refused(e.to_string()))?;
    if setting.uniform {
        // As many as the claims are against: these cover it.
        if coalition.len() <= plan.draft().privacy.colluding {
            return Ok(charged_mu(plan, me));
        }
        // More may hold enough shares to open what nobody agreed to open, and then read what was
        // corrected for a party that departed: its value but for its own noise. (One more than
        // collude, where departures are tolerated: the threshold is above that as long as anybody
        // may still depart.)
        let few = setting.colluding + setting.dropouts.min(1);
        if plan.draft().run.sealed && coalition.len() > few {
            return Ok(bound);
        }
        let among = uniform::hidden_from(&setting, me, coalition);
        return Ok(bound / (among as f64).sqrt() * (1.0 + SLACK));
    }
    let calibration = plan.calibration();
    let noise = Noise {
        independent_std: calibration.independent_std,
        correlated_std: calibration.correlated_std,
    };
    if setting.reveals_sums(noise) {
        return Ok(bound);
    }
    let computed = loss_of_coalition(&setting, noise, me, coalition)?;
    Ok(computed.map_or(bound, |computed| computed.min(bound)))
}

/// A plan whose views cannot be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the plan's losses cannot be computed: {0}")]
pub struct Refused(String);

impl From<ExecutionError> for Refused {
    fn from(error: ExecutionError) -> Self {
        Refused(error.to_string())
    }
}

#[cfg(test)]
mod tests;
