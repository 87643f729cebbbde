//! The Debian package: files where Debian has them, and scripts that keep what a daemon must not
//! forget.
//!
//! It is written here and not by `dpkg-deb`, whose compression differs between versions. A test
//! reads it by `dpkg-deb` and installs it.

use std::io;
use std::path::Path;

use super::program::ProgramNeeds;
use super::tar::{Files, PackedFile, ar, tar};
use super::tools::{gzip, read, read_text};

/// Scripts that `dpkg` runs, in `deploy/debian/`.
const SCRIPTS: [&str; 3] = ["postinst", "postrm", "prerm"];
/// Samples for an operator, in `deploy/testnet/`.
const EXAMPLES: [&str; 3] = ["node.toml", "peers.toml", "run.toml"];
/// The line of the unit that says where the program is.
const STARTS: &str = "ExecStart=/usr/local/bin/undertone ";

/// Files of `deploy/` as the package lays them out: the unit, the user, its folders, samples.
pub fn laid_out(top: &Path) -> io::Result<Files> {
    let deploy = top.join("deploy");
    let mut files = Files::new();
    let unit = read_text(&deploy.join("undertone.service"))?;
    let (comment, rest) = unit.split_once("[Unit]\n").unwrap_or(("", &unit));
    if comment.is_empty() || rest.matches(STARTS).count() != 1 {
        return Err(io::Error::other(format!(
            "deploy/undertone.service: no line begins with {STARTS:?}"
        )));
    }
    // Its comment says how to install by hand what the package has installed.
    let unit = format!(
        "[Unit]\n{}",
        rest.replace(STARTS, "ExecStart=/usr/bin/undertone ")
    );
    // systemd looks there on every Debian, also where /lib is a folder of its own.
    files.insert(
        "usr/lib/systemd/system/undertone.service".into(),
        PackedFile::plain(unit),
    );
    for kind in ["sysusers.d", "tmpfiles.d"] {
        let bytes = read(&deploy.join(kind).join("undertone.conf"))?;
        files.insert(format!("usr/lib/{kind}/undertone.conf"), PackedFile::plain(bytes));
    }
    for name in EXAMPLES {
        let bytes = read(&deploy.join("testnet").join(name))?;
        files.insert(
            format!("usr/share/doc/undertone/examples/{name}"),
            PackedFile::plain(bytes),
        );
    }
    files.insert("etc/undertone/".into(), PackedFile::folder());
    Ok(files)
}

/// Packs files into a `.deb` of this version.
pub fn deb(
    top: &Path,
    files: &Files,
    version: &str,
    needs: ProgramNeeds,
    seconds: u64,
) -> io::Result<Vec<u8>> {
    let mut control = Files::from([(
        "control".to_owned(),
        PackedFile::plain(description(files, version, needs)),
    )]);
    for name in SCRIPTS {
        let script = read(&top.join("deploy/debian").join(name))?;
        control.insert(name.to_owned(), PackedFile::program(script));
    }
    let control = gzip(&tar(&control, "./", seconds)?)?;
    let data = gzip(&tar(files, "./", seconds)?)?;
    let members = [
        ("debian-binary", b"2.0\n".as_slice()),
        ("control.tar.gz", &control),
        ("data.tar.gz", &data),
    ];
    Ok(ar(&members, seconds))
}

fn description(files: &Files, version: &str, needs: ProgramNeeds) -> String {
    let bytes: usize = files.values().map(|file| file.bytes.len()).sum();
    format!(
        "Package: undertone\n\
         Version: {version}\n\
         Architecture: amd64\n\
         Maintainer: The Undertone developers <undertone@localhost>\n\
         Installed-Size: {}\n\
         Depends: {}\n\
         Recommends: systemd\n\
         Section: science\n\
         Priority: optional\n\
         Description: averages with differential privacy, without a server\n \
         Parties that do not trust each other average vectors and tables. What a\n \
         coalition can learn is computed before a run and stated after it.\n",
        bytes.div_ceil(1024),
        needs.depends(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::composition::top;

    #[test]
    fn the_unit_starts_the_program_of_the_package() {
        let files = laid_out(top()).expect("deploy/ is there");
        let unit = &files["usr/lib/systemd/system/undertone.service"].bytes;
        let unit = String::from_utf8_lossy(unit);
        assert!(unit.starts_with("[Unit]\n"), "{unit}");
        assert!(unit.contains("\nExecStart=/usr/bin/undertone node "), "{unit}");
        assert!(!unit.contains("/usr/local"), "{unit}");
        assert!(files.contains_key("etc/undertone/"));
    }

    #[test]
    fn the_package_says_its_version_its_size_and_its_c_library() {
        let files = Files::from([("a".to_owned(), PackedFile::plain(vec![0; 1025]))]);
        let needs = ProgramNeeds {
            glibc: (2, 28),
            libgcc: false,
        };
        let text = description(&files, "1.2.3", needs);
        for line in [
            "Version: 1.2.3",
            "Installed-Size: 2",
            "Depends: libc6 (>= 2.28)",
            " Parties that do not",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
