//! Files that a user names for a command to read. Nobody waits for whoever would write into a pipe:
//! what is no plain file is refused at once.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

use crate::reporting::output_file;

/// Opens a plain file, or one that links lead to.
///
/// # Errors
/// It cannot be opened, or it is a pipe, a device, a socket or a folder; the message says how a
/// file comes of that.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a pipe would last until somebody writes into it.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    match output_file::kind(file.metadata()?.file_type()) {
        None => Ok(file),
        Some(kind) => Err(io::Error::other(format!(
            "it is {kind}; name a plain file: what comes by a pipe has to be saved first"
        ))),
    }
}

/// Reads a plain file of at most `most` bytes.
///
/// # Errors
/// Those of [`open`], or it is longer.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!(
            "it has more than {most} bytes, more than such a file ever has"
        )));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use nix::sys::stat::Mode;

    use super::*;

    #[test]
    fn only_plain_files_and_links_to_them_are_read_and_nobody_waits() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        nix::unistd::mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        symlink("pipe", at("link")).unwrap();
        for name in ["pipe", "socket", "folder", "link", "nothing"] {
            open(&at(name)).unwrap_err();
        }
        let said = open(&at("link")).unwrap_err().to_string();
        assert!(said.contains("a pipe") && said.contains("plain file"), "{said}");
        std::fs::write(at("file"), "four").unwrap();
        symlink("file", at("link-to-file")).unwrap();
        assert_eq!(read(&at("link-to-file"), 4).unwrap(), b"four");
        read(&at("file"), 3).unwrap_err();
    }
}
