//! A plan of a schedule that another member offers: it is accepted unasked if it is the plan that
//! this node makes itself, of its own run file and list, for these members.

use std::sync::Arc;

use libp2p::PeerId;
use undertone_protocol::plan::checked::Plan;

use crate::daemon::admission::{PlanSource, offer_status};
use crate::daemon::contribution::Contribution;
use crate::daemon::ledger::now_ms;
use crate::daemon::policy;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::schedule::attending::Due;
use crate::daemon::service::Service;
use crate::daemon::status::{OfferState, OfferStatus, RunState, RunStatus};
use crate::party::part;
use crate::planning::scheduled::{attendees, compare};
use crate::planning::utility;

impl Service {
    /// Takes a schedule's plan that a peer offers.
    ///
    /// # Errors
    /// It is not this attempt's proposer, time or first offer, or not the plan that this node makes
    /// itself; or this node sits it out.
    pub(in crate::daemon) async fn receive_scheduled(
        &self,
        from: PeerId,
        plan: Arc<Plan>,
    ) -> Result<OfferState, Refusal> {
        let Some(scheduled) = plan.draft().scheduled else {
            return Err(Refusal::new(Kind::Internal, "this plan is of no schedule"));
        };
        let due = self.due(from, scheduled)?;
        self.shared.keys.check(&plan)?;
        self.is_free_for(&due)?;
        self.has_had_its_time(&due)?;
        let schedule = &due.schedule().name;
        self.shared.timetable.claim(schedule, (scheduled, due.due_s))?;
        let (offered, own) = (plan.clone(), due.clone());
        self.check(move || is_ours(&offered, &own)).await?;
        // The file that this node said it attends with, or as it is now where nobody has asked.
        let stamp = self.young_enough(&due)?;
        let (occurrence, due_s) = due.key();
        let table = &self.shared.timetable;
        table.change(schedule, (&occurrence, due_s), |occasion| {
            occasion.file.get_or_insert(stamp);
            Ok(())
        })?;
        self.take_scheduled(&due, plan, from).await?;
        Ok(OfferState::Accepted)
    }

    /// Takes part in an attempt's plan, and leaves the attempt before.
    pub(super) async fn take_scheduled(
        &self,
        due: &Due,
        plan: Arc<Plan>,
        proposer: PeerId,
    ) -> Result<RunStatus, Refusal> {
        let proposer = match proposer == due.config.identity.peer_id() {
            true => due.config.identity.name.clone(),
            false => self.proposer(proposer)?,
        };
        self.leave_earlier(due).await?;
        let taken = (due.scheduled, due.due_s);
        let (digest, table) = (plan.digest_hex(), &self.shared.timetable);
        table.enter(&due.schedule().name, taken, (&digest, self.shared.clock.now_ms()))?;
        let left_ms = due.over_ms().saturating_sub(self.shared.clock.now_ms());
        let offer = OfferStatus {
            expires_ms: now_ms().saturating_add(left_ms),
            ..offer_status(&plan, &proposer)
        };
        let offers = &self.shared.offers;
        offers.insert(offer.clone(), plan.to_json())?;
        let contribution = Contribution {
            vector: None,
            data_set: Some(due.schedule().data_set.clone()),
            records: None,
        };
        let taken = self
            .take(
                PlanSource::Checked(plan.clone()),
                contribution,
                Some(&offer),
                false,
            )
            .await
            .inspect_err(|_| offers.forget(&offer.digest))?;
        offers.settle(&offer.digest, OfferState::Accepted, None);
        self.note_members(due, &plan, proposer)?;
        tracing::info!(
            schedule = due.schedule().name,
            attempt = due.scheduled.attempt,
            digest = offer.digest,
            proposer = offer.proposer,
            "an attempt of a schedule was accepted"
        );
        Ok(taken)
    }

    fn note_members(&self, due: &Due, plan: &Plan, proposer: String) -> Result<(), Refusal> {
        let (occurrence, due_s) = due.key();
        let members: Vec<String> = plan
            .draft()
            .members
            .iter()
            .map(|member| member.name.clone())
            .collect();
        let all = due.config.peers.as_slice().iter().map(|peer| peer.name.clone());
        let absent: Vec<String> = all.filter(|name| !members.contains(name)).collect();
        if !absent.is_empty() {
            tracing::warn!(
                schedule = due.schedule().name,
                absent = absent.join(", "),
                "members are left out"
            );
        }
        let table = &self.shared.timetable;
        table.change(&due.schedule().name, (&occurrence, due_s), |occasion| {
            (occasion.members, occasion.absent) = (members, absent);
            (occasion.proposer, occasion.reason) = (Some(proposer), None);
            Ok(())
        })
    }

    /// Leaves the attempt before, unless this node has signed its START: then it stays, to its end.
    async fn leave_earlier(&self, due: &Due) -> Result<(), Refusal> {
        let (occurrence, due_s) = due.key();
        let others = self.others_then(due);
        let earlier = self.shared.runs.all().into_iter().filter(|run| {
            let status = run.status();
            let (Some(of), Some(attempt)) = (&status.occurrence, status.attempt) else {
                return false;
            };
            let is_earlier = *of == occurrence && attempt < due.scheduled.attempt;
            (is_earlier || others.contains(of)) && !status.state.is_over()
        });
        for run in earlier {
            let status = run.status();
            let attempt = status.attempt.unwrap_or(0);
            self.may_leave(attempt, &status.digest)?;
            // Whom an accepted offer waits for may have been sent another plan.
            if status.state == RunState::Gathering {
                let table = &self.shared.timetable;
                table.change(&due.schedule().name, (&due.key().0, due_s), |occasion| {
                    occasion.unready.extend(status.waiting_for.clone());
                    Ok(())
                })?;
            }
            let has_begun = format!("attempt {attempt} has begun here, and this node stays in it");
            let stays = |_| Refusal::new(Kind::Conflict, has_begun).field("schedule");
            self.withdraw(&status.digest).await.map_err(stays)?;
        }
        Ok(())
    }
}

/// Refuses a plan that is not the one that this node makes for the same members, or whose claims
/// are not within its policy.
fn is_ours(plan: &Plan, due: &Due) -> Result<(), Refusal> {
    let me = part::member(plan, due.config.identity.peer_id()).map_err(|failure| failure.field("plan"))?;
    let terms = due.schedule().terms(&due.config.peers);
    let attendees = attendees(plan);
    if terms.asks_for_records()? {
        for (attendee, member) in attendees.iter().zip(&plan.draft().members) {
            due.admit(attendee.records).map_err(|why| {
                let refusal = Refusal::new(Kind::Policy, format!("{}: {why}", member.name));
                refusal.field("data.records")
            })?;
        }
    }
    let own = terms.plan(&attendees, due.scheduled)?;
    compare(plan, &own).map_err(|difference| {
        Refusal::new(Kind::Policy, difference.to_string())
            .field(difference.field)
            .hint("compare peer lists and run files: all members need the same bytes of both")
    })?;
    utility::check(plan)?;
    policy::check(&due.config, plan, me)
}
