use rand::SeedableRng;
use rand::rngs::ChaCha12Rng;
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::plan::peers::simulated_keypair;
use undertone_protocol::run::outcome::{Ending, GossipOutcome, TrainingOutcome};

use super::*;
use crate::testing::plan_of;

/// The requests to a party's owner and its budget, in order.
type Asked = Arc<Mutex<Vec<String>>>;

fn note(asked: &Asked, what: String) {
    asked.lock().expect("no panic").push(what);
}

struct Recorder {
    plan: Arc<Plan>,
    asked: Asked,
    silence: SilenceLog,
}

impl Contributor for Recorder {
    fn contribution(&mut self, iteration: u32, released: &[f64]) -> Noisy {
        note(&self.asked, format!("contribution {iteration} {released:?}"));
        self.silence.nothing(iteration, "nothing to say");
        Noisy::exposed_without_noise(Clipped::stand_in(&self.plan, 0))
    }

    fn conclude(&mut self, result: Option<&[f64]>) {
        note(&self.asked, format!("end {result:?}"));
    }

    fn silence(&self) -> SilenceLog {
        self.silence.clone()
    }
}

struct Budget {
    asked: Asked,
    is_full: bool,
}

impl Budget {
    fn answer(&self, what: String) -> Result<(), Failure> {
        note(&self.asked, what);
        match self.is_full {
            true => Err(Failure::usage("the budget is used up")),
            false => Ok(()),
        }
    }
}

impl Costs for Budget {
    fn spend(&mut self) -> Result<(), Failure> {
        self.answer("spend".into())
    }

    fn spend_iteration(&mut self, iteration: u32) -> Result<(), Failure> {
        self.answer(format!("spend {iteration}"))
    }

    fn reveal(&mut self) -> Result<u64, Failure> {
        self.answer("reveal".into()).map(|()| 3)
    }

    fn settle(&mut self, mu: f64) -> Result<(), Failure> {
        self.answer(format!("settle {mu}"))
    }
}

fn plan(text: &str) -> Arc<Plan> {
    Arc::new(plan_of(text, 4, None))
}

const STREAM: &str = "task = \"stream\"\n[data]\nshape = [2]\nreleases = 3\n[mechanism]\nsums = \"open\"\n";
const SUMS: &str = "task = \"stream\"\n[data]\nshape = [2]\nreleases = 3\n";
const ROUNDS: &str = "task = \"rounds\"\n[data]\nshape = [2]\nreleases = 3\n";

/// A party that has just begun, alone, with what it was asked for and where contributions arrive.
fn party(text: &str, is_full: bool) -> (Driver, Asked, mpsc::Receiver<(u32, Noisy)>) {
    let (plan, asked) = (plan(text), Asked::default());
    let recorder = Recorder {
        plan: plan.clone(),
        asked: asked.clone(),
        silence: SilenceLog::default(),
    };
    let rng = ChaCha12Rng::seed_from_u64(1);
    let part = Part {
        me: 0,
        key: simulated_keypair(0),
        value: Noisy::exposed_without_noise(Clipped::stand_in(&plan, 0)),
        noise: Box::new(LatticeNoise::new(
            rng,
            *plan.lattice(),
            plan.mixed_coordinates(),
            1.0,
        )),
        costs: Box::new(Budget {
            asked: asked.clone(),
            is_full,
        }),
        events: Events::open(None, std::time::Instant::now()).expect("nothing to open"),
        shelf: undertone_protocol::agreement::shelf::in_memory(),
        contributor: Some(Box::new(recorder)),
        plan,
    };
    let (audits, (contributions, contributed)) = (mpsc::channel(1).0, mpsc::channel(1));
    let driver = Driver::new(part, Handle::to_nobody(), (audits, contributions));
    (driver, asked, contributed)
}

fn asked_of(asked: &Asked) -> Vec<String> {
    asked.lock().expect("no panic").clone()
}

/// A later release of a stream is charged before its contribution is made, and not made if it
/// cannot be charged.
#[tokio::test]
async fn a_release_of_a_stream_is_charged_before_there_is_one() {
    let (mut driver, asked, mut contributed) = party(STREAM, false);
    driver.release(2, [0.5, 0.25].into());
    let (iteration, _) = contributed.recv().await.expect("a contribution");
    assert_eq!(iteration, 2);
    assert_eq!(asked_of(&asked), ["spend 2", "contribution 2 [0.5, 0.25]"]);
    let (mut driver, asked, mut contributed) = party(STREAM, true);
    driver.release(2, [0.5, 0.25].into());
    drop(driver);
    assert!(contributed.recv().await.is_none(), "it leaves the run instead");
    assert_eq!(asked_of(&asked), ["spend 2"]);
}

/// Where sums are sealed the machine asks for the mark by itself.
#[tokio::test]
async fn a_round_is_charged_when_the_machine_says() {
    let (mut driver, asked, mut contributed) = party(ROUNDS, false);
    driver.release(2, [0.5, 0.25].into());
    contributed.recv().await.expect("a contribution");
    assert_eq!(asked_of(&asked), ["contribution 2 [0.5, 0.25]"]);
}

fn outcome(training: Option<TrainingOutcome>, gossip: Option<GossipOutcome>) -> Outcome {
    Outcome {
        ending: Ending::Done,
        started: BTreeSet::new(),
        started_at: Some(Time::ZERO),
        schedule_seed: None,
        records: Default::default(),
        logs: None,
        own_log: None,
        verdict: None,
        included: BTreeSet::new(),
        agreed: false,
        sum: None,
        accuracy: None,
        sealed: None,
        opened_for: vec![],
        unopened: vec![],
        out_of_range: false,
        tally: Default::default(),
        training,
        gossip: gossip.map(Box::new),
    }
}

fn training(result: Option<Vec<f64>>) -> Outcome {
    let training = TrainingOutcome {
        iterations: 3,
        mixings: 0,
        spent: 3,
        corrected: vec![],
        rejected: vec![],
        unopened: Default::default(),
        departed: BTreeMap::new(),
        stopped: None,
        result,
    };
    outcome(Some(training), None)
}

/// Checks that a contributor receives the last mean: of a stream's rows the last one.
#[tokio::test]
async fn a_contributor_gets_the_last_mean() {
    let rows = || vec![0.1, 0.2, 0.3, 0.4];
    let gossip = GossipOutcome {
        rounds: 2,
        spent: 2,
        missed: BTreeMap::new(),
        stopped: None,
        estimates: rows(),
    };
    for (text, ended, reported) in [
        (
            ROUNDS.to_owned(),
            training(Some(vec![0.5, 0.25])),
            "end Some([0.5, 0.25])",
        ),
        (ROUNDS.to_owned(), training(None), "end None"),
        (SUMS.to_owned(), training(Some(rows())), "end Some([0.3, 0.4])"),
        (
            STREAM.to_owned(),
            outcome(None, Some(gossip)),
            "end Some([0.3, 0.4])",
        ),
    ] {
        let (mut driver, asked, _) = party(&text, false);
        driver
            .conclude(&ended)
            .expect("somebody to tell")
            .await
            .expect("no panic");
        assert_eq!(asked_of(&asked), [reported], "{text}");
        assert!(driver.conclude(&ended).is_none(), "once");
    }
}

/// The rounds to which a party contributed nothing come with the result.
#[tokio::test]
async fn a_result_says_where_the_party_was_silent() {
    let (mut driver, _, mut contributed) = party(ROUNDS, false);
    assert!(driver.result().is_none(), "it goes on");
    for iteration in [1, 2] {
        driver.contribute(iteration, [].into());
        contributed.recv().await.expect("a contribution");
    }
    driver.finish = Some((training(None), Time::ZERO));
    let finish = driver.result().expect("the end");
    let spans: Vec<(u32, u32)> = finish
        .silence
        .nothing
        .iter()
        .map(|it| (it.first, it.last))
        .collect();
    assert_eq!(spans, [(1, 2)]);
}

/// A sealed final has left: only a readable one can still be kept back.
#[tokio::test]
async fn a_loss_that_cannot_be_charged_is_said_once_it_is_known() {
    let (mut driver, asked, _) = party(ROUNDS, true);
    let logs = AgreedLogs::new();
    let verdict = decision::gate(&driver.plan.clone(), &logs);
    let mu = verdict.audit.mu;
    driver.audited(verdict);
    assert_eq!(asked_of(&asked), [format!("settle {mu}")]);
    assert!(driver.gate.is_some(), "and stays in the account");
}

#[test]
fn a_later_start_has_a_larger_number() {
    let first = epoch();
    let later = loop {
        let now = epoch();
        if now != first {
            break now;
        }
    };
    assert!(later > first && first > 0);
}
