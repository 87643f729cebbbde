//! `.npy` of f32 or f64, any shape, either order; as numpy's `format` module describes it.

use std::io::{self, BufReader, Read, Write};

use thiserror::Error;

use crate::vector_file::layout::{Dtype, Layout};
use crate::vector_file::unusable::UnusableFile;
use crate::vector_file::vector::{VectorFile, to_f32};

/// A header longer than this is not one of a plain array.
const LONGEST_HEADER: u32 = 1 << 16;

/// Values begin at a multiple of this.
const ALIGNED: usize = 64;

const AS_NUMPY_SAVES: &str = "it must be a .npy file as numpy.save writes it";
const AGAIN: &str = "write or copy it again";

pub(super) fn read(mut file: impl Read, bytes: u64) -> Result<VectorFile, UnusableFile> {
    let header = Header::read(&mut file).map_err(|e| {
        let hint = match e {
            HeaderError::Dtype(_) => "convert it: numpy.save(path, vector.astype('float64')) or 'float32'",
            HeaderError::TooLarge => AGAIN,
            _ => AS_NUMPY_SAVES,
        };
        UnusableFile::new(e.to_string(), hint)
    })?;
    let shape = header.shape;
    // What the header announces must be there before anything is allocated for it.
    let count: usize = shape.iter().product();
    let needed = count as u64 * header.width as u64;
    if needed == 0 {
        return Err(UnusableFile::new(
            format!("shape {shape:?} has no coordinates"),
            "at least one row and one coordinate are needed",
        ));
    }
    if needed > bytes {
        let what =
            format!("truncated: its header announces {needed} bytes of data, the file has {bytes} in all");
        return Err(UnusableFile::new(what, AGAIN));
    }
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let mut word = [0u8; 8];
        let word = &mut word[..header.width];
        file.read_exact(word)
            .map_err(|e| UnusableFile::new(format!("truncated: {e}"), AGAIN))?;
        if header.big_endian {
            word.reverse();
        }
        values.push(match *word {
            [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => unreachable!("a word has four bytes or eight"),
        });
    }
    Ok(VectorFile {
        values: match header.fortran {
            true => to_c_order(values, &shape),
            false => values,
        },
        layout: Layout::npy(shape, if header.width == 4 { Dtype::F32 } else { Dtype::F64 }),
    })
}

/// The reasons why a header is not that of a plain array.
#[derive(Debug, Error)]
enum HeaderError {
    #[error("truncated: it ends within its header")]
    Truncated,
    #[error("not a .npy file (its first bytes are not \\x93NUMPY)")]
    Magic,
    #[error("version {0} of the .npy format is not known")]
    Version(u8),
    #[error("its header of {0} bytes is longer than that of any plain array")]
    TooLong(u32),
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("not a .npy file (its header has no {0})")]
    Missing(&'static str),
    #[error("its header has an axis of length {0}")]
    Axis(String),
    #[error("its shape is larger than any memory")]
    TooLarge,
    /// An element type that is no f32 or f64, by its own name.
    #[error("dtype {0} cannot be averaged")]
    Dtype(String),
}

/// The header that stands before the values.
struct Header {
    shape: Vec<usize>,
    /// Bytes of a value.
    width: usize,
    big_endian: bool,
    /// Whether the first axis is the one that runs fastest.
    fortran: bool,
}

impl Header {
    /// Reads up to the first value. The magic and the length come before anything is allocated for
    /// the rest.
    fn read(file: &mut impl Read) -> Result<Self, HeaderError> {
        let mut start = [0u8; 12];
        let cut = |_| HeaderError::Truncated;
        file.read_exact(&mut start[..10]).map_err(cut)?;
        if &start[..6] != b"\x93NUMPY" {
            return Err(HeaderError::Magic);
        }
        let length = match start[6] {
            1 => u32::from(u16::from_le_bytes([start[8], start[9]])),
            2 | 3 => {
                file.read_exact(&mut start[10..]).map_err(cut)?;
                u32::from_le_bytes([start[8], start[9], start[10], start[11]])
            }
            version => return Err(HeaderError::Version(version)),
        };
        if length > LONGEST_HEADER {
            return Err(HeaderError::TooLong(length));
        }
        let mut header = String::new();
        file.take(length.into()).read_to_string(&mut header)?;
        if header.len() < length as usize {
            return Err(HeaderError::Truncated);
        }
        let (width, big_endian) = dtype(value_of(&header, "descr")?)?;
        Ok(Header {
            shape: axes(value_of(&header, "shape")?)?,
            width,
            big_endian,
            fortran: value_of(&header, "fortran_order")?.starts_with("True"),
        })
    }
}

/// Returns the text that follows a key of the header, which is a literal of a Python dictionary.
fn value_of<'a>(header: &'a str, key: &'static str) -> Result<&'a str, HeaderError> {
    let rest = ['\'', '"'].iter().find_map(|quote| {
        let (_, rest) = header.split_once(&format!("{quote}{key}{quote}"))?;
        rest.trim_start().strip_prefix(':')
    });
    rest.map(str::trim_start).ok_or(HeaderError::Missing(key))
}

/// Bytes of a value, and whether the first is the most significant one.
fn dtype(text: &str) -> Result<(usize, bool), HeaderError> {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'));
    let name = quote.and_then(|quote| text[1..].split_once(quote));
    match name.map(|(name, _)| name) {
        Some("<f4" | "=f4") => Ok((4, false)),
        Some("<f8" | "=f8") => Ok((8, false)),
        Some(">f4") => Ok((4, true)),
        Some(">f8") => Ok((8, true)),
        Some(other) => Err(HeaderError::Dtype(other.to_owned())),
        // Records: a list of names and types.
        None => Err(HeaderError::Dtype(
            text.split("'fortran_order'")
                .next()
                .unwrap_or(text)
                .trim_end_matches([',', ' '])
                .to_owned(),
        )),
    }
}

/// The lengths of all axes, whose product is below 2^60.
fn axes(text: &str) -> Result<Vec<usize>, HeaderError> {
    let inside = text.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (axes, _) = inside.ok_or(HeaderError::Missing("shape"))?;
    let mut total = 1u64;
    let mut shape = vec![];
    for axis in axes.split(',').map(str::trim).filter(|axis| !axis.is_empty()) {
        let length: u64 = axis.parse().map_err(|_| HeaderError::Axis(axis.to_owned()))?;
        total = total
            .checked_mul(length.max(1))
            .filter(|&n| n < 1 << 60)
            .ok_or(HeaderError::TooLarge)?;
        shape.push(usize::try_from(length).map_err(|_| HeaderError::TooLarge)?);
    }
    Ok(shape)
}

fn to_c_order(values: Vec<f64>, shape: &[usize]) -> Vec<f64> {
    use ndarray::{ArrayD, IxDyn, ShapeBuilder};
    let array = ArrayD::from_shape_vec(IxDyn(shape).f(), values).expect("the header's shape gave the length");
    array.iter().copied().collect()
}

/// f32 if that is the dtype, else f64.
pub(super) fn write(mut out: impl Write, shape: &[usize], dtype: Dtype, values: &[f64]) -> io::Result<()> {
    let descr = if dtype == Dtype::F32 { "<f4" } else { "<f8" };
    let axes: Vec<String> = shape.iter().map(usize::to_string).collect();
    // A tuple of one needs its comma.
    let comma = if axes.len() == 1 { "," } else { "" };
    let axes = axes.join(", ");
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}{comma}), }}");
    let end = (10 + header.len() + 1).next_multiple_of(ALIGNED);
    header += &" ".repeat(end - 10 - 1 - header.len());
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(io::Error::other)?;
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    for &value in values {
        match dtype {
            Dtype::F32 => out.write_all(&to_f32(value).to_le_bytes())?,
            _ => out.write_all(&value.to_le_bytes())?,
        }
    }
    out.flush()
}
