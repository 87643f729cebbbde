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
#[derive(Debug, Default)]
pub(super) struct Requests {
    under_way: AtomicU64,
    answered: Mutex<BTreeMap<u16, u64>>,
}

/// A request that is not answered yet; one whose client went away is dropped.
#[derive(Debug)]
pub(super) struct UnderWay<'a>(&'a Requests);

impl Requests {
    /// A request came.
    pub(super) fn begin(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }
}

impl UnderWay<'_> {
    /// It is answered.
    pub(super) fn end(self, status: StatusCode) {
        let mut answered = self.0.answered.lock().unwrap_or_else(PoisonError::into_inner);
        *answered.entry(status.as_u16()).or_insert(0) += 1;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The page.
pub(super) fn page(metrics: &Metrics, requests: &Requests) -> String {
    let mut page = Page::default();
    let one = |value: Option<u64>| {
        value
            .map(|value| (String::new(), value as f64))
            .into_iter()
            .collect::<Vec<_>>()
    };
    page.family(
        "uptime_seconds",
        GAUGE,
        "Since the daemon began.",
        [(String::new(), metrics.uptime_s)],
    );
    page.family(
        "runs_waiting",
        GAUGE,
        "Runs that wait for a place.",
        one(Some(metrics.runs_waiting)),
    );
    page.family(
        "runs_active",
        GAUGE,
        "Runs that take part now.",
        one(Some(metrics.runs_active)),
    );
    page.family(
        "runs_submitted_total",
        COUNTER,
        "Runs that were taken.",
        one(Some(metrics.runs_submitted)),
    );
    page.family(
        "submissions_refused_total",
        COUNTER,
        "Submissions that were refused.",
        one(Some(metrics.submissions_refused)),
    );
    let ended = metrics
        .runs_ended
        .iter()
        .map(|&(outcome, count)| (label("outcome", outcome), count as f64));
    page.family("runs_ended_total", COUNTER, "Runs that ended, by outcome.", ended);
    page.family(
        "offers_received_total",
        COUNTER,
        "Plans that others offered.",
        one(Some(metrics.offers_received)),
    );
    let bytes = [
        (label("graph", "private"), metrics.private_bytes),
        (label("graph", "public"), metrics.public_bytes),
    ];
    page.family(
        "sent_bytes_total",
        COUNTER,
        "Sent by runs that ended.",
        bytes.map(|(label, bytes)| (label, bytes as f64)),
    );
    let peers = [
        (label("graph", "private"), metrics.peers_private),
        (label("graph", "public"), metrics.peers_public),
    ];
    page.family(
        "peers_reachable",
        GAUGE,
        "Peers that answer.",
        peers.map(|(label, peers)| (label, peers as f64)),
    );
    let budgets = |value: fn(&BudgetStatus) -> f64| {
        // Two data sets may share a name if their units differ.
        let labels =
            |budget: &BudgetStatus| labels(&[("data_set", &budget.data_set), ("unit", &budget.unit)]);
        metrics
            .budgets
            .iter()
            .map(move |budget| (labels(budget), value(budget)))
    };
    page.family(
        "data_set_epsilon",
        GAUGE,
        "What a data set may cost in total.",
        budgets(|b| b.epsilon),
    );
    let spent = "What a data set has cost, at its delta.";
    page.family(
        "data_set_epsilon_spent",
        GAUGE,
        spent,
        budgets(|b| b.epsilon_spent.unwrap_or(f64::INFINITY)),
    );
    page.family(
        "api_requests_under_way",
        GAUGE,
        "Without their answer.",
        one(Some(requests.under_way.load(Ordering::Relaxed))),
    );
    let answered = requests
        .answered
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let answered = answered
        .into_iter()
        .map(|(code, count)| (label("code", code), count as f64));
    page.family(
        "api_requests_total",
        COUNTER,
        "Answered requests, by HTTP status.",
        answered,
    );
    page.prefix = "process_";
    page.family(
        "cpu_seconds_total",
        COUNTER,
        "Processor time.",
        metrics.cpu_s.map(|s| (String::new(), s)),
    );
    page.family(
        "resident_memory_bytes",
        GAUGE,
        "Resident memory.",
        one(metrics.resident_bytes),
    );
    page.family(
        "open_fds",
        GAUGE,
        "Open file descriptors.",
        one(metrics.open_files),
    );
    page.text
}

const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

struct Page {
    text: String,
    prefix: &'static str,
}

impl Default for Page {
    fn default() -> Self {
        Page {
            text: String::new(),
            prefix: "undertone_",
        }
    }
}

impl Page {
    /// One metric with its samples (labels, value). None at all if it has no samples.
    fn family(
        &mut self,
        name: &str,
        kind: &str,
        explanation: &str,
        samples: impl IntoIterator<Item = (String, f64)>,
    ) {
        let prefix = self.prefix;
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_some() {
            let _ = writeln!(
                self.text,
                "# HELP {prefix}{name} {explanation}\n# TYPE {prefix}{name} {kind}"
            );
        }
        for (labels, value) in samples {
            let value = if value == f64::INFINITY {
                "+Inf".to_owned()
            } else {
                value.to_string()
            };
            let _ = writeln!(self.text, "{prefix}{name}{labels} {value}");
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
