//! The files of a group: its list, the signatures beside it, and the lines of one party.

use std::path::{Path, PathBuf};

use serde_json::json;
use undertone_protocol::lobby::confirmed::Confirmed;
use undertone_protocol::plan::hex::hex;
use undertone_protocol::plan::peers::contact::Contact;
use undertone_protocol::plan::peers::entry::Address;
use undertone_protocol::plan::peers::number::list_digest;
use undertone_protocol::plan::peers::{Peer, Peers};

use crate::party::identity::Identity;
use crate::planning::make;
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::input_file;
use crate::reporting::output_file::{OutputFile, finish_all, unwritten, written};
use crate::reporting::report::Report;

/// Bytes of the longest list or file of signatures: 1,024 parties with four long addresses each.
const LONGEST: u64 = 4 << 20;

/// Reads a file of a group.
pub(super) fn read(path: &Path, flag: &str) -> Result<String, Failure> {
    let bytes = input_file::read(path, LONGEST)
        .map_err(|e| Failure::usage(format!("{}: cannot be read: {e}", path.display())).field(flag))?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{}: it is no text", path.display())).field(flag))
}

/// Reads a list.
pub(super) fn list(path: &Path, flag: &str) -> Result<Peers, Failure> {
    Peers::parse(&read(path, flag)?).map_err(|e| make::peers_failure(path, &e))
}

/// No list is in force (exit 4).
pub(super) fn nothing(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Aborted, message)
}

/// Where a list goes once it is in force, with its signatures beside it.
pub(super) struct ListPlace {
    list: PathBuf,
    signatures: PathBuf,
    /// The list that is there now.
    pub(super) old: Option<Peers>,
}

impl ListPlace {
    /// Looks at the place of `--peers`.
    ///
    /// # Errors
    /// It cannot be written to, or there is something else than a list.
    pub(super) fn at(path: &Path) -> Result<Self, Failure> {
        let signatures = path.with_extension("sig");
        for file in [path, &signatures] {
            OutputFile::of_flag(file, "--peers")?;
        }
        Ok(ListPlace {
            old: path.exists().then(|| list(path, "--peers")).transpose()?,
            list: path.to_owned(),
            signatures,
        })
    }

    /// Puts both files there, whole or not at all.
    pub(super) fn put(&self, text: &str, list: &Peers, confirmed: &Confirmed) -> Result<(), Failure> {
        let file = |path: &Path, text: &str| {
            written(path, |file| file.write_all(text.as_bytes())).map_err(|e| unwritten(path, "--peers", &e))
        };
        // Signatures first: a list with those of the one before would be taken for a forgery.
        let both = [
            file(&self.signatures, &confirmed.to_toml(list))?,
            file(&self.list, text)?,
        ];
        finish_all(both).map_err(|e| unwritten(&self.list, "--peers", &e))
    }

    /// The report of a list that was put there.
    pub(super) fn report(&self, text: &str, list: &Peers, number: &str) -> Report {
        let names: Vec<&str> = list.as_slice().iter().map(|peer| &*peer.name).collect();
        let digest = hex(&list_digest(text.as_bytes()));
        let json = json!({
            "outcome": "in force",
            "exit_code": 0,
            "list": self.list,
            "signatures": self.signatures,
            "digest": digest,
            "number": number,
            "names": names,
        });
        let text = format!(
            "The list is in force: {} and {} are written.\n{} parties: {}\n",
            self.list.display(),
            self.signatures.display(),
            names.len(),
            names.join(", ")
        );
        Report::done(json, text)
    }
}

/// The line of this party: as its identity file says, but for what flags say.
pub(super) fn own_peer(
    identity: &Identity,
    name: Option<&str>,
    announce: &[Address],
    relay: bool,
) -> Result<Peer, Failure> {
    let refused = |e: String| Failure::usage(e).field("--identity");
    let parsed = |text: &String| {
        text.parse::<Address>()
            .map_err(|e| refused(format!("its address: {e}")))
    };
    let at = match announce {
        [] => identity.private.iter().map(parsed).collect::<Result<_, _>>()?,
        announced => announced.to_vec(),
    };
    let peer = Peer {
        name: name.unwrap_or(&identity.name).to_owned(),
        id: identity.peer_id(),
        contact: Contact {
            at,
            public: identity.public.as_ref().map(parsed).transpose()?,
            relay,
        },
        recovery: identity.recovery,
    };
    // What is wrong with it is said as of a list.
    Peers::parse_peer(&peer.to_toml()).map_err(|e| refused(format!("this party's line: {e}")))
}
