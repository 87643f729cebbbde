//! `GET /metrics`: the service's counters and our own as OpenMetrics text.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hyper::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use crate::daemon::run_seconds::RUN_SECONDS;
use crate::daemon::schedule::schedule_status::ScheduleStatus;
use crate::daemon::status::{BudgetStatus, Metrics};

/// The media type of the text.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Requests since the daemon began.
#[derive(Debug)]
pub(super) struct Requests {
    under_way: AtomicU64,
    answered: Mutex<BTreeMap<u16, u64>>,
}

/// Statuses that somebody may watch for. They are counted from 0 on: what first shows up as 1 is no
/// increase to a monitor.
const WATCHED: [u16; 5] = [401, 429, 500, 503, 507];

impl Default for Requests {
    fn default() -> Self {
        Requests {
            under_way: AtomicU64::new(0),
            answered: Mutex::new(WATCHED.map(|status| (status, 0)).into()),
        }
    }
}

/// A request that is not answered yet; one whose client went away is dropped.
#[derive(Debug)]
pub(super) struct UnderWay<'a>(&'a Requests);

impl Requests {
    /// Counts a request that came.
    pub(super) fn begin(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    /// Counts an answer; by itself, that to a request which did not get as far as its route.
    pub(super) fn count(&self, status: u16) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        *answered.entry(status).or_insert(0) += 1;
    }
}

impl UnderWay<'_> {
    /// Counts the request as answered with this status.
    pub(super) fn end(self, status: StatusCode) {
        self.0.count(status.as_u16());
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The page as OpenMetrics text.
pub(super) fn page(metrics: &Metrics, requests: &Requests) -> String {
    let mut registry = Registry::default();
    let families = FAMILIES.iter().map(|family| Family {
        about: family,
        samples: (family.samples)(metrics, requests),
    });
    registry.register_collector(Box::new(Families(families.collect())));
    if let Some(seconds) = &metrics.run_seconds {
        registry.register(
            RUN_SECONDS,
            "From gathering to the end of a run, by outcome",
            seconds.clone(),
        );
    }
    let mut page = String::new();
    // Writing into a string does not fail.
    let _ = text::encode(&mut page, &registry);
    page
}

/// A metric with its samples, as the page has it.
struct MetricFamily {
    /// Without what a counter's name ends with: that is the encoder's.
    name: &'static str,
    kind: MetricType,
    explanation: &'static str,
    samples: fn(&Metrics, &Requests) -> Samples,
}

/// A metric's values, each with its labels.
type Samples = Vec<(Labels, f64)>;

type Labels = Vec<(&'static str, String)>;

/// All metrics, in the order of the page.
const FAMILIES: &[MetricFamily] = &[
    MetricFamily {
        name: "undertone_uptime_seconds",
        kind: MetricType::Gauge,
        explanation: "Since the daemon began",
        samples: |metrics, _| vec![(vec![], metrics.uptime_s)],
    },
    MetricFamily {
        name: "undertone_runs_waiting",
        kind: MetricType::Gauge,
        explanation: "Runs that wait for a place",
        samples: |metrics, _| one(metrics.runs_waiting),
    },
    MetricFamily {
        name: "undertone_runs_active",
        kind: MetricType::Gauge,
        explanation: "Runs that take part now",
        samples: |metrics, _| one(metrics.runs_active),
    },
    MetricFamily {
        name: "undertone_runs_submitted",
        kind: MetricType::Counter,
        explanation: "Runs that were taken",
        samples: |metrics, _| one(metrics.runs_submitted),
    },
    MetricFamily {
        name: "undertone_submissions_refused",
        kind: MetricType::Counter,
        explanation: "Submissions that were refused",
        samples: |metrics, _| one(metrics.submissions_refused),
    },
    MetricFamily {
        name: "undertone_runs_ended",
        kind: MetricType::Counter,
        explanation: "Runs that ended, by outcome",
        samples: |metrics, _| {
            let ended = metrics.runs_ended.iter();
            ended
                .map(|&(outcome, count)| (vec![("outcome", outcome.to_owned())], count as f64))
                .collect()
        },
    },
    MetricFamily {
        name: "undertone_offers_received",
        kind: MetricType::Counter,
        explanation: "Plans that others offered",
        samples: |metrics, _| one(metrics.offers_received),
    },
    MetricFamily {
        name: "undertone_schedule_occurrences",
        kind: MetricType::Counter,
        explanation: "Times at which schedules were due, with a run or missed",
        samples: |metrics, _| {
            let occurrences = metrics.occurrences.iter();
            occurrences
                .map(|&(outcome, count)| (vec![("outcome", outcome.to_owned())], count as f64))
                .collect()
        },
    },
    MetricFamily {
        name: "undertone_schedule_next_timestamp_seconds",
        kind: MetricType::Gauge,
        explanation: "When a schedule is due next, in seconds since 1970",
        samples: |metrics, _| {
            scheduled(metrics, |schedule| {
                schedule.next_ms.first().map(|ms| *ms as f64 / 1000.0)
            })
        },
    },
    MetricFamily {
        name: "undertone_schedule_runs_left",
        kind: MetricType::Gauge,
        explanation: "Runs of a schedule that its budget pays for, 1000 at most",
        samples: |metrics, _| scheduled(metrics, |schedule| schedule.runs_left.map(|left| left as f64)),
    },
    MetricFamily {
        name: "undertone_reloads",
        kind: MetricType::Counter,
        explanation: "Readings of the configuration after the first, by what came of them",
        samples: |metrics, _| {
            let reloads = metrics.reloads.iter();
            reloads
                .map(|&(outcome, count)| (vec![("outcome", outcome.to_owned())], count as f64))
                .collect()
        },
    },
    MetricFamily {
        name: "undertone_sent_bytes",
        kind: MetricType::Counter,
        explanation: "Sent by runs that ended",
        samples: |metrics, _| by_graph(metrics.private_bytes as f64, metrics.public_bytes as f64),
    },
    MetricFamily {
        name: "undertone_peers",
        kind: MetricType::Gauge,
        explanation: "Peers in the list, this node apart",
        samples: |metrics, _| one(metrics.peers),
    },
    MetricFamily {
        name: "undertone_peers_reachable",
        kind: MetricType::Gauge,
        explanation: "Peers that answered when they were last asked: each reading asks anew, for the next",
        samples: |metrics, _| by_graph(metrics.peers_private as f64, metrics.peers_public as f64),
    },
    MetricFamily {
        name: "undertone_relayed_bytes",
        kind: MetricType::Counter,
        explanation: "Sent by listed peers to this node as their relay",
        samples: |metrics, _| match metrics.relayed_bytes {
            Some(bytes) => one(bytes),
            None => vec![],
        },
    },
    MetricFamily {
        name: "undertone_revoked_keys",
        kind: MetricType::Gauge,
        explanation: "Keys of listed peers that were revoked",
        samples: |metrics, _| one(metrics.revoked_keys),
    },
    MetricFamily {
        name: "undertone_data_set_epsilon",
        kind: MetricType::Gauge,
        explanation: "What a data set may cost in total",
        samples: |metrics, _| budgets(metrics, |budget| budget.epsilon),
    },
    MetricFamily {
        name: "undertone_data_set_epsilon_spent",
        kind: MetricType::Gauge,
        explanation: "What a data set has cost, at its delta",
        samples: |metrics, _| budgets(metrics, |budget| budget.epsilon_spent.unwrap_or(f64::INFINITY)),
    },
    MetricFamily {
        name: "undertone_api_requests_under_way",
        kind: MetricType::Gauge,
        explanation: "Without their answer",
        samples: |_, requests| one(requests.under_way.load(Ordering::Relaxed)),
    },
    MetricFamily {
        name: "undertone_api_requests",
        kind: MetricType::Counter,
        explanation: "Answered requests, by HTTP status",
        samples: |_, requests| {
            let answered = requests.answered.lock().unwrap_or_else(PoisonError::into_inner);
            answered
                .iter()
                .map(|(code, &count)| (vec![("code", code.to_string())], count as f64))
                .collect()
        },
    },
    MetricFamily {
        name: "process_cpu_seconds",
        kind: MetricType::Counter,
        explanation: "Processor time",
        samples: |metrics, _| metrics.cpu_s.map(|s| (vec![], s)).into_iter().collect(),
    },
    MetricFamily {
        name: "process_resident_memory_bytes",
        kind: MetricType::Gauge,
        explanation: "Resident memory",
        samples: |metrics, _| metrics.resident_bytes.map_or(vec![], one),
    },
    MetricFamily {
        name: "process_open_fds",
        kind: MetricType::Gauge,
        explanation: "Open file descriptors",
        samples: |metrics, _| metrics.open_files.map_or(vec![], one),
    },
];

/// One value without labels.
fn one(value: u64) -> Samples {
    vec![(vec![], value as f64)]
}

fn by_graph(private: f64, public: f64) -> Samples {
    let labelled = |graph: &str| vec![("graph", graph.to_owned())];
    vec![(labelled("private"), private), (labelled("public"), public)]
}

fn budgets(metrics: &Metrics, value: fn(&BudgetStatus) -> f64) -> Samples {
    // Two data sets may share a name if their units differ.
    let labelled = |budget: &BudgetStatus| {
        vec![
            ("data_set", budget.data_set.clone()),
            ("unit", budget.unit.clone()),
        ]
    };
    metrics
        .budgets
        .iter()
        .map(|budget| (labelled(budget), value(budget)))
        .collect()
}

fn scheduled(metrics: &Metrics, value: fn(&ScheduleStatus) -> Option<f64>) -> Samples {
    let labelled = |schedule: &ScheduleStatus| vec![("schedule", schedule.name.clone())];
    let schedules = metrics.schedules.iter();
    schedules
        .filter_map(|schedule| Some((labelled(schedule), value(schedule)?)))
        .collect()
}

/// A metric with what it is at this moment.
struct Family {
    about: &'static MetricFamily,
    samples: Samples,
}

/// All metrics of a moment but histograms.
struct Families(Vec<Family>);

impl fmt::Debug for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Families").field(&self.0.len()).finish()
    }
}

impl Collector for Families {
    /// A metric without a sample is left out.
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { about, samples } in self.0.iter().filter(|family| !family.samples.is_empty()) {
            let mut metric = encoder.encode_descriptor(about.name, about.explanation, None, about.kind)?;
            for (labels, value) in samples {
                match labels.is_empty() {
                    true => sample(about.kind, *value, &mut metric)?,
                    false => sample(about.kind, *value, &mut metric.encode_family(labels)?)?,
                }
            }
        }
        Ok(())
    }
}

/// A value; one that counts is written as a whole number.
fn sample(kind: MetricType, value: f64, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
    let whole = (value.fract() == 0.0 && (0.0..1e15).contains(&value)).then_some(value as u64);
    match (kind, whole) {
        (MetricType::Counter, Some(count)) => encoder.encode_counter(&count, NO_EXEMPLAR),
        (MetricType::Counter, None) => encoder.encode_counter(&value, NO_EXEMPLAR),
        (_, Some(count)) => encoder.encode_gauge(&(count as i64)),
        (_, None) => encoder.encode_gauge(&value),
    }
}

/// No sample of a counter is shown with an example.
const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, f64>> = None;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_under_their_names_and_absent_ones_do_not() {
        let requests = Requests::default();
        let open = requests.begin();
        requests.begin().end(StatusCode::OK);
        requests.begin().end(StatusCode::OK);
        drop(requests.begin());
        let metrics = Metrics {
            runs_active: 3,
            runs_ended: vec![("done", 7)],
            resident_bytes: Some(1 << 20),
            ..Metrics::default()
        };
        let page = page(&metrics, &requests);
        for line in [
            "# TYPE undertone_runs_active gauge\nundertone_runs_active 3\n",
            "undertone_runs_ended_total{outcome=\"done\"} 7\n",
            "undertone_api_requests_total{code=\"200\"} 2\n",
            "undertone_api_requests_under_way 1\n",
            "process_resident_memory_bytes 1048576\n",
        ] {
            assert!(page.contains(line), "{line} is not in\n{page}");
        }
        assert!(page.ends_with("# EOF\n"), "{page}");
        assert!(!page.contains("open_fds") && !page.contains("data_set"), "{page}");
        drop(open);
    }

    #[test]
    fn a_name_that_a_user_chose_cannot_end_its_label() {
        let budget = BudgetStatus {
            data_set: "x\"\\\n".into(),
            unit: "row".into(),
            ..BudgetStatus::default()
        };
        let metrics = Metrics {
            budgets: vec![budget],
            ..Metrics::default()
        };
        let page = page(&metrics, &Requests::default());
        assert!(
            page.contains("{data_set=\"x\\\"\\\\\\n\",unit=\"row\"}"),
            "{page}"
        );
    }
}
