use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::testing::plan_of;

const LIMITS: FrameLimits = FrameLimits {
    rounds: 20_000,
    longest: 1 << 17,
};

fn frame(round: u32, body: &[u8]) -> Vec<u8> {
    let mut frame = round.to_le_bytes().to_vec();
    frame.extend((body.len() as u64).to_le_bytes());
    frame.extend(body);
    frame
}

fn read(bytes: &[u8]) -> Result<ProgramFrame, Silent> {
    read_frame(&mut &bytes[..], LIMITS)
}

#[test]
fn a_frame_has_a_round_a_length_and_a_body() {
    for round in [1, 10, 0x41, 0x4141, 20_000] {
        let found = read(&frame(round, b"body")).unwrap_or_else(|_| panic!("round {round}"));
        assert_eq!((found.round, &found.body[..]), (round, &b"body"[..]));
    }
    assert!(matches!(read(&frame(1, b"body")[..14]), Err(Silent::Ended)));
    assert!(matches!(read(&[]), Err(Silent::Ended)));
    let mut long = frame(1, b"");
    long[4..12].copy_from_slice(&(LIMITS.longest + 1).to_le_bytes());
    assert!(matches!(read(&long), Err(Silent::TooLong(..))));
    long[4..12].copy_from_slice(&u64::MAX.to_le_bytes());
    for round in [1u32, 0xff, 0x8080_8080, u32::MAX] {
        long[..4].copy_from_slice(&round.to_le_bytes());
        assert!(
            matches!(read(&long), Err(Silent::TooLong(..))),
            "{round} is no text"
        );
    }
    assert!(
        matches!(read(&long), Err(Silent::TooLong(_, u64::MAX))),
        "nothing is allocated for it"
    );
}

/// Whatever is printed, in any script, before the frame or instead of it.
#[test]
fn text_in_place_of_a_frame_is_known_for_text() {
    for text in [
        "round 1\n",
        "Epoch 1/20: loss 0.31\n",
        "0.5\n",
        "\n\n\n\n",
        "\u{1b}[32mready\u{1b}[0m\n",
        "Größe 3\n",
        "训练\n",
        "[1.0, 2.0]\n",
        "{\"loss\": 1}\n",
        "Traceback (most recent call last):\n",
    ] {
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend(frame(1, &[0; 200]));
        assert!(matches!(read(&bytes), Err(Silent::Text)), "{text:?}");
    }
    // A dot, and then the frame of a short vector.
    let dot = [b".".to_vec(), frame(100, &[0; 136])].concat();
    assert!(matches!(read(&dot), Err(Silent::Text)));
    // What is shorter is known for text where the program ends after it.
    assert!(matches!(read(b"ok\n"), Err(Silent::Text)));
    assert!(matches!(read(&[1, 0]), Err(Silent::Ended)));
    // Text of four bytes is known before anything else has come: nobody waits for more of it.
    assert!(matches!(read(b"0.5\n"), Err(Silent::Text)));
}

fn plan() -> Plan {
    let text = "task = \"rounds\"\nname = \"t\"\n[data]\nshape = [2]\nreleases = 3\n";
    plan_of(text, 4, None)
}

/// A program with these lines of a shell, which may answer with the files `1` and `2`.
fn started(folder: &Path, lines: &str) -> Program {
    for (round, values) in [(1u32, [0.1, 0.2]), (2, [0.3, f64::NAN])] {
        let mut npy = vec![];
        let layout = Layout::npy(vec![2], Dtype::F64);
        formats::write_to(&mut npy, &layout, &values).expect("into memory");
        fs::write(folder.join(round.to_string()), frame(round, &npy)).expect("writable");
    }
    let path = folder.join("step");
    fs::write(&path, format!("#!/bin/sh\ncd \"$1\"\n{lines}\n")).expect("writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    // Another thread that starts a process may have the script open for writing for a moment.
    loop {
        match Program::start(&path, Some(folder), &plan(), 1) {
            Ok(program) => return program,
            Err(failure) if failure.message.contains("busy") => thread::yield_now(),
            Err(failure) => panic!("{}", failure.message),
        }
    }
}

fn asked(program: &mut Program, round: u32) -> Result<VectorFile, String> {
    program.ask(round, &[], Instant::now() + Duration::from_secs(60))
}

#[test]
fn an_answer_comes_back_with_its_values_whatever_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut program = started(
        folder.path(),
        "head -c 12 > told; cat 1; head -c 12 >> told; cat 2; cat >> told",
    );
    assert_eq!(asked(&mut program, 1).map(|it| it.values), Ok(vec![0.1, 0.2]));
    let second = asked(&mut program, 2).expect("judged by whoever knows the plan");
    assert!(second.values[1].is_nan());
    program.conclude(Some(&[0.5, 0.5]));
    drop(program);
    let reported = fs::read(folder.path().join("told")).expect("it was told");
    let ends = [0.5f64, 0.5].map(f64::to_le_bytes).concat();
    assert!(reported.ends_with(&ends), "the last mean");
    assert_eq!(
        reported[..12],
        frame(1, b"")[..],
        "the first round has no mean before it"
    );
}

#[test]
fn a_program_that_prints_is_asked_whether_it_does() {
    for printed in ["round 1\\n", "ok\\n", "é\\n", "\\n", "."] {
        let folder = tempfile::tempdir().expect("a folder");
        let lines = format!("printf '{printed}'; cat 1; cat > /dev/null");
        let mut program = started(folder.path(), &lines);
        for _ in 0..2 {
            let why = asked(&mut program, 1).expect_err("no frame");
            assert!(
                why.contains("did the program print to its standard output?"),
                "{why}"
            );
        }
    }
}

#[test]
fn a_program_that_ends_and_one_that_is_late_have_different_failures() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut ended = started(folder.path(), "exit 3");
    let why = asked(&mut ended, 1).expect_err("it ended");
    assert!(why.contains("has ended") && why.contains('3'), "{why}");
    let mut late = started(folder.path(), "cat > /dev/null");
    let why = late.ask(1, &[], Instant::now()).expect_err("late");
    assert!(why.contains("did not answer in time"), "{why}");
    let mut other = started(folder.path(), "cat 2; cat > /dev/null");
    let answered = |why: &String| why.contains("answered for round 2");
    let until = Instant::now() + Duration::from_secs(60);
    // Until its frame has come: a test must not depend on when that is.
    while other
        .ask(1, &[], Instant::now() + Duration::from_millis(50))
        .err()
        .as_ref()
        .is_none_or(|it| !answered(it))
    {
        assert!(Instant::now() < until, "its frame never comes");
    }
}
