//! The sources of a crate, by path.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the whole workspace.
pub fn workspace() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests/ lies in it").to_owned()
}

/// Every `.rs` file below a folder, by its path relative to that folder, with `/`.
pub fn below(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    read(folder, "", &mut files);
    files
}

fn read(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = format!("{prefix}{}", name.to_string_lossy());
        if path.is_dir() {
            read(&path, &format!("{name}/"), files);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            files.insert(name, text);
        }
    }
}
