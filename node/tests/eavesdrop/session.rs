//! A run of three nodes in this process, each behind a proxy on both graphs.

use std::fmt::Write as _;
use std::future::pending;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use libp2p::Multiaddr;
use undertone::commands::join::result::{self, Delivery, Owners};
use undertone::party::driver::{self, Finish, Part};
use undertone::party::events::Events;
use undertone::party::receipt::Account;
use undertone::party::spent::Spent;
use undertone::party::{reaching, shelf};
use undertone::planning::make;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::defaults::Defaults;
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::raw::RawRunFile;
use undertone_protocol::topology::party::Party;

use crate::marked::{self, Marked, key};
use crate::proxy::{Capture, Captures, free_ports, proxy};
use crate::{DIMENSION, PARTIES};

fn address(port: u16) -> Multiaddr {
    format!("/ip4/127.0.0.1/tcp/{port}").parse().expect("an address")
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
        "name = \"marked\"\n[data]\nshape = [{DIMENSION}]\n[privacy]\nepsilon = 8.0\n\
         [mechanism]\ncorrelated = \"gaussian\"\nrounds = 3\n[run]\nround_ms = 5000\nsettle_ms = 2000\n"
    );
    let run = RawRunFile::parse(&run)
        .and_then(|raw| raw.resolve(PARTIES, Defaults::Local))
        .expect("a run file");
    Arc::new(make::make(run, &peers, 3).expect("a plan"))
}

/// All that anybody can see of a run after it: all bytes sent, logged, reported and written.
pub(crate) struct Seen {
    pub(crate) plan: Arc<Plan>,
    pub(crate) private: Vec<Capture>,
    pub(crate) public: Vec<Capture>,
    /// Logs at TRACE, events, receipts, final objects.
    pub(crate) reported: Vec<u8>,
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
    let events = folder.join(format!("{me}.events"));
    let spent = Spent::open(
        &folder.join(format!("{me}.key")),
        &folder.join(me.to_string()),
        &plan.digest_hex(),
        &key(me).public().to_peer_id().to_string(),
    );
    let part = Part {
        plan: plan.clone(),
        me,
        key: key(me),
        value: marked::contribution(&plan, me),
        noise: Box::new(Marked::of(&plan, me)),
        costs: Box::new(spent.expect("a state folder")),
        events: Events::open(Some(&events), begun).expect("a file"),
        shelf: shelf::in_folder(folder),
        contributor: None,
    };
    let mut configuration = reaching::hub_configuration(&part.plan, part.me, &part.key);
    configuration.private.listen = vec![address(own[0])];
    configuration.public.listen = vec![address(own[1])];
    let mut delivery = None;
    let receipt = folder.join(format!("{me}.receipt.json"));
    let delivered = |finish: &Finish| {
        let account = Account::of(&plan, me, finish)?;
        account.write(&receipt, &key(me))?;
        delivery = Some(Delivery {
            values: None,
            silence: finish.silence.clone(),
            account,
            mean: None,
            receipt: None,
            names: None,
            places: vec!["mean.npy".into()],
        });
        Ok(())
    };
    let finish = driver::drive_alone(configuration, part, pending(), delivered)
        .await
        .expect("a run");
    let report = result::report(
        &plan,
        &finish,
        &delivery.expect("a result"),
        Owners::default(),
        begun,
    );
    assert_eq!(report.exit, 0, "{}", report.json);
    let mut reported = format!("{}\n{}\n{finish:?}\n", report.json, report.text).into_bytes();
    for file in [events, receipt] {
        reported.extend(std::fs::read(file).expect("written"));
    }
    reported
}

/// A run of all parties, each behind a proxy on both graphs.
pub(crate) fn run() -> Seen {
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
    let (plan, mut reported) = runtime.block_on(async {
        let (ports, _held): (Vec<u16>, Vec<_>) = free_ports().take(2 * PARTIES).unzip();
        let own: Vec<[u16; 2]> = ports.as_chunks().0.to_vec();
        assert_eq!(own.len(), PARTIES, "free ports");
        let listed: Vec<[u16; 2]> = own
            .iter()
            .map(|own| [0, 1].map(|graph| proxy(own[graph], &captures[graph])))
            .collect();
        let plan = plan(&listed);
        let parts = (0..PARTIES).map(|me| take_part(plan.clone(), me, own[me], folder.path()));
        let reported = futures::future::join_all(parts).await.concat();
        (plan, reported)
    });
    runtime.shutdown_background();
    reported.extend(log.0.lock().expect("no panic").iter());
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
        reported,
    }
}
