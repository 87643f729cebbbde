use super::*;
use crate::party::journal::disk;
use crate::party::journal::tests::Followed;

fn digest(run: usize) -> String {
    format!("{run:08x}{}", "0".repeat(56))
}

/// A receipt of several lines, with what JSON has to escape, and its signature.
fn texts(run: usize) -> [String; 2] {
    [
        format!("{{\n  \"party\": \"Århus \\\"{run}\\\"\"\n}}\n"),
        format!("c2ln{run}\n"),
    ]
}

fn open(folder: &tempfile::TempDir) -> Receipts {
    Receipts::open(folder.path(), disk()).unwrap()
}

fn filled(folder: &tempfile::TempDir, runs: usize) -> Vec<u8> {
    let receipts = open(folder);
    for run in 0..runs {
        receipts.keep(&digest(run), texts(run)).unwrap();
    }
    std::fs::read(in_folder(folder.path())).unwrap()
}

fn has(receipts: &Receipts, run: usize) -> bool {
    let kept = receipts.read(&digest(run)).unwrap();
    assert!(
        kept.as_ref()
            .is_none_or(|kept| [&kept.receipt, &kept.signature].into_iter().eq(&texts(run)))
    );
    kept.is_some()
}

#[test]
fn a_receipt_comes_back_byte_for_byte_and_the_latest_of_a_plan_counts() {
    let folder = tempfile::tempdir().unwrap();
    filled(&folder, 3);
    let receipts = open(&folder);
    assert!(!receipts.has(&digest(1)), "opening reads nothing");
    assert!((0..3).all(|run| has(&receipts, run)) && !has(&receipts, 3));
    assert!(receipts.has(&digest(1)) && receipts.read("no digest").unwrap().is_none());
    receipts
        .keep(&digest(1), ["other", "sig"].map(String::from))
        .unwrap();
    for receipts in [&receipts, &open(&folder)] {
        assert_eq!(receipts.read(&digest(1)).unwrap().unwrap().receipt, "other");
    }
    let path = in_folder(folder.path());
    let found = find(&path, &digest(1)).unwrap().unwrap();
    assert_eq!(found.receipt, "other");
    assert!(find(&path, &digest(7)).unwrap().is_none());
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_receipt_is_on_disk_once_it_is_kept_and_is_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let followed = Followed::default();
    let receipts = Receipts::open(folder.path(), followed.disk("r")).unwrap();
    receipts.keep(&digest(0), texts(0)).unwrap();
    let begun = ["write r", "sync r", "sync folder of r", "write r", "sync r"];
    assert_eq!(followed.done(), begun);
    receipts.keep(&digest(0), texts(0)).unwrap();
    assert_eq!(followed.done(), [""; 0]);
    receipts.keep(&digest(1), texts(1)).unwrap();
    assert_eq!(followed.done(), ["write r", "sync r"]);
    // What fails is taken back, and where that fails too nothing more is written.
    followed.fail(&["write r"]);
    receipts.keep(&digest(2), texts(2)).unwrap_err();
    followed.fail(&[]);
    receipts.keep(&digest(2), texts(2)).unwrap();
    followed.fail(&["sync r"]);
    receipts.keep(&digest(3), texts(3)).unwrap_err();
    followed.fail(&[]);
    receipts.keep(&digest(3), texts(3)).unwrap_err();
    let receipts = open(&folder);
    assert!((0..3).all(|run| has(&receipts, run)) && !has(&receipts, 3));
    assert!(receipts.damaged().is_empty());
}

#[test]
fn a_flipped_byte_is_named_and_keeps_no_other_receipt_back() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = filled(&folder, 3);
    let path = in_folder(folder.path());
    let ends: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == b'\n').collect();
    for at in ends[1] + 1..ends[2] {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        std::fs::write(&path, changed).unwrap();
        let receipts = open(&folder);
        receipts.look_through().unwrap();
        assert!(has(&receipts, 0) && has(&receipts, 2), "byte {at}");
        assert!(!receipts.has(&digest(1)), "byte {at}");
        let named = receipts.damaged();
        assert!(
            named.len() == 1 && named[0].starts_with("receipts: line 3"),
            "byte {at}: {named:?}"
        );
        // A request for it names the damage, where its digest is whole.
        if at > ends[1] + 80 {
            let failure = receipts.read(&digest(1)).unwrap_err();
            assert_eq!(failure.exit, Exit::Internal);
            assert!(failure.message.contains(&digest(1)), "{failure}");
        }
        assert!(find(&path, &digest(1)).unwrap().is_none(), "byte {at}");
        // It can be kept anew.
        receipts.keep(&digest(1), texts(1)).unwrap();
        assert!(has(&receipts, 1) && has(&open(&folder), 1));
        assert_eq!(receipts.damaged().len(), 1);
    }
    // A line that was damaged after it was looked at.
    std::fs::write(&path, &bytes).unwrap();
    let receipts = open(&folder);
    assert!(has(&receipts, 1));
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"#", ends[1] as u64 + 90).unwrap();
    receipts.read(&digest(1)).unwrap_err();
}

/// A kill anywhere in a write: what was whole before is there, the rest can be written again.
#[test]
fn a_torn_receipt_is_written_again_and_no_other_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = filled(&folder, 2);
    let path = in_folder(folder.path());
    let ends: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == b'\n').collect();
    for cut in 0..=bytes.len() {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let receipts = open(&folder);
        let first = has(&receipts, 0);
        assert_eq!(first, cut > ends[1], "cut at {cut}");
        for run in 0..3 {
            receipts.keep(&digest(run), texts(run)).unwrap();
        }
        for receipts in [&receipts, &open(&folder)] {
            assert!((0..3).all(|run| has(receipts, run)), "cut at {cut}");
            assert!(receipts.damaged().is_empty(), "cut at {cut}");
        }
    }
    // A last line whose line feed was flipped was whole once: it is not cut away.
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() = b'x';
    std::fs::write(&path, flipped).unwrap();
    let receipts = open(&folder);
    receipts.keep(&digest(2), texts(2)).unwrap();
    assert!((0..3).all(|run| has(&open(&folder), run)));
}

#[test]
fn a_file_that_was_restored_while_it_is_open_is_the_one_that_grows() {
    let folder = tempfile::tempdir().unwrap();
    let path = in_folder(folder.path());
    filled(&folder, 2);
    let receipts = open(&folder);
    assert!(has(&receipts, 1));
    // Moved into its place, gone, and shorter.
    let backup = folder.path().join("backup");
    std::fs::copy(&path, &backup).unwrap();
    std::fs::rename(&backup, &path).unwrap();
    receipts.keep(&digest(2), texts(2)).unwrap();
    assert!((0..3).all(|run| has(&open(&folder), run)));
    std::fs::remove_file(&path).unwrap();
    receipts.keep(&digest(3), texts(3)).unwrap();
    assert!(has(&open(&folder), 3) && !has(&receipts, 2));
    std::fs::write(&path, "").unwrap();
    receipts.keep(&digest(4), texts(4)).unwrap();
    assert!(has(&open(&folder), 4) && !has(&receipts, 3));
}

#[test]
fn another_version_is_refused_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = in_folder(folder.path());
    let first = r#"{"version":2}"#;
    std::fs::write(&path, format!("{first} {}\n", checksum(first.as_bytes()))).unwrap();
    let before = std::fs::read(&path).unwrap();
    let failure = Receipts::open(folder.path(), disk()).unwrap_err();
    assert_eq!(
        (failure.exit, failure.field.as_deref()),
        (Exit::Usage, Some("state"))
    );
    assert!(failure.message.contains("another version"), "{failure}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
