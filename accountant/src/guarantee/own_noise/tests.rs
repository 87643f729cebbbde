use undertone_protocol::plan::computation::choice::Computation;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;

use super::*;
use crate::execution::gossip::GossipView;
use crate::verify::check::verify;
use crate::verify::error::VerifyError;

fn draft(lines: &str, parties: usize) -> Draft {
    let text = format!("name = \"t\"\ntask = \"stream\"\n[data]\nshape = [3]\n{lines}");
    let run = RunFile::parse(&text, parties).unwrap_or_else(|e| panic!("{e}"));
    Draft::new(run, &Peers::simulated(parties).expect("peers"), 1).expect("a draft")
}

const OPEN: &str = "[mechanism]\nsums = \"open\"\n";

const RING: &str = "[topology]\nprivate = \"ring\"\n";

/// Each has noise for all its releases together, and they mix to local noise: 2.65 floors.
#[test]
fn one_value_ends_at_local_noise() {
    let complete = draft(OPEN, 8);
    let one = calibrate(&complete).expect("calibrated");
    let budget = gaussian::mu(1.0, 1e-6).expect("in range");
    assert!((one.independent_std * budget / 2.0 - 1.0).abs() < 1e-5);
    assert_eq!(one.rounds, 1, "one round of equal weights");
    let floors = one.predicted.standard_error / one.predicted.error_floor;
    assert!((floors - 7f64.sqrt()).abs() < 1e-3, "{floors}");
    let ring = calibrate(&draft(&format!("{OPEN}{RING}"), 8)).expect("calibrated");
    assert!((20..80).contains(&ring.rounds), "{}", ring.rounds);
    assert!((ring.predicted.standard_error / one.predicted.standard_error - 1.0).abs() < 1e-3);
    // Rounds without noise of their own can be solved for their states: nothing is said of
    // strangers.
    assert_eq!(ring.claims.len(), 1);
}

#[test]
fn a_stream_costs_the_root_of_its_releases_where_all_are_protected() {
    let stream = |lines: &str| draft(&format!("releases = 20\n{lines}{OPEN}"), 8);
    let all = calibrate(&stream("")).expect("calibrated");
    let one = calibrate(&stream("[privacy]\nprotect = \"one\"\n")).expect("calibrated");
    assert_eq!((all.rounds, one.rounds), (20, 20));
    assert!((all.independent_std / one.independent_std - 20f64.sqrt()).abs() < 1e-6);
    for calibrated in [&all, &one] {
        // Everybody is everybody's neighbour.
        let [claim] = &calibrated.claims[..] else {
            panic!("one claim")
        };
        assert!(claim.epsilon <= 1.0 && claim.epsilon > 0.999, "{claim:?}");
        assert!(claim.size == 7 && claim.faults == Faults::Any && claim.holds_as_headline);
    }
    let draft = stream("");
    assert_eq!(loss_of(&draft, 2.0, 0), 0.0);
    assert!((loss_of(&draft, 2.0, 9) - 3.0).abs() < 1e-9);
    assert!(loss_of(&draft, 2.0, 20) > loss_of(&draft, 2.0, 19));
    // Δ/σ = 2/4, of any number of releases of which one may change.
    let draft = stream("[privacy]\nprotect = \"one\"\n");
    assert_eq!(loss_of(&draft, 4.0, 0), 0.0);
    for releases in [1, 9, 20] {
        let found = loss_of(&draft, 4.0, releases);
        assert!((0.5..0.5 + 1e-11).contains(&found), "{releases}: {found}");
    }
}

fn strangers(plan: &Plan) -> Option<&Claim> {
    let mut claims = plan.calibration().claims.iter();
    claims.find(|claim| claim.adversary == Adversary::Apart)
}

fn planned(lines: &str, parties: usize) -> Plan {
    let draft = draft(lines, parties);
    let calibration = calibrate(&draft).expect("calibrated");
    Plan::assemble(draft, calibration, [7; 16]).expect("a plan")
}

/// Checks the numbers that the design quotes: of the ring of eight, strangers reach 0.247 of a
/// neighbour's squared loss, rounding included.
#[test]
fn what_strangers_learn_stands_beside_the_headline() {
    let plan = planned(&format!("releases = 20\n{OPEN}{RING}"), 8);
    let [headline, apart] = &plan.calibration().claims[..] else {
        panic!("two claims")
    };
    assert!(headline.holds_as_headline && headline.faults == Faults::Any);
    assert_eq!(
        (apart.adversary, apart.size, apart.faults, apart.established),
        (Adversary::Apart, 1, Faults::None, Established::Exhaustive)
    );
    assert!(!apart.holds_as_headline && apart.cases == 8);
    let square = (apart.mu / headline.mu).powi(2);
    assert!((square - 0.247).abs() < 6e-4, "{square}");
    // By the machine, with all that rounding may add; a step twice as large would add too much.
    let class = GossipClass::of_schedule(plan.exchanges());
    // Two edges away from each other, and no further, nobody learns more.
    let machine = class.by_the_machine(GossipView::Messages, &[0], 2, None);
    let machine = machine.expect("a loss");
    let each = plan.draft().largest_sensitivity() / plan.calibration().independent_std;
    let rounding = rounding_loss(&plan);
    let by_hand = machine.upper.sqrt() * each + rounding;
    assert!((apart.mu / by_hand - 1.0).abs() < 1e-8, "{} {by_hand}", apart.mu);
    let share = rounding / headline.mu;
    assert!(share <= 1e-4 && share > 0.5e-4, "{share}");
    let parts = (4.0 * 20.0 * 8.0 * 3.0f64).sqrt() * plan.lattice().step();
    assert!((rounding * plan.calibration().independent_std / parts - 1.0).abs() < 1e-12);
    assert_eq!(verify(&plan), Ok(()));
}

/// Only the headline holds where releases may follow estimates; and what is claimed of strangers
/// is computed again by who verifies it.
#[test]
fn what_is_claimed_of_strangers_is_checked() {
    let adaptive = planned(&format!("releases = 20\nadaptive = true\n{OPEN}{RING}"), 8);
    assert!(strangers(&adaptive).is_none() && verify(&adaptive) == Ok(()));
    let honest = planned(&format!("releases = 6\n{OPEN}{RING}"), 8);
    let changed = |change: &dyn Fn(&mut Claim)| {
        let mut calibration = honest.calibration().clone();
        change(&mut calibration.claims[1]);
        let draft = honest.draft().clone();
        Plan::assemble(draft, calibration, [7; 16]).map(|plan| verify(&plan))
    };
    assert_eq!(changed(&|_| {}), Ok(Ok(())));
    let lower = changed(&|claim| claim.mu *= 0.999);
    assert!(
        matches!(lower, Ok(Err(VerifyError::Loss { index: 1, .. }))),
        "{lower:?}"
    );
    let larger = changed(&|claim| claim.size = 2);
    assert!(
        matches!(larger, Ok(Err(VerifyError::Unknown { index: 1, .. }))),
        "{larger:?}"
    );
    let faults = changed(&|claim| claim.faults = Faults::Any);
    assert!(
        matches!(faults, Ok(Err(VerifyError::Unknown { index: 1, .. }))),
        "{faults:?}"
    );
    assert!(changed(&|claim| claim.holds_as_headline = true).is_err());
    // Of a steered stream nothing can be said of strangers.
    let mut calibration = honest.calibration().clone();
    calibration.claims = honest.calibration().claims.clone();
    let mut draft = honest.draft().clone();
    let Computation::Stream(stream) = &mut draft.computation else {
        panic!("a stream");
    };
    stream.adaptive = true;
    let steered = verify(&Plan::assemble(draft, calibration, [7; 16]).expect("a plan"));
    assert!(
        matches!(steered, Err(VerifyError::Unknown { index: 1, .. })),
        "{steered:?}"
    );
}
