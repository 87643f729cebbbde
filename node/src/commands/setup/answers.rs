//! The answers of `setup`: from flags, from a person, or defaults.

use std::io::BufRead;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use undertone_protocol::plan::peers::is_party_name;

use crate::commands::setup::flags::SetupArgs;
use crate::reporting::failure::Failure;
use crate::reporting::output;

/// Ports that are taken where none is named: this one and the next.
const PORT: u16 = 7001;
/// The answer that leaves something out.
const NONE: &str = "none";

/// The checked answers, from which a setup writes its files.
#[derive(Debug, PartialEq)]
pub(super) struct SetupAnswers {
    pub(super) name: String,
    pub(super) data: Option<PathBuf>,
    pub(super) reached: Option<Reached>,
    pub(super) epsilon: f64,
    pub(super) service: bool,
}

/// Where other parties reach this machine: a host, with two ports beside each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reached {
    host: String,
    port: u16,
}

impl SetupAnswers {
    /// Takes each answer from its flag; else by a question whose answer is read from `input`, or
    /// by default with `--yes`.
    pub(super) fn gather(arguments: &SetupArgs, input: &mut impl BufRead) -> Result<Self, Failure> {
        let mut ask = |flag: &str, said: Option<&String>, question: &str, default: &str| {
            match said {
                Some(said) => Ok(said.clone()),
                None if arguments.yes => Ok(default.to_owned()),
                None => answer(flag, question, default, input),
            }
            .map(|answer| answer.trim().to_owned())
        };
        let folder = folder_name(&arguments.folder);
        let name = ask("--name", arguments.name.as_ref(), "Name of this party", &folder)?;
        let question = "Folder with data that runs may use, or none";
        let data = ask("--data", arguments.data.as_ref(), question, NONE)?;
        let question = "Where the others reach this machine: HOST, HOST:PORT, or none behind NAT";
        let listen = ask("--listen", arguments.listen.as_ref(), question, NONE)?;
        let question = "Budget: epsilon of all runs together";
        let epsilon = ask("--epsilon", arguments.epsilon.as_ref(), question, "1")?;
        let said = arguments.service.then(|| "yes".to_owned());
        let question = "Let systemd run the daemon as this user, yes or no";
        let service = ask("--service", said.as_ref(), question, "no")?;
        Ok(SetupAnswers {
            name: checked_name(name)?,
            data: (data != NONE).then(|| checked_folder(&data)).transpose()?,
            reached: (listen != NONE).then(|| Reached::parse(&listen)).transpose()?,
            epsilon: checked_epsilon(&epsilon)?,
            service: is_yes(&service)?,
        })
    }
}

/// Asks on standard error, where questions are in no program's way.
fn answer(flag: &str, question: &str, default: &str, input: &mut impl BufRead) -> Result<String, Failure> {
    output::tell(format_args!("{question} [{default}]:"));
    let mut line = String::new();
    let read = input.read_line(&mut line);
    if read.is_ok_and(|bytes| bytes > 0) {
        let said = line.trim();
        return Ok(if said.is_empty() { default } else { said }.to_owned());
    }
    Err(Failure::usage("nobody answers on standard input")
        .field(flag)
        .hint(format!("say {flag}, or take all defaults by --yes")))
}

/// The folder's own name, as far as a party may have it.
fn folder_name(folder: &Path) -> String {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let name = whole
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    Some(name.to_lowercase())
        .filter(|name| is_party_name(name))
        .unwrap_or_else(|| "party".to_owned())
}

fn checked_name(name: String) -> Result<String, Failure> {
    if is_party_name(&name) {
        return Ok(name);
    }
    Err(Failure::usage(format!("{name:?} is not a party's name"))
        .field("--name")
        .hint("use 1 to 32 characters out of a-z, 0-9 and -"))
}

fn checked_folder(data: &str) -> Result<PathBuf, Failure> {
    let found = Path::new(data).canonicalize().ok().filter(|path| path.is_dir());
    found.ok_or_else(|| {
        Failure::usage(format!("{data:?} is no folder"))
            .field("--data")
            .hint("make it, or say none")
    })
}

fn checked_epsilon(text: &str) -> Result<f64, Failure> {
    let read = text
        .parse()
        .ok()
        .filter(|epsilon: &f64| epsilon.is_finite() && *epsilon > 0.0);
    read.ok_or_else(|| {
        Failure::usage(format!("{text:?} is no budget"))
            .field("--epsilon")
            .hint("say a number above 0, such as 1 or 3.5")
    })
}

fn is_yes(answer: &str) -> Result<bool, Failure> {
    match answer.to_lowercase().as_str() {
        "yes" | "y" => Ok(true),
        "no" | "n" => Ok(false),
        _ => Err(Failure::usage(format!("{answer:?} is neither yes nor no"))
            .field("--service")
            .hint("say yes or no")),
    }
}

impl Reached {
    fn parse(text: &str) -> Result<Self, Failure> {
        let of = |host: &str, port: u16| Reached {
            host: host.to_owned(),
            port,
        };
        let parsed = if let Ok(address) = text.parse::<SocketAddr>() {
            Some(of(&address.ip().to_string(), address.port()))
        } else if let Ok(address) = text.parse::<IpAddr>() {
            Some(of(&address.to_string(), PORT))
        } else if let Some((host, port)) = text.rsplit_once(':') {
            port.parse().ok().map(|port| of(host, port))
        } else {
            Some(of(text, PORT))
        };
        let is_host = |host: &str| {
            !host.is_empty()
                && (host.parse::<IpAddr>().is_ok_and(|ip| !ip.is_unspecified())
                    || host
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
                        && host.bytes().any(|b| b.is_ascii_alphabetic()))
        };
        parsed
            .filter(|it| is_host(&it.host) && (1..u16::MAX).contains(&it.port))
            .ok_or_else(|| {
                Failure::usage(format!("{text:?} is no place where others reach this machine"))
                    .field("--listen")
                    .hint("say 192.0.2.1, 192.0.2.1:7001, host.example:7001, or none")
            })
    }

    /// The multiaddresses of the private and of the public listener.
    pub(super) fn addresses(&self) -> [Option<String>; 2] {
        let kind = match self.host.parse() {
            Ok(IpAddr::V4(_)) => "ip4",
            Ok(IpAddr::V6(_)) => "ip6",
            Err(_) => "dns",
        };
        [self.port, self.port + 1].map(|port| Some(format!("/{kind}/{}/tcp/{port}", self.host)))
    }

    /// The first port, where a name stands in the place of an address.
    pub(super) fn port_behind_name(&self) -> Option<u16> {
        self.host.parse::<IpAddr>().is_err().then_some(self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_people_write_them() {
        let first = |text: &str| Reached::parse(text).map(|it| it.addresses()[0].clone().unwrap());
        for (said, address) in [
            ("192.0.2.1", "/ip4/192.0.2.1/tcp/7001"),
            ("192.0.2.1:9000", "/ip4/192.0.2.1/tcp/9000"),
            ("2001:db8::1", "/ip6/2001:db8::1/tcp/7001"),
            ("[2001:db8::1]:9000", "/ip6/2001:db8::1/tcp/9000"),
            ("a.example", "/dns/a.example/tcp/7001"),
            ("a.example:80", "/dns/a.example/tcp/80"),
        ] {
            assert_eq!(first(said).unwrap(), address, "{said}");
        }
        for wrong in [
            "",
            "0.0.0.0",
            "a b",
            "a:b",
            "a:0",
            "a:65535",
            "http://a",
            "999.1.1.1",
            ":7001",
        ] {
            let refused = first(wrong).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some("--listen"), "{wrong}");
        }
    }
}
