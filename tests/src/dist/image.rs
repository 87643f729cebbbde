//! The container's image: one file that both `docker load` and tools for OCI layouts read.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::tar::{Files, PackedFile, tar};
use super::tools::{gzip, output, read};

/// The account without rights that the daemon runs as, as in `deploy/Dockerfile`.
const ACCOUNT: u32 = 10_001;
/// Where the image has the program.
pub const PROGRAM: &str = "usr/local/bin/undertone";
/// Debian's packages of the libraries in the image, whose licences are beside ours.
const LIBRARIES: [&str; 2] = ["libc6", "libgcc-s1"];

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The files of the image beside the program: the libraries that it maps, an account, and folders
/// of its own, as `deploy/base-image` lays them out.
pub fn laid_out(top: &Path, program: &Path) -> io::Result<Files> {
    let folder = tempfile::tempdir()?;
    let mut base = Command::new(top.join("deploy/base-image"));
    base.arg("--files").arg(folder.path()).arg(program);
    output(&mut base)?;
    let mut files = Files::new();
    gather(&folder.path().join("root"), "", 0, &mut files)?;
    gather(&folder.path().join("owned"), "var/lib/", ACCOUNT, &mut files)?;
    // For volumes of an older engine; here nobody is root.
    files.remove("bin/chown");
    for library in LIBRARIES {
        let path = format!("usr/share/doc/{library}/copyright");
        if let Ok(text) = std::fs::read(Path::new("/").join(&path)) {
            files.insert(path, PackedFile::plain(text));
        }
    }
    Ok(files)
}

/// Adds the files and the empty folders below a folder.
fn gather(folder: &Path, prefix: &str, owner: u32, files: &mut Files) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let mode = entry.metadata()?.permissions().mode() & 0o7777;
        let is_folder = entry.file_type()?.is_dir();
        let (path, bytes) = match is_folder {
            true => (path + "/", vec![]),
            false => (path, read(&entry.path())?),
        };
        if is_folder {
            gather(&entry.path(), &path, owner, files)?;
        }
        files.insert(path, PackedFile { mode, owner, bytes });
    }
    Ok(())
}

/// Packs files into an image of this version. `time`: seconds since 1970, and the same by RFC 3339.
pub fn image(files: &Files, version: &str, (seconds, time): (u64, &str)) -> io::Result<Vec<u8>> {
    let layer = tar(files, "", seconds)?;
    let packed = gzip(&layer)?;
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "created": time,
        "config": {
            "User": format!("{ACCOUNT}:{ACCOUNT}"),
            "Env": ["PATH=/usr/local/bin"],
            "Entrypoint": [format!("/{PROGRAM}")],
            "WorkingDir": "/var/lib/undertone",
            "Labels": {
                "org.opencontainers.image.title": "undertone",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", digest(&layer))] },
        "history": [{ "created": time, "created_by": "cargo xtask dist" }],
    });
    let mut image = Files::new();
    let mut blob = |bytes: Vec<u8>, kind: &str| -> Value {
        let (name, size) = (digest(&bytes), bytes.len());
        image.insert(format!("blobs/sha256/{name}"), PackedFile::plain(bytes));
        json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": format!("sha256:{name}"),
            "size": size,
        })
    };
    let layer = blob(packed, "layer.v1.tar+gzip");
    let config = blob(config.to_string().into_bytes(), "config.v1+json");
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [layer],
    });
    let mut manifest = blob(manifest.to_string().into_bytes(), "manifest.v1+json");
    let tag = format!("undertone:{version}");
    manifest["platform"] = json!({ "architecture": "amd64", "os": "linux" });
    manifest["annotations"] = json!({
        "io.containerd.image.name": format!("docker.io/library/{tag}"),
        "org.opencontainers.image.ref.name": version,
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    let place = |blob: &Value| blob["digest"].as_str().unwrap_or_default().replace(':', "/");
    let for_docker = json!([{
        "Config": format!("blobs/{}", place(&config)),
        "RepoTags": [tag],
        "Layers": [format!("blobs/{}", place(&layer))],
    }]);
    for (name, text) in [
        ("oci-layout", json!({ "imageLayoutVersion": "1.0.0" })),
        ("index.json", index),
        ("manifest.json", for_docker),
    ] {
        image.insert(name.to_owned(), PackedFile::plain(text.to_string()));
    }
    tar(&image, "", seconds)
}
