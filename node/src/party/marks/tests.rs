use super::*;
use crate::party::journal::tests::Followed;
use crate::party::journal::{Step, disk};

fn digest(first: char) -> String {
    format!("{first}{}", "0".repeat(63))
}

fn noted(mu_squared: f64) -> Noted {
    let of = serde_json::json!({ "data_set": "ward" });
    let charge = Charge {
        mu_squared,
        ..Charge::NOTHING
    };
    Noted { of, charge }
}

fn charges(marks: &Marks) -> Vec<(String, bool, f64)> {
    let charges = marks.charges();
    charges
        .map(|(digest, spent, _, charge)| (digest.to_string(), spent, charge.mu_squared))
        .collect()
}

fn open(folder: &tempfile::TempDir) -> Marks {
    Marks::open(&in_folder(folder.path()), "alice", disk()).unwrap()
}

#[test]
fn a_mark_is_written_and_synced_with_its_folder_before_spending_returns() {
    let folder = tempfile::tempdir().unwrap();
    let followed = Followed::default();
    let path = in_folder(folder.path());
    let mut marks = Marks::open(&path, "alice", followed.disk("m")).unwrap();
    marks.spend(&digest('a'), None).unwrap();
    let order = ["write m", "sync m", "sync folder of m", "write m", "sync m"];
    assert_eq!(followed.done(), order);
    for step in ["write m", "sync m"] {
        let mut marks = Marks::open(&path, "alice", followed.disk("m")).unwrap();
        followed.fail(&[step]);
        let failure = marks.spend(&digest('b'), None).expect_err(step);
        assert_eq!(failure.exit, Exit::TryAgain, "{failure}");
        marks.reveal(&digest('b'), None).expect_err(step);
        followed.fail(&[]);
    }
    // Nothing of it is left.
    open(&folder).spend(&digest('b'), None).unwrap();
}

#[test]
fn the_latest_charge_of_a_plan_counts_and_is_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut marks = open(&folder);
    let (a, b) = (digest('a'), digest('b'));
    marks.spend(&a, Some(noted(1.0))).unwrap();
    marks.keep(&a, noted(2.0)).unwrap();
    marks.spend(&b, None).unwrap();
    let lines = || {
        std::fs::read_to_string(in_folder(folder.path()))
            .unwrap()
            .lines()
            .count()
    };
    let before = lines();
    marks.keep(&a, noted(2.0)).unwrap();
    assert_eq!(lines(), before);
    for marks in [&marks, &open(&folder)] {
        let charges = charges(marks);
        assert_eq!(charges, [(a.clone(), true, 2.0)]);
    }
    // What is kept of a plan has spent it.
    marks.keep(&digest('c'), noted(3.0)).unwrap();
    assert_eq!(marks.check(&digest('c')).unwrap_err().exit, Exit::PrivacyRefused);
}

#[test]
fn whoever_has_the_file_open_sees_what_others_marked() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut other) = (open(&folder), open(&folder));
    one.spend(&digest('a'), None).unwrap();
    assert_eq!(other.check(&digest('a')).unwrap_err().exit, Exit::PrivacyRefused);
    other.spend(&digest('b'), None).unwrap();
    assert_eq!(one.reveal(&digest('c'), None).unwrap(), 1);
    assert_eq!(other.reveal(&digest('c'), None).unwrap(), 2);
    assert_eq!(
        one.spend(&digest('b'), None).unwrap_err().exit,
        Exit::PrivacyRefused
    );
    let both: Vec<_> = std::thread::scope(|threads| {
        let one = threads.spawn(|| one.spend(&digest('d'), None).is_ok());
        let other = threads.spawn(|| other.spend(&digest('d'), None).is_ok());
        [one, other].map(|thread| thread.join().unwrap()).into()
    });
    assert_eq!(both.iter().filter(|spent| **spent).count(), 1, "once");
}

/// The last of them may begin a run; no further one leaves, and nothing of it is written.
#[test]
fn a_node_reveals_three_numbers_for_a_plan_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let a = digest('a');
    for count in 1..=3 {
        open(&folder).check(&a).unwrap();
        assert_eq!(open(&folder).reveal(&a, None).unwrap(), count);
    }
    let before = std::fs::read(in_folder(folder.path())).unwrap();
    let mut marks = open(&folder);
    for refused in [marks.check(&a).unwrap_err(), marks.reveal(&a, None).unwrap_err()] {
        assert_eq!(refused.exit, Exit::PrivacyRefused, "{refused}");
        assert!(refused.message.contains("3 numbers"), "{refused}");
    }
    assert_eq!(std::fs::read(in_folder(folder.path())).unwrap(), before);
    marks.check(&digest('b')).unwrap();
    marks.reveal(&digest('b'), None).unwrap();
    marks.spend(&a, None).unwrap();
}

#[test]
fn a_number_that_is_revealed_is_on_disk_before_it_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let followed = Followed::default();
    let path = in_folder(folder.path());
    let mut marks = Marks::open(&path, "alice", followed.disk("m")).unwrap();
    marks.reveal(&digest('a'), Some(noted(1.0))).unwrap();
    let order = ["write m", "sync m", "sync folder of m", "write m", "sync m"];
    assert_eq!(followed.done(), order);
    // What a draw costs counts until its run does, and not after that.
    let a = digest('a');
    assert_eq!(charges(&open(&folder)), [(a.clone(), false, 1.0)]);
    marks.keep(&a, noted(2.0)).unwrap();
    marks.reveal(&a, Some(noted(1.0))).unwrap();
    assert_eq!(charges(&open(&folder)), [(a, true, 2.0)]);
}

#[test]
fn a_torn_mark_counts_as_spent_and_what_follows_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = in_folder(folder.path());
    open(&folder).spend(&digest('a'), None).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let begin = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for cut in begin + 1..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let mut marks = open(&folder);
        // `{"digest":"a`
        let known = cut - begin >= 12;
        assert_eq!(marks.check(&digest('a')).is_err(), known, "cut at {cut}");
        marks.check(&digest('b')).unwrap();
        marks.spend(&digest('b'), None).unwrap();
        let mut again = open(&folder);
        assert_eq!(again.spend(&digest('a'), None).is_err(), known, "cut at {cut}");
        assert_eq!(again.check(&digest('b')).unwrap_err().exit, Exit::PrivacyRefused);
    }
    // Half a digest stands for every plan that begins so.
    std::fs::write(&path, &whole[..begin + 16]).unwrap();
    let mut marks = open(&folder);
    assert!(marks.check(&format!("a0000{}", "1".repeat(59))).is_err());
    marks.check(&format!("a0001{}", "0".repeat(59))).unwrap();
}

#[test]
fn a_mark_that_was_changed_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = in_folder(folder.path());
    open(&folder).spend(&digest('a'), None).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 80;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let failure = Marks::open(&path, "alice", disk()).unwrap_err();
    assert_eq!(
        (failure.exit, failure.field.as_deref()),
        (Exit::Usage, Some("--identity"))
    );
    assert!(failure.hint.is_some_and(|hint| hint.contains("backup")));
}

/// The file of the processes that are started, and what each is called.
const FILE: &str = "MARKS_FILE";
const NUMBER: &str = "MARKS_NUMBER";

fn numbered(run: usize) -> String {
    format!("{run:064x}")
}

#[test]
#[ignore = "a process of the tests below"]
fn a_process_that_spends() {
    let variable = |name| std::env::var(name).expect("the parent sets it");
    let mut marks = Marks::open(variable(FILE).as_ref(), "alice", disk()).expect("marks");
    for run in 0.. {
        match marks.spend(&numbered(run), None) {
            Ok(()) => println!("{} spent {run}", variable(NUMBER)),
            Err(refused) => assert_eq!(refused.exit, Exit::PrivacyRefused, "{refused}"),
        }
    }
}

fn begin(path: &Path, number: usize) -> std::process::Child {
    let this = std::env::current_exe().expect("a test has a program");
    let mut command = std::process::Command::new(this);
    let name = "party::marks::tests::a_process_that_spends";
    command.args([name, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command
        .env(FILE, path)
        .env(NUMBER, number.to_string())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null());
    crate::forking::spawn(&mut command).expect("it starts")
}

/// Three processes have the same file, and are killed anywhere: no plan is spent twice, and what
/// was spent stays so.
#[test]
fn of_several_processes_one_spends_a_plan_also_where_they_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = in_folder(folder.path());
    let mut spent = BTreeSet::new();
    for kill in 0..12 {
        let mut children: Vec<_> = (0..3).map(|number| begin(&path, number)).collect();
        let until = std::time::Instant::now() + std::time::Duration::from_millis(60 + 7 * kill);
        while std::time::Instant::now() < until {
            std::hint::spin_loop();
        }
        for child in &mut children {
            child.kill().expect("it spends until it is killed");
        }
        for child in children {
            let reported = child.wait_with_output().expect("it is dead").stdout;
            let reported = String::from_utf8_lossy(&reported);
            let runs = reported.lines().filter_map(|line| line.split_once("spent "));
            for (_, run) in runs {
                let run: usize = run.parse().expect("a number");
                assert!(spent.insert(run), "kill {kill}: run {run} was spent twice");
            }
        }
        let mut marks = open(&folder);
        for run in &spent {
            marks.check(&numbered(*run)).expect_err("it is spent");
        }
    }
    assert!(spent.len() > 50, "{} were spent", spent.len());
}

/// Marks of two identities from before a checkpoint and after it, and a torn line. The part of the
/// file that a checkpoint stands for is not read again: a bit of it is flipped.
#[test]
fn marks_of_years_are_opened_by_their_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = in_folder(folder.path());
    std::fs::write(&path, "").unwrap();
    let mut marks = open(&folder);
    marks.write("abc", Happened::Torn, None).unwrap();
    for run in 0..600 {
        marks.spend(&numbered(run), Some(noted(run as f64))).unwrap();
    }
    let mut bob = Marks::open(&path, "bob", disk()).unwrap();
    bob.spend(&numbered(7), None).unwrap();
    bob.reveal(&numbered(8), Some(noted(0.5))).unwrap();
    let before = charges(&bob);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let mut again = open(&folder);
    assert_eq!(charges(&again), before);
    again.check(&numbered(599)).expect_err("it is spent");
    again
        .check(&format!("abc{}", "0".repeat(61)))
        .expect_err("it was torn");
    again.check(&numbered(600)).unwrap();
    again.spend(&numbered(8), None).expect_err("alice has spent it");
    let mut bob = Marks::open(&path, "bob", disk()).unwrap();
    bob.spend(&numbered(8), None).unwrap();
    bob.check(&numbered(7)).expect_err("he has spent it");
    std::fs::remove_file(path.with_extension("sorted")).unwrap();
    Marks::open(&path, "alice", disk()).expect_err("all is read, and a bit is flipped");
}

/// `cargo test -p undertone --lib -- --ignored --nocapture half_a_million`: prints seconds.
#[test]
#[ignore = "a measurement"]
fn half_a_million_marks_are_read_and_looked_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = in_folder(folder.path());
    let mut real = disk();
    // What is written here need not outlive a power cut.
    let unsynced: Disk = Box::new(move |step| match step {
        Step::Sync(_) | Step::SyncFolder(_) => Ok(()),
        step => real(step),
    });
    let mut marks = Marks::open(&path, "alice", unsynced).unwrap();
    for run in 0..500_000 {
        marks.spend(&numbered(run), Some(noted(run as f64))).unwrap();
    }
    let begun = std::time::Instant::now();
    let mut marks = open(&folder);
    let read = begun.elapsed();
    let begun = std::time::Instant::now();
    for run in 0..1000 {
        marks.check(&numbered(run * 500)).expect_err("it is spent");
        marks.check(&numbered(run + 500_000)).unwrap();
    }
    println!(
        "{} bytes read in {read:?}; a look-up takes {:?}",
        path.metadata().unwrap().len(),
        begun.elapsed() / 2000
    );
}

/// The marks of a backup are added, part by part and once; those that are here stay.
#[test]
fn marks_of_another_file_are_added_where_they_are_missing_and_take_nothing_back() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [a, b, c, d] = ['a', 'b', 'c', 'd'].map(digest);
    let mut marks = open(&ours);
    marks.spend(&a, Some(noted(1.0))).unwrap();
    marks.reveal(&b, Some(noted(0.1))).unwrap();
    let mut others = open(&theirs);
    others.spend(&a, Some(noted(2.0))).unwrap();
    others.reveal(&a, None).unwrap();
    for _ in 0..3 {
        others.reveal(&b, Some(noted(0.2))).unwrap();
    }
    others.spend(&c, Some(noted(3.0))).unwrap();
    // Somebody's whose key it was before, and a line that was torn.
    let path = in_folder(theirs.path());
    Marks::open(&path, "alice-before", disk())
        .unwrap()
        .spend(&d, Some(noted(4.0)))
        .unwrap();
    let mut text = std::fs::read_to_string(&path).unwrap();
    text += "{\"digest\":\"eeee";
    std::fs::write(&path, text).unwrap();
    let others = open(&theirs);

    // A number of a, two of b, c, d, and what was torn.
    assert_eq!(marks.take_in(&others).unwrap(), 6);
    assert_eq!(marks.take_in(&others).unwrap(), 0, "once");
    for mut marks in [marks, open(&ours)] {
        let expected = [
            (&a, true, 1.0),
            (&b, false, 0.2),
            (&c, true, 3.0),
            (&d, true, 4.0),
        ];
        let expected = expected.map(|(digest, spent, mu)| (digest.clone(), spent, mu));
        assert_eq!(charges(&marks), expected);
        for spent in [&a, &c, &digest('e').replace('0', "e")] {
            assert!(marks.check_spent(spent).is_err(), "{spent}");
        }
        marks.check_spent(&d).expect("another key spent it");
        assert!(marks.check(&b).is_err(), "three numbers were revealed");
        marks.check_spent(&b).unwrap();
        marks.refuse_draws(MOST_REVEALS - 1).unwrap();
        assert!(marks.refuse_draws(MOST_REVEALS).is_err());
    }
}
