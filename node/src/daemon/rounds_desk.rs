//! Where a run's owner gets the means of its rounds, and hands over what follows from them.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;
use utoipa::ToSchema;

use crate::daemon::refusal::{Kind, Refusal};
use crate::party::contributor::PartSource;
use crate::party::input;
use crate::vector_file::layout::{Dtype, Layout};
use crate::vector_file::vector::VectorFile;

/// How long a request waits for a mean. Our choice: below the half minute that clients and proxies
/// commonly wait.
const POLL: Duration = Duration::from_secs(20);

/// The most bytes of earlier means that are kept for a caller that was away; the latest one is kept
/// whatever its size. Our choice: means of many small rounds, or of a few large ones.
const MOST_KEPT_BYTES: usize = 64 << 20;

/// Where the rounds are.
#[derive(Clone, Default)]
struct Stand {
    /// The round whose contribution is asked for; 0 before the first.
    asked: u32,
    /// The means of the rounds before, the latest last.
    means: VecDeque<Arc<[f64]>>,
    /// The fate of this party's part of the round that is asked for.
    part: RoundPart,
    /// Nothing is asked for any more.
    over: bool,
}

/// The fate of this party's part of the round that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RoundPart {
    /// It can be handed over.
    #[default]
    Awaited,
    /// It was handed over.
    HandedOver,
    /// Something else counts in its place.
    Late,
}

/// The desk of a run: one side hands over and waits for means, the other is the run's
/// [`RoundsSource`].
pub struct RoundsDesk {
    plan: Arc<Plan>,
    me: Party,
    stand: Arc<watch::Sender<Stand>>,
    handed: SyncSender<(u32, VectorFile)>,
    to_source: Mutex<Option<Receiver<(u32, VectorFile)>>>,
}

impl RoundsDesk {
    /// The desk of a run that has not begun.
    pub(super) fn of(plan: &Arc<Plan>, me: Party) -> Self {
        let (handed, to_source) = sync_channel(1);
        RoundsDesk {
            plan: plan.clone(),
            me,
            stand: Arc::new(watch::channel(Stand::default()).0),
            handed,
            to_source: Mutex::new(Some(to_source)),
        }
    }

    /// The run's side, with what is contributed first. There is one: none the second time.
    pub(super) fn source(&self, first: VectorFile) -> Option<RoundsSource> {
        let mut to_source = self.to_source.lock().unwrap_or_else(PoisonError::into_inner);
        let shape = input::shape_handed_over(&self.plan, self.me);
        Some(RoundsSource {
            first: Some(VectorFile {
                layout: Layout::npy(shape, Dtype::F64),
                values: first.values,
            }),
            stand: self.stand.clone(),
            handed: to_source.take()?,
        })
    }

    /// The round whose part is asked for, 0 before the first, and the fate of this party's part.
    pub fn asked(&self) -> (u32, RoundPart) {
        let stand = self.stand.borrow();
        (stand.asked, stand.part)
    }

    /// The layout of a mean: an array in the plan's shape.
    pub fn layout(&self) -> Layout {
        Layout::npy(self.plan.draft().data.shape.clone(), Dtype::F64)
    }

    /// The layout of a mean as the plan's tensors; `None` where it names none.
    pub fn tensors(&self) -> Option<Layout> {
        input::layout_of_tensors(&self.plan, Dtype::F64)
    }

    /// Takes this party's part of a round.
    ///
    /// # Errors
    /// Another shape or number of rows than the plan's; a round that is over, or not asked for yet.
    pub fn hand_over(&self, round: u32, part: VectorFile) -> Result<(), Refusal> {
        input::check_handed_over(&self.plan, self.me, &part)
            .map_err(|reason| Refusal::new(Kind::Input, reason).field("body"))?;
        let mut taken = Ok(());
        self.stand.send_if_modified(|stand| {
            taken = stand.takes(round);
            if taken.is_ok() {
                stand.part = RoundPart::HandedOver;
                // There is room for one, and this is the first of its round.
                let _ = self.handed.try_send((round, part));
            }
            false
        });
        taken
    }

    /// The mean of a round; waits for it a while. None if it is not there by
    /// then.
    ///
    /// # Errors
    /// A mean that is not kept any more; rounds that ended before this one.
    pub async fn mean(&self, round: u32) -> Result<Option<Arc<[f64]>>, Refusal> {
        let mut stand = self.stand.subscribe();
        let there = stand.wait_for(|stand| stand.asked > round || stand.over);
        let Ok(Ok(stand)) = tokio::time::timeout(POLL, there)
            .await
            .map(|it| it.map(|it| it.clone()))
        else {
            return Ok(None);
        };
        if let Some(mean) = stand.mean(round) {
            return Ok(Some(mean));
        }
        let (why, hint) = if stand.asked > round {
            (
                format!("the mean of round {round} is not kept any more"),
                format!("ask for round {}", stand.asked - 1),
            )
        } else {
            (
                format!("the rounds ended before round {round} had a mean"),
                "GET /v1/runs/DIGEST says how".to_owned(),
            )
        };
        Err(Refusal::new(Kind::Unknown, why).field("round").hint(hint))
    }
}

impl Stand {
    /// The mean of a round, if it is kept.
    fn mean(&self, round: u32) -> Option<Arc<[f64]>> {
        let back = usize::try_from(self.asked.checked_sub(round)?).ok()?;
        self.means.get(self.means.len().checked_sub(back)?).cloned()
    }

    /// Keeps one mean more, and of the earlier ones as many as `most` bytes hold.
    fn keep(&mut self, mean: &[f64], most: usize) {
        self.means.push_back(mean.into());
        let each = size_of_val(mean).max(1);
        while self.means.len() > (most / each).max(1) {
            self.means.pop_front();
        }
    }

    /// Whether a part of this round is taken now.
    fn takes(&self, round: u32) -> Result<(), Refusal> {
        let asked = self.asked;
        let why = match self.part {
            _ if self.over => "the rounds are over".to_owned(),
            _ if round > asked => format!("round {round} is not asked for yet, round {asked} is"),
            _ if round < asked => format!("round {round} is over, round {asked} is asked for"),
            RoundPart::HandedOver => format!("this party's part of round {round} was handed over before"),
            RoundPart::Late => {
                format!("it is too late for round {round}, to which this party contributes nothing")
            }
            RoundPart::Awaited => return Ok(()),
        };
        Err(Refusal::new(Kind::Conflict, why)
            .field("round")
            .hint("GET …/rounds/K waits for the mean of round K; then part K + 1 is asked for"))
    }
}

/// The run's side of a [`RoundsDesk`].
pub(super) struct RoundsSource {
    first: Option<VectorFile>,
    stand: Arc<watch::Sender<Stand>>,
    handed: Receiver<(u32, VectorFile)>,
}

impl PartSource for RoundsSource {
    fn ask(&mut self, round: u32, mean: &[f64], until: Instant) -> Result<VectorFile, String> {
        let first = self.first.take();
        // What came as the last round's time ran out; no more of it comes.
        while self.handed.try_recv().is_ok() {}
        self.stand.send_modify(|stand| {
            stand.asked = round;
            if !mean.is_empty() {
                stand.keep(mean, MOST_KEPT_BYTES);
            }
            stand.part = match first {
                Some(_) => RoundPart::HandedOver,
                None => RoundPart::Awaited,
            };
        });
        if let Some(first) = first {
            return Ok(first);
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.handed.recv_timeout(left) {
                Ok((of, part)) if of == round => return Ok(part),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Err("the run's record is gone".into()),
            }
        }
        self.stand.send_modify(|stand| stand.part = RoundPart::Late);
        Err(format!("nothing was handed over for round {round} in time"))
    }

    fn conclude(&mut self, mean: Option<&[f64]>) {
        self.stand.send_modify(|stand| {
            stand.over = true;
            if let Some(mean) = mean {
                stand.asked = stand.asked.saturating_add(1);
                stand.keep(mean, MOST_KEPT_BYTES);
            }
        });
    }
}

impl Drop for RoundsSource {
    fn drop(&mut self) {
        self.stand.send_modify(|stand| stand.over = true);
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::testing::plan_of;

    fn desk() -> RoundsDesk {
        let text = "task = \"rounds\"\nname = \"rounds\"\n[data]\nshape = [2]\nreleases = 3\n";
        RoundsDesk::of(&Arc::new(plan_of(text, 4, None)), 1)
    }

    fn part(values: [f64; 2]) -> VectorFile {
        VectorFile {
            layout: Layout::npy(vec![2], Dtype::F64),
            values: values.to_vec(),
        }
    }

    fn refused(desk: &RoundsDesk, round: u32) -> String {
        desk.hand_over(round, part([0.0, 0.0]))
            .expect_err("refused")
            .message
    }

    /// Checks that each part is taken once, in its round, and in time, and that a refusal gives its
    /// reason.
    #[tokio::test]
    async fn parts_are_taken_in_their_round_only() {
        let desk = desk();
        assert!(refused(&desk, 1).contains("not asked for yet"));
        let mut source = desk.source(part([0.1, 0.2])).expect("the first");
        assert!(desk.source(part([0.0, 0.0])).is_none());
        let far = Instant::now() + Duration::from_secs(60);
        assert_eq!(source.ask(1, &[], far).expect("the first").values, [0.1, 0.2]);
        assert!(refused(&desk, 1).contains("handed over before"));
        assert!(refused(&desk, 2).contains("not asked for yet"));
        // Nobody hands over part 2 in time.
        let late = source.ask(2, &[0.5, 0.5], Instant::now());
        assert!(late.is_err_and(|why| why.contains("in time")));
        assert!(refused(&desk, 2).contains("contributes nothing"));
        assert!(desk.tensors().is_none(), "the plan names none");
        let mean = desk.mean(1).await.expect("kept").expect("there");
        assert_eq!((&mean[..], desk.layout().shape), (&[0.5, 0.5][..], vec![2]));
        let third = std::thread::spawn(move || (source.ask(3, &[0.6, 0.7], far), source));
        let mean = desk.mean(2).await.expect("kept").expect("there");
        assert_eq!(mean[..], [0.6, 0.7]);
        assert!(refused(&desk, 2).contains("round 3 is asked for"));
        let other = VectorFile {
            layout: Layout::npy(vec![3], Dtype::F64),
            values: vec![0.0; 3],
        };
        assert_eq!(desk.hand_over(3, other).expect_err("its shape").kind, Kind::Input);
        desk.hand_over(3, part([0.3, 0.4])).expect("in time");
        let (third, mut source) = third.join().expect("no panic");
        assert_eq!(third.expect("handed over").values, [0.3, 0.4]);
        let earlier = desk
            .mean(1)
            .await
            .expect("kept")
            .expect("for a caller that was away");
        assert_eq!(earlier[..], [0.5, 0.5]);
        source.conclude(Some(&[0.8, 0.9]));
        assert_eq!(
            desk.mean(3).await.expect("kept").expect("the last")[..],
            [0.8, 0.9]
        );
        assert!(refused(&desk, 4).contains("over"));
        assert!(desk.mean(4).await.is_err());
    }

    #[test]
    fn of_earlier_means_as_many_are_kept_as_there_is_room_for() {
        let mut stand = Stand::default();
        for round in 1..=4u32 {
            stand.asked = round + 1;
            stand.keep(&[f64::from(round), 0.0], 40);
        }
        let kept = |round| stand.mean(round).map(|mean| mean[0]);
        assert_eq!(
            [1, 2, 3, 4, 5].map(kept),
            [None, None, Some(3.0), Some(4.0), None]
        );
        stand.asked = 6;
        stand.keep(&[5.0, 0.0], 0);
        assert_eq!([4, 5].map(|round| stand.mean(round).is_some()), [false, true]);
    }

    #[tokio::test]
    async fn waiting_requests_end_with_their_run() {
        let desk = desk();
        drop(desk.source(part([0.0, 0.0])));
        let ended = desk.mean(1).await.expect_err("ended");
        assert!(ended.message.contains("ended before"), "{}", ended.message);
    }
}
