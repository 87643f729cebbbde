//! An offer that was accepted: until enough members have accepted it and are up, it takes no place
//! and says nothing in the run. Its budget stays set aside.
//!
//! Each daemon asks the others what became of the plan, seldom; who has just accepted asks at once,
//! and whoever is asked by a member of whose acceptance it does not know asks back. What another
//! daemon says starts no more than the gathering of a run: a liar has this node wait for `join_ms`,
//! and then for others again.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use libp2p::PeerId;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::daemon::ledger::now_ms;
use crate::daemon::runs::{Run, Stop};
use crate::daemon::shared::Shared;
use crate::network::ask::AskFault;

/// The first pause between two looks at the others; and the least, however often others ask.
const SOON: Duration = Duration::from_secs(1);

/// The longest pause. Our choice: who comes back by itself is noticed within it, and a hundred
/// daemons ask each other three times a second.
const SELDOM: Duration = Duration::from_secs(30);

/// How long a member may take to answer.
const PATIENCE: Duration = Duration::from_secs(4);

/// The reasons why an accepted offer waits no longer.
pub(super) enum Waited {
    /// Enough members have accepted it and are up.
    Enough,
    /// Somebody has stopped it.
    Stopped(Stop),
    /// It comes to nothing, and why.
    InVain(String),
}

/// Where a member stands, as it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MemberAnswer {
    /// It has accepted the offer, or takes part already.
    Accepted,
    /// Its operator has not answered.
    Open,
    /// It does not know the plan yet.
    Unknown,
    /// Its operator said no.
    Declined,
    /// It had the run, and has it no more.
    Over,
    /// It does not answer.
    Down,
    /// It is not in this node's peer list: it cannot be asked, and may have accepted.
    Unlisted,
}

impl MemberAnswer {
    fn of(word: Option<&str>) -> Self {
        match word {
            Some("open") => MemberAnswer::Open,
            Some("declined") => MemberAnswer::Declined,
            Some("over") => MemberAnswer::Over,
            Some(_) => MemberAnswer::Accepted,
            None => MemberAnswer::Unknown,
        }
    }

    fn counts(self) -> bool {
        matches!(self, MemberAnswer::Accepted | MemberAnswer::Unlisted)
    }

    fn is_no(self) -> bool {
        matches!(self, MemberAnswer::Declined | MemberAnswer::Over)
    }

    fn phrase(self) -> &'static str {
        match self {
            MemberAnswer::Accepted => "accepted",
            MemberAnswer::Open => "not answered by its operator",
            MemberAnswer::Unknown => "not received",
            MemberAnswer::Declined => "declined",
            MemberAnswer::Over => "over there",
            MemberAnswer::Down => "not reached",
            MemberAnswer::Unlisted => "not in this node's peer list",
        }
    }
}

/// The last answers of all members but this one.
struct Look {
    least: usize,
    answers: Vec<(String, MemberAnswer)>,
}

impl Look {
    fn count(&self, which: impl Fn(MemberAnswer) -> bool) -> usize {
        self.answers.iter().filter(|(_, answer)| which(*answer)).count()
    }

    /// Whether the run may gather: this member counts as well.
    fn is_enough(&self) -> bool {
        1 + self.count(MemberAnswer::counts) >= self.least
    }

    /// Whether too few are left that could still accept.
    fn is_hopeless(&self) -> bool {
        1 + self.count(|answer| !answer.is_no()) < self.least
    }

    fn names(&self, which: impl Fn(MemberAnswer) -> bool) -> Vec<String> {
        let of = self.answers.iter().filter(|(_, answer)| which(*answer));
        of.map(|(name, _)| name.clone()).collect()
    }

    /// "declined: carol; not reached: dave" of all who have not accepted.
    fn others(&self) -> String {
        let mut parts = vec![];
        for which in [
            MemberAnswer::Open,
            MemberAnswer::Unknown,
            MemberAnswer::Declined,
            MemberAnswer::Over,
            MemberAnswer::Down,
        ] {
            let names = self.names(|answer| answer == which);
            if !names.is_empty() {
                parts.push(format!("{}: {}", which.phrase(), names.join(", ")));
            }
        }
        parts.join("; ")
    }

    fn in_vain(&self, when: &str, hint: &str) -> String {
        format!(
            "{when}, {} of {} members had accepted the offer and were up, min_parties is {}; {}; {hint}",
            1 + self.count(MemberAnswer::counts),
            1 + self.answers.len(),
            self.least,
            self.others()
        )
    }
}

/// When the others are asked again.
struct Pauses {
    /// After the answers, if nobody says anything meanwhile.
    next: Duration,
    longest: Duration,
    /// Members that were not heard yet. Each accepts once, and is heard at once; one that asks
    /// again and again is not.
    unheard: usize,
}

impl Pauses {
    fn new(members: usize, join_ms: u64) -> Self {
        Pauses {
            next: SOON,
            longest: SELDOM.min(Duration::from_millis(join_ms / 4).max(SOON)),
            unheard: members,
        }
    }

    /// After they were asked, the soonest that they are asked again because a member asked.
    fn soonest(&self) -> Duration {
        match self.unheard {
            0 => SOON,
            _ => Duration::ZERO,
        }
    }

    /// A member has asked.
    fn nudged(&mut self) {
        self.next = SOON;
        self.unheard = self.unheard.saturating_sub(1);
    }

    /// Nobody has.
    fn passed(&mut self) {
        self.next = (2 * self.next).min(self.longest);
    }
}

/// Waits until enough members have accepted the plan and are up, its time is over (milliseconds
/// since 1970), or somebody stops it.
pub(super) async fn wait_for_enough(
    shared: &Arc<Shared>,
    run: &Arc<Run>,
    (plan, me): (&Plan, Party),
    until_ms: u64,
) -> Waited {
    let digest = *plan.digest();
    let least = plan.draft().run.min_parties;
    let members: Vec<(String, PeerId)> = plan
        .draft()
        .members
        .iter()
        .enumerate()
        .filter(|(party, _)| *party != me)
        .map(|(_, member)| (member.name.clone(), member.id))
        .collect();
    let mut was_hopeless = false;
    let mut pauses = Pauses::new(members.len(), plan.draft().run.join_ms);
    loop {
        let begun = Instant::now();
        let asked = join_all(members.iter().map(|(_, peer)| ask(shared, *peer, digest)));
        let answers = tokio::select! {
            biased;
            why = run.stopped() => return Waited::Stopped(why),
            answers = asked => answers,
        };
        let names = members.iter().map(|(name, _)| name.clone());
        let look = Look {
            least,
            answers: names.zip(answers).collect(),
        };
        tell(run, (plan, me), &look);
        if look.is_enough() {
            return Waited::Enough;
        }
        // Twice in a row: who starts again may not know for a moment.
        if look.is_hopeless() && was_hopeless {
            return Waited::InVain(look.in_vain(
                "too few are left that may accept",
                "propose it again if that was a mistake",
            ));
        }
        was_hopeless = look.is_hopeless();
        let left = Duration::from_millis(until_ms.saturating_sub(now_ms()));
        if left.is_zero() {
            return Waited::InVain(
                look.in_vain("when it expired", "propose it again, with a longer run.accept_by"),
            );
        }
        let soonest = begun + pauses.soonest();
        let nudged = async {
            run.nudge.notified().await;
            sleep_until(soonest).await;
        };
        tokio::select! {
            biased;
            why = run.stopped() => return Waited::Stopped(why),
            () = nudged => pauses.nudged(),
            () = sleep(pauses.next.min(left)) => pauses.passed(),
        }
    }
}

/// Shows who has accepted, and whom the offer waits for.
fn tell(run: &Arc<Run>, (plan, me): (&Plan, Party), look: &Look) {
    let mut accepted = look.names(|answer| answer == MemberAnswer::Accepted);
    accepted.push(plan.draft().members[me].name.clone());
    let waiting = look.names(|answer| !answer.counts() && !answer.is_no());
    let before = run.status();
    run.update(|status| status.accepted_by = accepted);
    if before.waiting_for != waiting {
        let name = &plan.draft().members[me].name;
        let waiting = waiting.join(", ");
        run.listener()
            .emit(name, "waiting", json!({ "waiting_for": waiting }));
    }
}

/// A member's answer about the plan.
async fn ask(shared: &Arc<Shared>, peer: PeerId, digest: [u8; 32]) -> MemberAnswer {
    let question = Question::Check { digest: Some(digest) };
    let asked = shared.hub.ask(Network::Public, peer, &question, &[]);
    match timeout(PATIENCE, asked).await {
        Ok(Ok((Reply::Checked { plan, .. }, _))) => MemberAnswer::of(plan.as_deref()),
        Ok(Err(AskFault::NotListed)) => MemberAnswer::Unlisted,
        Ok(Ok(_) | Err(_)) | Err(_) => MemberAnswer::Down,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(least: usize, answers: &[MemberAnswer]) -> Look {
        let names = (1..).map(|k| format!("party-{k}"));
        let answers = names.zip(answers.iter().copied()).collect();
        Look { least, answers }
    }

    #[test]
    fn enough_have_accepted_and_are_up() {
        use MemberAnswer::*;
        assert!(look(3, &[Accepted, Accepted, Down]).is_enough());
        assert!(!look(3, &[Accepted, Open, Down]).is_enough());
        assert!(
            look(3, &[Accepted, Unlisted, Open]).is_enough(),
            "it may have accepted"
        );
        for word in ["accepted", "running"] {
            assert_eq!(MemberAnswer::of(Some(word)), Accepted);
        }
        assert_eq!(MemberAnswer::of(None), Unknown);
    }

    /// As many as there are members: whoever asks more often has the others asked once a second.
    #[test]
    fn each_member_is_heard_at_once_and_no_more_often() {
        let mut pauses = Pauses::new(3, 120_000);
        for _ in 0..3 {
            assert_eq!(pauses.soonest(), Duration::ZERO);
            pauses.passed();
            pauses.nudged();
            assert_eq!(pauses.next, SOON, "others may follow");
        }
        for _ in 0..3 {
            pauses.nudged();
            assert_eq!(pauses.soonest(), SOON);
        }
        // And while nobody asks, more and more seldom.
        let waits: Vec<u64> = (0..7)
            .map(|_| {
                pauses.passed();
                pauses.next.as_secs()
            })
            .collect();
        assert_eq!(waits, [2, 4, 8, 16, 30, 30, 30]);
        let mut hasty = Pauses::new(3, 1000);
        hasty.passed();
        assert_eq!(hasty.next, SOON, "of a plan whose members wait for a second");
    }

    #[test]
    fn a_member_that_declined_is_named_and_ends_an_offer_that_needs_it() {
        use MemberAnswer::*;
        let refused = look(3, &[Accepted, Declined, Over]);
        assert!(refused.is_hopeless());
        assert_eq!(
            refused.in_vain("when it expired", "propose it again"),
            "when it expired, 2 of 4 members had accepted the offer and were up, min_parties is 3; declined: party-2; \
             over there: party-3; propose it again"
        );
        assert!(
            !look(3, &[Accepted, Declined, Down]).is_hopeless(),
            "it may come back"
        );
    }
}
