//! What a party does before its part in a run begins, whoever carries it: `join` or the daemon.

use std::path::Path;
use std::sync::Arc;

use libp2p::PeerId;
use rand::rngs::ChaCha12Rng;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::outer::OuterSettings;
use undertone_protocol::topology::party::Party;

use crate::party::clipping::{self, Clipped};
use crate::party::contributor::{Contributor, HandedOver, PartSource};
use crate::party::gossiped::StreamOfRows;
use crate::party::solver::Solver;
use crate::party::trainee::Trainee;
use crate::party::{input, randomness};
use crate::telling::failure::{Exit, Failure};
use crate::vector_file::formats;
use crate::vector_file::vector::VectorFile;

/// Which party of the plan this node is (exit 3 if none).
pub fn member(plan: &Plan, peer_id: PeerId) -> Result<Party, Failure> {
    plan.draft()
        .members
        .iter()
        .position(|member| member.id == peer_id)
        .ok_or_else(|| {
            Failure::new(
                Exit::PlanRefused,
                format!("the identity {peer_id} is not a member of this plan"),
            )
            .field("--identity")
            .hint("use the identity whose id is in the peer list, or ask for a plan that lists this one")
        })
}

/// Reads what the party brings and holds it against the plan (exit 7).
pub fn vector(plan: &Plan, me: Party, path: &Path) -> Result<VectorFile, Failure> {
    let vector = formats::read(path)?;
    input::check(plan, me, &vector.layout, path)?;
    Ok(vector)
}

/// What a party brings into a run; there is no `Debug` that prints it.
pub struct Private {
    /// x̃.
    pub value: LatticeVector,
    /// Its correlated noise.
    pub noise: SystemNoise,
    /// What clipping did, for the party's owner.
    pub clipped: Clipped,
    /// In a training: what contributes to its later iterations.
    pub contributor: Option<Box<dyn Contributor>>,
}

/// The correlated noise of one party, from the system's randomness.
pub type SystemNoise = LatticeNoise<ChaCha12Rng>;

/// Clips, weighs or sums up, rounds and adds the independent noise η*: from here on only the noisy
/// value x̃ exists. In a training it is the party's first contribution.
pub fn privatise(plan: &Arc<Plan>, me: Party, vector: VectorFile, path: &Path) -> Result<Private, Failure> {
    let calibration = plan.calibration();
    let rng = randomness::for_noise()?;
    let mut noise = LatticeNoise::new(
        rng,
        *plan.lattice(),
        plan.mixed_coordinates(),
        calibration.correlated_std,
    );
    if let Some(trainee) = Trainee::of(plan, me, &vector.values, path)? {
        let start = vec![0.0; plan.draft().dimension()];
        return Ok(of_contributor(Box::new(trainee), &start, noise));
    }
    if let Some(solver) = Solver::of(plan, &vector.values, path)? {
        let start = plan.draft().outer.as_ref().map(OuterSettings::start);
        return Ok(of_contributor(
            Box::new(solver),
            &start.unwrap_or_default(),
            noise,
        ));
    }
    let mut values = vector.values;
    let clipped = clipping::clip_all(&plan.draft().data, &mut values);
    if streams(plan) {
        let stream = Box::new(StreamOfRows::of(plan, me, values)?);
        return Ok(Private {
            clipped,
            ..of_contributor(stream, &[], noise)
        });
    }
    let mut value = clipping::onto_lattice(plan, me, &values);
    noise.add_independent(calibration.independent_std, &mut value);
    Ok(Private {
        value,
        noise,
        clipped,
        contributor: None,
    })
}

/// Whether a party brings many releases, one a round.
pub fn streams(plan: &Plan) -> bool {
    let draft = plan.draft();
    draft.mechanism.gossip.is_some() && draft.releases() > 1
}

/// What is handed over round by round, of which the first contribution is waited for here.
///
/// # Errors
/// A system without randomness. Whatever the source does is no error.
pub fn privatise_handed_over(
    plan: &Arc<Plan>,
    me: Party,
    source: impl PartSource + 'static,
) -> Result<Private, Failure> {
    let noise = LatticeNoise::new(
        randomness::for_noise()?,
        *plan.lattice(),
        plan.mixed_coordinates(),
        plan.calibration().correlated_std,
    );
    let contributor = HandedOver::of(plan, me, source)?;
    Ok(of_contributor(Box::new(contributor), &[], noise))
}

/// A training's part, with its first contribution.
fn of_contributor(mut contributor: Box<dyn Contributor>, start: &[f64], noise: SystemNoise) -> Private {
    Private {
        value: contributor.contribution(1, start),
        noise,
        clipped: Clipped::none(),
        contributor: Some(contributor),
    }
}
