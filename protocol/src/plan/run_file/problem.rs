//! Problems of a setting, each with its repair.

use thiserror::Error;

use crate::describe::faults::DescriptionFault;
use crate::lattice::injection::InjectionError;
use crate::model::projection::NoSet;
use crate::plan::run_file::limits::MOST_COORDINATES;

/// A problem of a value. Prints what was found; [`Problem::fix`] says what to do.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Problem {
    /// A key without a default is missing.
    #[error("is missing")]
    Missing {
        /// A line that would do.
        example: &'static str,
    },
    /// Another version of the format.
    #[error("is {found}, which this program does not read")]
    Version {
        /// The version that the file names.
        found: u32,
    },
    /// A name that cannot be shown everywhere.
    #[error("is not a usable name")]
    Name,
    /// A number outside of its range, or not finite.
    #[error("is {}, outside of its range", readable(*.found))]
    Range {
        /// The number in the file.
        found: f64,
        /// The accepted numbers, in words.
        expected: &'static str,
    },
    /// A count outside of its range.
    #[error("is {found}, which must be from {least} to {most} here")]
    Count {
        /// The count in the file.
        found: u64,
        /// The least that would do.
        least: u64,
        /// The most that would do.
        most: u64,
    },
    /// A shape without coordinates, or with too many.
    #[error("has {coordinates} coordinates")]
    Shape {
        /// The product of the extents, saturated.
        coordinates: usize,
    },
    /// Box bounds as many as something else.
    #[error("lists {found} bounds for {expected} coordinates")]
    BoundCount {
        /// The length of the list.
        found: usize,
        /// The number of coordinates d.
        expected: usize,
    },
    /// Names as many as something else.
    #[error("lists {found} names for {expected} columns")]
    ColumnCount {
        /// The length of the list.
        found: usize,
        /// The extent of the last axis.
        expected: usize,
    },
    /// A column without a name of its own.
    #[error("has no name of its own for column {column}")]
    ColumnName {
        /// The column's place, from 1.
        column: usize,
    },
    /// A box without an inside.
    #[error("has low = {low} not below high = {high} at coordinate {coordinate}")]
    BoxOrder {
        /// The first such coordinate.
        coordinate: usize,
        /// The low bound there.
        low: f64,
        /// The high bound there.
        high: f64,
    },
    /// A key that does not apply to what was chosen.
    #[error("applies to {only} only")]
    OnlyFor {
        /// The choice that the key applies to.
        only: &'static str,
    },
    /// More departures than leave a majority that the coalition cannot forge.
    #[error(
        "is {found}: {remaining} of {parties} parties would remain, which must be more than (parties + colluding)/2 = {half}"
    )]
    Dropouts {
        /// The departures in the file.
        found: usize,
        /// The number of parties that would remain, without those that depart.
        remaining: usize,
        /// The number of parties n.
        parties: usize,
        /// The number that `remaining` must exceed: (parties + colluding)/2.
        half: f64,
    },
    /// A pace slower than the deadline.
    #[error("is {pace_ms} ms, longer than round_ms = {round_ms}")]
    Pace {
        /// The least length of a round, in milliseconds.
        pace_ms: u64,
        /// The deadline of a round, in milliseconds.
        round_ms: u64,
    },
    /// An injection (c, Z) that is not valid.
    #[error("is not usable: {0}")]
    Injection(InjectionError),
    /// An injection (c, Z) for another number of rounds.
    #[error("is {found}, but the injection's c is for {expected} rounds")]
    Rounds {
        /// The number of rounds that was found.
        found: u32,
        /// The number of rounds that the length of c gives.
        expected: u32,
    },
    /// Exact sums would be revealed without the owner saying so.
    #[error("is \"none\", which reveals the exact sum of every component")]
    ExactSum,
    /// PPSC's outer recursions, with something that they do not go with.
    #[error(
        "does not go with the algorithm as in the paper, which reveals exact sums at every iterate: it needs {needs}"
    )]
    AsInPaper {
        /// The choices that the algorithm as in the paper needs.
        needs: &'static str,
    },
    /// A target that is no column.
    #[error("is no column of the {columns} that a row has")]
    NoColumn {
        /// Columns of a row.
        columns: usize,
    },
    /// A shape that is no row's.
    #[error("has {axes} axes ({coordinates} coordinates): a row has one")]
    NoRow {
        /// The extents that were given.
        axes: usize,
        /// The product of the extents, saturated.
        coordinates: usize,
    },
    /// More iterates to average than a node is to keep.
    #[error("makes every node keep {found} bytes of iterates for their mean, more than {most}")]
    Iterates {
        /// The bytes that these settings take.
        found: u64,
        /// The most that a plan may ask for.
        most: u64,
    },
    /// A step that follows from the length of rows, which may be anything.
    #[error("is \"auto\", which follows from the length of rows, but rows = \"as-is\"")]
    StepOfAnyRows,
    /// A tensor that the other key does not have, or that is none.
    #[error("{what} {name:?}")]
    Tensor {
        /// The error in the tensor.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A shape that is not that of the tensors together.
    #[error("does not match data.tensors, which have {found} coordinates in total")]
    TensorShape {
        /// The number of coordinates of all tensors together.
        found: usize,
    },
    /// More rows than f64 adds up well enough.
    #[error("is \"by-program\" for a party with {numbers} numbers in all its rows")]
    Summed {
        /// The party's rows times their coordinates.
        numbers: u64,
    },
    /// Numbers that make no set of models.
    #[error("is not usable: {0}")]
    Set(NoSet),
    /// A sum whose readers could subtract all messages but one honest party's.
    #[error("makes {against} that may be against a party, who can read a circle of {others} others")]
    Circle {
        /// The members of the smallest circle besides its reader.
        others: usize,
        /// Colluders and departures.
        against: usize,
    },
    /// A description that is none.
    #[error("{0}")]
    Description(DescriptionFault),
    /// Something that plans do not carry yet.
    #[error("is {found}, which this version does not run yet")]
    NotYet {
        /// The value that was found.
        found: &'static str,
        /// The alternative that this version runs.
        alternative: &'static str,
    },
}

/// Without hundreds of zeros.
fn readable(number: f64) -> String {
    if number == 0.0 || (1e-5..1e15).contains(&number.abs()) {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

impl Problem {
    /// Returns the repair of this problem, for a person.
    pub fn fix(&self) -> String {
        match self {
            Problem::Missing { example } => format!("add a line such as {example}"),
            Problem::Version { .. } => "write version = 1".into(),
            Problem::Name => "use 1 to 64 letters, digits, spaces or . _ -".into(),
            Problem::Range { expected, .. } => format!("it must be {expected}"),
            Problem::Count { least, most, .. } if least == most => format!("write {least}"),
            Problem::Count { least, most, .. } => format!("choose a number from {least} to {most}"),
            Problem::Shape { .. } => {
                format!(
                    "list 1 to 32 extents of at least 1 each, with a product of at most {MOST_COORDINATES}"
                )
            }
            Problem::BoundCount { expected, .. } => format!("give one number, or a list of {expected}"),
            Problem::ColumnCount { expected, .. } => format!("name all {expected}, or leave the key out"),
            Problem::ColumnName { .. } => {
                "give each a different name of 1 to 256 characters, without spaces around it".into()
            }
            Problem::BoxOrder { .. } => "every low must be a finite number below its high".into(),
            Problem::OnlyFor { .. } => "leave the key out".into(),
            Problem::Dropouts { .. } => "lower privacy.dropouts or privacy.colluding, or add parties".into(),
            Problem::Pace { .. } => "lower run.pace_ms or raise run.round_ms".into(),
            Problem::Injection(_) => "correct mechanism.injection, or use \"incremental\"".into(),
            Problem::Rounds { expected, .. } => format!("leave it out, or write rounds = {expected}"),
            Problem::ExactSum => "use \"calibrated\", or add accept_exact_sum = true if that is meant".into(),
            Problem::AsInPaper { .. } => "what you want is task = \"regression\"".into(),
            Problem::NoColumn { .. } => {
                "write \"last\", a name of data.columns, or a column's number from 0".into()
            }
            Problem::NoRow { .. } => "write shape = [columns], the target's column included".into(),
            Problem::Iterates { .. } => {
                "choose fewer model.iterations or a smaller model.average: 0 keeps the last one only".into()
            }
            Problem::StepOfAnyRows => "write a number, or rows = \"unit\"".into(),
            Problem::Tensor { .. } => {
                "give every tensor that is averaged its extents (data.tensors), and its radius where \
                 each is clipped (data.clip)"
                    .into()
            }
            Problem::TensorShape { found } => format!("leave data.shape out, or write shape = [{found}]"),
            Problem::Summed { .. } => "leave it to the node: clipped = \"by-node\"".into(),
            Problem::Set(_) => "correct model.set, or write { kind = \"none\" }".into(),
            Problem::Circle { .. } => {
                "write sums = \"everybody\", give parties more neighbours, or lower privacy.colluding or \
                 privacy.dropouts"
                    .into()
            }
            Problem::Description(fault) => fault.fix(),
            Problem::NotYet { alternative, .. } => format!("use {alternative}"),
        }
    }
}

/// The result of a check: a value, or a dotted key and the problem of its value.
pub(crate) type Checked<T = ()> = Result<T, (String, Problem)>;

pub(crate) fn refuse(field: &str, problem: Problem) -> Checked {
    Err((field.to_string(), problem))
}

pub(crate) fn require(holds: bool, field: &str, problem: impl FnOnce() -> Problem) -> Checked {
    if holds { Ok(()) } else { refuse(field, problem()) }
}

pub(crate) fn count(field: &str, found: u64, least: u64, most: u64) -> Checked {
    require((least..=most).contains(&found), field, || Problem::Count {
        found,
        least,
        most,
    })
}
