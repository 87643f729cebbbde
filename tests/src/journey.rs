//! A journey of the guide: several people, each on a host and in a folder of their own, who do
//! what a page says.

use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::documents::block::{Block, blocks};
use crate::documents::page::Page;
use crate::person::Person;
use crate::testnet::{Testnet, Weather};
use crate::{Ended, Running, undertone};

/// From a daemon's start to its readiness, on a machine that does other things.
const READY: Duration = Duration::from_secs(60);

/// A block of a page of the guide which has these words: the first one.
#[track_caller]
pub fn block_with(page: &str, words: &str) -> String {
    let found = blocks_where(page, |block| block.commands.contains(words));
    let found = found.into_iter().next();
    found.unwrap_or_else(|| panic!("no block of {page} has {words:?}"))
}

/// The blocks of a page of the guide that are wanted, in order.
pub fn blocks_where(page: &str, wanted: impl Fn(&Block) -> bool) -> Vec<String> {
    let page = Page::read(&format!("node/guide/{page}"));
    let blocks = blocks(&page.text).into_iter();
    blocks.filter(wanted).map(|block| block.commands).collect()
}

/// The people, their hosts and folders.
#[derive(Debug)]
pub struct Journey {
    /// The hosts, in the people's order.
    pub net: Testnet,
    folder: TempDir,
    names: Vec<String>,
}

impl Journey {
    /// People of these names, with an empty folder each, on hosts in good weather.
    pub fn new(names: &[&str]) -> Self {
        let weather = Weather {
            loss_percent: 0,
            delay: Duration::ZERO,
        };
        let folder = tempfile::tempdir().expect("a folder");
        for name in names {
            std::fs::create_dir(folder.path().join(name)).expect("a new folder");
        }
        Journey {
            net: Testnet::new(names.len(), weather),
            folder,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Their names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// A person's folder.
    pub fn folder(&self, person: usize) -> PathBuf {
        self.folder.path().join(&self.names[person])
    }

    /// A file of a person's.
    #[track_caller]
    pub fn read(&self, person: usize, file: &str) -> Vec<u8> {
        let path = self.folder(person).join(file);
        std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Sends files to others, as by mail.
    #[track_caller]
    pub fn mail(&self, from: usize, to: impl IntoIterator<Item = usize>, files: &[&str]) {
        for person in to {
            for file in files {
                let into = self.folder(person).join(file);
                std::fs::write(into, self.read(from, file)).expect("a folder");
            }
        }
    }

    /// A person's machine is lost with all that is on it; another one with the same address and an
    /// empty folder takes its place.
    pub fn lose_machine(&self, person: usize) {
        let folder = self.folder(person);
        std::fs::remove_dir_all(&folder).expect("it was there");
        std::fs::create_dir(folder).expect("a new folder");
    }

    /// A POSIX shell on a person's host, where `undertone` is the program under test.
    pub fn shell(&self, person: usize) -> Command {
        let mut shell = self.net.command(person, "sh");
        let path = std::env::var("PATH").unwrap_or_default();
        let beside = undertone();
        let beside = beside.parent().expect("a folder").display();
        shell
            .env("PATH", format!("{beside}:{path}"))
            .current_dir(self.folder(person));
        shell
    }

    /// Starts a script.
    pub fn start(&self, person: usize, script: &str) -> Running {
        let mut shell = self.shell(person);
        shell.args(["-euc", script]);
        Running::start(shell, None)
    }

    /// Runs a script, which must succeed.
    #[track_caller]
    pub fn done(&self, person: usize, script: &str) -> Ended {
        self.succeeded(person, self.start(person, script))
    }

    /// Waits for a script, which must succeed.
    #[track_caller]
    pub fn succeeded(&self, person: usize, script: Running) -> Ended {
        let ended = script.wait();
        let name = &self.names[person];
        assert_eq!(ended.code, 0, "{name}\n{}\n{}", ended.stdout, ended.stderr);
        ended
    }

    /// Starts a script which a person has a keyboard for, and whose program tells events.
    pub fn person(&self, person: usize, script: &str) -> Person {
        let name = &self.names[person];
        Person::new(self.shell(person), &self.folder(person), name, script)
    }

    /// Runs a script again and again until it succeeds; nobody sends, it only paces the asking.
    #[track_caller]
    pub fn until(&self, person: usize, script: &str, patience: Duration) -> Ended {
        let (_sender, pace) = channel::<()>();
        let begun = Instant::now();
        loop {
            let ended = self.start(person, script).wait();
            if ended.code == 0 {
                return ended;
            }
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(begun.elapsed() < patience, "{}: {said}", self.names[person]);
            let _ = pace.recv_timeout(Duration::from_millis(500));
        }
    }

    /// The lines of a block, each with the person who types it: whose key, output or
    /// configuration it names, else the first one. Addresses are those of that person's host, and
    /// no line is in the background.
    pub fn lines(&self, block: &str) -> Vec<(usize, String)> {
        let line = |line: &str| {
            let person = (0..self.names.len()).find(|&person| is_of(&self.names[person], line));
            let person = person.unwrap_or(0);
            let line = line.trim_end_matches(" &");
            (person, self.at_own_address(person, line))
        };
        block.lines().map(line).collect()
    }

    /// Each does their own lines of a block, one line after the other.
    #[track_caller]
    pub fn walk(&self, block: &str) {
        for (person, line) in self.lines(block) {
            self.done(person, &line);
        }
    }

    /// All do their own lines of a block at once, in the order of lines; how these ended.
    #[track_caller]
    pub fn together(&self, lines: &[(usize, String)]) -> Vec<Ended> {
        let started = lines.iter().map(|(person, line)| self.start(*person, line));
        let started: Vec<Running> = started.collect();
        let waited = started.into_iter().zip(lines);
        waited
            .map(|(line, (person, _))| self.succeeded(*person, line))
            .collect()
    }

    /// The first people make a key each, by a page's blocks; the very first one makes the list and
    /// the plan, and sends both.
    #[track_caller]
    pub fn plan(&self, page: &str, people: usize) {
        self.walk(&block_with(page, &format!("--out {}.key", self.names[0])));
        for person in 1..people {
            self.mail(person, [0], &[&format!("{}.lines", self.names[person])]);
        }
        self.done(0, &block_with(page, "> peers.toml"));
        self.mail(0, 1..people, &["peers.toml", "plan.json"]);
    }

    /// Runs a block that starts a person's daemon, which ends with what is returned, and waits
    /// until it is ready.
    #[track_caller]
    pub fn daemon(&self, person: usize, block: &str) -> Running {
        let name = &self.names[person];
        let own = format!("for city in {name}; do");
        let block = block.replace("for city in aarhus bergen coimbra delft; do", &own);
        let daemon = self.start(person, &format!("{block}\nwait"));
        let ready = format!("undertone status --ready --config {name}/node.toml");
        self.until(person, &ready, READY);
        daemon
    }

    fn at_own_address(&self, person: usize, line: &str) -> String {
        let own = self.net.listeners(person);
        let mut graph: Option<usize> = None;
        let mut words = vec![];
        for word in line.split(' ') {
            let said = match graph.filter(|_| !word.is_empty()) {
                Some(graph) => own[graph].clone(),
                None => word.to_owned(),
            };
            if !word.is_empty() {
                graph = ["--private", "--public"].iter().position(|flag| *flag == word);
            }
            words.push(said);
        }
        words.join(" ")
    }
}

/// Whether a line is one that this person types.
fn is_of(name: &str, line: &str) -> bool {
    let marks = [
        format!("--identity {name}.key"),
        format!("--out {name}.key"),
        format!("> {name}."),
        format!("--config {name}/"),
    ];
    marks.iter().any(|mark| line.contains(mark))
}
