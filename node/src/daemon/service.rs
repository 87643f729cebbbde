//! All that the daemon offers: what the API answers comes from here.

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::plan::run_file::settings::TaskName;

use crate::daemon::admission::{Admitted, PlanSource, admit};
use crate::daemon::clock::Clock;
use crate::daemon::config::Config;
use crate::daemon::contribution::Contribution;
use crate::daemon::counters::Counters;
use crate::daemon::event_log::EventStream;
use crate::daemon::handed_in::HandedIn;
use crate::daemon::kept::{self, ToKeep};
use crate::daemon::keys::store::Keys;
use crate::daemon::ledger::Ledger;
use crate::daemon::listening::{listening, relays, relays_others};
use crate::daemon::offers::Offers;
use crate::daemon::peers::Peers;
use crate::daemon::policy;
use crate::daemon::receipts::Receipts;
use crate::daemon::refusal::{Kind, Refusal, twice, unwritten};
use crate::daemon::rounds_desk::RoundsDesk;
use crate::daemon::runs::{Run, Runs, Stop};
use crate::daemon::schedule::forecasts::Schedules;
use crate::daemon::schedule::timetable::Timetable;
use crate::daemon::shared::Shared;
use crate::daemon::state::State;
use crate::daemon::status::{OfferState, OfferStatus, RunState, RunStatus, Status};
use crate::daemon::taking_part::carry;
use crate::network::config::{HubConfig, Patience};
use crate::network::hub::Hub;
use crate::party::journal::disk;
use crate::party::reaching;
use crate::party::spent::{KeyLock, User, marks_of};
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
        Service::start_by(config, Clock::system()).await
    }

    /// Starts a daemon as [`Service::start`] does, whose schedules go by this clock.
    pub async fn start_by(config: Config, clock: Clock) -> Result<Self, Failure> {
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
        let timetable = Timetable::open(state.schedules())?;
        let keys = Keys::open(state.keys())?;
        let hub = Hub::start(HubConfig {
            key: config.identity.keypair.clone(),
            version: reaching::MESSAGES_VERSION,
            private: listening(&config, Network::Private),
            public: listening(&config, Network::Public),
            relays: relays(&config, &keys.barred()),
            relays_others: relays_others(&config),
            patience: Patience::default(),
        });
        let hub = hub
            .await
            .map_err(|e| Failure::usage(e.to_string()).field("listen"))?;
        hub.name_list(config.list_digest);
        hub.bar(&keys.barred());
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
            reading: tokio::sync::Mutex::default(),
            tasks: Mutex::new(JoinSet::new()),
            stopping: watch::channel(false).0,
            begun: Instant::now(),
            clock,
            timetable,
            schedules: Schedules::default(),
            rules: RwLock::new(Arc::new(config)),
            state,
            _key: key,
            hub,
            runs,
            receipts,
            offers,
            handed_in: HandedIn::default(),
            keys,
            keys_news: watch::Sender::default(),
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
        file.map_err(|e| unwritten(&folder, &e))
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
        let run = self.shared.runs.get(digest);
        let run = run.ok_or_else(|| unknown("run", digest))?;
        if run.status().state.is_over() {
            return Err(Refusal::new(Kind::Conflict, "the run is over").field("digest"));
        }
        run.cancel(Stop::Withdrawn)?;
        // At once: a daemon that is killed before the run's end would take it up again.
        for folder in [run.folder(), &*self.shared.offers.folder(digest)] {
            kept::let_go(folder);
        }
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
            output: config.output.as_ref().map(|folder| folder.display().to_string()),
            peers: self.shared.peers.look(self.hub()).await,
            runs: self.runs(),
            offers: self.offers(),
            budgets: self.budgets(),
            schedules: self.schedules_in_brief(),
            revoked: self.revoked_keys(),
        }
    }

    /// Notifies those who wait for this node in the run of this plan that it takes no part.
    pub(super) fn tell_declined(&self, digest: &str) {
        decline(self.hub(), digest);
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
        let until_ms = offer.map(|offer| offer.expires_ms);
        let to_keep = ToKeep::of(&contribution, unasked);
        self.check(move || {
            service.begin(
                admit(&service.shared, plan.checked()?, contribution, proposer, unasked)?,
                until_ms,
                to_keep,
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

    /// `until_ms`: until when an accepted offer waits for other members. `to_keep`: what a restart
    /// needs to take it up.
    fn begin(
        &self,
        admitted: Admitted,
        until_ms: Option<u64>,
        to_keep: ToKeep,
    ) -> Result<RunStatus, Refusal> {
        let Admitted {
            mut job,
            mut status,
            of,
            totals,
            told,
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
        let mut own = Some((to_keep, (of, charge)));
        if let Some(until_ms) = until_ms
            && let Some((to_keep, charge)) = own.take()
        {
            let kept = kept::keep(&folder, &digest, charge, to_keep, job.upload.take());
            let place = kept.map_err(|e| unwritten(&folder, &e)).inspect_err(give_back)?;
            job.vector = place.unwrap_or(job.vector);
            job.until_ms = Some(until_ms);
            (status.state, status.accept_until_ms) = (RunState::Accepted, Some(until_ms));
        }
        let inserted = self.shared.runs.insert(status, job.plan.to_json());
        let run = inserted.inspect_err(give_back)?;
        run.tell_owner(told);
        // Whoever takes a statement looks through the runs after it counts: one of both sees it.
        if let Some(id) = self
            .shared
            .keys
            .first_of(job.plan.draft().members.iter().map(|it| &it.id))
        {
            let _ = run.cancel(Stop::Revoked(id));
        }
        // Rounds are handed over by a program that knows nothing of a restart.
        let has_desk = job.plan.draft().computation.task() == TaskName::Rounds;
        if let Some((to_keep, charge)) = own.filter(|(to_keep, _)| !has_desk && to_keep.is_found_again()) {
            // Only a restart is the worse for a record that is missing.
            if let Err(error) = kept::keep(run.folder(), &digest, charge, to_keep, None) {
                tracing::error!(%error, digest, "a restart will not take this run up");
            }
        }
        self.shared.counters.submitted();
        let (parties, proposer) = (job.plan.parties(), &run.status().proposer);
        tracing::info!(digest, parties, proposer, "a plan was accepted");
        while tasks.try_join_next().is_some() {}
        let taken = self.at_this_moment(&run);
        if has_desk {
            run.desk
                .get_or_init(|| Arc::new(RoundsDesk::of(&job.plan, job.me)));
        }
        tasks.spawn(carry(self.shared.clone(), run, job));
        Ok(taken)
    }
}

/// Notifies those who wait for this node in the run of this plan that it takes no part.
pub(super) fn decline(hub: &Hub, digest: &str) {
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
