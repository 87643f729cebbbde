//! How offers of schedules' plans travel, and which are looked at.

use std::sync::Arc;

use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};

use super::group::{DUE, Group, RUN};
use super::{bytes, plan_of};

async fn refused(group: &Group, graph: Network, (from, to): (usize, usize), plan: &[u8]) -> Option<String> {
    let hub = group.service(from).hub();
    let asked = hub.ask(graph, group.ids[to], &Question::Offer, plan).await;
    match asked.expect("an answer").0 {
        Reply::Refused { reason } => Some(reason),
        Reply::Taken => None,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedules_plan_is_taken_over_encrypted_connections_alone_and_only_when_it_is_due() {
    let mut group = Group::new(5, RUN, "");
    let turn = group.turn(DUE, 0);
    let (to, other) = ((turn + 1) % 5, (turn + 2) % 5);
    for party in [turn, to, other] {
        group.start_silent(party).await;
    }
    group.set(DUE);
    let plan = plan_of(&group.due(to, DUE, 0), &group.ids);
    let reason = refused(&group, Network::Public, (turn, to), &bytes(&plan)).await;
    assert!(
        reason
            .expect("in the clear")
            .contains("over encrypted connections only")
    );
    // The plan is not verified, and the other members do not hear that this node declined it.
    let reason = refused(&group, Network::Private, (other, to), &bytes(&plan)).await;
    assert!(reason.expect("another's turn").contains("has another proposer"));
    group.set(DUE - 100);
    let reason = refused(&group, Network::Private, (turn, to), &bytes(&plan)).await;
    assert!(reason.expect("early").contains("this node's clock shows"));
    assert_eq!(
        group.service(to).metrics().offers_received,
        0,
        "nothing is verified"
    );
    group.set(DUE);
    let said = group.service(turn).offer_to_members(&plan).await;
    let to = &plan
        .draft()
        .members
        .iter()
        .find(|member| member.id == group.ids[to]);
    let name = &to.expect("a member").name;
    let answer = said.iter().find(|(member, _)| member == name);
    assert_eq!(
        answer.map(|(_, said)| said.as_str()),
        Some("accepted"),
        "{said:?}"
    );
}

/// "Busy" is no answer to an offer: its places are taken by others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proposer_offers_again_to_who_is_busy() {
    use crate::network::ask::{AskFault, Asked, NotTaken};
    let mut group = Group::new(5, RUN, "");
    let (turn, to) = (group.turn(DUE, 0), (group.turn(DUE, 0) + 1) % 5);
    group.start_silent(turn).await;
    group.start_silent(to).await;
    let (sender, mut questions) = tokio::sync::mpsc::channel(1);
    group.service(to).hub().answer_with(sender);
    tokio::spawn(async move {
        while let Some(Asked::Offer { answer, .. }) = questions.recv().await {
            answer.send(Err(NotTaken::Busy)).expect("it waits");
        }
    });
    let plan = plan_of(&group.due(turn, DUE, 0), &group.ids);
    let text: Arc<str> = plan.to_json().into();
    let to = (Network::Private, group.ids[to]);
    let said = group.service(turn).offer_to(to, &text, *plan.digest()).await;
    assert!(matches!(said, Err(AskFault::Busy)), "{said:?}");
}
