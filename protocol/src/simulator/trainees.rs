//! The contributions of simulated parties to a training, and the models at which they are computed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::lattice::vector::LatticeVector;
use crate::messages::notice::Network;
use crate::topology::party::Party;

/// A party's clipped, rounded gradients at a model, summed: its party, the iteration, the model.
type Contribution<'a> = dyn Fn(Party, u32, &[f64]) -> LatticeVector + 'a;

/// The known facts of a training.
#[derive(Default)]
pub(super) struct Trainees<'a> {
    pub(super) contribution: Option<Box<Contribution<'a>>>,
    /// x̃ of each iteration from the second on and each party.
    pub(super) contributed: BTreeMap<(u32, Party), LatticeVector>,
    /// The frames of a party in the first mixing that it repeats in later ones, and the neighbours
    /// to whom it has, by mixing.
    pub(super) said: Vec<(Network, Party, Arc<[u8]>)>,
    pub(super) said_again: BTreeSet<(u32, Network, Party)>,
    /// The model that each iteration's gradients are taken at, by the first party that asked.
    pub(super) models: BTreeMap<u32, Arc<[f64]>>,
}
