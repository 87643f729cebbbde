//! Whether a sequence of exchanges hides what its private graph can hide.
//!
//! Each value sits at exactly one place, each noise γ of an exchange at two, once with each sign: a
//! hand-over moves all that its out-agent has to the in-agent, −γ with it, and +γ stays. With the
//! final states that a coalition does not hold as vertices, and one vertex for each share that it
//! reads, every honest γ is an edge: D, what the noises do to what is seen, is the incidence matrix
//! of that graph. As the deviation σ_γ of γ grows all that is left to see are the sums over its
//! components, and the squared loss of a party tends to Δ²/(m σ*²), Δ its sensitivity, σ* its own
//! noise, m the values in its component. These are the honest components of the exchanges that were
//! used ([`crate::execution::exchanges::components`]), at best those of the private graph.

use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;
use undertone_protocol::topology::schedule::Schedule;

use crate::class::coalitions;
use crate::execution::exchanges::connected;

/// Edges that a check goes through at most, over coalitions and exchanges that fail. Our choice: a
/// second. Above, a schedule is checked without a coalition only.
const MOST_STEPS: usize = 100_000_000;

/// What a schedule falls short of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Shortfall {
    /// The exchanges leave parts of a component of the private graph apart.
    #[error("the exchanges leave parties {parts:?} of one component of the private graph apart")]
    Apart {
        /// The first part of a component, in plan order.
        parts: Vec<Party>,
    },
    /// Without a coalition, or without one exchange that comes back as well, the private graph
    /// would still hide more.
    #[error("without parties {coalition:?}{} the exchanges leave parties {parts:?} apart from others that they have private edges to", if *fault { ", and with one exchange that comes back," } else { "" })]
    Exposed {
        /// Who is taken out.
        coalition: Vec<Party>,
        /// Whether one exchange has to fail, too.
        fault: bool,
        /// Who is left apart.
        parts: Vec<Party>,
    },
}

/// Whether the exchanges join all that the private graph joins: at all, without any `size` parties,
/// and without any one exchange on top.
pub fn check(graph: &Graph, schedule: &Schedule, size: usize) -> Result<(), Shortfall> {
    let parties = graph.parties();
    let used = Used::of(schedule, parties);
    if let Some(parts) = used.short_of(graph, &[], None) {
        return Err(Shortfall::Apart { parts });
    }
    // A pair that exchanges twice is still joined without one of these.
    let once: Vec<(Party, Party)> = used
        .pairs
        .iter()
        .filter(|&&(_, _, times)| times == 1)
        .map(|&(a, b, _)| (a, b))
        .collect();
    let each = (once.len() + 1) * (used.pairs.len() + graph.edges().len());
    let coalitions = if few(parties, size, each) {
        coalitions::all(parties, size)
    } else {
        vec![vec![]]
    };
    for coalition in coalitions {
        for without in std::iter::once(None).chain(once.iter().copied().map(Some)) {
            if let Some(parts) = used.short_of(graph, &coalition, without) {
                return Err(Shortfall::Exposed {
                    coalition,
                    fault: without.is_some(),
                    parts,
                });
            }
        }
    }
    Ok(())
}

/// The fewest parties of an honest component of the private graph, when any `size` parties are
/// taken out: so many share their noise, at least. None if there are too many coalitions to look
/// at.
pub fn smallest_component(graph: &Graph, size: usize) -> Option<usize> {
    let parties = graph.parties();
    if !few(parties, size, graph.edges().len()) {
        return None;
    }
    let smallest = |coalition: Vec<Party>| {
        let edges = graph
            .edges()
            .iter()
            .copied()
            .filter(|(a, b)| !coalition.contains(a) && !coalition.contains(b));
        let components = connected(parties, edges);
        components
            .iter()
            .filter(|part| !coalition.contains(&part[0]))
            .map(Vec::len)
            .min()
    };
    coalitions::all(parties, size)
        .into_iter()
        .filter_map(smallest)
        .min()
}

/// Whether there are few enough coalitions, at so many steps each.
fn few(parties: usize, size: usize, each: usize) -> bool {
    let steps = coalitions::count(parties, size).and_then(|count| count.checked_mul(each));
    size < parties && steps.is_some_and(|steps| steps <= MOST_STEPS)
}

/// Who exchanged with whom, and how often.
struct Used {
    parties: usize,
    pairs: Vec<(Party, Party, usize)>,
}

impl Used {
    fn of(schedule: &Schedule, parties: usize) -> Self {
        let mut all: Vec<(Party, Party)> = schedule
            .out()
            .iter()
            .flat_map(|round| round.iter().enumerate())
            .flat_map(|(from, to)| to.iter().map(move |&to| (from.min(to), from.max(to))))
            .collect();
        all.sort_unstable();
        let pairs = all
            .chunk_by(|a, b| a == b)
            .map(|same| (same[0].0, same[0].1, same.len()))
            .collect();
        Used { parties, pairs }
    }

    /// A part that the private graph joins to others, outside of `coalition`, and the exchanges but
    /// `without` do not.
    fn short_of(
        &self,
        graph: &Graph,
        coalition: &[Party],
        without: Option<(Party, Party)>,
    ) -> Option<Vec<Party>> {
        let honest = |a: Party, b: Party| !coalition.contains(&a) && !coalition.contains(&b);
        let used = self
            .pairs
            .iter()
            .map(|&(a, b, _)| (a, b))
            .filter(|&(a, b)| honest(a, b) && Some((a, b)) != without);
        let parts = connected(self.parties, used);
        let mut part_of = vec![0; self.parties];
        parts
            .iter()
            .enumerate()
            .for_each(|(index, part)| part.iter().for_each(|&party| part_of[party] = index));
        let apart = |&&(a, b): &&(Party, Party)| honest(a, b) && part_of[a] != part_of[b];
        graph.edges().iter().find(apart).map(|&(a, b)| {
            let (a, b) = (&parts[part_of[a]], &parts[part_of[b]]);
            if a.len() <= b.len() { a.clone() } else { b.clone() }
        })
    }
}
