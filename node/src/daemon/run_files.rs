//! The files of runs in the state directory: plans, means, receipts. They are served as they were
//! written, or not at all.

use std::path::Path;

use crate::daemon::mean_file::RunResult;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::service::Service;
use crate::daemon::state::checksum;
use crate::reporting::failure::{Exit, Failure};

/// A receipt and its signature.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// The bytes of receipt.json.
    pub json: String,
    /// The line of receipt.json.sig.
    pub signature: String,
}

impl Service {
    /// The very text of a run's or an offer's plan.
    pub async fn plan(&self, digest: &str) -> Result<String, Refusal> {
        let bytes = match self.known(digest) {
            Ok(run) => {
                let path = run.folder().join("plan.json");
                let bytes = read(&path).await?;
                if checksum(&bytes) != digest {
                    let failure = not_as_written(&path);
                    self.shared.runs.damaged.note(&path, &failure);
                    return Err(failure.into());
                }
                self.shared.runs.damaged.forget(&path);
                bytes
            }
            Err(refusal) if self.shared.offers.get(digest).is_none() => return Err(refusal),
            Err(_) => self.shared.offers.plan(digest)?,
        };
        String::from_utf8(bytes)
            .map_err(|_| Refusal::new(Kind::Internal, "the stored plan is not valid UTF-8"))
    }

    /// The result that a run gave.
    pub async fn result(&self, digest: &str) -> Result<RunResult, Refusal> {
        let run = self.known(digest)?;
        run.over()?;
        let Some(mean) = run.mean() else {
            let status = run.status();
            let why = status
                .reason
                .or(status.outcome)
                .unwrap_or_else(|| "it ended without one".into());
            return Err(Refusal::new(Kind::Unknown, format!("the run has no mean: {why}")).field("digest"));
        };
        let (folder, damaged) = (run.folder().to_owned(), &self.shared.runs.damaged);
        let path = folder.join(&mean.name);
        let read = tokio::task::spawn_blocking(move || mean.read(&folder)).await;
        read.map_err(|e| Refusal::new(Kind::Internal, e.to_string()))?
            .inspect(|_| damaged.forget(&path))
            .inspect_err(|failure| damaged.note(&path, failure))
            .map_err(|failure| Refusal {
                kind: Kind::Internal,
                ..failure.into()
            })
    }

    /// The signed receipt that a run left, also where its folder was deleted since.
    pub async fn receipt(&self, digest: &str) -> Result<Receipt, Refusal> {
        let run = match self.known(digest) {
            Ok(run) => run,
            // What is damaged has no older receipt in its place.
            Err(refusal) if self.shared.runs.damaged.refusal(digest).is_some() => return Err(refusal),
            Err(refusal) => return self.kept_receipt(digest).await?.ok_or(refusal),
        };
        run.over()?;
        let (path, damaged) = (run.folder().join("receipt.json"), &self.shared.runs.damaged);
        let read = match run.receipt() {
            // Its folder may have been deleted just now.
            Err(failure) => match self.kept_receipt(digest).await? {
                Some(receipt) if !run.folder().exists() => return Ok(receipt),
                _ => Err(failure),
            },
            read => read,
        };
        let read = read
            .inspect(|_| damaged.forget(&path))
            .inspect_err(|failure| damaged.note(&path, failure))?;
        let Some(both) = read else {
            return Err(Refusal::new(
                Kind::Unknown,
                "the run has no receipt: it did not take part to its end",
            )
            .field("digest"));
        };
        let [json, signature] = both.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(Receipt { json, signature })
    }

    /// The receipt of a run whose folder was deleted.
    async fn kept_receipt(&self, digest: &str) -> Result<Option<Receipt>, Refusal> {
        let (shared, digest) = (self.shared.clone(), digest.to_owned());
        // The first to ask may wait until a long file is read.
        let read = tokio::task::spawn_blocking(move || shared.receipts.read(&digest)).await;
        let kept = read.map_err(|e| Refusal::new(Kind::Internal, e.to_string()))??;
        Ok(kept.map(|kept| Receipt {
            json: kept.receipt,
            signature: kept.signature,
        }))
    }
}

/// A file that was changed since it was written.
fn not_as_written(path: &Path) -> Failure {
    Failure::new(
        Exit::Internal,
        format!("{}: is not what was written", path.display()),
    )
    .hint("restore it from a backup of the state folder")
}

async fn read(path: &Path) -> Result<Vec<u8>, Refusal> {
    let deleted =
        |e: std::io::Error| Refusal::new(Kind::Internal, format!("{}: cannot be read: {e}", path.display()));
    tokio::fs::read(path).await.map_err(deleted)
}
