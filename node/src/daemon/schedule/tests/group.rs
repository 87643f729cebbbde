//! Daemons of one group in this process, on a network of its own, with a clock that a test moves.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libp2p::PeerId;
use tokio::time::sleep;
use undertone_protocol::plan::scheduled::{OccurrenceId, Scheduled};

use crate::daemon::clock::Clock;
use crate::daemon::config::{Config, NodeArgs};
use crate::daemon::schedule::attending::Due;
use crate::daemon::service::Service;
use crate::daemon::status::RunStatus;
use crate::daemon::travel;
use crate::forking;
use crate::party::identity::Identity;

/// A Friday, 2026-11-27 00:00 UTC, in seconds.
pub(super) const FRIDAY: u64 = 1_795_737_600;

/// When its schedule is due first: that day at 03:00.
pub(super) const DUE: u64 = FRIDAY + 3 * 3600;

pub(super) const DAY: u64 = 86_400;

pub(super) const RUN: &str =
    "name = \"weekly\"\n[data]\nnoise_ok = true\nshape = [2]\n[privacy]\nepsilon = 0.1\ndropouts = 1\n";

/// How long the clock stands still for a run that goes on.
const STILL: Duration = Duration::from_secs(4);

pub(super) struct Group {
    pub(super) folder: tempfile::TempDir,
    names: Vec<String>,
    pub(super) ids: Vec<PeerId>,
    /// Milliseconds since 1970.
    pub(super) clock: Arc<AtomicU64>,
    /// Seconds by which each node's clock is off.
    pub(super) off_s: Vec<i64>,
    /// Lines that are added to each configuration.
    more: String,
    pub(super) services: Vec<Option<Service>>,
}

impl Group {
    /// Keys, lists and data of so many, none of which runs; at midnight before it is due.
    pub(super) fn new(parties: usize, run: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        static TESTS: AtomicU8 = AtomicU8::new(128);
        let (test, pid) = (TESTS.fetch_add(1, Ordering::Relaxed), std::process::id() as u16);
        let [high, low] = pid.to_be_bytes();
        let address = format!("/ip4/127.{test}.{high}.{low}/tcp");
        let (mut peers, mut ids) = (String::from("version = 1\n"), vec![]);
        let names: Vec<String> = (0..parties).map(|party| format!("lab-{party}")).collect();
        for (party, name) in names.iter().enumerate() {
            let at = |port: usize| Some(format!("{address}/{}", 7001 + 2 * party + port));
            let identity = Identity::generate(name.clone(), at(0), at(1));
            identity
                .create(&folder.path().join(format!("{name}.key")))
                .unwrap();
            peers += &identity.peer_lines();
            ids.push(identity.peer_id());
            std::fs::create_dir(folder.path().join(format!("{name}.data"))).unwrap();
            std::fs::write(folder.path().join(format!("{name}.data/ward.csv")), "0.25\n0.5\n").unwrap();
        }
        std::fs::write(folder.path().join("peers.toml"), peers).unwrap();
        std::fs::write(folder.path().join("weekly.toml"), run).unwrap();
        Group {
            folder,
            ids,
            clock: Arc::new(AtomicU64::new(1000 * FRIDAY)),
            off_s: vec![0; parties],
            more: more.to_owned(),
            services: names.iter().map(|_| None).collect(),
            names,
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The configuration of a party.
    pub(super) fn config(&self, party: usize) -> Config {
        let name = &self.names[party];
        let node = format!(
            "identity = \"{name}.key\"\nstate = \"{name}.state\"\ndata = \"{name}.data\"\n\
             [[data_set]]\nname = \"ward\"\nfile = \"ward.csv\"\nepsilon = 5.0\ndelta = 1e-5\n\
             [[schedule]]\nname = \"weekly\"\nrun = \"weekly.toml\"\nevery = \"daily 03:00\"\ndata_set = \"ward\"\n{}",
            self.more
        );
        std::fs::write(self.path(&format!("{name}.toml")), node).unwrap();
        let arguments = NodeArgs {
            config: Some(self.path(&format!("{name}.toml"))),
            ..NodeArgs::default()
        };
        Config::from_parts(&arguments, std::iter::empty()).unwrap()
    }

    /// Starts a party that answers others, and proposes nothing itself.
    pub(super) async fn start_silent(&mut self, party: usize) {
        let (clock, off_ms) = (self.clock.clone(), 1000 * self.off_s[party]);
        let clock = Clock::moved(move || clock.load(Ordering::SeqCst).saturating_add_signed(off_ms));
        forking::until_over();
        let service = Service::start_by(self.config(party), clock).await.unwrap();
        travel::answer(&service);
        self.services[party] = Some(service);
    }

    pub(super) async fn start(&mut self, party: usize) {
        self.start_silent(party).await;
        self.service(party).keep_schedules();
    }

    pub(super) async fn stop(&mut self, party: usize) {
        if let Some(service) = self.services[party].take() {
            service.shutdown().await;
            // Work on threads of its own may hold the state folder a moment longer.
            let held = service.downgrade();
            drop(service);
            while held.upgrade().is_some() {
                sleep(Duration::from_millis(1)).await;
            }
        }
    }

    pub(super) fn service(&self, party: usize) -> &Service {
        self.services[party].as_ref().expect("it runs")
    }

    pub(super) fn now_s(&self) -> u64 {
        self.clock.load(Ordering::SeqCst) / 1000
    }

    pub(super) fn set(&self, now_s: u64) {
        self.clock.store(1000 * now_s, Ordering::SeqCst);
    }

    /// An attempt at what is due then, as a party sees it.
    pub(super) fn due(&self, party: usize, due_s: u64, attempt: u32) -> Due {
        let config = match &self.services[party] {
            Some(service) => service.config(),
            None => Arc::new(self.config(party)),
        };
        let occurrence = OccurrenceId::of(&config.list_digest, &config.schedules[0].run_digest, due_s);
        Due {
            config,
            index: 0,
            due_s,
            scheduled: Scheduled { occurrence, attempt },
        }
    }

    /// Whose turn an attempt is.
    pub(super) fn turn(&self, due_s: u64, attempt: u32) -> usize {
        let id = self.due(0, due_s, attempt).proposer().unwrap();
        self.ids.iter().position(|of| *of == id).unwrap()
    }

    /// The runs of what was due then, of each party that runs.
    pub(super) fn runs(&self, due_s: u64) -> Vec<Vec<RunStatus>> {
        let occurrence = self.due(0, due_s, 0).scheduled.occurrence.to_string();
        let of = |service: &Service| {
            let runs = service.runs().into_iter();
            runs.filter(|run| run.occurrence.as_ref() == Some(&occurrence))
                .collect()
        };
        self.services.iter().flatten().map(of).collect()
    }

    fn going_on(&self) -> BTreeSet<String> {
        let runs = self.services.iter().flatten().flat_map(Service::runs);
        runs.filter(|run| !run.state.is_over())
            .map(|run| run.digest)
            .collect()
    }

    /// Moves the clock, second by second, until this holds or it is `until_s`. It stands still for
    /// a while for runs that go on: they take the time that they take.
    pub(super) async fn go(&self, until_s: u64, done: impl Fn(&Group) -> bool) -> bool {
        let mut still = (BTreeSet::new(), Instant::now());
        while self.now_s() < until_s {
            if done(self) {
                return true;
            }
            let going_on = self.going_on();
            if !going_on.is_subset(&still.0) {
                still = (going_on.clone(), Instant::now());
            }
            if going_on.is_empty() || still.1.elapsed() > STILL {
                self.clock.fetch_add(1000, Ordering::SeqCst);
            }
            sleep(Duration::from_millis(10)).await;
        }
        done(self)
    }
}

/// Whether all who run have had a run of what was due then, and it is over.
pub(super) fn have_met(due_s: u64) -> impl Fn(&Group) -> bool {
    move |group| {
        let runs = group.runs(due_s);
        runs.iter().all(|runs| {
            let spent = runs.iter().filter(|run| run.charged.is_some());
            spent.clone().count() > 0 && runs.iter().all(|run| run.state.is_over())
        })
    }
}
