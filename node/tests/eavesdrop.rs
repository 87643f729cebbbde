//! What somebody on the wire sees of a run, and what a node tells at TRACE. Three nodes in this process, each behind a proxy on both
//! graphs that records every byte, with marked values and marked noise.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use libp2p::Multiaddr;
use libp2p::identity::{Keypair, PublicKey};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, tcp};
use undertone::driver::{self, Finish, Part};
use undertone::events::Events;
use undertone::receipt::Account;
use undertone::result::{self, Delivery};
use undertone::spent::Spent;
use undertone_protocol::defaults::Defaults;
use undertone_protocol::lattice::{Lattice, LatticeVector, LatticeWeight, PackedVector};
use undertone_protocol::mixing::{Mixing, NoiseSource, Party};
use undertone_protocol::peers::Peers;
use undertone_protocol::plan::Plan;
use undertone_protocol::run_file::RawRunFile;

const PARTIES: usize = 3;
const DIMENSION: usize = 3000;

/// Everything that went over one connection to a proxy.
#[derive(Default)]
struct Capture {
    to_listener: Vec<u8>,
    from_listener: Vec<u8>,
}

type Captures = Arc<Mutex<Vec<Arc<Mutex<Capture>>>>>;

/// Noise that can be told from all else: known multiples of its grid, about one standard deviation large.
struct Marked {
    lattice: Lattice,
    correlated_std: f64,
    party: Party,
}

impl Marked {
    fn steps(&self, k: usize, round: u32, i: usize) -> i128 {
        let grid = self.lattice.noise_grid(round);
        let deviation = (self.correlated_std / self.lattice.step()) as i128 / grid;
        grid * (deviation - (1 + 7919 * self.party + 104_729 * k + 31 * i) as i128)
    }
}

impl NoiseSource<LatticeVector> for Marked {
    fn draw(&mut self, k: usize, round: u32) -> PackedVector {
        vector(&self.lattice, (0..DIMENSION).map(|i| self.steps(k, round, i))).pack()
    }
}

fn vector(lattice: &Lattice, steps: impl Iterator<Item = i128>) -> LatticeVector {
    let width = lattice.final_bytes as usize;
    let bytes: Vec<u8> = steps
        .flat_map(|step| step.to_le_bytes()[..width].to_vec())
        .collect();
    lattice.final_from_bytes(&bytes, DIMENSION).expect("small enough")
}

fn value(party: Party, i: usize) -> f64 {
    // Norm below 1, seven digits that nothing else has.
    0.010_234_567 * (1.0 + 0.27 * party as f64) + i as f64 * 1e-7
}

fn key(party: Party) -> Keypair {
    Keypair::ed25519_from_bytes([party as u8 + 40; 32]).expect("32 bytes")
}

fn address(port: u16) -> Multiaddr {
    format!("/ip4/127.0.0.1/tcp/{port}").parse().expect("an address")
}

/// Carries one connection and keeps what it carried.
async fn carry(client: TcpStream, target: u16, capture: Arc<Mutex<Capture>>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
        return;
    };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let keep = |capture: &Arc<Mutex<Capture>>, listener: bool| {
        let capture = capture.clone();
        move |bytes: &[u8]| {
            let mut capture = capture.lock().expect("no panic");
            let side = if listener {
                &mut capture.to_listener
            } else {
                &mut capture.from_listener
            };
            side.extend_from_slice(bytes);
        }
    };
    tokio::join!(
        pump(from_client, to_server, keep(&capture, true)),
        pump(from_server, to_client, keep(&capture, false))
    );
}

async fn pump(mut from: tcp::OwnedReadHalf, mut to: tcp::OwnedWriteHalf, keep: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length) = from.read(&mut buffer).await {
        keep(&buffer[..length]);
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// Ports that nobody listens on, below the range from which the system gives ports to the connections that are made here.
fn free_ports() -> impl Iterator<Item = u16> {
    (10_240..32_000).filter(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
}

/// A proxy in front of `target`; returns its port.
fn proxy(target: u16, captures: &Captures) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let port = listener.local_addr().expect("bound").port();
    let (listener, captures) = (
        tokio::net::TcpListener::from_std(listener).expect("in a runtime"),
        captures.clone(),
    );
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let capture = Arc::default();
            captures.lock().expect("no panic").push(Arc::clone(&capture));
            tokio::spawn(carry(client, target, capture));
        }
    });
    port
}

fn plan(listed: &[[u16; 2]]) -> Arc<Plan> {
    let mut peers = "version = 1\n".to_owned();
    for (party, [private, public]) in listed.iter().enumerate() {
        let id = key(party).public().to_peer_id();
        let (private, public) = (address(*private), address(*public));
        let _ = write!(
            peers,
            "[[peer]]\nname = \"p{party}\"\nid = \"{id}\"\nprivate = \"{private}\"\npublic = \"{public}\"\n"
        );
    }
    let peers = Peers::parse(&peers).expect("a peer list");
    // An ε so large that values are many steps of the lattice.
    let run = format!(
        "name = \"marked\"\n[data]\nshape = [{DIMENSION}]\n[privacy]\nepsilon = 8.0\n[mechanism]\nrounds = 3\n[run]\nround_ms = 5000\nsettle_ms = 2000\n"
    );
    let run = RawRunFile::parse(&run)
        .and_then(|raw| raw.resolve(PARTIES, Defaults::Local))
        .expect("a run file");
    Arc::new(undertone::plan_command::make(run, &peers, 3).expect("a plan"))
}

/// What everybody can know of a run after it: all that was sent, logged, told and written.
struct Seen {
    plan: Arc<Plan>,
    private: Vec<Capture>,
    public: Vec<Capture>,
    /// Logs at TRACE, events, receipts, final objects.
    told: Vec<u8>,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn take_part(plan: Arc<Plan>, me: Party, own: [u16; 2], folder: &Path) -> Vec<u8> {
    let begun = Instant::now();
    let values: Vec<f64> = (0..DIMENSION).map(|i| value(me, i)).collect();
    let noise = Marked {
        lattice: *plan.lattice(),
        correlated_std: plan.calibration().correlated_std,
        party: me,
    };
    let events = folder.join(format!("{me}.events"));
    let spent = Spent::open(
        &folder.join(me.to_string()),
        &plan.digest_hex(),
        &key(me).public().to_peer_id().to_string(),
    );
    let part = Part {
        plan: plan.clone(),
        me,
        key: key(me),
        value: undertone::clipping::onto_lattice(&plan, me, &values),
        noise: Box::new(noise),
        costs: Box::new(spent.expect("a state folder")),
        events: Events::open(Some(&events), begun).expect("a file"),
    };
    let mut configuration = driver::hub_configuration(&part);
    (configuration.private.listen, configuration.public.listen) = (address(own[0]), address(own[1]));
    let mut delivery = None;
    let receipt = folder.join(format!("{me}.receipt.json"));
    let delivered = |finish: &Finish| {
        let account = Account::of(&plan, me, finish)?;
        account.write(&receipt, &key(me))?;
        delivery = Some(Delivery {
            account,
            mean: None,
            receipt: None,
        });
        Ok(())
    };
    let finish = driver::drive_over(configuration, part, delivered)
        .await
        .expect("a run");
    let report = result::report(&plan, &finish, &delivery.expect("a result"), None, begun);
    assert_eq!(report.exit, 0, "{}", report.json);
    let mut told = format!("{}\n{}\n{finish:?}\n", report.json, report.text).into_bytes();
    for file in [events, receipt] {
        told.extend(std::fs::read(file).expect("written"));
    }
    told
}

fn run() -> Seen {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_env_filter("trace")
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .try_init()
        .expect("the first one in this process");
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let captures: [Captures; 2] = Default::default();
    let (plan, mut told) = runtime.block_on(async {
        let mut ports = free_ports();
        let own: Vec<[u16; 2]> = (0..PARTIES)
            .map(|_| [(); 2].map(|()| ports.next().expect("a free port")))
            .collect();
        let listed: Vec<[u16; 2]> = own
            .iter()
            .map(|own| [0, 1].map(|graph| proxy(own[graph], &captures[graph])))
            .collect();
        let plan = plan(&listed);
        let parts = (0..PARTIES).map(|me| take_part(plan.clone(), me, own[me], folder.path()));
        let told = futures::future::join_all(parts).await.concat();
        (plan, told)
    });
    runtime.shutdown_background();
    told.extend(log.0.lock().expect("no panic").iter());
    let [private, public] = captures.map(|captures| {
        let captures = captures.lock().expect("no panic");
        captures
            .iter()
            .map(|capture| std::mem::take(&mut *capture.lock().expect("no panic")))
            .collect()
    });
    Seen {
        plan,
        private,
        public,
        told,
    }
}

fn holds(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn all(captures: &[Capture]) -> Vec<u8> {
    captures
        .iter()
        .flat_map(|capture| [&capture.to_listener[..], &capture.from_listener])
        .flatten()
        .copied()
        .collect()
}

/// Two neighbouring coordinates in `width` bytes each.
fn pair(steps: [i128; 2], width: usize) -> Vec<u8> {
    steps
        .iter()
        .flat_map(|step| step.to_le_bytes()[..width].to_vec())
        .collect()
}

/// The secrets of the run as they would look in bytes and in words.
fn markers(plan: &Plan) -> Vec<(String, Vec<u8>)> {
    let lattice = plan.lattice();
    let mut markers: Vec<(String, Vec<u8>)> = vec![];
    let mut secret = |what: &str, steps: [i128; 2]| {
        for width in [lattice.wire_bytes as usize, lattice.final_bytes as usize, 8, 16] {
            let bytes = pair(steps, width);
            let list = bytes[..8.min(bytes.len())]
                .iter()
                .map(u8::to_string)
                .collect::<Vec<_>>()
                .join(", ");
            markers.push((format!("{what} as a list of bytes"), list.into_bytes()));
            let hex: String = bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            markers.push((format!("{what} in hexadecimal"), hex.clone().into_bytes()));
            markers.push((
                format!("{what} in upper-case hexadecimal"),
                hex.to_uppercase().into_bytes(),
            ));
            markers.push((format!("{what} in {width} bytes"), bytes));
        }
        // Short numbers are everywhere.
        if steps[0].abs() >= 1_000_000 {
            markers.push((format!("{what} in digits"), steps[0].to_string().into_bytes()));
        }
    };
    for party in 0..PARTIES {
        let own = undertone::clipping::onto_lattice(
            plan,
            party,
            &(0..DIMENSION).map(|i| value(party, i)).collect::<Vec<_>>(),
        );
        let mut noise = Marked {
            lattice: *lattice,
            correlated_std: plan.calibration().correlated_std,
            party,
        };
        let first_two = |vector: &LatticeVector| {
            let mut steps = vector.steps();
            [0; 2].map(|_| steps.next().expect("thousands"))
        };
        secret(&format!("the value of {party}"), first_two(&own));
        for k in 0..plan.rounds() as usize {
            let round = plan.injection().expect("a plan of INCA").first_use(k) as u32;
            secret(
                &format!("noise {k} of {party}"),
                [0, 1].map(|i| noise.steps(k, round, i)),
            );
        }
        let weight = LatticeWeight(lattice.weight(plan.draft().weight_units(party)));
        let mut mixing = Mixing::new(plan.mechanism(party), own.pack(), weight, true, &mut noise);
        secret(
            &format!("the first state of {party}"),
            first_two(&mixing.state().value),
        );
        let share = mixing.split(plan.schedule().sends_to(1, party), |state| state.value.pack());
        secret(
            &format!("the first share of {party}"),
            first_two(&share.value.unpack()),
        );
    }
    for party in 0..PARTIES {
        let number = value(party, 0);
        markers.push((
            format!("the number of {party} in digits"),
            number.to_string().as_bytes()[..9].to_vec(),
        ));
        markers.push((
            format!("the number of {party} in f64"),
            number.to_le_bytes().to_vec(),
        ));
        markers.push((
            format!("the number of {party} in f32"),
            (number as f32)
                .to_le_bytes()
                .iter()
                .chain(&(value(party, 1) as f32).to_le_bytes())
                .copied()
                .collect(),
        ));
    }
    markers
}

/// Bits a byte, 8 for noise.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0f64; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1.0);
    let total = bytes.len() as f64;
    -counts
        .iter()
        .filter(|count| **count > 0.0)
        .map(|count| count / total * (count / total).log2())
        .sum::<f64>()
}

// A reader of the public graph that knows the wire, and nothing of this program.

/// Takes a length in base 128 and as many bytes.
fn chunk<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (mut length, mut shift) = (0usize, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 || shift > 28 {
            break;
        }
    }
    let (chunk, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(chunk)
}

/// The Yamux streams in one direction of a connection, after its negotiation and the plaintext handshake.
fn streams(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut streams: Vec<(u32, Vec<u8>)> = vec![];
    while let Some(line) = chunk(&mut bytes) {
        if line == b"/yamux/1.0.0\n" {
            break;
        }
    }
    while let Some((header, rest)) = bytes.split_at_checked(12) {
        let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four"));
        assert_eq!(header[0], 0, "Yamux version");
        bytes = rest;
        if header[1] == 0 {
            let Some((data, rest)) = bytes.split_at_checked(number(8) as usize) else {
                break;
            };
            bytes = rest;
            match streams.iter_mut().find(|(id, _)| *id == number(4)) {
                Some((_, stream)) => stream.extend_from_slice(data),
                None => streams.push((number(4), data.to_vec())),
            }
        }
    }
    streams
}

/// The frames that the opener of a stream sent: after the protocol's name and its hello of 134 bytes.
fn frames(mut stream: &[u8]) -> Vec<&[u8]> {
    let lines = [&b"/multistream/1.0.0\n"[..], b"/undertone/stream/1\n"];
    for line in lines {
        if chunk(&mut stream) != Some(line) {
            return vec![];
        }
    }
    if stream.first() != Some(&b'H') {
        return vec![];
    }
    let Some((_, mut stream)) = stream.split_at_checked(134) else {
        return vec![];
    };
    let mut frames = vec![];
    while let Some((length, rest)) = stream.split_first_chunk::<4>() {
        let Some((frame, rest)) = rest.split_at_checked(u32::from_be_bytes(*length) as usize) else {
            break;
        };
        frames.push(frame);
        stream = rest;
    }
    frames
}

/// The frames in full: `01 08 which start length before after` stands for one with a run of the `which`th of the last four long notices in between.
fn restored(frames: Vec<&[u8]>) -> Vec<Vec<u8>> {
    let mut kept: Vec<Vec<u8>> = vec![];
    let mut restored = vec![];
    for frame in frames {
        let number = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().expect("four")) as usize;
        if frame[..2] == [1, 8] {
            let (start, length) = (number(3), number(7));
            let (before, after) = frame[11..].split_at(start);
            let run = &kept[usize::from(frame[2])][start..start + length];
            restored.push([before, run, after].concat());
            continue;
        }
        if frame[..2] == [1, 1] && (256..=64 << 10).contains(&frame.len()) {
            if kept.len() == 4 {
                kept.remove(0);
            }
            kept.push(frame.to_vec());
        }
        restored.push(frame.to_vec());
    }
    restored
}

/// Verifies a notice `01 01 author digest phase sequence recipient signature body`; returns its author and kind.
fn verify(frame: &[u8], digest: &[u8; 32], keys: &[PublicKey]) -> (u32, u32) {
    let author: [u8; 4] = frame[2..6].try_into().expect("four");
    assert_eq!(&frame[6..38], digest, "of this run");
    let (phase, sequence) = (frame[38], &frame[39..47]);
    let direct = frame[47] == 1;
    let rest = &frame[if direct { 52 } else { 48 }..];
    let (signature, body) = rest.split_at(64);
    let mut signed = b"undertone/public/1\0".to_vec();
    signed.extend_from_slice(digest);
    signed.push(phase);
    signed.extend_from_slice(sequence);
    signed.push(u8::from(direct));
    if direct {
        signed.extend_from_slice(&frame[48..52]);
        signed.extend_from_slice(&[0; 4]);
    }
    signed.extend_from_slice(&author);
    signed.extend_from_slice(&[0; 4]);
    signed.extend_from_slice(&Sha256::digest(body));
    let author = u32::from_le_bytes(author);
    assert!(
        keys[author as usize].verify(&signed, signature),
        "its author's signature"
    );
    (author, u32::from_le_bytes(body[..4].try_into().expect("four")))
}

/// Sets of few parties are too short for it.
#[test]
fn frames_that_repeat_a_part_of_an_earlier_one_are_read_in_full() {
    let mut sender = undertone_protocol::wire::Repeats::default();
    let notice = |author: u8| [&[1, 1][..], &[author; 70], &[7; 250], &[author; 9]].concat();
    let in_full: Vec<Vec<u8>> = (0..6)
        .flat_map(|author| [notice(author), vec![1, 1, author]])
        .collect();
    let sent: Vec<Vec<u8>> = in_full
        .iter()
        .map(|frame| sender.shorten(frame).unwrap_or(frame.clone()))
        .collect();
    assert_eq!(sent.iter().filter(|frame| frame[1] == 8).count(), 5);
    assert_eq!(restored(sent.iter().map(|frame| &frame[..]).collect()), in_full);
}

#[test]
fn the_private_graph_is_sealed_the_public_one_is_readable_and_nothing_is_told() {
    let seen = run();
    let digest = seen.plan.digest();
    let (private, public) = (all(&seen.private), all(&seen.public));
    println!(
        "{} bytes private, {} bytes public, {} bytes told",
        private.len(),
        public.len(),
        seen.told.len()
    );

    // The private graph: the parties' shares of three rounds went through the proxies, and nothing can be made of them.
    let share = DIMENSION * seen.plan.lattice().wire_bytes as usize;
    assert!(
        private.len() > PARTIES * seen.plan.rounds() as usize * share,
        "everything went through the proxies"
    );
    assert!(!holds(&private, digest), "a plan digest in clear");
    assert!(!holds(&private, &digest[..8]), "a part of one");
    for word in [
        &b"/yamux"[..],
        b"/undertone",
        &[1, 3, digest[0], digest[1], digest[2]],
    ] {
        assert!(
            !holds(&private, word),
            "{:?} in clear",
            String::from_utf8_lossy(word)
        );
    }
    for capture in seen
        .private
        .iter()
        .flat_map(|capture| [&capture.to_listener, &capture.from_listener])
    {
        // Only what is long enough to tell; the first bytes are the negotiation of Noise.
        if capture.len() > 20_000 {
            let bits = entropy(&capture[1000..]);
            assert!(bits > 7.95, "{bits} bits a byte");
        }
    }

    // The public graph, by somebody who has the plan's keys and a description of the wire.
    let keys: Vec<PublicKey> = (0..PARTIES).map(|party| key(party).public()).collect();
    let (mut kinds, mut hashes, mut bodies) = (std::collections::BTreeSet::new(), vec![], vec![]);
    for side in seen
        .public
        .iter()
        .flat_map(|capture| [&capture.to_listener, &capture.from_listener])
    {
        for (_, stream) in streams(side) {
            for frame in restored(frames(&stream)) {
                match &frame[..2] {
                    [1, 1] => {
                        let (author, kind) = verify(&frame, digest, &keys);
                        kinds.insert((author, kind));
                        if kind == 2 {
                            let body = &frame[48 + 64..];
                            hashes.push(body[8..40].to_vec());
                        }
                    }
                    [1, 2] => bodies.push(Sha256::digest(&frame[2 + 32 + 4 + 4..]).to_vec()),
                    other => panic!("an unknown frame {other:?}"),
                }
            }
        }
    }
    // READY, START, items and votes of everybody; each body is one that its author signed for.
    for author in 0..PARTIES as u32 {
        for kind in [0, 1, 2, 4] {
            assert!(
                kinds.contains(&(author, kind)),
                "kind {kind} of party {author} was read and verified: {kinds:?}"
            );
        }
    }
    assert!(
        bodies.len() >= PARTIES && bodies.iter().all(|hash| hashes.contains(hash)),
        "bodies have the signed hashes"
    );

    // Nobody tells a marked value or noise, in the clear, in a log, an event, a receipt or a report.
    assert!(
        holds(&seen.told, b"TRACE") && holds(&seen.told, b"phase"),
        "the log is one"
    );
    for (what, marker) in markers(&seen.plan) {
        for (place, bytes) in [
            ("the private graph", &private),
            ("the public graph", &public),
            ("what was told", &seen.told),
        ] {
            assert!(!holds(bytes, &marker), "{what} is in {place}");
        }
    }
    for word in ["clipped", "rms_"] {
        assert!(
            !holds(&seen.told, word.as_bytes()),
            "{word} is a statistic of raw data"
        );
    }
}
