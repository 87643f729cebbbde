//! Rounds, schedule and noise where correlated noise is uniform: nothing is searched for but the
//! fewest rounds whose schedule stays in one piece, whoever colludes or departs.

use undertone_protocol::plan::calibration::{Calibration, SeededSchedule};
use undertone_protocol::plan::claim::{Basis, Claim, Faults};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::{ExchangeName, Rounds};
use undertone_protocol::topology::connectivity::at_least;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;

use crate::bounds::uniform::{among_members, meetings, withstands};
use crate::calibration::claims::{Stated, mark_headline};
use crate::calibration::error::CalibrateError;
use crate::calibration::limits::{FEWEST_ROUNDS, MARGIN};
use crate::class::claim_error::ClaimError;
use crate::class::setting::Setting;
use crate::guarantee::mixed::mixed;
use crate::losses::loss::Noise;
use crate::losses::releases;

/// The seed of the schedule: any does as well.
const SEED: u64 = 0;

/// The draft's fewest rounds, and the noise σ* = Δ/(μ√m) that hides each value among the m parties
/// that are left to it.
pub(super) fn calibrate(
    draft: &Draft,
    progress: &mut dyn FnMut(&str),
) -> Result<Calibration, CalibrateError> {
    let privacy = &draft.privacy;
    let budget = releases::budget(draft)?;
    let wanted = wanted(draft)?;
    let (rounds, schedule) = match draft.exchange.rounds() {
        Rounds::Fixed(rounds) => (rounds, schedule(draft, rounds)?),
        Rounds::Auto => fewest(draft, wanted, progress)?,
    };
    let setting = Setting::of_draft(draft, &schedule.schedule)?;
    let among = match withstands(&setting) {
        Some(found) => found.among,
        // Some party may be left alone: then its own noise is all that hides its value.
        None if draft.exchange.accepts_local_noise() => 1,
        None => return Err(too_few_rounds(draft, rounds, wanted)),
    };
    let largest = setting.largest_sensitivity();
    // A little more noise than the budget asks for: no other machine may round the loss to more
    // than it when it checks the plan.
    let independent_std = largest / (budget * (among as f64 * MARGIN).sqrt());
    if !independent_std.is_normal() {
        let party = draft.members[0].name.clone();
        return Err(CalibrateError::Budget {
            epsilon: privacy.epsilon,
            delta: privacy.delta,
            party,
        });
    }
    let noise = Noise {
        independent_std,
        // Uniform noise has no deviation: a residue is hidden wholly or not at all.
        correlated_std: 0.0,
    };
    mixed(draft, &setting, Some(schedule), noise, claims)
}

/// All claims at these standard deviations. Each rests on a theorem; nothing is lost before
/// publishing, as each share carries a fresh noise that nothing else which left contains.
pub(super) fn claims(setting: &Setting, stated: Stated) -> Result<Vec<Claim>, ClaimError> {
    let largest = setting.largest_sensitivity().powi(2);
    let class = match withstands(setting) {
        None => None,
        Some(found) => Some(Claim {
            basis: Some(Basis::Connectivity),
            connectivity: Some(found),
            ..stated.theorem(setting.colluding, Faults::Class, largest / found.among as f64)?
        }),
    };
    with_uniform_noise(setting, stated, class)
}

/// The claim of the class, if there is one, and what holds of uniform noise without any.
pub(super) fn with_uniform_noise(
    setting: &Setting,
    stated: Stated,
    class: Option<Claim>,
) -> Result<Vec<Claim>, ClaimError> {
    let noise = stated.noise;
    // A deviation would say that the noise that cancels is Gaussian, and this theorem does not
    // speak of that.
    if !(noise.independent_std > 0.0 && noise.independent_std.is_finite()) || noise.correlated_std != 0.0 {
        return Err(stated.refused());
    }
    let largest = setting.largest_sensitivity().powi(2);
    let anybody = setting.parties().saturating_sub(1);
    let mut claims: Vec<Claim> = class.into_iter().collect();
    claims.push(stated.theorem(anybody, Faults::BeforePublishing, 0.0)?);
    // This holds whatever goes wrong: every such plan has it, so that no run is without a bound.
    claims.push(stated.theorem(anybody, Faults::Any, largest)?);
    mark_headline(&mut claims);
    Ok(claims)
}

/// How many may be against a party: who colludes, and who departs.
pub(super) fn removed(draft: &Draft) -> usize {
    draft.privacy.colluding + draft.privacy.dropouts
}

/// The connectivity that each piece of those who meet is to have: one more than may be taken away,
/// and another for a share between survivors that goes astray, where there are shares and the
/// private graph has room.
fn wanted(draft: &Draft) -> Result<usize, CalibrateError> {
    let least = removed(draft) + 1;
    if !draft.exchange.rules().mixes() {
        return Ok(least);
    }
    let asked = least + draft.privacy.share_faults.unwrap_or(1);
    let short = falls_apart(&draft.private_graph, asked);
    if short.is_none() {
        return Ok(asked);
    }
    // The default gives way where the graph has no room for it; a number in the run file does not.
    let short = match draft.privacy.share_faults {
        Some(_) => short,
        None => falls_apart(&draft.private_graph, least),
    };
    match short {
        Some(cut) if !draft.exchange.accepts_local_noise() => Err(too_thin(draft, &cut)),
        _ => Ok(least),
    }
}

/// Where a piece of a graph falls apart if fewer than `wanted` parties are taken away.
pub(super) struct Cut {
    /// The parties to take away; none where the piece has too few parties, all joined.
    parties: Vec<Party>,
    /// The parties that are cut off: the smaller side.
    side: Vec<Party>,
}

pub(super) fn falls_apart(graph: &Graph, wanted: usize) -> Option<Cut> {
    graph.components().into_iter().find_map(|piece| {
        let joined = among_members(graph, &piece);
        let shortfall = at_least(&joined, wanted).err()?;
        let names = |places: &[Party]| places.iter().map(|&place| piece[place]).collect::<Vec<_>>();
        let cut = shortfall.cut.unwrap_or_default();
        let left: Vec<Party> = (0..piece.len()).filter(|place| !cut.contains(place)).collect();
        let sides = among_members(&joined, &left).components();
        // The error names one side, and the smaller one is the shorter list.
        let smallest = sides.into_iter().min_by_key(Vec::len).unwrap_or_default();
        let side: Vec<Party> = smallest.into_iter().map(|place| left[place]).collect();
        Some(Cut {
            parties: names(&cut),
            side: names(&side),
        })
    })
}

pub(super) fn too_thin(draft: &Draft, cut: &Cut) -> CalibrateError {
    let names = |parties: &[Party]| {
        let name = |&party: &Party| draft.members[party].name.clone();
        parties.iter().map(name).collect()
    };
    CalibrateError::Thin {
        cut: names(&cut.parties),
        side: names(&cut.side),
        colluding: draft.privacy.colluding,
        dropouts: draft.privacy.dropouts,
    }
}

/// The schedule of so many rounds.
pub(super) fn schedule(draft: &Draft, rounds: u32) -> Result<SeededSchedule, CalibrateError> {
    let fanout = draft.exchange.fanout();
    Calibration::draw(draft, rounds, SEED).ok_or(CalibrateError::Fanout { fanout })
}

/// The fewest rounds in which those who meet are as connected as is wanted.
pub(super) fn fewest(
    draft: &Draft,
    wanted: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<(u32, SeededSchedule), CalibrateError> {
    let rules = draft.exchange.rules();
    // With masks of pairs the threat fixes how many partners a party has: there is nothing to
    // search for.
    if let Some(rounds) = rules.rounds(draft.parties(), &draft.privacy) {
        return Ok((rounds, schedule(draft, rounds)?));
    }
    // In a round of INCA everybody meets two others, in one of PPSC one.
    let least = match draft.exchange.name() {
        ExchangeName::Inca => wanted.div_ceil(2),
        _ => wanted,
    };
    let most = rules.most_rounds();
    let mut rounds = (least.max(FEWEST_ROUNDS) as u32).min(most);
    loop {
        progress(&format!("{rounds} rounds: who could be separated from whom"));
        let drawn = schedule(draft, rounds)?;
        if falls_apart(&meetings(drawn.schedule.out(), draft.parties()), wanted).is_none() {
            return Ok((rounds, drawn));
        }
        if rounds == most {
            // No more rounds are allowed, so some party may be left with its own noise alone.
            return match draft.exchange.accepts_local_noise() {
                true => Ok((rounds, drawn)),
                false => Err(too_few_rounds(draft, rounds, wanted)),
            };
        }
        // With PPSC there are many rounds, and one more adds little.
        let more = match draft.exchange.name() {
            ExchangeName::Inca => 1,
            _ => (rounds / 16).max(1),
        };
        rounds = (rounds + more).min(most);
    }
}

fn too_few_rounds(draft: &Draft, rounds: u32, wanted: usize) -> CalibrateError {
    CalibrateError::Separated {
        rounds,
        colluding: draft.privacy.colluding,
        dropouts: draft.privacy.dropouts,
        least: Some(wanted.div_ceil(2)),
    }
}

#[cfg(test)]
mod tests;
