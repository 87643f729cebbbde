//! The guide's page "A group of labs, from nothing to a weekly figure", done by five labs on hosts
//! of their own, three of them behind routers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use undertone_tests::documents::block::{Mark, blocks};
use undertone_tests::documents::page::Page;
use undertone_tests::person::Person;
use undertone_tests::testnet::{Testnet, Weather, possible};
use undertone_tests::{Ended, Running, Signal, left_out, read_json, signal, undertone};

const NAMES: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];
/// Alice, the host, and Bob can be dialled.
const DIALLED: usize = 2;
/// The page's promise, for people who do not hesitate.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// The page's blocks for one role, in order.
fn steps(role: &str) -> Vec<String> {
    let page = Page::read("node/guide/groups.md");
    let of_role = |mark: &Option<Mark>| match mark {
        Some(Mark::NotRun(reason)) => reason.contains(&format!("labs.rs runs it, at {role}")),
        _ => false,
    };
    let blocks = blocks(&page.text).into_iter();
    blocks
        .filter(|block| of_role(&block.mark))
        .map(|block| block.commands)
        .collect()
}

/// Five labs, each with a folder and a host.
struct Labs {
    net: Testnet,
    folder: tempfile::TempDir,
    /// When the group meets, as `node.toml` has it.
    every: String,
    /// When that is.
    due: SystemTime,
}

impl Labs {
    fn new() -> Self {
        let weather = Weather {
            loss_percent: 0,
            delay: Duration::ZERO,
        };
        let mut net = Testnet::new(NAMES.len(), weather);
        (DIALLED..NAMES.len()).for_each(|host| net.put_behind_router(host, 20));
        let folder = tempfile::tempdir().expect("a folder");
        for name in NAMES {
            std::fs::create_dir(folder.path().join(name)).expect("a new folder");
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        // Time enough for the daemons to come up.
        let minute = (since.as_secs() + 40).div_ceil(60);
        let due = UNIX_EPOCH + Duration::from_secs(60 * minute);
        let every = format!("daily {:02}:{:02}", minute / 60 % 24, minute % 60);
        Labs {
            net,
            folder,
            every,
            due,
        }
    }

    fn folder(&self, lab: usize) -> PathBuf {
        self.folder.path().join(NAMES[lab])
    }

    /// A step of the page as a lab does it: with its name, and the addresses that it has.
    fn own(&self, lab: usize, step: &str) -> String {
        let [at, _] = self.net.listeners(0);
        let [bobs, _] = self.net.listeners(1);
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

    /// A shell on a lab's host, where `undertone` is the program under test.
    fn shell(&self, lab: usize) -> Command {
        let mut shell = self.net.command(lab, "sh");
        let path = std::env::var("PATH").unwrap_or_default();
        let beside = undertone();
        let beside = beside.parent().expect("a folder").display();
        shell
            .env("PATH", format!("{beside}:{path}"))
            .current_dir(self.folder(lab));
        shell
    }

    fn start(&self, lab: usize, step: &str) -> Running {
        let mut shell = self.shell(lab);
        shell.args(["-euc", &self.own(lab, step)]);
        Running::start(shell, None)
    }

    #[track_caller]
    fn done(&self, lab: usize, step: &str) -> Ended {
        let ended = self.start(lab, step).wait();
        assert_eq!(
            ended.code, 0,
            "{}: {step}\n{}\n{}",
            NAMES[lab], ended.stdout, ended.stderr
        );
        ended
    }

    fn person(&self, lab: usize, step: &str) -> Person {
        Person::new(
            self.shell(lab),
            &self.folder(lab),
            NAMES[lab],
            &self.own(lab, step),
        )
    }

    /// All meet, compare the number and have the list.
    fn meet(&self, open: &str, join: &str) {
        let mut people = vec![self.person(0, open)];
        let opened = people[0].until("open");
        let invitation = opened["invitation"].as_str().expect("a text");
        let join = join.replace("utn1…", invitation);
        people.extend((1..NAMES.len()).map(|lab| self.person(lab, &join)));
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

    /// Asks a lab's daemon until it says yes; nobody sends, it only paces the asking.
    #[track_caller]
    fn until(&self, lab: usize, step: &str, patience: Duration) -> Ended {
        let (_sender, pace) = channel::<()>();
        let begun = Instant::now();
        loop {
            let ended = self.start(lab, step).wait();
            if ended.code == 0 {
                return ended;
            }
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(begun.elapsed() < patience, "{}: {said}", NAMES[lab]);
            let _ = pace.recv_timeout(Duration::from_millis(500));
        }
    }
}

fn copy(from: &Path, to: &Path, file: &str) {
    std::fs::copy(from.join(file), to.join(file)).expect("a file of the page");
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
    for lab in 1..NAMES.len() {
        copy(&labs.folder(0), &labs.folder(lab), "weekly.toml");
    }
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
        let receipt = read_json(&labs.folder(lab).join("weekly-receipt.json"));
        assert_eq!(receipt["outcome"], "done", "{receipt}");
        std::fs::read(labs.folder(lab).join("weekly.json")).expect("a result")
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
