//! The system's randomness, for noise.

use rand::SeedableRng;
use rand::rngs::{ChaCha12Rng, SysRng};

use crate::reporting::failure::Failure;

/// A generator for noise, seeded by the operating system.
///
/// # Errors
/// The system gives none.
pub fn for_noise() -> Result<ChaCha12Rng, Failure> {
    ChaCha12Rng::try_from_rng(&mut SysRng).map_err(|error| {
        Failure::usage(format!("the operating system's random source failed: {error}"))
            .hint("noise needs the operating system's random source, such as /dev/urandom")
    })
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    #[test]
    fn no_two_generators_are_seeded_alike() {
        let draw = || {
            for_noise()
                .expect("a system with randomness")
                .random::<[u64; 4]>()
        };
        let drawn: std::collections::BTreeSet<[u64; 4]> = (0..64).map(|_| draw()).collect();
        assert_eq!(drawn.len(), 64);
    }
}
