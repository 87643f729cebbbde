//! Work on all cores, with the same answer on any number of them.

use std::thread;

/// Computes `work(0)`, …, `work(count − 1)` on all cores and returns the results in this order,
/// without the `None`s.
pub(crate) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> Option<T> + Sync) -> Vec<T> {
    let cores = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(16)
        .min(count.max(1));
    let part = |core: usize| {
        (core..count)
            .step_by(cores)
            .map(|index| (index, work(index)))
            .collect::<Vec<_>>()
    };
    let mut results: Vec<(usize, Option<T>)> = thread::scope(|scope| {
        let part = &part;
        let others: Vec<_> = (1..cores).map(|core| scope.spawn(move || part(core))).collect();
        let mut results = part(0);
        for other in others {
            // A panic in a worker is a bug of ours: it goes on here.
            results.extend(
                other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
        }
        results
    });
    results.sort_by_key(|&(index, _)| index);
    results.into_iter().filter_map(|(_, result)| result).collect()
}
