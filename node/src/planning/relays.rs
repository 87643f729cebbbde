//! The cost of losing one relay.

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

/// Says so where one relay alone joins more parties than may depart.
pub(super) fn warning(plan: &Plan) -> Option<String> {
    let draft = plan.draft();
    let mut relays = draft
        .members
        .iter()
        .filter(|member| member.contact.relay)
        .map(|member| &member.name)
        .chain(draft.relays.iter().map(|relay| &relay.name));
    let (only, None) = (relays.next()?, relays.next()) else {
        return None;
    };
    let hidden = |party: Party| draft.members[party].contact.at.is_empty();
    let has_hidden_neighbour = |&party: &Party| {
        let graphs = [&draft.private_graph, &draft.public_graph];
        let mut neighbours = graphs.into_iter().flat_map(|graph| graph.neighbours(party));
        hidden(party) && neighbours.any(|&other| hidden(other))
    };
    // All but one of those that the relay joins would have to depart.
    let joined = (0..plan.parties()).filter(has_hidden_neighbour).count();
    let (departures, dropouts) = (joined.saturating_sub(1), draft.privacy.dropouts);
    (departures > dropouts).then(|| {
        format!(
            "Relay {only:?} alone joins {joined} parties that nobody can dial: its loss would be {departures} departures, and dropouts = {dropouts}; list a second relay"
        )
    })
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::draft::Draft;

    use super::*;
    use crate::testing::plan_of;

    #[test]
    fn one_relay_that_joins_too_many_is_warned_of() {
        let plan = plan_of("name = \"t\"\n[data]\nshape = [2]\n", 5, None);
        let changed = |change: &dyn Fn(&mut Draft)| {
            let mut draft = plan.draft().clone();
            change(&mut draft);
            let assembled = Plan::assemble(draft, plan.calibration().clone(), [1; 16]);
            warning(&assembled.expect("a plan"))
        };
        let hide = |draft: &mut Draft, parties: &[usize]| {
            draft.members[0].contact.relay = true;
            for &party in parties {
                draft.members[party].contact.at.clear();
            }
        };
        assert_eq!(changed(&|_| {}), None);
        assert_eq!(changed(&|draft| hide(draft, &[1, 2])), None, "one departs");
        let said = changed(&|draft| hide(draft, &[1, 2, 3])).expect("two would depart");
        assert!(said.contains("2 departures, and dropouts = 1"), "{said}");
        let two = changed(&|draft| {
            hide(draft, &[1, 2, 3]);
            draft.members[4].contact.relay = true;
        });
        assert_eq!(two, None, "there is another relay");
    }
}
