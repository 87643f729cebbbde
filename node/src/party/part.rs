//! What a party does before its part in a run begins, whoever carries it: `join` or the daemon.

use std::path::Path;

use libp2p::PeerId;
use rand::SeedableRng;
use rand::rngs::{ChaCha12Rng, SysRng};
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::party::clipping::{self, Clipped};
use crate::party::input;
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

/// The correlated noise of one party, from the system's randomness.
pub type SystemNoise = LatticeNoise<ChaCha12Rng>;

/// Clips, weighs or sums up, rounds and adds the independent noise η*: from here on only the noisy
/// value x̃ exists. Returns what clipping did, too, for the party's owner.
pub fn privatise(
    plan: &Plan,
    me: Party,
    vector: VectorFile,
) -> Result<(LatticeVector, SystemNoise, Clipped), Failure> {
    let calibration = plan.calibration();
    let mut values = vector.values;
    let clipped = clipping::clip_all(&plan.draft().data, &mut values);
    let mut value = clipping::onto_lattice(plan, me, &values);
    let rng = ChaCha12Rng::try_from_rng(&mut SysRng).map_err(no_randomness)?;
    let mut noise = LatticeNoise::new(
        rng,
        *plan.lattice(),
        plan.draft().dimension(),
        calibration.correlated_std,
    );
    noise.add_independent(calibration.independent_std, &mut value);
    Ok((value, noise, clipped))
}

fn no_randomness(error: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("the system gives no randomness: {error}"))
        .hint("noise needs the operating system's random source, such as /dev/urandom")
}
