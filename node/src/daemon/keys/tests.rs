//! Daemons of one group in this process, of which one's key is revoked.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use libp2p::PeerId;
use tokio::time::timeout;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};
use undertone_protocol::messages::revocation::{Revocation, STATEMENT_BYTES};

use crate::daemon::backup::{self, Backup};
use crate::daemon::config::{Config, NodeArgs};
use crate::daemon::contribution::{Contribution, Vector};
use crate::daemon::keys::store::Keys;
use crate::daemon::refusal::{Kind, Refusal};
use crate::daemon::service::Service;
use crate::daemon::status::{RunState, RunStatus};
use crate::daemon::travel;
use crate::party::identity::Identity;
use crate::planning::make;
use crate::planning::revoked::{parse_line, to_line};

const PARTIES: usize = 4;

/// The one whose key was stolen.
const THIEF: usize = 3;

/// The longest time from the first link until a peer knows of a revocation.
const HEARD: Duration = Duration::from_secs(5);

const RUN: &str = "name = \"t\"\n[data]\nnoise_ok = true\nshape = [2]\n[run]\njoin_ms = 60000\n";

struct Group {
    folder: tempfile::TempDir,
    identities: Vec<Identity>,
    recovery: Vec<Identity>,
    services: Vec<Option<Service>>,
}

impl Group {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        static TESTS: AtomicU8 = AtomicU8::new(192);
        let (test, pid) = (TESTS.fetch_add(1, Ordering::Relaxed), std::process::id() as u16);
        let [high, low] = pid.to_be_bytes();
        let address = format!("/ip4/127.{test}.{high}.{low}/tcp");
        let (mut peers, mut identities, mut recovery) = (String::from("version = 1\n"), vec![], vec![]);
        for party in 0..PARTIES {
            let at = |port: usize| Some(format!("{address}/{}", 7001 + 2 * party + port));
            let mut identity = Identity::generate(format!("lab-{party}"), at(0), at(1));
            recovery.push(identity.with_recovery());
            identity
                .create(&folder.path().join(format!("lab-{party}.key")))
                .unwrap();
            peers += &identity.peer_lines();
            identities.push(identity);
            let data = folder.path().join(format!("lab-{party}.data"));
            std::fs::create_dir(&data).unwrap();
            std::fs::write(data.join("ward.csv"), "0.25\n0.5\n").unwrap();
        }
        std::fs::write(folder.path().join("peers.toml"), peers).unwrap();
        let services = (0..PARTIES).map(|_| None).collect();
        Group {
            folder,
            identities,
            recovery,
            services,
        }
    }

    fn config(&self, party: usize) -> Config {
        let name = format!("lab-{party}");
        let node = format!("identity = \"{name}.key\"\nstate = \"{name}.state\"\ndata = \"{name}.data\"\n");
        let file = self.folder.path().join(format!("{name}.toml"));
        std::fs::write(&file, node).unwrap();
        let arguments = NodeArgs {
            config: Some(file),
            ..NodeArgs::default()
        };
        Config::from_parts(&arguments, std::iter::empty()).unwrap()
    }

    /// Starts a daemon that answers others, and asks nobody itself.
    async fn start_silent(&mut self, party: usize) {
        let begun = Instant::now();
        let service = loop {
            match Service::start(self.config(party)).await {
                Ok(service) => break service,
                // A thread of the one before may have a file open for a moment longer.
                Err(failure) => assert!(begun.elapsed() < HEARD, "{failure}"),
            }
        };
        travel::answer(&service);
        self.services[party] = Some(service);
    }

    async fn start(&mut self, party: usize) {
        self.start_silent(party).await;
        self.service(party).keep_keys();
    }

    async fn stop(&mut self, party: usize) {
        if let Some(service) = self.services[party].take() {
            service.shutdown().await;
        }
    }

    fn service(&self, party: usize) -> &Service {
        self.services[party].as_ref().expect("it runs")
    }

    fn id(&self, party: usize) -> PeerId {
        self.identities[party].peer_id()
    }

    /// A statement about the thief's key, by this identity.
    fn line(&self, by: &Identity) -> String {
        to_line(&Revocation::sign(&by.keypair, self.id(THIEF), 5).unwrap())
    }

    fn keys(&self, party: usize) -> PathBuf {
        self.folder.path().join(format!("lab-{party}.state/keys"))
    }

    /// Whether these hold a statement about the thief.
    fn know(&self, parties: &[usize]) -> bool {
        let id = self.id(THIEF).to_string();
        parties
            .iter()
            .all(|party| self.service(*party).revoked_keys().iter().any(|key| key.id == id))
    }

    /// Waits until these know, and no longer than allowed.
    async fn heard(&self, parties: &[usize]) {
        let begun = Instant::now();
        for &party in parties {
            let mut news = self.service(party).shared.keys_news.subscribe();
            let heard = async {
                while !self.know(&[party]) {
                    news.changed().await.expect("it runs");
                }
            };
            let heard = timeout(HEARD.saturating_sub(begun.elapsed()), heard).await;
            heard.unwrap_or_else(|_| panic!("lab-{party} has not heard"));
        }
        println!("heard after {:?}", begun.elapsed());
    }

    async fn submit(&self, party: usize, seed: u64) -> Result<RunStatus, Refusal> {
        let config = self.service(party).config();
        let run = make::run_file(RUN, &config.peers, "RUN.toml".as_ref()).unwrap();
        let plan = make::make(run, &config.peers, seed)
            .unwrap()
            .to_json()
            .as_bytes()
            .to_vec();
        let kept = self.service(party).hand_in(plan).await?;
        let contribution = Contribution {
            records: None,
            vector: Some(Vector::Named("ward.csv".into())),
            data_set: None,
        };
        self.service(party).submit(&kept.digest, contribution).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_reaches_all_who_are_up_and_those_who_come_later_and_outlives_a_restart() {
    let mut group = Group::new();
    for party in [0, 1, THIEF] {
        group.start(party).await;
    }
    let line = group.line(&group.recovery[THIEF]);
    let (key, is_new) = group.service(0).revoke(&line).unwrap();
    assert!(
        is_new && key.name.as_deref() == Some("lab-3") && key.line == line,
        "{key:?}"
    );
    assert!(!group.service(0).revoke(&line).unwrap().1, "once");
    // Its owner's own daemon hears it as well, before it is turned away.
    group.heard(&[0, 1, THIEF]).await;
    // One that was away when it was said.
    group.start(2).await;
    group.heard(&[2]).await;
    // The disk remembers, and so nobody has to be asked.
    group.stop(0).await;
    group.start_silent(0).await;
    assert!(group.know(&[0]));
    let ready = group.service(THIEF).readiness();
    assert!(
        !ready.ready && ready.problems[0].contains("was revoked by its recovery key"),
        "{ready:?}"
    );
    assert!(group.service(0).readiness().ready);
    let status = group.service(1).status().await;
    assert_eq!(status.revoked, group.service(0).revoked_keys());
    assert_eq!(group.service(1).metrics().revoked_keys, 1);
    for party in 0..PARTIES {
        group.stop(party).await;
    }
}

#[tokio::test]
async fn a_backup_has_the_statements_and_a_restore_brings_those_that_are_missing() {
    let mut group = Group::new();
    group.start_silent(0).await;
    let line = group.line(&group.recovery[THIEF]);
    group.service(0).revoke(&line).unwrap();
    let file = group.folder.path().join("backup.tar");
    backup::make(&group.config(0), false, &file).unwrap();
    group.stop(0).await;
    std::fs::remove_dir_all(group.keys(0)).unwrap();
    let restore = || Backup::read(&file).unwrap().restore(&group.config(0)).unwrap();
    assert_eq!((restore().keys, restore().keys), (1, 0));
    group.start_silent(0).await;
    assert!(group.know(&[0]));
    assert_eq!(group.service(0).revoked_keys()[0].line, line);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_names_a_revoked_key_is_left_and_refused_and_its_holder_turned_away() {
    let mut group = Group::new();
    for party in 0..PARTIES {
        group.start(party).await;
    }
    let before = group.submit(1, 1).await.unwrap();
    let stolen = group.service(THIEF).hub().clone();
    let greet = |graph| {
        let (stolen, to) = (stolen.clone(), group.id(0));
        async move {
            stolen
                .ask(graph, to, &Question::Check { digest: None }, &[])
                .await
        }
    };
    for graph in [Network::Private, Network::Public] {
        greet(graph).await.unwrap();
    }
    // The thief revokes first, with the key itself; the owner loses nothing, and gains nothing.
    let first = group.line(&group.identities[THIEF]);
    assert!(group.service(0).revoke(&first).unwrap().1);
    let (kept, is_new) = group
        .service(0)
        .revoke(&group.line(&group.recovery[THIEF]))
        .unwrap();
    assert!(!is_new && kept.line == first, "the first counts");
    group.heard(&[0, 1, 2]).await;
    // A run that has cost nothing.
    let mut events = group.service(1).events(&before.digest, 0).unwrap();
    let over = async { while events.next().await.is_some() {} };
    timeout(HEARD, over).await.expect("it is left");
    let left = group.service(1).run(&before.digest).unwrap();
    let named = group.id(THIEF).to_string();
    assert_eq!(
        (left.state, left.exit_code, left.charged),
        (RunState::Ended, Some(4), None)
    );
    assert!(left.reason.is_some_and(|reason| reason.contains(&named)));
    // Plans, offers and attendance.
    let refused = group.submit(2, 2).await.unwrap_err();
    assert_eq!((refused.kind, refused.kind.exit().code()), (Kind::Plan, 3));
    assert!(
        refused.message.contains(&named) && refused.message.contains("revoked by itself"),
        "{refused}"
    );
    let made = group.service(2).make_plan(RUN.into()).await.unwrap_err();
    assert_eq!(made.kind, Kind::Plan);
    let offered = group
        .service(0)
        .receive_offer(group.id(THIEF), vec![])
        .await
        .unwrap_err();
    assert!(offered.message.contains("was revoked"), "{offered}");
    // Nor does the key's own daemon take a new part.
    group.heard(&[THIEF]).await;
    assert_eq!(group.submit(THIEF, 3).await.unwrap_err().kind, Kind::Plan);
    // Whoever holds it speaks to nobody any more.
    for graph in [Network::Private, Network::Public] {
        let begun = Instant::now();
        while greet(graph).await.is_ok() {
            assert!(begun.elapsed() < HEARD, "{graph}: it is answered still");
        }
    }
    for party in 0..PARTIES {
        group.stop(party).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_comes_up_is_enough_for_one_that_asks_nobody_to_hear() {
    let mut group = Group::new();
    group.start(0).await;
    group.start(1).await;
    group
        .service(0)
        .revoke(&group.line(&group.recovery[THIEF]))
        .unwrap();
    group.heard(&[1]).await;
    // It loses its disk; the other has told it, and has no reason to dial it.
    group.stop(1).await;
    std::fs::remove_dir_all(group.keys(1)).unwrap();
    group.start_silent(1).await;
    assert!(!group.know(&[1]));
    let greeting = Question::Check { digest: None };
    let asked = group
        .service(1)
        .hub()
        .ask(Network::Private, group.id(0), &greeting, &[]);
    asked.await.unwrap();
    group.heard(&[1]).await;
    for party in [0, 1] {
        group.stop(party).await;
    }
}

#[tokio::test]
async fn forgeries_and_floods_are_neither_heeded_nor_kept() {
    let mut group = Group::new();
    group.start_silent(0).await;
    let service = group.service(0);
    // Another member, another member's recovery key, a stranger about itself.
    let stranger = Identity::generate("x".into(), None, None);
    let itself = Revocation::sign(&stranger.keypair, stranger.peer_id(), 5).unwrap();
    let forged = [&group.identities[1], &group.recovery[1]].map(|by| group.line(by));
    for line in forged
        .iter()
        .chain([&to_line(&itself), &forged[0][..99].to_owned()])
    {
        let refused = service.revoke(line).unwrap_err();
        assert_eq!(refused.kind, Kind::Malformed, "{refused}");
    }
    let bytes = |line: &str| parse_line(line).unwrap().to_bytes();
    let flood: Vec<u8> = std::iter::repeat_n([bytes(&forged[0]), itself.to_bytes()], 500)
        .flatten()
        .flatten()
        .collect();
    let nobody = service.keys_for([0; 32], &[]).0;
    for _ in 0..20 {
        let (reply, given) = service.keys_for([0; 32], &flood);
        assert_eq!((&reply, given.len()), (&nobody, 0));
    }
    assert_eq!(std::fs::read_dir(group.keys(0)).unwrap().count(), 0);
    assert!(service.revoked_keys().is_empty());
    // A sound one is answered with what the asker lacks, and a replay of it changes nothing.
    let sound = bytes(&group.line(&group.recovery[THIEF]));
    let (Reply::Keys { held }, given) = service.keys_for([0; 32], &sound) else {
        panic!("another reply");
    };
    assert_eq!(given, sound);
    let replayed = service.keys_for(held, &sound.repeat(1_000));
    assert_eq!(replayed, (Reply::Keys { held }, vec![]), "the same are held");
    assert_eq!(std::fs::read_dir(group.keys(0)).unwrap().count(), 1);
    assert_eq!(sound.len(), STATEMENT_BYTES);
    group.stop(0).await;
}

#[test]
fn a_key_whose_file_is_damaged_stays_revoked_until_the_statement_is_there_again() {
    let group = Group::new();
    let (folder, list) = (tempfile::tempdir().unwrap(), group.config(0).peers);
    let open = || Keys::open(folder.path().to_owned()).unwrap();
    let statement = parse_line(&group.line(&group.recovery[THIEF])).unwrap();
    let other = Revocation::sign(&group.identities[1].keypair, group.id(1), 7).unwrap();
    let keys = open();
    for statement in [statement, other] {
        keys.take(&list, statement).unwrap().unwrap();
    }
    assert_eq!(open().all(&list), keys.all(&list));
    let path = folder.path().join(format!("{}.json", group.id(THIEF)));
    let sound = std::fs::read(&path).unwrap();
    let mut flipped = sound.clone();
    flipped[20] ^= 1;
    // Cut short, altered, and another key's statement under this name.
    let moved = std::fs::read(folder.path().join(format!("{}.json", group.id(1)))).unwrap();
    for damaged in [&sound[..sound.len() / 2], &flipped, &moved, &[]] {
        std::fs::write(&path, damaged).unwrap();
        let keys = open();
        let named = keys.damaged.named();
        assert!(
            named.len() == 1 && named[0].contains(&group.id(THIEF).to_string()),
            "{named:?}"
        );
        assert_eq!(
            keys.barred(),
            [group.id(1), group.id(THIEF)].into(),
            "nothing is lost"
        );
        assert!(
            keys.sentence("lab-3", &group.id(THIEF))
                .unwrap()
                .contains("damaged")
        );
        assert_eq!(std::fs::read(&path).unwrap(), damaged, "nor overwritten");
        // The others say it again.
        assert_eq!(keys.take_all(&list, &statement.to_bytes()).len(), 1);
        assert!(keys.damaged.named().is_empty());
        assert_eq!(std::fs::read(&path).unwrap(), sound);
    }
}
