//! EXECUTION.json: an execution as text (node/guide/formats.md). PPSC's are written in a format of
//! their own ([`ppsc_file`]), those of masks of pairs in another.

use serde::ser::Error;
use serde::{Serialize, Serializer};

use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::raw::RawExecution;
use crate::execution::{masks_file, ppsc_file};
use crate::mechanism::chosen::Mechanism;
use crate::mechanism::rules::Format;

impl Execution {
    /// Reads EXECUTION.json; unknown keys are refused.
    pub fn parse(text: &str) -> Result<Self, ExecutionError> {
        if masks_file::is_of_masks(text) {
            return masks_file::parse(text);
        }
        let raw: RawExecution = serde_json::from_str(text).map_err(|error| ExecutionError::syntax(&error))?;
        raw.try_into()
    }
}

impl Serialize for Execution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if matches!(self.mechanism(), Mechanism::Custom(_)) {
            return Err(S::Error::custom(
                "no file says what another program's own mechanism is",
            ));
        }
        match self.mechanism().rules().format() {
            Format::Shares => self.raw().serialize(serializer),
            Format::Exchanges => ppsc_file::serialize(self, serializer),
            Format::Masks => masks_file::serialize(self, serializer),
        }
    }
}
