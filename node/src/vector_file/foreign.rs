//! Files of other kinds than those that are read: what they are, and how one of ours is made of
//! them.

use crate::vector_file::unusable::UnusableFile;

/// The number of bytes at a file's start that show its format.
pub(super) const START: usize = 512;

const FORMATS: &str = "save it as .npy (numpy.save(path, vector)), .csv, .json or .safetensors";

const DECOMPRESS: &str = "decompress it first, and give what comes out with its own extension: \
                          gunzip FILE.csv.gz, or with pandas: \
                          pandas.read_csv(path).to_csv('table.csv', index=False)";
const OF_ZIP: &str = "of an .xlsx: pandas.read_excel(path).to_csv('table.csv', index=False), or save it as \
                      \"CSV UTF-8\" in the spreadsheet; of an .npz: \
                      numpy.save('x.npy', numpy.load(path)['NAME']); of another .zip: unpack it";
const OF_SPREADSHEET: &str = "save it as \"CSV UTF-8\" in the spreadsheet; with pandas: \
                              pandas.read_excel(path).to_csv('table.csv', index=False)";
const OF_PARQUET: &str = "with pandas: pandas.read_parquet(path).to_csv('table.csv', index=False)";
const OF_ARROW: &str = "with pandas: pandas.read_feather(path).to_csv('table.csv', index=False)";
const OF_HDF5: &str = "with h5py: numpy.save('x.npy', h5py.File(path)['NAME'][:])";
const OF_PICKLE: &str = "a pickle may run any program when it is read, and is not; where it was made: \
                         numpy.save('x.npy', array), or table.to_csv('table.csv', index=False)";
/// The advice for files that PyTorch pickles, which may run any program when they are read.
const OF_TORCH: &str =
    "save it as .safetensors: safetensors.torch.save_file(model.state_dict(), \"model.safetensors\")";
const OF_NPZ: &str = "it holds several arrays: numpy.save('x.npy', numpy.load(path)['NAME'])";
const OF_TSV: &str =
    "put commas between its columns: pandas.read_csv(path, sep='\\t').to_csv('table.csv', index=False)";
const OF_TEXT: &str = "if commas separate its columns call it .csv; else with pandas: \
                       pandas.read_csv(path, sep=None, engine='python').to_csv('table.csv', index=False)";
const AS_UTF_8: &str = "save it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE, or \"CSV UTF-8\" in the spreadsheet";
const POINTER: &str = "it stands for a file that is elsewhere: git lfs pull, or git annex get, brings that";

/// Says why a file of this extension is not read.
pub(super) fn of_extension(extension: Option<&str>) -> UnusableFile {
    let found = extension.map_or("no extension".to_owned(), |e| format!(".{e}"));
    let hint = match extension {
        Some("gz" | "bz2" | "xz" | "zst" | "lz4" | "7z" | "tgz") => DECOMPRESS,
        Some("zip") => OF_ZIP,
        Some("xlsx" | "xlsm" | "xls" | "ods" | "numbers") => OF_SPREADSHEET,
        Some("parquet" | "pq") => OF_PARQUET,
        Some("feather" | "arrow") => OF_ARROW,
        Some("h5" | "hdf5" | "hdf") => OF_HDF5,
        Some("pkl" | "pickle" | "joblib") => OF_PICKLE,
        Some("pt" | "pth" | "bin" | "ckpt") => OF_TORCH,
        Some("npz") => OF_NPZ,
        Some("tsv" | "tab") => OF_TSV,
        Some("txt" | "dat") => OF_TEXT,
        _ => FORMATS,
    };
    UnusableFile::new(format!("{found} is not a format that can be read"), hint)
}

/// Beginnings of files of other kinds.
const BEGINNINGS: [(&[u8], &str, &str); 21] = [
    (b"\x1f\x8b", "it is compressed (gzip)", DECOMPRESS),
    (b"BZh91AY", "it is compressed (bzip2)", DECOMPRESS),
    (b"\xfd7zXZ\0", "it is compressed (xz)", DECOMPRESS),
    (b"\x28\xb5\x2f\xfd", "it is compressed (zstd)", DECOMPRESS),
    (b"7z\xbc\xaf\x27\x1c", "it is compressed (7z)", DECOMPRESS),
    (
        b"PK\x03\x04",
        "it is a ZIP archive, as .xlsx and .npz are",
        OF_ZIP,
    ),
    (b"PK\x05\x06", "it is an empty ZIP archive", OF_ZIP),
    (b"\xd0\xcf\x11\xe0", "it is a spreadsheet (.xls)", OF_SPREADSHEET),
    (b"PAR1\x15", "it is a Parquet file", OF_PARQUET),
    (b"ARROW1\0", "it is an Arrow file", OF_ARROW),
    (b"\x89HDF", "it is an HDF5 file", OF_HDF5),
    (b"\x80\x02", "it is a pickle", OF_PICKLE),
    (b"\x80\x03", "it is a pickle", OF_PICKLE),
    (b"\x80\x04", "it is a pickle", OF_PICKLE),
    (b"\x80\x05", "it is a pickle", OF_PICKLE),
    (b"\xff\xfe", "it is text in UTF-16", AS_UTF_8),
    (b"\xfe\xff", "it is text in UTF-16", AS_UTF_8),
    (b"version https://git-lfs", "it is a pointer of git-lfs", POINTER),
    (b"version https://hawser", "it is a pointer of git-lfs", POINTER),
    (b"/annex/objects/", "it is a pointer of git-annex", POINTER),
    (b"%PDF-", "it is a PDF", FORMATS),
];

/// Returns the format of a file, by its first bytes, where those are not of its extension. With it
/// comes how to make one of ours from it.
pub(super) fn of_start(start: &[u8], extension: &str) -> Option<(&'static str, &'static str)> {
    // Such a file begins with a length, which may be any bytes; its reader checks what follows.
    if extension == "safetensors" && start.get(8) == Some(&b'{') {
        return None;
    }
    let known = BEGINNINGS
        .iter()
        .find(|(beginning, ..)| start.starts_with(beginning));
    if let Some(&(_, what, hint)) = known {
        return Some((what, hint));
    }
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let text = text.trim_ascii_start();
    let word = text.get(..5).map(<[u8]>::to_ascii_lowercase);
    let is_page = matches!(word.as_deref(), Some(b"<!doc" | b"<html" | b"<?xml"));
    match extension {
        "csv" | "json" if start.starts_with(b"\x93NUMPY") => Some(("it is a .npy", "call it .npy")),
        _ if is_page => Some((
            "it is a page of HTML or XML, as a server sends where a file is not to be had",
            "download the file again, and look at it",
        )),
        "csv" if matches!(text.first(), Some(b'[' | b'{')) => Some((
            "it is JSON",
            "call it .json if it holds numbers in nested arrays, such as [[1, 2], [3, 4]]",
        )),
        "csv" | "json" if text.contains(&0) => Some((
            "it is no text, or text in UTF-16: it has bytes that are zero",
            AS_UTF_8,
        )),
        _ => None,
    }
}
