//! A daemon from the inside, without its API: what it takes, refuses and takes back. Its peers are
//! names in a list; nobody answers at their addresses.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

use libp2p::PeerId;
use undertone_protocol::plan::checked::Plan;

use crate::daemon::admission::offer_status;
use crate::daemon::charged::{Charged, Rooms};
use crate::daemon::config::NodeArgs;
use crate::daemon::contribution::Vector;
use crate::daemon::mean_file::MeanFile;
use crate::daemon::runs::Stage;
use crate::daemon::state::checksum;
use crate::party::identity::Identity;
use crate::party::part;
use crate::party::spent::Costs;
use crate::planning::make;
use crate::reporting::failure::Exit;

use super::*;
use crate::table_file::reading::MostlyWords;

const RUN: &str = "name = \"t\"\n[data]\nnoise_ok = true\nshape = [2]\n[run]\njoin_ms = 60000\n";

const WARD: &str = "[[data_set]]\nname = \"ward\"\nfile = \"ward.csv\"\nepsilon = 3.0\ndelta = 1e-5\n";

struct Daemon {
    folder: tempfile::TempDir,
    service: Service,
    ids: Vec<PeerId>,
}

impl Daemon {
    async fn start(configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (mut peers, mut ids) = (String::from("version = 1\n"), vec![]);
        for (index, name) in ["alice", "bob", "carol"].into_iter().enumerate() {
            // Ports that no user's process listens on.
            let address = |port: usize| Some(format!("/ip4/127.0.0.1/tcp/{}", 1 + 2 * index + port));
            let identity = Identity::generate(name.into(), address(0), address(1));
            identity
                .create(&folder.path().join(format!("{name}.key")))
                .unwrap();
            peers += &identity.peer_lines();
            ids.push(identity.peer_id());
        }
        let head = "identity = \"alice.key\"\nkeep_days = 2\n";
        // A loopback address that no other test has, so that its ports are free.
        static TESTS: AtomicU8 = AtomicU8::new(1);
        let (test, pid) = (TESTS.fetch_add(1, Ordering::Relaxed), std::process::id() as u16);
        let [high, low] = pid.to_be_bytes();
        let at = format!("/ip4/127.{test}.{high}.{low}/tcp");
        let listen = format!("[listen]\nprivate = \"{at}/7001\"\npublic = \"{at}/7002\"\n");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("peers.toml", &peers);
        write("node.toml", &format!("{head}{listen}{configuration}"));
        std::fs::create_dir(folder.path().join("data")).unwrap();
        write("data/ward.csv", "0.25\n0.5\n");
        let arguments = NodeArgs {
            config: Some(folder.path().join("node.toml")),
            ..NodeArgs::default()
        };
        let config = Config::from_parts(&arguments, std::iter::empty()).unwrap();
        let service = Service::start(config).await.unwrap();
        Daemon { folder, service, ids }
    }

    fn plan(&self, seed: u64) -> Arc<Plan> {
        let config = self.service.config();
        let run = make::run_file(RUN, &config.peers, "RUN.toml".as_ref()).unwrap();
        Arc::new(make::make(run, &config.peers, seed).unwrap())
    }

    async fn submit(&self, plan: &Plan) -> Result<RunStatus, Refusal> {
        let contribution = Contribution {
            records: None,
            vector: Some(Vector::Named("ward.csv".into())),
            data_set: None,
        };
        let text = plan.to_json().as_bytes().to_vec();
        let kept = self.service.hand_in(text).await?;
        self.service.submit(&kept.digest, contribution).await
    }

    /// An offer of bob's of this plan, in this state, until then.
    fn offered(&self, plan: &Plan, state: OfferState, expires_ms: u64) -> String {
        let offer = OfferStatus {
            state,
            expires_ms,
            ..offer_status(plan, "bob")
        };
        self.service.shared.offers.insert(offer, plan.to_json()).unwrap();
        plan.digest_hex()
    }

    /// A run that is over, with a file of its mean.
    fn over(&self, digest: &str, ended_ms: u64) -> PathBuf {
        let run = self.known(digest, RunState::Waiting);
        let mean = run.folder().join("mean.npy");
        std::fs::write(&mean, "mean").unwrap();
        std::fs::write(run.folder().join("receipt.json"), "{}").unwrap();
        std::fs::write(run.folder().join("receipt.json.sig"), "c2ln").unwrap();
        let written = MeanFile {
            name: "mean.npy".into(),
            sha256: checksum(b"mean"),
        };
        run.end(Some(written), |status| status.state = RunState::Ended);
        run.update(|status| status.ended_ms = Some(ended_ms));
        mean
    }

    fn known(&self, digest: &str, state: RunState) -> Arc<Run> {
        let status = serde_json::json!({
            "digest": digest, "name": "run", "state": state, "phase": null, "round": null, "rounds": 3,
            "parties": 3, "dimension": 2, "unit": "party", "data_set": null, "proposer": null, "submitted_ms": 1,
            "started_ms": null, "ended_ms": null, "epsilon_claimed": 1.0, "delta": 1e-6, "epsilon": null,
            "unbounded": false, "charged": null, "outcome": null, "reason": null, "exit_code": null,
            "included": [], "standard_error": null, "private_bytes": 0, "public_bytes": 0,
        });
        let status = serde_json::from_value(status).expect("a run");
        self.service.shared.runs.insert(status, "plan").unwrap()
    }
}

fn kind<T>(answer: Result<T, Refusal>) -> Option<Kind> {
    answer.err().map(|refusal| refusal.kind)
}

/// Taken back, a run is not charged, and nothing of it leaves.
#[tokio::test]
async fn a_run_that_was_taken_back_is_neither_charged_nor_goes_on() {
    let daemon = Daemon::start(WARD).await;
    let (plan, shared) = (daemon.plan(1), &daemon.service.shared);
    let digest = plan.digest_hex();
    daemon.submit(&plan).await.unwrap();
    let run = daemon.service.known(&digest).unwrap();
    let path = daemon.folder.path().join("data/ward.csv");
    let file = part::own_data(&plan, 0, &path, MostlyWords::Refused)
        .ok()
        .unwrap();
    let costs = || {
        let rooms = Rooms::take(shared, &run, &plan, file.layout()).unwrap();
        Charged::of((&daemon.service.shared, &run), (&plan, 0), rooms)
    };
    let mut costs = costs();
    run.cancel(Stop::Withdrawn).unwrap();
    let failure = costs.spend().expect_err("it was taken back");
    assert_eq!(failure.exit, Exit::Aborted);
    assert_eq!(*run.stage(), Stage::Cancelled);
    assert!(shared.ledger().charged(&digest).is_none());
    shared.ledger().check(&digest).expect("its plan is not spent");
}

#[tokio::test]
async fn a_plan_is_taken_once_and_again_after_it_was_taken_back_and_never_once_it_is_spent() {
    let daemon = Daemon::start(WARD).await;
    let plan = daemon.plan(1);
    let (service, digest) = (&daemon.service, plan.digest_hex());
    assert_eq!(kind(service.withdraw(&digest).await), Some(Kind::Unknown));
    daemon.submit(&plan).await.unwrap();
    assert_eq!(kind(daemon.submit(&plan).await), Some(Kind::Conflict));
    assert_eq!(
        kind(service.result(&digest).await),
        Some(Kind::Conflict),
        "it goes on"
    );
    assert_eq!(kind(service.receipt(&digest).await), Some(Kind::Conflict));
    assert_eq!(
        service.withdraw(&digest).await.unwrap().state,
        RunState::Withdrawn
    );
    assert_eq!(
        kind(service.withdraw(&digest).await),
        Some(Kind::Conflict),
        "it is over"
    );
    assert_eq!(kind(service.result(&digest).await), Some(Kind::Unknown));
    assert_eq!(kind(service.receipt(&digest).await), Some(Kind::Unknown));
    daemon.submit(&plan).await.unwrap();
    service.withdraw(&digest).await.unwrap();
    // `join` spends it with the same key.
    let mut spent = crate::party::spent::Spent::open(
        &daemon.folder.path().join("alice.key"),
        &daemon.folder.path().join("elsewhere"),
        &digest,
        &daemon.ids[0].to_string(),
    );
    spent.as_mut().unwrap().spend().unwrap();
    let refused = daemon.submit(&plan).await.unwrap_err();
    assert_eq!(
        (refused.kind, refused.field.as_deref()),
        (Kind::Spent, Some("digest"))
    );
}

/// A second click, or an offer that its proposer sends again before the first answer.
#[tokio::test]
async fn a_plan_that_comes_twice_at_once_is_taken_once_and_stays_set_aside() {
    let rules = "[policy]\nmax_epsilon = 100.0\n[[auto_accept]]\nproposer = \"bob\"\ndata_set = \"ward\"\n";
    let daemon = Daemon::start(&format!("{rules}{WARD}")).await;
    let (service, plans) = (&daemon.service, [daemon.plan(1), daemon.plan(2)]);
    let twice = [daemon.submit(&plans[0]), daemon.submit(&plans[0])];
    let answers = futures::future::join_all(twice).await;
    let refused: Vec<Kind> = answers.into_iter().filter_map(kind).collect();
    assert_eq!(refused, [Kind::Conflict]);
    let offer = || service.receive_offer(daemon.ids[1], plans[1].to_json().as_bytes().to_vec());
    let answers = futures::future::join_all([offer(), offer()]).await;
    assert!(answers.contains(&Ok(OfferState::Accepted)), "{answers:?}");
    for digest in plans.iter().map(|plan| plan.digest_hex()) {
        let run = service.run(&digest).unwrap();
        assert!(run.reserved.is_some(), "{:?}", run.state);
    }
    // A restart takes it up.
    let offered = plans[1].digest_hex();
    assert_eq!(service.offer(&offered).unwrap().state, OfferState::Accepted);
    assert!(kept::record(&service.shared.offers.folder(&offered)).exists());
}

#[tokio::test]
async fn so_many_runs_wait_and_not_one_more() {
    let daemon = Daemon::start(WARD).await;
    let waiting = |run: usize| daemon.known(&format!("{run:064x}"), RunState::Waiting);
    let runs: Vec<_> = (1..MOST_WAITING).map(waiting).collect();
    assert!(daemon.service.readiness().ready);
    let plan = daemon.plan(1);
    daemon.submit(&plan).await.unwrap();
    daemon.service.withdraw(&plan.digest_hex()).await.unwrap();
    let last = waiting(MOST_WAITING);
    let readiness = daemon.service.readiness();
    assert!(
        !readiness.ready && readiness.problems[0].contains("64 runs wait"),
        "{readiness:?}"
    );
    assert_eq!(kind(daemon.submit(&daemon.plan(2)).await), Some(Kind::Busy));
    // One that begins makes room.
    last.update(|status| status.state = RunState::Gathering);
    daemon.submit(&daemon.plan(2)).await.unwrap();
    drop(runs);
}

#[tokio::test]
async fn an_answer_to_an_offer_is_of_use_while_it_is_open() {
    let daemon = Daemon::start(WARD).await;
    let (service, later) = (&daemon.service, u64::MAX);
    let expired = daemon.offered(&daemon.plan(1), OfferState::Open, 1);
    let refused = service
        .accept(&expired, Contribution::default())
        .await
        .unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict);
    assert!(refused.message.contains("expired"), "{refused}");
    let state = |offer: Result<OfferStatus, Refusal>| offer.map(|offer| offer.state);
    assert_eq!(state(service.decline(&expired).await), Ok(OfferState::Expired));
    let open = daemon.offered(&daemon.plan(2), OfferState::Open, later);
    assert_eq!(state(service.decline(&open).await), Ok(OfferState::Declined));
    let accepted = daemon.offered(&daemon.plan(3), OfferState::Open, later);
    service.accept(&accepted, Contribution::default()).await.unwrap();
    assert_eq!(state(service.offer(&accepted)), Ok(OfferState::Accepted));
    assert_eq!(kind(service.decline(&accepted).await), Some(Kind::Conflict));
    assert_eq!(
        kind(service.accept(&"0".repeat(64), Contribution::default()).await),
        Some(Kind::Unknown)
    );
}

/// By the rule of its proposer alone, with a data set of its unit.
#[tokio::test]
async fn an_offer_is_accepted_unasked_by_a_rule_for_its_proposer_and_unit_alone() {
    let rules = "[policy]\nmax_epsilon = 100.0\n[[auto_accept]]\nproposer = \"bob\"\ndata_set = \"ward\"\n";
    let records = WARD.replace("file", "unit = \"record\"\nfile");
    for (sets, proposer, state) in [
        (WARD, 1, OfferState::Accepted),
        (WARD, 2, OfferState::Open),
        (&records, 1, OfferState::Open),
    ] {
        let daemon = Daemon::start(&format!("{rules}{sets}")).await;
        let plan = daemon.plan(1);
        let offer = |from| {
            daemon
                .service
                .receive_offer(from, plan.to_json().as_bytes().to_vec())
        };
        let stranger = Identity::generate("mallory".into(), None, None).peer_id();
        assert_eq!(kind(offer(stranger).await), Some(Kind::Policy));
        assert!(daemon.service.offers().is_empty());
        assert_eq!(offer(daemon.ids[proposer]).await, Ok(state), "{sets} {proposer}");
        let kept = daemon.service.offer(&plan.digest_hex()).unwrap();
        assert_eq!(kept.proposer, ["alice", "bob", "carol"][proposer]);
        assert_eq!(kept.reason.is_some(), state == OfferState::Open);
        assert_eq!(
            daemon.service.runs().len(),
            usize::from(state == OfferState::Accepted)
        );
    }
}

#[tokio::test]
async fn plans_that_were_handed_in_are_taken_once_and_the_newest_are_kept() {
    let daemon = Daemon::start(WARD).await;
    let (service, ward) = (&daemon.service, || Contribution {
        data_set: Some("ward".into()),
        ..Contribution::default()
    });
    let mut digests = vec![];
    for seed in 1..=9 {
        let plan = daemon.plan(seed).to_json().as_bytes().to_vec();
        digests.push(service.hand_in(plan).await.unwrap().digest);
    }
    assert_eq!(
        kind(service.submit(&digests[0], ward()).await),
        Some(Kind::Unknown)
    );
    let nobodys = Contribution {
        data_set: Some("nobody".into()),
        ..Contribution::default()
    };
    assert_eq!(
        kind(service.submit(&digests[1], nobodys).await),
        Some(Kind::Malformed)
    );
    service.submit(&digests[1], ward()).await.unwrap();
    assert_eq!(
        kind(service.submit(&digests[1], ward()).await),
        Some(Kind::Conflict)
    );
    // A plan that another offers is not this node's to offer, and stays the other's offer.
    let offered = daemon.offered(&daemon.plan(9), OfferState::Open, u64::MAX);
    assert_eq!(
        kind(service.propose(&offered, ward()).await),
        Some(Kind::Conflict)
    );
    assert_eq!(service.offer(&offered).unwrap().proposer, "bob");
}

#[tokio::test]
async fn a_daemon_that_ends_takes_nothing_more() {
    let daemon = Daemon::start(WARD).await;
    let plan = daemon.plan(1);
    daemon.submit(&plan).await.unwrap();
    let service = &daemon.service;
    service.shutdown().await;
    let run = service.run(&plan.digest_hex()).unwrap();
    assert_eq!((run.state, run.exit_code), (RunState::Withdrawn, Some(4)));
    assert!(!service.readiness().ready);
    assert_eq!(
        kind(daemon.submit(&daemon.plan(2)).await),
        Some(Kind::Unavailable)
    );
    assert_eq!(kind(service.make_plan(RUN.into()).await), Some(Kind::Unavailable));
    let offer = service.receive_offer(daemon.ids[1], plan.to_json().as_bytes().to_vec());
    assert_eq!(kind(offer.await), Some(Kind::Unavailable));
}

#[tokio::test]
async fn runs_are_kept_for_as_many_days_as_the_configuration_has_and_their_receipts_for_ever() {
    let daemon = Daemon::start("").await;
    let service = &daemon.service;
    let (now, day) = (crate::daemon::ledger::now_ms(), 24 * 3600 * 1000);
    let minute = 60_000;
    let [new, old, oldest] = ["a", "b", "c"].map(|digit| digit.repeat(64));
    let kept = daemon.over(&new, now - 2 * day + minute);
    let expired = daemon.over(&old, now - 2 * day - minute);
    service.delete_old_runs().await;
    assert_eq!((kept.exists(), expired.parent().unwrap().exists()), (true, false));
    let receipt = service.receipt(&old).await.unwrap();
    assert_eq!(
        (receipt.json.as_str(), receipt.signature.as_str()),
        ("{}", "c2ln")
    );
    for refusal in [
        service.run(&old).unwrap_err(),
        service.result(&old).await.err().unwrap(),
        service.plan(&old).await.unwrap_err(),
    ] {
        assert_eq!(refusal.kind, Kind::Unknown);
        assert!(refusal.message.contains("keep_days"), "{refusal}");
    }
    let never = service.receipt(&"9".repeat(64)).await.unwrap_err();
    assert!(never.message.contains("there is no run"), "{never}");
    let mut forever = service.config().as_ref().clone();
    forever.keep_days = None;
    *service.shared.rules.write().unwrap() = Arc::new(forever);
    let ancient = daemon.over(&oldest, 1);
    service.delete_old_runs().await;
    assert!(ancient.exists() && kept.exists());
    // A receipt that was damaged since is named, and not served.
    let path = daemon.service.shared.state.folder().join("receipts");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("c2ln", "c2lo")).unwrap();
    assert_eq!(kind(service.receipt(&old).await), Some(Kind::Internal));
}

#[tokio::test]
async fn a_plan_or_receipt_that_was_changed_on_disk_is_named_and_not_served() {
    let daemon = Daemon::start(WARD).await;
    let (plan, service) = (daemon.plan(1), &daemon.service);
    let digest = plan.digest_hex();
    daemon.submit(&plan).await.unwrap();
    assert_eq!(service.plan(&digest).await.unwrap(), plan.to_json());
    let folder = service.known(&digest).unwrap().folder().to_owned();
    let path = folder.join("plan.json");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(kind(service.plan(&digest).await), Some(Kind::Internal));
    let named = service.readiness();
    assert!(named.ready && named.damaged[0].contains("plan.json"), "{named:?}");
    bytes[40] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    service.plan(&digest).await.unwrap();
    assert!(service.readiness().damaged.is_empty(), "it was restored");

    let other = "d".repeat(64);
    let receipt = daemon.over(&other, 1).with_file_name("receipt.json");
    assert_eq!(service.receipt(&other).await.unwrap().json, "{}");
    std::fs::write(&receipt, "{1").unwrap();
    assert_eq!(kind(service.receipt(&other).await), Some(Kind::Internal));
    assert!(service.readiness().damaged[0].contains("receipt.json"));
}
