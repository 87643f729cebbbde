//! The guide's page "A group of labs, from nothing to a weekly figure", done by five labs on hosts
//! of their own, three of them behind routers.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use undertone_tests::documents::block::{Block, Mark};
use undertone_tests::journey::{Journey, blocks_where};
use undertone_tests::testnet::possible;
use undertone_tests::{Ended, Running, Signal, left_out, read_json, signal};

const NAMES: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];
/// Alice, the host, and Bob can be dialled.
const DIALLED: usize = 2;
/// The page's promise, for people who do not hesitate.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// The page's blocks for one role, in order.
fn steps(role: &str) -> Vec<String> {
    let of_role = |block: &Block| match &block.mark {
        Some(Mark::NotRun(reason)) => reason.contains(&format!("labs.rs runs it, at {role}")),
        _ => false,
    };
    blocks_where("groups.md", of_role)
}

/// Five labs, each with a folder and a host.
struct Labs {
    journey: Journey,
    /// When the group meets, as `node.toml` has it.
    every: String,
    /// When that is.
    due: SystemTime,
}

impl Labs {
    fn new() -> Self {
        let mut journey = Journey::new(&NAMES);
        (DIALLED..NAMES.len()).for_each(|host| journey.net.put_behind_router(host, 20));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        // Time enough for the daemons to come up.
        let minute = (since.as_secs() + 40).div_ceil(60);
        let due = UNIX_EPOCH + Duration::from_secs(60 * minute);
        let every = format!("daily {:02}:{:02}", minute / 60 % 24, minute % 60);
        Labs { journey, every, due }
    }

    /// A step of the page as a lab does it: with its name, and the addresses that it has.
    fn own(&self, lab: usize, step: &str) -> String {
        let [at, _] = self.journey.net.listeners(0);
        let [bobs, _] = self.journey.net.listeners(1);
        let name = format!("{}.key", NAMES[lab]);
        let recovery = format!("{}-recovery.key", NAMES[lab]);
        let mut script = step
            .replace("bob-recovery.key", &recovery)
            .replace("bob.key", &name)
            .replace("/dns/alice.example/tcp/7001", &at)
            .replace("Mon 03:00", &self.every);
        if let (1, true) = (lab, script.contains("group join")) {
            script += &format!(" --announce {bobs} --relay");
        }
        if script.contains("undertone group") {
            script += " --events \"$EVENTS\"";
        }
        script
    }

    fn start(&self, lab: usize, step: &str) -> Running {
        self.journey.start(lab, &self.own(lab, step))
    }

    #[track_caller]
    fn done(&self, lab: usize, step: &str) -> Ended {
        self.journey.done(lab, &self.own(lab, step))
    }

    #[track_caller]
    fn until(&self, lab: usize, step: &str, patience: Duration) -> Ended {
        self.journey.until(lab, &self.own(lab, step), patience)
    }

    /// All meet, compare the number and have the list.
    fn meet(&self, open: &str, join: &str) {
        let person = |lab: usize, step: &str| self.journey.person(lab, &self.own(lab, step));
        let mut people = vec![person(0, open)];
        let opened = people[0].until("open");
        let invitation = opened["invitation"].as_str().expect("a text");
        let join = join.replace("utn1…", invitation);
        people.extend((1..NAMES.len()).map(|lab| person(lab, &join)));
        let number = people[1].number();
        for (lab, person) in people.iter_mut().enumerate() {
            if lab != 1 {
                assert_eq!(person.number(), number, "{}", person.name);
            }
            person.types(&number);
        }
        for person in people {
            let ended = person.running.wait();
            assert_eq!(ended.code, 0, "{}: {}", person.name, ended.stderr);
        }
    }
}

/// N15 of the design: lobby, list, schedule, run.
#[test]
fn five_labs_get_from_nothing_to_a_weekly_figure_by_the_guides_page() {
    if let Err(missing) = possible() {
        return left_out("a group of labs, by its page", &missing);
    }
    let begun = Instant::now();
    let labs = Labs::new();
    let all = 0..NAMES.len();
    let [host_key, open, run_file] = steps("the host").try_into().expect("three steps of the host");
    let [guest_key, join] = steps("each guest").try_into().expect("two steps of a guest");
    let [configure, node, look, weekly] = steps("each lab").try_into().expect("four steps of a lab");

    for lab in all.clone() {
        labs.done(lab, if lab == 0 { &host_key } else { &guest_key });
    }
    labs.meet(&open, &join);
    println!("a list in force after {:?}", begun.elapsed());

    let quote = labs.done(0, &run_file);
    assert!(quote.stdout.contains("ε"), "{}", quote.stdout);
    labs.journey.mail(0, 1..NAMES.len(), &["weekly.toml"]);
    let mut daemons = vec![];
    for lab in all.clone() {
        labs.done(lab, &configure);
        // In the shell's place, which signals are for.
        daemons.push(labs.start(lab, &format!("exec {node}")));
    }
    for lab in all.clone() {
        labs.until(lab, "undertone status --ready --config node.toml", LONGEST);
    }
    assert!(
        SystemTime::now() < labs.due,
        "too late for the time that was written"
    );
    for lab in all.clone() {
        let looked = labs.done(lab, &look).stdout;
        assert!(looked.contains(&labs.every), "{looked}");
        assert!(!looked.contains("another peer list"), "{looked}");
    }
    let status = labs.done(2, "undertone status --json --config node.toml").json();
    let peers = status["peers"].as_array().expect("a list");
    assert_eq!(peers.len(), NAMES.len() - 1);
    for peer in peers {
        let found = (&peer["private"]["reachable"], &peer["same_list"]);
        assert_eq!(found, (&true.into(), &true.into()), "{peer}");
    }

    let figures = all.map(|lab| {
        let shown = labs.until(lab, &weekly, LONGEST.saturating_sub(begun.elapsed()));
        assert!(shown.stdout.contains("all 5"), "{}", shown.stdout);
        let receipt = read_json(&labs.journey.folder(lab).join("weekly-receipt.json"));
        assert_eq!(receipt["outcome"], "done", "{receipt}");
        labs.journey.read(lab, "weekly.json")
    });
    let figures: Vec<Vec<u8>> = figures.collect();
    assert!(figures.iter().all(|figure| *figure == figures[0]));
    let took = begun.elapsed();
    println!("a figure after {took:?}");
    assert!(took < LONGEST, "{took:?}");

    for daemon in daemons {
        signal(daemon.pid(), Signal::SIGTERM);
        assert_eq!(daemon.wait().code, 0);
    }
}
