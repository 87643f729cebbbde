//! Where the API is, as `--api` says it: a TCP address or a Unix socket.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::daemon::config::ApiListen;
use crate::reporting::failure::Failure;

/// An address of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A TCP address, written `HOST:PORT`; clients also write `http://HOST:PORT`.
    Tcp(String),
    /// A unix socket, written `unix:PATH`.
    Unix(PathBuf),
}

impl From<ApiListen> for Endpoint {
    fn from(listen: ApiListen) -> Self {
        match listen {
            ApiListen::Tcp(address) => Endpoint::Tcp(address.to_string()),
            ApiListen::Unix(path) => Endpoint::Unix(path),
        }
    }
}

impl FromStr for Endpoint {
    type Err = Failure;

    /// Fails (exit 2) on what is neither; names are looked up later.
    fn from_str(text: &str) -> Result<Self, Failure> {
        let refused = |what: &str| {
            Failure::usage(format!("{text:?} is no address of an API: {what}"))
                .field("--api")
                .hint("write HOST:PORT, such as 127.0.0.1:7300, or unix:PATH")
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err(refused("it has no path"))
            } else {
                Ok(Endpoint::Unix(path.into()))
            };
        }
        if text.starts_with("https://") {
            return Err(refused(
                "the API speaks plain HTTP; put a proxy in front of it where TLS is needed",
            ));
        }
        let address = text
            .strip_prefix("http://")
            .map_or(text, |rest| rest.trim_end_matches('/'));
        let (host, port) = address
            .rsplit_once(':')
            .ok_or_else(|| refused("it has no port"))?;
        if host.is_empty() || host.contains(['/', '@', ' ']) || (host.contains(':') && !host.starts_with('['))
        {
            return Err(refused("its host is not one"));
        }
        port.parse::<u16>().map_err(|_| refused("its port is not one"))?;
        Ok(Endpoint::Tcp(address.to_owned()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => f.write_str(address),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_sockets_are_distinguished() {
        let tcp = |address: &str| Endpoint::Tcp(address.into());
        for (text, expected) in [
            ("127.0.0.1:7300", tcp("127.0.0.1:7300")),
            ("http://localhost:7300/", tcp("localhost:7300")),
            ("[::1]:0", tcp("[::1]:0")),
            ("unix:state/api.sock", Endpoint::Unix("state/api.sock".into())),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap(), expected);
        }
        assert_eq!(
            tcp("127.0.0.1:7300").to_string().parse::<Endpoint>().unwrap(),
            tcp("127.0.0.1:7300")
        );
        assert_eq!(
            Endpoint::Unix("a b".into())
                .to_string()
                .parse::<Endpoint>()
                .unwrap(),
            Endpoint::Unix("a b".into())
        );
    }

    #[test]
    fn what_is_neither_is_refused_with_the_way_to_write_it() {
        for text in [
            "",
            "7300",
            ":7300",
            "localhost",
            "localhost:",
            "localhost:70000",
            "::1:7300",
            "unix:",
            "https://a:1",
            "a/b:1",
        ] {
            let failure = text.parse::<Endpoint>().unwrap_err();
            assert!(failure.hint.unwrap().contains("unix:PATH"), "{text}");
        }
    }
}
