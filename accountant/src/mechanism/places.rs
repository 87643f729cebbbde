//! The values and the noises that each final of a fault-free run holds, without the rows.
//!
//! A hand-over moves all that its out-agent has to its in-agent, less a fresh noise γ that stays:
//! each value is at one place at any time, each γ at two, once with each sign, or, where both have
//! met, at none.

use std::collections::BTreeSet;

use undertone_protocol::topology::party::Party;

/// The components of a party's state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// The parties whose values are in it.
    pub values: Vec<Party>,
    /// How many noises are in it, each once, with either sign.
    pub noises: usize,
}

/// Returns the components of each party's final, for a schedule in which each share is accepted in
/// its round.
pub fn finals(out: &[Vec<Vec<Party>>]) -> Vec<Held> {
    let parties = out.first().map_or(0, Vec::len);
    let mut values: Vec<Vec<Party>> = (0..parties).map(|party| vec![party]).collect();
    let mut noises: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); parties];
    let mut drawn = 0;
    for round in out {
        let mut moving = Vec::new();
        for (from, to) in round
            .iter()
            .enumerate()
            .filter_map(|(from, to)| to.first().map(|&to| (from, to)))
        {
            let mut carried = std::mem::replace(&mut noises[from], BTreeSet::from([drawn]));
            carried.insert(drawn);
            moving.push((to, std::mem::take(&mut values[from]), carried));
            drawn += 1;
        }
        for (to, moved, carried) in moving {
            values[to].extend(moved);
            for noise in carried {
                // Where +γ and −γ meet they cancel.
                if !noises[to].remove(&noise) {
                    noises[to].insert(noise);
                }
            }
        }
    }
    values
        .into_iter()
        .zip(noises)
        .map(|(values, noises)| Held {
            values,
            noises: noises.len(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
