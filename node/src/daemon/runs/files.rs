//! The files of a run's folder: its plan, and its receipt.

use std::io;

use libp2p::PeerId;
use serde_json::Value;

use crate::daemon::runs::Run;
use crate::daemon::state::checksum;
use crate::reporting::failure::{Exit, Failure};

impl Run {
    /// Whether its plan names this id as a member.
    ///
    /// # Errors
    /// The plan cannot be read.
    pub(in crate::daemon) fn names(&self, id: &PeerId) -> io::Result<bool> {
        let plan: Value = serde_json::from_slice(&std::fs::read(self.folder.join("plan.json"))?)?;
        let id = id.to_string();
        let mut members = plan["members"].as_array().into_iter().flatten();
        Ok(members.any(|member| member["id"] == *id))
    }

    pub(super) fn read_receipt(&self) -> io::Result<[Vec<u8>; 2]> {
        let read = |name: &str| std::fs::read(self.folder.join(name));
        Ok([read("receipt.json")?, read("receipt.json.sig")?])
    }

    /// The bytes of its receipt and of the signature, as they were written. `None` if it ended
    /// without one.
    ///
    /// # Errors
    /// They are not what was written.
    pub(in crate::daemon) fn receipt(&self) -> Result<Option<[Vec<u8>; 2]>, Failure> {
        let Some(written) = self.written_receipt() else {
            return Ok(None);
        };
        let path = self.folder.join("receipt.json");
        let damaged = |what: String| {
            Failure::new(Exit::Internal, format!("{}: {what}", path.display()))
                .hint("restore it and its .sig from a backup of the state folder")
        };
        let [json, signature] = self
            .read_receipt()
            .map_err(|e| damaged(format!("cannot be read: {e}")))?;
        if checksum(&[&json[..], &signature].concat()) != written {
            return Err(damaged(
                "is not the receipt that was written, or its signature is not".into(),
            ));
        }
        Ok(Some([json, signature]))
    }
}
