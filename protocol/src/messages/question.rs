//! Questions that a peer may ask outside of any run, and the replies.

use serde::{Deserialize, Serialize};

use crate::messages::signature::Digest;

/// Most bytes that an [`Question::Echo`] carries.
pub const ECHO_LIMIT: usize = 1 << 20;
/// Most bytes of an offered plan: one of 200 parties and 40 rounds has less than a tenth.
pub const OFFER_LIMIT: usize = 16 << 20;

/// A question that a peer may ask outside of any run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Who are you, and do you know a plan?
    Check {
        /// The plan that is asked about, if there is one.
        digest: Option<Digest>,
    },
    /// Send these bytes back.
    Echo,
    /// Will you take part in this plan? Its bytes are the payload.
    Offer,
}

/// The reply to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The answer to [`Question::Check`].
    Checked {
        /// Version of the messages in frames.
        messages: u32,
        /// Version of the software.
        software: String,
        /// The answerer's clock, in milliseconds since 1970.
        time_ms: u64,
        /// The fate of the plan that was asked for, in a word ("running", "offered", …); `None`:
        /// it is not known.
        plan: Option<String>,
        /// The only plan that the answerer's process takes part in, if it has only one and that is
        /// another.
        other: Option<Digest>,
        /// The address from which the answerer sees the asker, as a multiaddress.
        seen: String,
    },
    /// The answer to [`Question::Echo`]: the payload is the question's.
    Echoed,
    /// The answer to [`Question::Offer`]: the plan was received and is looked at.
    Taken,
    /// The answer is no.
    Refused {
        /// The reason, in a sentence.
        reason: String,
    },
}

impl Question {
    /// Most bytes beside this question, and beside its reply.
    pub fn payload_limit(&self) -> usize {
        match self {
            Question::Check { .. } => 0,
            Question::Echo => ECHO_LIMIT,
            Question::Offer => OFFER_LIMIT,
        }
    }
}
