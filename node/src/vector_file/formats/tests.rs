use std::collections::BTreeMap;

use super::*;
use crate::reporting::failure::Exit;
use crate::vector_file::layout::{Dtype, Tensor};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Reads bytes as a file with this extension.
fn read_as(extension: &str, bytes: &[u8]) -> Result<VectorFile, Failure> {
    let folder = folder();
    let path = folder.path().join(format!("x.{extension}"));
    std::fs::write(&path, bytes).unwrap();
    read(&path)
}

#[track_caller]
fn refused(extension: &str, bytes: &[u8], expected: &str) -> String {
    let failure = read_as(extension, bytes).expect_err(expected);
    assert_eq!(failure.exit, Exit::InputUnusable);
    assert!(
        failure.message.contains(expected),
        "{} should say {expected}",
        failure.message
    );
    assert!(failure.hint.is_some() && failure.field.is_some());
    failure.message
}

/// Writes, reads back, and checks that nothing changed but rounding to the dtype.
#[track_caller]
fn comes_back(extension: &str, layout: &Layout, values: &[f64]) -> String {
    let folder = folder();
    let path = folder.path().join(format!("x.{extension}"));
    write(&path, layout, values).unwrap();
    let again = read(&path).unwrap();
    assert_eq!((&again.layout, again.values.as_slice()), (layout, values));
    String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned()
}

mod kinds;
mod tables;

const SIX: [f64; 6] = [0.5, -1.0, 2.0, 0.25, 7.0, -0.125];

#[test]
fn a_vector_comes_back_with_its_shape_and_dtype() {
    for (dtype, shape) in [
        (Dtype::F64, vec![2, 3]),
        (Dtype::F32, vec![6]),
        (Dtype::F64, vec![3, 1, 2]),
    ] {
        comes_back("npy", &Layout::npy(shape, dtype), &SIX);
    }
}

#[test]
fn fortran_order_is_read_in_c_order() {
    let header = "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }";
    let file = read_as("npy", &npy(header, &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0])).unwrap();
    assert_eq!(file.values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

/// The bytes are those of numpy.save, and either order of a value's bytes is read.
#[test]
fn an_npy_is_written_as_numpy_writes_it_and_read_in_any_byte_order() {
    for (shape, text) in [(vec![], "()"), (vec![2], "(2,)"), (vec![1, 2], "(1, 2)")] {
        let values = &[0.5, -3.0][..shape.iter().product()];
        let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {text}, }}");
        let mut written = vec![];
        crate::vector_file::npy::write(&mut written, &shape, Dtype::F64, values).expect("written");
        assert_eq!(written, npy(&header, values));
    }
    let mut large = npy("{\"shape\":(2,), 'fortran_order': False, 'descr': '>f8'}", &[]);
    large.extend([0.5f64, -3.0].iter().flat_map(|value| value.to_be_bytes()));
    assert_eq!(read_as("npy", &large).unwrap().values, [0.5, -3.0]);
    let records = "{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (1,), }";
    refused("npy", &npy(records, &[1.0]), "dtype [('x', '<f8')]");
    let bare = "{'descr': '<f8', 'shape': (1,), }";
    refused("npy", &npy(bare, &[1.0]), "no fortran_order");
}

fn npy(header: &str, values: &[f64]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let padded = format!("{header}{}\n", " ".repeat(63 - (10 + header.len()) % 64));
    bytes.extend((padded.len() as u16).to_le_bytes());
    bytes.extend(padded.bytes());
    values.iter().for_each(|v| bytes.extend(v.to_le_bytes()));
    bytes
}

#[test]
fn a_bad_npy_says_what_is_wrong() {
    let huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 16), }";
    let large = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }";
    let flat = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }";
    let whole = "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }";
    let none = "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4), }";
    let cases: [(Vec<u8>, &str); 9] = [
        (vec![], "empty"),
        (b"x,y\n1,2\n3,4\n".to_vec(), "not a .npy file"),
        (npy(flat, &[1.0]), "truncated"),
        (npy(large, &[1.0]), "truncated"),
        (npy(huge, &[1.0]), "larger than any memory"),
        (npy(whole, &[1.0, 2.0]), "dtype"),
        (npy(flat, &[1.0, f64::NAN]), "coordinate 1 is not a number"),
        (npy(flat, &[f64::INFINITY, 0.0]), "coordinate 0 is infinite"),
        (npy(none, &[]), "no coordinates"),
    ];
    for (bytes, expected) in cases {
        refused("npy", &bytes, expected);
    }
    refused("txt", b"1 2 3", ".txt is not a format");
}

fn csv(shape: &[usize], header: Option<&[&str]>) -> Layout {
    let header = header.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    Layout {
        shape: shape.to_vec(),
        format: Format::Csv { header },
    }
}

#[test]
fn a_table_comes_back_with_and_without_names() {
    assert_eq!(
        comes_back("csv", &csv(&[2, 3], None), &SIX),
        "0.5,-1.0,2.0\n0.25,7.0,-0.125\n"
    );
    let named = comes_back("csv", &csv(&[3, 2], Some(&["age, years", "2nd"])), &SIX);
    assert!(named.starts_with("\"age, years\",2nd\n0.5,-1.0\n"), "{named}");
    comes_back(
        "csv",
        &csv(&[1, 3], None),
        &[1e-300, 1.7976931348623157e308, 0.1 + 0.2],
    );
    let spaced = read_as("csv", b"\xef\xbb\xbfa , b\r\n 1 ,\"2\"\r\n\r\n+3e1,.5\r\n").unwrap();
    assert_eq!(spaced.layout, csv(&[2, 2], Some(&["a", "b"])));
    assert_eq!(spaced.values, [1.0, 2.0, 30.0, 0.5]);
    assert_eq!(csv(&[1, 3], None).vector_shape(), [3]);
    assert_eq!(csv(&[3, 1], None).vector_shape(), [3]);
    assert_eq!(csv(&[2, 3], None).vector_shape(), [2, 3]);
}

#[test]
fn a_bad_table_says_where() {
    let message = refused(
        "csv",
        b"age,pressure\n1,2\n3,secretive\n",
        "row 2 (line 3), column 2 is not a number",
    );
    assert!(!message.contains("secretive"), "what stands there is private");
    refused(
        "csv",
        b"1,2\n3,word\n",
        "row 2 (line 2), column 2 is not a number",
    );
    refused(
        "csv",
        b"1,word\n3,4\n",
        "row 1 (line 1), column 2 is not a number",
    );
    refused(
        "csv",
        b"1,2\n3\n",
        "ragged: row 2 (line 2) has 1 columns, the first row has 2",
    );
    refused("csv", b"a,b\n1,2,3\n", "ragged: row 1 (line 2) has 3");
    refused("csv", b"1,\n", "row 1 (line 1), column 2 is empty");
    refused("csv", b"1,nan\n", "column 2 is not a number (NaN)");
    refused("csv", b"1,2\n1e999,1\n", "row 2 (line 2), column 1 is infinite");
    refused("csv", b"a,b\n", "no rows");
    refused("csv", b"\n\n", "no rows");
    refused("csv", b"1,2\n\xff,3\n", "row 2 is not UTF-8");
    refused("csv", b"\"a,b\n", "no rows");
    refused("csv", b"\"1,2\n", "decimal comma");
}

fn json(shape: &[usize]) -> Layout {
    Layout {
        shape: shape.to_vec(),
        format: Format::Json,
    }
}

#[test]
fn nested_arrays_come_back() {
    assert_eq!(
        comes_back("json", &json(&[2, 3]), &SIX),
        "[[0.5, -1.0, 2.0], [0.25, 7.0, -0.125]]\n"
    );
    comes_back("json", &json(&[3, 1, 2]), &SIX);
    comes_back("json", &json(&[]), &[2.5]);
    let mixed = read_as("json", b" [[1, -2],\n[3e2, 4.5]] ").unwrap();
    assert_eq!(
        (mixed.layout, mixed.values),
        (json(&[2, 2]), vec![1.0, -2.0, 300.0, 4.5])
    );
}

#[test]
fn bad_arrays_say_where() {
    refused(
        "json",
        b"[[1, 2], [3]]",
        "ragged: [1] has 1 elements where others have 2",
    );
    refused(
        "json",
        b"[[[1, 2]], [[3, 4], [5, 6]]]",
        "ragged: [1] has 2 elements where others have 1",
    );
    refused(
        "json",
        b"[1, [2]]",
        "ragged: [1] is an array where others are numbers",
    );
    refused(
        "json",
        b"[[1], 2]",
        "ragged: [1] is a number where others are arrays",
    );
    refused("json", b"[[], [1]]", "ragged");
    refused("json", b"[[], []]", "no numbers");
    let message = refused("json", b"[1, \"secretive\"]", "[1] is a text, not a number");
    assert!(!message.contains("secretive"), "what stands there is private");
    refused("json", b"[1, null]", "[1] is null");
    refused("json", b"{\"a\": 1}", "an object");
    refused("json", b"[1, 1e999]", "number out of range");
    refused("json", b"[1, NaN]", "[1] is not a number (NaN)");
    refused("json", b"[[1, 2],\n [3, -Infinity]]", "[1][1] is infinite");
    refused("json", b"[nan]", "[0] is not a number (NaN)");
    refused("json", b"[1, nil]", "expected");
    refused("json", b"[1, 2] 3", "trailing");
    refused("json", b"[1, 2", "EOF");
    refused("json", "[".repeat(100_000).as_bytes(), "nested arrays");
}

fn tensor(name: &str, shape: &[usize], dtype: Dtype) -> Tensor {
    Tensor {
        name: name.into(),
        shape: shape.to_vec(),
        dtype,
    }
}

fn model(tensors: Vec<Tensor>) -> Layout {
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    let length = tensors.iter().map(Tensor::len).sum();
    Layout {
        shape: vec![length],
        format: Format::Safetensors {
            tensors,
            metadata,
            carried: vec![],
        },
    }
}

#[test]
fn a_model_comes_back_with_names_shapes_and_dtypes() {
    let layout = model(vec![
        tensor("a.bias", &[], Dtype::F64),
        tensor("a.weight", &[2, 1], Dtype::F16),
        tensor("b", &[2], Dtype::Bf16),
        tensor("empty", &[0, 3], Dtype::F32),
        tensor("z", &[1], Dtype::F32),
    ]);
    comes_back("safetensors", &layout, &SIX);
}

#[test]
fn a_mean_is_rounded_to_the_dtype_and_stays_finite() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let layout = model(vec![
        tensor("a", &[2], Dtype::F16),
        tensor("b", &[2], Dtype::Bf16),
        tensor("c", &[2], Dtype::F32),
    ]);
    write(&path, &layout, &[0.1, 1e6, 0.1, -1e300, 0.1, 1e300]).unwrap();
    let values = read(&path).unwrap().values;
    assert_eq!(
        values,
        [
            0.0999755859375,
            65504.0,
            0.10009765625,
            -f64::from(half::bf16::MAX),
            f64::from(0.1f32),
            f64::from(f32::MAX)
        ]
    );
}

fn model_bytes(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

#[test]
fn the_order_of_a_models_tensors_is_that_of_their_names() {
    let header = r#"{"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    let data = [1f32.to_le_bytes(), 2f32.to_le_bytes()].concat();
    let file = read_as("safetensors", &model_bytes(header, &data)).unwrap();
    assert_eq!(file.values, [2.0, 1.0]);
}

#[test]
fn a_bad_model_says_what_is_wrong() {
    let one = |dtype: &str, shape: &str, end: usize| {
        format!(r#"{{"w":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{end}]}}}}"#)
    };
    let bytes = |dtype: &str, shape: &str, data: &[u8]| model_bytes(&one(dtype, shape, data.len()), data);
    refused(
        "safetensors",
        &bytes("I64", "[1]", &[0; 8]),
        "of whole numbers, such as \"w\"",
    );
    let nan = [1f32.to_le_bytes(), f32::NAN.to_le_bytes()].concat();
    refused(
        "safetensors",
        &bytes("F32", "[2]", &nan),
        "coordinate 1 of tensor \"w\" is not a number",
    );
    refused(
        "safetensors",
        &bytes("F16", "[1]", &half::f16::INFINITY.to_le_bytes()),
        "coordinate 0 of tensor \"w\" is infinite",
    );
    refused("safetensors", b"short", "not a .safetensors file");
    refused("safetensors", &u64::MAX.to_le_bytes(), "not a .safetensors file");
    refused(
        "safetensors",
        &[&(1u64 << 40).to_le_bytes()[..], b"{}"].concat(),
        "not a .safetensors file",
    );
    refused("safetensors", &model_bytes("{}", &[]), "no tensor");
    refused(
        "safetensors",
        &bytes("F32", "[3]", &[0; 8]),
        "not a .safetensors file",
    );
    refused(
        "safetensors",
        &model_bytes(&one("F32", "[2]", 8), &[0; 4]),
        "not a .safetensors file",
    );
    refused(
        "safetensors",
        &model_bytes(&one("F32", "[4611686018427387904, 16]", 4), &[0; 4]),
        "not a .safetensors file",
    );
    refused("safetensors", &bytes("F32", "[0]", &[]), "no tensor");
}

#[test]
fn records_are_the_rows_of_the_first_axis() {
    assert_eq!(
        Layout::npy(vec![5, 2, 3], Dtype::F64).records(),
        Some((5, vec![2, 3]))
    );
    assert_eq!(Layout::npy(vec![5], Dtype::F64).records(), Some((5, vec![1])));
    assert_eq!(csv(&[1, 4], None).records(), Some((1, vec![4])));
    assert_eq!(Layout::npy(vec![], Dtype::F64).records(), None);
    assert_eq!(model(vec![tensor("a", &[2], Dtype::F32)]).records(), None);
}

#[test]
fn files_that_cannot_be_averaged_have_different_errors() {
    let differ = |one: &Layout, two: &Layout| {
        one.mismatch(two, [&one.vector_shape(), &two.vector_shape()])
            .map(|said| said.join(" but "))
    };
    let (narrow, wide) = (Layout::npy(vec![2], Dtype::F32), Layout::npy(vec![2], Dtype::F64));
    assert_eq!(
        differ(&narrow, &wide).unwrap(),
        "float32 of shape [2] but float64 of shape [2]"
    );
    assert_eq!(differ(&wide, &csv(&[1, 2], None)), None, "numbers of one shape");
    assert!(differ(&wide, &csv(&[2, 2], None)).is_some());
    assert!(
        differ(&csv(&[1, 2], Some(&["a", "b"])), &csv(&[1, 2], Some(&["a", "c"])))
            .unwrap()
            .contains("column 2")
    );
    assert_eq!(
        differ(&csv(&[1, 2], Some(&["a", "b"])), &csv(&[1, 2], None)),
        None
    );
    let one = model(vec![tensor("a", &[2], Dtype::F32)]);
    assert!(
        differ(&one, &model(vec![tensor("b", &[2], Dtype::F32)]))
            .unwrap()
            .contains("tensor \"b\"")
    );
    assert!(
        differ(&one, &model(vec![tensor("a", &[2], Dtype::F16)]))
            .unwrap()
            .contains("float16")
    );
    assert!(differ(&one, &narrow).is_some());
    assert_eq!(differ(&one, &one), None);
}

/// Any byte of a file of each format changed, or the file cut there: an answer, and never a number
/// that is not finite.
#[test]
fn damaged_files_never_panic() {
    let folder = folder();
    let model = model(vec![
        tensor("a", &[2, 2], Dtype::F16),
        tensor("b", &[2], Dtype::F64),
    ]);
    let files = [
        ("npy", Layout::npy(vec![2, 3], Dtype::F32)),
        ("csv", csv(&[2, 3], Some(&["x", "y", "z"]))),
        ("json", json(&[2, 3])),
        ("safetensors", model),
    ];
    for (extension, layout) in files {
        let path = folder.path().join(format!("x.{extension}"));
        write(&path, &layout, &SIX).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let changed =
                [0x00, b'9', b'[', 0xff].map(|byte| [&whole[..at], &[byte], &whole[at + 1..]].concat());
            for bytes in changed.into_iter().chain([whole[..at].to_vec()]) {
                std::fs::write(&path, bytes).unwrap();
                match read(&path) {
                    Ok(file) => assert!(
                        file.values.len() == file.layout.dimension()
                            && file.values.iter().all(|v| v.is_finite())
                    ),
                    Err(failure) => assert_eq!(failure.exit, Exit::InputUnusable),
                }
            }
        }
    }
}
