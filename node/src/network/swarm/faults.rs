//! Faults of the other side, as a failed connection shows them.

use std::io;

use libp2p::core::transport::TransportError;
use libp2p::core::upgrade::NegotiationError;
use libp2p::swarm::DialError;

use crate::network::dial_fault::DialFault;

/// Returns the fault of the address that a failed dial shows.
pub(super) fn fault(error: &DialError) -> DialFault {
    if let DialError::WrongPeerId { obtained, .. } = error {
        return DialFault::OtherPeer(*obtained);
    }
    let DialError::Transport(attempts) = error else {
        return DialFault::NotOurs(error.to_string());
    };
    // Of several addresses one that is there and does something else says more than one that
    // refuses.
    let mut faults = attempts.iter().map(|(_, error)| match error {
        TransportError::Other(error) => fault_of(error),
        TransportError::MultiaddrNotSupported(address) => DialFault::NotOurs(address.to_string()),
    });
    let first = faults.next().unwrap_or(DialFault::Unknown);
    match first {
        DialFault::Refused => faults.find(|fault| *fault != DialFault::Refused).unwrap_or(first),
        first => first,
    }
}

/// Returns the fault that one address's error shows.
fn fault_of(error: &io::Error) -> DialFault {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let (mut last, mut inside) = (error.to_string(), String::new());
    while let Some(error) = cause {
        (last, inside) = (error.to_string(), format!("{error:?}"));
        cause = match error.downcast_ref::<io::Error>() {
            Some(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => return DialFault::Refused,
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe => return DialFault::Closed,
                io::ErrorKind::TimedOut
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable => {
                    return DialFault::Silent;
                }
                // `source` of a wrapping I/O error passes over what it wraps.
                _ => error
                    .get_ref()
                    .map(|inner| inner as &(dyn std::error::Error + 'static)),
            },
            None => error.source(),
        };
    }
    // The library's wrappers hide the system's error but for its text, and that of the plain
    // handshake has it in its debug form only; its own time-out never is one.
    match format!("{last} {inside}").to_lowercase() {
        // What relays say of a peer has no type that is public.
        text if text.contains("noreservation") || text.contains("no reservation") => DialFault::NotAtRelay,
        text if text.contains("refused") => DialFault::Refused,
        text if [
            "end of file",
            "eof",
            "reset",
            "broken pipe",
            "brokenpipe",
            "aborted",
        ]
        .iter()
        .any(|word| text.contains(word)) =>
        {
            DialFault::Closed
        }
        text if ["timeout", "timed out", "unreachable", "no route"]
            .iter()
            .any(|word| text.contains(word)) =>
        {
            DialFault::Silent
        }
        _ => DialFault::NotOurs(last),
    }
}

/// The other side closed. (A handshake that takes too long is another error, and is reported.) One
/// that closes before its first word is "failed" to libp2p, as is one that asks for another
/// security only (which is how dialling the wrong one of our two ports ends).
pub(super) fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, TimedOut, UnexpectedEof};
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(NegotiationError::Failed) = error.downcast_ref() {
            return true;
        }
        cause = match error.downcast_ref::<io::Error>() {
            Some(error)
                if matches!(
                    error.kind(),
                    BrokenPipe | ConnectionReset | NotConnected | TimedOut | UnexpectedEof
                ) =>
            {
                return true;
            }
            // `source` of a wrapping I/O error passes over what it wraps.
            Some(error) => error
                .get_ref()
                .map(|inner| inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use io::ErrorKind::*;
    use libp2p::Multiaddr;

    use super::*;

    fn dialled(error: io::Error) -> DialFault {
        let attempt = (Multiaddr::empty(), TransportError::Other(error));
        fault(&DialError::Transport(vec![attempt]))
    }

    #[test]
    fn a_dials_system_error_is_reported_bare_or_wrapped() {
        for (kind, expected) in [
            (ConnectionRefused, DialFault::Refused),
            (UnexpectedEof, DialFault::Closed),
            (ConnectionReset, DialFault::Closed),
            (ConnectionAborted, DialFault::Closed),
            (BrokenPipe, DialFault::Closed),
            (TimedOut, DialFault::Silent),
            (HostUnreachable, DialFault::Silent),
            (NetworkUnreachable, DialFault::Silent),
        ] {
            assert_eq!(dialled(kind.into()), expected, "{kind}");
            assert_eq!(
                dialled(io::Error::other(io::Error::from(kind))),
                expected,
                "{kind}"
            );
            // Nothing but the text is left of it.
            let text = io::Error::from(kind).to_string();
            assert_eq!(dialled(io::Error::other(text)), expected, "{kind}");
        }
        let other = dialled(io::Error::other("a poem"));
        assert_eq!(other, DialFault::NotOurs("a poem".to_owned()));
    }

    #[test]
    fn who_closes_says_nothing_wrong_and_who_says_something_does() {
        for kind in [BrokenPipe, ConnectionReset, NotConnected, TimedOut, UnexpectedEof] {
            assert!(is_silence(&kind.into()), "{kind}");
            assert!(is_silence(&io::Error::other(io::Error::from(kind))), "{kind}");
        }
        assert!(is_silence(&io::Error::other(NegotiationError::Failed)));
        assert!(!is_silence(&InvalidData.into()) && !is_silence(&io::Error::other("a poem")));
    }
}
