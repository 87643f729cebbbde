//! One release: the archive, the Debian package, the wheel, the container's image, the list of
//! crates, and digests of all.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::crates::{bill_of_materials, linked, notices};
use super::deb::{deb, laid_out};
use super::image::{self, image};
use super::program::ProgramNeeds;
use super::tar::{Files, PackedFile, tar};
use super::tools::{gzip, output, read, read_text};

/// The oldest glibc that a release runs on, as `cargo zigbuild` takes it behind a target.
const TARGET: &str = "x86_64-unknown-linux-gnu.2.28";
/// Shells, with the places of their completions below `share/`.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/undertone"),
    ("fish", "fish/vendor_completions.d/undertone.fish"),
    ("zsh", "zsh/vendor-completions/_undertone"),
];

/// The contents of all archives of a release.
#[derive(Debug)]
struct Contents {
    program: PathBuf,
    bytes: Vec<u8>,
    needs: ProgramNeeds,
    version: String,
    seconds: u64,
    /// That moment by RFC 3339.
    time: String,
    /// Manual pages and completions, below `share/`.
    share: Files,
    notices: String,
    bill: String,
}

/// Builds the program for glibc 2.28 and returns its path. Without `cargo-zigbuild` it is built for
/// this machine's glibc, and the second value says so.
pub fn build(top: &Path) -> io::Result<(PathBuf, Option<String>)> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let has_zig = super::TOOLS
        .iter()
        .any(|tool| tool.name == "cargo-zigbuild" && tool.is_there());
    let mut command = Command::new(if has_zig { "cargo-zigbuild".into() } else { cargo });
    command.arg(if has_zig { "zigbuild" } else { "build" });
    command.args(["--release", "--locked", "--package", "undertone"]);
    if has_zig {
        command.args(["--target", TARGET]);
    }
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .unwrap_or_default();
    // Names of functions are half of the program, and paths would say who built it where.
    let flags = [
        "-Cstrip=symbols",
        &format!("--remap-path-prefix={}=undertone", top.display()),
        &format!("--remap-path-prefix={home}=cargo"),
    ];
    command
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .current_dir(top);
    command.env("BUILT_FROM_COMMIT", commit(top, "%H")?);
    if !command.status()?.success() {
        return Err(io::Error::other(format!("{command:?} failed")));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| top.join("target"), PathBuf::from);
    let folder = if has_zig {
        "x86_64-unknown-linux-gnu/release"
    } else {
        "release"
    };
    let warning = "cargo-zigbuild is absent: the program needs a glibc as new as this machine's";
    Ok((
        target.join(folder).join("undertone"),
        (!has_zig).then(|| warning.to_owned()),
    ))
}

fn commit(top: &Path, format: &str) -> io::Result<String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", &format!("--format={format}")])
        .current_dir(top);
    Ok(String::from_utf8_lossy(&output(&mut git)?).trim().to_owned())
}

/// Writes a release of this program into a folder, and returns the names of its files. The version
/// is the workspace's, unless another one is given.
pub fn make(top: &Path, program: &Path, out: &Path, version: Option<&str>) -> io::Result<Vec<String>> {
    let contents = Contents::gather(top, program, version)?;
    std::fs::create_dir_all(out)?;
    let version = &contents.version;
    let archive = gzip(&tar(
        &contents.archive(top)?,
        &format!("undertone-{version}/"),
        contents.seconds,
    )?)?;
    let package = deb(
        top,
        &contents.package(top)?,
        version,
        contents.needs,
        contents.seconds,
    )?;
    let (wheel, in_wheel) = contents.wheel(top)?;
    let files = BTreeMap::from([
        (format!("undertone-{version}-x86_64-linux.tar.gz"), archive),
        (format!("undertone_{version}_amd64.deb"), package),
        (wheel, in_wheel),
        (
            format!("undertone-{version}-oci.tar"),
            image(&contents.image(top)?, version, (contents.seconds, &contents.time))?,
        ),
        (
            format!("undertone-{version}.cdx.json"),
            contents.bill.clone().into_bytes(),
        ),
    ]);
    let mut sums = String::new();
    for (name, bytes) in &files {
        let digest = Sha256::digest(bytes);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        sums += &format!("{hex}  {name}\n");
        std::fs::write(out.join(name), bytes)?;
    }
    std::fs::write(out.join("SHA256SUMS"), sums)?;
    Ok(files.into_keys().chain(["SHA256SUMS".to_owned()]).collect())
}

impl Contents {
    fn gather(top: &Path, program: &Path, version: Option<&str>) -> io::Result<Self> {
        let program = program
            .canonicalize()
            .map_err(|e| io::Error::other(format!("{}: {e}", program.display())))?;
        let bytes = read(&program)?;
        let needs =
            ProgramNeeds::of(&bytes).map_err(|e| io::Error::other(format!("{}: {e}", program.display())))?;
        let crates = linked(top)?;
        let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(said) => said,
            Err(_) => commit(top, "%ct")?,
        };
        let time = output(Command::new("date").args(["--utc", "+%FT%TZ", &format!("--date=@{seconds}")]))?;
        let time = String::from_utf8_lossy(&time).trim().to_owned();
        let bill = bill_of_materials(&crates, &time);
        let seconds = seconds
            .parse()
            .map_err(|_| io::Error::other(format!("SOURCE_DATE_EPOCH: {seconds} is no number of seconds")))?;
        Ok(Contents {
            share: share(&program)?,
            program,
            bytes,
            needs,
            version: version.unwrap_or(env!("CARGO_PKG_VERSION")).to_owned(),
            seconds,
            time,
            notices: notices(&crates)?,
            bill: format!("{bill:#}\n"),
        })
    }

    /// Licences, notices and the like, by name.
    fn documents(&self, top: &Path) -> io::Result<Files> {
        let mut files = Files::from([
            ("THIRD-PARTY".to_owned(), PackedFile::plain(self.notices.as_str())),
            ("sbom.cdx.json".to_owned(), PackedFile::plain(self.bill.as_str())),
        ]);
        for path in ["LICENSE", "README.md", "node/CHANGELOG.md"] {
            let name = path.rsplit('/').next().unwrap_or(path);
            files.insert(name.to_owned(), PackedFile::plain(read(&top.join(path))?));
        }
        Ok(files)
    }

    /// The files of the `.tar.gz`, which is unpacked anywhere.
    fn archive(&self, top: &Path) -> io::Result<Files> {
        let mut files = self.documents(top)?;
        files.insert("bin/undertone".into(), PackedFile::program(self.bytes.as_slice()));
        files.extend(below("share/", &self.share));
        for path in [
            "undertone.service",
            "sysusers.d/undertone.conf",
            "tmpfiles.d/undertone.conf",
        ] {
            let path = format!("deploy/{path}");
            let text = read_text(&top.join(&path))?;
            // What it says of installing by hand is said of a built tree.
            let text = text.replace("target/release/undertone", "bin/undertone");
            files.insert(path, PackedFile::plain(text));
        }
        for name in ["node.toml", "peers.toml", "run.toml"] {
            let path = format!("deploy/testnet/{name}");
            files.insert(path.clone(), PackedFile::plain(read(&top.join(&path))?));
        }
        Ok(files)
    }

    /// The files of the Debian package.
    fn package(&self, top: &Path) -> io::Result<Files> {
        let mut files = laid_out(top)?;
        files.insert(
            "usr/bin/undertone".into(),
            PackedFile::program(self.bytes.as_slice()),
        );
        files.extend(below("usr/share/", &compressed(&self.share)?));
        let mut documents = self.documents(top)?;
        if let Some(licence) = documents.remove("LICENSE") {
            documents.insert("copyright".into(), licence);
        }
        files.extend(below("usr/share/doc/undertone/", &documents));
        Ok(files)
    }

    /// The files of the container's image.
    fn image(&self, top: &Path) -> io::Result<Files> {
        let mut files = image::laid_out(top, &self.program)?;
        files.insert(image::PROGRAM.into(), PackedFile::program(self.bytes.as_slice()));
        files.extend(below("usr/share/doc/undertone/", &self.documents(top)?));
        Ok(files)
    }

    /// The wheel's name and bytes, packed by the package's own build backend.
    fn wheel(&self, top: &Path) -> io::Result<(String, Vec<u8>)> {
        let folder = tempfile::tempdir()?;
        let python = "import sys, wheel_builder; \
                      settings = {'program': sys.argv[2], 'platform': sys.argv[3]}; \
                      print(wheel_builder.build_wheel(sys.argv[1], settings))";
        let platform = self.needs.platform_tag();
        let arguments: [&OsStr; 5] = [
            "-c".as_ref(),
            python.as_ref(),
            folder.path().as_ref(),
            self.program.as_ref(),
            platform.as_ref(),
        ];
        let mut command = Command::new("python3");
        command
            .args(arguments)
            .env("PYTHONPATH", top.join("node/python/backend"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let name = String::from_utf8_lossy(&output(&mut command)?).trim().to_owned();
        let bytes = read(&folder.path().join(&name))?;
        Ok((name, bytes))
    }
}

/// Moves files into a folder.
fn below(folder: &str, files: &Files) -> Files {
    let moved = files
        .iter()
        .map(|(path, file)| (format!("{folder}{path}"), file.clone()));
    moved.collect()
}

/// Compresses manual pages, as Debian has them, and leaves other files as they are.
fn compressed(share: &Files) -> io::Result<Files> {
    let mut files = Files::new();
    for (path, file) in share {
        if path.starts_with("man/") {
            files.insert(format!("{path}.gz"), PackedFile::plain(gzip(&file.bytes)?));
        } else {
            files.insert(path.clone(), file.clone());
        }
    }
    Ok(files)
}

/// Manual pages and completions, as the program itself writes them.
fn share(program: &Path) -> io::Result<Files> {
    let folder = tempfile::tempdir()?;
    output(Command::new(program).arg("manual").arg(folder.path()))?;
    let mut files = Files::new();
    for entry in std::fs::read_dir(folder.path())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.insert(
            format!("man/man1/{name}"),
            PackedFile::plain(read(&entry.path())?),
        );
    }
    for (shell, place) in SHELLS {
        let script = output(Command::new(program).args(["completions", shell]))?;
        files.insert(place.to_owned(), PackedFile::plain(script));
    }
    Ok(files)
}
