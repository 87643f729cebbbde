//! A party's data as a file, told apart by its extension: read with its shape, dtype and names, and the mean written in the same ones.

mod csv;
mod json;
mod npy;
mod safetensors;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::failure::{Exit, Failure};

/// The element type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 2 bytes, IEEE half precision.
    F16,
    /// 2 bytes, the upper half of an f32.
    Bf16,
    /// 4 bytes.
    F32,
    /// 8 bytes.
    F64,
}

impl Dtype {
    /// numpy's name (bfloat16: PyTorch's).
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F16 => "float16",
            Dtype::Bf16 => "bfloat16",
            Dtype::F32 => "float32",
            Dtype::F64 => "float64",
        }
    }
}

/// A tensor of a model file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Unique in its file.
    pub name: String,
    /// Lengths of its axes; empty for a scalar.
    pub shape: Vec<usize>,
    /// Of its elements.
    pub dtype: Dtype,
}

impl Tensor {
    /// Coordinates. The reader checks that the product fits.
    fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// How numbers are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// numpy's `.npy`.
    Npy(Dtype),
    /// Comma-separated numbers.
    Csv {
        /// The names of its columns, if its first row has them.
        header: Option<Vec<String>>,
    },
    /// Nested arrays of numbers.
    Json,
    /// All tensors of a model as one vector, ordered by name (bytes of UTF-8), each in C order.
    Safetensors {
        /// In that order.
        tensors: Vec<Tensor>,
        /// The file's free text by key, such as format = "pt".
        metadata: BTreeMap<String, String>,
    },
}

impl Format {
    /// The extension of its files.
    pub fn extension(&self) -> &'static str {
        match self {
            Format::Npy(_) => "npy",
            Format::Csv { .. } => "csv",
            Format::Json => "json",
            Format::Safetensors { .. } => "safetensors",
        }
    }
}

/// What a file looks like, without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Lengths of the axes; empty for a scalar; `[rows, columns]` for a `.csv`; `[all coordinates]` for a `.safetensors`.
    pub shape: Vec<usize>,
    /// How it is written.
    pub format: Format,
}

impl Layout {
    /// Of a `.npy`.
    pub fn npy(shape: Vec<usize>, dtype: Dtype) -> Self {
        Layout {
            shape,
            format: Format::Npy(dtype),
        }
    }

    /// Coordinates.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shape as one vector: `[1]` for a scalar; a `.csv` of one row, or of one column, is a plain list of its numbers.
    pub fn vector_shape(&self) -> Vec<usize> {
        match (&self.format, self.shape.as_slice()) {
            (_, []) => vec![1],
            (Format::Csv { .. }, &[1, length] | &[length, 1]) => vec![length],
            (_, shape) => shape.to_vec(),
        }
    }

    /// As a matrix of records: their number, and the shape of one (`[1]` if each is one number). None for a scalar and for a model.
    pub fn records(&self) -> Option<(u64, Vec<usize>)> {
        let (&count, record) = self.shape.split_first()?;
        match self.format {
            Format::Safetensors { .. } => None,
            _ if record.is_empty() => Some((count as u64, vec![1])),
            _ => Some((count as u64, record.to_vec())),
        }
    }

    /// The same file with one record in place of its matrix: what the mean over records looks like.
    pub fn of_one_record(&self, record: &[usize]) -> Layout {
        Layout {
            shape: record.to_vec(),
            format: self.format.clone(),
        }
    }

    /// Bytes that a file of this layout takes, at most, but for what names and metadata are quoted with.
    pub fn written_bytes(&self) -> u64 {
        // The shortest text that gives back any f64 takes up to 24 characters, then a comma or a bracket.
        const CHARACTERS: usize = 26;
        let size = |dtype: Dtype| match dtype {
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 => 4,
            Dtype::F64 => 8,
        };
        let values = match &self.format {
            Format::Npy(dtype) => self.len().saturating_mul(size(*dtype)),
            Format::Csv { .. } | Format::Json => self.len().saturating_mul(CHARACTERS),
            Format::Safetensors { tensors, .. } => tensors.iter().fold(0usize, |sum, tensor| {
                sum.saturating_add(tensor.len().saturating_mul(size(tensor.dtype)) + 256)
            }),
        };
        values.saturating_add(4096) as u64
    }

    /// Names of columns, if the file has them.
    pub fn columns(&self) -> Option<&[String]> {
        match &self.format {
            Format::Csv { header } => header.as_deref(),
            _ => None,
        }
    }

    /// If this and another party's file cannot be averaged, what each of them is; `shapes` are those that must agree.
    pub fn mismatch(&self, other: &Layout, shapes: [&[usize]; 2]) -> Option<[String; 2]> {
        if let (Format::Safetensors { tensors: own, .. }, Format::Safetensors { tensors: others, .. }) =
            (&self.format, &other.format)
        {
            return tensor_mismatch(own, others);
        }
        let is_model = |layout: &Layout| matches!(layout.format, Format::Safetensors { .. });
        let dtype = |layout: &Layout| match layout.format {
            Format::Npy(dtype) => Some(dtype),
            _ => None,
        };
        if is_model(self) != is_model(other) || shapes[0] != shapes[1] {
            return Some(
                [(self, shapes[0]), (other, shapes[1])]
                    .map(|(layout, shape)| format!("{} of shape {shape:?}", layout.kind())),
            );
        }
        match (dtype(self), dtype(other), self.columns(), other.columns()) {
            (Some(one), Some(two), ..) if one != two => Some(
                [(one, shapes[0]), (two, shapes[1])]
                    .map(|(dtype, shape)| format!("{} of shape {shape:?}", dtype.name())),
            ),
            (.., Some(one), Some(two)) if one != two => {
                let at = one.iter().zip(two).position(|(a, b)| a != b).unwrap_or(0);
                Some([one, two].map(|names| format!("a table whose column {} is {:?}", at + 1, names[at])))
            }
            _ => None,
        }
    }

    fn kind(&self) -> &'static str {
        match &self.format {
            Format::Npy(dtype) => dtype.name(),
            Format::Csv { .. } => "a .csv",
            Format::Json => "a .json",
            Format::Safetensors { .. } => "a .safetensors",
        }
    }
}

fn tensor_mismatch(own: &[Tensor], others: &[Tensor]) -> Option<[String; 2]> {
    let say = |tensor: &Tensor| {
        format!(
            "a model whose tensor {:?} is {} of shape {:?}",
            tensor.name,
            tensor.dtype.name(),
            tensor.shape
        )
    };
    for pair in own.iter().zip(others) {
        if pair.0 != pair.1 {
            return Some([say(pair.0), say(pair.1)]);
        }
    }
    let count = |tensors: &[Tensor]| format!("a model of {} tensors", tensors.len());
    (own.len() != others.len()).then(|| [count(own), count(others)])
}

/// Private data with its layout. No `Debug` prints its values.
#[derive(Clone)]
pub struct VectorFile {
    /// What it looks like.
    pub layout: Layout,
    /// Its values in C order, all finite.
    pub values: Vec<f64>,
}

impl fmt::Debug for VectorFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VectorFile({:?})", self.layout)
    }
}

/// What is wrong with a file, and what to do; never a value of it.
#[derive(Debug)]
struct Problem {
    what: String,
    hint: String,
}

impl Problem {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Problem {
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// A number that has no mean; `place` is where it stands.
    fn not_finite(place: impl fmt::Display, value: f64) -> Self {
        let what = if value.is_nan() {
            "not a number (NaN)"
        } else {
            "infinite"
        };
        Problem::new(
            format!("{place} is {what}"),
            "replace or drop such numbers before averaging",
        )
    }
}

/// Extensions of files that can be read.
pub const EXTENSIONS: [&str; 4] = ["npy", "csv", "json", "safetensors"];

const FORMATS: &str = "save it as .npy (numpy.save(path, vector)), .csv, .json or .safetensors";

/// Reads a `.npy`, `.csv`, `.json` or `.safetensors`; there is at least one coordinate, and all are finite. Allocates no more than a small
/// multiple of what is really in the file, whatever its header says.
pub fn read(path: &Path) -> Result<VectorFile, Failure> {
    let refused = |problem: Problem| {
        Failure::input(format!("{}: {}", path.display(), problem.what))
            .field(path.display())
            .hint(problem.hint)
    };
    let extension = path
        .extension()
        .and_then(|e| e.to_str())
        .map(str::to_ascii_lowercase);
    let reader = match extension.as_deref() {
        Some("npy") => npy::read,
        Some("csv") => csv::read,
        Some("json") => json::read,
        Some("safetensors") => safetensors::read,
        _ => {
            let found = extension.map_or("no extension".to_owned(), |e| format!(".{e}"));
            return Err(refused(Problem::new(
                format!("{found} is not a format that can be read"),
                FORMATS,
            )));
        }
    };
    let unreadable = |e: std::io::Error| {
        refused(Problem::new(
            format!("cannot be opened: {e}"),
            "name a file that exists and that you can read",
        ))
    };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(refused(Problem::new("it is a folder", FORMATS)));
    }
    if metadata.len() == 0 {
        return Err(refused(Problem::new("the file is empty", FORMATS)));
    }
    reader(file, metadata.len()).map_err(refused)
}

/// Writes values in C order with a layout. The file appears whole or not at all.
pub fn write(path: &Path, layout: &Layout, values: &[f64]) -> Result<(), Failure> {
    let refused = |e: std::io::Error| {
        Failure::new(Exit::Usage, format!("{}: cannot be written: {e}", path.display()))
            .field(path.display())
            .hint("choose another --output, or make room")
    };
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(refused)?;
    let mut out = BufWriter::with_capacity(1 << 20, file.as_file_mut());
    write_to(&mut out, layout, values)
        .and_then(|()| out.flush())
        .map_err(refused)?;
    drop(out);
    file.as_file().sync_all().map_err(refused)?;
    readable(file.as_file()).map_err(refused)?;
    file.persist(path).map_err(|e| refused(e.error))?;
    Ok(())
}

/// A result is public: readable like any file that a program writes, not just by its owner like a temporary file.
fn readable(file: &File) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// Writes them to anything.
pub(crate) fn write_to(out: impl Write, layout: &Layout, values: &[f64]) -> std::io::Result<()> {
    match &layout.format {
        Format::Npy(dtype) => npy::write(out, &layout.shape, *dtype, values),
        Format::Csv { header } => csv::write(out, header.as_deref(), &layout.shape, values),
        Format::Json => json::write(out, &layout.shape, values),
        Format::Safetensors { tensors, metadata } => safetensors::write(out, tensors, metadata, values),
    }
}

/// The nearest f32 that is finite: noise may carry a mean beyond it.
fn to_f32(value: f64) -> f32 {
    value.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
}

#[cfg(test)]
mod tests;
