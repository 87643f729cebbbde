//! Frames of a lobby.

use crate::messages::lobby::{ToGuest, ToHost};
use crate::messages::wire::framing::{WireError, compact, expand_all, frame, kind};

const TO_HOST: u8 = 12;
const TO_GUEST: u8 = 13;

/// The frame of what a guest says.
pub fn to_host_frame(message: &ToHost) -> Vec<u8> {
    frame(TO_HOST, &compact(message), &[]).to_vec()
}

/// The frame of what the host says.
pub fn to_guest_frame(message: &ToGuest) -> Vec<u8> {
    frame(TO_GUEST, &compact(message), &[]).to_vec()
}

/// Reads what a guest says.
pub fn read_to_host(frame: &[u8]) -> Result<ToHost, WireError> {
    match kind(frame)? {
        (TO_HOST, rest) => expand_all("message", rest),
        (found, _) => Err(WireError::Kind(found)),
    }
}

/// Reads what the host says.
pub fn read_to_guest(frame: &[u8]) -> Result<ToGuest, WireError> {
    match kind(frame)? {
        (TO_GUEST, rest) => expand_all("message", rest),
        (found, _) => Err(WireError::Kind(found)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::messages::lobby::Refusal;
    use crate::messages::signature::Signature;

    #[test]
    fn the_bytes_of_a_lobby_stay_as_they_are() {
        let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let sit = ToHost::Sit {
            token: [7; 16],
            lines: "x".into(),
        };
        assert_eq!(hex(to_host_frame(&sit)), format!("010c00{}0178", "07".repeat(16)));
        let yes = ToHost::Yes {
            close: 300,
            signature: Signature([9; 64]),
        };
        assert_eq!(
            hex(to_host_frame(&yes)),
            format!("010c03fb2c01{}", "09".repeat(64))
        );
        let refused = ToGuest::Refused(Refusal::Name("bob".into()));
        assert_eq!(hex(to_guest_frame(&refused)), "010d000303626f62");
        assert_eq!(read_to_host(&to_host_frame(&yes)), Ok(yes));
        assert_eq!(read_to_guest(&to_guest_frame(&refused)), Ok(refused));
        assert!(read_to_guest(&to_host_frame(&sit)).is_err());
        assert_eq!(format!("{sit:?}"), "Sit");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            for kind in [TO_HOST, TO_GUEST] {
                let frame = [&[1, kind][..], &bytes].concat();
                let _ = (read_to_host(&frame), read_to_guest(&frame));
            }
        }
    }
}
