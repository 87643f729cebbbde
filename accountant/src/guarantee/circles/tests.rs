use undertone_protocol::plan::claim::Adversary;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;
use undertone_protocol::topology::graph::Graph;

use super::*;
use crate::execution::gossip::GossipView;

fn drafted(parties: usize, against: (usize, usize), data: &str, graph: &str) -> Draft {
    let (colluding, dropouts) = against;
    let text = format!(
        "name = \"t\"\ntask = \"stream\"\n[data]\nshape = [3]\n{data}\n[privacy]\ncolluding = {colluding}\ndropouts = {dropouts}\n\
         [mechanism]\nsums = \"neighbours\"\n\
         [topology]\nprivate = {graph}\n"
    );
    let run = RunFile::parse(&text, parties).unwrap_or_else(|e| panic!("{e}"));
    Draft::new(run, &Peers::simulated(parties).expect("peers"), 1).unwrap_or_else(|e| panic!("{e}"))
}

/// σ over the least that any mechanism needs, in floors of the last row.
fn floors(draft: &Draft, calibration: &Calibration) -> f64 {
    let budget = gaussian::mu(draft.privacy.epsilon, draft.privacy.delta).expect("in range");
    let open = draft.largest_sensitivity() * open_loss(draft.computation.protect(), draft.releases()).sqrt()
        / budget;
    calibration.independent_std / open * (draft.honest() as f64).sqrt()
}

fn headline(calibration: &Calibration, faults: Faults) -> &Claim {
    let mut claims = calibration.claims.iter();
    let found = claims.find(|claim| claim.holds_as_headline && claim.faults == faults);
    found.unwrap_or_else(|| panic!("{faults:?}: {:?}", calibration.claims))
}

const STREAM: &str = "releases = 20";

/// The design's table: errors over the floor of 20 releases, c = 1, D = 0.
#[test]
fn noise_is_that_of_the_worst_readers() {
    for (graph, expected) in [("\"complete\"", 1.0), ("\"ring\"", 1.87)] {
        let draft = drafted(8, (1, 0), STREAM, graph);
        let calibration = calibrate(&draft).expect("calibrated");
        let found = floors(&draft, &calibration);
        assert!((found - expected).abs() < 0.005, "{graph}: {found}");
        let budget = gaussian::mu(1.0, 1e-6).expect("in range");
        assert!(headline(&calibration, Faults::Class).mu <= budget * (1.0 - 2e-9));
        let class = headline(&calibration, Faults::Class);
        assert!(class.epsilon <= 1.0 && class.epsilon > 0.998, "{class:?}");
        assert_eq!((class.size, class.established), (1, Established::Exhaustive));
        assert!(class.sealed && class.adversary == Adversary::Coalition && class.cases == 8);
        assert_eq!(headline(&calibration, Faults::BeforePublishing).mu, 0.0);
        let any = calibration.claims.last().expect("what holds against anybody");
        assert!(any.faults == Faults::Any && any.size == 7 && !any.sealed && any.epsilon > class.epsilon);
        // By the protocol's own averaging: nobody outside of the coalition loses more.
        let drawn = &calibration.drawn.as_ref().expect("edges").schedule;
        let class_of = GossipClass::of_schedule(drawn);
        let each = draft.largest_sensitivity() / calibration.independent_std;
        let losses = (1..8).filter_map(|party| class_of.by_the_machine(GossipView::Sum, &[0], party, None));
        let largest = losses.map(|loss| loss.upper.sqrt() * each).fold(0.0, f64::max);
        assert!(
            largest <= class.mu && largest > 0.999 * class.mu,
            "{largest} {class:?}"
        );
    }
}

/// Where one edge is missing, its two ends read sums that differ in each other's message alone: the
/// noise is that of open messages, and the case names them.
#[test]
fn a_complete_graph_less_one_edge_gains_nothing() {
    let edges = Graph::complete(8);
    let edges = edges.edges().iter().filter(|&&edge| edge != (2, 5));
    let edges: Vec<String> = edges
        .map(|(a, b)| format!("[\"party-{a}\", \"party-{b}\"]"))
        .collect();
    let graph = format!("{{ kind = \"edges\", edges = [{}] }}", edges.join(", "));
    let draft = drafted(8, (2, 0), STREAM, &graph);
    let calibration = calibrate(&draft).expect("calibrated");
    let schedule = &calibration.drawn.as_ref().expect("edges").schedule;
    let found = worst(&draft, schedule, 20);
    let (readers, party) = found.case.clone().expect("a case");
    assert!(found.square / 20.0 > 0.999 && found.exhaustive, "{found:?}");
    assert!(readers.contains(&2) != readers.contains(&5) && (party == 2 || party == 5));
    let open = floors(&draft, &calibration) / (draft.honest() as f64).sqrt();
    assert!((open - 1.0).abs() < 1e-5, "{open}");
    let whole = worst(
        &drafted(8, (2, 0), STREAM, "\"complete\""),
        &{
            let all = Graph::complete(8);
            Schedule::both_ways(std::iter::repeat_n(&all, 20))
        },
        20,
    );
    assert!((whole.square / 20.0 - 1.0 / 6.0).abs() < 1e-3, "{whole:?}");
}

/// A departed party's own noise is missing from then on: executions with it are in the class.
#[test]
fn who_departs_is_in_the_class() {
    let draft = drafted(6, (1, 1), "releases = 4", "\"complete\"");
    let calibration = calibrate(&draft).expect("calibrated");
    let class = headline(&calibration, Faults::Class);
    // 15 pairs, and 6 readers, 6 who depart, 4 rounds.
    assert_eq!(class.cases, 15 + 6 * 6 * 4);
    let drawn = &calibration.drawn.as_ref().expect("edges").schedule;
    let machine = GossipClass::of_schedule(drawn);
    let each = draft.largest_sensitivity() / calibration.independent_std;
    for rounds in 1..4 {
        let loss = machine.by_the_machine(GossipView::Sum, &[0], 3, Some(rounds));
        assert!(loss.expect("a loss").upper.sqrt() * each <= class.mu * (1.0 + 1e-9));
    }
}

/// Checks that a loss that was only searched for is no headline. Noise is that of open messages
/// then, as it is where rows may follow estimates.
#[test]
fn what_is_not_computed_is_no_headline() {
    let searched = drafted(
        20,
        (1, 1),
        "releases = 3",
        "{ kind = \"random-regular\", degree = 6 }",
    );
    let adaptive = drafted(8, (1, 0), "releases = 20\nadaptive = true", "\"complete\"");
    for draft in [&searched, &adaptive] {
        let calibration = calibrate(draft).expect("calibrated");
        let open = floors(draft, &calibration) / (draft.honest() as f64).sqrt();
        assert!((open - 1.0).abs() < 1e-5, "{open}");
        let any = headline(&calibration, Faults::Any);
        assert!(any.epsilon <= 1.0 && any.epsilon > 0.999);
        let class = calibration
            .claims
            .iter()
            .find(|claim| claim.faults == Faults::Class);
        match draft.computation.is_adaptive() {
            true => assert_eq!(class, None),
            false => {
                let class = class.expect("what was found");
                assert!(class.established == Established::Searched && !class.holds_as_headline);
            }
        }
    }
    let computed = drafted(
        20,
        (1, 0),
        "releases = 3",
        "{ kind = \"random-regular\", degree = 6 }",
    );
    let calibration = calibrate(&computed).expect("calibrated");
    assert_eq!(
        headline(&calibration, Faults::Class).established,
        Established::Exhaustive
    );
    assert!(floors(&computed, &calibration) / 19f64.sqrt() < 0.9);
}

/// The loss of a stream that ended early: k releases cost no more than √k times one release,
/// which where all read one sum is Δ over the deviation of all other noises but one's own.
#[test]
fn the_first_releases_of_a_stream_cost_what_they_tell() {
    let draft = drafted(8, (1, 0), STREAM, "\"complete\"");
    let calibration = calibrate(&draft).expect("calibrated");
    let std = calibration.independent_std;
    let plan = Plan::assemble(draft, calibration, [7; 16]).expect("a plan");
    let each = plan.draft().largest_sensitivity() / (std * 7f64.sqrt());
    assert_eq!(loss_of(&plan, 0), 0.0);
    for releases in [1, 5, 19, 20] {
        let (found, expected) = (loss_of(&plan, releases), each * (releases as f64).sqrt());
        assert!(found >= expected * (1.0 - 1e-9), "{releases}: {found} {expected}");
        assert!(found <= expected * 1.01, "{releases}: {found} {expected}");
    }
    let class = headline(plan.calibration(), Faults::Class).mu;
    assert!(loss_of(&plan, 19) < class);
    assert_eq!((loss_of(&plan, 20), loss_of(&plan, 99)), (class, class));
    // With departures others may have gone on with what a party contributed: all of the class
    // counts.
    let draft = drafted(8, (1, 1), STREAM, "\"complete\"");
    let calibration = calibrate(&draft).expect("calibrated");
    let anybody = own_noise::loss_of(&draft, calibration.independent_std, 1);
    let plan = Plan::assemble(draft, calibration, [7; 16]).expect("a plan");
    let class = headline(plan.calibration(), Faults::Class).mu;
    assert_eq!(loss_of(&plan, 1), class.min(anybody));
    assert_eq!(loss_of(&plan, 0), 0.0);
}
