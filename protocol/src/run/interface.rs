//! The inputs and the outputs of the machine.

use std::sync::Arc;

use thiserror::Error;

use crate::messages::log::{AgreedLogs, ShareId};
use crate::messages::notice::Network;
use crate::messages::wire::Bytes;
use crate::mixing::noisy::Noisy;
use crate::mixing::ticket::Recalled;
use crate::run::outcome::{Event, GateVerdict, Outcome};
use crate::time::Time;
use crate::topology::party::Party;

/// An input from the driver.
#[derive(Clone, Debug)]
pub enum Input {
    /// A neighbour can be reached (again) on one of the graphs.
    Connected {
        /// The graph.
        network: Network,
        /// The peer.
        peer: Party,
    },
    /// The connection is lost; what was queued on it is dropped.
    Disconnected {
        /// The graph.
        network: Network,
        /// The peer.
        peer: Party,
    },
    /// A peer's connection is lost and its address refuses a new one.
    Unreachable {
        /// The peer.
        peer: Party,
    },
    /// The address of a peer that was never connected refuses connections.
    Refused {
        /// The peer.
        peer: Party,
    },
    /// A peer that was never connected has said that it takes no part.
    Declined {
        /// The peer.
        peer: Party,
    },
    /// Nothing answers at the address of a peer that is not connected.
    Unanswered {
        /// The peer.
        peer: Party,
    },
    /// A frame from a public neighbour.
    Public {
        /// The peer that sent it.
        from: Party,
        /// Without its length prefix.
        frame: Bytes,
    },
    /// A frame from a private neighbour, whom the channel has authenticated.
    Private {
        /// The peer that sent it.
        from: Party,
        /// Without its length prefix.
        frame: Bytes,
    },
    /// The transport has taken a share's ticket: its first byte is being handed out.
    Left {
        /// The share.
        share: ShareId,
    },
    /// The answer to [`Output::Recall`].
    Recalled(Recalled),
    /// The answer to [`Output::Spend`]: the plan is marked as spent, or why not.
    Spent(Result<(), String>),
    /// The answer to [`Output::Reveal`]: it is counted, or why not; then START is not said.
    Revealed(Result<(), String>),
    /// The answer to [`Output::Audit`].
    Verdict(GateVerdict),
    /// The answer to [`Output::Contribute`]: what this node contributes, clipped, with its own
    /// noise.
    Contribution {
        /// The number of the iteration.
        iteration: u32,
        /// On the plan's lattice, with its own noise.
        value: Noisy,
    },
    /// The operator wants this node to leave: it ends at once, and [`Output::Finished`] says
    /// how.
    Leave,
    /// Time has passed.
    Tick,
}

/// An output for the driver.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send a frame to a public neighbour.
    Public {
        /// The receiver.
        to: Party,
        /// Without a length prefix.
        frame: Arc<[u8]>,
    },
    /// Send a frame to a private neighbour; one of a share only if its ticket's
    /// [`take`](crate::mixing::ticket::Ticket::take) says so just before the first byte, and then
    /// with [`Input::Left`] before anything that the neighbour may answer.
    Private {
        /// The receiver.
        to: Party,
        /// Without a length prefix.
        frame: Arc<[u8]>,
        /// The share that the frame carries, if it carries one.
        share: Option<ShareId>,
    },
    /// Call shares back ([`Tickets`](crate::mixing::ticket::Tickets)), and answer at once with
    /// [`Input::Recalled`].
    Recall(Vec<ShareId>),
    /// Mark the plan as spent, durably, and answer with [`Input::Spent`]. No share leaves before.
    Spend,
    /// This node's nonce for the draw of the schedule is about to leave with its START: count that,
    /// durably, and answer with [`Input::Revealed`]. It does not leave before; and never more than
    /// [`MOST_REVEALS`](crate::messages::commitment::MOST_REVEALS) for one plan.
    Reveal,
    /// Give this node's next contribution, with [`Input::Contribution`], by half of the iteration.
    /// Whatever the data are, there is one.
    Contribute {
        /// The number of the iteration, from 2.
        iteration: u32,
        /// The values that the contribution is computed from: the model, or the latest mean (empty
        /// where there is none).
        released: Arc<[f64]>,
    },
    /// Run the gate on these logs, with the plan that [`Run::plan`](crate::run::machine::Run::plan)
    /// gives, and answer with [`Input::Verdict`].
    Audit(Arc<AgreedLogs>),
    /// Tell a person.
    Event(Event),
    /// The run is over for this node. It goes on serving others as long as it is fed.
    Finished(Box<Outcome>),
    /// Nothing more to do now; call [`Run::handle`](crate::run::machine::Run::handle) with
    /// [`Input::Tick`] at this time.
    Wait {
        /// The moment to be woken.
        until: Time,
    },
}

/// Our caller's mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InputError {
    /// An answer that was not asked for.
    #[error("Input::{0} answers no output")]
    NotAsked(&'static str),
    /// A peer that the plan does not have.
    #[error("there is no party {0} in the plan")]
    Peer(Party),
}
