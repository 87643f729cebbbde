//! Files that are of another kind than their extension says.

use super::*;

#[test]
fn a_file_of_another_kind_says_what_it_is() {
    let utf_16: Vec<u8> = "\u{feff}a,b\n1,2\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let unmarked: Vec<u8> = "a,b\n1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cases: [(&str, &[u8], &str, &str); 15] = [
        ("csv", b"\x1f\x8b\x08\x00", "gzip", "gunzip"),
        ("json", b"\x1f\x8b\x08\x00", "gzip", "gunzip"),
        ("npy", b"\x1f\x8b\x08\x00", "gzip", "gunzip"),
        ("csv", b"PK\x03\x04rest", "ZIP", "read_excel"),
        ("npy", b"PK\x03\x04rest", "ZIP", "numpy.load"),
        ("csv", b"\xd0\xcf\x11\xe0rest", "spreadsheet", "CSV UTF-8"),
        ("csv", b"PAR1\x15\x04", "Parquet", "read_parquet"),
        ("npy", b"\x80\x04\x95rest", "pickle", "numpy.save"),
        ("csv", &utf_16, "UTF-16", "UTF-8"),
        ("csv", &unmarked, "UTF-16", "UTF-8"),
        ("json", &utf_16, "UTF-16", "UTF-8"),
        (
            "csv",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
            "git-lfs",
            "git lfs pull",
        ),
        (
            "npy",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
            "git-lfs",
            "git lfs pull",
        ),
        ("csv", b"<!DOCTYPE html><html>", "HTML", "download"),
        ("csv", b"[[1, 2]]", "JSON", "call it .json"),
    ];
    for (extension, bytes, what, hint) in cases {
        let failure = read_as(extension, bytes).expect_err(what);
        let reported = failure.hint.unwrap_or_default();
        assert!(failure.message.contains(what), "{what}: {}", failure.message);
        assert!(reported.contains(hint), "{what}: {reported}");
    }
    for (extension, hint) in [
        ("gz", "gunzip"),
        ("XLSX", "read_excel"),
        ("npz", "numpy.load"),
        ("parquet", "read_parquet"),
        ("tsv", "sep='\\t'"),
        ("pt", "safetensors.torch"),
        ("pkl", "pickle may run any program"),
        ("csv~", "numpy.save"),
    ] {
        let reported = read_as(extension, b"x")
            .expect_err(extension)
            .hint
            .unwrap_or_default();
        assert!(reported.contains(hint), "{extension}: {reported}");
    }
    // A mark at the beginning of JSON is none of its text.
    assert_eq!(read_as("json", b"\xef\xbb\xbf[1, 2]").unwrap().values, [1.0, 2.0]);
    let object = read_as("json", b"{\"a\": [1]}")
        .unwrap_err()
        .hint
        .unwrap_or_default();
    assert!(object.contains("orient='values'"), "{object}");
}

#[test]
fn what_is_no_plain_file_is_refused_at_once() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("x.csv")).unwrap();
    nix::unistd::mkfifo(&at("x.npy"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (name, kind) in [
        ("x.csv", "a folder"),
        ("x.npy", "a pipe"),
        ("x.json", "No such file"),
    ] {
        let failure = read(&at(name)).expect_err(name);
        assert_eq!(failure.exit, Exit::InputUnusable);
        assert!(failure.message.contains(kind), "{failure}");
    }
}

#[test]
fn arrays_of_other_types_are_named_and_either_byte_order_is_read() {
    let of = |descr: &str, bytes: &[u8]| {
        let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,), }}");
        read_as("npy", &[&npy(&header, &[])[..], bytes].concat())
    };
    let big = [1.5f64, -2.0].map(f64::to_be_bytes).concat();
    assert_eq!(of("'>f8'", &big).unwrap().values, [1.5, -2.0]);
    let narrow = [1.5f32, -2.0].map(f32::to_be_bytes).concat();
    assert_eq!(of("'>f4'", &narrow).unwrap().values, [1.5, -2.0]);
    for descr in [
        "'|O'",
        "'<f2'",
        "'<i8'",
        "'|b1'",
        "'<c16'",
        "'<M8[ns]'",
        "'<U4'",
        "[('a', '<f8'), ('b', '<f8')]",
    ] {
        let failure = of(descr, &[0; 64]).expect_err(descr);
        assert_eq!(failure.exit, Exit::InputUnusable);
        assert!(
            failure.message.contains("dtype") || failure.message.contains(".npy"),
            "{descr}: {failure}"
        );
    }
}
