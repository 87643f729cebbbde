//! Invariant 10: nobody is said to have sent what it may not, unless somebody lies: whoever reads
//! that of a peer takes it for a liar.

use crate::run::outcome::Event;
use crate::simulator::invariants::violation::Violation;
use crate::topology::party::Party;

/// A node told this. With a liar nothing is wrong: others pass on what it says.
pub fn check(liar: Option<Party>, party: Party, event: &Event) -> Result<(), Violation> {
    match event {
        Event::Offence { peer, text } if liar.is_none() => {
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
    fn an_offence_is_wrong_where_nobody_lies() {
        let offence = Event::Offence {
            peer: 2,
            text: "it is not its own".into(),
        };
        assert!(check(None, 1, &offence).is_err());
        assert!(check(Some(3), 1, &offence).is_ok());
        assert!(check(None, 1, &Event::Ready(2)).is_ok());
    }
}
