//! Coalitions that know the schedule, looked for.

use undertone_protocol::topology::party::Party;

use crate::bounds::draws::hidden::{largest, squared_losses};
use crate::parallel::in_parallel;

/// Nobody learns more than 1 at σ* = 1, Δ = 1, whatever is climbed: from here on it is rounding.
const ALL: f64 = 1.0 - 1e-9;

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The coalition's largest squared loss at σ* = 1, Δ = 1.
    pub square: f64,
    /// The coalition.
    pub coalition: Vec<Party>,
    /// How many coalitions were tried.
    pub cases: u64,
}

/// How long a search is.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Victims whose contacts are tried, evenly spaced.
    pub victims: usize,
    /// The best of them are climbed from.
    pub starts: usize,
    /// Exchanges that are tried in each climb, at most.
    pub steps: usize,
    /// Coalitions of a victim's contacts that are tried before that, at most; where there are more,
    /// its closest contacts are taken.
    pub choices: usize,
}

/// How many parties that know the schedule suffice, at most, to learn some party's value but for
/// its own noise: the fewest, over all victims, that were found to read all that reaches it.
pub fn sufficient(out: &[Vec<Vec<Party>>]) -> usize {
    let parties = out.first().map_or(0, Vec::len);
    let of = |victim: Party| {
        // The choice is the same for each size: one more reader, as long as something is unread.
        let (mut low, mut high) = (0, parties.saturating_sub(1));
        while low < high {
            let middle = (low + high) / 2;
            if readers(out, victim, middle).1 == 0 {
                high = middle
            } else {
                low = middle + 1
            }
        }
        high
    };
    (0..parties).map(of).min().unwrap_or(0)
}

/// A coalition on the way.
#[derive(Clone)]
struct Climb {
    square: f64,
    coalition: Vec<Party>,
    /// All but the victim, closest contacts first.
    order: Vec<Party>,
    cases: u64,
}

/// A coalition of `size` that knows the schedule, found by climbs: exchanges of one member for
/// another as long as they pay. They start from victims' in- and out-neighbours, of these the ones
/// that learn most, one after the other; and from those who between them read most of what reaches
/// the victim (`readers`). A lower bound on what the worst coalition learns; no guarantee.
pub fn searched(out: &[Vec<Vec<Party>>], size: usize, ratio: f64, effort: Effort) -> Found {
    let parties = out.first().map_or(0, Vec::len);
    let victims = effort.victims.clamp(1, parties.max(1));
    // Quick, so everybody's: the ones that leave least unread.
    let readers = |victim: Party| {
        let (coalition, unread) = readers(out, victim, size);
        (unread, coalition, victim)
    };
    let mut read: Vec<(usize, Vec<Party>, Party)> = in_parallel(parties, |victim| Some(readers(victim)));
    read.sort();
    read.truncate(effort.starts);
    let mut begun = in_parallel(read.len(), |index| {
        Some(Climb::with(out, read[index].1.clone(), read[index].2, ratio))
    });
    if begun.iter().all(|climb| climb.square < ALL) {
        let victim = |index: usize| index * parties / victims;
        begun.extend(in_parallel(victims.min(parties), |index| {
            Some(Climb::begin(out, victim(index), size, ratio, effort.choices))
        }));
    }
    begun.sort_by(|a, b| {
        b.square
            .total_cmp(&a.square)
            .then_with(|| a.coalition.cmp(&b.coalition))
    });
    let starts = effort.starts.min(begun.len());
    let climbed = in_parallel(starts, |start| {
        Some(begun[start].clone().climb(out, ratio, effort.steps))
    });
    let cases = begun[starts..]
        .iter()
        .chain(&climbed)
        .map(|climb| climb.cases)
        .sum();
    let best = climbed.into_iter().max_by(|a, b| a.square.total_cmp(&b.square));
    let (square, coalition) = best.map_or((0.0, vec![]), |climb| (climb.square, climb.coalition));
    Found {
        square,
        coalition,
        cases,
    }
}

impl Climb {
    /// The victim's contacts; if they are more than fit, those that show most, if `choices`
    /// coalitions are enough to tell.
    fn begin(out: &[Vec<Vec<Party>>], victim: Party, size: usize, ratio: f64, choices: usize) -> Self {
        let (order, contacts) = by_contact(out, victim);
        let mut begun = Climb {
            square: 0.0,
            coalition: order[..size.min(order.len())].to_vec(),
            order,
            cases: 0,
        };
        // Each of them in each place.
        if contacts <= size || contacts * size > choices {
            begun.square = begun.learns(out, &begun.coalition.clone(), ratio);
            return begun;
        }
        begun.coalition.clear();
        while begun.coalition.len() < size {
            let mut best = (f64::NEG_INFINITY, 0);
            for &party in &begun.order.clone()[..contacts] {
                if !begun.coalition.contains(&party) {
                    let more: Vec<Party> = begun.coalition.iter().copied().chain([party]).collect();
                    let learns = begun.learns(out, &more, ratio);
                    best = if learns > best.0 { (learns, party) } else { best };
                }
            }
            begun.coalition.push(best.1);
            begun.square = best.0;
        }
        begun
    }

    fn with(out: &[Vec<Vec<Party>>], coalition: Vec<Party>, victim: Party, ratio: f64) -> Self {
        let mut begun = Climb {
            square: 0.0,
            coalition,
            order: by_contact(out, victim).0,
            cases: 0,
        };
        begun.square = begun.learns(out, &begun.coalition.clone(), ratio);
        begun
    }

    fn learns(&mut self, out: &[Vec<Vec<Party>>], coalition: &[Party], ratio: f64) -> f64 {
        self.cases += 1;
        largest(squared_losses(out, coalition, ratio))
    }

    /// Exchanges one member for one other, closest first, as long as that pays.
    fn climb(mut self, out: &[Vec<Vec<Party>>], ratio: f64, steps: usize) -> Self {
        let (end, order) = (self.cases + steps as u64, self.order.clone());
        while self.square < ALL {
            let before = self.square;
            for &enters in &order {
                for leaves in (0..self.coalition.len()).rev() {
                    if self.cases >= end {
                        return self;
                    }
                    if self.coalition.contains(&enters) {
                        break;
                    }
                    let mut other = self.coalition.clone();
                    other[leaves] = enters;
                    let learns = self.learns(out, &other, ratio);
                    if learns > self.square {
                        (self.square, self.coalition) = (learns, other);
                    }
                }
            }
            if self.square <= before {
                break;
            }
        }
        self
    }
}

/// `size` parties that between them read as many as they can of the states that `victim` splits and
/// of those whose shares reach it, and how many of these stay unread. Who reads them all knows the
/// victim's balance: what went in, what went out, and, once it is published, what stayed.
///
/// A state is read by each of its receivers, and known to its owner; chosen one by one, whoever
/// reads most that is unread, then whoever is in most of them.
fn readers(out: &[Vec<Vec<Party>>], victim: Party, size: usize) -> (Vec<Party>, usize) {
    let parties = out.first().map_or(0, Vec::len);
    let of_round = |round: &Vec<Vec<Party>>| -> Vec<Vec<Party>> {
        let others = (0..parties).filter(|&other| round[other].contains(&victim));
        let each = others.map(|other| {
            round[other]
                .iter()
                .copied()
                .chain([other])
                .filter(|&reader| reader != victim)
                .collect()
        });
        std::iter::once(round[victim].clone())
            .filter(|receivers| !receivers.is_empty())
            .chain(each)
            .collect()
    };
    let states: Vec<Vec<Party>> = out.iter().flat_map(of_round).collect();
    let mut read = vec![false; states.len()];
    let mut coalition: Vec<Party> = Vec::new();
    let mut open = vec![true; parties];
    open[victim] = false;
    while coalition.len() < size.min(parties.saturating_sub(1)) {
        let (mut unread, mut all) = (vec![0usize; parties], vec![0usize; parties]);
        for (readers, read) in states.iter().zip(&read) {
            for &reader in readers {
                all[reader] += 1;
                unread[reader] += usize::from(!read);
            }
        }
        let others = (0..parties).filter(|&party| open[party]);
        let Some(best) = others.max_by_key(|&party| (unread[party], all[party], std::cmp::Reverse(party)))
        else {
            break;
        };
        states
            .iter()
            .zip(&mut read)
            .for_each(|(readers, read)| *read |= readers.contains(&best));
        coalition.push(best);
        open[best] = false;
    }
    (coalition, read.iter().filter(|read| !**read).count())
}

/// All others, those first that exchange most shares with `victim`, and how many exchange any.
fn by_contact(out: &[Vec<Vec<Party>>], victim: Party) -> (Vec<Party>, usize) {
    let parties = out.first().map_or(0, Vec::len);
    let contacts = |other: Party| {
        let each = |round: &Vec<Vec<Party>>| {
            usize::from(round[victim].contains(&other)) + usize::from(round[other].contains(&victim))
        };
        out.iter().map(each).sum::<usize>()
    };
    let mut order: Vec<Party> = (0..parties).filter(|&other| other != victim).collect();
    let count = order.iter().filter(|&&other| contacts(other) > 0).count();
    order.sort_by_cached_key(|&other| (std::cmp::Reverse(contacts(other)), other));
    (order, count)
}
