//! The guarantee of a drawn schedule against coalitions that are fixed before the draw.

use serde::Serialize;
use thiserror::Error;

use crate::bounds::static_draw::StaticDraw;

/// The most parties that are looked at: five times what a plan may have.
pub const MOST_PARTIES: usize = 5000;

/// The most rounds that are looked at, as in a plan.
pub const MOST_ROUNDS: u32 = 63;

/// The answer of `account static`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DrawnApart {
    /// The natural logarithm of p, the chance that a draw leaves the others in several pieces, at
    /// most.
    pub ln_p: f64,
    /// The fewest rounds, up to [`MOST_ROUNDS`], for which p is at most so much; null where these
    /// are not enough.
    pub rounds: FewestRounds,
}

/// The fewest rounds for which p is at most so much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FewestRounds {
    /// For 10⁻⁹.
    #[serde(rename = "1e-9")]
    pub billionth: Option<u32>,
    /// For 10⁻¹².
    #[serde(rename = "1e-12")]
    pub trillionth: Option<u32>,
}

/// A number that is out of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{flag} is {found}: expected {least} to {most}")]
pub struct OutOfRange {
    /// The flag at fault.
    pub flag: &'static str,
    /// The value that was given.
    pub found: usize,
    /// The least that makes sense.
    pub least: usize,
    /// The most that makes sense, or that is looked at.
    pub most: usize,
}

/// The chance that `rounds` independent, uniformly random permutations, or pairings, leave the
/// others in several pieces.
///
/// # Errors
/// A number is out of its range.
pub fn account(draw: StaticDraw, rounds: u32) -> Result<DrawnApart, OutOfRange> {
    let StaticDraw {
        parties,
        removed,
        share_faults,
        ..
    } = draw;
    let others = parties.saturating_sub(2);
    for (flag, found, least, most) in [
        ("--parties", parties, 2, MOST_PARTIES),
        ("--removed", removed, 0, others),
        ("--rounds", rounds as usize, 1, MOST_ROUNDS as usize),
        ("--share-faults", share_faults, 0, others.saturating_sub(removed)),
    ] {
        if !(least..=most).contains(&found) {
            return Err(OutOfRange {
                flag,
                found,
                least,
                most,
            });
        }
    }
    let all: Vec<u32> = (1..=MOST_ROUNDS).collect();
    let chances = draw.ln_chances(&all);
    let fewest = |chance: f64| {
        let enough = chances.iter().position(|ln| *ln <= libm::log(chance));
        enough.map(|index| all[index])
    };
    Ok(DrawnApart {
        ln_p: chances[rounds as usize - 1],
        rounds: FewestRounds {
            billionth: fewest(1e-9),
            trillionth: fewest(1e-12),
        },
    })
}
