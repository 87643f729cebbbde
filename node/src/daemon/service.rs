//! All that the daemon offers: what the API answers comes from here.

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use libp2p::PeerId;
use tempfile::NamedTempFile;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::plan::run_file::settings::TaskName;

use crate::daemon::admission::{Admitted, PlanSource, admit, offer_status};
use crate::daemon::config::Config;
use crate::daemon::contribution::Contribution;
use crate::daemon::counters::Counters;
use crate::daemon::event_log::EventStream;
use crate::daemon::handed_in::HandedIn;
use crate::daemon::kept::{self, ToKeep};
use crate::daemon::ledger::Ledger;
use crate::daemon::ledger::account::unit_name;
use crate::daemon::listening::{listening, relays, relays_others};
use crate::daemon::offers::Offers;
use crate::daemon::peers::Peers;
use crate::daemon::policy;
use crate::daemon::receipts::Receipts;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::rounds_desk::RoundsDesk;
use crate::daemon::runs::{Run, Runs, Stop, twice, unwritten};
use crate::daemon::shared::Shared;
use crate::daemon::state::{State, checksum};
use crate::daemon::status::{OfferState, OfferStatus, RunState, RunStatus, Status};
use crate::daemon::taking_part::carry;
use crate::network::config::{HubConfig, Patience};
use crate::network::hub::Hub;
use crate::party::journal::disk;
use crate::party::spent::{KeyLock, User, marks_of};
use crate::party::{part, reaching};
use crate::planning::files;
use crate::reporting::failure::Failure;
use crate::vector_file::formats;

/// Runs that may wait for a place. Our choice.
pub(super) const MOST_WAITING: usize = 64;

/// How long runs may take to leave when the daemon ends.
const LEAVE: Duration = Duration::from_secs(2);

/// The daemon, from the inside. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    pub(super) shared: Arc<Shared>,
}

/// A [`Service`] that keeps no daemon alive.
pub(super) struct WeakService(Weak<Shared>);

impl WeakService {
    /// The daemon, unless it is gone.
    pub(super) fn upgrade(&self) -> Option<Service> {
        self.0.upgrade().map(|shared| Service { shared })
    }
}

impl Service {
    /// Opens the state directory and the ledger, and listens on both graphs. Refused (exit 2) if
    /// something of that cannot be used.
    pub async fn start(config: Config) -> Result<Self, Failure> {
        let state = State::open(&config.state)?;
        let key = KeyLock::take(&config.identity_file, User::Daemon)
            .map_err(|failure| failure.field("identity"))?;
        if let Some(output) = &config.output {
            std::fs::create_dir_all(output)
                .and_then(|()| tempfile::tempfile_in(output).map(drop))
                .map_err(|e| {
                    Failure::storage(&e, format!("{}: cannot be written: {e}", output.display()))
                        .field("output")
                        .hint("name a folder that the daemon's user can write to")
                })?;
        }
        let peer_id = config.identity.peer_id().to_string();
        let marks = marks_of(&config.identity_file, &peer_id).map_err(|failure| failure.field("identity"))?;
        let ledger = Ledger::open(state.folder(), marks)?;
        let runs = Runs::open(&config.identity.name, state.runs(), &ledger)?;
        let receipts = Receipts::open(state.folder(), disk())?;
        let offers = Offers::open(state.offers())?;
        let hub = Hub::start(HubConfig {
            key: config.identity.keypair.clone(),
            version: reaching::MESSAGES_VERSION,
            private: listening(&config, Network::Private),
            public: listening(&config, Network::Public),
            relays: relays(&config),
            relays_others: relays_others(&config),
            patience: Patience::default(),
        });
        let hub = hub
            .await
            .map_err(|e| Failure::usage(e.to_string()).field("listen"))?;
        for offer in offers.all() {
            if offer.state == OfferState::Declined {
                decline(&hub, &offer.digest);
            }
        }
        let shared = Shared {
            places: Arc::new(Semaphore::new(config.max_runs)),
            peers: Peers::of(&config),
            counters: Counters::default(),
            ledger: Mutex::new(ledger),
            checking: Semaphore::new(1),
            tasks: Mutex::new(JoinSet::new()),
            stopping: watch::channel(false).0,
            begun: Instant::now(),
            rules: RwLock::new(Arc::new(config)),
            state,
            _key: key,
            hub,
            runs,
            receipts,
            offers,
            handed_in: HandedIn::default(),
        };
        let service = Service {
            shared: Arc::new(shared),
        };
        service.set_aside_again();
        Ok(service)
    }

    /// This daemon for as long as somebody else holds it.
    pub(super) fn downgrade(&self) -> WeakService {
        WeakService(Arc::downgrade(&self.shared))
    }

    pub(super) fn hub(&self) -> &Hub {
        &self.shared.hub
    }

    /// Does something that ends with the daemon at the latest.
    pub(super) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.shared.stopping.clone();
        let mut tasks = self.shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let mut stop = stopping.subscribe();
            tokio::select! {
                _ = stop.wait_for(|stopping| *stopping) => {}
                () = work => {}
            }
        });
    }

    /// The configuration as it is in force now.
    pub fn config(&self) -> Arc<Config> {
        self.shared.config()
    }

    /// An empty file for an upload, in a folder that only the daemon's user can read; `extension`
    /// is that of the uploaded file, without its dot. It is deleted when it is dropped.
    pub fn upload(&self, extension: &str) -> Result<NamedTempFile, Refusal> {
        if !formats::EXTENSIONS.contains(&extension) {
            let extension: String = extension.chars().take(20).collect();
            return Err(Refusal::new(
                Kind::Input,
                format!(".{extension} is not a format that can be read"),
            )
            .field("vector")
            .hint(format!("send one of .{}", formats::EXTENSIONS.join(", ."))));
        }
        let folder = self.shared.state.incoming();
        let file = tempfile::Builder::new()
            .suffix(&format!(".{extension}"))
            .tempfile_in(&folder);
        file.map_err(|e| super::runs::unwritten(&folder, &e))
    }

    /// All offers, the newest first.
    pub fn offers(&self) -> Vec<OfferStatus> {
        self.shared.offers.all()
    }

    /// The offer of the plan with this digest.
    pub fn offer(&self, digest: &str) -> Result<OfferStatus, Refusal> {
        self.shared
            .offers
            .get(digest)
            .ok_or_else(|| unknown("offer", digest))
    }

    /// Takes part in an offered plan.
    pub async fn accept(&self, digest: &str, contribution: Contribution) -> Result<RunStatus, Refusal> {
        let offer = self.offer(digest)?;
        if offer.state == OfferState::Expired {
            return Err(
                Refusal::new(Kind::Conflict, "the offer has expired: the others wait no more")
                    .field("digest")
                    .hint("ask its proposer for a new one, with a longer run.accept_by"),
            );
        }
        let plan = self.shared.offers.plan(digest)?;
        let run = self
            .take(PlanSource::Text(plan), contribution, Some(&offer), false)
            .await?;
        self.shared.offers.settle(digest, OfferState::Accepted, None);
        Ok(run)
    }

    /// Says no to an offer.
    pub async fn decline(&self, digest: &str) -> Result<OfferStatus, Refusal> {
        match self.offer(digest)?.state {
            OfferState::Accepted => Err(Refusal::new(Kind::Conflict, "the offer was accepted")
                .field("digest")
                .hint("withdraw the run instead")),
            OfferState::Expired => self.offer(digest),
            OfferState::Open | OfferState::Declined => {
                self.shared.offers.settle(digest, OfferState::Declined, None);
                decline(self.hub(), digest);
                self.offer(digest)
            }
        }
    }

    /// Takes a run back, before anything private has left.
    pub async fn withdraw(&self, digest: &str) -> Result<RunStatus, Refusal> {
        let run = self
            .shared
            .runs
            .get(digest)
            .ok_or_else(|| unknown("run", digest))?;
        if run.status().state.is_over() {
            return Err(Refusal::new(Kind::Conflict, "the run is over").field("digest"));
        }
        run.cancel(Stop::Withdrawn)?;
        // Its end comes as its last event.
        let mut events = run.events.follow(u64::MAX);
        while events.next().await.is_some() {}
        decline(self.hub(), &run.status().digest);
        Ok(run.status())
    }

    /// All runs that the daemon remembers, the newest first.
    pub fn runs(&self) -> Vec<RunStatus> {
        let runs = self.shared.runs.all();
        runs.iter().map(|run| self.at_this_moment(run)).collect()
    }

    /// A run's status, with what the ledger has set aside for it, and with the round that its
    /// owner's program is asked for.
    fn at_this_moment(&self, run: &Run) -> RunStatus {
        let status = run.status();
        let reserved = self.shared.ledger().set_aside(&status.digest);
        let (asked, part) = run.desk.get().map(|desk| desk.asked()).unzip();
        RunStatus {
            reserved,
            asked,
            part,
            ..status
        }
    }

    /// The run of the plan with this digest.
    pub fn run(&self, digest: &str) -> Result<RunStatus, Refusal> {
        self.known(digest).map(|run| self.at_this_moment(&run))
    }

    pub(super) fn known(&self, digest: &str) -> Result<Arc<Run>, Refusal> {
        let runs = &self.shared.runs;
        let found = runs.get(digest);
        found.ok_or_else(|| {
            runs.damaged
                .refusal(digest)
                .unwrap_or_else(|| match self.shared.receipts.has(digest) {
                    true => deleted(),
                    false => unknown("run", digest),
                })
        })
    }

    /// Returns the desk of a run in rounds: clients read means there and hand over the owner's
    /// parts.
    ///
    /// # Errors
    /// There is no such run, or it has no rounds.
    pub fn desk(&self, digest: &str) -> Result<Arc<RoundsDesk>, Refusal> {
        self.known(digest)?.desk.get().cloned().ok_or_else(|| {
            Refusal::new(
                Kind::Conflict,
                "this run has no rounds, or an earlier daemon had it",
            )
            .field("digest")
            .hint("rounds are of plans with task = \"rounds\"")
        })
    }

    /// A run's events with ids above `after`: those that are kept, then new ones as they come,
    /// until the run is over.
    pub fn events(&self, digest: &str, after: u64) -> Result<EventStream, Refusal> {
        Ok(self.known(digest)?.events.follow(after))
    }

    /// Everything at a glance; looks whether the peers answer unless that was done a moment ago.
    pub async fn status(&self) -> Status {
        let config = self.config();
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            party: config.identity.name.clone(),
            id: config.identity.peer_id().to_string(),
            uptime_s: self.shared.begun.elapsed().as_secs_f64(),
            private: reaching::shown(&config.private),
            public: reaching::shown(config.public.as_slice()),
            peers: self.shared.peers.look(self.hub()).await,
            runs: self.runs(),
            offers: self.offers(),
            budgets: self.budgets(),
        }
    }

    /// Withdraws the runs that have not begun, notifies the neighbours, and ends. Later calls do
    /// nothing.
    pub async fn shutdown(&self) {
        let mut tasks = {
            // Under the lock that runs begin under: whoever comes later finds that the daemon is
            // ending.
            let mut tasks = self.shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            if self.shared.stopping.send_replace(true) {
                return;
            }
            std::mem::take(&mut *tasks)
        };
        for run in self.shared.runs.all() {
            run.stop(Stop::DaemonEnds);
        }
        // Their streams break as they leave, and with the hub every connection: that is how
        // neighbours learn of it.
        let left = tokio::time::timeout(LEAVE, async { while tasks.join_next().await.is_some() {} }).await;
        if left.is_err() {
            tracing::warn!("a run did not leave in time");
        }
        self.shared.hub.clone().shutdown().await;
    }

    pub(super) fn stopping(&self) -> bool {
        *self.shared.stopping.borrow()
    }

    pub(super) fn not_stopping(&self) -> Result<(), Refusal> {
        if self.stopping() {
            return Err(Refusal::new(Kind::Unavailable, "the daemon is ending")
                .hint("submit again once it has started again"));
        }
        Ok(())
    }

    /// Does heavy work on a thread of its own, one at a time.
    pub(super) async fn check<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let ending = |_| Refusal::new(Kind::Unavailable, "the daemon is ending");
        let _turn = self.shared.checking.acquire().await.map_err(ending)?;
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|e| Refusal::new(Kind::Internal, e.to_string()))?
    }

    /// Checks a plan, what this party contributes and its budget, and gives the run its place in
    /// the queue. One that was offered waits for other members first.
    pub(super) async fn take(
        &self,
        plan: PlanSource,
        contribution: Contribution,
        offer: Option<&OfferStatus>,
        unasked: bool,
    ) -> Result<RunStatus, Refusal> {
        self.not_stopping()?;
        self.not_twice(&plan.digest())?;
        let count = |wanted: RunState| self.shared.runs.count(|state| state == wanted);
        if count(RunState::Waiting) >= MOST_WAITING {
            return Err(
                Refusal::new(Kind::Busy, format!("{MOST_WAITING} runs wait for a place"))
                    .hint("submit again later, or raise policy.max_runs"),
            );
        }
        if offer.is_some() && count(RunState::Accepted) >= MOST_WAITING {
            let what = format!("{MOST_WAITING} accepted offers wait for other members");
            return Err(
                Refusal::new(Kind::Busy, what).hint("withdraw some of them: undertone withdraw DIGEST")
            );
        }
        let (service, proposer) = (self.clone(), offer.map(|offer| offer.proposer.clone()));
        let accepted = offer.map(|offer| (offer.expires_ms, ToKeep::of(&contribution, unasked)));
        self.check(move || {
            service.begin(
                admit(&service.shared, plan.checked()?, contribution, proposer, unasked)?,
                accepted,
            )
        })
        .await
    }

    /// Cheap, and before anything costly.
    pub(super) fn not_twice(&self, digest: &str) -> Result<(), Refusal> {
        if self
            .shared
            .runs
            .get(digest)
            .is_some_and(|run| !run.status().state.is_over())
        {
            return Err(twice());
        }
        self.shared.ledger().check(digest)
    }

    /// `accepted`: until when it waits for other members, and what is kept of it for a restart.
    fn begin(&self, admitted: Admitted, accepted: Option<(u64, ToKeep)>) -> Result<RunStatus, Refusal> {
        let Admitted {
            mut job,
            mut status,
            of,
            totals,
        } = admitted;
        let mut tasks = self.shared.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        self.not_stopping()?;
        let digest = status.digest.clone();
        // It may have come twice at once: what the other one has set aside stays.
        self.not_twice(&digest)?;
        let charge = policy::charge(&job.plan, job.me);
        {
            let mut ledger = self.shared.ledger();
            // What an earlier daemon had accepted is set aside already.
            ledger.release(&digest);
            ledger.reserve(&digest, of.clone(), charge, totals)?;
        }
        let folder = self.shared.offers.folder(&digest);
        let give_back = |_: &Refusal| {
            self.shared.ledger().release(&digest);
            kept::let_go(&folder);
        };
        if let Some((until_ms, contribution)) = accepted {
            let kept = kept::keep(&folder, &digest, (of, charge), contribution, job.upload.take());
            let place = kept.map_err(|e| unwritten(&folder, &e)).inspect_err(give_back)?;
            job.vector = place.unwrap_or(job.vector);
            job.until_ms = Some(until_ms);
            (status.state, status.accept_until_ms) = (RunState::Accepted, Some(until_ms));
        }
        let inserted = self.shared.runs.insert(status, job.plan.to_json());
        let run = inserted.inspect_err(give_back)?;
        self.shared.counters.submitted();
        let (parties, proposer) = (job.plan.parties(), &run.status().proposer);
        tracing::info!(digest, parties, proposer, "a plan was accepted");
        while tasks.try_join_next().is_some() {}
        let taken = self.at_this_moment(&run);
        if job.plan.draft().computation.task() == TaskName::Rounds {
            run.desk
                .get_or_init(|| Arc::new(RoundsDesk::of(&job.plan, job.me)));
        }
        tasks.spawn(carry(self.shared.clone(), run, job));
        Ok(taken)
    }

    /// Takes a plan that another daemon offers, and accepts it if the configuration says so.
    /// Refused if it does not verify, not within the policy, or is not of a peer.
    pub async fn receive_offer(&self, from: PeerId, plan: Vec<u8>) -> Result<OfferState, Refusal> {
        self.not_stopping()?;
        let proposer = self.proposer(from)?;
        self.shared.counters.offered();
        let offered = checksum(&plan);
        if let Some(offer) = self.shared.offers.get(&offered) {
            return Ok(offer.state);
        }
        self.shared.offers.has_room_for(&proposer)?;
        let shared = self.shared.clone();
        let me = self.config().identity.peer_id();
        let plan = self.check(move || {
            let plan = files::parse(&plan, "the offered plan")?;
            let me = part::member(&plan, me)?;
            policy::check(&shared.config(), &plan, me)?;
            Ok(plan)
        });
        // What is refused here stays refused: those who accept need not wait for this node.
        let plan = plan.await.inspect_err(|_| decline(self.hub(), &offered))?;
        self.shared
            .offers
            .insert(offer_status(&plan, &proposer), plan.to_json())?;
        let digest = plan.digest_hex();
        tracing::info!(digest, proposer, parties = plan.parties(), "a plan was offered");
        self.accept_unasked(&digest).await;
        Ok(self.offer(&digest)?.state)
    }

    /// Accepts an open offer by `auto_accept`; else it stays open, with the reason.
    pub(super) async fn accept_unasked(&self, digest: &str) -> Option<RunStatus> {
        let offer = self.offer(digest).ok()?;
        let config = self.config();
        let rules = config
            .auto_accept
            .iter()
            .filter(|rule| rule.proposer == offer.proposer);
        let fits = |name: &str| {
            config
                .data_sets
                .iter()
                .any(|set| set.name == name && unit_name(set.unit) == offer.unit)
        };
        let mut reason = format!(
            "no auto_accept for {} and a data set of unit {:?}",
            offer.proposer, offer.unit
        );
        for rule in rules.filter(|rule| fits(&rule.data_set)) {
            let contribution = Contribution {
                vector: None,
                data_set: Some(rule.data_set.clone()),
                records: None,
            };
            let plan = self.shared.offers.plan(digest).ok()?;
            match self
                .take(PlanSource::Text(plan), contribution, Some(&offer), true)
                .await
            {
                Ok(run) => {
                    self.shared.offers.settle(digest, OfferState::Accepted, None);
                    return Some(run);
                }
                Err(refusal) => reason = format!("data set {}: {}", rule.data_set, refusal.message),
            }
        }
        if self.not_twice(digest).is_ok() {
            self.shared.offers.settle(digest, OfferState::Open, Some(reason));
        }
        None
    }
}

/// Notifies those who wait for this node in the run of this plan that it takes no part.
fn decline(hub: &Hub, digest: &str) {
    let byte = |at: usize| u8::from_str_radix(digest.get(2 * at..2 * at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
    if let Some(digest) = bytes.and_then(|bytes| bytes.try_into().ok()) {
        hub.decline(digest);
    }
}

pub(super) fn unknown(what: &str, digest: &str) -> Refusal {
    let digest: String = digest.chars().take(64).collect();
    Refusal::new(Kind::Unknown, format!("there is no {what} {digest:?}"))
        .field("digest")
        .hint("`undertone status` lists the runs and offers of this daemon")
}

fn deleted() -> Refusal {
    Refusal::new(Kind::Unknown, "the run's folder was deleted, as keep_days has it")
        .field("digest")
        .hint("its receipt stays: `undertone result DIGEST --receipt FILE`, GET /v1/runs/DIGEST/receipt")
}

#[cfg(test)]
mod tests;
