//! Questions that a peer may ask outside of any run, and the replies.

use serde::{Deserialize, Serialize};

use crate::messages::revocation::STATEMENTS_LIMIT;
use crate::messages::signature::Digest;

/// Most bytes that an [`Question::Echo`] carries.
pub const ECHO_LIMIT: usize = 1 << 20;
/// Most bytes of an outcome in one reply: as many as a reply carries.
pub const PIECE_LIMIT: usize = ECHO_LIMIT;
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
    /// Will you be in the plan that the asker makes for this attempt of a schedule?
    Attend {
        /// The occurrence that is due.
        occurrence: Digest,
        /// The number of the attempt, whose one proposer the asker is.
        attempt: u32,
    },
    /// Which outcome has the run of this plan? Asked by a member that restarted after it had spent
    /// the plan, over Noise only.
    Outcome {
        /// The plan's digest.
        digest: Digest,
        /// The first byte that is asked for, of record and mean one after the other.
        from: u64,
    },
    /// Which keys are revoked, as far as you know? Over Noise only. The payload is the statements
    /// that the asker knows the answerer to lack.
    Keys {
        /// Stands for what the asker holds: see `Revocations::digest`.
        held: Digest,
    },
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
        /// SHA-256 of the answerer's peer list; `None`: it has none, or was asked in the clear.
        list: Option<Digest>,
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
    /// The answer to [`Question::Attend`]: yes.
    Attends {
        /// The number of records that the answerer brings, where its run file leaves that to each.
        records: Option<u32>,
    },
    /// The answer to [`Question::Attend`]: the attempt has not begun by the answerer's clock.
    Early {
        /// That clock, in milliseconds since 1970.
        time_ms: u64,
    },
    /// The answer to [`Question::Outcome`]: the payload is up to [`PIECE_LIMIT`] bytes of record
    /// and mean, from the one that was asked for.
    Outcome {
        /// SHA-256 of the outcome's record.
        record: Digest,
        /// SHA-256 of its mean: coordinates as f64, little-endian.
        mean: Digest,
        /// Bytes of the record.
        record_bytes: u64,
        /// Bytes of the mean.
        mean_bytes: u64,
    },
    /// The answer to [`Question::Outcome`] of a node that has none.
    NoOutcome {
        /// Whether it takes part in the run still, and may have one later.
        running: bool,
    },
    /// The answer to [`Question::Keys`]: the payload is all statements that the answerer holds, or
    /// nothing if the asker holds statements of the same keys.
    Keys {
        /// Stands for what the answerer holds.
        held: Digest,
    },
}

impl Question {
    /// Most bytes beside this question, and beside its reply.
    pub fn payload_limit(&self) -> usize {
        match self {
            Question::Check { .. } | Question::Attend { .. } | Question::Outcome { .. } => 0,
            Question::Echo => ECHO_LIMIT,
            Question::Offer => OFFER_LIMIT,
            Question::Keys { .. } => STATEMENTS_LIMIT,
        }
    }
}
