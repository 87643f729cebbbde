//! A file without a name for the finals of all parties: what everybody may read, and too long for
//! as many copies in memory as there are parties.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use undertone_protocol::agreement::shelf::{self, Shelf, Shelved};

/// A shelf in a folder. Where the folder's disk has no room, frames stay in memory.
pub fn in_folder(folder: &Path) -> Shelf {
    match tempfile::tempfile_in(folder) {
        Ok(file) => on(file),
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "finals are kept in memory");
            shelf::in_memory()
        }
    }
}

fn on(file: File) -> Shelf {
    let frames = Frames::over(file);
    Arc::new(move |frame| match frames.put(frame) {
        Ok(shelved) => Some(Arc::new(shelved)),
        Err(error) => {
            tracing::warn!(%error, bytes = frame.len(), "a final is kept in memory");
            None
        }
    })
}

/// One after another, in a file that goes with this process.
struct Frames {
    file: File,
    end: AtomicU64,
    /// Frames that were read and are in use, by their place: several neighbours ask for a frame at
    /// a time. The memory of a frame that nobody has is free once its entry is gone.
    read: Mutex<BTreeMap<u64, Weak<[u8]>>>,
}

impl Frames {
    fn over(file: File) -> Arc<Self> {
        Arc::new(Frames {
            file,
            end: AtomicU64::new(0),
            read: Mutex::default(),
        })
    }

    fn put(self: &Arc<Self>, frame: &[u8]) -> io::Result<FrameInFile> {
        let at = self.end.fetch_add(frame.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(frame, at)?;
        Ok(FrameInFile {
            frames: self.clone(),
            at,
            length: frame.len(),
        })
    }
}

struct FrameInFile {
    frames: Arc<Frames>,
    at: u64,
    length: usize,
}

impl Shelved for FrameInFile {
    fn read(&self) -> Option<Arc<[u8]>> {
        let mut read = self.frames.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(frame) = read.get(&self.at).and_then(Weak::upgrade) {
            return Some(frame);
        }
        read.retain(|_, frame| frame.strong_count() > 0);
        let mut frame: Arc<[u8]> = std::iter::repeat_n(0, self.length).collect();
        let bytes = Arc::get_mut(&mut frame)?;
        match self.frames.file.read_exact_at(bytes, self.at) {
            Ok(()) => {
                read.insert(self.at, Arc::downgrade(&frame));
                Some(frame)
            }
            Err(error) => {
                tracing::error!(%error, "a final cannot be read from the state folder any more");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were_put_and_once_for_several_readers() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = in_folder(folder.path());
        let frames: Vec<Vec<u8>> = (1..5u8).map(|i| vec![i; 10_000 * usize::from(i)]).collect();
        let shelved: Vec<_> = frames.iter().map(|frame| shelf(frame).unwrap()).collect();
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "nobody sees it"
        );
        for (frame, shelved) in frames.iter().zip(&shelved).rev() {
            let (one, other) = (shelved.read().unwrap(), shelved.read().unwrap());
            assert_eq!(one[..], frame[..]);
            assert!(Arc::ptr_eq(&one, &other));
        }
        drop(shelf);
        assert_eq!(shelved[2].read().as_deref(), Some(&frames[2][..]));
    }

    #[test]
    fn what_nobody_has_any_more_takes_no_memory() {
        let frames = Frames::over(tempfile::tempfile().unwrap());
        let shelved: Vec<_> = (0..20).map(|i| frames.put(&[i; 100]).unwrap()).collect();
        let held = shelved[3].read().unwrap();
        for shelved in &shelved {
            shelved.read().unwrap();
            // The one that is held, the one that was read last, and no other.
            assert!(frames.read.lock().unwrap().len() <= 2);
        }
        assert!(Arc::ptr_eq(&held, &shelved[3].read().unwrap()));
    }

    #[test]
    fn without_room_frames_stay_in_memory_and_what_is_lost_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(in_folder(&folder.path().join("none"))(&[1; 100]).is_none());
        let path = folder.path().join("file");
        std::fs::write(&path, b"").unwrap();
        let shelf = on(File::open(&path).unwrap());
        assert!(shelf(&[1; 100]).is_none(), "open for reading only");
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let shelved = on(file.try_clone().unwrap())(&[1; 100]).unwrap();
        file.set_len(50).unwrap();
        assert!(shelved.read().is_none());
    }
}
