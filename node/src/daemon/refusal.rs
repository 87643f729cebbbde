//! The reasons why the daemon did not do what it was asked: the API answers them as problem+json,
//! and clients exit with their codes.

use std::path::Path;
use std::{fmt, io};

use crate::reporting::escaped::shortened;
use crate::reporting::failure::{Exit, Failure};

/// The kind of a refusal: fixes the HTTP status and the exit code of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request makes no sense: 400, exit 2.
    Malformed,
    /// The ledger has not enough left: 403, exit 6.
    Budget,
    /// The plan's claims may hold, but not within this node's policy: 403, exit 3.
    Policy,
    /// There is no such run, offer or file: 404, exit 2.
    Unknown,
    /// The run is in another state than that needs: submitted before, begun, without a result yet:
    /// 409, exit 2.
    Conflict,
    /// This node has taken part in the plan before: 409, exit 6.
    Spent,
    /// More bytes than the daemon takes: 413, exit 2.
    TooLarge,
    /// The plan does not verify: 422, exit 3.
    Plan,
    /// The vector cannot be used: 422, exit 7.
    Input,
    /// Too many runs wait: 429, exit 2.
    Busy,
    /// The daemon is ending, or is not ready: 503, exit 2.
    Unavailable,
    /// The state directory cannot be written, such as when the disk is full: 507, exit 75.
    Storage,
    /// Our bug: 500, exit 70.
    Internal,
}

impl Kind {
    /// As problem+json's `type` names it, after `urn:undertone:`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Malformed => "malformed",
            Kind::Budget => "budget",
            Kind::Policy => "policy",
            Kind::Unknown => "unknown",
            Kind::Conflict => "conflict",
            Kind::Spent => "spent",
            Kind::TooLarge => "too-large",
            Kind::Plan => "plan-refused",
            Kind::Input => "input-unusable",
            Kind::Busy => "busy",
            Kind::Unavailable => "unavailable",
            Kind::Storage => "storage",
            Kind::Internal => "internal",
        }
    }

    /// The HTTP status that stands for it.
    pub fn status(self) -> u16 {
        match self {
            Kind::Malformed => 400,
            Kind::Budget | Kind::Policy => 403,
            Kind::Unknown => 404,
            Kind::Conflict | Kind::Spent => 409,
            Kind::TooLarge => 413,
            Kind::Plan | Kind::Input => 422,
            Kind::Busy => 429,
            Kind::Internal => 500,
            Kind::Unavailable => 503,
            Kind::Storage => 507,
        }
    }

    /// Returns the exit code of a client.
    pub fn exit(self) -> Exit {
        match self {
            Kind::Budget | Kind::Spent => Exit::PrivacyRefused,
            Kind::Plan | Kind::Policy => Exit::PlanRefused,
            Kind::Input => Exit::InputUnusable,
            Kind::Internal => Exit::Internal,
            Kind::Malformed
            | Kind::Unknown
            | Kind::Conflict
            | Kind::TooLarge
            | Kind::Busy
            | Kind::Unavailable => Exit::Usage,
            Kind::Storage => Exit::TryAgain,
        }
    }
}

/// A refusal: one sentence, what is at fault, and what to do about it. Never a private value.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The kind of refusal.
    pub kind: Kind,
    /// The problem, in one sentence.
    pub message: String,
    /// The key, parameter or file at fault.
    pub field: Option<String>,
    /// A step that would help.
    pub hint: Option<String>,
}

impl Refusal {
    /// A refusal with a message alone.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Refusal {
            kind,
            message: shortened(message.into()),
            field: None,
            hint: None,
        }
    }

    /// Returns the message for other nodes: what is wrong with this one's disk is nobody else's
    /// concern.
    pub fn for_others(self) -> String {
        match self.kind {
            Kind::Storage | Kind::Internal => "this node cannot keep it now; its operator is told why".into(),
            Kind::Input | Kind::Unknown => "this node has nothing to bring to it".into(),
            _ => self.message,
        }
    }

    /// Names what is at fault.
    pub fn field(mut self, field: impl fmt::Display) -> Self {
        self.field = Some(field.to_string());
        self
    }

    /// Says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says a user's name of a file in place of ours.
    pub(super) fn rename(mut self, ours: &str, theirs: &str) -> Self {
        let texts = [Some(&mut self.message), self.field.as_mut(), self.hint.as_mut()];
        for text in texts.into_iter().flatten() {
            *text = text.replace(ours, theirs);
        }
        self
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let kind = match failure.exit {
            Exit::PlanRefused => Kind::Plan,
            Exit::PrivacyRefused => Kind::Spent,
            Exit::InputUnusable => Kind::Input,
            Exit::Internal => Kind::Internal,
            Exit::TryAgain => Kind::Storage,
            Exit::Usage | Exit::Done | Exit::Aborted | Exit::Degraded => Kind::Malformed,
        };
        Refusal {
            kind,
            message: failure.message,
            field: failure.field,
            hint: failure.hint,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// The second submission of a plan whose run goes on.
pub(super) fn twice() -> Refusal {
    Refusal::new(
        Kind::Conflict,
        "this plan was submitted before, and its run goes on",
    )
    .field("plan")
    .hint("`undertone watch DIGEST` follows it; every run needs a plan of its own")
}

pub(super) fn unwritten(path: &Path, error: &io::Error) -> Refusal {
    Refusal::new(
        Kind::Storage,
        format!("{}: cannot be written: {error}", path.display()),
    )
    .field("state")
    .hint("make room on the disk of the state folder")
}
