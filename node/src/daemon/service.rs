//! All that the daemon offers: what the API answers comes from here.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tempfile::{NamedTempFile, TempPath};

use super::config::Config;
use super::refusal::{Kind, Refusal};
use super::runs::EventStream;
use super::status::{Metrics, OfferStatus, Readiness, RunStatus, Status};
use crate::failure::Failure;
use crate::vector_file::VectorFile;

/// Where the private vector is.
pub enum Vector {
    /// A file that was uploaded to [`Service::upload`], its extension that of its format; it is deleted once it was read, or refused.
    Upload(TempPath),
    /// The name of a file in the daemon's data folder.
    Named(String),
}

impl fmt::Debug for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vector::Upload(_) => f.write_str("Vector(uploaded)"),
            Vector::Named(name) => write!(f, "Vector({name:?})"),
        }
    }
}

/// What this party brings to a run.
#[derive(Debug, Default)]
pub struct Contribution {
    /// Its vector; None: the file of the data set.
    pub vector: Option<Vector>,
    /// The data set that the run is charged to; None: the one whose file that is, or the only one of the plan's unit.
    pub data_set: Option<String>,
}

/// A plan that this daemon made.
#[derive(Clone, Debug)]
pub struct Proposed {
    /// The plan's digest, in lower-case hex.
    pub digest: String,
    /// What `undertone plan --json` prints.
    pub quote: Value,
    /// This node's own run, if it brought a vector or accepts such plans by itself.
    pub run: Option<RunStatus>,
    /// The other members, each with what it answered: (name, "accepted" | "open" | "refused: …" | "not reached: …").
    pub members: Vec<(String, String)>,
}

/// A signed receipt.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// The bytes of receipt.json.
    pub json: String,
    /// The line of receipt.json.sig.
    pub signature: String,
}

/// The daemon, from the inside. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
}

impl Service {
    /// Opens the state directory, the ledger and the network.
    pub async fn start(config: Config) -> Result<Self, Failure> {
        Ok(Service { shared: Arc::new(Shared { config }) })
    }

    /// The effective configuration.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// An empty file for an upload, in a folder that only the daemon's user can read; `extension` is that of the uploaded file, without
    /// its dot. It is deleted when it is dropped.
    pub fn upload(&self, extension: &str) -> Result<NamedTempFile, Refusal> {
        let _ = extension;
        Err(not_ready())
    }

    /// Takes part in a plan, given as the bytes of its file. Returns once plan, vector and budget are checked and the run has its place in the
    /// queue.
    pub async fn submit(&self, plan: Vec<u8>, brings: Contribution) -> Result<RunStatus, Refusal> {
        let _ = (plan, brings);
        Err(not_ready())
    }

    /// Makes a plan of a run file for the peers of the peer list and offers it to all members. With `brings`, this node takes part itself.
    pub async fn propose(&self, run_file: String, brings: Option<Contribution>) -> Result<Proposed, Refusal> {
        let _ = (run_file, brings);
        Err(not_ready())
    }

    /// All offers, the newest first.
    pub fn offers(&self) -> Vec<OfferStatus> {
        vec![]
    }

    /// One offer.
    pub fn offer(&self, digest: &str) -> Result<OfferStatus, Refusal> {
        Err(unknown("offer", digest))
    }

    /// Takes part in an offered plan.
    pub async fn accept(&self, digest: &str, brings: Contribution) -> Result<RunStatus, Refusal> {
        let _ = brings;
        Err(unknown("offer", digest))
    }

    /// Says no to an offer.
    pub async fn decline(&self, digest: &str) -> Result<OfferStatus, Refusal> {
        Err(unknown("offer", digest))
    }

    /// Takes a run back, before anything private has left.
    pub async fn withdraw(&self, digest: &str) -> Result<RunStatus, Refusal> {
        Err(unknown("run", digest))
    }

    /// All runs that the daemon remembers, the newest first.
    pub fn runs(&self) -> Vec<RunStatus> {
        vec![]
    }

    /// One run.
    pub fn run(&self, digest: &str) -> Result<RunStatus, Refusal> {
        Err(unknown("run", digest))
    }

    /// The very text of a run's or an offer's plan.
    pub async fn plan(&self, digest: &str) -> Result<String, Refusal> {
        Err(unknown("run", digest))
    }

    /// A run's events with ids above `after`: those that are kept, then new ones as they come, until the run is over.
    pub fn events(&self, digest: &str, after: u64) -> Result<EventStream, Refusal> {
        let _ = after;
        Err(unknown("run", digest))
    }

    /// A run's mean.
    pub async fn result(&self, digest: &str) -> Result<VectorFile, Refusal> {
        Err(unknown("run", digest))
    }

    /// A run's receipt.
    pub async fn receipt(&self, digest: &str) -> Result<Receipt, Refusal> {
        Err(unknown("run", digest))
    }

    /// Everything at a glance; looks whether the peers answer unless that was done a moment ago.
    pub async fn status(&self) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            party: String::new(),
            id: String::new(),
            uptime_s: 0.0,
            private: String::new(),
            public: String::new(),
            peers: vec![],
            runs: self.runs(),
            offers: self.offers(),
            budgets: vec![],
        }
    }

    /// Whether a run can be taken now.
    pub fn readiness(&self) -> Readiness {
        Readiness { ready: false, problems: vec![not_ready().message] }
    }

    /// Counters and gauges.
    pub fn metrics(&self) -> Metrics {
        Metrics::default()
    }

    /// Withdraws what has not begun, tells the neighbours, and ends. Later calls do nothing.
    pub async fn shutdown(&self) {}
}

fn unknown(what: &str, digest: &str) -> Refusal {
    let digest: String = digest.chars().take(64).collect();
    Refusal::new(Kind::Unknown, format!("there is no {what} {digest:?}"))
        .field("digest")
        .hint("`undertone status` lists the runs and offers of this daemon")
}

fn not_ready() -> Refusal {
    Refusal::new(Kind::Unavailable, "the daemon has not begun yet")
}
