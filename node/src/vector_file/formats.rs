//! Reading and writing in any of the formats, by the file's extension.

use std::io::{BufWriter, Read, Seek, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::reporting::failure::Failure;
use crate::reporting::input_file;
use crate::reporting::output_file::{self, extension_of};
use crate::vector_file::expected::Expected;
use crate::vector_file::layout::{Format, Layout};
use crate::vector_file::unusable::UnusableFile;
use crate::vector_file::vector::VectorFile;
use crate::vector_file::{csv, foreign, json, npy, safetensors};

/// Extensions of files that can be read.
pub const EXTENSIONS: [&str; 4] = ["npy", "csv", "json", "safetensors"];

/// The media types of these files, in the same order. Those of the first and the last are not
/// registered.
pub const MEDIA_TYPES: [&str; 4] = [NPY, "text/csv", JSON, SAFETENSORS];
/// The media type of a `.npy`.
pub const NPY: &str = "application/x-npy";
/// The media type of a `.json`.
pub const JSON: &str = "application/json";
/// The media type of a `.safetensors`.
pub const SAFETENSORS: &str = "application/x-safetensors";

/// The media type of files with this extension, if they can be read.
pub fn media_type(extension: &str) -> Option<&'static str> {
    let found = EXTENSIONS.iter().position(|known| *known == extension)?;
    Some(MEDIA_TYPES[found])
}

const OPENED: &str = "name a file that exists and that you can read";

/// Reads a file of which nothing is known, as [`read_as`] does.
pub fn read(path: &Path) -> Result<VectorFile, Failure> {
    read_as(path, Expected::default())
}

/// Reads a `.npy`, `.csv`, `.json` or `.safetensors`; there is at least one coordinate, and all are
/// finite. Allocates no more than a small multiple of what is really in the file, whatever its
/// header says.
///
/// # Errors
/// It is none of these, or cannot be used (exit 7); no value is reported.
pub fn read_as(path: &Path, expected: Expected<'_>) -> Result<VectorFile, Failure> {
    let file = read_rows(path, expected)?;
    check_finite(&file).map_err(|problem| refused(path, problem))?;
    Ok(file)
}

/// Reads a file as [`read_as`] does, but takes numbers that are not finite from a `.npy` or a
/// `.safetensors`: a row with one of them is for clipping to judge.
///
/// # Errors
/// Those of [`read_as`].
pub fn read_rows(path: &Path, expected: Expected<'_>) -> Result<VectorFile, Failure> {
    let refused = |problem| refused(path, problem);
    let extension = extension_of(path).unwrap_or_default();
    if !EXTENSIONS.contains(&extension.as_str()) {
        let found = Some(extension.as_str()).filter(|extension| !extension.is_empty());
        return Err(refused(foreign::of_extension(found)));
    }
    let unreadable = |e: std::io::Error| refused(UnusableFile::new(format!("cannot be opened: {e}"), OPENED));
    // Nobody waits for whoever would write into a pipe.
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if let Some(kind) = output_file::kind(found.file_type()) {
        return Err(refused(UnusableFile::new(
            format!("it is {kind}"),
            "name a plain file; what comes by a pipe has to be saved first",
        )));
    }
    if found.len() == 0 {
        return Err(refused(UnusableFile::new(
            "the file is empty",
            "save the data again",
        )));
    }
    let mut file = input_file::open(path).map_err(unreadable)?;
    let mut start = vec![];
    (&mut file)
        .take(foreign::START as u64)
        .read_to_end(&mut start)
        .and_then(|_| file.rewind())
        .map_err(unreadable)?;
    if let Some((what, hint)) = foreign::of_start(&start, &extension) {
        return Err(refused(UnusableFile::new(what, hint)));
    }
    let read = match extension.as_str() {
        "npy" => npy::read(file, found.len()),
        "csv" => csv::read(file, expected),
        "json" => json::read(file),
        _ => safetensors::read(file),
    };
    read.map_err(refused)
}

/// How the bytes of a file that should be JSON or TOML become that, where they are of another kind.
pub fn hint_of_text(bytes: &[u8]) -> Option<&'static str> {
    let start = &bytes[..bytes.len().min(foreign::START)];
    foreign::of_start(start, "json").map(|(_, hint)| hint)
}

/// How a file of another extension becomes one that can be read.
pub fn hint_for(extension: &str) -> String {
    foreign::of_extension(Some(extension)).hint
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
/// Where the first stands; its value is not reported.
pub fn finite(file: &VectorFile) -> Result<(), String> {
    check_finite(file).map_err(|problem| problem.what)
}

/// Reads the bytes of a `.npy` or of a `.safetensors` as [`read`] does a file.
///
/// # Errors
/// Why they are none that can be used; no value is reported.
pub fn of_bytes(bytes: Vec<u8>) -> Result<VectorFile, String> {
    let file = rows_of_bytes(bytes)?;
    finite(&file)?;
    Ok(file)
}

/// Reads the bytes of a `.npy` or of a `.safetensors`, which begins with its header's length and a
/// bracket, as [`read_rows`] does a file.
///
/// # Errors
/// Why they are none that can be used; no value is reported.
pub fn rows_of_bytes(bytes: Vec<u8>) -> Result<VectorFile, String> {
    let length = bytes.len() as u64;
    let of_numpy = bytes.starts_with(b"\x93NUMPY");
    let read = match bytes.get(8) {
        Some(b'{') if !of_numpy => safetensors::of_bytes(&bytes),
        _ => npy::read(std::io::Cursor::new(bytes), length),
    };
    read.map_err(|problem| problem.what)
}

/// Whether the file's extension is one of those that can be read.
pub fn can_be_read(path: &Path) -> bool {
    extension_of(path).is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()))
}

/// Writes values in C order with a layout. The file appears whole or not at all.
pub fn write(path: &Path, layout: &Layout, values: &[f64]) -> Result<(), Failure> {
    output_file::write_whole(path, |out| write_to(out, layout, values))
        .map_err(|e| output_file::unwritten(path, "--output", &e))
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
    let mut file = input_file::open(path)?;
    sha256_of(|mut out| std::io::copy(&mut file, &mut out).map(drop))
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
