//! Keys that are not to be trusted any more: statements as lines of text, and what they forbid.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use libp2p::PeerId;
use undertone_protocol::messages::revocation::{Revocation, RevocationError, Revocations, Revoked};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::Peers;

use crate::planning::{files, make};
use crate::reporting::date::utc;
use crate::reporting::failure::{Exit, Failure};

/// The hint for an operator who meets a revoked key.
pub const HINT: &str =
    "ask for a plan without it; `undertone group open --from` makes a list without it, or with a new key";

/// The statements that a command knows.
#[derive(Args, Clone, Debug)]
pub struct KnownKeys {
    /// Trust no key that is revoked in this file
    ///
    /// Statements, one a line, as `undertone peers revoked` prints them. A plan that names such a
    /// key is refused, and a result that its holder gives does not count.
    #[arg(long, value_name = "FILE", requires = "peers", hide_short_help = true)]
    keys: Option<PathBuf>,
    /// The peer list whose keys --keys is about
    #[arg(long, value_name = "PEERS.toml", requires = "keys", hide_short_help = true)]
    peers: Option<PathBuf>,
}

impl KnownKeys {
    /// Refuses a plan that names a key which a statement revokes.
    ///
    /// # Errors
    /// The plan does (exit 3), or a file cannot be used (exit 2).
    pub fn check(&self, plan: &Plan) -> Result<(), Failure> {
        refuse_plan(&self.revoked()?, plan)
    }

    /// The statements; none where no file was named.
    ///
    /// # Errors
    /// A file cannot be used (exit 2).
    pub fn revoked(&self) -> Result<Revocations, Failure> {
        let (Some(keys), Some(peers)) = (&self.keys, &self.peers) else {
            return Ok(Revocations::default());
        };
        let list = Peers::parse(&files::read_text(peers, "--peers")?);
        let list = list.map_err(|e| make::peers_failure(peers, &e))?;
        read(keys, &[&list])
    }
}

/// A statement as a line of text.
pub fn to_line(statement: &Revocation) -> String {
    STANDARD.encode(statement.to_bytes())
}

/// Reads a line of text; its signature is not checked.
///
/// # Errors
/// It is no statement (exit 2).
pub fn parse_line(line: &str) -> Result<Revocation, Failure> {
    let bytes = STANDARD.decode(line.trim()).unwrap_or_default();
    Revocation::from_bytes(&bytes).map_err(|e| {
        Failure::usage(format!("the line {e}"))
            .hint("paste the whole line that `undertone identity revoke` printed")
    })
}

/// Reads statements, one a line, about keys of any of these lists. Lines that begin with # and
/// statements about other keys are skipped.
///
/// # Errors
/// A line that is no statement, or is not signed by who may (exit 2).
pub fn read(file: &Path, lists: &[&Peers]) -> Result<Revocations, Failure> {
    let mut held = Revocations::default();
    let text = files::read_text(file, "--keys")?;
    let lines = (1..).zip(text.lines().map(str::trim));
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let refused = |failure: Failure| Failure {
            message: format!("{}, line {number}: {}", file.display(), failure.message),
            ..failure.field("--keys")
        };
        let statement = parse_line(line).map_err(refused)?;
        let taken = lists.iter().map(|list| held.take(list, statement));
        let is_known =
            |taken: &Result<_, RevocationError>| !matches!(taken, Err(RevocationError::NotListed { .. }));
        let known: Vec<_> = taken.filter(is_known).collect();
        // One list may have another recovery key than the other.
        if let (Some(Err(error)), true) = (known.first(), known.iter().all(Result::is_err)) {
            return Err(refused(Failure::usage(format!("the statement {error}"))));
        }
    }
    Ok(held)
}

/// Says which key is revoked, when and by which key.
pub fn sentence(name: &str, revoked: &Revoked) -> String {
    let Revocation { id, at_ms, .. } = revoked.statement;
    let by = match revoked.by == id {
        true => "itself",
        false => "its recovery key",
    };
    format!("the key of {name} ({id}) was revoked by {by}, at {}", utc(at_ms))
}

/// Refuses a plan that names a revoked key.
///
/// # Errors
/// It does (exit 3): the sentence names the id and the statement.
pub fn refuse_plan(held: &Revocations, plan: &Plan) -> Result<(), Failure> {
    let members = plan.draft().members.iter();
    refuse(
        held,
        members.map(|member| (&*member.name, &member.id)),
        "the plan",
    )
}

/// Refuses a list that names a revoked key.
///
/// # Errors
/// It does (exit 3): the sentence names the id and the statement.
pub fn refuse_list(held: &Revocations, list: &Peers) -> Result<(), Failure> {
    let peers = list.as_slice().iter().map(|peer| (&*peer.name, &peer.id));
    let relays = list.relays().iter().map(|relay| (&*relay.name, &relay.id));
    refuse(held, peers.chain(relays), "the list")
}

fn refuse<'a>(
    held: &Revocations,
    mut named: impl Iterator<Item = (&'a str, &'a PeerId)>,
    what: &str,
) -> Result<(), Failure> {
    match named.find_map(|(name, id)| Some((name, held.of(id)?))) {
        None => Ok(()),
        Some((name, revoked)) => {
            let message = format!("{what} names a revoked key: {}", sentence(name, revoked));
            Err(Failure::new(Exit::PlanRefused, message).hint(HINT))
        }
    }
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::peers::simulated_keypair;

    use super::*;

    /// Three parties, the first of which has party 10's key for its recovery.
    fn list() -> Peers {
        let mut peers = Peers::simulated(3).unwrap().as_slice().to_vec();
        peers[0].recovery = Some(simulated_keypair(10).public().to_peer_id());
        Peers::new(peers).unwrap()
    }

    fn line(by: usize, of: usize) -> String {
        let id = simulated_keypair(of).public().to_peer_id();
        to_line(&Revocation::sign(&simulated_keypair(by), id, 1_772_357_400_000).unwrap())
    }

    fn read_text(text: &str) -> Result<Revocations, Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let (list, plain) = (list(), Peers::simulated(3).unwrap());
        read(file.path(), &[&plain, &list])
    }

    #[test]
    fn a_file_of_statements_is_read_line_by_line() {
        let text = format!(
            "# by mail\n\n  {}\n{}\n{}\n",
            line(10, 0),
            line(20, 20),
            line(1, 1)
        );
        let held = read_text(&text).unwrap();
        assert_eq!(held.iter().count(), 2, "one about nobody in the list is skipped");
        let failure = refuse_list(&held, &list()).unwrap_err();
        assert_eq!(failure.exit, Exit::PlanRefused);
        let id = list().as_slice()[0].id;
        let said = format!(
            "the list names a revoked key: the key of party-0 ({id}) was revoked by its recovery key, at 2026-03-01 09:30 UTC"
        );
        assert_eq!(failure.message, said);
        refuse_list(&Revocations::default(), &list()).unwrap();
    }

    #[test]
    fn a_line_that_is_forged_or_cut_is_refused_with_its_number() {
        let whole = line(10, 0);
        for (bad, why) in [
            (line(1, 0), "signed neither by"),
            (whole[..100].to_owned(), "no statement"),
            (format!("{whole}{whole}"), "no statement"),
            ("ä".to_owned(), "no statement"),
        ] {
            let failure = read_text(&format!("{}\n{bad}", line(1, 1))).unwrap_err();
            assert!(
                failure.message.contains("line 2: ") && failure.message.contains(why),
                "{failure}"
            );
            assert_eq!(
                (failure.exit, failure.field.as_deref()),
                (Exit::Usage, Some("--keys"))
            );
        }
    }
}
