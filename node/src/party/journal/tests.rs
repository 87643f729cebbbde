//! Tests of a journal's steps on the disk.

use std::sync::{Arc, Mutex};

use super::*;

/// The system's disk, followed: what was done, and which step fails.
#[derive(Clone, Default)]
pub(crate) struct Followed(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    done: Vec<String>,
    fails: Vec<String>,
}

impl Followed {
    /// Returns the steps since the last call: "write", "sync", "cut" and "sync folder", each with
    /// the name of the file or folder.
    pub(crate) fn done(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().done)
    }

    /// The steps with these names fail from here on, and do nothing.
    pub(crate) fn fail(&self, names: &[&str]) {
        self.0.lock().unwrap().fails = names.iter().map(|name| (*name).to_owned()).collect();
    }

    /// The disk, under the name of a file.
    pub(crate) fn disk(&self, file: &'static str) -> Disk {
        let (state, mut real) = (self.0.clone(), disk());
        Box::new(move |step| {
            let name = match &step {
                Step::Write(..) => format!("write {file}"),
                Step::Sync(_) => format!("sync {file}"),
                Step::SyncFolder(folder) => {
                    let name = folder.file_name().unwrap_or_default().to_string_lossy();
                    assert!(folder.is_dir(), "{}", folder.display());
                    format!("sync folder of {file}{}", if name.is_empty() { "?" } else { "" })
                }
                Step::Cut(..) => format!("cut {file}"),
            };
            let fails = state.lock().unwrap().fails.contains(&name);
            state.lock().unwrap().done.push(name);
            if fails {
                return Err(io::ErrorKind::StorageFull.into());
            }
            real(step)
        })
    }
}

fn lines(path: &Path, version: u32) -> Result<(Vec<String>, Vec<u8>), Fault> {
    let mut found = vec![];
    let mut journal = Journal::open(path, version, disk())?;
    let torn = journal.read(&mut |json| {
        found.push(json.to_owned());
        true
    })?;
    Ok((found, torn))
}

#[test]
fn an_entry_is_written_then_synced_and_a_new_file_s_folder_after_that() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let followed = Followed::default();
    let mut journal = Journal::open(&path, 1, followed.disk("j")).unwrap();
    assert_eq!(followed.done(), [""; 0], "opening writes nothing");
    journal.append(&"first").unwrap();
    let begun = ["write j", "sync j", "sync folder of j", "write j", "sync j"];
    assert_eq!(followed.done(), begun);
    journal.append(&"second").unwrap();
    assert_eq!(followed.done(), ["write j", "sync j"]);
    let (found, torn) = lines(&path, 1).unwrap();
    assert_eq!(
        (found, torn),
        (vec!["\"first\"".into(), "\"second\"".into()], vec![])
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn an_entry_of_which_a_step_fails_is_taken_back_and_an_error() {
    for step in ["write j", "sync j", "sync folder of j"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let followed = Followed::default();
        let mut journal = Journal::open(&path, 1, followed.disk("j")).unwrap();
        if step != "sync folder of j" {
            journal.append(&"kept").unwrap();
        }
        let before = path.metadata().unwrap().len();
        followed.fail(&[step]);
        journal.append(&"lost").expect_err(step);
        assert_eq!(path.metadata().unwrap().len(), before, "{step}");
        followed.fail(&[]);
        // The cut of a failed sync needs a sync, too.
        if step == "sync j" {
            assert!(!journal.is_sound());
            journal.append(&"more").unwrap_err();
            continue;
        }
        assert!(journal.is_sound(), "{step}");
        journal.append(&"more").unwrap();
        assert_eq!(lines(&path, 1).unwrap().0.last().unwrap(), "\"more\"");
    }
}

#[test]
fn what_cannot_be_taken_back_ends_all_writing() {
    let folder = tempfile::tempdir().unwrap();
    let followed = Followed::default();
    let mut journal = Journal::open(&folder.path().join("j"), 1, followed.disk("j")).unwrap();
    journal.append(&"kept").unwrap();
    followed.fail(&["write j", "cut j"]);
    journal.append(&"lost").unwrap_err();
    followed.fail(&[]);
    assert!(!journal.is_sound());
    followed.done();
    journal.append(&"more").unwrap_err();
    assert_eq!(followed.done(), [""; 0], "nothing is written any more");
}

#[test]
fn a_journal_of_another_version_says_so_and_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    Journal::open(&path, 3, disk()).unwrap().append(&1).unwrap();
    let before = std::fs::read(&path).unwrap();
    lines(&path, 3).unwrap();
    let newer = lines(&path, 2).unwrap_err();
    assert!(matches!(newer, Fault::Newer(3, 2)));
    let failure = newer.failure(&path, "backup");
    assert!(
        failure.message.contains("written by a newer version"),
        "{failure}"
    );
    assert!(failure.hint.is_some_and(|hint| !hint.contains("backup")));
    assert!(matches!(lines(&path, 4).unwrap_err(), Fault::Earlier(3, 4)));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // A newer first line may say more.
    let mut other = Journal::open(&folder.path().join("other"), 1, disk()).unwrap();
    other.add("{\"version\":2,\"more\":true}").unwrap();
    assert!(matches!(
        lines(&folder.path().join("other"), 1),
        Err(Fault::Newer(2, 1))
    ));
}

#[test]
fn a_flipped_bit_a_lost_and_a_doubled_line_are_corrupt_and_a_torn_one_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut journal = Journal::open(&path, 1, disk()).unwrap();
    for entry in ["one", "two", "three"] {
        journal.append(&entry).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    let ends: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == b'\n').collect();
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        lines(&path, 1)
    };
    for index in 0..bytes.len() - 1 {
        let mut changed = bytes.clone();
        changed[index] ^= 4;
        assert!(matches!(read(&changed), Err(Fault::Corrupt(_))), "byte {index}");
    }
    let lost = [&bytes[..=ends[1]], &bytes[ends[2] + 1..]].concat();
    let doubled = [&bytes[..], &bytes[ends[2] + 1..]].concat();
    assert!(matches!(read(&lost), Err(Fault::Corrupt(3))));
    assert!(matches!(read(&doubled), Err(Fault::Corrupt(5))));
    let (found, torn) = read(&bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(found, ["\"one\"", "\"two\""]);
    assert_eq!(torn, bytes[ends[2] + 1..bytes.len() - 1]);
    // What reads on finds what was added, and that nothing was taken away.
    std::fs::write(&path, &bytes[..=ends[1]]).unwrap();
    let mut journal = Journal::open(&path, 1, disk()).unwrap();
    let mut count = 0;
    let mut read_on = |journal: &mut Journal| {
        journal.read(&mut |_| {
            count += 1;
            true
        })
    };
    read_on(&mut journal).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    read_on(&mut journal).unwrap();
    std::fs::write(&path, &bytes[..=ends[1]]).unwrap();
    assert!(matches!(read_on(&mut journal), Err(Fault::Corrupt(_))));
    assert_eq!(count, 3);
}

/// Who goes on from a checkpoint has not read these lines; a backup is of all.
#[test]
fn lines_are_checked_from_the_first_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let mut journal = Journal::open(&path, 7, disk()).unwrap();
    for number in 0..20 {
        journal.append(&number).unwrap();
    }
    let lines = std::fs::read(&path).unwrap();
    Journal::check(&lines, 7).unwrap();
    Journal::check(b"", 7).unwrap();
    assert!(matches!(Journal::check(&lines, 6), Err(Fault::Newer(7, 6))));
    for at in 0..lines.len() {
        let mut flipped = lines.clone();
        flipped[at] ^= 1;
        let line = lines[..at].iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
        match Journal::check(&flipped, 7) {
            Err(Fault::Corrupt(found)) => assert!(found == line || found == line + 1, "byte {at}: {found}"),
            other => panic!("byte {at}: {other:?}"),
        }
    }
}
