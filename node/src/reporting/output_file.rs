//! Files that a command leaves where its user said: each appears whole or not at all, and takes the
//! place of nothing but a file.
//!
//! A link is followed, and stays. A pipe, a device, a socket or a folder is refused: a result that
//! has to appear whole cannot be written into the first three, and none of them may be replaced. A
//! file that is there keeps its mode, and its owner where the system allows it.

use std::collections::BTreeSet;
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::fcntl::OFlag;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::reporting::failure::Failure;

/// The mode of a file that is new, before the umask: results are public.
const NEW: u32 = 0o644;

/// A place that a file may be written to.
#[derive(Debug)]
pub struct OutputFile {
    /// Where the file is: what links lead to.
    place: PathBuf,
    /// The metadata of an existing file.
    earlier: Option<Metadata>,
}

impl OutputFile {
    /// Looks at a place.
    ///
    /// # Errors
    /// It is no file, or one that this process may not write to; its folder does not exist; or it
    /// is a link that leads nowhere: what that would make is for the link's owner to say.
    pub fn at(path: &Path) -> io::Result<Self> {
        if path.file_name().is_none() {
            return Err(io::Error::other("it names no file"));
        }
        let place = match fs::symlink_metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // Says why, if it is the folder that is not there.
                fs::metadata(folder_of(path))?;
                return Ok(OutputFile {
                    place: path.to_owned(),
                    earlier: None,
                });
            }
            Err(e) => return Err(e),
            Ok(found) if found.is_symlink() => {
                // What a link in /proc leads to need not be at any path.
                let led_to = fs::metadata(path)
                    .map_err(|e| io::Error::other(format!("it is a link that leads nowhere ({e})")))?;
                file_only(led_to.file_type())?;
                fs::canonicalize(path)?
            }
            Ok(found) => {
                file_only(found.file_type())?;
                path.to_owned()
            }
        };
        // The system has its say on write protection, and on links that somebody else has put into
        // a folder that all share. Nothing is changed, and nobody waited for.
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(path)?;
        let earlier = opened.metadata()?;
        file_only(earlier.file_type())?;
        Ok(OutputFile {
            place,
            earlier: Some(earlier),
        })
    }

    /// Looks at the place that a flag names, and whether its folder can be written to.
    ///
    /// # Errors
    /// It cannot be written to (exit 2).
    pub fn of_flag(path: &Path, flag: &str) -> Result<Self, Failure> {
        let checked = Self::at(path).and_then(|file| tempfile::tempfile_in(file.folder()).map(|_| file));
        checked.map_err(|e| unwritten(path, flag, &e))
    }

    /// The folder that the file is in.
    pub fn folder(&self) -> &Path {
        folder_of(&self.place)
    }

    /// Begins the file beside its place.
    ///
    /// # Errors
    /// Its folder cannot be written to.
    pub fn begin(self) -> io::Result<Unfinished> {
        let mut begun = begun();
        let file = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(NEW))
            .tempfile_in(self.folder())?;
        begun.insert(file.path().to_owned());
        drop(begun);
        Ok(Unfinished {
            at: self,
            file: Some(file),
        })
    }
}

/// Files that are begun and not in their places. Nobody begins one or puts one into its place while
/// they are locked.
static BEGUN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn begun() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    BEGUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends this process at once, whatever others of its threads do; of files that are begun nothing
/// stays, and of those that belong together all are in their places, or none.
pub fn exit_at_once(code: i32) -> ! {
    let begun = begun();
    for file in &*begun {
        let _ = fs::remove_file(file);
    }
    process::exit(code)
}

/// A file that is written and has not taken its place yet; dropped, it leaves nothing.
#[derive(Debug)]
pub struct Unfinished {
    at: OutputFile,
    /// Taken once it is in its place.
    file: Option<NamedTempFile>,
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.flush())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            let mut begun = begun();
            begun.remove(file.path());
            drop(file);
        }
    }
}

impl Unfinished {
    /// Puts the file into its place; it is on disk when this returns.
    ///
    /// # Errors
    /// It cannot be put there; what was there still is.
    pub fn finish(self) -> io::Result<()> {
        finish_all([self])
    }

    /// Has all of it on disk, as it will be.
    fn settle(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if let Some(earlier) = &self.at.earlier {
            let new = file.as_file().metadata()?;
            if (new.uid(), new.gid()) != (earlier.uid(), earlier.gid()) {
                // Only root can give files away. For others the file is theirs from now on.
                let _ = chown(file.path(), Some(earlier.uid()), Some(earlier.gid()));
            }
            file.as_file().set_permissions(earlier.permissions())?;
        }
        file.as_file().sync_all()
    }
}

/// Puts files that belong together into their places, in this order; they are on disk when this
/// returns.
///
/// # Errors
/// One of them cannot be put there, nor those behind it; what was there still is.
pub fn finish_all<const N: usize>(mut files: [Unfinished; N]) -> io::Result<()> {
    files.iter().try_for_each(Unfinished::settle)?;
    let mut begun = begun();
    for unfinished in &mut files {
        let Some(file) = unfinished.file.take() else {
            continue;
        };
        begun.remove(file.path());
        put(file, &unfinished.at.place, take_place)?;
    }
    drop(begun);
    files
        .iter()
        .try_for_each(|file| File::open(file.at.folder())?.sync_all())
}

/// Has a file take its place under the name of nothing or of a plain file. The system decides that
/// and renames in one step: a link or pipe that was made since the place was looked at stays.
fn take_place(file: NamedTempFile, place: &Path) -> Result<(), (io::Error, NamedTempFile)> {
    let rename = |flags| rustix::fs::renameat_with(CWD, file.path(), CWD, place, flags);
    let renamed = match rename(RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => rename(RenameFlags::EXCHANGE).map(|()| true),
        renamed => renamed.map(|()| false),
    };
    match renamed {
        Ok(exchanged) => {
            // What was there has the temporary name now, and goes with it.
            let found = exchanged.then(|| fs::symlink_metadata(file.path()));
            let checked = found.map_or(Ok(()), |found| found.and_then(|it| file_only(it.file_type())));
            match checked {
                Ok(()) => {
                    drop(file);
                    Ok(())
                }
                Err(error) => match rename(RenameFlags::EXCHANGE) {
                    Ok(()) => Err((error, file)),
                    Err(also) => Err((also.into(), file)),
                },
            }
        }
        // Some file systems have no such step.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            let checked = match fs::symlink_metadata(place) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
                found => found.and_then(|it| file_only(it.file_type())),
            };
            match checked {
                Ok(()) => file.persist(place).map(drop).map_err(|e| (e.error, e.file)),
                Err(error) => Err((error, file)),
            }
        }
        Err(errno) => Err((errno.into(), file)),
    }
}

/// Has a file take its place by `renamed`, or, where that is a mount of its own (a single file that
/// a container is given), copies it there.
fn put(
    file: NamedTempFile,
    place: &Path,
    renamed: impl FnOnce(NamedTempFile, &Path) -> Result<(), (io::Error, NamedTempFile)>,
) -> io::Result<()> {
    match renamed(file, place) {
        Ok(()) => Ok(()),
        Err((e, file)) if e.kind() == io::ErrorKind::ResourceBusy => {
            let mut mounted = OpenOptions::new().write(true).truncate(true).open(place)?;
            io::copy(&mut File::open(file.path())?, &mut mounted)?;
            mounted.sync_all()
        }
        Err((e, _)) => Err(e),
    }
}

/// Writes a file; it appears whole or not at all, and is on disk when this returns.
///
/// # Errors
/// Those of [`OutputFile::at`], a full disk, or what `write` says.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    written(path, write)?.finish()
}

/// Writes a file that is still to take its place.
///
/// # Errors
/// Those of [`write_whole`].
pub fn written(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Unfinished> {
    let mut file = OutputFile::at(path)?.begin()?;
    let mut out = BufWriter::with_capacity(1 << 20, &mut file);
    write(&mut out).and_then(|()| out.flush())?;
    drop(out);
    Ok(file)
}

/// Writes a file of these bytes as [`write_whole`] does.
///
/// # Errors
/// Those of [`unwritten`].
pub fn write_bytes(path: &Path, flag: &str, bytes: &[u8]) -> Result<(), Failure> {
    write_whole(path, |out| out.write_all(bytes)).map_err(|e| unwritten(path, flag, &e))
}

/// The failure of a file that cannot be written: exit 75 on a full disk, else 2.
pub fn unwritten(path: &Path, flag: &str, error: &io::Error) -> Failure {
    Failure::storage(error, format!("{}: cannot be written: {error}", path.display()))
        .field(flag)
        .hint("name a file in a folder that exists and that you can write to, on a disk with room")
}

fn file_only(found: FileType) -> io::Result<()> {
    match kind(found) {
        None => Ok(()),
        Some(kind) => Err(io::Error::other(format!(
            "it is {kind}, which is not replaced, and no result is written into it"
        ))),
    }
}

/// The name of what is there, unless it is a plain file.
pub fn kind(found: FileType) -> Option<&'static str> {
    match found {
        _ if found.is_file() => None,
        _ if found.is_dir() => Some("a folder"),
        _ if found.is_symlink() => Some("a link"),
        _ if found.is_fifo() => Some("a pipe"),
        _ if found.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

/// The folder of a path; "." where it names none.
pub fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// A path with something added to its last name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The extension of a file's name, in lower case.
pub fn extension_of(path: &Path) -> Option<String> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.map(str::to_ascii_lowercase)
}

/// Extensions of the formats that this program writes.
const EXTENSIONS: [&str; 6] = ["npy", "csv", "json", "safetensors", "svg", "toml"];

/// Refuses a name whose extension is that of another format than the one written; names without an
/// extension of ours say nothing.
///
/// # Errors
/// It ends in another of [`EXTENSIONS`] (exit 2).
pub fn check_named(path: &Path, flag: &str, (what, format): (&str, &str)) -> Result<(), Failure> {
    match extension_of(path) {
        Some(extension) if extension != format && EXTENSIONS.contains(&extension.as_str()) => {
            Err(misnamed(path, flag, (what, format)))
        }
        _ => Ok(()),
    }
}

/// The failure (exit 2) of a name that does not end as its format does.
pub fn misnamed(path: &Path, flag: &str, (what, format): (&str, &str)) -> Failure {
    Failure::usage(format!("{}: {what} is written as .{format}", path.display()))
        .field(flag)
        .hint(format!("write {flag} {}", path.with_extension(format).display()))
}

/// Refuses that two files are one, of which at least the later is written: `read` and `written`
/// each with the flag that names it.
///
/// # Errors
/// A file that is written is named twice (exit 2).
pub fn apart<'a>(
    read: impl IntoIterator<Item = (&'a Path, &'a str)>,
    written: impl IntoIterator<Item = (&'a Path, &'a str)>,
) -> Result<(), Failure> {
    let mut known: Vec<(PathBuf, &str)> = read.into_iter().map(|(path, flag)| (same(path), flag)).collect();
    for (path, flag) in written {
        let place = same(path);
        if let Some((_, other)) = known.iter().find(|(known, _)| *known == place) {
            return Err(Failure::usage(format!(
                "{}: {flag} would be written over what {other} names",
                path.display()
            ))
            .field(flag)
            .hint("name a file of its own"));
        }
        known.push((place, flag));
    }
    Ok(())
}

/// A path by which one file is known, whatever links lead to it.
fn same(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| {
        let folder = fs::canonicalize(folder_of(path)).unwrap_or_else(|_| folder_of(path).to_owned());
        folder.join(path.file_name().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests;
