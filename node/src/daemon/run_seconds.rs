//! How long runs take: a histogram of `GET /metrics`.

use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;

/// The name of the histogram of run times.
pub(super) const RUN_SECONDS: &str = "undertone_run_duration_seconds";

/// How long runs take, by outcome.
pub(crate) type RunSeconds = Family<Vec<(String, String)>, Histogram, Buckets>;

/// Bounds of run times, in seconds: a mean of eight takes tenths of one, a training minutes. Our
/// choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets;

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new([
            0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0,
        ])
    }
}
