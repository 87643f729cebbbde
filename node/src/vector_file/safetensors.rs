//! `.safetensors`: all tensors of a model as one vector, ordered by name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};

use half::{bf16, f16};
use safetensors::tensor::{Dtype as FileDtype, TensorView};
use safetensors::{SafeTensors, serialize};

use crate::vector_file::carried::{CarriedTensor, is_whole};
use crate::vector_file::layout::{Dtype, Format, Layout, Tensor};
use crate::vector_file::unusable::UnusableFile;
use crate::vector_file::vector::{VectorFile, to_f32};

pub(super) fn read(mut file: File) -> Result<VectorFile, UnusableFile> {
    // Grows with what is really there.
    let mut bytes = vec![];
    file.read_to_end(&mut bytes)
        .map_err(|e| UnusableFile::new(format!("cannot be read: {e}"), "copy it again"))?;
    of_bytes(&bytes)
}

/// Reads the bytes of a file.
pub(super) fn of_bytes(bytes: &[u8]) -> Result<VectorFile, UnusableFile> {
    let unusable = |e| UnusableFile::new(format!("not a .safetensors file: {e}"), "write or copy it again");
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(unusable)?;
    let metadata: BTreeMap<String, String> = header
        .metadata()
        .clone()
        .unwrap_or_default()
        .into_iter()
        .collect();
    let file = SafeTensors::deserialize(bytes).map_err(unusable)?;
    let mut views = file.tensors();
    // Files of different writers order their data differently; names are the same everywhere.
    views.sort_by(|a, b| a.0.cmp(&b.0));
    let (mut tensors, mut carried, mut values) = (vec![], vec![], vec![]);
    for (name, view) in views {
        if is_whole(view.dtype()) {
            carried.push(CarriedTensor {
                name,
                dtype: view.dtype(),
                shape: view.shape().to_vec(),
                bytes: view.data().into(),
            });
            continue;
        }
        let dtype = dtype_of(view.dtype()).ok_or_else(|| {
            let what = format!(
                "tensor {name:?} has dtype {:?}, which cannot be averaged",
                view.dtype()
            );
            UnusableFile::new(
                what,
                "leave it out, or convert it to F32, F16, BF16 or F64: tensor.float()",
            )
        })?;
        extend(&mut values, dtype, view.data());
        tensors.push(Tensor {
            name,
            shape: view.shape().to_vec(),
            dtype,
        });
    }
    if values.is_empty() {
        return Err(without_coordinates(carried.first()));
    }
    Ok(VectorFile {
        layout: Layout {
            shape: vec![values.len()],
            format: Format::Safetensors {
                tensors,
                metadata,
                carried,
            },
        },
        values,
    })
}

fn without_coordinates(whole: Option<&CarriedTensor>) -> UnusableFile {
    match whole {
        Some(whole) => UnusableFile::new(
            format!(
                "it has no tensor with coordinates but of whole numbers, such as {:?}, which are not averaged",
                whole.name
            ),
            "convert what is to be averaged to F32, F16, BF16 or F64: tensor.float()",
        ),
        None => UnusableFile::new(
            "it has no tensor with coordinates",
            "at least one coordinate is needed",
        ),
    }
}

fn dtype_of(dtype: FileDtype) -> Option<Dtype> {
    match dtype {
        FileDtype::F16 => Some(Dtype::F16),
        FileDtype::BF16 => Some(Dtype::Bf16),
        FileDtype::F32 => Some(Dtype::F32),
        FileDtype::F64 => Some(Dtype::F64),
        _ => None,
    }
}

fn dtype_in_file(dtype: Dtype) -> FileDtype {
    match dtype {
        Dtype::F16 => FileDtype::F16,
        Dtype::Bf16 => FileDtype::BF16,
        Dtype::F32 => FileDtype::F32,
        Dtype::F64 => FileDtype::F64,
    }
}

/// The bytes are whole numbers of elements: the library checked them against shape and dtype.
fn extend(values: &mut Vec<f64>, dtype: Dtype, data: &[u8]) {
    fn each<const N: usize>(data: &[u8]) -> impl Iterator<Item = [u8; N]> {
        data.chunks_exact(N)
            .map(|chunk| chunk.try_into().expect("chunks of N bytes"))
    }
    match dtype {
        Dtype::F16 => values.extend(each(data).map(|b| f16::from_le_bytes(b).to_f64())),
        Dtype::Bf16 => values.extend(each(data).map(|b| bf16::from_le_bytes(b).to_f64())),
        Dtype::F32 => values.extend(each(data).map(|b| f64::from(f32::from_le_bytes(b)))),
        Dtype::F64 => values.extend(each(data).map(f64::from_le_bytes)),
    }
}

/// The mean in each tensor's own dtype, rounded to the nearest that is finite, and what is carried
/// as it is.
pub(super) fn write(
    mut out: impl Write,
    (tensors, carried): (&[Tensor], &[CarriedTensor]),
    metadata: &BTreeMap<String, String>,
    values: &[f64],
) -> std::io::Result<()> {
    let mut rest = values;
    let mut data = vec![];
    for tensor in tensors {
        let (own, others) = rest.split_at(tensor.len());
        rest = others;
        data.push(encode(tensor.dtype, own));
    }
    let views: Vec<_> = tensors
        .iter()
        .zip(&data)
        .map(|(tensor, data)| {
            let dtype = dtype_in_file(tensor.dtype);
            view(&tensor.name, (dtype, &tensor.shape), data)
        })
        .chain(carried.iter().map(|tensor| {
            let shaped = (tensor.dtype, &tensor.shape[..]);
            view(&tensor.name, shaped, &tensor.bytes)
        }))
        .collect::<std::io::Result<_>>()?;
    let bytes = serialize(views, None).map_err(std::io::Error::other)?;
    let bytes = match metadata.is_empty() {
        true => bytes,
        false => with_metadata(&bytes, metadata)?,
    };
    out.write_all(&bytes)
}

/// Bytes of a file with this free text in its header, ordered by key: the library has it in an
/// order that differs from one process to the next.
fn with_metadata(bytes: &[u8], metadata: &BTreeMap<String, String>) -> std::io::Result<Vec<u8>> {
    const LENGTH: usize = size_of::<u64>();
    let (length, rest) = bytes.split_first_chunk::<LENGTH>().expect("a header's length");
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let mut text = serde_json::to_vec(metadata).map_err(std::io::Error::other)?;
    text.splice(0..0, br#"{"__metadata__":"#.iter().copied());
    // There is at least one tensor.
    text.push(b',');
    text.extend(header[1..].trim_ascii_end());
    text.resize(text.len().next_multiple_of(LENGTH), b' ');
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.append(&mut text);
    file.extend(data);
    Ok(file)
}

fn view<'a>(
    name: &str,
    (dtype, shape): (FileDtype, &[usize]),
    data: &'a [u8],
) -> std::io::Result<(String, TensorView<'a>)> {
    let view = TensorView::new(dtype, shape.to_vec(), data).map_err(std::io::Error::other)?;
    Ok((name.to_owned(), view))
}

fn encode(dtype: Dtype, values: &[f64]) -> Vec<u8> {
    let clamped = |v: f64, most: f64| v.clamp(-most, most);
    match dtype {
        Dtype::F16 => values
            .iter()
            .flat_map(|&v| f16::from_f64(clamped(v, f16::MAX.to_f64())).to_le_bytes())
            .collect(),
        Dtype::Bf16 => values
            .iter()
            .flat_map(|&v| bf16::from_f64(clamped(v, bf16::MAX.to_f64())).to_le_bytes())
            .collect(),
        Dtype::F32 => values.iter().flat_map(|&v| to_f32(v).to_le_bytes()).collect(),
        Dtype::F64 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    }
}
