//! The statements in memory and on disk: `keys/ID.json` of the state folder, which nobody deletes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libp2p::PeerId;
use serde::{Deserialize, Serialize};
use undertone_protocol::messages::revocation::{Revocation, RevocationError, Revocations, Revoked};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::Peers;
use utoipa::ToSchema;

use crate::daemon::damaged::Damaged;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::state::{read_record, write_record};
use crate::planning::revoked::{HINT, parse_line, sentence, to_line};
use crate::reporting::failure::Failure;

/// A statement as a file has it.
#[derive(Deserialize, Serialize)]
struct KeyRecord {
    /// The line of text.
    line: String,
    /// The id of the key that signed it, as the list said when it was taken.
    by: String,
}

impl KeyRecord {
    fn of(revoked: &Revoked) -> Self {
        KeyRecord {
            line: to_line(&revoked.statement),
            by: revoked.by.to_string(),
        }
    }

    /// The statement; its signature is not checked. Refused (exit 2) if it is none.
    fn revoked(&self) -> Result<Revoked, Failure> {
        let unread = |_| Failure::usage(format!("{:?} is no id of a key", self.by));
        Ok(Revoked {
            statement: parse_line(&self.line)?,
            by: self.by.parse().map_err(unread)?,
        })
    }
}

/// A key that is revoked, with the statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RevokedKey {
    /// The key's id.
    pub id: String,
    /// Its name in the peer list; null if it is not there any more.
    pub name: Option<String>,
    /// When the statement was signed, in milliseconds since 1970 (UTC), as its signer says.
    pub at_ms: u64,
    /// The id of the key that signed it: the revoked one, or its recovery key.
    pub by: String,
    /// The statement as a line of text, to hand on.
    pub line: String,
}

impl RevokedKey {
    /// Whose key signed the statement.
    pub fn signer(&self) -> &'static str {
        match self.by == self.id {
            true => "itself",
            false => "its recovery key",
        }
    }
}

#[derive(Default)]
struct Held {
    statements: Revocations,
    /// Keys whose files are not what was written: they stay revoked, and the statement is taken
    /// again from whoever has it.
    unreadable: BTreeSet<PeerId>,
}

/// The statements that this daemon holds.
pub(in crate::daemon) struct Keys {
    folder: PathBuf,
    held: Mutex<Held>,
    /// Files that are not what was written.
    pub(in crate::daemon) damaged: Damaged,
}

impl Keys {
    /// Reads them. A damaged file is named, and the key that its name says stays revoked. Refused
    /// (exit 2) if the folder cannot be read.
    pub(in crate::daemon) fn open(folder: PathBuf) -> Result<Self, Failure> {
        let refused = |e: io::Error| {
            Failure::usage(format!("{}: cannot be read: {e}", folder.display())).field("state")
        };
        let (mut held, damaged) = (Held::default(), Damaged::default());
        for entry in fs::read_dir(&folder).map_err(refused)? {
            let path = entry.map_err(refused)?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let named = stem.and_then(|stem| stem.parse::<PeerId>().ok());
            let Some(id) = named.filter(|_| path.extension().is_some_and(|it| it == "json")) else {
                continue;
            };
            match read(&path, id) {
                Ok(revoked) if held.statements.restore(revoked) => {}
                read => {
                    let what = format!("{}: its signature does not hold", path.display());
                    let failure = read.err().unwrap_or_else(|| Failure::usage(what));
                    damaged.note(&path, &failure.hint(
                        "the key stays revoked, and the statement is read again from the other daemons; or restore the file from a backup",
                    ));
                    held.unreadable.insert(id);
                }
            }
        }
        Ok(Keys {
            folder,
            held: Mutex::new(held),
            damaged,
        })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a statement of a listed id, if that was not revoked before.
    ///
    /// # Errors
    /// It is of no listed id, or not signed by who may.
    pub(super) fn take(&self, list: &Peers, statement: Revocation) -> Result<Option<Revoked>, Refusal> {
        let taken = self.held().statements.take(list, statement);
        let taken = taken.map_err(|error: RevocationError| {
            Refusal::new(Kind::Malformed, format!("the statement {error}"))
                .field("statement")
                .hint("compare the ids with the peer list, and the line with the one that was sent")
        })?;
        taken.iter().for_each(|revoked| self.keep(revoked));
        Ok(taken)
    }

    /// Takes what is new of the statements that a peer sent.
    pub(super) fn take_all(&self, list: &Peers, bytes: &[u8]) -> Vec<Revoked> {
        let new = self.held().statements.take_all(list, bytes);
        new.iter().for_each(|revoked| self.keep(revoked));
        new
    }

    /// Writes a statement; on disk, file and folder, when this returns. One that cannot be written
    /// is heeded all the same: after a restart the others say it again.
    fn keep(&self, revoked: &Revoked) {
        let id = revoked.statement.id;
        let path = self.folder.join(format!("{id}.json"));
        match write_record(&path, &KeyRecord::of(revoked)) {
            Ok(()) => {
                self.damaged.forget(&path);
                self.held().unreadable.remove(&id);
            }
            Err(error) => {
                tracing::error!(%id, %error, "a statement cannot be written: a restart forgets it");
            }
        }
    }

    /// The statements as a backup has them: a line of JSON each.
    pub(in crate::daemon) fn to_lines(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut lines = vec![];
        for revoked in self.held().statements.iter() {
            serde_json::to_writer(&mut lines, &KeyRecord::of(revoked))?;
            lines.push(b'\n');
        }
        Ok(lines)
    }

    /// Adds the statements of a backup about keys of which it holds none; how many.
    pub(in crate::daemon) fn take_in(&self, lines: &[u8]) -> usize {
        let read = |line| serde_json::from_slice::<KeyRecord>(line).ok()?.revoked().ok();
        let statements = lines.split(|&byte| byte == b'\n').filter_map(read);
        let lacking = statements.filter(|revoked| {
            let mut held = self.held();
            held.statements.of(&revoked.statement.id).is_none() && held.statements.restore(*revoked)
        });
        lacking.inspect(|revoked| self.keep(revoked)).count()
    }

    /// Stands for what is held: see [`Revocations::digest`].
    pub(super) fn digest(&self) -> [u8; 32] {
        self.held().statements.digest()
    }

    /// The statements but those about these ids.
    pub(super) fn to_bytes_but(&self, ids: &BTreeSet<PeerId>) -> Vec<u8> {
        self.held().statements.to_bytes_but(ids)
    }

    /// The keys that are revoked.
    pub(in crate::daemon) fn barred(&self) -> BTreeSet<PeerId> {
        let held = self.held();
        let ids = held.statements.iter().map(|revoked| revoked.statement.id);
        ids.chain(held.unreadable.iter().copied()).collect()
    }

    /// Says of a revoked key which statement revokes it; `None` of any other.
    pub(in crate::daemon) fn sentence(&self, name: &str, id: &PeerId) -> Option<String> {
        let held = self.held();
        let unreadable = || {
            let what = format!("the key of {name} ({id}) was revoked, by a statement whose file is damaged");
            held.unreadable.contains(id).then_some(what)
        };
        held.statements
            .of(id)
            .map(|revoked| sentence(name, revoked))
            .or_else(unreadable)
    }

    /// Refuses a plan that names a revoked key.
    ///
    /// # Errors
    /// It does (exit 3).
    pub(in crate::daemon) fn check(&self, plan: &Plan) -> Result<(), Refusal> {
        let mut members = plan.draft().members.iter();
        let revoked = members.find_map(|member| self.sentence(&member.name, &member.id));
        revoked.map_or(Ok(()), |sentence| {
            let what = format!("the plan names a revoked key: {sentence}");
            Err(Refusal::new(Kind::Plan, what).field("plan").hint(HINT))
        })
    }

    /// The first of these ids that is revoked.
    pub(in crate::daemon) fn first_of<'a>(
        &self,
        mut ids: impl Iterator<Item = &'a PeerId>,
    ) -> Option<PeerId> {
        let barred = self.barred();
        ids.find(|id| barred.contains(id)).copied()
    }

    /// All statements, by id.
    pub(in crate::daemon) fn all(&self, list: &Peers) -> Vec<RevokedKey> {
        let held = self.held();
        let shown = |revoked: &Revoked| RevokedKey {
            id: revoked.statement.id.to_string(),
            name: list.name_of(&revoked.statement.id).map(str::to_owned),
            at_ms: revoked.statement.at_ms,
            by: revoked.by.to_string(),
            line: to_line(&revoked.statement),
        };
        held.statements.iter().map(shown).collect()
    }
}

fn read(path: &Path, id: PeerId) -> Result<Revoked, Failure> {
    let record: KeyRecord = read_record(path)?;
    let other = || Failure::usage(format!("{}: is about another key", path.display()));
    let revoked = record.revoked().map_err(|failure| failure.in_file(path))?;
    match revoked.statement.id == id {
        true => Ok(revoked),
        false => Err(other()),
    }
}
