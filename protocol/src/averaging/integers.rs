//! Averaging on integers: every state is a vector of whole units, every change is an integer, so
//! that a node that adds up its neighbours' changes holds their states to the bit.

/// In each round a node rounds to the nearest integer, and the product before that is off by less
/// than 2^-5 (below 2^[`PRODUCT_BITS`]).
pub const ROUNDING: f64 = 0.5 + 1.0 / 32.0;

/// Products c·L·x stay below 2^48 units, so that f64 holds L·x exactly and the product to 2^-5.
pub const PRODUCT_BITS: u32 = 48;

/// Adding and subtracting this rounds any f64 below 2^51 to the nearest integer, ties to even: IEEE
/// 754's own rounding, the same everywhere.
const NEAREST: f64 = 6_755_399_441_055_744.0;

/// One round: `state` ← state − c·(degree·state − Σ neighbours), rounded; the changes go to
/// `changes`. What no honest party sends wraps.
pub fn step(state: &mut [i64], neighbours: &[i64], degree: i64, c: f64, changes: &mut [i64]) {
    for ((x, sum), change) in state.iter_mut().zip(neighbours).zip(changes) {
        let difference = sum.wrapping_sub(x.wrapping_mul(degree));
        let rounded = (c * difference as f64 + NEAREST) - NEAREST;
        *change = rounded as i64;
        *x = x.wrapping_add(*change);
    }
}

/// The fewest bytes that hold every integer up to `bound` with its sign.
pub fn width(bound: f64) -> usize {
    (1..=16)
        .find(|&bytes| bound < libm::exp2(8.0 * bytes as f64 - 1.0) - 1.0)
        .unwrap_or(17)
}

/// Writes integers in `width` bytes each, little-endian two's complement. False: one does not fit.
pub fn write(values: impl Iterator<Item = i128>, width: usize, bytes: &mut [u8]) -> bool {
    let spare = 128 - 8 * width as u32;
    let mut fits = true;
    for (value, out) in values.zip(bytes.chunks_exact_mut(width)) {
        fits &= (value << spare) >> spare == value;
        out.copy_from_slice(&value.to_le_bytes()[..width]);
    }
    fits
}

/// Reads integers of `width` (1…16) bytes each.
pub fn read(bytes: &[u8], width: usize) -> impl Iterator<Item = i128> + '_ {
    let spare = 128 - 8 * width as u32;
    bytes.chunks_exact(width).map(move |chunk| {
        let mut word = [0; 16];
        word[..width].copy_from_slice(chunk);
        (i128::from_le_bytes(word) << spare) >> spare
    })
}

/// Reads integers of `width` bytes each, at most 8.
pub fn read_narrow(bytes: &[u8], width: usize) -> impl Iterator<Item = i64> + '_ {
    let spare = 64 - 8 * width.min(8) as u32;
    bytes.chunks_exact(width).map(move |chunk| {
        let mut word = [0; 8];
        word[..width.min(8)].copy_from_slice(&chunk[..width.min(8)]);
        (i64::from_le_bytes(word) << spare) >> spare
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_survive_the_wire() {
        for width in 1..=16usize {
            let most = i128::MAX >> (128 - 8 * width as u32);
            let values = [0, 1, -1, most, -most - 1, most / 3];
            let mut bytes = vec![0; values.len() * width];
            assert!(write(values.into_iter(), width, &mut bytes));
            assert_eq!(read(&bytes, width).collect::<Vec<_>>(), values);
            if width <= 8 {
                assert_eq!(
                    read_narrow(&bytes, width).map(i128::from).collect::<Vec<_>>(),
                    values
                );
            }
            if width < 16 {
                assert!(
                    !write([most + 1].into_iter(), width, &mut vec![0; width]),
                    "{width}"
                );
            }
        }
        assert_eq!([0.0, 126.0, 127.5, 3e4, 1e9].map(width), [1, 1, 2, 2, 4]);
    }

    #[test]
    fn a_step_rounds_to_the_nearest() {
        let (mut state, mut changes) = (vec![10, -10, 3, 0], vec![0; 4]);
        step(&mut state, &[0, 0, 8, 5], 2, 0.25, &mut changes);
        // 0.25 × (0 − 20), 0.25 × (0 + 20), 0.25 × (8 − 6), 0.25 × 5
        assert_eq!((changes, state), (vec![-5, 5, 0, 1], vec![5, -5, 3, 1]));
    }
}
