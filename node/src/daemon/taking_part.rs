//! The life of a run in the daemon: it waits for a place, takes part over the daemon's network, and
//! leaves its mean and receipt. Whatever happens to it stays its own affair.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempPath;
use tokio::runtime::Handle;
use tracing::Instrument as _;
use undertone_accountant::losses::charge::Charge;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::Ending;
use undertone_protocol::topology::party::Party;

use crate::daemon::accepted::{Waited, wait_for_enough};
use crate::daemon::charged::{Charged, Iterations, Rooms};
use crate::daemon::kept;
use crate::daemon::ledger::now_ms;
use crate::daemon::mean_file::MeanFile;
use crate::daemon::outcome_file;
use crate::daemon::published::hand_out;
use crate::daemon::runs::{Run, Stop};
use crate::daemon::shared::Shared;
use crate::daemon::status::{OfferState, RunState, RunStatus};
use crate::party::agreed_outcome::AgreedOutcome;
use crate::party::driver::{self, Finish, Part};
use crate::party::part::{OwnData, Private};
use crate::party::receipt::Account;
use crate::party::silence::Silence;
use crate::party::{input, part, randomness, shelf};
use crate::planning::template;
use crate::reporting::failure::{Exit, Failure};
use crate::table_file::reading::MostlyWords;
use crate::vector_file::layout::Layout;

/// The inputs that a run needs to begin.
pub(super) struct Job {
    pub(super) plan: Arc<Plan>,
    pub(super) me: Party,
    pub(super) vector: PathBuf,
    /// Deletes an upload once it was read.
    pub(super) upload: Option<TempPath>,
    /// Until when an accepted offer waits for other members, in milliseconds since 1970; none for
    /// a plan that was submitted.
    pub(super) until_ms: Option<u64>,
}

/// How a run left its place.
enum Left {
    /// It ended by itself, and `deliver` has reported how.
    Finished,
    /// Somebody stopped it before its end.
    Stopped(Stop),
    /// An accepted offer's members were not all there for a START: it waits for them again.
    Unstarted,
}

/// Carries a run to its end.
pub(super) async fn carry(shared: Arc<Shared>, run: Arc<Run>, mut job: Job) {
    let (plan, me) = (job.plan.clone(), job.me);
    let mut upload = job.upload.take();
    let left = loop {
        if let Some(until_ms) = job.until_ms {
            match wait_for_enough(&shared, &run, (&plan, me), until_ms).await {
                Waited::Enough => {}
                Waited::Stopped(why) => break Ok(Left::Stopped(why)),
                Waited::InVain(reason) => {
                    let digest = plan.digest_hex();
                    shared
                        .offers
                        .settle(&digest, OfferState::Expired, Some(reason.clone()));
                    break Err(Failure::new(Exit::Aborted, reason));
                }
            }
        }
        let again = Job {
            plan: plan.clone(),
            me,
            vector: job.vector.clone(),
            upload: upload.take(),
            until_ms: job.until_ms,
        };
        match take_place(&shared, &run, again).await {
            Ok(Left::Unstarted) => run.wait_again(),
            left => break left,
        }
    };
    // A daemon that starts takes up what has not begun.
    let digest = run.status().digest;
    let is_kept =
        matches!(left, Ok(Left::Stopped(Stop::DaemonEnds))) && shared.ledger().charged(&digest).is_none();
    if !is_kept {
        kept::let_go(&kept_in(&shared, &run, job.until_ms));
    }
    conclude(&shared, &run, left);
}

/// The folder that has what a restart needs of a run: its offer's, if it was one.
fn kept_in(shared: &Shared, run: &Run, until_ms: Option<u64>) -> PathBuf {
    match until_ms {
        Some(_) => shared.offers.folder(&run.status().digest),
        None => run.folder().to_owned(),
    }
}

/// Waits for a place, and takes part.
async fn take_place(shared: &Arc<Shared>, run: &Arc<Run>, job: Job) -> Result<Left, Failure> {
    run.update(|status| status.state = RunState::Waiting);
    let place = tokio::select! {
        biased;
        why = run.stopped() => return Ok(Left::Stopped(why)),
        place = shared.places.clone().acquire_owned() => place,
    };
    let now = now_ms();
    run.update(|status| (status.state, status.started_ms) = (RunState::Gathering, Some(now)));
    if job.until_ms.is_none()
        && let Err(error) = kept::gathers(run.folder(), now)
    {
        tracing::error!(%error, digest = run.status().digest, "a restart does not know since when this run gathers");
    }
    let (handle, shared, run) = (Handle::current(), shared.clone(), run.clone());
    // Every line of the run's own says of which run it is.
    let of_run = tracing::info_span!("run", digest = run.status().digest);
    // A thread of its own: work on long vectors holds nobody else up.
    let thread = tokio::task::spawn_blocking(move || {
        handle.block_on(take_part(&shared, &run, job).instrument(of_run))
    });
    let left = thread.await.unwrap_or_else(|e| {
        Err(Failure::new(
            Exit::Internal,
            format!("the run's thread broke off: {e}"),
        ))
    });
    drop(place);
    left
}

/// Ends a run that did not end by itself, and gives back what it did not spend.
fn conclude(shared: &Shared, run: &Run, left: Result<Left, Failure>) {
    let digest = run.status().digest;
    let charged = {
        let mut ledger = shared.ledger();
        ledger.release(&digest);
        ledger.charged(&digest)
    };
    let left = match left {
        Ok(Left::Stopped(Stop::Revoked(id))) => Err(Failure::new(
            Exit::Aborted,
            format!("it names {id}, whose key was revoked before the run began"),
        )),
        left => left,
    };
    run.end(None, |status| {
        let (state, reason, exit) = match (&left, charged) {
            (Ok(_), Some(_)) => (
                RunState::Interrupted,
                "the daemon ended in the middle of the run, which stays charged",
                Exit::PrivacyRefused,
            ),
            (Ok(Left::Stopped(Stop::Withdrawn)), None) => {
                (RunState::Withdrawn, "its owner took it back", Exit::Aborted)
            }
            (Ok(_), None) => (
                RunState::Withdrawn,
                "the daemon ended before the run began",
                Exit::Aborted,
            ),
            (Err(failure), Some(_)) => (RunState::Interrupted, failure.message.as_str(), failure.exit),
            (Err(failure), None) => {
                status.outcome = Some("aborted".into());
                (RunState::Ended, failure.message.as_str(), failure.exit)
            }
        };
        (status.state, status.charged) = (state, charged.map(|charge| charge.mu_squared));
        (status.reason, status.exit_code) = (Some(reason.into()), Some(exit.code()));
    });
    let status = run.status();
    shared.counters.ended(&status);
    tracing::info!(digest, state = ?status.state, outcome = status.outcome, reason = status.reason, "run over");
}

/// Returns the layout of the result: the plan's template, or that of this party's contribution.
fn layout_of_result(shared: &Shared, plan: &Plan, contributed: &Layout) -> Result<Layout, Failure> {
    let template = template::in_folder(plan, &shared.config().data)?;
    Ok(template.unwrap_or_else(|| input::layout_of_mean(plan, contributed)))
}

/// A part that is ready to begin, what its result looks like, and the room for that.
struct Ready {
    part: Part,
    layout: Layout,
    rooms: Rooms,
}

/// Reads what the party contributes, and takes room for what the run leaves.
fn ready(shared: &Arc<Shared>, run: &Arc<Run>, job: Job) -> Result<Ready, Failure> {
    let Job {
        plan,
        me,
        vector,
        upload,
        ..
    } = job;
    // An uploaded vector is gone from the disk before anything is sent.
    let data = part::own_data(&plan, me, &vector, MostlyWords::Refused)?;
    run.tell_owner(data.sentences());
    shared.timetable.check_file(plan.draft().scheduled, &vector)?;
    drop(upload);
    let plan = recounted(run, plan, me, data.layout())?;
    let layout = layout_of_result(shared, &plan, data.layout())?;
    let private = privatise(run, (&plan, me), data, &vector)?;
    // It is charged through the ledger before anything private leaves.
    let rooms = Rooms::take(shared, run, &plan, &layout)?;
    let costs = Charged::of((shared, run), (&plan, me), rooms.clone());
    let part = Part {
        plan,
        me,
        key: shared.config().identity.keypair.clone(),
        value: private.value,
        noise: Box::new(private.noise),
        costs: Box::new(costs),
        events: run.listener(),
        shelf: shelf::in_folder(&shared.config().state),
        contributor: private.contributor,
    };
    Ok(Ready { part, layout, rooms })
}

/// The plan with the number of records of a file that may have changed since it was taken.
///
/// # Errors
/// Another number than the one for which rounds are handed over meanwhile (exit 7).
fn recounted(run: &Run, plan: Arc<Plan>, me: Party, layout: &Layout) -> Result<Arc<Plan>, Failure> {
    let taken = plan.records(me);
    let counted = input::counted(
        plan.clone(),
        me,
        Some(layout),
        plan.records_at_start().get(&me).copied(),
    );
    match run.desk.get() {
        Some(_)
            if counted
                .as_ref()
                .map_or(true, |counted| counted.records(me) != taken) =>
        {
            Err(
                Failure::input("the table has another number of rows than when this run was taken")
                    .field("vector"),
            )
        }
        Some(_) => counted,
        // What was known of a table that has changed since is of no use.
        None => input::counted(plan, me, Some(layout), None),
    }
}

async fn take_part(shared: &Arc<Shared>, run: &Arc<Run>, job: Job) -> Result<Left, Failure> {
    let (plan, me, until_ms) = (job.plan.clone(), job.me, job.until_ms);
    let Ready { part, layout, rooms } = ready(shared, run, job)?;
    // What comes of it is written while the run still serves the others.
    let destination = Destination {
        shared,
        run,
        plan: &plan,
        layout: &layout,
    };
    let (mut aborted, mut unwritten, mut unstarted) = (None, None, false);
    let finished = |finish: &Finish| {
        if run.taken_back().is_some() {
            return Ok(());
        }
        // Rounds are handed over to one gathering only.
        if run.desk.get().is_none() && may_gather_again(until_ms, finish) {
            unstarted = true;
            return Ok(());
        }
        kept::let_go(&kept_in(shared, run, until_ms));
        rooms.give();
        let delivered = deliver(&destination, me, finish);
        match delivered.charged {
            Some(_) if delivered.account.is_some() && delivered.problem.is_some() => {
                unwritten = Some(delivered);
            }
            Some(_) => end(run, delivered),
            // It can be submitted again once it is over: so not before it has left the hub.
            None => aborted = Some(delivered),
        }
        Ok(())
    };
    // Until it has ended by itself, or somebody stops it. Before the start it takes its leave of
    // the others, who would wait for it.
    let leave = async {
        run.stopped().await;
    };
    let left = tokio::select! {
        biased;
        why = broken_off(run) => Ok(Left::Stopped(why)),
        finish = driver::drive_on(&shared.hub, part, leave, finished) => {
            let finish = finish?;
            run.update(|status| {
                status.private_bytes = finish.private_bytes;
                status.public_bytes = finish.public_bytes;
            });
            Ok(run.taken_back().map_or(Left::Finished, Left::Stopped))
        }
    };
    if let (true, Ok(Left::Finished)) = (unstarted, &left) {
        return Ok(Left::Unstarted);
    }
    // Nothing private has left: the budget that was reserved is free again.
    if let Some(delivered) = aborted {
        shared.ledger().release(&run.status().digest);
        end(run, delivered);
    }
    if let Some(delivered) = unwritten {
        end(run, until_written(&destination, delivered).await);
    }
    left
}

/// Whether an accepted offer that did not start waits for its members again: nobody began, nothing
/// was revealed, and there is time.
fn may_gather_again(until_ms: Option<u64>, finish: &Finish) -> bool {
    let is_aborted = matches!(finish.outcome.ending, Ending::Aborted { .. });
    let has_begun = finish.left_out || finish.draws > 0 || finish.outcome.started_at.is_some();
    is_aborted && !has_begun && until_ms.is_some_and(|until_ms| now_ms() < until_ms)
}

/// Adds noise to the party's contribution. In a task of rounds this is the first part, and then
/// each part that is handed over.
fn privatise(
    run: &Run,
    (plan, me): (&Arc<Plan>, Party),
    data: OwnData,
    path: &Path,
) -> Result<Private, Failure> {
    let (desk, file) = match (run.desk.get(), data) {
        (Some(desk), OwnData::Vector(file)) => (desk, file),
        (_, data) => return part::privatise(plan, me, data, path, randomness::for_noise()?),
    };
    let taken = || Failure::new(Exit::Internal, "the run's rounds are taken already");
    let source = desk.source(file).ok_or_else(taken)?;
    Ok(part::privatise_handed_over(
        plan,
        me,
        source,
        randomness::for_noise()?,
    ))
}

/// How often a result that could not be written is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Keeps a result until it is written, or the daemon ends.
async fn until_written(destination: &Destination<'_>, mut delivered: Delivered) -> Delivered {
    let run = destination.run;
    let mut ending = false;
    while let (Some(account), Some(failure)) = (&mut delivered.account, &delivered.problem) {
        if ending {
            break;
        }
        tracing::error!(
            digest = run.status().digest,
            "{failure}; the result is kept and tried again"
        );
        let reason = format!(
            "the result is there and cannot be written, which is tried again: {}",
            failure.message
        );
        run.update(|status| status.reason = Some(reason));
        ending = tokio::select! {
            _ = run.stopped() => true,
            () = tokio::time::sleep(AGAIN) => false,
        };
        let written = write_results(destination, account, delivered.values.as_deref());
        (delivered.mean, delivered.problem) = sorted(written);
    }
    run.update(|status| status.reason = None);
    delivered
}

/// The mean's file, or why there is none.
fn sorted(written: Result<Option<MeanFile>, Failure>) -> (Option<MeanFile>, Option<Failure>) {
    match written {
        Ok(mean) => (mean, None),
        Err(failure) => (None, Some(failure)),
    }
}

/// Comes when somebody has stopped a run that does not end by itself. One that was taken back does:
/// once its neighbours have read that it leaves, or the network waits for them no longer.
async fn broken_off(run: &Run) -> Stop {
    let why = run.stopped().await;
    if run.taken_back().is_some() {
        std::future::pending::<()>().await;
    }
    why
}

/// The results of a run that ended by itself.
struct Delivered {
    account: Option<Account>,
    /// Rounds to which this party contributed nothing.
    silence: Silence,
    /// The part of it that all members hold alike, for those that restart.
    agreed: Option<AgreedOutcome>,
    /// The mean, until it is written.
    values: Option<Vec<f64>>,
    mean: Option<MeanFile>,
    problem: Option<Failure>,
    charged: Option<Charge>,
    bytes: [u64; 2],
}

/// Where a run's mean and receipt go, and what they are written from.
struct Destination<'a> {
    shared: &'a Shared,
    run: &'a Run,
    plan: &'a Plan,
    layout: &'a Layout,
}

/// Writes what the run gave: into the state directory, and where the operator wants to see it.
fn deliver(destination: &Destination<'_>, me: Party, finish: &Finish) -> Delivered {
    let Destination {
        shared, run, plan, ..
    } = *destination;
    let digest = run.status().digest;
    let mut agreed = None;
    // The outcome is reported also where its files cannot be written.
    let (account, values, (mean, problem)) = match Account::of(plan, me, finish) {
        Ok(mut account) => {
            let values = account.mean(plan, &finish.outcome);
            let written = write_results(destination, &mut account, values.as_deref());
            let mean = values.as_deref();
            agreed = mean.and_then(|mean| AgreedOutcome::of(plan, &account, (&finish.outcome, mean)));
            (Some(account), values, sorted(written))
        }
        Err(failure) => (None, None, (None, Some(failure))),
    };
    if let Some(mu) = account.as_ref().and_then(Account::mu)
        && let Err(refusal) = shared.ledger().raise_charged(&digest, Charge::of_loss(mu))
    {
        tracing::error!(
            digest,
            "the charge of a run cannot be raised to what it turned out to cost: {refusal}"
        );
    }
    if account.as_ref().is_some_and(Account::stays_closed)
        && let Err(refusal) = shared.ledger().close(&digest)
    {
        tracing::error!(
            digest,
            "the charge for a run that cost nothing cannot be taken back: {refusal}"
        );
    }
    if let Some(account) = &account {
        give_back(destination, me, account);
    }
    let charged = shared.ledger().charged(&digest);
    Delivered {
        account,
        silence: finish.silence.clone(),
        agreed,
        values,
        mean,
        problem,
        charged,
        bytes: [finish.private_bytes, finish.public_bytes],
    }
}

/// A training that has ended by itself costs the iterations that it had, gossip the releases that
/// have left; what it was not charged with is free again.
fn give_back(destination: &Destination<'_>, me: Party, account: &Account) {
    let digest = destination.run.status().digest;
    let mut ledger = destination.shared.ledger();
    if let (Some(spent), Some(mu)) = (account.iterations_spent(), account.mu()) {
        let iterations = Iterations::of(destination.plan, me);
        let cost = match destination.plan.reads_circles() {
            true => iterations.cost(spent.min(1)).at_most(Charge {
                mu_squared: Charge::of_loss(mu).mu_squared,
                ..iterations.cost(1)
            }),
            false => iterations.cost(spent).at_least(Charge::of_loss(mu)),
        };
        if let Err(refusal) = ledger.settle(&digest, cost) {
            tracing::error!(
                digest,
                "the charge of iterations that did not come stays: {refusal}"
            );
        }
    }
    if ledger.charged(&digest).is_some() {
        ledger.release(&digest);
    }
}

fn end(run: &Run, delivered: Delivered) {
    let Delivered {
        account,
        silence,
        agreed,
        mean,
        problem,
        charged,
        bytes,
        ..
    } = delivered;
    // After the result itself, so that a disk which was full has room.
    if let Some(agreed) = &agreed {
        outcome_file::keep(run, agreed);
    }
    run.end(mean, |status| {
        (status.state, status.phase) = (RunState::Ended, Some("done".into()));
        status.charged = charged.map(|charge| charge.mu_squared);
        [status.private_bytes, status.public_bytes] = bytes;
        if let Some(account) = &account {
            describe(status, account, silence);
        }
        if let Some(failure) = problem {
            tracing::error!(digest = status.digest, "{failure}");
            // Why nothing was published matters more than that the receipt of it could not be
            // written.
            if status.reason.is_none() {
                (status.reason, status.exit_code) = (Some(failure.message), Some(failure.exit.code()));
            }
        }
    });
}

fn describe(status: &mut RunStatus, account: &Account, silence: Silence) {
    status.outcome = Some(account.outcome().into());
    status.reason = account.reason();
    status.exit_code = Some(silence.exit(account.exit()).code());
    status.silence = silence;
    status.epsilon = account.epsilon();
    status.unbounded = account.unbounded();
    status.included = account.included().to_vec();
    status.opened_for = account.opened_for().to_vec();
    status.standard_error = account.standard_error();
    if let Some(utility) = account.utility() {
        status.utility = Some(utility.to_owned());
    }
}

/// Writes the mean, if there is one, and the receipt, which names it; the mean's file.
fn write_results(
    destination: &Destination<'_>,
    account: &mut Account,
    mean: Option<&[f64]>,
) -> Result<Option<MeanFile>, Failure> {
    let Destination {
        shared,
        run,
        plan,
        layout,
    } = *destination;
    let folder = run.folder();
    let written = |mean: &[f64]| match account.figures(plan, mean) {
        Some(figures) => MeanFile::write_figures(folder, &figures),
        None => MeanFile::write(folder, layout, mean),
    };
    let mean = mean.map(written).transpose()?;
    account.name_result(mean.as_ref().map(|mean| mean.sha256.clone()));
    account.write(&folder.join("receipt.json"), &shared.config().identity.keypair)?;
    hand_out(shared, run, mean.as_ref())?;
    Ok(mean)
}
