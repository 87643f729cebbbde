//! A node's identity: an ed25519 key in a file that only its owner can read, and the lines that
//! others paste into their peer list.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libp2p::identity::{Keypair, PeerId};
use serde::Deserialize;
use serde_json::json;

use crate::reporting::failure::Failure;
use crate::reporting::input_file;

/// A key with the name and the addresses that its owner gave it. It prints no key.
#[derive(Clone)]
pub struct Identity {
    /// The key that the party signs with.
    pub keypair: Keypair,
    /// The party's name in peer lists.
    pub name: String,
    /// Multiaddress of the private listener, if it was given.
    pub private: Option<String>,
    /// Multiaddress of the public listener, if it was given.
    pub public: Option<String>,
    /// The id of the key that can revoke this one, if there is such a key.
    pub recovery: Option<PeerId>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({}, {})", self.name, self.peer_id())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    name: String,
    secret: String,
    private: Option<String>,
    public: Option<String>,
    recovery: Option<String>,
}

/// Longer than any identity file.
const LONGEST_FILE: u64 = 16 << 10;

impl Identity {
    /// A fresh key from the operating system's randomness.
    pub fn generate(name: String, private: Option<String>, public: Option<String>) -> Self {
        Identity {
            keypair: Keypair::generate_ed25519(),
            name,
            private,
            public,
            recovery: None,
        }
    }

    /// A second key, which can revoke this one, and whose id is from now on among this one's lines.
    pub fn with_recovery(&mut self) -> Identity {
        let short: String = self.name.chars().take(23).collect();
        let key = Identity::generate(format!("{short}-recovery"), None, None);
        self.recovery = Some(key.peer_id());
        key
    }

    /// The id that peers know the key by.
    pub fn peer_id(&self) -> PeerId {
        self.keypair.public().to_peer_id()
    }

    /// Writes it to a new file with mode 0600; an existing file is never touched.
    pub fn create(&self, path: &Path) -> Result<(), Failure> {
        let refused = |e: std::io::Error| {
            let failure =
                Failure::storage(&e, format!("{}: cannot be created: {e}", path.display())).field("--out");
            if e.kind() == std::io::ErrorKind::AlreadyExists {
                failure
                    .hint("an identity is never overwritten; choose another file, or move the old one away")
            } else {
                failure.hint("choose a folder that exists and that you can write to")
            }
        };
        let secret = self
            .keypair
            .to_protobuf_encoding()
            .map_err(|e| Failure::usage(format!("the key cannot be encoded: {e}")))?;
        let mut text = String::from(
            "# Undertone identity. Whoever has this file can speak as this party: keep it secret.\n\
             version = 1\n",
        );
        text += &format!(
            "name = {:?}\nsecret = \"{}\"\n",
            self.name,
            STANDARD.encode(secret)
        );
        text += &self.key_lines();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(refused)?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(refused)
    }

    /// Reads it; refused if anybody but its owner can read the file.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let at =
            |what: String| Failure::usage(format!("identity {}: {what}", path.display())).field("--identity");
        let file = input_file::open(path).map_err(|e| {
            at(format!("cannot be opened: {e}")).hint("make one with `undertone identity new --out FILE`")
        })?;
        only_ours(&file).map_err(|mode| {
            at(format!("others can read it (mode {mode:04o})")).hint(format!("chmod 600 {}", path.display()))
        })?;
        let mut text = String::new();
        file.take(LONGEST_FILE)
            .read_to_string(&mut text)
            .map_err(|e| at(format!("cannot be read: {e}")))?;
        // The parser's own message would quote the line, and the line may be the secret.
        let contents: Contents = toml::from_str(&text).map_err(|_| {
            at("is not an identity file".into())
                .hint("make a new one with `undertone identity new --out FILE`")
        })?;
        if contents.version != 1 {
            return Err(at(format!(
                "has version {}, this program knows 1",
                contents.version
            )));
        }
        let key = STANDARD
            .decode(&contents.secret)
            .ok()
            .and_then(|bytes| Keypair::from_protobuf_encoding(&bytes).ok());
        let keypair = key.filter(|key| key.clone().try_into_ed25519().is_ok());
        let keypair = keypair.ok_or_else(|| {
            at("its secret is not an ed25519 key".into()).hint("restore the file from a backup")
        })?;
        let recovery = contents.recovery.map(|id| id.parse()).transpose();
        let recovery = recovery
            .map_err(|_| at("its recovery key is not an id".into()).hint("restore the file from a backup"))?;
        Ok(Identity {
            keypair,
            name: contents.name,
            private: contents.private,
            public: contents.public,
            recovery,
        })
    }

    /// The lines that the identity file and the peer list both have after name and key.
    fn key_lines(&self) -> String {
        let recovery = self.recovery.map(|id| id.to_string());
        let keys = [
            ("private", &self.private),
            ("public", &self.public),
            ("recovery", &recovery),
        ];
        let given = keys
            .iter()
            .filter_map(|(key, value)| Some((key, value.as_ref()?)));
        given.map(|(key, value)| format!("{key} = {value:?}\n")).collect()
    }

    /// The lines that the others paste into their `peers.toml`.
    pub fn peer_lines(&self) -> String {
        let mut lines = format!("[[peer]]\nname = {:?}\nid = \"{}\"\n", self.name, self.peer_id());
        lines += &self.key_lines();
        if self.private.is_none() {
            lines +=
                "# private = \"/ip4/192.0.2.1/tcp/7001\"  # where the others reach it; none behind NAT\n";
        }
        lines
    }

    /// Returns the identity and its addresses, for programs.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "name": self.name,
            "id": self.peer_id().to_string(),
            "private": self.private,
            "public": self.public,
            "recovery": self.recovery.map(|id| id.to_string()),
        })
    }
}

/// Checks that nobody but the owner has any access to an open file; the error is its mode.
#[cfg(unix)]
pub(crate) fn only_ours(file: &File) -> Result<(), u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata().map_or(0o777, |m| m.permissions().mode()) & 0o777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(mode) }
}

#[cfg(not(unix))]
pub(crate) fn only_ours(_: &File) -> Result<(), u32> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_from_its_file_and_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alice.key");
        let identity = Identity::generate("alice".into(), Some("/ip4/127.0.0.1/tcp/7001".into()), None);
        identity.create(&path).unwrap();
        let again = Identity::load(&path).unwrap();
        assert_eq!(again.peer_id(), identity.peer_id());
        assert_eq!(again.peer_lines(), identity.peer_lines());
        let failure = identity.create(&path).unwrap_err();
        assert!(failure.hint.unwrap().contains("never overwritten"));
        assert_eq!(
            format!("{identity:?}"),
            format!("Identity(alice, {})", identity.peer_id())
        );
    }

    #[test]
    fn a_recovery_key_is_another_key_whose_id_stands_in_the_file_and_the_lines() {
        let folder = tempfile::tempdir().unwrap();
        let mut identity = Identity::generate("a".repeat(32), None, None);
        assert!(!identity.peer_lines().contains("recovery"));
        let recovery = identity.with_recovery();
        assert!(recovery.name.len() <= 32 && recovery.peer_id() != identity.peer_id());
        let path = folder.path().join("alice.key");
        identity.create(&path).unwrap();
        let again = Identity::load(&path).unwrap();
        assert_eq!(again.recovery, Some(recovery.peer_id()));
        let line = format!("recovery = \"{}\"\n", recovery.peer_id());
        assert!(again.peer_lines().contains(&line), "{}", again.peer_lines());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_or_that_is_none_is_refused_without_its_contents() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alice.key");
        Identity::generate("alice".into(), None, None)
            .create(&path)
            .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let failure = Identity::load(&path).unwrap_err();
        assert!(
            failure.message.contains("others can read it") && failure.hint.unwrap().contains("chmod 600")
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "secret = MARKED").unwrap();
        let failure = Identity::load(&path).unwrap_err();
        assert!(!failure.to_string().contains("MARKED"));
    }
}
