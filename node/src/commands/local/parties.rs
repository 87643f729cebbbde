//! The parties of a local cluster and their vectors or records: from files, or synthetic.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use undertone_protocol::plan::checked::RecordsAtStart;
use undertone_protocol::plan::computation::asked::unnamed;
use undertone_protocol::plan::peers::is_party_name;
use undertone_protocol::plan::run_file::parsed::RunFile;
use undertone_protocol::plan::run_file::raw::RawRunFile;
use undertone_protocol::plan::run_file::records::RecordCounts;
use undertone_protocol::plan::run_file::settings::{Clip, Unit};

use crate::measuring::synthetic;
use crate::party::input;
use crate::reporting::failure::Failure;
use crate::reporting::output_file;
use crate::vector_file::expected::Expected;
use crate::vector_file::formats;
use crate::vector_file::layout::{Dtype, Format, Layout};
use crate::vector_file::vector::VectorFile;

/// A party with its raw vector, which `local` knows since it is on this machine. It prints no
/// values.
pub(crate) struct LocalParty {
    pub(crate) name: String,
    /// The file that its node reads.
    pub(crate) input: PathBuf,
    pub(crate) vector: VectorFile,
    /// How many rows the party contributes, where records are protected.
    pub(crate) records: Option<u64>,
    /// Sentences on a table's cells, for their owner.
    pub(crate) told: Vec<String>,
}

impl LocalParty {
    /// Whether its file is for a program to read, and nobody else knows what is in it.
    pub(super) fn is_for_a_program(&self) -> bool {
        self.vector.values.is_empty()
    }
}

impl fmt::Debug for LocalParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalParty({})", self.name)
    }
}

/// One file per party, ordered by name.
pub(crate) fn read(
    folder: &Path,
    nodes: Option<usize>,
    raw: &RawRunFile,
) -> Result<Vec<LocalParty>, Failure> {
    let named = named_files(folder, nodes, is_vector)?;
    let read = |(name, input): (String, PathBuf)| {
        Ok(LocalParty {
            name,
            vector: formats::read_as(&input, expected(raw))?,
            input,
            records: None,
            told: vec![],
        })
    };
    named.into_iter().map(read).collect()
}

/// Returns what a run file says of the parties' files. How many rows of records they have is theirs
/// to say.
fn expected(raw: &RawRunFile) -> Expected<'_> {
    let releases = raw.data.releases.filter(|_| streams(raw)).unwrap_or(1);
    let extents = raw.data.shape.iter().flatten().copied();
    let numbers = extents.fold(releases as usize, usize::saturating_mul);
    let planned = raw.data.shape.is_some() && (streams(raw) || !takes_tables(raw));
    Expected {
        columns: raw.data.columns.as_deref(),
        numbers: planned.then_some(numbers),
    }
}

/// Whether a run file is of a stream: each party contributes a row for each of many releases, or a
/// program hands them over.
pub(super) fn streams(raw: &RawRunFile) -> bool {
    let several = raw.data.releases.is_some_and(|releases| releases > 1);
    several && raw.task().carries_streams()
}

/// Whether parties contribute rows of features, each with a target.
pub(super) fn takes_features(raw: &RawRunFile) -> bool {
    raw.task().takes_features()
}

/// Returns the unit whose change is hidden.
pub(super) fn unit(raw: &RawRunFile) -> Unit {
    raw.data
        .unit
        .unwrap_or(match takes_features(raw) || raw.task().takes_cells() {
            true => Unit::Record,
            false => Unit::Party,
        })
}

/// Whether the parties' files have a record a row, or a release.
fn takes_tables(raw: &RawRunFile) -> bool {
    unit(raw) == Unit::Record || streams(raw) || takes_features(raw)
}

/// One file per party for a program to read, whatever is in it; where rows are protected a table,
/// which says how many the party has.
pub(super) fn for_programs(
    folder: &Path,
    nodes: Option<usize>,
    unit: Unit,
) -> Result<Vec<LocalParty>, Failure> {
    let named = named_files(folder, nodes, |_| Ok(()))?;
    let party = |(name, input): (String, PathBuf)| {
        let rows = match unit {
            Unit::Party => None,
            Unit::Record => Some(rows_of(&input, &formats::read(&input)?.layout)?.0),
        };
        Ok(LocalParty {
            name,
            vector: VectorFile {
                layout: Layout::npy(vec![0], Dtype::F64),
                values: vec![],
            },
            input,
            records: rows,
            told: vec![],
        })
    };
    named.into_iter().map(party).collect()
}

/// How many rows a table has, and the shape of one.
fn rows_of(path: &Path, layout: &Layout) -> Result<(u64, Vec<usize>), Failure> {
    layout.records().ok_or_else(|| {
        Failure::input(format!("{}: {}", path.display(), input::no_records(layout))).field(path.display())
    })
}

pub(super) fn named_files(
    folder: &Path,
    nodes: Option<usize>,
    check: impl Fn(&Path) -> Result<(), Failure>,
) -> Result<Vec<(String, PathBuf)>, Failure> {
    let refused = |e: std::io::Error| {
        Failure::usage(format!("{}: cannot be read: {e}", folder.display())).field("--inputs")
    };
    let (mut files, mut hidden, mut unreadable) = (vec![], vec![], vec![]);
    for entry in std::fs::read_dir(folder).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        match (name.starts_with('.'), unreadable_for(&entry.path())) {
            (true, _) => hidden.push(name),
            (false, Some(why)) => unreadable.push(format!("{name} ({why})")),
            (false, None) => files.push(entry.path()),
        }
    }
    hidden.sort();
    unreadable.sort();
    // No party is left out in silence.
    if !hidden.is_empty() {
        let (place, names) = (folder.display(), hidden.join(", "));
        tracing::warn!("{place}: hidden files are left out: {names}");
    }
    if !unreadable.is_empty() {
        let (place, names) = (folder.display(), unreadable.join(", "));
        return Err(
            Failure::input(format!("{place}: no files that can be read: {names}"))
                .field("--inputs")
                .hint("each entry of the folder is a party's file: repair these, or put them elsewhere"),
        );
    }
    files.sort();
    files.iter().try_for_each(|path| check(path))?;
    let mut named: Vec<(String, PathBuf)> = files.into_iter().map(name_of).collect::<Result<_, _>>()?;
    named.sort();
    if let Some(twice) = named.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let [one, two] = [&twice[0].1, &twice[1].1].map(|path| path.display());
        return Err(
            Failure::usage(format!("two files are named {:?}: {one} and {two}", twice[0].0))
                .field("--inputs")
                .hint("one file per party"),
        );
    }
    if named.len() < 3 {
        return Err(Failure::usage(format!(
            "{} has {} files; a private average needs at least 3 parties",
            folder.display(),
            named.len()
        ))
        .field("--inputs"));
    }
    if let Some(nodes) = nodes.filter(|&nodes| nodes != named.len()) {
        return Err(Failure::usage(format!(
            "--nodes is {nodes}, but {} has {} files",
            folder.display(),
            named.len()
        ))
        .field("--nodes"));
    }
    Ok(named)
}

/// Says why an entry of a folder is no file that can be read, if it is none.
fn unreadable_for(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Err(_) if path.is_symlink() => Some("a link that leads nowhere".into()),
        Err(e) => Some(e.to_string()),
        Ok(found) => match output_file::kind(found.file_type()) {
            Some(kind) => Some(kind.into()),
            None => std::fs::File::open(path).err().map(|e| e.to_string()),
        },
    }
}

/// Refuses a file that cannot be a party's by its name, before anything else is said of the folder.
fn is_vector(path: &Path) -> Result<(), Failure> {
    if formats::can_be_read(path) {
        return Ok(());
    }
    formats::read(path).map(drop).map_err(|mut failure| {
        failure.message += "; each file in the folder is a party's, others belong elsewhere";
        failure
    })
}

fn name_of(path: PathBuf) -> Result<(String, PathBuf), Failure> {
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    if is_party_name(&stem) {
        return Ok((stem, path));
    }
    Err(
        Failure::usage(format!("{}: {stem:?} cannot be a party's name", path.display()))
            .field("--inputs")
            .hint("name the files with 1 to 32 characters out of a-z, 0-9 and -"),
    )
}

/// The tensors of a model with their extents; none of another file.
fn tensors(layout: &Layout) -> Option<BTreeMap<String, Vec<usize>>> {
    let Format::Safetensors { tensors, .. } = &layout.format else {
        return None;
    };
    let each = tensors
        .iter()
        .map(|tensor| (tensor.name.clone(), tensor.shape.clone()));
    Some(each.collect())
}

/// The run file's shape follows from the files, which must all be alike; where records are
/// protected, so do their counts.
pub(crate) fn shape(raw: &mut RawRunFile, parties: &mut [LocalParty]) -> Result<(), Failure> {
    let mut shapes = vec![];
    let protected = unit(raw) == Unit::Record;
    let (streams, tables) = (streams(raw), takes_tables(raw));
    for party in parties.iter_mut() {
        let layout = &party.vector.layout;
        let (records, shape) = if tables {
            let (count, shape) = rows_of(&party.input, layout)?;
            if let Some(releases) = raw.data.releases.filter(|&releases| streams && releases != count) {
                return Err(Failure::input(format!(
                    "{}: {count} rows, the plan has {releases} releases (data.releases)",
                    party.input.display()
                ))
                .field(party.input.display())
                .hint("bring a row for each release, in order, or ask for as many"));
            }
            (protected.then_some(count), shape)
        } else {
            (None, layout.vector_shape())
        };
        party.records = records;
        shapes.push(shape);
    }
    // All must be alike, in shape, dtype and names.
    let first = &parties[0];
    let named = parties
        .iter()
        .zip(&shapes)
        .find(|(party, _)| party.vector.layout.columns().is_some());
    for (party, shape) in parties.iter().zip(&shapes).skip(1) {
        // A file without names agrees with any names; those that have some must have the same.
        for (other, others) in [Some((first, &shapes[0])), named].into_iter().flatten() {
            if let Some([own, its]) = party
                .vector
                .layout
                .mismatch(&other.vector.layout, [shape, others])
            {
                return Err(
                    Failure::input(format!("{} is {own}, but {} is {its}", party.name, other.name))
                        .field(party.input.display())
                        .hint(
                            "all parties' files must have one shape, one dtype and the same names; tables \
                             may have as many rows as they like if rows are what is protected: \
                             unit = \"record\" under [data]",
                        ),
                );
            }
        }
    }
    // Names: the run file's, else the files'.
    match &raw.data.columns {
        Some(columns) => parties.iter().try_for_each(|party| {
            input::check_columns((columns, input::PLAN), &party.vector.layout, &party.input)
        })?,
        None => raw.data.columns = names(parties, &shapes[0]),
    }
    // Tensors that are clipped each by itself: the run file's, else the files'.
    if matches!(raw.data.clip, Some(Clip::Tensors { .. })) && raw.data.tensors.is_none() {
        raw.data.tensors = tensors(&first.vector.layout);
    }
    // The shape: the files', which the run file's must agree with.
    let found = shapes.swap_remove(0);
    match &raw.data.shape {
        Some(shape) if *shape != found && *shape != first.vector.layout.shape => Err(Failure::input(
            format!("the files have shape {found:?}, the run file says {shape:?}"),
        )
        .field("data.shape")),
        Some(_) => Ok(()),
        None => {
            raw.data.shape = Some(found);
            Ok(())
        }
    }
}

/// Takes from a file like the parties' what a run file leaves out: shape, columns, tensors. The
/// number of its rows says nothing of others.
pub(crate) fn describe_like(raw: &mut RawRunFile, file: &Path) -> Result<(), Failure> {
    if raw.task().takes_cells() {
        return Err(
            Failure::usage("a description takes nothing from a table: its run file has the columns")
                .field("--like")
                .hint(
                    "leave --like out, and write a [[describe.column]] for each column, with name, and low and \
                     high, or categories",
                ),
        );
    }
    let like = LocalParty {
        name: "like".into(),
        vector: formats::read_as(file, expected(raw))?,
        input: file.to_owned(),
        records: None,
        told: vec![],
    };
    shape(raw, &mut [like])
}

/// The names of the columns, if some file has one for each and no two are alike.
fn names(parties: &[LocalParty], shape: &[usize]) -> Option<Vec<String>> {
    let names = parties.iter().find_map(|party| party.vector.layout.columns())?;
    (unnamed(names).is_none() && shape.last() == Some(&names.len())).then(|| names.to_vec())
}

/// The numbers of records are those of the parties' files, where the run file says none.
pub(crate) fn count_records(run: &mut RunFile, parties: &[LocalParty]) {
    let counted = parties.iter().all(|party| party.records.is_some());
    if run.data.unit == Unit::Record && run.data.records.is_none() && counted {
        let counts = parties
            .iter()
            .filter_map(|party| Some((party.name.clone(), party.records?)));
        run.data.records = Some(RecordCounts::named(counts.collect()));
    }
}

/// How many records each party brings, where records are protected.
pub(super) fn records_of(parties: &[LocalParty]) -> RecordsAtStart {
    let counts = parties.iter().enumerate();
    let count = |(party, of): (usize, &LocalParty)| Some((party, u32::try_from(of.records?).ok()?));
    counts.filter_map(count).collect()
}

/// Synthetic parties contribute this many records, fewer where that would be many numbers.
const RECORDS: usize = 1000;

/// Vectors, or matrices of records, within the clipping range, written to a folder for the nodes to
/// read.
pub(super) fn synthesize(
    run: &RunFile,
    nodes: usize,
    seed: u64,
    folder: &Path,
) -> Result<Vec<LocalParty>, Failure> {
    let dimension = run.data.dimension();
    let records = (run.data.unit == Unit::Record).then_some((1_000_000 / dimension).clamp(1, RECORDS));
    let releases = run.computation.stream().map(|stream| stream.releases as usize);
    let rows = records.or(releases.filter(|&releases| releases > 1));
    let shape: Vec<usize> = rows.into_iter().chain(run.data.shape.iter().copied()).collect();
    let layout = Layout::npy(shape, Dtype::F64);
    let party = |index: usize| {
        let name = format!("party-{index}");
        let input = folder.join(format!("{name}.npy"));
        let vector = |row: usize| synthetic::vector(&run.data.clip, dimension, seed, index + row * nodes);
        let values: Vec<f64> = (0..rows.unwrap_or(1)).flat_map(vector).collect();
        formats::write(&input, &layout, &values)?;
        let vector = VectorFile {
            layout: layout.clone(),
            values,
        };
        Ok(LocalParty {
            name,
            input,
            vector,
            records: records.map(|count| count as u64),
            told: vec![],
        })
    };
    (0..nodes).map(party).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parties(files: &[(&str, &str)]) -> Result<Vec<LocalParty>, Failure> {
        let folder = tempfile::tempdir().unwrap();
        files
            .iter()
            .for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
        read(folder.path(), None, &RawRunFile::default())
    }

    fn raw(unit: Unit, shape: Option<Vec<usize>>) -> RawRunFile {
        let mut raw = RawRunFile::default();
        (raw.data.unit, raw.data.shape) = (Some(unit), shape);
        raw
    }

    const TABLES: [(&str, &str); 3] = [
        ("c.csv", "x,y\n1,2\n"),
        ("a.json", "[[1,2],[3,4],[5,6]]"),
        ("b.csv", "x,y\n1,2\n3,4\n"),
    ];

    #[test]
    fn counts_of_records_come_from_the_files() {
        let mut found = parties(&TABLES).unwrap();
        let mut run = raw(Unit::Record, None);
        shape(&mut run, &mut found).unwrap();
        assert_eq!(run.data.shape, Some(vec![2]));
        let counts: Vec<_> = found
            .iter()
            .map(|party| (party.name.as_str(), party.records))
            .collect();
        assert_eq!(counts, [("a", Some(3)), ("b", Some(2)), ("c", Some(1))]);
        let failure = shape(&mut raw(Unit::Record, Some(vec![3])), &mut found).unwrap_err();
        assert!(
            failure.message.contains("[2]") && failure.message.contains("[3]"),
            "{failure}"
        );
    }

    #[test]
    fn each_entry_that_is_no_readable_file_is_named() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, text) in TABLES {
            std::fs::write(at(name), text).unwrap();
        }
        std::fs::write(at(".DS_Store"), "").unwrap();
        let read = |raw: &RawRunFile| read(folder.path(), None, raw);
        read(&RawRunFile::default()).unwrap();
        symlink("/nowhere/evora.csv", at("evora.csv")).unwrap();
        symlink("loop.csv", at("loop.csv")).unwrap();
        std::fs::create_dir(at("faro.csv")).unwrap();
        nix::unistd::mkfifo(&at("guarda.csv"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        // A link to a file is that file.
        std::fs::rename(at("b.csv"), folder.path().join(".b.csv")).unwrap();
        symlink(".b.csv", at("b.csv")).unwrap();
        let failure = read(&RawRunFile::default()).unwrap_err();
        assert_eq!(failure.exit, crate::reporting::failure::Exit::InputUnusable);
        for (name, why) in [
            ("evora.csv", "a link that leads nowhere"),
            ("loop.csv", "a link that leads nowhere"),
            ("faro.csv", "a folder"),
            ("guarda.csv", "a pipe"),
        ] {
            assert!(failure.message.contains(&format!("{name} ({why})")), "{failure}");
        }
        assert!(!failure.message.contains("b.csv"), "{failure}");
    }

    #[test]
    fn a_first_row_of_column_numbers_is_data_only_where_the_run_file_counts_it() {
        let numbered = [
            ("a.csv", "0,1\n5,6\n"),
            ("b.csv", "0,1\n7,8\n"),
            ("c.csv", "0,1\n9,9\n"),
        ];
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in numbered {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let read = |run: &RawRunFile| read(folder.path(), None, run);
        for unit in [Unit::Party, Unit::Record] {
            let failure = read(&raw(unit, None)).unwrap_err();
            assert!(
                failure.hint.is_some_and(|hint| hint.contains("header=False")),
                "{unit:?}"
            );
        }
        read(&raw(Unit::Record, Some(vec![2]))).unwrap_err();
        assert_eq!(
            read(&raw(Unit::Party, Some(vec![2, 2]))).unwrap()[0]
                .vector
                .layout
                .shape,
            [2, 2]
        );
        let mut named = raw(Unit::Record, None);
        named.data.columns = Some(vec!["0".into(), "1".into()]);
        let found = read(&named).unwrap();
        assert_eq!(
            (
                found[0].vector.layout.shape.as_slice(),
                found[0].vector.values.as_slice()
            ),
            (&[1, 2][..], &[5.0, 6.0][..])
        );
    }

    #[test]
    fn a_file_that_is_no_vector_is_named() {
        let among = |name| parties(&[TABLES[0], TABLES[1], TABLES[2], (name, "")]).unwrap_err();
        for name in ["run.toml", "notes", "model.pt"] {
            let failure = among(name);
            assert!(failure.message.contains(name), "{failure}");
            assert_eq!(failure.exit, crate::reporting::failure::Exit::InputUnusable);
        }
    }

    #[test]
    fn whole_vectors_must_have_one_shape() {
        let failure = shape(&mut raw(Unit::Party, None), &mut parties(&TABLES).unwrap()).unwrap_err();
        assert!(
            failure.message.contains("b is") && failure.message.contains("but a is"),
            "names both: {failure}"
        );
        let mut alike = parties(&[("a.csv", "1\n2\n"), ("b.csv", "1,2\n"), ("c.json", "[1,2]")]).unwrap();
        let mut run = raw(Unit::Party, None);
        shape(&mut run, &mut alike).unwrap();
        assert_eq!((run.data.shape, alike[0].records), (Some(vec![2]), None));
        let scalar = shape(
            &mut raw(Unit::Record, None),
            &mut parties(&[("a.json", "1"), ("b.json", "2"), ("c.json", "3")]).unwrap(),
        );
        assert_eq!(
            scalar.unwrap_err().exit,
            crate::reporting::failure::Exit::InputUnusable
        );
    }
}
