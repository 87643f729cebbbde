use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use nix::sys::stat::Mode;

use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn wrote(path: &Path, text: &str) -> io::Result<()> {
    write_whole(path, |out| out.write_all(text.as_bytes()))
}

/// Names of what is in a folder, in order.
fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn nothing_but_a_file_is_replaced_and_nothing_is_left_beside_it() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    nix::unistd::mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    for name in ["pipe", "socket", "folder"] {
        symlink(name, at(&format!("to-{name}"))).unwrap();
    }
    symlink("nowhere", at("dangling")).unwrap();
    symlink("circle", at("circle")).unwrap();
    let before = entries(folder.path());
    let kinds = || {
        before
            .iter()
            .map(|name| fs::symlink_metadata(at(name)).unwrap().file_type())
            .collect::<Vec<_>>()
    };
    let found = kinds();
    for name in &before {
        let refused = wrote(&at(name), "mean").expect_err(name).to_string();
        let word = name.trim_start_matches("to-");
        assert!(
            refused.contains(word) || refused.contains("leads nowhere"),
            "{name}: {refused}"
        );
        let failure = OutputFile::of_flag(&at(name), "--output").unwrap_err();
        assert_eq!(
            (failure.exit.code(), failure.field.as_deref()),
            (2, Some("--output"))
        );
    }
    assert_eq!((entries(folder.path()), kinds()), (before.clone(), found));
    wrote(&at("no/folder"), "mean").unwrap_err();
    OutputFile::at(Path::new("..")).unwrap_err();
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_replaced_whole() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("mounted")).unwrap();
    fs::write(at("mounted/mean.json"), "earlier").unwrap();
    symlink("mounted/mean.json", at("link.json")).unwrap();
    symlink("link.json", at("second.json")).unwrap();
    wrote(&at("second.json"), "later").unwrap();
    for name in ["link.json", "second.json"] {
        assert!(fs::symlink_metadata(at(name)).unwrap().is_symlink(), "{name}");
    }
    assert_eq!(fs::read_to_string(at("mounted/mean.json")).unwrap(), "later");
    assert_eq!(
        OutputFile::at(&at("link.json")).unwrap().folder(),
        fs::canonicalize(at("mounted")).unwrap()
    );
    assert_eq!(entries(&at("mounted")), ["mean.json"]);
}

/// Between the look at a place and the renaming somebody makes a link, a pipe or a folder there,
/// or puts one into the place of the file.
#[test]
fn what_is_put_there_meanwhile_is_not_replaced_unless_it_is_a_file() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("private"), "theirs").unwrap();
    for earlier in [false, true] {
        for kind in ["link", "dangling", "pipe", "folder", "file", "gone"] {
            let place = at("mean.json");
            if earlier {
                fs::write(&place, "earlier").unwrap();
            }
            let mut file = OutputFile::at(&place).unwrap().begin().unwrap();
            file.write_all(b"mean").unwrap();
            if earlier {
                fs::remove_file(&place).unwrap();
            }
            match kind {
                "link" => symlink("private", &place).unwrap(),
                "dangling" => symlink("nowhere", &place).unwrap(),
                "pipe" => nix::unistd::mkfifo(&place, Mode::S_IRWXU).unwrap(),
                "folder" => fs::create_dir(&place).unwrap(),
                "file" => fs::write(&place, "another's").unwrap(),
                _ => {}
            }
            let finished = file.finish();
            if ["file", "gone"].contains(&kind) {
                finished.unwrap();
                assert_eq!(fs::read_to_string(&place).unwrap(), "mean", "{kind}");
                fs::remove_file(&place).unwrap();
            } else {
                let refused = finished.expect_err(kind).to_string();
                assert!(refused.contains("is not replaced"), "{kind}: {refused}");
                let found = fs::symlink_metadata(&place).unwrap().file_type();
                assert!(!found.is_file(), "{kind} stays");
                fs::remove_file(&place)
                    .or_else(|_| fs::remove_dir(&place))
                    .unwrap();
            }
            assert_eq!(entries(folder.path()), ["private"], "{kind}");
        }
    }
    assert_eq!(fs::read_to_string(at("private")).unwrap(), "theirs");
}

#[test]
fn a_file_keeps_its_mode_and_one_that_fails_stays() {
    let folder = folder();
    let path = folder.path().join("mean.json");
    for mode in [0o600, 0o640, 0o666, 0o755] {
        fs::write(&path, "earlier").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        wrote(&path, "later").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        assert_eq!(fs::read_to_string(&path).unwrap(), "later");
    }
    write_whole(&path, |out| {
        out.write_all(b"half")?;
        Err(io::Error::other("broke off"))
    })
    .unwrap_err();
    assert_eq!(fs::read_to_string(&path).unwrap(), "later");
    assert_eq!(entries(folder.path()), ["mean.json"]);
    // A new one is as any program's file: the umask counts.
    let new = folder.path().join("new");
    wrote(&new, "").unwrap();
    let like = folder.path().join("like");
    fs::write(&like, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&new), mode(&like) & NEW);
}

#[test]
fn a_file_that_is_a_mount_of_its_own_is_written_in_place() {
    let folder = folder();
    let place = folder.path().join("mounted");
    fs::write(&place, "a longer text").unwrap();
    let busy = |kind: io::ErrorKind| {
        let mut file = NamedTempFile::new_in(folder.path()).unwrap();
        file.write_all(b"mean").unwrap();
        put(file, &place, |file, _| Err((kind.into(), file)))
    };
    busy(io::ErrorKind::PermissionDenied).unwrap_err();
    assert_eq!(fs::read_to_string(&place).unwrap(), "a longer text");
    busy(io::ErrorKind::ResourceBusy).unwrap();
    assert_eq!(fs::read_to_string(&place).unwrap(), "mean");
    assert_eq!(entries(folder.path()), ["mounted"]);
}

#[test]
fn a_name_of_another_format_is_refused() {
    let named = |name: &str| check_named(Path::new(name), "--receipt", ("the receipt", "json"));
    for name in ["r.json", "r.JSON", "receipt", "alice.receipt", "r.json.old"] {
        named(name).unwrap();
    }
    for name in ["r.npy", "r.CSV", "r.toml"] {
        let failure = named(name).unwrap_err();
        assert_eq!(failure.exit.code(), 2);
        assert!(failure.hint.unwrap().contains("--receipt r.json"), "{name}");
    }
}

#[test]
fn one_file_for_two_is_refused_whatever_leads_to_it() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("x.json"), "").unwrap();
    symlink("x.json", at("y.json")).unwrap();
    let (input, output) = (at("x.json"), at("z.json"));
    let check = |output: &Path, receipt: &Path| {
        apart(
            [(&*input, "--input")],
            [(output, "--output"), (receipt, "--receipt")],
        )
    };
    check(&output, &at("r.json")).unwrap();
    for (output, receipt, flag) in [
        (at("y.json"), at("r.json"), "--output"),
        (at("x.json"), at("r.json"), "--output"),
        (at("z.json"), folder.path().join("./z.json"), "--receipt"),
    ] {
        let failure = check(&output, &receipt).unwrap_err();
        assert_eq!((failure.exit.code(), failure.field.as_deref()), (2, Some(flag)));
    }
}
