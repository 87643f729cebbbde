//! Invariant 10: nobody but a liar is said to have sent what it may not: whoever reads that of a
//! peer takes it for one. Nor is somebody who has only passed on what a liar said.

use crate::run::outcome::Event;
use crate::simulator::invariants::violation::Violation;
use crate::topology::party::Party;

/// A node told this; `liar` is who lies in this run, if anybody does.
pub fn check(liar: Option<Party>, party: Party, event: &Event) -> Result<(), Violation> {
    match event {
        Event::Offence { peer, text } if liar != Some(*peer) => {
            let text = format!("party {party} says of {peer}: {text}");
            Err(Violation::new("accused", text))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offence_of_somebody_who_does_not_lie_is_wrong() {
        let offence = Event::Offence {
            peer: 2,
            text: "it is not its own".into(),
        };
        assert!(check(None, 1, &offence).is_err());
        assert!(check(Some(3), 1, &offence).is_err());
        assert!(check(Some(2), 1, &offence).is_ok());
        assert!(check(None, 1, &Event::Ready(2)).is_ok());
    }
}
