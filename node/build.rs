//! Says of which commit the program is built: as its builder says in BUILT_FROM_COMMIT, or as git
//! says where these sources are a checkout.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=BUILT_FROM_COMMIT");
    let said = env::var("BUILT_FROM_COMMIT")
        .ok()
        .filter(|commit| !commit.is_empty());
    let is_exact = said.is_some() || env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if let Some(commit) = said.or_else(|| checked_out(is_exact)) {
        println!("cargo:rustc-env=UNDERTONE_COMMIT={commit}");
    }
    // A debug build is not made again for each commit: developers would wait for that.
    if is_exact {
        println!("cargo:rustc-env=UNDERTONE_COMMIT_IS_EXACT=yes");
    }
}

/// Returns the commit that is checked out, if this file is one of git's; `None` in an unpacked
/// archive, also in one that lies in somebody else's repository.
fn checked_out(watch: bool) -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let commit = git(&["rev-parse", "HEAD"])?;
    if watch {
        let branch = git(&["symbolic-ref", "-q", "HEAD"]);
        for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
            let path = git(&["rev-parse", "--path-format=absolute", "--git-path", name]);
            // One that is absent would count as changed each time.
            if let Some(path) = path.filter(|path| Path::new(path).exists()) {
                println!("cargo:rerun-if-changed={path}");
            }
        }
    }
    Some(commit)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
