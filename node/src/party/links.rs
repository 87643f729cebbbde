//! Which way each neighbour's connections took, for people.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use undertone_protocol::messages::notice::Network;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::network::event::LinkWay;

/// A way in words: a relay by its name in the plan.
pub fn in_words(plan: &Plan, way: LinkWay) -> String {
    let draft = plan.draft();
    match way {
        LinkWay::Plain => "plain".into(),
        LinkWay::Encrypted => "encrypted".into(),
        LinkWay::Relayed(relay) => {
            let members = draft.members.iter().map(|member| (member.id, &member.name));
            let relays = draft.relays.iter().map(|relay| (relay.id, &relay.name));
            let named = members.chain(relays).find(|(id, _)| *id == relay);
            match named {
                Some((_, name)) => format!("over {name}"),
                None => format!("over {relay}"),
            }
        }
    }
}

/// The latest way of each neighbour on each graph.
#[derive(Debug, Default)]
pub struct Links(BTreeMap<Party, [Option<LinkWay>; 2]>);

impl Links {
    /// Notes that an edge has come up on this way.
    pub fn note(&mut self, party: Party, graph: Network, way: LinkWay) {
        let of_party = self.0.entry(party).or_default();
        match graph {
            Network::Private => of_party[0] = Some(way),
            Network::Public => of_party[1] = Some(way),
        }
    }

    /// `{name: {private, public}}`; null where there was no edge.
    pub fn json(&self, plan: &Plan) -> Value {
        let each = self.0.iter().map(|(&party, ways)| {
            let [private, public] = ways.map(|way| way.map(|way| in_words(plan, way)));
            let name = plan.draft().members[party].name.clone();
            (name, json!({ "private": private, "public": public }))
        });
        Value::Object(each.collect::<Map<String, Value>>())
    }
}
