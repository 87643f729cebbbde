//! The memory that precomputed noise takes at a node.

/// No residue of a training is wider, in bytes, but for sums of so many rows that a run file does
/// not leave the choice. Our guess: 5 for ten parties of a thousand rows.
pub(super) const WIDEST: u32 = 8;

/// The most bytes that a node holds of precomputed noise, with so many neighbours: its
/// state, that with its value in it, and what it exchanged with each neighbour, each of so many
/// coordinates of `width` bytes.
pub(super) fn bytes_held(neighbours: usize, coordinates: u64, width: u32) -> u64 {
    (2 + neighbours as u64)
        .saturating_mul(coordinates)
        .saturating_mul(width.into())
}
