//! Reading and writing in any of the formats, told apart by the file's extension.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::telling::failure::Failure;
use crate::vector_file::layout::{Format, Layout};
use crate::vector_file::unusable::UnusableFile;
use crate::vector_file::vector::VectorFile;
use crate::vector_file::{csv, json, npy, safetensors};

/// Extensions of files that can be read.
pub const EXTENSIONS: [&str; 4] = ["npy", "csv", "json", "safetensors"];

const FORMATS: &str = "save it as .npy (numpy.save(path, vector)), .csv, .json or .safetensors";

/// What PyTorch pickles may run any program when it is read.
const OF_TORCH: &str =
    "save it as .safetensors: safetensors.torch.save_file(model.state_dict(), \"model.safetensors\")";

/// Reads a `.npy`, `.csv`, `.json` or `.safetensors`; there is at least one coordinate, and all are
/// finite. Allocates no more than a small multiple of what is really in the file, whatever its
/// header says.
pub fn read(path: &Path) -> Result<VectorFile, Failure> {
    let file = read_rows(path)?;
    check_finite(&file).map_err(|problem| refused(path, problem))?;
    Ok(file)
}

/// Reads a file as [`read`] does, but takes numbers that are not finite from a `.npy` or a
/// `.safetensors`: a row with one of them is for clipping to judge.
pub fn read_rows(path: &Path) -> Result<VectorFile, Failure> {
    let refused = |problem| refused(path, problem);
    let extension = extension_of(path);
    let reader = match extension.as_deref() {
        Some("npy") => npy::read,
        Some("csv") => csv::read,
        Some("json") => json::read,
        Some("safetensors") => safetensors::read,
        _ => {
            let found = extension
                .as_ref()
                .map_or("no extension".to_owned(), |e| format!(".{e}"));
            let hint = match extension.as_deref() {
                Some("pt" | "pth" | "bin" | "ckpt") => OF_TORCH,
                _ => FORMATS,
            };
            return Err(refused(UnusableFile::new(
                format!("{found} is not a format that can be read"),
                hint,
            )));
        }
    };
    let unreadable = |e: std::io::Error| {
        refused(UnusableFile::new(
            format!("cannot be opened: {e}"),
            "name a file that exists and that you can read",
        ))
    };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(refused(UnusableFile::new("it is a folder", FORMATS)));
    }
    if metadata.len() == 0 {
        return Err(refused(UnusableFile::new("the file is empty", FORMATS)));
    }
    reader(file, metadata.len()).map_err(refused)
}

fn refused(path: &Path, problem: UnusableFile) -> Failure {
    Failure::input(format!("{}: {}", path.display(), problem.what))
        .field(path.display())
        .hint(problem.hint)
}

/// Refuses numbers that are not finite, and says where the first stands.
pub(super) fn check_finite(file: &VectorFile) -> Result<(), UnusableFile> {
    let Some(index) = file.values.iter().position(|value| !value.is_finite()) else {
        return Ok(());
    };
    let place = match &file.layout.format {
        Format::Safetensors { tensors, .. } => {
            let mut first = index;
            let tensor = tensors.iter().find(|tensor| {
                let own = first < tensor.len();
                first -= if own { 0 } else { tensor.len() };
                own
            });
            let name = tensor.map_or("", |tensor| &tensor.name);
            format!("coordinate {first} of tensor {name:?}")
        }
        _ => format!("coordinate {index}"),
    };
    Err(UnusableFile::not_finite(place, file.values[index]))
}

/// Refuses numbers that are not finite.
///
/// # Errors
/// Where the first stands; its value is not told.
pub fn finite(file: &VectorFile) -> Result<(), String> {
    check_finite(file).map_err(|problem| problem.what)
}

/// Reads the bytes of a `.npy` or of a `.safetensors` as [`read`] does a file.
///
/// # Errors
/// Why they are none that can be used; no value is told.
pub fn of_bytes(bytes: Vec<u8>) -> Result<VectorFile, String> {
    let file = rows_of_bytes(bytes)?;
    finite(&file)?;
    Ok(file)
}

/// Reads the bytes of a `.npy` or of a `.safetensors`, which begins with its header's length and a
/// bracket, as [`read_rows`] does a file.
///
/// # Errors
/// Why they are none that can be used; no value is told.
pub fn rows_of_bytes(bytes: Vec<u8>) -> Result<VectorFile, String> {
    let length = bytes.len() as u64;
    let of_numpy = bytes.starts_with(b"\x93NUMPY");
    let read = match bytes.get(8) {
        Some(b'{') if !of_numpy => safetensors::of_bytes(&bytes),
        _ => npy::read(std::io::Cursor::new(bytes), length),
    };
    read.map_err(|problem| problem.what)
}

fn extension_of(path: &Path) -> Option<String> {
    let extension = path.extension().and_then(|e| e.to_str());
    extension.map(str::to_ascii_lowercase)
}

/// Whether the file's extension is one of those that can be read.
pub fn can_be_read(path: &Path) -> bool {
    extension_of(path).is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()))
}

/// Writes values in C order with a layout. The file appears whole or not at all.
pub fn write(path: &Path, layout: &Layout, values: &[f64]) -> Result<(), Failure> {
    write_whole(path, |out| write_to(out, layout, values)).map_err(|e| {
        Failure::storage(&e, format!("{}: cannot be written: {e}", path.display()))
            .field(path.display())
            .hint("choose another --output, or make room")
    })
}

/// Writes a file for everybody to read; it appears whole or not at all, and is on disk when this
/// returns.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let mut out = BufWriter::with_capacity(1 << 20, file.as_file_mut());
    write(&mut out).and_then(|()| out.flush())?;
    drop(out);
    readable(file.as_file())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Returns the SHA-256, in lower-case hex, of what `write` writes.
///
/// # Errors
/// Those of `write`.
pub fn sha256_of(write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut out = BufWriter::with_capacity(1 << 16, &mut hash);
    write(&mut out).and_then(|()| out.flush())?;
    drop(out);
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the SHA-256, in lower-case hex, of a file's bytes.
///
/// # Errors
/// A file that cannot be read.
pub fn sha256_of_file(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    sha256_of(|mut out| std::io::copy(&mut file, &mut out).map(drop))
}

/// A result is public: readable like any file that a program writes, not just by its owner like a
/// temporary file.
fn readable(file: &File) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// Writes values in C order with a layout, to anything.
pub(crate) fn write_to(out: impl Write, layout: &Layout, values: &[f64]) -> std::io::Result<()> {
    match &layout.format {
        Format::Npy(dtype) => npy::write(out, &layout.shape, *dtype, values),
        Format::Csv { header } => csv::write(out, header.as_deref(), &layout.shape, values),
        Format::Json => json::write(out, &layout.shape, values),
        Format::Safetensors {
            tensors,
            metadata,
            carried,
        } => safetensors::write(out, (tensors, carried), metadata, values),
    }
}

#[cfg(test)]
mod tests;
