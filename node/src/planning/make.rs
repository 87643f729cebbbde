//! From a run file and a peer list to a calibrated plan.

use std::path::Path;

use undertone_accountant::calibrate;
use undertone_accountant::calibration::error::CalibrateError;
use undertone_protocol::describe::faults::DescriptionFault;
use undertone_protocol::lattice::grid::LatticeError;
use undertone_protocol::plan::calibration::Calibration;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::defaults::{Defaults, GRACE_MS};
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::error::PlanError;
use undertone_protocol::plan::peers::{Peers, PeersError};
use undertone_protocol::plan::run_file::accept_by::AcceptBy;
use undertone_protocol::plan::run_file::error::RunFileError;
use undertone_protocol::plan::run_file::parsed::RunFile;
use undertone_protocol::plan::run_file::problem::Problem;
use undertone_protocol::plan::run_file::raw::RawRunFile;

use crate::planning::{quote, template};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::progress::Progress;

/// Reads a run file that a daemon proposes to these peers, whose daemons run already; `path` is
/// what messages call it. It names no file.
pub fn run_file(text: &str, peers: &Peers, path: &Path) -> Result<RunFile, Failure> {
    let mut raw = RawRunFile::parse(text).map_err(|e| run_failure(path, &e))?;
    raw.run.grace_ms.get_or_insert(GRACE_MS);
    raw.run.accept_by.get_or_insert(AcceptBy::DEFAULT);
    resolved(raw, peers, path)
}

/// Reads a run file for these peers, and the files that it names, from its folder on. `fill` adds
/// what the file leaves out.
pub fn run_file_beside(
    text: &str,
    peers: &Peers,
    path: &Path,
    fill: impl FnOnce(&mut RawRunFile) -> Result<(), Failure>,
) -> Result<RunFile, Failure> {
    let mut raw = RawRunFile::parse(text).map_err(|e| run_failure(path, &e))?;
    fill(&mut raw)?;
    template::settle(&mut raw, path)?;
    resolved(raw, peers, path)
}

fn resolved(raw: RawRunFile, peers: &Peers, path: &Path) -> Result<RunFile, Failure> {
    let run = raw.resolve(peers.as_slice().len(), Defaults::File);
    let run = run.map_err(|e| run_failure(path, &e))?;
    run.supported().map_err(|e| run_failure(path, &e))?;
    among_machines(&run)?;
    Ok(run)
}

/// Refuses what is there for comparison only, and that no machines carry out among themselves: the
/// gate of a run without roll-back may read a share that was refused after its sender had signed
/// its log otherwise than the sender acts on it.
pub(crate) fn among_machines(run: &RunFile) -> Result<(), Failure> {
    if run.exchange.rolls_back() {
        return Ok(());
    }
    Err(
        Failure::usage("a run without roll-back is for comparison only: no plan has it")
            .field("mechanism.rollback")
            .hint("leave mechanism.rollback out; `undertone simulate` and `undertone account` keep it"),
    )
}

/// Calibrates a run for these peers. `seed` draws random graphs and the schedule; both are public.
pub fn make(run: RunFile, peers: &Peers, seed: u64) -> Result<Plan, Failure> {
    let (draft, calibration) = calibrated(run, peers, seed)?;
    assemble(draft, calibration)
}

/// The first half of [`make`], which takes all of its time.
pub(crate) fn calibrated(run: RunFile, peers: &Peers, seed: u64) -> Result<(Draft, Calibration), Failure> {
    let draft = Draft::new(run, peers, seed).map_err(|e| Failure::usage(e.to_string()).field(e.field()))?;
    let mut progress = Progress::start();
    let calibration = calibrate(&draft, &mut |step| progress.show(step)).map_err(|e| uncalibrated(&e))?;
    progress.end();
    Ok((draft, calibration))
}

/// The second half of [`make`].
pub(crate) fn assemble(draft: Draft, calibration: Calibration) -> Result<Plan, Failure> {
    assemble_with(draft, calibration, rand::random())
}

/// [`assemble`] with this nonce, which a schedule's plan has no say in.
pub(super) fn assemble_with(
    draft: Draft,
    calibration: Calibration,
    nonce: [u8; 16],
) -> Result<Plan, Failure> {
    Plan::assemble(draft.clone(), calibration.clone(), nonce).map_err(|e| {
        let failure = match e {
            // Too few to hold shares: a plan that could not be carried out, not a file in error.
            PlanError::Threshold(_) | PlanError::PrecomputedNoise { .. } => {
                Failure::new(Exit::PlanRefused, e.to_string())
            }
            _ => Failure::usage(e.to_string()),
        };
        let failure = match e.field() {
            Some(field) => failure.field(field),
            None => failure,
        };
        match would_fit(&draft, &calibration, &e) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

/// No larger δ is ever proposed: it is the chance that nothing is hidden. Our choice.
const LARGEST_DELTA: f64 = 1e-3;

/// What would fit on a lattice, with numbers that suffice each by itself.
fn would_fit(draft: &Draft, calibration: &Calibration, error: &PlanError) -> Option<String> {
    match error {
        PlanError::Lattice(LatticeError::TooWide { .. }) => calibration
            .most_rounds(draft)
            .map(|rounds| format!("mechanism.rounds = {rounds} suffices")),
        // What sampling adds does not depend on δ; two digits, rounded up.
        PlanError::Lattice(LatticeError::Sampling { added, .. }) if 10.0 * added < LARGEST_DELTA => {
            Some(format!("privacy.delta = {:.1e} suffices", 10.0 * added * 1.05))
        }
        PlanError::Lattice(LatticeError::Sampling { .. }) => Some(
            "choose privacy.epsilon = 10 or less: one that large hides nothing, and no delta helps"
                .to_owned(),
        ),
        _ => None,
    }
}

/// A graph that cannot protect somebody is a refused plan; all else is a run file that makes no
/// sense.
pub(super) fn uncalibrated(error: &CalibrateError) -> Failure {
    match error {
        CalibrateError::Exposed { remedies, .. } => Failure::new(Exit::PlanRefused, error.to_string())
            .field("topology.private")
            .hint(format!(
                "any one of these suffices: {}; a larger epsilon or more rounds do not",
                quote::listed(remedies)
            )),
        CalibrateError::Local { remedies, .. } => Failure::new(Exit::PlanRefused, error.to_string())
            .field("topology.private")
            .hint(format!(
                "mechanism.local_noise_ok = true, or any one of these: {}",
                quote::listed(remedies)
            )),
        CalibrateError::Thin { .. } => Failure::new(Exit::PlanRefused, error.to_string())
            .field("topology.private")
            .hint("or mechanism.local_noise_ok = true, for noise as large as local privacy needs"),
        CalibrateError::Separated { .. } | CalibrateError::Drawn { .. } => {
            Failure::usage(error.to_string()).field("mechanism.rounds")
        }
        CalibrateError::Kind => Failure::usage(error.to_string()).field("mechanism.kind"),
        CalibrateError::TooMany => Failure::usage(error.to_string()).field("mechanism.independent_noise"),
        CalibrateError::Reached => Failure::usage(error.to_string()).field("recursion.accuracy"),
        CalibrateError::AsInPaper { .. } => Failure::usage(error.to_string()).field("recursion.pairwise_std"),
        _ => Failure::usage(error.to_string()),
    }
}

/// A run file's error with the file's name.
pub fn run_failure(path: &Path, error: &RunFileError) -> Failure {
    let mut failure = Failure::usage(format!("{}: {error}", path.display()));
    if let RunFileError::Field {
        problem: Problem::Description(DescriptionFault::Coordinates { .. }),
        ..
    } = error
    {
        failure.exit = Exit::PlanRefused;
    }
    failure.field = error.field().map(String::from);
    failure
}

/// A peer list's error with the file's name.
pub fn peers_failure(path: &Path, error: &PeersError) -> Failure {
    let mut failure = Failure::usage(format!("{}: {error}", path.display()));
    failure.field = error.field().map(String::from);
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "name = \"waits\"\n[data]\nshape = [2]\n";

    #[test]
    fn daemons_wait_for_who_is_gone_a_moment_and_for_answers_days_and_people_for_each_other() {
        let peers = Peers::simulated(4).expect("peers");
        let times = |run: RunFile| {
            let accept_by = run.run.accept_by.map(|time| time.to_string());
            (run.run.grace_ms, run.run.join_ms, accept_by)
        };
        let of = |text: &str| {
            let path = "RUN.toml".as_ref();
            let proposed = run_file(text, &peers, path).expect("a run file");
            let planned = run_file_beside(text, &peers, path, |_| Ok(())).expect("a run file");
            (times(proposed), times(planned))
        };
        let days = Some("3d".to_owned());
        assert_eq!(of(RUN), ((2000, 120_000, days), (120_000, 120_000, None)));
        let said = format!("{RUN}[run]\ngrace_ms = 5\njoin_ms = 7000\naccept_by = \"60 min\"\n");
        let hour = || Some("1h".to_owned());
        assert_eq!(of(&said), ((5, 7000, hour()), (5, 7000, hour())));
    }
}
