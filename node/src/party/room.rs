//! Room on a disk for what a run leaves: taken before its plan is spent, so that a disk that fills
//! up meanwhile costs neither the mean nor the receipt.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use undertone_protocol::plan::checked::Plan;

use crate::reporting::failure;
use crate::vector_file::layout::Layout;

/// The bytes that a receipt takes beside its entries for each party, and those for each of them.
/// Measured: 2 kB and 200 bytes. The room includes an entry of the ledger and the record of a run.
const RECEIPT: u64 = 64 << 10;
const OF_A_PARTY: u64 = 4 << 10;

/// The number of bytes of it written at once.
const PAGE: usize = 4096;

/// Room that nobody else gets until this is dropped, or its process ends. It is a file without a
/// name.
#[derive(Debug)]
pub struct Room(#[cfg_attr(not(test), expect(dead_code, reason = "held until it is dropped"))] File);

impl Room {
    /// Takes room in a folder. Fails if there is not as much.
    pub fn take(folder: &Path, bytes: u64) -> io::Result<Self> {
        let mut file = tempfile::tempfile_in(folder)?;
        fill(&file, bytes)?;
        // What is set aside may still not be written, such as beyond a user's limit.
        file.write_all(&[0; PAGE])?;
        Ok(Room(file))
    }
}

/// Whether a folder's disk, or the user's share of it, is full.
pub fn is_full(folder: &Path) -> bool {
    Room::take(folder, RECEIPT).is_err_and(|e| failure::is_full(&e))
}

/// Bytes of a mean with this layout, of a receipt and of what the daemon notes, at most.
pub fn needed(plan: &Plan, mean: &Layout) -> u64 {
    mean.written_bytes() + RECEIPT + OF_A_PARTY * plan.parties() as u64
}

/// Has the file system set blocks aside.
#[cfg(target_os = "linux")]
fn fill(file: &File, bytes: u64) -> io::Result<()> {
    let length = i64::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
    Ok(nix::fcntl::posix_fallocate(file, 0, length.max(1))?)
}

/// Writes them.
#[cfg(not(target_os = "linux"))]
fn fill(mut file: &File, bytes: u64) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), bytes), &mut file)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_there_is_none_of_is_refused_and_what_is_taken_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        Room::take(folder.path(), u64::MAX).unwrap_err();
        Room::take(folder.path(), 1 << 60).unwrap_err();
        let room = Room::take(folder.path(), 1 << 20).unwrap();
        let hidden = || std::fs::read_dir(folder.path()).unwrap().next().is_none();
        assert!(hidden(), "nobody sees it");
        assert!(
            blocks(&room.0) >= (1 << 20) / 512,
            "it is there, not just promised"
        );
        drop(room);
        assert!(hidden());
    }

    fn blocks(file: &File) -> u64 {
        std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap())
    }
}
