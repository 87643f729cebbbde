//! The layout of a file of data: shape, dtype and names, without a value.

use std::collections::BTreeMap;

use crate::vector_file::carried::CarriedTensor;

/// The element type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 2 bytes, IEEE half precision.
    F16,
    /// 2 bytes, the upper half of an f32.
    Bf16,
    /// 4 bytes, IEEE single precision.
    F32,
    /// 8 bytes, IEEE double precision.
    F64,
}

impl Dtype {
    /// Returns numpy's name of it; for bfloat16, PyTorch's.
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
    /// The name, unique in its file.
    pub name: String,
    /// Lengths of its axes; empty for a scalar.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub dtype: Dtype,
}

impl Tensor {
    /// The number of coordinates. The reader checks that the product fits.
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// How the numbers of a file are written.
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
        /// The tensors, ordered by name.
        tensors: Vec<Tensor>,
        /// The file's free text by key, such as format = "pt".
        metadata: BTreeMap<String, String>,
        /// Its tensors of whole numbers, which are written again as they were read.
        carried: Vec<CarriedTensor>,
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

/// The layout of a file, without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Lengths of the axes; empty for a scalar; `[rows, columns]` for a `.csv`; `[all coordinates]`
    /// for a `.safetensors`.
    pub shape: Vec<usize>,
    /// How its numbers are written.
    pub format: Format,
}

impl Layout {
    /// The layout of a `.npy`.
    pub fn npy(shape: Vec<usize>, dtype: Dtype) -> Self {
        Layout {
            shape,
            format: Format::Npy(dtype),
        }
    }

    /// The number of coordinates.
    pub fn dimension(&self) -> usize {
        self.shape.iter().product()
    }

    /// The shape as one vector: `[1]` for a scalar; a `.csv` of one row, or of one column, is a
    /// plain list of its numbers.
    pub fn vector_shape(&self) -> Vec<usize> {
        match (&self.format, self.shape.as_slice()) {
            (_, []) => vec![1],
            (Format::Csv { .. }, &[1, length] | &[length, 1]) => vec![length],
            (_, shape) => shape.to_vec(),
        }
    }

    /// As a matrix of records: their number, and the shape of one (`[1]` if each is one number).
    /// None for a scalar and for a model.
    pub fn records(&self) -> Option<(u64, Vec<usize>)> {
        let (&count, record) = self.shape.split_first()?;
        match self.format {
            Format::Safetensors { .. } => None,
            _ if record.is_empty() => Some((count as u64, vec![1])),
            _ => Some((count as u64, record.to_vec())),
        }
    }

    /// The layout of a file of this format with one record in place of its matrix: what the mean
    /// over records looks like.
    pub fn of_one_record(&self, record: &[usize]) -> Layout {
        Layout {
            shape: record.to_vec(),
            format: self.format.clone(),
        }
    }

    /// The layout of a file of this format with so many numbers: as many rows as they make, where
    /// they are other than planned.
    pub fn of_so_many(&self, numbers: usize) -> Layout {
        let mut layout = self.clone();
        if let (false, Some((rows, row))) = (numbers == self.dimension(), layout.shape.split_first_mut()) {
            *rows = numbers / row.iter().product::<usize>().max(1);
        }
        layout
    }

    /// Bytes that a file of this layout takes, at most, but for what names and metadata are quoted
    /// with.
    pub fn written_bytes(&self) -> u64 {
        // The shortest text that gives back any f64 takes up to 24 characters, then a comma or a
        // bracket.
        const CHARACTERS: usize = 26;
        let size = |dtype: Dtype| match dtype {
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 => 4,
            Dtype::F64 => 8,
        };
        let values = match &self.format {
            Format::Npy(dtype) => self.dimension().saturating_mul(size(*dtype)),
            Format::Csv { .. } | Format::Json => self.dimension().saturating_mul(CHARACTERS),
            Format::Safetensors { tensors, carried, .. } => {
                let averaged = tensors
                    .iter()
                    .map(|tensor| tensor.len().saturating_mul(size(tensor.dtype)));
                let all = averaged.chain(carried.iter().map(|tensor| tensor.bytes.len()));
                all.fold(0usize, |sum, bytes| sum.saturating_add(bytes.saturating_add(256)))
            }
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

    /// If this and another party's file cannot be averaged, what each of them is; `shapes` are
    /// those that must agree. (A column's name is not said: a first row of words may be data.)
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
                let column = at + 1;
                Some([
                    format!("a table with a name of its own for column {column}"),
                    format!("one with another name for column {column}"),
                ])
            }
            _ => None,
        }
    }

    /// Where a model's tensors are not these, in name and extents: the first that differs. Other
    /// files say nothing.
    pub fn odd_tensor(&self, planned: &[(String, Vec<usize>)]) -> Option<String> {
        let Format::Safetensors { tensors, .. } = &self.format else {
            return None;
        };
        let found = tensors
            .iter()
            .map(|tensor| (tensor.name.clone(), tensor.shape.clone()));
        let found: Vec<(String, Vec<usize>)> = found.collect();
        let say = |(name, shape): &(String, Vec<usize>)| format!("tensor {name:?} of shape {shape:?}");
        match found
            .iter()
            .zip(planned)
            .find(|(found, planned)| found != planned)
        {
            Some((found, planned)) => Some(format!("{}, where the plan has {}", say(found), say(planned))),
            None if found.len() == planned.len() => None,
            None => Some(format!("{} tensors, the plan has {}", found.len(), planned.len())),
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
