//! Digests as people give them: by their first digits.

use crate::commands::client::daemon::Daemon;
use crate::reporting::failure::Failure;

/// Hexadecimal digits of a whole digest.
const DIGITS: usize = 64;

impl Daemon {
    /// The whole digest of one of the daemon's `runs` or `offers`, from its first digits.
    pub(super) async fn digest(&self, given: &str, of: &str) -> Result<String, Failure> {
        if given.is_empty() || !given.bytes().all(|b| b.is_ascii_hexdigit()) || given.len() > DIGITS {
            return Err(Failure::usage(format!(
                "{given:?} is no digest: 64 digits of hex, or the first of them"
            ))
            .field("DIGEST"));
        }
        let given = given.to_ascii_lowercase();
        if given.len() == DIGITS {
            return Ok(given);
        }
        let known = self.known(of).await?;
        match known
            .iter()
            .filter(|digest| digest.starts_with(&given))
            .collect::<Vec<_>>()[..]
        {
            [digest] => Ok(digest.clone()),
            [] => Err(unknown(&format!(
                "the daemon has no such thing among its {of}: {given}"
            ))),
            [..] => Err(unknown(&format!(
                "several of the daemon's {of} begin with {given}; give more digits"
            ))),
        }
    }

    pub(super) async fn knows(&self, digest: &str, of: &str) -> Result<bool, Failure> {
        Ok(self.known(of).await?.iter().any(|known| known == digest))
    }

    async fn known(&self, of: &str) -> Result<Vec<String>, Failure> {
        let list: serde_json::Value = self.get(&format!("/v1/{of}")).await?;
        let digests = list[of]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|entry| entry["digest"].as_str());
        Ok(digests.map(String::from).collect())
    }
}

fn unknown(what: &str) -> Failure {
    Failure::usage(what)
        .field("DIGEST")
        .hint("`undertone status` lists them")
}
