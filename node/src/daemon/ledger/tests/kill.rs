//! Whenever its process is killed, the ledger never shows less than was spent.
//!
//! The process is real, and so are the lock, the ledger and the marks beside the key. It reports to
//! its parent through a pipe what it has spent, after the charge, as a share would leave. The
//! parent kills it (SIGKILL) anywhere and reads the ledger.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::daemon::state::State;
use crate::forking;

/// The state directory, in the environment of the process that is killed.
const FOLDER: &str = "LEDGER_KILL_FOLDER";
/// Where its runs begin to count.
const FIRST: &str = "LEDGER_KILL_FIRST";
const KILLS: usize = 200;

/// μ² of a run: never a short number, and different for each.
fn cost(run: usize) -> f64 {
    (run as f64 + 1.0).sqrt() / 1000.0
}

fn tell(word: &str, digest: &str, mu_squared: f64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word} {digest} {mu_squared}")
        .and_then(|()| out.flush())
        .expect("the parent listens");
}

#[test]
#[ignore = "the process that the test below kills"]
fn a_process_that_spends() {
    let variable = |name| std::env::var(name).expect("the parent sets it");
    let folder = variable(FOLDER);
    let state = State::open(folder.as_ref()).expect("the one before is dead");
    let mut ledger = try_open(state.folder()).expect("a ledger");
    for run in variable(FIRST).parse::<usize>().expect("a number").. {
        let (digest, mu_squared) = (digest(run), cost(run));
        ledger
            .reserve_loss(&digest, account(), mu_squared, None)
            .expect("no limit");
        // Some are trainings, in five parts.
        let training = run % 3 == 1;
        let first = if training { mu_squared / 5.0 } else { mu_squared };
        ledger
            .charge_part(&digest, loss(first))
            .expect("room on the disk");
        tell("spent", &digest, first);
        if run % 3 == 0 {
            ledger
                .raise(&digest, loss(2.0 * mu_squared))
                .expect("room on the disk");
            tell("spent", &digest, 2.0 * mu_squared);
        }
        for part in (2..=5).filter(|_| training) {
            let cost = mu_squared * f64::from(part) / 5.0;
            ledger.charge_part(&digest, loss(cost)).expect("room on the disk");
            tell("spent", &digest, cost);
        }
        if training {
            tell("spent", &digest, mu_squared / 2.0);
            ledger
                .settle(&digest, loss(mu_squared / 2.0))
                .expect("room on the disk");
            ledger.release(&digest);
        }
    }
}

fn begin(folder: &Path, first: usize) -> Child {
    let this = std::env::current_exe().expect("a test has a program");
    let name = "daemon::ledger::tests::kill::a_process_that_spends";
    let mut command = Command::new(this);
    command.args([name, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command
        .env(FOLDER, folder)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    forking::spawn(&mut command).expect("it starts")
}

#[test]
fn killed_at_any_point_the_ledger_has_all_that_was_spent() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = SmallRng::seed_from_u64(7);
    let mut spent: BTreeMap<String, f64> = BTreeMap::new();
    let mut charged_in_vain = 0;
    for kill in 0..KILLS {
        let mut child = begin(folder.path(), kill * 1000);
        let mut lines = BufReader::new(child.stdout.take().expect("piped"))
            .lines()
            .map_while(Result::ok);
        let mut reported = lines.by_ref().filter_map(|line| {
            let mut words = line
                .split(' ')
                .skip_while(|word| !word.ends_with("spent"))
                .skip(1);
            Some((words.next()?.to_owned(), words.next()?.parse::<f64>().ok()?))
        });
        // Anywhere: in the middle of a line's first bytes, of a sync, between charge, mark and
        // raise.
        for _ in 0..random.random_range(0..8) {
            let (digest, mu_squared) = reported.next().expect("it spends until it is killed");
            spent.insert(digest, mu_squared);
        }
        let until = Instant::now() + Duration::from_micros(random.random_range(0..3000));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        child.kill().expect("it is still there");
        // All that it had reported before it died was spent.
        spent.extend(reported);
        child.wait().expect("it is dead");

        let state = State::open(folder.path()).expect("the lock died with it");
        // No mark is above it, wherever the process was killed.
        let mut ledger =
            try_open(state.folder()).unwrap_or_else(|failure| panic!("after kill {kill}: {failure}"));
        for (digest, mu_squared) in &spent {
            let charged = ledger.charged_loss(digest).unwrap_or(0.0);
            ledger.check(digest).expect_err("its plan is spent");
            assert!(
                charged >= *mu_squared,
                "kill {kill}: run {digest} spent {mu_squared}, the ledger has {charged}"
            );
        }
        let total: f64 = spent.values().sum();
        assert!(ledger.spent_loss(&account()) >= total, "kill {kill}");
        charged_in_vain = ledger.books.runs(&account()) - spent.len();
    }
    println!(
        "{KILLS} kills, {} runs spent, {charged_in_vain} charged and not spent",
        spent.len()
    );
    assert!(spent.len() > KILLS, "it was killed before it spent anything");
}
