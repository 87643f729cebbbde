//! The registry of plans that this node has taken part in: no plan twice, ever.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::party::journal::disk;
use crate::party::marks::{self, Marks};
use crate::reporting::failure::Failure;

/// The records that have to be on disk before anything private leaves this node.
pub trait Costs: Send {
    /// Marks the plan as spent, before the first share leaves. If it fails none does.
    fn spend(&mut self) -> Result<(), Failure>;

    /// In a training: the contribution of iteration `iteration`, from 2, is about to leave. If it
    /// fails it does not.
    fn spend_iteration(&mut self, iteration: u32) -> Result<(), Failure>;

    /// Notes that this node reveals its number for the draw of the plan's schedule, before it does;
    /// how often it has, this time included. Each time is a draw of its own. If it fails, or was as
    /// often as may be, the number does not leave.
    fn reveal(&mut self) -> Result<u64, Failure>;

    /// The agreed logs cost μ = `mu`: called before the final leaves. If it fails the final is
    /// withheld.
    fn settle(&mut self, mu: f64) -> Result<(), Failure>;
}

impl Costs for Spent {
    fn spend(&mut self) -> Result<(), Failure> {
        self.copy.check_spent(&self.digest)?;
        self.marks.spend(&self.digest, None)?;
        self.copy.spend(&self.digest, None)
    }

    /// The plan is marked as spent whole, with its first iteration.
    fn spend_iteration(&mut self, _: u32) -> Result<(), Failure> {
        Ok(())
    }

    /// Both count: either may have been restored from an old copy.
    fn reveal(&mut self) -> Result<u64, Failure> {
        let beside_the_key = self.marks.reveal(&self.digest, None)?;
        let in_the_state = self.copy.reveal(&self.digest, None)?;
        Ok(beside_the_key.max(in_the_state))
    }

    fn settle(&mut self, _: f64) -> Result<(), Failure> {
        Ok(())
    }
}

/// The marks of one plan and one identity: those in the folder `IDENTITY.spent` beside the key
/// file, for whoever runs the plan with that key, and a copy in the state folder, for a key whose
/// folder was lost or restored.
#[derive(Debug)]
pub struct Spent {
    marks: Marks,
    copy: Marks,
    digest: String,
}

/// The users of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// A daemon, for all of its life, and nobody beside it.
    Daemon,
    /// `join`, for one plan.
    Join,
}

/// The lock on a key, `IDENTITY.spent/lock`. Dropping it lets others use the key.
#[derive(Debug)]
pub struct KeyLock {
    _file: File,
}

/// A name beside the key file, which may be given by a link.
fn beside(identity: &Path, suffix: &str) -> PathBuf {
    let real = identity.canonicalize().unwrap_or_else(|_| identity.to_owned());
    let mut name = real.into_os_string();
    name.push(suffix);
    name.into()
}

/// Makes a folder (mode 0700) and what leads to it. What is made is in its parent for good once
/// this returns: a registry that a crash could make vanish would let a plan be spent twice.
pub fn make_folders(folder: &Path) -> io::Result<()> {
    make(folder, &mut |parent| File::open(parent)?.sync_all())
}

fn make(folder: &Path, sync: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => sync(parent),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            make(parent, sync)?;
            std::fs::DirBuilder::new().mode(0o700).create(folder)?;
            sync(parent)
        }
        Err(e) => Err(e),
    }
}

/// Makes the folder of marks beside the key file; refused (exit 2) if it cannot be written.
pub fn registry(identity: &Path) -> Result<PathBuf, Failure> {
    let folder = beside(identity, ".spent");
    let refused = |e: io::Error| {
        Failure::storage(&e, format!("{}: not writable: {e}", folder.display()))
            .field("--identity")
            .hint(
                "the folder beside the key file remembers which plans it was used for: \
                   keep the key where this process can write",
            )
    };
    make_folders(&folder).map_err(refused)?;
    tempfile::tempfile_in(&folder).map_err(refused)?;
    Ok(folder)
}

impl KeyLock {
    /// Refused (exit 2) while a daemon has the key, to a daemon also while a `join` has it.
    pub fn take(identity: &Path, user: User) -> Result<Self, Failure> {
        let path = registry(identity)?.join("lock");
        let refused = |e: io::Error| {
            Failure::storage(&e, format!("{}: cannot be locked: {e}", path.display())).field("--identity")
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(refused)?;
        let locked = match user {
            User::Daemon => file.try_lock(),
            User::Join => file.try_lock_shared(),
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::Error(e)) => return Err(refused(e)),
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.take(20).read_to_string(&mut holder);
                return Err(in_use(identity, user, &holder));
            }
        }
        if user == User::Daemon {
            file.set_len(0)
                .and_then(|()| write!(file, "{}", std::process::id()))
                .map_err(refused)?;
        }
        Ok(KeyLock { _file: file })
    }
}

fn in_use(identity: &Path, user: User, holder: &str) -> Failure {
    let holder = match holder {
        "" => "another process".into(),
        holder => format!("the process with id {holder}"),
    };
    let hint = match user {
        User::Join => {
            "a daemon takes part with this key: give the plan to it with `undertone submit PLAN.json --input X`, or stop it first"
        }
        User::Daemon => "one daemon a key, and no `undertone join` beside it: end that one first",
    };
    Failure::usage(format!("the key {} is in use by {holder}", identity.display()))
        .field("--identity")
        .hint(hint)
}

/// The marks beside a key file. Fails (exit 2) if they cannot be written, or are not what was
/// written.
pub fn marks_of(identity: &Path, peer_id: &str) -> Result<Marks, Failure> {
    Marks::open(&marks::in_folder(&registry(identity)?), peer_id, disk())
}

impl Spent {
    /// Makes the folders; fails (exit 2) if they cannot be written.
    pub fn open(identity: &Path, state: &Path, digest: &str, peer_id: &str) -> Result<Self, Failure> {
        let refused = |e: io::Error| {
            Failure::storage(&e, format!("state folder {}: not writable: {e}", state.display()))
                .field("--state")
                .hint("choose a folder that you can write to, and keep it from run to run")
        };
        make_folders(state).map_err(refused)?;
        tempfile::tempfile_in(state).map_err(refused)?;
        let marks = marks_of(identity, peer_id)?;
        let copy = Marks::open(&marks::in_folder(state), peer_id, disk());
        Ok(Spent {
            marks,
            copy: copy.map_err(|failure| failure.field("--state"))?,
            digest: digest.to_owned(),
        })
    }

    /// Looked for first of all, before anything is sent.
    pub fn check(&mut self) -> Result<(), Failure> {
        self.marks.check(&self.digest)?;
        self.copy.check(&self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::party::journal::tests::Followed;
    use crate::reporting::failure::Exit;

    const D1: &str = "d100000000000000000000000000000000000000000000000000000000000000";
    const D2: &str = "d200000000000000000000000000000000000000000000000000000000000000";

    fn open(folder: &Path, state: &str, digest: &str, peer: &str) -> Spent {
        Spent::open(&folder.join("a.key"), &folder.join(state), digest, peer).unwrap()
    }

    #[test]
    fn a_plan_is_spent_once_by_each_identity() {
        let folder = tempfile::tempdir().unwrap();
        let open = |peer| open(folder.path(), "state", D1, peer);
        open("alice").check().unwrap();
        open("alice").spend().unwrap();
        assert_eq!(open("alice").check().unwrap_err().exit, Exit::PrivacyRefused);
        assert_eq!(open("alice").spend().unwrap_err().exit, Exit::PrivacyRefused);
        open("bob").spend().unwrap();
    }

    #[test]
    fn draws_are_counted_for_each_plan_and_identity() {
        let folder = tempfile::tempdir().unwrap();
        let reveal = |digest, peer| open(folder.path(), "state", digest, peer).reveal().unwrap();
        let counts = [reveal(D1, "alice"), reveal(D1, "alice"), reveal(D1, "alice")];
        assert_eq!(counts, [1, 2, 3]);
        assert_eq!((reveal(D2, "alice"), reveal(D1, "bob")), (1, 1));
        // The third may begin the run, and another run with the same plan is refused.
        let mut spent = open(folder.path(), "state", D1, "alice");
        assert_eq!(spent.check().unwrap_err().exit, Exit::PrivacyRefused);
        assert_eq!(spent.reveal().unwrap_err().exit, Exit::PrivacyRefused);
        spent.spend().unwrap();
    }

    #[test]
    fn restored_marks_allow_no_more_draws() {
        let folder = tempfile::tempdir().unwrap();
        let open = || open(folder.path(), "state", D1, "alice");
        assert_eq!(open().reveal().unwrap(), 1);
        let marks = folder.path().join("a.key.spent/marks");
        let old = std::fs::read(&marks).unwrap();
        assert_eq!((open().reveal().unwrap(), open().reveal().unwrap()), (2, 3));
        std::fs::write(&marks, old).unwrap();
        assert_eq!(open().check().unwrap_err().exit, Exit::PrivacyRefused);
        assert_eq!(open().reveal().unwrap_err().exit, Exit::PrivacyRefused);
    }

    #[test]
    fn another_state_folder_does_not_spend_a_plan_again() {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path(), "one", D1, "alice").spend().unwrap();
        let mut other = open(folder.path(), "two", D1, "alice");
        assert_eq!(other.check().unwrap_err().exit, Exit::PrivacyRefused);
        assert_eq!(other.spend().unwrap_err().exit, Exit::PrivacyRefused);
        let kept = std::fs::read_to_string(folder.path().join("a.key.spent/marks")).unwrap();
        assert!(kept.contains(r#""peer":"alice","mark":"spent""#), "{kept}");
        // By another name of the same key neither.
        std::fs::write(folder.path().join("a.key"), "").unwrap();
        std::os::unix::fs::symlink("a.key", folder.path().join("link")).unwrap();
        let linked = Spent::open(
            &folder.path().join("link"),
            &folder.path().join("three"),
            D1,
            "alice",
        );
        assert_eq!(linked.unwrap().check().unwrap_err().exit, Exit::PrivacyRefused);
    }

    #[test]
    fn either_copy_of_the_marks_alone_keeps_a_plan_spent() {
        for lost in ["a.key.spent", "state"] {
            let folder = tempfile::tempdir().unwrap();
            open(folder.path(), "state", D1, "alice").spend().unwrap();
            std::fs::remove_dir_all(folder.path().join(lost)).unwrap();
            let mut spent = open(folder.path(), "state", D1, "alice");
            assert_eq!(spent.check().unwrap_err().exit, Exit::PrivacyRefused, "{lost}");
            assert_eq!(spent.spend().unwrap_err().exit, Exit::PrivacyRefused, "{lost}");
        }
    }

    /// Both files' steps, followed.
    fn followed(folder: &Path) -> (Spent, Followed) {
        let followed = Followed::default();
        let [marks, copy] = ["key", "copy"]
            .map(|file| Marks::open(&folder.join(file), "alice", followed.disk(file)).unwrap());
        let digest = D1.to_owned();
        (Spent { marks, copy, digest }, followed)
    }

    #[test]
    fn both_marks_are_on_disk_once_a_plan_is_spent_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let (mut spent, followed) = followed(folder.path());
        spent.check().unwrap();
        assert_eq!(followed.done(), [""; 0], "looking writes nothing");
        spent.spend().unwrap();
        let order = |file: &str| {
            let steps = ["write", "sync", "sync folder of", "write", "sync"];
            steps.map(|step| format!("{step} {file}"))
        };
        assert_eq!(followed.done(), [order("key"), order("copy")].concat());
    }

    #[test]
    fn a_mark_or_a_draw_that_cannot_be_written_is_an_error() {
        for step in ["write key", "sync key", "write copy", "sync copy"] {
            let folder = tempfile::tempdir().unwrap();
            let (mut spent, followed) = followed(folder.path());
            followed.fail(&[step]);
            assert_eq!(spent.spend().expect_err(step).exit, Exit::TryAgain);
            assert!(spent.reveal().is_err(), "{step}");
        }
    }

    #[test]
    fn a_folder_that_is_made_is_synced_into_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let mut synced = vec![];
        make(&at("a/b/spent"), &mut |parent| {
            synced.push(parent.to_owned());
            Ok(())
        })
        .unwrap();
        assert_eq!(synced, [folder.path().to_owned(), at("a"), at("a/b")]);
        make(&at("a/b/spent"), &mut |_| panic!("nothing is new")).unwrap();
        let failing = make(&at("c"), &mut |_| Err(io::ErrorKind::Other.into()));
        assert!(failing.is_err(), "a folder that may vanish is none");
    }

    #[test]
    fn a_daemon_has_its_key_alone() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("a.key");
        let first = KeyLock::take(&key, User::Join).unwrap();
        let second = KeyLock::take(&key, User::Join).unwrap();
        assert_eq!(KeyLock::take(&key, User::Daemon).unwrap_err().exit, Exit::Usage);
        drop((first, second));
        let daemon = KeyLock::take(&key, User::Daemon).unwrap();
        let refused = KeyLock::take(&key, User::Join).unwrap_err();
        assert!(
            refused.message.contains(&std::process::id().to_string()),
            "{refused}"
        );
        assert!(
            refused
                .hint
                .as_deref()
                .is_some_and(|hint| hint.contains("undertone submit"))
        );
        drop(daemon);
        KeyLock::take(&key, User::Join).unwrap();
    }

    #[test]
    fn a_key_whose_folder_cannot_be_written_is_refused() {
        let refused = KeyLock::take(Path::new("/proc/a.key"), User::Join).unwrap_err();
        assert_eq!(
            (refused.exit, refused.field.as_deref()),
            (Exit::Usage, Some("--identity"))
        );
        let folder = tempfile::tempdir().unwrap();
        let refused = Spent::open(Path::new("/proc/a.key"), folder.path(), D1, "alice").unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
    }
}
