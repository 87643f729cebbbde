//! An attempt that it is this node's turn to propose.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use libp2p::PeerId;
use tokio::time::timeout;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};
use undertone_protocol::plan::checked::Plan;

use crate::daemon::refusal::Refusal;
use crate::daemon::schedule::attending::{CLOCKS_S, Due};
use crate::daemon::service::Service;
use crate::daemon::status::RunState;
use crate::planning::scheduled::Attendee;

/// How long a member may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// From one time of asking those who do not attend to the next, in milliseconds.
const AGAIN_MS: u64 = 10_000;

/// How long everybody is waited for, if enough attend, in milliseconds from the attempt's begin.
const FOR_ALL_MS: u64 = 20_000;

/// How long enough are waited for: one whose clock is behind by twice the bound attends an attempt
/// once that is a minute old. In milliseconds from the attempt's begin.
const FOR_ENOUGH_MS: u64 = 65_000;

/// The answers of the members of the list so far.
#[derive(Default)]
struct Attendance {
    attend: BTreeMap<PeerId, Option<u32>>,
    /// How many there are for whom it is too early, and who attend within the time that is waited.
    early: usize,
    /// Why others do not, by their names.
    others: BTreeMap<String, String>,
}

/// An answer of a member that attends, or may still.
enum AttendAnswer {
    Attends { records: Option<u32> },
    Early { behind_ms: u64 },
}

impl Attendance {
    fn names(&self, due: &Due) -> Vec<String> {
        let peers = due.config.peers.as_slice().iter();
        let peers = peers.filter(|peer| self.attend.contains_key(&peer.id));
        peers.map(|peer| peer.name.clone()).collect()
    }

    /// "carol: no answer; dave: …"
    fn absent(&self) -> String {
        let each = self.others.iter().map(|(name, why)| format!("{name}: {why}"));
        each.collect::<Vec<_>>().join("; ")
    }
}

impl Service {
    /// Proposes an attempt: asks who attends, makes the plan, offers it and takes part. Whatever
    /// goes wrong costs this attempt, and the next one has another proposer.
    pub(super) async fn propose_attempt(&self, due: Due) {
        let schedule = due.schedule().name.clone();
        let attempt = due.scheduled.attempt;
        match self.proposed(&due).await {
            Ok(plan) => {
                let digest = plan.digest_hex();
                tracing::info!(schedule, attempt, digest, "an attempt of a schedule is proposed");
                let said = self.offer_to_members(&plan).await;
                for (member, said) in said.into_iter().filter(|(_, said)| said.starts_with("refused")) {
                    tracing::warn!(schedule, attempt, member, "{said}");
                }
            }
            Err(refusal) => {
                tracing::warn!(
                    schedule,
                    attempt,
                    "an attempt of a schedule was not proposed: {refusal}"
                );
                self.note_reason(&due, refusal.message);
            }
        }
    }

    async fn proposed(&self, due: &Due) -> Result<Arc<Plan>, Refusal> {
        let me = due.config.identity.peer_id();
        let own = self.would_attend(due).await?;
        let mut answers = Attendance::default();
        answers.attend.insert(me, own);
        self.ask_all(due, &mut answers).await?;
        let attended = answers.names(due);
        let attendees = self.chosen(due, &answers);
        let making = due.clone();
        let plan = self
            .check(move || {
                let terms = making.schedule().terms(&making.config.peers);
                Ok(Arc::new(terms.plan(&attendees, making.scheduled)?))
            })
            .await
            .map_err(|refusal| match answers.absent() {
                absent if absent.is_empty() => refusal,
                absent => Refusal::new(refusal.kind, format!("{}; {absent}", refusal.message)),
            })?;
        if !answers.others.is_empty() {
            tracing::warn!(
                schedule = due.schedule().name,
                "not all attend: {}",
                answers.absent()
            );
        }
        let (occurrence, due_s) = due.key();
        let table = &self.shared.timetable;
        table.claim(&due.schedule().name, (due.scheduled, due_s))?;
        table.change(&due.schedule().name, (&occurrence, due_s), |occasion| {
            occasion.attended = attended;
            Ok(())
        })?;
        self.take_scheduled(due, plan.clone(), me).await?;
        Ok(plan)
    }

    /// Asks until all attend, or enough for long enough.
    async fn ask_all(&self, due: &Due, answers: &mut Attendance) -> Result<(), Refusal> {
        let terms = due.schedule().terms(&due.config.peers);
        let (least, asks) = (terms.least()?, terms.asks_for_records()?);
        let (clock, barred) = (&self.shared.clock, self.shared.keys.barred());
        let peers = due.config.peers.as_slice().iter();
        let all = peers.filter(|peer| !barred.contains(&peer.id)).count();
        loop {
            self.ask_once((due, asks), answers).await;
            let waited_ms = clock.now_ms().saturating_sub(1000 * due.begins_s());
            // Who is only behind is worth a minute.
            let enough = answers.attend.len() >= least && answers.early == 0;
            if answers.attend.len() == all
                || (enough && waited_ms >= FOR_ALL_MS)
                || waited_ms >= FOR_ENOUGH_MS
            {
                return Ok(());
            }
            let until = match enough {
                true => FOR_ALL_MS,
                false => FOR_ENOUGH_MS,
            };
            let next = (waited_ms + AGAIN_MS).min(until.max(waited_ms));
            clock.until(1000 * due.begins_s() + next).await;
            // Another attempt may have begun, or this one have no use any more.
            self.is_free_for(due)?;
        }
    }

    /// Asks those who have not said that they attend. `asks`: for their numbers of records, too.
    async fn ask_once(&self, (due, asks): (&Due, bool), answers: &mut Attendance) {
        let question = Question::Attend {
            occurrence: due.scheduled.occurrence.0,
            attempt: due.scheduled.attempt,
        };
        let peers = due.config.peers.as_slice().iter();
        let peers: Vec<_> = peers
            .filter(|peer| !answers.attend.contains_key(&peer.id))
            .collect();
        let asked = peers.iter().map(|peer| {
            let asked = self.hub().ask(Network::Private, peer.id, &question, &[]);
            async move {
                match timeout(ANSWER, asked).await {
                    Ok(Ok((Reply::Attends { .. }, _))) if !asks => {
                        Ok(AttendAnswer::Attends { records: None })
                    }
                    Ok(Ok((Reply::Attends { records }, _))) => {
                        let records = Some(due.admit(records)?);
                        Ok(AttendAnswer::Attends { records })
                    }
                    Ok(Ok((Reply::Early { time_ms }, _))) => Ok(AttendAnswer::Early {
                        behind_ms: self.shared.clock.now_ms().saturating_sub(time_ms),
                    }),
                    Ok(Ok((Reply::Refused { reason }, _))) => Err(reason),
                    Ok(Ok(_)) => Err("it answered another question".to_owned()),
                    Ok(Err(fault)) => Err(fault.to_string()),
                    Err(_) => Err("no answer".to_owned()),
                }
            }
        });
        answers.early = 0;
        for (peer, answer) in peers.iter().zip(join_all(asked).await) {
            match answer {
                Ok(AttendAnswer::Early { behind_ms }) => {
                    answers.early += usize::from(behind_ms <= FOR_ENOUGH_MS + 1000 * CLOCKS_S);
                    let why = format!("its clock is {} s behind", behind_ms / 1000);
                    answers.others.insert(peer.name.clone(), why);
                }
                Ok(AttendAnswer::Attends { records }) => {
                    answers.others.remove(&peer.name);
                    answers.attend.insert(peer.id, records);
                }
                Err(why) => {
                    answers.others.insert(peer.name.clone(), why);
                }
            }
        }
    }

    /// Those who attend, less those who attended before and gave no READY; but these too, where too
    /// few would be left.
    fn chosen(&self, due: &Due, answers: &Attendance) -> Vec<Attendee> {
        let unready = self.unready(due);
        let least = due
            .schedule()
            .terms(&due.config.peers)
            .least()
            .unwrap_or(usize::MAX);
        let attending = due.config.peers.as_slice().iter().filter_map(|peer| {
            let records = *answers.attend.get(&peer.id)?;
            Some((peer.name.as_str(), Attendee { id: peer.id, records }))
        });
        let (late, ready): (Vec<_>, Vec<_>) = attending.partition(|(name, _)| unready.contains(*name));
        let missing = least.saturating_sub(ready.len());
        let chosen: BTreeSet<&str> = ready
            .iter()
            .chain(late.iter().take(missing))
            .map(|(name, _)| *name)
            .collect();
        let of_list = late
            .iter()
            .chain(&ready)
            .filter(|(name, _)| chosen.contains(name));
        of_list.map(|(_, attendee)| *attendee).collect()
    }

    /// Names of who attended an earlier attempt of this occurrence, and gave no READY.
    fn unready(&self, due: &Due) -> BTreeSet<String> {
        let (occurrence, _) = due.key();
        let known = self.shared.timetable.occasion(&due.schedule().name, &occurrence);
        let noted = known.map(|known| known.unready).unwrap_or_default();
        let runs = self.shared.runs.all().into_iter().map(|run| run.status());
        let earlier = runs
            .filter(|run| run.occurrence.as_ref() == Some(&occurrence) && run.state == RunState::Gathering);
        let waits = earlier.flat_map(|run| run.waiting_for);
        noted.into_iter().chain(waits).collect()
    }
}
