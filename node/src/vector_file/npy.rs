//! `.npy` of f32 or f64, any shape, either order.

use std::io::{BufReader, Read, Seek, Write};

use npyz::{DType, NpyFile, Order, TypeChar, WriterBuilder};
use thiserror::Error;

use crate::vector_file::layout::{Dtype, Layout};
use crate::vector_file::unusable::UnusableFile;
use crate::vector_file::vector::{VectorFile, to_f32};

/// A header longer than this is not one of a plain array.
const LONGEST_HEADER: u32 = 1 << 16;

const AS_NUMPY_SAVES: &str = "it must be a .npy file as numpy.save writes it";
const AGAIN: &str = "write or copy it again";

pub(super) fn read(mut file: impl Read + Seek, bytes: u64) -> Result<VectorFile, UnusableFile> {
    check_header(&mut file).map_err(|e| UnusableFile::new(e.to_string(), AS_NUMPY_SAVES))?;
    let npy = NpyFile::new(BufReader::with_capacity(1 << 20, file))
        .map_err(|e| UnusableFile::new(format!("not a .npy file: {e}"), AS_NUMPY_SAVES))?;
    let dtype = dtype_of(&npy.dtype()).map_err(|other| {
        UnusableFile::new(
            other.to_string(),
            "convert it: numpy.save(path, vector.astype('float64')) or 'float32'",
        )
    })?;
    // What the header announces must be there before anything is allocated for it.
    let shape: Option<Vec<usize>> = npy.shape().iter().map(|&n| usize::try_from(n).ok()).collect();
    let size = if dtype == Dtype::F32 { 4 } else { 8 };
    let needed = npy
        .shape()
        .iter()
        .try_fold(size, |total: u64, &n| total.checked_mul(n));
    let (Some(shape), Some(needed)) = (shape, needed) else {
        return Err(UnusableFile::new("its shape is larger than any memory", AGAIN));
    };
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
    // Values as 64-bit floats in C order.
    let fortran = npy.order() == Order::Fortran;
    let values: Vec<f64> = match dtype {
        Dtype::F32 => npy
            .into_vec::<f32>()
            .map(|v| v.into_iter().map(f64::from).collect()),
        _ => npy.into_vec::<f64>(),
    }
    .map_err(|e| UnusableFile::new(format!("truncated: {e}"), AGAIN))?;
    let values = if fortran {
        to_c_order(values, &shape)
    } else {
        values
    };
    Ok(VectorFile {
        layout: Layout::npy(shape, dtype),
        values,
    })
}

/// Why a header is not that of a plain array.
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
    Unreadable(#[from] std::io::Error),
    #[error("not a .npy file (its header has no shape)")]
    NoShape,
    #[error("its header has an axis of length {0}")]
    Axis(String),
    #[error("its shape is larger than any memory")]
    TooLarge,
}

/// An element type that is no f32 or f64, by its own name.
#[derive(Debug, Error)]
#[error("dtype {0} cannot be averaged")]
struct OtherDtype(String);

/// The magic and the header's length, before anything is allocated for it.
fn check_header(file: &mut (impl Read + Seek)) -> Result<(), HeaderError> {
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
    (&mut *file).take(length.into()).read_to_string(&mut header)?;
    if header.len() < length as usize {
        return Err(HeaderError::Truncated);
    }
    check_shape(&header)?;
    Ok(file.rewind()?)
}

/// The reader multiplies the axes without a check; a product beyond 2^60 must not reach it.
fn check_shape(header: &str) -> Result<(), HeaderError> {
    let axes = header
        .split_once("shape")
        .and_then(|(_, rest)| rest.split_once('('))
        .and_then(|(_, rest)| rest.split_once(')'));
    let Some((axes, _)) = axes else {
        return Err(HeaderError::NoShape);
    };
    let mut total = 1u64;
    for axis in axes.split(',').map(str::trim).filter(|axis| !axis.is_empty()) {
        let length: u64 = axis.parse().map_err(|_| HeaderError::Axis(axis.to_owned()))?;
        total = total
            .checked_mul(length.max(1))
            .filter(|&n| n < 1 << 60)
            .ok_or(HeaderError::TooLarge)?;
    }
    Ok(())
}

fn dtype_of(dtype: &DType) -> Result<Dtype, OtherDtype> {
    match dtype {
        DType::Plain(text) => match (text.type_char(), text.size_field()) {
            (TypeChar::Float, 4) => Ok(Dtype::F32),
            (TypeChar::Float, 8) => Ok(Dtype::F64),
            _ => Err(OtherDtype(text.to_string())),
        },
        other => Err(OtherDtype(other.descr())),
    }
}

fn to_c_order(values: Vec<f64>, shape: &[usize]) -> Vec<f64> {
    use ndarray::{ArrayD, IxDyn, ShapeBuilder};
    let array = ArrayD::from_shape_vec(IxDyn(shape).f(), values).expect("the header's shape gave the length");
    array.iter().copied().collect()
}

/// f32 if that is the dtype, else f64.
pub(super) fn write(out: impl Write, shape: &[usize], dtype: Dtype, values: &[f64]) -> std::io::Result<()> {
    let shape: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
    if dtype == Dtype::F32 {
        let mut writer = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&shape)
            .writer(out)
            .begin_nd()?;
        writer.extend(values.iter().map(|&v| to_f32(v)))?;
        return writer.finish();
    }
    let mut writer = npyz::WriteOptions::new()
        .default_dtype()
        .shape(&shape)
        .writer(out)
        .begin_nd()?;
    writer.extend(values.iter().copied())?;
    writer.finish()
}
