//! `GET /metrics`: the service's counters and our own as Prometheus text (exposition format 0.0.4).

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hyper::StatusCode;

use crate::daemon::status::{BudgetStatus, Metrics};

/// The media type of the text.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

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

/// The page in Prometheus's text format.
pub(super) fn page(metrics: &Metrics, requests: &Requests) -> String {
    let mut page = String::new();
    for family in FAMILIES {
        family.write(&mut page, (family.samples)(metrics, requests));
    }
    page
}

const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

/// A metric with its samples, as the page has it.
struct MetricFamily {
    name: &'static str,
    kind: &'static str,
    explanation: &'static str,
    samples: fn(&Metrics, &Requests) -> Samples,
}

/// A metric's values, each with its labels.
type Samples = Vec<(String, f64)>;

/// All metrics, in the order of the page.
const FAMILIES: &[MetricFamily] = &[
    MetricFamily {
        name: "undertone_uptime_seconds",
        kind: GAUGE,
        explanation: "Since the daemon began.",
        samples: |metrics, _| vec![(String::new(), metrics.uptime_s)],
    },
    MetricFamily {
        name: "undertone_runs_waiting",
        kind: GAUGE,
        explanation: "Runs that wait for a place.",
        samples: |metrics, _| one(metrics.runs_waiting),
    },
    MetricFamily {
        name: "undertone_runs_active",
        kind: GAUGE,
        explanation: "Runs that take part now.",
        samples: |metrics, _| one(metrics.runs_active),
    },
    MetricFamily {
        name: "undertone_runs_submitted_total",
        kind: COUNTER,
        explanation: "Runs that were taken.",
        samples: |metrics, _| one(metrics.runs_submitted),
    },
    MetricFamily {
        name: "undertone_submissions_refused_total",
        kind: COUNTER,
        explanation: "Submissions that were refused.",
        samples: |metrics, _| one(metrics.submissions_refused),
    },
    MetricFamily {
        name: "undertone_runs_ended_total",
        kind: COUNTER,
        explanation: "Runs that ended, by outcome.",
        samples: |metrics, _| {
            let ended = metrics.runs_ended.iter();
            ended
                .map(|&(outcome, count)| (label("outcome", outcome), count as f64))
                .collect()
        },
    },
    MetricFamily {
        name: "undertone_offers_received_total",
        kind: COUNTER,
        explanation: "Plans that others offered.",
        samples: |metrics, _| one(metrics.offers_received),
    },
    MetricFamily {
        name: "undertone_reloads_total",
        kind: COUNTER,
        explanation: "Readings of the configuration after the first, by what came of them.",
        samples: |metrics, _| {
            let reloads = metrics.reloads.iter();
            reloads
                .map(|&(outcome, count)| (label("outcome", outcome), count as f64))
                .collect()
        },
    },
    MetricFamily {
        name: "undertone_sent_bytes_total",
        kind: COUNTER,
        explanation: "Sent by runs that ended.",
        samples: |metrics, _| by_graph(metrics.private_bytes as f64, metrics.public_bytes as f64),
    },
    MetricFamily {
        name: "undertone_peers",
        kind: GAUGE,
        explanation: "Peers in the list, this node apart.",
        samples: |metrics, _| one(metrics.peers),
    },
    MetricFamily {
        name: "undertone_peers_reachable",
        kind: GAUGE,
        explanation: "Peers that answered when they were last asked: each reading asks anew, for the next.",
        samples: |metrics, _| by_graph(metrics.peers_private as f64, metrics.peers_public as f64),
    },
    MetricFamily {
        name: "undertone_data_set_epsilon",
        kind: GAUGE,
        explanation: "What a data set may cost in total.",
        samples: |metrics, _| budgets(metrics, |budget| budget.epsilon),
    },
    MetricFamily {
        name: "undertone_data_set_epsilon_spent",
        kind: GAUGE,
        explanation: "What a data set has cost, at its delta.",
        samples: |metrics, _| budgets(metrics, |budget| budget.epsilon_spent.unwrap_or(f64::INFINITY)),
    },
    MetricFamily {
        name: "undertone_api_requests_under_way",
        kind: GAUGE,
        explanation: "Without their answer.",
        samples: |_, requests| one(requests.under_way.load(Ordering::Relaxed)),
    },
    MetricFamily {
        name: "undertone_api_requests_total",
        kind: COUNTER,
        explanation: "Answered requests, by HTTP status.",
        samples: |_, requests| {
            let answered = requests.answered.lock().unwrap_or_else(PoisonError::into_inner);
            answered
                .iter()
                .map(|(code, &count)| (label("code", code), count as f64))
                .collect()
        },
    },
    MetricFamily {
        name: "process_cpu_seconds_total",
        kind: COUNTER,
        explanation: "Processor time.",
        samples: |metrics, _| metrics.cpu_s.map(|s| (String::new(), s)).into_iter().collect(),
    },
    MetricFamily {
        name: "process_resident_memory_bytes",
        kind: GAUGE,
        explanation: "Resident memory.",
        samples: |metrics, _| metrics.resident_bytes.map_or(vec![], one),
    },
    MetricFamily {
        name: "process_open_fds",
        kind: GAUGE,
        explanation: "Open file descriptors.",
        samples: |metrics, _| metrics.open_files.map_or(vec![], one),
    },
];

/// One value without labels.
fn one(value: u64) -> Samples {
    vec![(String::new(), value as f64)]
}

fn by_graph(private: f64, public: f64) -> Samples {
    vec![
        (label("graph", "private"), private),
        (label("graph", "public"), public),
    ]
}

fn budgets(metrics: &Metrics, value: fn(&BudgetStatus) -> f64) -> Samples {
    // Two data sets may share a name if their units differ.
    let labelled = |budget: &BudgetStatus| labels(&[("data_set", &budget.data_set), ("unit", &budget.unit)]);
    metrics
        .budgets
        .iter()
        .map(|budget| (labelled(budget), value(budget)))
        .collect()
}

impl MetricFamily {
    /// The metric with its samples. Nothing at all if it has none.
    fn write(&self, page: &mut String, samples: Samples) {
        let MetricFamily {
            name,
            kind,
            explanation,
            ..
        } = self;
        if !samples.is_empty() {
            let _ = writeln!(page, "# HELP {name} {explanation}\n# TYPE {name} {kind}");
        }
        for (labels, value) in samples {
            let value = if value == f64::INFINITY {
                "+Inf".to_owned()
            } else {
                value.to_string()
            };
            let _ = writeln!(page, "{name}{labels} {value}");
        }
    }
}

fn label(name: &str, value: impl Display) -> String {
    labels(&[(name, &value)])
}

fn labels(pairs: &[(&str, &dyn Display)]) -> String {
    let escaped = |value: &dyn Display| {
        value
            .to_string()
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    format!("{{{}}}", pairs.join(","))
}

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
        assert!(!page.contains("open_fds") && !page.contains("data_set"), "{page}");
        drop(open);
        assert_eq!(labels(&[("a", &1), ("b", &"c")]), "{a=\"1\",b=\"c\"}");
        assert_eq!(label("a", "x\"\\\n"), "{a=\"x\\\"\\\\\\n\"}");
    }
}
