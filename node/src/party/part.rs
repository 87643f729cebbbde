//! The steps of a party before its part in a run begins, whoever carries it: `join` or the daemon.

use std::path::Path;
use std::sync::Arc;

use libp2p::PeerId;
use rand::SeedableRng;
use rand::rngs::ChaCha12Rng;
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::clipping::range::{ClippingReport, clip_all};
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::mixing::noisy::Noisy;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::recursion::RecursionSettings;
use undertone_protocol::topology::party::Party;

use crate::party::contributor::{Contributor, HandedOver, PartSource};
use crate::party::gossiped::StreamOfRows;
use crate::party::input;
use crate::party::solver::Solver;
use crate::party::trainee::Trainee;
use crate::reporting::failure::{Exit, Failure};
use crate::table_file::reading::{self, MostlyWords, TableSum};
use crate::vector_file::formats;
use crate::vector_file::layout::{Format, Layout};
use crate::vector_file::vector::VectorFile;

/// Returns the party of the plan that this node is (exit 3 if none).
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

/// A party's data, as its file has them. There is no `Debug` that prints them.
pub enum OwnData {
    /// A vector, or rows of numbers.
    Vector(VectorFile),
    /// The sum of a table's rows, with the layout of what comes of it.
    Table(TableSum, Layout),
}

impl OwnData {
    /// Its shape and names; of a table its rows, by as many coordinates as their vectors have.
    pub fn layout(&self) -> &Layout {
        match self {
            OwnData::Vector(vector) => &vector.layout,
            OwnData::Table(_, layout) => layout,
        }
    }

    /// Sentences on what is not as the plan describes it, for the owner alone.
    pub fn sentences(&self) -> Vec<String> {
        match self {
            OwnData::Vector(_) => vec![],
            OwnData::Table(table, _) => {
                let found = table.found.iter();
                found.filter_map(|found| found.sentence(table.rows)).collect()
            }
        }
    }
}

/// Reads what the party contributes and holds it against the plan (exit 7).
pub fn own_data(plan: &Plan, me: Party, path: &Path, words: MostlyWords) -> Result<OwnData, Failure> {
    let Some(settings) = plan.draft().computation.described() else {
        return vector(plan, me, path).map(OwnData::Vector);
    };
    let cell = plan.lattice().value_step();
    let table = reading::read(path, &settings.describe, (cell, words))?;
    let rows = usize::try_from(table.rows).unwrap_or(usize::MAX);
    let layout = Layout {
        shape: vec![rows, plan.draft().dimension()],
        format: Format::Json,
    };
    input::check_rows(plan, me, table.rows, path)?;
    Ok(OwnData::Table(table, layout))
}

/// Reads numbers, and holds them against the plan.
fn vector(plan: &Plan, me: Party, path: &Path) -> Result<VectorFile, Failure> {
    let expected = input::expected(plan, me);
    let vector = match input::judges_rows(plan) {
        true => {
            let rows = input::matrix_of(plan, formats::read_rows(path, expected)?);
            rows.map_err(|what| {
                let hint = "bring the plan's tensors (data.tensors), each with an axis of rows in front";
                input::unusable(path, &what, hint)
            })?
        }
        false => formats::read_as(path, expected)?,
    };
    input::check(plan, me, &vector.layout, path)?;
    Ok(vector)
}

/// A party's contribution to a run; there is no `Debug` that prints it.
pub struct Private {
    /// x̃.
    pub value: Noisy,
    /// Its correlated noise.
    pub noise: SystemNoise,
    /// The effect of clipping, for the party's owner.
    pub clipped: ClippingReport,
    /// In a training: what contributes to its later iterations.
    pub contributor: Option<Box<dyn Contributor>>,
}

/// The noise of one party.
pub type SystemNoise = LatticeNoise<ChaCha12Rng>;

/// Clips, weighs or sums up, rounds and adds the independent noise η*: from here on only the noisy
/// value x̃ exists. In a training it is the party's first contribution. All noise of the run comes
/// from `rng`.
///
/// # Errors
/// A target that the loss does not know (exit 7).
pub fn privatise(
    plan: &Arc<Plan>,
    me: Party,
    data: OwnData,
    path: &Path,
    mut rng: ChaCha12Rng,
) -> Result<Private, Failure> {
    let mut noise = correlated_noise(plan, &mut rng);
    let vector = match data {
        OwnData::Vector(vector) => vector,
        OwnData::Table(table, _) => {
            let sum = Clipped::of_table(plan, table.cells);
            let sum =
                sum.ok_or_else(|| Failure::new(Exit::Internal, "the table was read for another plan"))?;
            return Ok(Private {
                value: noise.noisy(plan.calibration().independent_std, sum),
                noise,
                clipped: ClippingReport::none(),
                contributor: None,
            });
        }
    };
    if let Some(trainee) = Trainee::of(plan, me, &vector.values, path, fork(&mut rng))? {
        let start = vec![0.0; plan.draft().dimension()];
        return Ok(of_contributor(Box::new(trainee), &start, noise));
    }
    if let Some(solver) = Solver::of(plan, me, &vector.values, path)? {
        let start = plan.draft().computation.recursion().map(RecursionSettings::start);
        return Ok(of_contributor(
            Box::new(solver),
            &start.unwrap_or_default(),
            noise,
        ));
    }
    if streams(plan) {
        let mut rows = vector.values;
        let clipped = clip_all(&plan.draft().data, &mut rows);
        let stream = StreamOfRows::of(plan, me, rows, rng);
        return Ok(Private {
            clipped,
            ..of_contributor(Box::new(stream), &[], noise)
        });
    }
    let (contribution, clipped) = Clipped::of(plan, me, vector.values);
    Ok(Private {
        value: noise.noisy(plan.calibration().independent_std, contribution),
        noise,
        clipped,
        contributor: None,
    })
}

/// The source of the noise that a party mixes.
fn correlated_noise(plan: &Plan, rng: &mut ChaCha12Rng) -> SystemNoise {
    let (coordinates, std) = (plan.mixed_coordinates(), plan.calibration().correlated_std);
    LatticeNoise::new(fork(rng), *plan.lattice(), coordinates, std)
}

/// A generator of its own, so that drawing from one leaves the other alone.
fn fork(rng: &mut ChaCha12Rng) -> ChaCha12Rng {
    ChaCha12Rng::from_rng(rng)
}

/// Whether a party contributes many releases, one a round.
pub fn streams(plan: &Plan) -> bool {
    let draft = plan.draft();
    draft.computation.stream().is_some() && draft.releases() > 1
}

/// Prepares the contributions that are handed over round by round, and waits for the first.
/// Whatever the source does is no error.
pub fn privatise_handed_over(
    plan: &Arc<Plan>,
    me: Party,
    source: impl PartSource + 'static,
    mut rng: ChaCha12Rng,
) -> Private {
    let noise = correlated_noise(plan, &mut rng);
    let contributor = HandedOver::of(plan, me, source, rng);
    of_contributor(Box::new(contributor), &[], noise)
}

/// A training's part, with its first contribution.
fn of_contributor(mut contributor: Box<dyn Contributor>, start: &[f64], noise: SystemNoise) -> Private {
    Private {
        value: contributor.contribution(1, start),
        noise,
        // How many gradients are clipped depends on the model, and is reported to nobody.
        clipped: ClippingReport::none(),
        contributor: Some(contributor),
    }
}

#[cfg(test)]
mod tests;
