//! What quotes and receipts say of a plan's mechanism: all that differs in words and keys between
//! INCA, PPSC and masks of pairs.

use undertone_accountant::bounds::connectivity::among;
use undertone_protocol::plan::checked::Plan;

use crate::planning::as_in_paper;
use crate::reporting::table::number;

/// The mechanism of a plan.
enum MechanismFamily {
    /// Injections of correlated noise, in rounds.
    Inca,
    /// Multi-gossip, so many iterations of it.
    Ppsc { iterations: u32 },
    /// Masks of pairs, with so many others at most.
    Pairwise { others: usize },
    /// Gossip: nothing cancels.
    Gossip,
}

fn family(plan: &Plan) -> MechanismFamily {
    if plan.draft().averages() {
        return MechanismFamily::Gossip;
    }
    if let Some(masks) = plan.mask_graph() {
        let others = (0..masks.parties()).map(|party| masks.neighbours(party).len());
        let others = others.max().unwrap_or(0);
        return MechanismFamily::Pairwise { others };
    }
    match plan.iterations() {
        None => MechanismFamily::Inca,
        Some(iterations) => MechanismFamily::Ppsc { iterations },
    }
}

/// What the private phase does, as the end of a sentence.
pub(super) fn work(plan: &Plan) -> String {
    let rounds = plan.mixing_rounds();
    match family(plan) {
        MechanismFamily::Inca => format!("{rounds} rounds"),
        MechanismFamily::Ppsc { iterations } => {
            format!("{rounds} rounds for {iterations} iterations of multi-gossip")
        }
        MechanismFamily::Pairwise { others } => {
            format!("masks from keys with {others} others each, and nothing to mix")
        }
        MechanismFamily::Gossip => format!("{rounds} rounds of gossip"),
    }
}

/// The noise that cancels, in words: its symbol and scale, and what each draw of it is for.
pub(super) fn correlated_noise(plan: &Plan) -> String {
    let (symbol, per) = match family(plan) {
        MechanismFamily::Inca => ("σ_Δ", "between parties"),
        MechanismFamily::Ppsc { .. } => ("σ_γ", "an exchange"),
        MechanismFamily::Pairwise { .. } => ("", "a pair, from a cipher"),
        MechanismFamily::Gossip => ("σ_Δ", "a message"),
    };
    match plan.lattice().ring() {
        Some(_) => format!(
            "uniform over residues of {} bytes {per}",
            plan.lattice().wire_bytes
        ),
        None => format!("{symbol} = {} {per}", number(plan.calibration().correlated_std)),
    }
}

/// Above how many floors an error after a late departure is said in words: our choice, some four
/// times that of a plan whose noise was searched with that departure in mind.
const MUCH_LEFT: f64 = 10.0;

/// What may end a run of this mechanism without a mean, as a line of its own.
pub(super) fn caveat(plan: &Plan) -> String {
    let predicted = &plan.calibration().predicted;
    let late = predicted.standard_error_late_dropout;
    if plan.draft().sums_everybody() {
        return "All nodes read the one sum of each round, a mean that anybody may be shown; its standard \
                error is the last row's over the root of the number of releases. One colluder can end the \
                stream in any round, which nobody can prove, and may have read that round's sum; another \
                plan costs what it costs, in addition.\n"
            .into();
    }
    if plan.draft().run.sealed {
        return String::new();
    }
    if plan.lattice().ring().is_some() {
        return "If a party vanishes while publishing no mean is left: uniform noise of which a part is \
                missing leaves nothing.\n"
            .into();
    }
    match (family(plan), late) {
        (MechanismFamily::Ppsc { .. }, None) => {
            "One party may end with most of the weight: if that one vanishes while publishing, \
             no mean is left.\n"
                .into()
        }
        (_, Some(late)) if late > MUCH_LEFT * predicted.error_floor => format!(
            "A PARTY THAT VANISHES WHILE PUBLISHING COSTS THE MEAN: the noise that it leaves comes to {} times the \
             floor. Uniform noise with sealed finals (without mechanism.correlated and run.sealed) leaves none.\n",
            number(late / predicted.error_floor)
        ),
        _ => String::new(),
    }
}

/// Returns σ*, the standard deviation of the noise of a party that does not cancel; `None` where
/// parties add none.
pub fn independent_std(plan: &Plan) -> Option<f64> {
    Some(plan.calibration().independent_std).filter(|&std| std > 0.0)
}

/// σ_Δ of INCA, the noise that cancels between parties; null with all others, and with uniform
/// noise.
pub fn correlated_std(plan: &Plan) -> Option<f64> {
    match family(plan) {
        MechanismFamily::Inca => gaussian_std(plan),
        MechanismFamily::Ppsc { .. } | MechanismFamily::Pairwise { .. } | MechanismFamily::Gossip => None,
    }
}

/// σ_γ of PPSC, the noise that cancels in an exchange; null with all others, and with uniform
/// noise.
pub fn pairwise_std(plan: &Plan) -> Option<f64> {
    match family(plan) {
        MechanismFamily::Inca | MechanismFamily::Pairwise { .. } | MechanismFamily::Gossip => None,
        MechanismFamily::Ppsc { .. } => gaussian_std(plan),
    }
}

fn gaussian_std(plan: &Plan) -> Option<f64> {
    let std = plan.calibration().correlated_std;
    Some(std).filter(|_| plan.lattice().ring().is_none())
}

/// Whether a change of one value alone shows in an exact sum, with certainty (PPSC without
/// independent noise): the plan has claims, but no ε of the ordinary adjacency.
pub fn reveals_sums(plan: &Plan) -> bool {
    independent_std(plan).is_none()
}

/// PPSC: what multi-gossip alone gives away, and what this plan does about it, in words. None with
/// INCA and with masks of pairs.
pub fn revealed(plan: &Plan) -> Option<String> {
    if let Some(revealed) = as_in_paper::revealed(plan) {
        return Some(revealed);
    }
    match family(plan) {
        MechanismFamily::Inca | MechanismFamily::Pairwise { .. } | MechanismFamily::Gossip => None,
        MechanismFamily::Ppsc { .. } => Some(revealed_sums(plan)),
    }
}

/// The sums of components, and whether noise stays in them.
fn revealed_sums(plan: &Plan) -> String {
    let name = |&party: &usize| plan.draft().members[party].name.as_str();
    let components = plan.draft().private_graph.components();
    let sums = match components.len() {
        1 => "the exact sum of everybody's values".to_owned(),
        2..=6 => {
            let lists = components
                .iter()
                .map(|component| component.iter().map(name).collect::<Vec<_>>().join(", "));
            format!(
                "the exact sum of each component of the private graph ({})",
                lists.collect::<Vec<_>>().join(" | ")
            )
        }
        many => format!("the exact sum of each of the {many} components of the private graph"),
    };
    match independent_std(plan) {
        Some(std) => format!(
            "Multi-gossip alone would reveal {sums} to everybody who reads the public graph; \
             here each party adds noise of σ* = {} to its value first, which stays in these sums{}",
            number(std),
            smallest_sum(plan)
        ),
        None => format!(
            "This plan reveals {sums} to everybody who reads the public graph (independent_noise = \
             \"none\"): \
             who knows all values of a component but one knows that one. \
             What is claimed holds for changes of several values that leave these sums as they are, \
             and for no others: one value changed alone is seen with certainty, and no ε holds for it"
        ),
    }
}

/// How few values such a sum may have, once colluding and departed parties are taken out of it.
fn smallest_sum(plan: &Plan) -> String {
    let privacy = &plan.draft().privacy;
    let size = privacy.colluding + privacy.dropouts;
    let graph = &plan.draft().private_graph;
    if graph.least_degree() <= size {
        return format!(
            ". Without {size} parties the smallest sum is one value alone: its noise is that of local privacy"
        );
    }
    match among(graph, size).into_iter().min() {
        Some(values) if size > 0 => {
            let least = if values + size == plan.parties() {
                ""
            } else {
                "at least "
            };
            format!(
                ". Without any {size} parties (colluding or departed) the smallest has {least}{values} values"
            )
        }
        _ => String::new(),
    }
}
