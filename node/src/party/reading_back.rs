//! A member that restarted after it had spent a plan reads what came of the run.
//!
//! # It is mute
//! *Who restarts within a release of which the ledger's charge or the plan's mark is on disk says
//! nothing in that release any more.* Both are refused before a run is attached
//! (`Ledger::check`, [`Spent::check`]), and without an attached run this node has no driver that
//! could sign under the plan's digest. By kind of message:
//!
//! | kind | why none leaves |
//! | --- | --- |
//! | hello of an edge | edges belong to attached runs; to others' hellos the hub answers "no such run", under no digest |
//! | READY, commitment, START, give-up, pulse | only a run's machine makes them, and there is none |
//! | share, slice, acknowledgement, ticket | the same; the process that drew its noise is gone, and noise was never on disk |
//! | log, set, vote, call, item passed on | the same: nothing of a flood is kept, so nothing is passed on |
//! | final, sealed vector, letter, key, revealed secret, correction | the same; run key, mask key and secrets died with the process and were never on disk |
//! | [`Question::Check`] of others | answered with a word ("over"), under the question's nonce and no digest |
//! | [`Question::Outcome`], asked and answered | signed under another domain; it names the digest and is no message of the run |
//!
//! The charge is on disk, file and folder synced, before the first share or sealed vector leaves
//! (`Charged::spend`). So whatever moment the process dies at, either nothing private has left and
//! neither charge nor mark is there, or what was said before the crash is all that this party ever
//! says under the digest: no slot has two bodies, no key or share goes out for two sets, no mask
//! covers two vectors. To the others it departed at that moment, which every claim covers. If a
//! disk loses the mark, it would begin anew: the others' marks still end the plan.
//!
//! # What it believes
//! An outcome that at least max(2, `colluding` + 1) *other* members give alike: one of them is
//! honest, and an honest one gives only what it has agreed on, or has read so itself. A liar can
//! give none, a false one, other lengths, or bytes that do not fit: it is then not one of those,
//! and costs a download of the true length at most.
//!
//! [`Spent::check`]: crate::party::spent::Spent::check

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use libp2p::PeerId;
use tokio::time::timeout;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::network::ask::{AskFault, Inquiry};
use crate::network::hub::Hub;
use crate::party::agreed_outcome::{AgreedOutcome, OutcomeHashes, RECORD_LIMIT, mean_limit};

/// How long a member may take to say what it has.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a member may take to send one piece. Our choice: a piece has 1 MiB, and the slowest
/// line of a party has 100 kbit/s.
const PIECE_PATIENCE: Duration = Duration::from_secs(90);

/// Pieces that are asked for on one stream: fewer than the questions that a peer answers on one.
const PIECES_A_STREAM: usize = 60;

/// The number of other members that must give the same outcome before it is believed: more than
/// may collude, and never one alone.
pub fn witnesses(plan: &Plan) -> usize {
    (plan.draft().privacy.colluding + 1).max(2)
}

/// An outcome that a member offers: its hashes, and the lengths of its two parts in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Offered {
    hashes: OutcomeHashes,
    record_bytes: u64,
    mean_bytes: u64,
}

impl Offered {
    fn length(&self) -> u64 {
        self.record_bytes + self.mean_bytes
    }
}

/// A member's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberOutcome {
    /// It has an outcome.
    Has(Offered),
    /// It takes part in the run still.
    Running,
    /// It has no outcome.
    None,
    /// It is not in this node's peer list, so that nobody can ask it outside of a run.
    Unlisted,
    /// It did not answer, or with something else.
    Silent,
}

impl MemberOutcome {
    /// Reads a reply. Longer parts than the plan can have are no outcome of it.
    fn of(reply: &Reply, plan: &Plan) -> Self {
        match *reply {
            Reply::Outcome {
                record,
                mean,
                record_bytes,
                mean_bytes,
            } if record_bytes <= RECORD_LIMIT as u64 && mean_bytes <= mean_limit(plan) as u64 => {
                MemberOutcome::Has(Offered {
                    hashes: OutcomeHashes { record, mean },
                    record_bytes,
                    mean_bytes,
                })
            }
            Reply::NoOutcome { running: true } => MemberOutcome::Running,
            Reply::NoOutcome { running: false } => MemberOutcome::None,
            _ => MemberOutcome::Silent,
        }
    }
}

/// The reason why no outcome is believed yet: how the members answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRead {
    /// The most members that gave the same one.
    alike: usize,
    /// How many it takes.
    witnesses: usize,
    running: Vec<String>,
    none: Vec<String>,
    silent: Vec<String>,
    unlisted: Vec<String>,
    /// Members whose outcome differs from that of most.
    others: Vec<String>,
}

impl NotRead {
    /// Whether no more answers can be expected than those that came: everybody answered, and nobody
    /// takes part still.
    pub fn is_final(&self) -> bool {
        self.running.is_empty() && self.silent.is_empty()
    }
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of the other members give the same result, and it takes {}",
            self.alike, self.witnesses
        )?;
        for (names, what) in [
            (&self.running, "take part still"),
            (&self.none, "have none"),
            (&self.silent, "did not answer"),
            (
                &self.unlisted,
                "are not in the peer list or revoked, and cannot be asked",
            ),
            (&self.others, "give another one"),
        ] {
            if !names.is_empty() {
                write!(f, "; {what}: {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}

/// The parties that give the outcome which most give, with what each of them said of it; at least
/// as many as must be, or why not.
fn believed(plan: &Plan, answers: &[(Party, MemberOutcome)]) -> Result<Vec<(Party, Offered)>, Box<NotRead>> {
    // Lengths as well: a liar with honest hashes could send without an end.
    let mut alike: BTreeMap<Offered, Vec<(Party, Offered)>> = BTreeMap::new();
    for (party, answer) in answers {
        if let MemberOutcome::Has(offered) = answer {
            alike.entry(*offered).or_default().push((*party, *offered));
        }
    }
    let most = alike.into_values().max_by_key(Vec::len).unwrap_or_default();
    let witnesses = witnesses(plan);
    if most.len() >= witnesses {
        return Ok(most);
    }
    let names = |which: &dyn Fn(&Party, &MemberOutcome) -> bool| -> Vec<String> {
        let of = answers.iter().filter(|(party, answer)| which(party, answer));
        of.map(|(party, _)| plan.draft().members[*party].name.clone())
            .collect()
    };
    let is_most = |party: &Party| most.iter().any(|(other, _)| other == party);
    Err(Box::new(NotRead {
        alike: most.len(),
        witnesses,
        running: names(&|_, answer| *answer == MemberOutcome::Running),
        none: names(&|_, answer| *answer == MemberOutcome::None),
        silent: names(&|_, answer| *answer == MemberOutcome::Silent),
        unlisted: names(&|_, answer| *answer == MemberOutcome::Unlisted),
        others: names(&|party, answer| matches!(answer, MemberOutcome::Has(_)) && !is_most(party)),
    }))
}

/// Asks all other members of a plan for the outcome of its run, and reads the one that enough of
/// them give alike.
///
/// # Errors
/// Too few give the same one, or none of those sends it whole.
pub async fn read(hub: &Hub, plan: &Plan, me: Party) -> Result<AgreedOutcome, Box<NotRead>> {
    let members = plan.draft().members.iter().enumerate();
    let others: Vec<(Party, PeerId)> = members
        .filter(|(party, _)| *party != me)
        .map(|(party, member)| (party, member.id))
        .collect();
    let asked = others.iter().map(|(_, peer)| async {
        match timeout(PATIENCE, first(hub, plan, *peer)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(AskFault::NotListed)) => MemberOutcome::Unlisted,
            Ok(Err(_)) | Err(_) => MemberOutcome::Silent,
        }
    });
    let parties = others.iter().map(|(party, _)| *party);
    let mut answers: Vec<(Party, MemberOutcome)> = parties.zip(join_all(asked).await).collect();
    loop {
        let (party, offered) = believed(plan, &answers)?[0];
        let peer = plan.draft().members[party].id;
        match fetch(hub, plan, (peer, offered)).await {
            Some(outcome) => return Ok(outcome),
            // It gave hashes of something that it does not have: it is none of them.
            None => answers
                .iter_mut()
                .filter(|(other, _)| *other == party)
                .for_each(|(_, answer)| *answer = MemberOutcome::Silent),
        }
    }
}

async fn first(hub: &Hub, plan: &Plan, peer: PeerId) -> Result<MemberOutcome, AskFault> {
    let mut inquiry = hub.inquire(Network::Private, peer).await?;
    let question = Question::Outcome {
        digest: *plan.digest(),
        // Past its end: who does not have what most have sends nothing in vain.
        from: u64::MAX,
    };
    Ok(MemberOutcome::of(&inquiry.ask(&question, &[]).await?.0, plan))
}

/// Reads an outcome from one member; `None` if it does not send what it offered. A stream that
/// breaks is replaced, and the transfer goes on where it was.
async fn fetch(hub: &Hub, plan: &Plan, (peer, offered): (PeerId, Offered)) -> Option<AgreedOutcome> {
    let mut bytes: Vec<u8> = Vec::new();
    while (bytes.len() as u64) < offered.length() {
        let before = bytes.len();
        let mut inquiry = hub.inquire(Network::Private, peer).await.ok()?;
        for _ in 0..PIECES_A_STREAM {
            let left = offered.length() - bytes.len() as u64;
            let piece = timeout(PIECE_PATIENCE, piece(&mut inquiry, plan, bytes.len() as u64));
            match piece.await {
                Ok(Ok(piece)) if piece.len() as u64 > left => return None,
                Ok(Ok(piece)) if !piece.is_empty() => bytes.extend_from_slice(&piece),
                _ => break,
            }
            if bytes.len() as u64 == offered.length() {
                break;
            }
        }
        // It sends nothing more, on a stream that was new.
        if bytes.len() == before {
            return None;
        }
    }
    let (record, mean) = bytes.split_at_checked(offered.record_bytes as usize)?;
    AgreedOutcome::read(plan, &offered.hashes, (record, mean)).ok()
}

async fn piece(inquiry: &mut Inquiry, plan: &Plan, from: u64) -> Result<Vec<u8>, AskFault> {
    let digest = *plan.digest();
    let (reply, piece) = inquiry.ask(&Question::Outcome { digest, from }, &[]).await?;
    Ok(match reply {
        Reply::Outcome { .. } => piece,
        _ => vec![],
    })
}

#[cfg(test)]
mod tests {
    use libp2p::Multiaddr;
    use libp2p::identity::Keypair;
    use tokio::sync::mpsc;

    use super::*;
    use crate::network::ask::Asked;
    use crate::network::config::{HubConfig, Listening, Patience, PeerAddress};
    use crate::party::agreed_outcome::tests::{record, sent};
    use crate::testing::plan_of;

    fn has(mean: u8) -> MemberOutcome {
        MemberOutcome::Has(Offered {
            hashes: OutcomeHashes {
                record: [1; 32],
                mean: [mean; 32],
            },
            record_bytes: 10,
            mean_bytes: 16,
        })
    }

    fn plan(colluding: usize) -> Plan {
        plan_of(
            &format!("task = \"mean\"\n[data]\nshape = [2]\n[privacy]\ncolluding = {colluding}\n"),
            6,
            None,
        )
    }

    #[test]
    fn an_outcome_is_believed_that_more_give_alike_than_may_lie_and_never_one_alone() {
        for (colluding, needed) in [(0, 2), (1, 2), (2, 3)] {
            let plan = plan(colluding);
            assert_eq!(witnesses(&plan), needed);
            let answers = |count: usize| -> Vec<(Party, MemberOutcome)> {
                (1..6)
                    .map(|party| {
                        (
                            party,
                            if party <= count {
                                has(7)
                            } else {
                                MemberOutcome::None
                            },
                        )
                    })
                    .collect()
            };
            assert!(believed(&plan, &answers(needed - 1)).is_err());
            let found = believed(&plan, &answers(needed)).expect("enough");
            assert_eq!(found.len(), needed);
        }
    }

    #[test]
    fn liars_that_give_a_false_outcome_alike_are_too_few_and_are_named() {
        let plan = plan(2);
        let answers = vec![
            (1, has(66)),
            (2, has(66)),
            (3, has(7)),
            (4, MemberOutcome::Running),
            (5, MemberOutcome::Silent),
        ];
        let why = believed(&plan, &answers).expect_err("two may lie");
        assert!(!why.is_final());
        let said = why.to_string();
        assert!(said.contains("2 of the other members"), "{said}");
        assert!(said.contains("give another one: "), "{said}");
    }

    #[test]
    fn a_liar_with_honest_hashes_and_another_length_is_none_of_those_that_give_the_same() {
        let endless = match has(7) {
            MemberOutcome::Has(offered) => MemberOutcome::Has(Offered {
                mean_bytes: 1 << 40,
                ..offered
            }),
            other => other,
        };
        let answers = [(1, endless), (2, has(7)), (3, has(7))];
        let found = believed(&plan(1), &answers).expect("two give the same");
        assert!(
            found
                .iter()
                .all(|(party, offered)| *party != 1 && offered.mean_bytes == 16)
        );
        assert!(believed(&plan(1), &answers[..2]).is_err(), "one alone");
    }

    #[test]
    fn an_outcome_of_more_bytes_than_the_plan_can_have_is_none_of_it() {
        let of = |record_bytes: usize, mean_bytes: usize| {
            let reply = Reply::Outcome {
                record: [1; 32],
                mean: [2; 32],
                record_bytes: record_bytes as u64,
                mean_bytes: mean_bytes as u64,
            };
            MemberOutcome::of(&reply, &plan(1))
        };
        // Two coordinates of eight bytes.
        assert!(matches!(of(RECORD_LIMIT, 16), MemberOutcome::Has(offered) if offered.mean_bytes == 16));
        assert_eq!(of(RECORD_LIMIT + 1, 16), MemberOutcome::Silent);
        assert_eq!(of(RECORD_LIMIT, 17), MemberOutcome::Silent);
        for (running, expected) in [(true, MemberOutcome::Running), (false, MemberOutcome::None)] {
            assert_eq!(
                MemberOutcome::of(&Reply::NoOutcome { running }, &plan(1)),
                expected
            );
        }
        assert_eq!(MemberOutcome::of(&Reply::Echoed, &plan(1)), MemberOutcome::Silent);
    }

    /// A hub that listens where there is room, for one peer.
    async fn hub(key: &Keypair, peer: PeerId, addresses: Vec<Multiaddr>) -> Hub {
        let listening = |addresses| Listening {
            listen: vec!["/ip4/127.0.0.1/tcp/0".parse().expect("an address")],
            announced: true,
            peers: vec![PeerAddress {
                peer_id: peer,
                addresses,
            }],
        };
        let config = HubConfig {
            key: key.clone(),
            version: 1,
            private: listening(addresses),
            public: listening(vec![]),
            relays: vec![],
            relays_others: false,
            patience: Patience::default(),
        };
        Hub::start(config).await.expect("ports")
    }

    /// Gives an outcome in pieces of five bytes, `last` bytes of it; then nothing more.
    async fn give(hub: &Hub, (record, mean): (Vec<u8>, Vec<u8>), hashes: OutcomeHashes, last: usize) {
        let (asked, mut questions) = mpsc::channel(16);
        hub.answer_with(asked);
        let (record_bytes, mean_bytes) = (record.len() as u64, mean.len() as u64);
        let whole = [record, mean].concat();
        while let Some(question) = questions.recv().await {
            let Asked::Outcome { from, answer, .. } = question else {
                continue;
            };
            let from = usize::try_from(from).unwrap_or(last).min(last);
            let reply = Reply::Outcome {
                record: hashes.record,
                mean: hashes.mean,
                record_bytes,
                mean_bytes,
            };
            let _ = answer.send((reply, whole[from..(from + 5).min(last)].to_vec()));
        }
    }

    #[tokio::test]
    async fn an_outcome_of_more_pieces_than_a_stream_takes_questions_is_read_and_a_torn_one_is_none() {
        let (plan, mean) = (plan(1), [1.5, -2.25]);
        let (hashes, record, bytes) = sent(&record(&plan, &mean), &mean);
        let offered = Offered {
            hashes,
            record_bytes: record.len() as u64,
            mean_bytes: bytes.len() as u64,
        };
        let length = record.len() + bytes.len();
        assert!(length / 5 > PIECES_A_STREAM);
        for (last, is_read) in [(length, true), (length - 1, false), (0, false)] {
            let [giver, reader] = [1, 2].map(|byte| Keypair::ed25519_from_bytes([byte; 32]).expect("a key"));
            let (from, to) = (giver.public().to_peer_id(), reader.public().to_peer_id());
            let giving = hub(&giver, to, vec![]).await;
            let reading = hub(&reader, from, vec![giving.private_address().clone()]).await;
            let parts = (record.clone(), bytes.clone());
            let found = tokio::select! {
                () = give(&giving, parts, hashes, last) => None,
                found = fetch(&reading, &plan, (from, offered)) => found,
            };
            assert_eq!(found.is_some(), is_read, "{last} of {length} bytes");
        }
    }

    #[test]
    fn everybodys_no_is_final() {
        let plan = plan(1);
        let no: Vec<(Party, MemberOutcome)> = (1..6).map(|party| (party, MemberOutcome::None)).collect();
        assert!(believed(&plan, &no).expect_err("nobody has one").is_final());
    }
}
