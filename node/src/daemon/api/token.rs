//! The bearer token: a secret in a file that only its owner can read. Whoever has it can spend this
//! node's privacy budget.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use hyper::header::{HeaderMap, HeaderValue};
use rand::TryRng;
use rand::rngs::SysRng;
use subtle::ConstantTimeEq;

use crate::daemon::config::ApiConfig;
use crate::party::identity;
use crate::reporting::failure::Failure;
use crate::reporting::input_file;

/// Random bytes of a token that we make: beyond guessing, at any rate.
const RANDOM_BYTES: usize = 32;

/// The requests that a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    Full,
    /// Metrics, status, plans and receipts: no mean, and nothing that changes anything.
    Reading,
}

/// The daemon's tokens.
#[derive(Clone, Debug)]
pub struct Tokens {
    full: Token,
    reading: Option<Token>,
}

impl Tokens {
    /// Reads the files, or makes them.
    ///
    /// # Errors
    /// Those of [`Token::open`], and both tokens alike (exit 2).
    pub fn open(config: &ApiConfig) -> Result<Self, Failure> {
        let full = Token::open(&config.token)?;
        let reading = config.read_token.as_deref().map(Token::open).transpose();
        let reading = reading.map_err(|failure| failure.field("api.read_token"))?;
        let alike = |token: &Token| token.0.as_bytes().ct_eq(full.0.as_bytes()).into();
        if reading.as_ref().is_some_and(alike) {
            return Err(
                Failure::usage("the token that may only read is the one that may do everything")
                    .field("api.read_token")
                    .hint("name a file of its own; the daemon makes it"),
            );
        }
        Ok(Tokens { full, reading })
    }

    /// Returns the access that a request's token gives; `None` without a token of this daemon.
    pub fn access(&self, headers: &HeaderMap) -> Option<Access> {
        // Both are compared, so that the time does not reveal which is near.
        let reads = self.reading.as_ref().is_some_and(|token| token.admits(headers));
        match self.full.admits(headers) {
            true => Some(Access::Full),
            false => reads.then_some(Access::Reading),
        }
    }
}

/// Characters that a token which an operator brings has at least: 16 of base64 are 96 bits, as few
/// as OWASP's advice on session identifiers allows with a margin.
const SHORTEST: usize = 16;
/// Characters that a token has at most: our guess, far more than anybody needs.
const LONGEST: usize = 512;

/// The token. It is never printed.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads the file, or makes it with mode 0600 if there is none. Fails (exit 2) if others can
    /// read it or if it holds no token.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            make(path)?;
        }
        Token::load(path)
    }

    /// Reads the file; the same failures, and one if there is none.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let at =
            |what: String| Failure::usage(format!("token {}: {what}", path.display())).field("api.token");
        let file = input_file::open(path).map_err(|e| {
            at(format!("cannot be opened: {e}"))
                .hint("start a daemon with `undertone node --config node.toml`, or name the one that runs: --config node.toml")
        })?;
        identity::only_ours(&file).map_err(|mode| {
            at(format!("others can read it (mode {mode:04o})")).hint(format!("chmod 600 {}", path.display()))
        })?;
        let mut text = String::new();
        let read = file.take(LONGEST as u64 + 2).read_to_string(&mut text);
        read.map_err(|e| at(format!("cannot be read: {e}")))?;
        let token = text.trim_end_matches(['\n', '\r']);
        let fits = (SHORTEST..=LONGEST).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
        if !fits {
            let hint = format!(
                "one line of {SHORTEST} to {LONGEST} visible ASCII characters; remove the file and the daemon makes a new one"
            );
            return Err(at("holds no token".into()).hint(hint));
        }
        Ok(Token(token.to_owned()))
    }

    /// Whether a request carries it, in a time that does not depend on how much of it is right.
    fn admits(&self, headers: &HeaderMap) -> bool {
        let given = headers
            .get(hyper::header::AUTHORIZATION)
            .map(HeaderValue::as_bytes)
            .unwrap_or_default();
        match given.split_at_checked(SCHEME.len()) {
            Some((scheme, token)) => {
                scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) && token.ct_eq(self.0.as_bytes()).into()
            }
            None => false,
        }
    }

    /// The `Authorization` of a request that carries it.
    pub fn header(&self) -> HeaderValue {
        let mut value =
            HeaderValue::from_str(&format!("{SCHEME}{}", self.0)).expect("a token is visible ASCII");
        value.set_sensitive(true);
        value
    }
}

const SCHEME: &str = "Bearer ";

/// Appears whole or not at all, so that a client that starts beside the daemon reads no half of it.
fn make(path: &Path) -> Result<(), Failure> {
    let refused = |e: std::io::Error| {
        Failure::storage(&e, format!("token {}: cannot be made: {e}", path.display()))
            .field("api.token")
            .hint("choose a folder that exists and that you can write to")
    };
    let mut bytes = [0u8; RANDOM_BYTES];
    SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(|e| refused(std::io::Error::other(e)))?;
    let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    // A temporary file's mode is 0600 from the start.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(refused)?;
    writeln!(file, "{token}")
        .and_then(|()| file.as_file().sync_all())
        .map_err(refused)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(e) if e.error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(refused(e.error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(hyper::header::AUTHORIZATION, authorization.parse().unwrap());
        headers
    }

    #[test]
    fn it_is_made_once_and_admits_only_those_who_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api.token");
        assert!(
            Token::load(&path)
                .unwrap_err()
                .message
                .contains("cannot be opened")
        );
        let token = Token::open(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(Token::open(&path).unwrap().0, token.0, "made once");
        assert_eq!(text.trim_end().len(), 2 * RANDOM_BYTES);
        let mut headers = HeaderMap::new();
        headers.insert(hyper::header::AUTHORIZATION, token.header());
        assert!(token.admits(&headers));
        assert!(token.admits(&with(&format!("bearer {}", text.trim_end()))));
        let other = with(&format!("Bearer {}", "0".repeat(64)));
        let longer = with(&format!("Bearer {}0", text.trim_end()));
        for refused in [
            HeaderMap::new(),
            with("Bearer "),
            with("Bearer"),
            with(text.trim_end()),
            other,
            longer,
        ] {
            assert!(!token.admits(&refused));
        }
        assert!(!format!("{token:?} {headers:?}").contains(text.trim_end()));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_or_that_holds_none_is_refused_without_its_contents() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api.token");
        let refused = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let failure = Token::open(&path).unwrap_err();
            assert!(!failure.to_string().contains("MARKED"), "{failure}");
            failure
        };
        assert!(
            refused("MARKED-0123456789\n", 0o640)
                .hint
                .unwrap()
                .contains("chmod 600")
        );
        for text in [
            "",
            "MARKED\n",
            "MARKED 0123456789",
            &"MARKED".repeat(100),
            "MARKED-0123456\n\nMARKED",
        ] {
            assert!(
                refused(text, 0o600).message.contains("holds no token"),
                "{text:?}"
            );
        }
    }
}
