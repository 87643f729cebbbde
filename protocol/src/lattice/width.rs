//! The width of residues with which a sum of parties' noisy values is read back right.
//!
//! All parties must find the same width: powers of two and logarithms are exact here, and what is
//! rounded is rounded up. The width is never below the least one; it is above it by a bit only
//! where the largest sum comes within 2^-50 of its own size to a power of two.

use crate::lattice::grid::NOISE_REACH;

/// More than all rounding errors of the largest sum, relative to it: four operations round by at
/// most 2^-53 each, and so does adding this.
const ROUNDED: f64 = 1.0 / (1u64 << 50) as f64;

/// Independent noise has at least 2^16 steps in a standard deviation.
const STEPS_IN_STD_LOG2: i32 = 16;

/// The spare bits that make a sum corrupted by a wrong mask out of range but for a chance of 2^-40.
const SPARE_BITS: usize = 40;

/// The base-2 logarithm of the step of finals: the largest power of two not above 2^-16 of the
/// standard deviation σ* of a party's independent noise. None for what is no such deviation.
pub fn step_log2(independent_std: f64) -> Option<i32> {
    (independent_std.is_normal() && independent_std > 0.0)
        .then(|| libm::ilogb(independent_std) - STEPS_IN_STD_LOG2)
}

/// The least number of bits w of a residue that holds the sum of n `parties`: 2^(w−1) steps are
/// more than n times the `bound` of a coordinate and 12 standard deviations of n parties'
/// independent noise. `None` where no residue is wide enough, or the numbers are none.
pub fn least_bits(parties: usize, bound: f64, independent_std: f64) -> Option<u32> {
    bits_at(parties, bound, independent_std, step_log2(independent_std)?)
}

/// The bits of [`least_bits`] where a step is 2^`step_log2`: finer than for one vector where many
/// rows are rounded, or that of the values where there is no independent noise.
pub(super) fn bits_at(parties: usize, bound: f64, independent_std: f64, step_log2: i32) -> Option<u32> {
    let parties = parties as f64;
    let largest = parties * bound + NOISE_REACH * independent_std * parties.sqrt();
    let steps = libm::scalbn(largest * (1.0 + ROUNDED), -step_log2);
    if !(bound >= 0.0 && steps.is_normal()) {
        return None;
    }
    // 2^k steps or more, but less than 2^(k+1), fit into k + 2 bits with their sign.
    u32::try_from(libm::ilogb(steps).max(-1) + 2)
        .ok()
        .filter(|&bits| bits <= 128)
}

/// The whole bytes of a residue for vectors of `dimension` coordinates: `bits`, and as many more as
/// make a uniformly random vector, which is what a corrupted sum is, fall out of the range of
/// `bits` in some coordinate but for a chance of 2^-40.
pub fn whole_bytes(bits: u32, dimension: usize) -> usize {
    (bits as usize + SPARE_BITS.div_ceil(dimension.max(1))).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_the_reference_programs() {
        for (parties, bound, std, bits) in [
            (1066, 5.5495395934036384, 133.1176736914676, 26),
            (1152, 28.319318024704558, 6.2984515380939, 31),
            (520, 2.988822463811055, 72.84857441278618, 26),
            (1087, 2.117107598752688, 1.578742537586035, 29),
            (1089, 13.222897696444177, 1.6648192204413645, 31),
            (763, 41.14763623202678, 2372.734331492586, 26),
        ] {
            assert_eq!(
                least_bits(parties, bound, std),
                Some(bits),
                "{parties} {bound} {std}"
            );
        }
    }

    #[test]
    fn a_sum_at_a_power_of_two_takes_the_next_bit() {
        // 1 party, σ* = 1: a step of 2^-16, 12 standard deviations, and what the bound adds to 16.
        assert_eq!(step_log2(1.0), Some(-16));
        assert_eq!(least_bits(1, 4.0 - 1e-6, 1.0), Some(16 + 5));
        assert_eq!(least_bits(1, 4.0, 1.0), Some(16 + 6));
        // So near below it that rounding could have brought it there, it takes the bit to be safe.
        assert_eq!(least_bits(1, 4.0 - 4e-15, 1.0), Some(16 + 6));
        // What an f64 rounds down to the power of two and what it rounds up to it are taken alike.
        assert_eq!(least_bits(1, 4.0f64.next_down(), 1.0), Some(16 + 6));
        assert_eq!(least_bits(1, 4.0f64.next_up(), 1.0), Some(16 + 6));
    }

    #[test]
    fn steps_are_not_above_the_share_of_the_deviation_that_they_may_have() {
        for std in [1.0, 1.0f64.next_down(), 3.7, 1e-300, 1e300] {
            let step = libm::scalbn(1.0, step_log2(std).expect("a deviation"));
            let most = libm::scalbn(std, -16);
            assert!(step <= most && 2.0 * step > most, "{std}");
        }
    }

    #[test]
    fn what_is_no_number_has_no_width() {
        for std in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE / 2.0] {
            assert_eq!(least_bits(8, 1.0, std), None, "{std}");
        }
        for bound in [-1.0, f64::NAN, f64::INFINITY, 1e300, 1e40] {
            assert_eq!(least_bits(8, bound, 1.0), None, "{bound}");
        }
    }

    #[test]
    fn plans_take_the_bytes_that_the_design_names() {
        // One release at (ε, δ) = (1, 1e-6), radius 1, so Δ = 2 and μ = 0.2367: with the spare bit
        // 24 bits at 8 parties, 28 at 200, 31 at 1,000.
        for (parties, survivors, bits, bytes) in [(8, 6, 24, 3), (200, 198, 28, 4), (1000, 960, 31, 4)] {
            let std = 2.0 / (0.2367 * f64::from(survivors).sqrt());
            let least = least_bits(parties, 1.0, std).expect("it fits");
            assert_eq!((least + 1, whole_bytes(least, 1000)), (bits, bytes), "{parties}");
        }
        assert_eq!(whole_bytes(23, 40), 3);
        assert_eq!(whole_bytes(24, 1), 8);
        assert_eq!(whole_bytes(24, 0), 8);
        assert_eq!(whole_bytes(24, 39), 4);
    }
}
