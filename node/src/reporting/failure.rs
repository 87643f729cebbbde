//! The failure of a command: one sentence, the field at fault, what to do about it, and an exit
//! code.

use std::fmt;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::reporting::escaped::shortened;

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All went as asked.
    Done = 0,
    /// Flags, a file of ours, or something that this machine refuses.
    Usage = 2,
    /// The plan was refused.
    PlanRefused = 3,
    /// Aborted; nothing private has left this node.
    Aborted = 4,
    /// Finished, but somebody of the plan is missing, not enough members agreed, or this party
    /// contributed nothing to some round.
    Degraded = 5,
    /// Budget, plan already spent, or final withheld.
    PrivacyRefused = 6,
    /// Vector, records, labels or execution file not usable.
    InputUnusable = 7,
    /// A bug of ours.
    Internal = 70,
    /// The disk is full: the same command works once there is room (sysexits' EX_TEMPFAIL).
    TryAgain = 75,
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// The exit with this code.
    pub fn of(code: i32) -> Option<Self> {
        use Exit::*;
        [
            Done,
            Usage,
            PlanRefused,
            Aborted,
            Degraded,
            PrivacyRefused,
            InputUnusable,
            Internal,
            TryAgain,
        ]
        .into_iter()
        .find(|e| e.code() == code)
    }

    /// Returns the most serious of several nodes' codes, with which `local` exits. It is the first
    /// in the order 70, 6, 3, 7, 2, 75, 4, 5, 0.
    pub fn worst(codes: impl IntoIterator<Item = i32>) -> i32 {
        const ORDER: [i32; 9] = [0, 5, 4, 75, 2, 7, 3, 6, 70];
        let rank = |code: i32| ORDER.iter().position(|&c| c == code).unwrap_or(ORDER.len() - 1);
        ORDER[codes.into_iter().map(rank).max().unwrap_or(0)]
    }

    fn kind(self) -> &'static str {
        match self {
            Exit::Done => "done",
            Exit::Usage => "usage",
            Exit::PlanRefused => "plan-refused",
            Exit::Aborted => "aborted",
            Exit::Degraded => "degraded",
            Exit::PrivacyRefused => "privacy-refused",
            Exit::InputUnusable => "input-unusable",
            Exit::Internal => "internal",
            Exit::TryAgain => "try-again",
        }
    }
}

/// The failure of a command to do what it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The exit code of the process.
    pub exit: Exit,
    /// The problem, in one sentence; never a private value.
    pub message: String,
    /// The flag, key, column or file at fault.
    pub field: Option<String>,
    /// A step that would help.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure with a message alone.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure {
            exit,
            message: shortened(message.into()),
            field: None,
            hint: None,
        }
    }

    /// A failure of flags, files of ours or this machine (exit 2).
    pub fn usage(message: impl Into<String>) -> Self {
        Failure::new(Exit::Usage, message)
    }

    /// A failure of a file or folder that this machine cannot write or make: exit 75 if the disk,
    /// or the user's share of it, is full, else 2.
    pub fn storage(error: &io::Error, message: impl Into<String>) -> Self {
        let exit = if is_full(error) {
            Exit::TryAgain
        } else {
            Exit::Usage
        };
        Failure::new(exit, message)
    }

    /// A failure of a private input or an execution file (exit 7).
    pub fn input(message: impl Into<String>) -> Self {
        Failure::new(Exit::InputUnusable, message)
    }

    /// Says in which file it is.
    pub fn in_file(mut self, path: &Path) -> Self {
        self.message = format!("{}: {}", path.display(), self.message);
        self
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

    /// The object that `--json` prints.
    pub fn to_json(&self) -> Value {
        json!({
            "error": {
                "kind": self.exit.kind(),
                "message": self.message,
                "field": self.field,
                "hint": self.hint,
            },
            "exit_code": self.exit.code(),
        })
    }
}

/// Whether it says that a disk, or the user's share of it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl Failure {
    /// Reads the failure of another process of this program from the object that its `--json`
    /// printed.
    pub fn from_json(object: &Value) -> Option<Self> {
        let code = object["exit_code"].as_i64()?;
        let error = &object["error"];
        let text = |key: &str| error[key].as_str().map(str::to_owned);
        Some(Failure {
            exit: Exit::of(code.try_into().ok()?)?,
            message: text("message")?,
            field: text("field"),
            hint: text("hint"),
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(field) = self
            .field
            .as_ref()
            .filter(|field| !self.message.contains(field.as_str()))
        {
            write!(f, " (at {field})")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_survives_its_object() {
        let whole = Failure::input("x").field("--input").hint("y");
        for failure in [Failure::usage("x"), whole] {
            assert_eq!(Failure::from_json(&failure.to_json()), Some(failure));
        }
        assert_eq!(Failure::from_json(&json!({ "exit_code": 5 })), None);
    }

    #[test]
    fn the_worst_code_follows_the_documented_order() {
        assert_eq!(Exit::worst([0, 5, 0]), 5);
        assert_eq!(Exit::worst([5, 4]), 4);
        assert_eq!(Exit::worst([4, 2, 7, 3, 6]), 6);
        assert_eq!(Exit::worst([6, 70]), 70);
        assert_eq!(Exit::worst([6, 101]), 70, "a panic is our bug");
        assert_eq!((Exit::worst([5, 75, 4]), Exit::worst([75, 2])), (75, 2));
        assert_eq!(Exit::worst([]), 0);
    }

    #[test]
    fn only_a_full_disk_is_worth_another_try() {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        let exit = |kind: io::ErrorKind| Failure::storage(&kind.into(), "x").exit;
        assert_eq!(full.map(exit), [Exit::TryAgain; 2]);
        let others = [
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::ReadOnlyFilesystem,
            io::ErrorKind::NotFound,
            io::ErrorKind::FileTooLarge,
        ];
        assert_eq!(others.map(exit), [Exit::Usage; 4]);
        assert_eq!(Exit::of(75), Some(Exit::TryAgain));
    }
}
