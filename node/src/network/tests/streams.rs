//! The hello and the frames on a bare pair of sockets, where one end can be anything.

use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt};
use libp2p::tcp::tokio::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use undertone_protocol::messages::notice::Network;

use crate::network::event::NetworkEvent;
use crate::network::hello::{self, Credentials, HelloError, Verdict};
use crate::network::line::Line;
use crate::network::offence::{Hex, Offence};
use crate::network::queue::{Frame, Queue};
use crate::network::reports::Reports;
use crate::network::session::{End, read_frames, write_frames};
use crate::network::tests::nodes::*;

async fn sockets() -> (TcpStream, TcpStream) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let opener = tokio::net::TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (acceptor, _) = listener.accept().await.unwrap();
    (TcpStream(opener), TcpStream(acceptor))
}

fn credentials(own: u8, peer: u8, graph: Network) -> Credentials {
    Credentials {
        graph,
        asks: false,
        version: 1,
        key: key(own),
        peer: id(peer),
        peer_key: key(peer).public(),
        patience: DEADLINE,
    }
}

/// The test's run is welcome.
fn verdict(digest: &[u8; 32]) -> Verdict<()> {
    if *digest == DIGEST {
        Verdict::Welcome(())
    } else {
        Verdict::Absent
    }
}

async fn meet(opener: Credentials, acceptor: Credentials) -> [Result<(), HelloError>; 2] {
    let (mut out, mut inward) = sockets().await;
    let opening = async {
        let result = hello::open(&mut out, &opener, DIGEST).await;
        drop(out);
        result
    };
    let accepting = async {
        let result = hello::accept(&mut inward, &acceptor, verdict).await;
        drop(inward);
        result
    };
    let (opened, accepted) = soon(futures::future::join(opening, accepting)).await;
    [opened, accepted]
}

fn is_no_hello(result: &Result<(), HelloError>) -> bool {
    matches!(result, Err(HelloError::Offence(Offence::NoHello { .. })))
}

#[tokio::test]
async fn honest_peers_meet() {
    for graph in [Network::Private, Network::Public] {
        let both = meet(credentials(1, 2, graph), credentials(2, 1, graph)).await;
        assert!(both.iter().all(Result::is_ok), "{both:?}");
    }
}

#[tokio::test]
async fn a_hello_is_good_for_its_signer_its_recipient_and_its_graph_only() {
    // Signed by 3, taken for 1's.
    let forged = meet(
        credentials(3, 2, Network::Public),
        credentials(2, 1, Network::Public),
    )
    .await;
    assert!(is_no_hello(&forged[1]), "{forged:?}");
    // 1 speaks to 3, who is 2 for it only in name.
    let forged = meet(
        credentials(1, 3, Network::Public),
        credentials(2, 1, Network::Public),
    )
    .await;
    assert!(is_no_hello(&forged[1]), "{forged:?}");
    let crossed = meet(
        credentials(1, 2, Network::Private),
        credentials(2, 1, Network::Public),
    )
    .await;
    assert!(is_no_hello(&crossed[1]), "{crossed:?}");
    let asker = Credentials {
        asks: true,
        ..credentials(1, 2, Network::Public)
    };
    let crossed = meet(asker, credentials(2, 1, Network::Public)).await;
    assert!(is_no_hello(&crossed[1]), "{crossed:?}");
}

/// Plays node 1's valid answers back to node 2, at another time: what an eavesdropper of the public
/// graph can do.
#[tokio::test]
async fn a_recorded_hello_is_worthless() {
    let (mut out, mut inward) = sockets().await;
    let ours = credentials(2, 1, Network::Public);
    let recording = async {
        let mut challenge = [0; 33];
        out.read_exact(&mut challenge).await.unwrap();
        let (mut relay_out, mut relay_in) = sockets().await;
        let victim = credentials(1, 2, Network::Public);
        let relay = async {
            relay_in.write_all(&challenge).await.unwrap();
            let mut hello = [0; 134];
            relay_in.read_exact(&mut hello).await.unwrap();
            drop(relay_in);
            hello
        };
        let (_, hello) = soon(futures::future::join(
            hello::open(&mut relay_out, &victim, DIGEST),
            relay,
        ))
        .await;
        out.write_all(&hello).await.unwrap();
        let mut answer = [0; 102];
        out.read_exact(&mut answer).await.unwrap();
        hello
    };
    let (accepted, recorded) = soon(futures::future::join(
        hello::accept(&mut inward, &ours, verdict),
        recording,
    ))
    .await;
    accepted.expect("a relayed hello is a fresh one");

    let (mut out, mut inward) = sockets().await;
    out.write_all(&recorded).await.unwrap();
    assert!(is_no_hello(
        &soon(hello::accept(&mut inward, &ours, verdict)).await
    ));
}

/// Carries a hello from 1 to 2, with byte `hello` of the opener's word and byte `answer` of the
/// acceptor's changed on the way, if these are said; what each end makes of it.
async fn meet_altered(hello: Option<usize>, answer: Option<usize>) -> [Result<(), HelloError>; 2] {
    let ((mut out, mut from_opener), (mut to_acceptor, mut inward)) = (sockets().await, sockets().await);
    let (opener, acceptor) = (
        credentials(1, 2, Network::Public),
        credentials(2, 1, Network::Public),
    );
    let opening = async {
        let result = hello::open(&mut out, &opener, DIGEST).await;
        drop(out);
        result
    };
    let accepting = async {
        let result = hello::accept(&mut inward, &acceptor, verdict).await;
        drop(inward);
        result
    };
    // Ends both connections with the first word that does not come.
    let carrying = async move {
        let mut challenge = [0; 33];
        to_acceptor.read_exact(&mut challenge).await?;
        from_opener.write_all(&challenge).await?;
        let mut word = [0; 134];
        from_opener.read_exact(&mut word).await?;
        hello.iter().for_each(|&byte| word[byte] ^= 1);
        to_acceptor.write_all(&word).await?;
        let mut word = [0; 102];
        to_acceptor.read_exact(&mut word).await?;
        answer.iter().for_each(|&byte| word[byte] ^= 1);
        from_opener.write_all(&word).await
    };
    let (opened, accepted, _) = soon(futures::future::join3(opening, accepting, carrying)).await;
    [opened, accepted]
}

#[tokio::test]
async fn every_byte_of_a_hello_and_of_its_answer_is_signed() {
    let unaltered = meet_altered(None, None).await;
    assert!(unaltered.iter().all(Result::is_ok), "{unaltered:?}");
    for byte in 0..134 {
        let [_, accepted] = meet_altered(Some(byte), None).await;
        assert!(is_no_hello(&accepted), "byte {byte} of the hello: {accepted:?}");
    }
    for byte in 0..102 {
        let [opened, _] = meet_altered(None, Some(byte)).await;
        assert!(is_no_hello(&opened), "byte {byte} of the answer: {opened:?}");
    }
}

/// Checks that replaying what an eavesdropper has heard from node 2 gains nothing.
#[tokio::test]
async fn a_recorded_answer_is_worthless() {
    let (mut out, mut from_opener) = sockets().await;
    let (mut to_acceptor, mut inward) = sockets().await;
    let (ours, theirs) = (
        credentials(1, 2, Network::Public),
        credentials(2, 1, Network::Public),
    );
    let recording = async {
        let (mut challenge, mut hello, mut answer) = ([0; 33], [0; 134], [0; 102]);
        to_acceptor.read_exact(&mut challenge).await.unwrap();
        from_opener.write_all(&challenge).await.unwrap();
        from_opener.read_exact(&mut hello).await.unwrap();
        to_acceptor.write_all(&hello).await.unwrap();
        to_acceptor.read_exact(&mut answer).await.unwrap();
        from_opener.write_all(&answer).await.unwrap();
        (challenge, answer)
    };
    let (opened, accepted, (challenge, answer)) = soon(futures::future::join3(
        hello::open(&mut out, &ours, DIGEST),
        hello::accept(&mut inward, &theirs, verdict),
        recording,
    ))
    .await;
    assert!(opened.is_ok() && accepted.is_ok());
    let (mut out, mut impostor) = sockets().await;
    impostor.write_all(&challenge).await.unwrap();
    impostor.write_all(&answer).await.unwrap();
    assert!(is_no_hello(&soon(hello::open(&mut out, &ours, DIGEST)).await));
}

#[tokio::test]
async fn an_answer_must_be_signed_by_the_acceptor() {
    let (mut out, mut inward) = sockets().await;
    let impostor = async {
        inward.write_all(&[b'C'; 33]).await.unwrap();
        let mut hello = [0; 134];
        inward.read_exact(&mut hello).await.unwrap();
        let mut answer = vec![b'A', 1, 0, 0, 0, 1];
        answer.extend([0xee; 32 + 64]);
        inward.write_all(&answer).await.unwrap();
    };
    let ours = credentials(1, 2, Network::Public);
    let (opened, ()) = soon(futures::future::join(
        hello::open(&mut out, &ours, DIGEST),
        impostor,
    ))
    .await;
    assert!(
        is_no_hello(&opened),
        "an unsigned rejection must not name a digest: {opened:?}"
    );
}

#[tokio::test]
async fn rubbish_and_silence_are_no_hello() {
    let (mut out, mut inward) = sockets().await;
    out.write_all(&[0xff; 134]).await.unwrap();
    assert!(is_no_hello(
        &soon(hello::accept(
            &mut inward,
            &credentials(2, 1, Network::Public),
            verdict
        ))
        .await
    ));

    let (_out, mut inward) = sockets().await;
    let mut hasty = credentials(2, 1, Network::Public);
    hasty.patience = Duration::from_millis(20);
    assert!(matches!(
        soon(hello::accept(&mut inward, &hasty, verdict)).await,
        Err(HelloError::Io(_))
    ));
}

fn line(max_frame: usize, stall: Duration) -> Line {
    Line {
        graph: Network::Private,
        peer: id(2),
        digest: DIGEST,
        queue: Queue::new(100, 100 << 20),
        max_frame,
        inbound_bytes: 2 * max_frame + 100,
        stall,
        sent: Arc::default(),
    }
}

fn reports() -> (Reports, mpsc::Receiver<NetworkEvent>, watch::Sender<bool>) {
    let (events, receiver) = mpsc::channel(100);
    let (sender, stop) = watch::channel(false);
    (Reports { events, stop }, receiver, sender)
}

#[tokio::test]
async fn frame_bytes_are_pinned() {
    let (out, mut inward) = sockets().await;
    let (reports, _events, stop) = reports();
    let line = line(1000, DEADLINE);
    line.queue.push(Frame::new([0xab, 0xcd].into())).unwrap();
    line.queue.push(Frame::new([].into())).unwrap();
    stop.send(true).unwrap();
    let reading = async {
        let mut bytes = Vec::new();
        inward.read_to_end(&mut bytes).await.unwrap();
        drop(inward);
        bytes
    };
    let (end, bytes) = soon(futures::future::join(write_frames(out, &line, &reports), reading)).await;
    assert!(matches!(end, End::Closed), "{end:?}");
    assert_eq!(Hex(&bytes).to_string(), "00000002abcd00000000");
}

#[tokio::test]
async fn a_length_above_the_limit_is_refused_before_anything_is_read() {
    let (mut out, inward) = sockets().await;
    out.write_all(&[0xff, 0xff, 0xff, 0xff]).await.unwrap();
    let (reports, _events, _stop) = reports();
    let end = soon(read_frames(inward, &line(1000, DEADLINE), &reports)).await;
    assert!(
        matches!(
            end,
            End::Offence(Offence::FrameTooLong {
                length: 0xffff_ffff,
                limit: 1000
            })
        ),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_frame_that_stops_halfway_is_a_stall_and_an_early_end_is_none() {
    let (reports, mut events, _stop) = reports();
    let (mut out, inward) = sockets().await;
    out.write_all(&[0, 0, 0, 9, 1, 2, 3]).await.unwrap();
    let end = soon(read_frames(
        inward,
        &line(1000, Duration::from_millis(20)),
        &reports,
    ))
    .await;
    assert!(
        matches!(end, End::Offence(Offence::Stalled { after_ms: 20 })),
        "{end:?}"
    );

    let (mut out, inward) = sockets().await;
    out.write_all(&[0, 0, 0, 9, 1, 2, 3]).await.unwrap();
    drop(out);
    let end = soon(read_frames(inward, &line(1000, DEADLINE), &reports)).await;
    assert!(matches!(end, End::Closed), "{end:?}");
    assert!(events.try_recv().is_err(), "half a frame was passed on");
}

#[tokio::test]
async fn silence_between_frames_is_no_stall() {
    let (mut out, inward) = sockets().await;
    let (reports, mut events, _stop) = reports();
    let hasty = line(1000, Duration::from_millis(1));
    let writing = async {
        for _ in 0..3 {
            out.write_all(&[0, 0, 0, 1, 7]).await.unwrap();
            assert!(matches!(events.recv().await, Some(NetworkEvent::Frame { .. })));
            // Long after the stall time-out: the next 20 ms belong to nobody's deadline.
            let _ = timeout(Duration::from_millis(20), futures::future::pending::<()>()).await;
        }
        drop(out);
    };
    let (end, ()) = soon(futures::future::join(
        read_frames(inward, &hasty, &reports),
        writing,
    ))
    .await;
    assert!(matches!(end, End::Closed), "{end:?}");
}

#[tokio::test]
async fn at_most_64_frames_of_a_peer_are_unread_however_short_they_are() {
    let (reports, mut events, _stop) = reports();
    let line = Line {
        inbound_bytes: 6_400,
        ..line(1000, DEADLINE)
    };
    // In memory: what is not read now is held back.
    let frames = futures::io::Cursor::new(vec![0; 4 * 100]);
    let mut reading = std::pin::pin!(tokio::task::unconstrained(read_frames(frames, &line, &reports)));
    assert!(futures::poll!(&mut reading).is_pending());
    let mut held: Vec<_> = std::iter::from_fn(|| events.try_recv().ok()).collect();
    assert_eq!(held.len(), 64);
    held.truncate(60);
    assert!(futures::poll!(&mut reading).is_pending());
    let more = std::iter::from_fn(|| events.try_recv().ok()).count();
    assert_eq!(more, 4, "as many as were let go of");
}

#[tokio::test]
async fn a_peer_that_takes_nothing_stalls() {
    let (out, _inward) = sockets().await;
    let (reports, _events, _stop) = reports();
    let line = line(64 << 20, Duration::from_millis(20));
    // More than the system's buffers hold.
    line.queue.push(Frame::new(vec![0; 64 << 20].into())).unwrap();
    let end = soon(write_frames(out, &line, &reports)).await;
    assert!(
        matches!(end, End::Offence(Offence::Stalled { after_ms: 20 })),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_reader_must_not_write() {
    let (out, mut inward) = sockets().await;
    let (reports, _events, _stop) = reports();
    inward.write_all(&[1]).await.unwrap();
    let end = soon(write_frames(out, &line(1000, DEADLINE), &reports)).await;
    assert!(matches!(end, End::Offence(Offence::OutOfTurn)), "{end:?}");
}
