//! The registry of plans that this node has taken part in: no plan twice, ever.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::telling::failure::{Exit, Failure};

/// What has to be on disk before anything private leaves this node.
pub trait Costs: Send {
    /// Marks the plan as spent, before the first share leaves. If it fails none does.
    fn spend(&mut self) -> Result<(), Failure>;

    /// The agreed logs cost μ = `mu`: called before the final leaves. If it fails the final is
    /// withheld.
    fn settle(&mut self, mu: f64) -> Result<(), Failure>;
}

impl Costs for Spent {
    fn spend(&mut self) -> Result<(), Failure> {
        Spent::spend(self)
    }

    fn settle(&mut self, _: f64) -> Result<(), Failure> {
        Ok(())
    }
}

/// The file `spent/DIGEST-PEERID` of one plan and one identity in a state directory.
#[derive(Clone, Debug)]
pub struct Spent {
    file: PathBuf,
}

impl Spent {
    /// Makes the folders; fails (exit 2) if they cannot be written.
    pub fn open(state: &Path, digest: &str, peer_id: &str) -> Result<Self, Failure> {
        let folder = state.join("spent");
        let refused = |e: io::Error| {
            Failure::usage(format!("state folder {}: not writable: {e}", state.display()))
                .field("--state")
                .hint(
                    "choose a folder that you can write to, and keep it from run to run: \
                       it remembers which plans were spent",
                )
        };
        std::fs::create_dir_all(&folder).map_err(refused)?;
        tempfile::tempfile_in(&folder).map_err(refused)?;
        Ok(Spent {
            file: folder.join(format!("{digest}-{peer_id}")),
        })
    }

    /// Looked for first of all, before anything is sent.
    pub fn check(&self) -> Result<(), Failure> {
        if self.file.exists() {
            Err(self.refusal())
        } else {
            Ok(())
        }
    }

    /// Spends the plan: creates the file exclusively and syncs it and its folder, before the first
    /// share leaves.
    pub fn spend(&self) -> Result<(), Failure> {
        match OpenOptions::new().write(true).create_new(true).open(&self.file) {
            Ok(file) => file
                .sync_all()
                .and_then(|()| sync_folder(&self.file))
                .map_err(|e| self.unwritten(e)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(self.refusal()),
            Err(e) => Err(self.unwritten(e)),
        }
    }

    fn refusal(&self) -> Failure {
        Failure::new(
            Exit::PrivacyRefused,
            "this node has already taken part in this plan",
        )
        .field(self.file.display())
        .hint("a second run with fresh noise would cost privacy twice; make a new plan")
    }

    fn unwritten(&self, e: io::Error) -> Failure {
        Failure::usage(format!("{}: cannot be written: {e}", self.file.display())).field("--state")
    }
}

fn sync_folder(file: &Path) -> io::Result<()> {
    file.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_spent_once_by_each_identity() {
        let folder = tempfile::tempdir().unwrap();
        let open = |peer| Spent::open(folder.path(), "d1", peer).unwrap();
        open("alice").check().unwrap();
        open("alice").spend().unwrap();
        assert_eq!(open("alice").check().unwrap_err().exit, Exit::PrivacyRefused);
        assert_eq!(open("alice").spend().unwrap_err().exit, Exit::PrivacyRefused);
        open("bob").spend().unwrap();
    }
}
