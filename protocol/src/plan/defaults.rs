//! The one table of defaults. The parser fills gaps from it, `--help` and the documentation print
//! it, and an unknown key is looked up in it.

use std::ops::Bound;

use crate::plan::run_file::limits::{
    LONGEST_MS, MOST_ATTEMPTS, MOST_AVERAGING, MOST_COORDINATES, MOST_EXCHANGE_ROUNDS, MOST_FANOUT,
    MOST_GOSSIP, MOST_ITERATIONS, MOST_PARTIES, MOST_RECORDS,
};
use crate::plan::run_file::settings::TaskName;
use crate::plan::values::{ANY_NUMBER, ANY_TEXT, BELOW_ONE, CHANCE, NOT_NEGATIVE, POSITIVE, Values};
use TaskName::{Describe, LinearEquations, Mean, Optimise, Regression, Rounds, Stream};

/// One key of `run.toml`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// The table of the run file that has the key; "" at the top.
    pub section: &'static str,
    /// The key without its table.
    pub key: &'static str,
    /// The tasks that have the key, in the order of [`TaskName::ALL`]; empty in a file that has no
    /// tasks.
    pub tasks: &'static [TaskName],
    /// The default as TOML text; None: there is none.
    pub default: Option<&'static str>,
    /// The default for `local`, where that differs.
    pub local: Option<&'static str>,
    /// The values that it takes.
    pub values: Values,
    /// The unit of its values; "" if they have none.
    pub unit: &'static str,
    /// A value as TOML text that shows more than the default does; None: the default shows enough.
    pub example: Option<&'static str>,
    /// The explanation of the setting, for a person.
    pub explanation: &'static str,
}

/// The set of defaults that fills the gaps of a run file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defaults {
    /// `plan`: a run between machines.
    File,
    /// `local`: a cluster on loopback.
    Local,
}

impl Setting {
    /// The dotted name, as messages call it: "privacy.epsilon".
    pub fn field(&self) -> String {
        if self.section.is_empty() {
            self.key.to_string()
        } else {
            format!("{}.{}", self.section, self.key)
        }
    }

    /// The line that opens its table; of a list's entries one that opens one more.
    pub fn header(&self) -> String {
        match self.section.contains('.') {
            true => format!("[[{}]]", self.section),
            false => format!("[{}]", self.section),
        }
    }

    /// The names of the tasks that have the key; `None` where every one has it, or the file has no
    /// tasks.
    pub fn task_names(&self) -> Option<Vec<&'static str>> {
        let some = (1..ALL.len()).contains(&self.tasks.len());
        some.then(|| self.tasks.iter().map(|task| task.name()).collect())
    }

    /// Some value as TOML text, to begin with; None: of a key that has neither a default nor an
    /// example.
    pub fn shown(&self) -> Option<&'static str> {
        self.example.or(self.default)
    }

    /// The default as TOML text.
    pub fn value(&self, defaults: Defaults) -> Option<&'static str> {
        match defaults {
            Defaults::File => self.default,
            Defaults::Local => self.local.or(self.default),
        }
    }
}

const fn setting(
    (section, key): (&'static str, &'static str),
    tasks: &'static [TaskName],
    default: &'static str,
    (values, unit): (Values, &'static str),
    explanation: &'static str,
) -> Setting {
    Setting {
        section,
        key,
        tasks,
        default: Some(default),
        local: None,
        values,
        unit,
        example: None,
        explanation,
    }
}

impl Setting {
    const fn or_local(self, local: &'static str) -> Self {
        Setting {
            local: Some(local),
            ..self
        }
    }

    /// A key of a file that has no tasks.
    pub const fn of_file(
        (section, key): (&'static str, &'static str),
        default: Option<&'static str>,
        (values, unit): (Values, &'static str),
        explanation: &'static str,
    ) -> Self {
        Setting {
            section,
            key,
            tasks: &[],
            default,
            local: None,
            values,
            unit,
            example: None,
            explanation,
        }
    }

    /// Nothing fills the gap; `example` is a value for it.
    const fn without_default(self, example: &'static str) -> Self {
        Setting {
            default: None,
            example: Some(example),
            ..self
        }
    }

    /// With a value as TOML text that shows more than the default does.
    pub const fn such_as(self, example: &'static str) -> Self {
        Setting {
            example: Some(example),
            ..self
        }
    }
}

/// Every task.
const ALL: &[TaskName] = &TaskName::ALL;
/// The tasks whose plans claim an ε.
const CLAIMED: &[TaskName] = &[Mean, Describe, Regression, Rounds, Stream];
/// The tasks whose parties contribute vectors, or rows of numbers.
const VECTORS: &[TaskName] = &[Mean, Regression, Rounds, Stream, LinearEquations, Optimise];
/// PPSC's Algorithms 3 and 4.
const RECURSIONS: &[TaskName] = &[LinearEquations, Optimise];

/// The ways in which finals spread.
const SPREADING: Values = Values::Words(&["auto", "flood", "slices", "consensus"]);

const TASKS: Values = Values::Words(&[
    Mean.name(),
    Describe.name(),
    Regression.name(),
    Rounds.name(),
    Stream.name(),
    LinearEquations.name(),
    Optimise.name(),
]);
const EXTENT: Values = Values::Whole(1, MOST_COORDINATES as u64);
/// A column's name.
const NAME: Values = Values::Text("^\\S(.{0,254}\\S)?$", "a name");
/// Texts of cells; numbers and flags are texts, too.
const TEXTS: Values = Values::List(
    &Values::OneOf(&[Values::Text("", "a text"), ANY_NUMBER, Values::Flag]),
    0,
);
const WANT: Values = Values::List(
    &Values::Words(&[
        "mean",
        "quantiles",
        "histogram",
        "survival",
        "magnitude",
        "counts",
    ]),
    1,
);
/// A part of the budget, beside others.
const PORTION: Values = Values::Number(Bound::Excluded(0.0), Bound::Included(1000.0));
/// A count of parties, or of shares between pairs of them.
const PARTIES: Values = Values::Whole(0, MOST_PARTIES as u64);
const TIME: Values = Values::Whole(1, LONGEST_MS);
const SETTLE: Values = Values::Whole(4, LONGEST_MS);
const ROUNDS: Values = Values::OneOf(&[
    Values::Words(&["auto"]),
    Values::Whole(1, MOST_EXCHANGE_ROUNDS as u64),
]);
const PAIRWISE_STD: Values = Values::OneOf(&[POSITIVE, Values::Words(&["theorem"])]);
/// A column by its name or its place.
const COLUMN: Values = Values::OneOf(&[
    Values::Words(&["last"]),
    NAME,
    Values::Whole(0, MOST_COORDINATES as u64),
]);
const SHARE: Values = Values::Number(Bound::Included(0.0), Bound::Included(1.0));
const WEIGHT: Values = Values::Number(Bound::Included(0.01), Bound::Included(1e6));
/// One bound for all coordinates, or one for each.
const BOUNDS: Values = Values::OneOf(&[ANY_NUMBER, Values::List(&ANY_NUMBER, 1)]);
const BOX: Values = Values::Table(&[
    ("kind", Values::Words(&["box"])),
    ("low", BOUNDS),
    ("high", BOUNDS),
]);
const SAME_BOX: Values = Values::Table(&[
    ("kind", Values::Words(&["box"])),
    ("low", ANY_NUMBER),
    ("high", ANY_NUMBER),
]);
const CLIP: Values = Values::OneOf(&[
    Values::Table(&[("kind", Values::Words(&["l2"])), ("radius", POSITIVE)]),
    BOX,
    Values::Table(&[
        ("kind", Values::Words(&["tensors"])),
        ("radius", Values::Named(&POSITIVE)),
    ]),
]);
const ROWS: Values = Values::Whole(1, MOST_RECORDS);
const EACH: Values = Values::OneOf(&[ROWS, Values::Named(&ROWS)]);
const RECORDS: Values = Values::OneOf(&[ROWS, Values::Named(&ROWS), Values::Table(&[("at_most", EACH)])]);
const TEMPLATE: Values = Values::OneOf(&[
    ANY_TEXT,
    Values::Table(&[("sha256", Values::Text("^[0-9a-f]{64}$", "64 hex digits"))]),
]);
const STEP: Values = Values::OneOf(&[
    Values::Words(&["auto"]),
    POSITIVE,
    Values::Table(&[("kind", Values::Words(&["inverse"])), ("first", POSITIVE)]),
]);
const SET: Values = Values::OneOf(&[
    Values::Table(&[("kind", Values::Words(&["none"]))]),
    Values::Table(&[("kind", Values::Words(&["ball"])), ("radius", POSITIVE)]),
    SAME_BOX,
    Values::Table(&[("kind", Values::Words(&["simplex"])), ("total", POSITIVE)]),
    Values::Table(&[
        ("kind", Values::Words(&["affine"])),
        ("a", Values::List(&Values::List(&ANY_NUMBER, 1), 1)),
        ("b", Values::List(&ANY_NUMBER, 1)),
    ]),
]);
const AVERAGING: Values = Values::OneOf(&[
    Values::Table(&[("kind", Values::Words(&["exact"]))]),
    Values::Table(&[
        ("kind", Values::Words(&["paper"])),
        ("rounds", Values::Whole(1, MOST_AVERAGING)),
        (
            "?weight",
            Values::Number(Bound::Excluded(0.0), Bound::Included(1.0)),
        ),
    ]),
]);
const EDGES: Values = Values::OneOf(&[
    Values::Words(&["all", "matching"]),
    Values::Table(&[("degree", Values::Whole(1, MOST_PARTIES as u64))]),
]);
/// An exact number.
const FRACTION: Values = Values::Text("^ *-? *[0-9]+( */ *[0-9]+|[.][0-9]+)? *$", "\"1/3\"");
const INJECTION: Values = Values::OneOf(&[
    Values::Words(&["incremental", "early"]),
    Values::Table(&[
        ("c", Values::List(&FRACTION, 1)),
        ("z", Values::List(&Values::List(&FRACTION, 1), 1)),
    ]),
]);
const PAIR: Values = Values::List(&Values::Text("^[a-z0-9-]{1,32}$", "name"), 2);
const GRAPH: Values = Values::OneOf(&[
    Values::Words(&["complete", "ring"]),
    Values::Table(&[("kind", Values::Words(&["complete"]))]),
    Values::Table(&[("kind", Values::Words(&["ring"]))]),
    Values::Table(&[
        ("kind", Values::Words(&["random-regular"])),
        ("degree", Values::Whole(1, MOST_PARTIES as u64)),
    ]),
    Values::Table(&[
        ("kind", Values::Words(&["edges"])),
        ("edges", Values::List(&PAIR, 0)),
    ]),
]);

/// Every key of `run.toml`, in the order of the file. A key has one row for the tasks that share a
/// default and an explanation, and belongs to no others.
#[rustfmt::skip] // a table: one line a row
pub const SETTINGS: &[Setting] = &[
    setting(("", "version"), ALL, "1", (Values::Whole(1, 1), ""), "version of this format"),
    setting(("", "task"), ALL, r#""mean""#, (TASKS, ""),
        "what is computed: see undertone help TASK"),
    setting(("", "name"), ALL, "", (Values::Text("^[a-z0-9-]{1,64}$", "[a-z0-9-], 1 to 64"), ""),
        "name of the run, shown everywhere; part of the plan").without_default(r#""aarhus-2026-03""#).or_local(r#""local""#),
    setting(("data", "shape"), VECTORS, "", (Values::List(&EXTENT, 1), "extents"),
        "shape of a party's vector, or of one row (local: the files')").without_default("[31]"),
    setting(("data", "unit"), &[Mean, Rounds], r#""party""#, (Values::Words(&["party", "record"]), ""),
        "whose change is hidden: a party's whole vector, or one row"),
    setting(("data", "unit"), &[Regression], r#""record""#, (Values::Words(&["party", "record"]), ""),
        "whose change is hidden: a party's rows, or one row"),
    setting(("data", "adjacency"), CLAIMED, r#""replace-one""#, (Values::Words(&["replace-one", "zero-out"]), ""),
        "how that unit may change: into anything in range, or into zero"),
    setting(("data", "clip"), &[Mean, Rounds, Stream], r#"{ kind = "l2", radius = 1.0 }"#, (CLIP, "the data's unit"),
        "public range that inputs are clipped to; noise is proportional to it. No default for records, nor for local --inputs").such_as(r#"{ kind = "box", low = 0, high = [120, 250] }"#),
    setting(("data", "clip"), &[Regression], "", (BOX, "the data's unit"),
        "public bounds of the columns, which are brought to [-1, 1]; default: none").without_default(r#"{ kind = "box", low = 0, high = [120, 250] }"#),
    setting(("data", "clip"), RECURSIONS, r#"{ kind = "box", low = -1e6, high = 1e6 }"#, (SAME_BOX, "the state's unit"),
        "where each coordinate of a state is kept"),
    setting(("data", "weights"), &[Mean, Rounds, Regression], "", (Values::Named(&WEIGHT), ""),
        "public weights, unit = \"party\" only; 1 for parties that are not named").without_default("{ aarhus = 2.0, bergen = 0.5 }"),
    setting(("data", "records"), &[Mean, Rounds, Regression, LinearEquations, Optimise], "", (RECORDS, "rows"),
        "each party's rows, one number for all, or a bound below which each says its own (local: from the files)").without_default("{ at_most = 2000 }"),
    setting(("data", "records"), &[Describe], "", (RECORDS, "rows"),
        "each party's rows, one number for all, or a bound (local: the files'); with describe.count = \"private\" the most").without_default("{ at_most = 2000 }"),
    setting(("data", "columns"), VECTORS, "", (Values::List(&NAME, 1), "names"),
        "names along the last axis; a .csv with others is refused (local: the files')").without_default(r#"["age", "weight"]"#),
    setting(("data", "tensors"), &[Mean, Rounds, Stream], "", (Values::Named(&Values::List(&EXTENT, 0)), "extents"),
        "the tensors of a model that is averaged; a .safetensors with others is refused (local: from the files)").without_default(r#"{ "out.weight" = [2, 3], "out.bias" = [2] }"#),
    setting(("data", "template"), &[Rounds], "", (TEMPLATE, ""),
        "with data.tensors: a .safetensors, from this file's folder on, with whose types and tensors of whole numbers the last mean is written; the plan has its SHA-256").without_default(r#""start.safetensors""#),
    setting(("data", "releases"), &[Rounds], "", (Values::Whole(1, MOST_ITERATIONS), "means"),
        "how many means are released, one after the other; all share epsilon").without_default("20"),
    setting(("data", "releases"), &[Stream], "", (Values::Whole(1, MOST_EXCHANGE_ROUNDS as u64), "rows"),
        "how many rows a party brings, one a round; all share epsilon").without_default("100"),
    setting(("data", "result"), &[Rounds], r#""mean""#, (Values::Words(&["mean", "sum"]), ""),
        "what each release comes to"),
    setting(("data", "clipped"), &[Rounds], r#""by-node""#, (Values::Words(&["by-node", "by-program"]), ""),
        "unit = \"record\" only: the node clips each row that a program hands over; or the program does, and hands over their sum"),
    setting(("data", "noise_ok"), CLAIMED, "false", (Values::Flag, ""),
        "a result is meant whose noise is larger than any mean can be"),
    setting(("data", "adaptive"), &[Stream], "false", (Values::Flag, ""),
        "rows may depend on estimates of the run; then nothing is claimed that rests on rows that do not"),
    setting(("describe", "group_by"), &[Describe], "", (NAME, ""),
        "a column with categories: all else is described for each of them, at no further cost").without_default(r#""ward""#),
    setting(("describe", "count"), &[Describe], r#""public""#, (Values::Words(&["public", "private"]), ""),
        "whether everybody knows how many rows each party brings; private: only a capacity, data.records"),
    setting(("describe.column", "name"), &[Describe], "", (NAME, ""),
        "the column, found by its name in each party's .csv or .json; others are never read").without_default(r#""age""#),
    setting(("describe.column", "low"), &[Describe], "", (ANY_NUMBER, "the column's unit"),
        "numbers: the least one, from what is known and never from the data; what is below counts as this").without_default("18"),
    setting(("describe.column", "high"), &[Describe], "", (ANY_NUMBER, "the column's unit"),
        "numbers: the greatest one").without_default("100"),
    setting(("describe.column", "categories"), &[Describe], "", (TEXTS, ""),
        "instead of bounds: the texts that cells may have; all else counts as other").without_default(r#"["yes", "no"]"#),
    setting(("describe.column", "missing"), &[Describe], r#"["", "NA", "N/A", "NaN", "nan", "null", "None"]"#, (TEXTS, ""),
        "cells that are missing, and counted so"),
    setting(("describe.column", "want"), &[Describe], "", (WANT, ""),
        "list of statistics; default: mean of numbers (with deviation, sum and missing cells), counts of categories").without_default(r#"["mean", "quantiles"]"#),
    setting(("describe.column", "bins"), &[Describe], "", (Values::Whole(2, 4096), "bins"),
        "default: 128 for quantiles, 32 for a histogram, 60 for survival").without_default("64"),
    setting(("describe.column", "edges"), &[Describe], "", (Values::List(&ANY_NUMBER, 2), "the column's unit"),
        "instead of bins: where each begins, and the end of the last").without_default("[0, 10, 30]"),
    setting(("describe.column", "whole"), &[Describe], "false", (Values::Flag, ""),
        "a bin for each whole number"),
    setting(("describe.column", "event"), &[Describe], "", (NAME, ""),
        "survival: the column that is 1 where it happened at that time, 0 where the row was censored").without_default(r#""died""#),
    setting(("describe.column", "share"), &[Describe], "1.0", (PORTION, ""),
        "how much of the budget each of its statistics gets, beside others"),
    setting(("describe.table", "columns"), &[Describe], "", (Values::List(&NAME, 1), "names"),
        "columns with categories: how often each combination occurs").without_default(r#"["ward", "smoker"]"#),
    setting(("describe.table", "share"), &[Describe], "1.0", (PORTION, ""),
        "as of a column"),
    setting(("describe.covariance", "columns"), &[Describe], "", (Values::List(&NAME, 2), "names"),
        "2 to 500 columns of numbers: covariances, correlations").without_default(r#"["age", "weight"]"#),
    setting(("describe.covariance", "share"), &[Describe], "", (PORTION, ""),
        "default: half of one more than it has columns").without_default("1.5"),
    setting(("model", "loss"), &[Regression], "", (Values::Words(&["squared", "logistic", "softmax"]), ""),
        "how a model is held against a row's target").without_default(r#""logistic""#),
    setting(("model", "classes"), &[Regression], "", (Values::Whole(2, 1 << 16), "classes"),
        "softmax only: targets are 0 to classes - 1").without_default("10"),
    setting(("model", "target"), &[Regression], r#""last""#, (COLUMN, ""),
        "the column that the others predict").such_as(r#""readmitted""#),
    setting(("model", "target_box"), &[Regression], "", (Values::List(&ANY_NUMBER, 2), "the target's unit"),
        "squared only: targets are clipped to this").without_default("[0, 100]"),
    setting(("model", "intercept"), &[Regression], "true", (Values::Flag, ""),
        "every row gets one more feature, 1"),
    setting(("model", "rows"), &[Regression], r#""unit""#, (Values::Words(&["unit", "clip", "as-is"]), ""),
        "a row's features are scaled to length 1; longer ones are; none is"),
    setting(("model", "method"), &[Regression], r#""descent""#, (Values::Words(&["descent", "statistics"]), ""),
        "step by step from sums of gradients; statistics, squared only: solved from one sum of second moments"),
    setting(("model", "clip"), &[Regression], "0.5", (POSITIVE, "length"),
        "most that a row's gradient counts, which noise is proportional to; squared has no default. statistics: a row's length"),
    setting(("model", "iterations"), &[Regression], "50", (Values::Whole(1, MOST_ITERATIONS), "iterations"),
        "how many sums of gradients are released; all share epsilon"),
    setting(("model", "step"), &[Regression], r#""auto""#, (STEP, ""),
        "how far an iteration goes; auto: 2 / smoothness with rows of length 1").such_as(r#"{ kind = "inverse", first = 1.0 }"#),
    setting(("model", "momentum"), &[Regression], "0.8", (BELOW_ONE, ""),
        "the share of the last step's direction that stays"),
    setting(("model", "ridge"), &[Regression], "0.0", (Values::OneOf(&[NOT_NEGATIVE, Values::Words(&["auto"])]), ""),
        "what the gradient grows by for each length of the model; auto, statistics only: 0.15 times the expected spectral norm of the noise"),
    setting(("model", "set"), &[Regression], r#"{ kind = "none" }"#, (SET, ""),
        "where the model is kept").such_as(r#"{ kind = "ball", radius = 5.0 }"#),
    setting(("model", "average"), &[Regression], "0.5", (SHARE, ""),
        "share of the iterates, from the end, whose mean is the model; 0: last"),
    setting(("recursion", "iterations"), RECURSIONS, "", (Values::Whole(1, MOST_ITERATIONS), "iterations"),
        "outer iterations, each of multi-gossip, averaging and a local step").without_default("300"),
    setting(("recursion", "accuracy"), RECURSIONS, "1e-2", (POSITIVE, "squared error"),
        "to be reached; states are multiples of a thousandth of it, or of less"),
    setting(("recursion", "step"), RECURSIONS, r#""auto""#, (STEP, ""),
        "how far a local step goes that is no projection; auto: 1/(l + 1)"),
    setting(("recursion", "start"), RECURSIONS, "", (Values::List(&ANY_NUMBER, 0), "the state's unit"),
        "where all begin; without it at 0").without_default("[0.0, 1.0]"),
    setting(("recursion", "averaging"), RECURSIONS, r#"{ kind = "exact" }"#, (AVERAGING, ""),
        "how all come to the mean: exactly, or in so many rounds with edges of one weight (without it 1/n)").such_as(r#"{ kind = "paper", rounds = 40 }"#),
    setting(("recursion", "gossip_iterations"), RECURSIONS, "26", (Values::Whole(1, MOST_GOSSIP), "iterations"),
        "multi-gossip in each outer iteration"),
    setting(("recursion", "pairwise_std"), RECURSIONS, "1.0", (PAIRWISE_STD, "the state's unit"),
        "noise of an exchange; no epsilon follows from it. theorem: what the paper's Theorem 3 or 4 asks for at epsilon and delta"),
    setting(("recursion", "set"), RECURSIONS, r#"{ kind = "none" }"#, (SET, ""),
        "where a state is kept after each local step").such_as(r#"{ kind = "box", low = -10.0, high = 10.0 }"#),
    setting(("recursion", "loss"), &[Optimise], "", (Values::Words(&["squared", "logistic"]), ""),
        "how a state is held against a row's target").without_default(r#""logistic""#),
    setting(("recursion", "ridge"), &[Optimise], "0.0", (NOT_NEGATIVE, ""),
        "what a party's gradient grows by for each length of the state"),
    setting(("recursion", "gradient_change"), &[Optimise], "", (POSITIVE, "the gradient's unit"),
        "for pairwise_std = \"theorem\": a public bound on how far a party's gradient changes when its parameters change by 1").without_default("0.5"),
    setting(("recursion", "solution_norm"), &[LinearEquations], "", (POSITIVE, "the state's unit"),
        "for pairwise_std = \"theorem\": a public bound on the length of the solution").without_default("20.0"),
    setting(("recursion", "contraction"), &[LinearEquations], "", (BELOW_ONE, ""),
        "for pairwise_std = \"theorem\": a public bound on the share of an error that an iteration leaves; without it the largest with which iterations are enough").without_default("0.98"),
    setting(("recursion", "inconsistent"), &[LinearEquations], "", (Values::Words(&["least-squares", "normalised"]), ""),
        "equations without a common solution; \"normalised\": rows scaled to length 1, as in the paper").without_default(r#""least-squares""#),
    setting(("privacy", "epsilon"), ALL, "1.0", (POSITIVE, ""),
        "ε, the most that a coalition may learn about one unit"),
    setting(("privacy", "delta"), ALL, "1e-6", (CHANCE, ""),
        "δ, the chance that ε does not hold; well below 1 / number of people"),
    setting(("privacy", "colluding"), ALL, "1", (PARTIES, "parties"),
        "size of the coalitions that the claims cover"),
    setting(("privacy", "coalitions"), &[Mean], r#""any""#, (Values::Words(&["any", "static"]), ""),
        "whether the coalition may know the schedule when it forms"),
    setting(("privacy", "dropouts"), CLAIMED, "1", (PARTIES, "parties"),
        "departures that the claims tolerate; 0 for three parties"),
    setting(("privacy", "share_faults"), &[Mean, Describe, Rounds, Regression], "", (PARTIES, "shares"),
        "uniform noise that is mixed only: shares between survivors that may go astray without cost; default: 1, or 0 where the private graph has no room").without_default("1"),
    setting(("privacy", "protect"), &[Stream], r#""all""#, (Values::Words(&["all", "one"]), ""),
        "whether all of a party's rows may change, or one of them"),
    setting(("mechanism", "kind"), &[Mean], r#""inca""#, (Values::Words(&["inca", "ppsc", "pairwise"]), ""),
        "how values travel, and which noise cancels: INCA, PPSC, or masks of pairs").such_as(r#""pairwise""#),
    setting(("mechanism", "kind"), &[Describe], r#""inca""#, (Values::Words(&["inca", "pairwise"]), ""),
        "how values travel: mixed by INCA, or under masks of pairs"),
    setting(("mechanism", "kind"), &[Rounds, Regression], "", (Values::Words(&["inca", "pairwise"]), ""),
        "how values travel; default: inca, whose noise is precomputed, where run.precomputed_bytes holds it, else masks of pairs").without_default(r#""pairwise""#),
    setting(("mechanism", "sums"), &[Stream], r#""everybody""#, (Values::Words(&["open", "neighbours", "everybody"]), ""),
        "what one reader reads of a round: each neighbour's message, and its own noise alone hides a value; the sum of its neighbours'; everybody's sum"),
    setting(("mechanism", "edges"), &[Stream], r#""all""#, (EDGES, ""),
        "which edges of the private graph are active in a round, by chance").such_as("{ degree = 3 }"),
    setting(("mechanism", "correlated"), &[Mean], "", (Values::Words(&["uniform", "gaussian"]), ""),
        "the noise that cancels in the sum; default: uniform over residues, but gaussian where something is asked for that only goes with it").without_default(r#""gaussian""#),
    setting(("mechanism", "injection"), &[Mean], "", (INJECTION, ""),
        "gaussian inca: how value and noise enter a state; default: incremental").without_default(r#""early""#),
    setting(("mechanism", "rounds"), &[Mean, Describe, Rounds, Regression, Stream], r#""auto""#, (ROUNDS, "rounds"),
        "rounds of mixing; ppsc: network rounds, filled with as many iterations as fit; a stream has one a row").such_as("8"),
    setting(("mechanism", "fanout"), &[Mean], "1", (Values::Whole(1, MOST_FANOUT as u64), "parties"),
        "gaussian inca: shares that a party sends in a round"),
    setting(("mechanism", "rollback"), &[Mean], "true", (Values::Flag, ""),
        "gaussian inca: take departed parties out again; false: the paper's protocol"),
    setting(("mechanism", "independent_noise"), &[Mean], r#""calibrated""#, (Values::Words(&["calibrated", "none"]), ""),
        "ppsc: noise that does not cancel"),
    setting(("mechanism", "accept_exact_sum"), &[Mean, LinearEquations, Optimise], "false", (Values::Flag, ""),
        "ppsc: exact sums are revealed without such noise, and that is meant"),
    setting(("mechanism", "local_noise_ok"), &[Mean], "false", (Values::Flag, ""),
        "ppsc: allow components so small that the noise is local"),
    setting(("topology", "private"), ALL, r#"{ kind = "complete" }"#, (GRAPH, ""),
        "pairs that may exchange shares over encrypted channels").such_as(r#"{ kind = "random-regular", degree = 6 }"#),
    setting(("topology", "public"), ALL, r#"{ kind = "complete" }"#, (GRAPH, ""),
        "pairs that exchange in the clear, signed").such_as(r#""ring""#),
    setting(("run", "min_parties"), ALL, "", (PARTIES, "parties"),
        "fewest that may start and publish; default and least: parties - dropouts").without_default("7"),
    setting(("run", "dissemination"), &[Mean, Describe, Rounds, Regression], r#""auto""#, (SPREADING, ""),
        "how finals spread"),
    setting(("run", "sealed"), &[Mean], "", (Values::Flag, ""),
        "finals leave sealed, with the logs, and are opened for one agreed set or for none; default: true with uniform noise, which alone has it").without_default("true"),
    setting(("run", "join_ms"), ALL, "120000", (TIME, "ms"),
        "time to wait for the others, and again for their STARTs").or_local("10000"),
    setting(("run", "grace_ms"), ALL, "", (Values::Whole(0, LONGEST_MS), "ms"),
        "how long to wait for parties that cannot be reached, once all others are ready and enough; default: join_ms; 2000 where a daemon proposes").without_default("30000"),
    setting(("run", "accept_by"), ALL, "", (Values::Text("^ *[0-9]+ *(d|h|min|s) *$", "a time from \"1s\" to \"30d\""), "d, h, min, s"),
        "how long members may take to accept what a daemon proposes; default: \"3d\"").without_default(r#""2d""#),
    setting(("run", "round_ms"), ALL, "2000", (TIME, "ms"),
        "round r ends at the latest r times this after START; secure sums of a stream: 4 times settle_ms").or_local("1000"),
    setting(("run", "settle_ms"), &[Mean, Describe, Stream, LinearEquations, Optimise], "4000", (SETTLE, "ms"),
        "for settling after the last round, and for publishing").or_local("2000"),
    setting(("run", "iteration_ms"), &[Rounds, Regression], "8000", (Values::Whole(8, LONGEST_MS), "ms"),
        "contribution, flood and vote of one iteration").or_local("4000"),
    setting(("run", "precomputed_bytes"), &[Rounds, Regression], "268435456", (Values::Whole(0, u64::MAX), "bytes"),
        "the most that precomputed noise may hold on a node"),
    setting(("run", "mixing_attempts"), &[Rounds, Regression], "3", (Values::Whole(1, MOST_ATTEMPTS), ""),
        "how often noise is mixed before a training gives up; costs no privacy"),
    setting(("run", "accuracy"), &[Mean, Stream], "1e-3", (POSITIVE, "standard errors"),
        "consensus, and a stream of one row: largest difference between nodes"),
    setting(("run", "pace_ms"), ALL, "0", (Values::Whole(0, LONGEST_MS), "ms"),
        "a round lasts at least this long (demonstrations, tests); at most round_ms"),
];

/// Every task, the one that a file without a word on it means first.
pub fn tasks() -> &'static [TaskName] {
    ALL
}

/// Whether `field`, the dotted name of a key or table, belongs to a task; `None` for a name that no
/// task has.
pub fn belongs(field: &str, task: TaskName) -> Option<bool> {
    let tasks = tasks_of(field);
    (!tasks.is_empty()).then(|| tasks.contains(&task))
}

/// The tasks that a key, or a table by its keys, belongs to.
pub fn tasks_of(field: &str) -> Vec<TaskName> {
    let named = |setting: &&Setting| setting.field() == field || setting.section == field;
    let tasks = SETTINGS.iter().filter(named).flat_map(|setting| setting.tasks);
    let mut tasks: Vec<TaskName> = tasks.copied().collect();
    tasks.sort();
    tasks.dedup();
    tasks
}

/// The keys of a task, in the order of the file.
pub fn settings_of(task: TaskName) -> impl Iterator<Item = &'static Setting> {
    SETTINGS
        .iter()
        .filter(move |setting| setting.tasks.contains(&task))
}

/// `run.grace_ms` where all members run already, in milliseconds: in what a daemon proposes. Our
/// guess: a process that is restarted is back within it, and a machine that is not there costs a
/// run no more.
pub const GRACE_MS: u64 = 2000;

/// The defaults of a task as one TOML document, sections in order.
pub fn document(task: TaskName, defaults: Defaults) -> String {
    let mut text = String::new();
    let mut section = "";
    for setting in settings_of(task) {
        if setting.section != section {
            section = setting.section;
            text.push_str(&format!("{}\n", setting.header()));
        }
        if let Some(value) = setting.value(defaults) {
            text.push_str(&format!("{} = {value}\n", setting.key));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_differs_where_it_should() {
        let value = |field: &str, defaults| {
            settings_of(Mean)
                .find(|s| s.field() == field)
                .unwrap()
                .value(defaults)
        };
        assert_eq!(value("run.join_ms", Defaults::File), Some("120000"));
        assert_eq!(value("run.join_ms", Defaults::Local), Some("10000"));
        assert_eq!(value("run.round_ms", Defaults::Local), Some("1000"));
        assert_eq!(value("run.settle_ms", Defaults::Local), Some("2000"));
        assert_eq!(value("name", Defaults::File), None);
        assert_eq!(value("privacy.delta", Defaults::Local), Some("1e-6"));
    }

    #[test]
    fn sections_are_contiguous_and_keys_unique() {
        for task in TaskName::ALL {
            let mut fields: Vec<String> = settings_of(task).map(Setting::field).collect();
            let found = fields.len();
            let text = document(task, Defaults::File);
            let mut sections: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
            let written = sections.len();
            sections.sort();
            sections.dedup();
            assert_eq!(sections.len(), written, "{task:?}");
            fields.sort();
            fields.dedup();
            assert_eq!(fields.len(), found, "{task:?}");
        }
    }
}
