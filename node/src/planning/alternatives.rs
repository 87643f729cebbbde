//! What a plan could have been instead: the error of each mechanism, what it sends, and what it
//! rests on.

use serde::Serialize;
use undertone_accountant::calibrate;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Claim, ConnectivityBasis, Established, Faults};
use undertone_protocol::plan::computation::choice::Computation;
use undertone_protocol::plan::computation::stream::Sums;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::exchange::choice::Exchange;
use undertone_protocol::plan::exchange::gossip::{Gossip, MessagesRead};
use undertone_protocol::plan::exchange::inca::{Cancelling, GaussianNoise, Inca};
use undertone_protocol::plan::exchange::pair_masks::PairwiseMasks;
use undertone_protocol::plan::exchange::ppsc::{Ppsc, PpscNoise};
use undertone_protocol::plan::run_file::settings::{Coalitions, CorrelatedNoise, Dissemination, Rounds};
use undertone_protocol::topology::active_edges::ActiveEdges;

use crate::reporting::table::{Table, bytes, number};

/// Rounds of INCA's Gaussian plan at least, where every coalition is computed: what its own search
/// takes for one colluder and one departure among eight (it may find a few percent less with
/// others, in several times the time).
const GAUSSIAN_ROUNDS: usize = 6;

/// Parties up to which circles are planned for comparison.
const MOST_IN_CIRCLES: usize = 16;

/// Bytes of a frame's head and signature: what a plan's own count takes.
const FRAME_BYTES: u64 = 140;

/// Another way to the same mean, for the same ε and δ against the same coalitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// Its name.
    pub mechanism: String,
    /// The standard error of the mean, per coordinate and in the data's unit, if nobody departs.
    pub standard_error: f64,
    /// What a party sends, payload and framing.
    pub bytes_per_party: u64,
    /// What has to be true for it.
    pub rests_on: String,
}

impl Alternative {
    /// Whether it is there for comparison only: nobody has a server that all trust, and noise of
    /// each party alone is what the protocol is there to avoid.
    pub fn is_reference(&self) -> bool {
        [LOCAL, SERVER].contains(&self.mechanism.as_str())
    }
}

/// The name of each party's own noise alone.
const LOCAL: &str = "local noise";

/// The name of a server that all trust.
const SERVER: &str = "a trusted server";

/// What this plan could have been instead, each with what its own calibration says.
pub fn of(plan: &Plan) -> Vec<Alternative> {
    let drafted = plan.draft();
    match &drafted.computation {
        Computation::LinearEquations(_) | Computation::Optimise(_) => vec![],
        Computation::Regression { .. } | Computation::Describe(_) | Computation::Rounds(_) => {
            vec![local(plan), server(plan)]
        }
        Computation::Stream(stream) if stream.releases > 1 => streams(plan),
        Computation::Mean {} | Computation::Stream(_) => means(plan),
    }
}

/// Other ways to the mean of one vector of each party.
fn means(plan: &Plan) -> Vec<Alternative> {
    let drafted = plan.draft();
    let same = |exchange: &Exchange| {
        exchange.name() == drafted.exchange.name() && exchange.correlated() == drafted.exchange.correlated()
    };
    let uniform = uniform_exchanges().into_iter().filter(|exchange| !same(exchange));
    let mut ways: Vec<Alternative> = uniform.filter_map(|exchange| sealed(drafted, exchange)).collect();
    if drafted.exchange.correlated() == CorrelatedNoise::Uniform {
        ways.extend(gaussian_unsealed(plan));
    }
    ways.push(local(plan));
    ways.push(server(plan));
    ways
}

/// The exchanges whose noise is uniform.
fn uniform_exchanges() -> [Exchange; 3] {
    let rounds = Rounds::Auto;
    [
        Exchange::Inca(Inca {
            rounds,
            noise: Cancelling::Uniform,
        }),
        Exchange::Ppsc(Ppsc {
            rounds,
            noise: PpscNoise::Uniform,
            local_noise_ok: false,
        }),
        Exchange::PairMasks(PairwiseMasks { rounds }),
    ]
}

/// Other ways to carry a stream with one START: what is read of a row differs.
fn streams(plan: &Plan) -> Vec<Alternative> {
    let draft = plan.draft();
    let all = [Sums::Everybody, Sums::Neighbours, Sums::Open];
    let others = all.into_iter().filter(|sums| Some(*sums) != draft.sums());
    // Of more parties circles take minutes.
    let few = plan.parties() <= MOST_IN_CIRCLES;
    let computed = others.filter(|sums| few || *sums != Sums::Neighbours);
    let mut ways: Vec<Alternative> = computed.filter_map(|sums| stream(draft, sums)).collect();
    ways.push(server(plan));
    ways
}

/// A stream of which a reader reads `sums`.
fn stream(draft: &Draft, sums: Sums) -> Option<Alternative> {
    let mut other = draft.clone();
    let rounds = Rounds::Auto;
    let edges = draft
        .exchange
        .gossip()
        .map_or(ActiveEdges::All, |gossip| gossip.edges);
    let gossip = |read| Exchange::Gossip(Gossip { rounds, read, edges });
    other.exchange = match sums {
        Sums::Open => gossip(MessagesRead::Each),
        Sums::Neighbours => gossip(MessagesRead::Sums),
        Sums::Everybody => Exchange::PairMasks(PairwiseMasks { rounds }),
    };
    other.run.sealed = sums != Sums::Open;
    if other.run.sealed {
        // A round of sums is four stages.
        other.run.round_ms = other.run.round_ms.max(4 * other.run.settle_ms);
    }
    let plan = planned(other)?;
    let (name, rests_on) = match sums {
        Sums::Open => (
            "open gossip",
            "a party's own noise alone, whoever colludes".into(),
        ),
        Sums::Neighbours => {
            let claims = plan.calibration().claims.iter();
            let mut headlines = claims.filter(|claim| claim.holds_as_headline);
            let rests_on = match headlines.any(|claim| claim.faults == Faults::Class) {
                true => "every coalition, computed; a cipher, sealing",
                false => "a party's own noise alone: not all coalitions were computed",
            };
            ("secure sums of neighbours", rests_on.into())
        }
        Sums::Everybody => {
            let kappa = basis(&plan).map_or(0, |basis| basis.kappa);
            let rests_on = format!("κ = {kappa} of the masks; a cipher, sealing");
            ("secure sums of everybody", rests_on)
        }
    };
    Some(way(name.into(), &plan, rests_on))
}

/// The comparison as a person reads it.
pub fn text(plan: &Plan, ways: &[Alternative]) -> String {
    let predicted = &plan.calibration().predicted;
    let mut table = Table::with_headings([
        "mechanism",
        "standard error",
        "× floor",
        "a party sends",
        "rests on",
    ]);
    let times = |error: f64| format!("{:.2}", error / predicted.error_floor);
    table.row([
        "this plan".into(),
        number(predicted.standard_error),
        times(predicted.standard_error),
        bytes(predicted.bytes_per_party),
        String::new(),
    ]);
    for way in ways {
        table.row([
            way.mechanism.clone(),
            number(way.standard_error),
            times(way.standard_error),
            bytes(way.bytes_per_party),
            way.rests_on.clone(),
        ]);
    }
    format!("\nWhat this plan could use instead:\n{}", table.render())
}

/// An exchange with uniform noise, for people.
fn name(exchange: &Exchange) -> &'static str {
    match exchange {
        Exchange::Ppsc(_) => "PPSC, uniform noise",
        Exchange::PairMasks(_) => "masks of pairs",
        Exchange::Inca(_) | Exchange::Gossip(_) => "INCA, uniform noise",
    }
}

/// The draft as a mean over another exchange, for the same privacy target.
fn drafted(draft: &Draft, exchange: Exchange) -> Draft {
    let mut other = draft.clone();
    let uniform = exchange.correlated() == CorrelatedNoise::Uniform;
    let privacy = &mut other.privacy;
    privacy.coalitions = Coalitions::Any;
    let mixed = uniform && exchange.rules().mixes();
    privacy.share_faults = privacy.share_faults.filter(|_| mixed);
    (other.run.sealed, other.run.dissemination) = (uniform, Dissemination::Flood);
    (other.computation, other.exchange) = (Computation::Mean {}, exchange);
    other
}

/// The plan of another draft; none where it is refused (a graph that does not carry it, say).
fn planned(draft: Draft) -> Option<Plan> {
    let calibration = calibrate(&draft, &mut |_| {}).ok()?;
    Plan::assemble(draft, calibration, [0; 16]).ok()
}

fn basis(plan: &Plan) -> Option<ConnectivityBasis> {
    let claims = plan.calibration().claims.iter();
    claims.filter_map(|claim| claim.connectivity).next()
}

/// Uniform noise with sealed finals.
fn sealed(draft: &Draft, exchange: Exchange) -> Option<Alternative> {
    let name = name(&exchange);
    let plan = planned(drafted(draft, exchange))?;
    let rests_on = match basis(&plan) {
        Some(basis) if !plan.mixes() => format!("κ = {} of the masks; a cipher, sealing", basis.kappa),
        Some(basis) => format!("κ = {} of those who share; sealing", basis.kappa),
        None => "sealing; its noise is local".into(),
    };
    Some(way(format!("{name}, sealed finals"), &plan, rests_on))
}

fn way(mechanism: String, plan: &Plan, rests_on: String) -> Alternative {
    let predicted = &plan.calibration().predicted;
    Alternative {
        mechanism,
        standard_error: predicted.standard_error,
        bytes_per_party: predicted.bytes_per_party,
        rests_on,
    }
}

/// Gaussian noise with readable finals; none where it would be no better than local noise.
fn gaussian_unsealed(plan: &Plan) -> Option<Alternative> {
    let draft = plan.draft();
    let privacy = &draft.privacy;
    let exchange = match &draft.exchange {
        Exchange::Ppsc(_) => Exchange::Ppsc(Ppsc {
            rounds: Rounds::Auto,
            noise: PpscNoise::Gaussian,
            local_noise_ok: false,
        }),
        _ => Exchange::Inca(Inca {
            rounds: Rounds::Fixed(GAUSSIAN_ROUNDS.max(privacy.colluding + privacy.dropouts + 2) as u32),
            noise: Cancelling::Gaussian(GaussianNoise::default()),
        }),
    };
    let is_ppsc = matches!(exchange, Exchange::Ppsc(_));
    let other = planned(drafted(draft, exchange))?;
    let predicted = &other.calibration().predicted;
    let class = |claim: &&Claim| claim.holds_as_headline && claim.faults == Faults::Class;
    let claimed = other.calibration().claims.iter().find(class)?;
    let how = match claimed.established {
        Established::Exhaustive => "every coalition, computed".into(),
        _ => format!("a theorem's closed form, κ = {}", claimed.connectivity?.kappa),
    };
    let late = match predicted.standard_error_late_dropout {
        Some(late) => format!(
            "one missing final costs {:.2} × floor",
            late / predicted.error_floor
        ),
        None if !is_ppsc => "a missing final leaves its noise in the mean".into(),
        None => "one missing final may leave no mean".into(),
    };
    let name = if is_ppsc { "PPSC" } else { "INCA" };
    let mechanism = format!("{name}, Gaussian noise, finals not sealed");
    Some(way(mechanism, &other, format!("{how}; {late}")))
}

/// Each party's own noise alone, and every vector to everybody.
fn local(plan: &Plan) -> Alternative {
    let draft = plan.draft();
    let vector = draft.dimension() as u64 * u64::from(plan.lattice().final_bytes) + FRAME_BYTES;
    Alternative {
        mechanism: LOCAL.into(),
        standard_error: plan.calibration().predicted.local,
        bytes_per_party: (plan.parties() as u64 - 1) * vector,
        rests_on: "a party's own noise alone, whoever colludes".into(),
    }
}

/// A server that everybody gives its vector, in f64.
fn server(plan: &Plan) -> Alternative {
    Alternative {
        mechanism: SERVER.into(),
        standard_error: plan.calibration().predicted.central,
        bytes_per_party: plan.draft().dimension() as u64 * 8 + FRAME_BYTES,
        rests_on: "a server that reads every value, and tells nobody".into(),
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::testing::plan_of;

    fn plan(parties: usize, lines: &str) -> Plan {
        let task = match lines.contains("sums = ") {
            true => "stream",
            false => "mean",
        };
        let text = format!("name = \"t\"\ntask = \"{task}\"\n[data]\nshape = [1000]\n{lines}");
        plan_of(&text, parties, None)
    }

    /// The mechanism of each line, with its error in multiples of the floor.
    fn lines(plan: &Plan) -> Vec<(String, f64)> {
        let floor = plan.calibration().predicted.error_floor;
        of(plan)
            .into_iter()
            .map(|way| (way.mechanism, way.standard_error / floor))
            .collect()
    }

    fn assert_lines(plan: &Plan, expected: &[(&str, f64)]) {
        let found = lines(plan);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((mechanism, times), (name, expected)) in found.iter().zip(expected) {
            assert_eq!(mechanism, name, "{found:?}");
            assert!(
                (times / expected - 1.0).abs() < 0.01,
                "{name}: {times} {expected}"
            );
        }
    }

    #[test]
    fn a_plan_is_compared_with_what_its_parties_could_do_instead() {
        let eight = plan(8, "");
        assert_lines(
            &eight,
            &[
                ("PPSC, uniform noise, sealed finals", 1.080),
                ("masks of pairs, sealed finals", 1.080),
                ("INCA, Gaussian noise, finals not sealed", 1.152),
                ("local noise", 2.646),
                ("a trusted server", 0.935),
            ],
        );
        let gaussian = &of(&eight)[2].rests_on;
        assert!(
            gaussian.contains("every coalition, computed; one missing final costs 2.1"),
            "{gaussian}"
        );
        assert!(of(&eight).iter().all(|way| way.bytes_per_party > 8000));
        let unsealed = plan(8, "[run]\nsealed = false\n");
        assert_lines(
            &unsealed,
            &[
                ("INCA, uniform noise, sealed finals", 1.080),
                ("PPSC, uniform noise, sealed finals", 1.080),
                ("masks of pairs, sealed finals", 1.080),
                ("local noise", 2.646),
                ("a trusted server", 0.935),
            ],
        );
    }

    /// By computation it is 1.87 and 2.65 floors for noise on a ring of eight; a single node's row
    /// has somewhat more of it, since the last rounds are hardly mixed.
    #[test]
    fn a_stream_is_compared_with_what_else_could_be_read_of_it() {
        let stream = |graph: &str, mechanism: &str| {
            let lines = format!(
                "releases = 20\n[privacy]\ndropouts = 0\n[mechanism]\n{mechanism}\n\
                 [topology]\nprivate = {graph}\n[run]\nsettle_ms = 15000\nround_ms = 60000\n"
            );
            plan(8, &lines)
        };
        let (all, own) = ("secure sums of everybody", "secure sums of neighbours");
        let server = ("a trusted server", 0.935);
        let ring = "\"ring\"";
        assert_lines(
            &stream(ring, "sums = \"open\""),
            &[(all, 1.0), (own, 2.053), server],
        );
        let secure = |circle: &str| format!("sums = \"{circle}\"");
        let open = ("open gossip", 2.904);
        assert_lines(&stream(ring, &secure("everybody")), &[(own, 2.053), open, server]);
        let neighbours = stream(ring, &secure("neighbours"));
        assert_lines(&neighbours, &[(all, 1.0), open, server]);
        let written = of(&stream("\"complete\"", &secure("everybody")));
        let planned = stream("\"complete\"", &secure("neighbours"));
        assert_eq!(
            written[0].standard_error,
            planned.calibration().predicted.standard_error
        );
    }

    #[test]
    fn gaussian_noise_is_compared_by_what_is_known_of_its_coalitions() {
        let fifty = plan(50, "[mechanism]\nkind = \"ppsc\"\n");
        let ways = of(&fifty);
        assert_eq!(ways[0].mechanism, "INCA, uniform noise, sealed finals");
        assert_eq!(ways[2].mechanism, "PPSC, Gaussian noise, finals not sealed");
        assert!(
            ways[2].rests_on.starts_with("every coalition, computed; "),
            "{ways:?}"
        );
        let times = ways[2].standard_error / fifty.calibration().predicted.standard_error;
        assert!((1.0..1.25).contains(&times), "{times}");
    }

    /// No line is made up: what the private graph does not carry is left out.
    #[test]
    fn what_cannot_be_planned_is_left_out() {
        let edges = |first: usize| {
            let pairs = (first..first + 5).flat_map(move |a| (a + 1..first + 5).map(move |b| (a, b)));
            pairs.map(|(a, b)| format!("[\"party-{a}\", \"party-{b}\"]"))
        };
        let edges: Vec<String> = edges(0).chain(edges(5)).collect();
        let pieces = format!(
            "[mechanism]\nkind = \"ppsc\"\n[topology]\nprivate = {{ kind = \"edges\", edges = [{}] }}\n",
            edges.join(", ")
        );
        let found = lines(&plan(10, &pieces));
        assert!(
            found.iter().all(|(name, _)| !name.starts_with("INCA")),
            "{found:?}"
        );
    }
}
