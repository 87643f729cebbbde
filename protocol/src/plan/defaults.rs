//! The one table of defaults. The parser fills gaps from it, `--help` and the documentation print
//! it, and an unknown key is looked up in it.

use crate::plan::run_file::settings::TaskName;
use TaskName::{Describe, LinearEquations, Mean, Optimise, Regression, Rounds, Stream};

/// One key of `run.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The unit of its values, or the choices.
    pub unit: &'static str,
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
    unit: &'static str,
    explanation: &'static str,
) -> Setting {
    Setting {
        section,
        key,
        tasks,
        default: Some(default),
        local: None,
        unit,
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

    const fn without_default(self) -> Self {
        Setting {
            default: None,
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

/// Every key of `run.toml`, in the order of the file. A key has one row for the tasks that share a
/// default and an explanation, and belongs to no others.
#[rustfmt::skip] // a table: one line a row
pub const SETTINGS: &[Setting] = &[
    setting(("", "version"), ALL, "1", "1", "version of this format"),
    setting(("", "task"), ALL, r#""mean""#, r#""mean", "describe", "regression", "rounds", "stream", "linear-equations", "optimise""#,
        "what is computed: see undertone help TASK"),
    setting(("", "name"), ALL, "", "[a-z0-9-], 1 to 64",
        "name of the run, shown everywhere; part of the plan").without_default().or_local(r#""local""#),
    setting(("data", "shape"), VECTORS, "", "list of extents",
        "shape of one party's vector, or of one row (local: from the files)").without_default(),
    setting(("data", "unit"), &[Mean, Rounds], r#""party""#, r#""party", "record""#,
        "whose change is hidden: a party's whole vector, or one row"),
    setting(("data", "unit"), &[Regression], r#""record""#, r#""party", "record""#,
        "whose change is hidden: a party's rows together, or one row"),
    setting(("data", "adjacency"), CLAIMED, r#""replace-one""#, r#""replace-one", "zero-out""#,
        "how that unit may change: into anything in range, or into zero"),
    setting(("data", "clip"), &[Mean, Rounds, Stream], r#"{ kind = "l2", radius = 1.0 }"#, "the data's unit",
        "public range that inputs are clipped to; noise is proportional to it. Or { kind = \"box\", low, high }, numbers or a list each; { kind = \"tensors\", radius = { name = number } }. No default for records, nor for local --inputs"),
    setting(("data", "clip"), &[Regression], "", "the data's unit",
        "{ kind = \"box\", low, high }: public bounds of the columns, which are brought to [-1, 1] by them; default: as they are").without_default(),
    setting(("data", "clip"), RECURSIONS, r#"{ kind = "box", low = -1e6, high = 1e6 }"#, "the state's unit",
        "where each coordinate of a state is kept"),
    setting(("data", "weights"), &[Mean, Rounds, Regression], "", "{ name = number }",
        "public weights, unit = \"party\" only; 1 for parties that are not named").without_default(),
    setting(("data", "records"), &[Mean, Rounds, Regression, LinearEquations, Optimise], "", "{ name = rows }",
        "each party's rows, or a number for all, or { at_most } (local: from the files)").without_default(),
    setting(("data", "records"), &[Describe], "", "{ name = rows }",
        "each party's rows, or a number for all, or { at_most } (local: from the files); with describe.count = \"private\" the most that each may bring").without_default(),
    setting(("data", "columns"), VECTORS, "", "list of names",
        "names along the last axis; a .csv with others is refused (local: from the files)").without_default(),
    setting(("data", "tensors"), &[Mean, Rounds, Stream], "", "{ name = extents }",
        "the tensors of a model that is averaged; a .safetensors with others is refused (local: from the files)").without_default(),
    setting(("data", "template"), &[Rounds], "", "FILE, or { sha256 }",
        "with data.tensors: a .safetensors, from this file's folder on, with whose types and tensors of whole numbers the last mean is written; the plan has its SHA-256").without_default(),
    setting(("data", "releases"), &[Rounds], "", "means",
        "how many means are released, one after the other; all share epsilon").without_default(),
    setting(("data", "releases"), &[Stream], "", "rows",
        "how many rows a party brings, one a round; all share epsilon").without_default(),
    setting(("data", "result"), &[Rounds], r#""mean""#, r#""mean", "sum""#,
        "what each release comes to"),
    setting(("data", "clipped"), &[Rounds], r#""by-node""#, r#""by-node", "by-program""#,
        "unit = \"record\" only: the node clips each row that a program hands over; or the program does, and hands over their sum"),
    setting(("data", "noise_ok"), CLAIMED, "false", "true, false",
        "a result is meant whose noise is larger than any mean can be"),
    setting(("data", "adaptive"), &[Stream], "false", "true, false",
        "rows may depend on estimates of the run; then nothing is claimed that rests on rows that do not"),
    setting(("describe", "group_by"), &[Describe], "", "a column's name",
        "a column with categories: all else is described for each of them, at no further cost").without_default(),
    setting(("describe", "count"), &[Describe], r#""public""#, r#""public", "private""#,
        "whether everybody knows how many rows each party brings; private: only a capacity, data.records"),
    setting(("describe.column", "name"), &[Describe], "", "a name",
        "the column, found by its name in each party's .csv or .json; others are never read").without_default(),
    setting(("describe.column", "low"), &[Describe], "", "the column's unit",
        "numbers: the least one, from what is known and never from the data; what is below counts as this").without_default(),
    setting(("describe.column", "high"), &[Describe], "", "the column's unit",
        "numbers: the greatest one").without_default(),
    setting(("describe.column", "categories"), &[Describe], "", "list of texts",
        "instead of bounds: the texts that cells may have; all else counts as other").without_default(),
    setting(("describe.column", "missing"), &[Describe], r#"["", "NA", "N/A", "NaN", "nan", "null", "None"]"#, "list of texts",
        "cells that are missing, and counted so"),
    setting(("describe.column", "want"), &[Describe], "", r#""mean", "quantiles", "histogram", "survival", "magnitude", "counts""#,
        "list of statistics; default: mean of numbers (with deviation, sum and missing cells), counts of categories").without_default(),
    setting(("describe.column", "bins"), &[Describe], "", "bins",
        "2 to 4096; default: 128 for quantiles, 32 for a histogram, 60 for survival").without_default(),
    setting(("describe.column", "edges"), &[Describe], "", "list of numbers",
        "instead of bins: where each begins, and the end of the last").without_default(),
    setting(("describe.column", "whole"), &[Describe], "false", "true, false",
        "a bin for each whole number"),
    setting(("describe.column", "event"), &[Describe], "", "a column's name",
        "survival: the column that is 1 where it happened at that time, 0 where the row was censored").without_default(),
    setting(("describe.column", "share"), &[Describe], "1.0", "above 0, to 1000",
        "how much of the budget each of its statistics gets, beside others"),
    setting(("describe.table", "columns"), &[Describe], "", "names",
        "columns with categories: how often each combination occurs").without_default(),
    setting(("describe.table", "share"), &[Describe], "1.0", "above 0, to 1000",
        "as of a column"),
    setting(("describe.covariance", "columns"), &[Describe], "", "names",
        "2 to 500 columns of numbers: covariances, correlations").without_default(),
    setting(("describe.covariance", "share"), &[Describe], "", "above 0, to 1000",
        "default: half of one more than it has columns").without_default(),
    setting(("model", "loss"), &[Regression], "", r#""squared", "logistic", "softmax""#,
        "how a model is held against a row's target").without_default(),
    setting(("model", "classes"), &[Regression], "", "classes",
        "softmax only: targets are 0 to classes - 1").without_default(),
    setting(("model", "target"), &[Regression], r#""last""#, r#""last", a column's name, or its number from 0"#,
        "the column that the others predict"),
    setting(("model", "target_box"), &[Regression], "", "[low, high]",
        "squared only: targets are clipped to this").without_default(),
    setting(("model", "intercept"), &[Regression], "true", "true, false",
        "every row gets one more feature, 1"),
    setting(("model", "rows"), &[Regression], r#""unit""#, r#""unit", "clip", "as-is""#,
        "a row's features are scaled to length 1; longer ones are; none is"),
    setting(("model", "method"), &[Regression], r#""descent""#, r#""descent", "statistics""#,
        "step by step from sums of gradients; statistics, squared only: solved from one sum of second moments"),
    setting(("model", "clip"), &[Regression], "0.5", "length",
        "most that a row's gradient counts; noise is proportional to it; no default for squared. statistics: a row's length, whose square noise is proportional to"),
    setting(("model", "iterations"), &[Regression], "50", "iterations",
        "how many sums of gradients are released; all share epsilon"),
    setting(("model", "step"), &[Regression], r#""auto""#, r#""auto", a number, { kind = "inverse", first }"#,
        "how far an iteration goes; auto: 2 over the loss's smoothness with rows of length 1"),
    setting(("model", "momentum"), &[Regression], "0.8", "from 0 to below 1",
        "the share of the last step's direction that stays"),
    setting(("model", "ridge"), &[Regression], "0.0", r#"0 or above, "auto""#,
        "what the gradient grows by for each length of the model; auto, statistics only: 0.15 times the expected spectral norm of the noise"),
    setting(("model", "set"), &[Regression], r#"{ kind = "none" }"#, "none, ball, box, simplex, affine",
        "where the model is kept"),
    setting(("model", "average"), &[Regression], "0.5", "from 0 to 1",
        "the share of the iterates, from the end, whose mean is the model; 0: the last one"),
    setting(("recursion", "iterations"), RECURSIONS, "", "iterations",
        "outer iterations, each of multi-gossip, averaging and a local step").without_default(),
    setting(("recursion", "accuracy"), RECURSIONS, "1e-2", "squared error",
        "to be reached; states are multiples of a thousandth of it, or of less"),
    setting(("recursion", "step"), RECURSIONS, r#""auto""#, r#""auto", a number, { kind = "inverse", first }"#,
        "how far a local step goes that is no projection; auto: 1/(l + 1)"),
    setting(("recursion", "start"), RECURSIONS, "", "list of numbers",
        "where all begin; without it at 0").without_default(),
    setting(("recursion", "averaging"), RECURSIONS, r#"{ kind = "exact" }"#, "exact, or paper with rounds and weight",
        "how all come to the mean: exactly, or in so many rounds with edges of one weight (without it 1/n)"),
    setting(("recursion", "gossip_iterations"), RECURSIONS, "26", "iterations",
        "multi-gossip in each outer iteration"),
    setting(("recursion", "pairwise_std"), RECURSIONS, "1.0", r#"the state's unit, or "theorem""#,
        "noise of an exchange; no epsilon follows from it. theorem: what the paper's Theorem 3 or 4 asks for at epsilon and delta"),
    setting(("recursion", "set"), RECURSIONS, r#"{ kind = "none" }"#, "none, ball, box, simplex, affine",
        "where a state is kept after each local step"),
    setting(("recursion", "loss"), &[Optimise], "", r#""squared", "logistic""#,
        "how a state is held against a row's target").without_default(),
    setting(("recursion", "ridge"), &[Optimise], "0.0", "0 or above",
        "what a party's gradient grows by for each length of the state"),
    setting(("recursion", "gradient_change"), &[Optimise], "", "the gradient's unit",
        "for pairwise_std = \"theorem\": a public bound on how far a party's gradient changes when its parameters change by 1").without_default(),
    setting(("recursion", "solution_norm"), &[LinearEquations], "", "the state's unit",
        "for pairwise_std = \"theorem\": a public bound on the length of the solution").without_default(),
    setting(("recursion", "contraction"), &[LinearEquations], "", "from 0 to below 1",
        "for pairwise_std = \"theorem\": a public bound on the share of an error that an iteration leaves; without it the largest with which iterations are enough").without_default(),
    setting(("recursion", "inconsistent"), &[LinearEquations], "", r#""least-squares", "normalised""#,
        "equations without a common solution; \"normalised\": rows scaled to length 1, as in the paper").without_default(),
    setting(("privacy", "epsilon"), ALL, "1.0", "above 0",
        "ε, the most that a coalition may learn about one unit"),
    setting(("privacy", "delta"), ALL, "1e-6", "in (0, 1)",
        "δ, the chance that ε does not hold; well below 1 / number of people"),
    setting(("privacy", "colluding"), ALL, "1", "parties",
        "size of the coalitions that the claims cover"),
    setting(("privacy", "coalitions"), &[Mean], r#""any""#, r#""any", "static""#,
        "whether the coalition may know the schedule when it forms"),
    setting(("privacy", "dropouts"), CLAIMED, "1", "parties",
        "departures that the claims tolerate; 0 for three parties"),
    setting(("privacy", "share_faults"), &[Mean, Describe, Rounds, Regression], "", "shares",
        "uniform noise that is mixed only: shares between survivors that may go astray without cost; default: 1, or 0 where the private graph has no room").without_default(),
    setting(("privacy", "protect"), &[Stream], r#""all""#, r#""all", "one""#,
        "whether all of a party's rows may change, or one of them"),
    setting(("mechanism", "kind"), &[Mean], r#""inca""#, r#""inca", "ppsc", "pairwise""#,
        "how values travel, and which noise cancels: INCA, PPSC, or masks of pairs"),
    setting(("mechanism", "kind"), &[Describe], r#""inca""#, r#""inca", "pairwise""#,
        "how values travel: mixed by INCA, or under masks of pairs"),
    setting(("mechanism", "kind"), &[Rounds, Regression], "", r#""inca", "pairwise""#,
        "how values travel; default: inca, whose noise is precomputed, where run.precomputed_bytes holds it, else masks of pairs").without_default(),
    setting(("mechanism", "sums"), &[Stream], r#""everybody""#, r#""open", "neighbours", "everybody""#,
        "what one reader reads of a round: each neighbour's message, and its own noise alone hides a value; the sum of its neighbours'; everybody's sum"),
    setting(("mechanism", "edges"), &[Stream], r#""all""#, r#""all", "matching", { degree }"#,
        "which edges of the private graph are active in a round, by chance"),
    setting(("mechanism", "correlated"), &[Mean], "", r#""uniform", "gaussian""#,
        "the noise that cancels in the sum; default: uniform over residues, but gaussian where something is asked for that only goes with it").without_default(),
    setting(("mechanism", "injection"), &[Mean], "", r#""incremental", "early", { c, z }"#,
        "gaussian inca: how value and noise enter a state; default: incremental").without_default(),
    setting(("mechanism", "rounds"), &[Mean, Describe, Rounds, Regression, Stream], r#""auto""#, r#""auto" or 1 to 63; ppsc, streams: 4096"#,
        "rounds of mixing; ppsc: network rounds, filled with as many iterations as fit; a stream has one a row"),
    setting(("mechanism", "fanout"), &[Mean], "1", "parties",
        "gaussian inca: shares that a party sends in a round"),
    setting(("mechanism", "rollback"), &[Mean], "true", "true, false",
        "gaussian inca: take departed parties out again; false: the paper's protocol"),
    setting(("mechanism", "independent_noise"), &[Mean], r#""calibrated""#, r#""calibrated", "none""#,
        "ppsc: noise that does not cancel"),
    setting(("mechanism", "accept_exact_sum"), &[Mean, LinearEquations, Optimise], "false", "true, false",
        "ppsc: exact sums are revealed without such noise, and that is meant"),
    setting(("mechanism", "local_noise_ok"), &[Mean], "false", "true, false",
        "ppsc: allow components so small that the noise is local"),
    setting(("topology", "private"), ALL, r#"{ kind = "complete" }"#, "a graph",
        "pairs that may exchange shares over encrypted channels"),
    setting(("topology", "public"), ALL, r#"{ kind = "complete" }"#, "a graph",
        "pairs that exchange in the clear, signed"),
    setting(("run", "min_parties"), ALL, "", "parties",
        "fewest that may start and publish; default and least: parties - dropouts").without_default(),
    setting(("run", "dissemination"), &[Mean], r#""flood""#, r#""flood", "consensus", "auto""#,
        "how readable finals spread; auto: whichever sends fewer bytes"),
    setting(("run", "sealed"), &[Mean], "", "true, false",
        "finals leave sealed, with the logs, and are opened for one agreed set or for none; default: true with uniform noise, which alone has it").without_default(),
    setting(("run", "join_ms"), ALL, "120000", "ms",
        "how long to wait for the others, and again for their STARTs").or_local("10000"),
    setting(("run", "grace_ms"), ALL, "", "ms",
        "how long to wait for parties that cannot be reached, once all others are ready and enough; default: join_ms; 2000 where a daemon proposes").without_default(),
    setting(("run", "accept_by"), ALL, "", "a time: d, h, min, s",
        "what a daemon proposes: how long members may take to accept; default: \"3d\"").without_default(),
    setting(("run", "round_ms"), ALL, "2000", "ms",
        "round r ends at the latest r times this after START; secure sums of a stream: 4 times settle_ms").or_local("1000"),
    setting(("run", "settle_ms"), &[Mean, Describe, Stream, LinearEquations, Optimise], "4000", "ms",
        "for settling after the last round's deadline, and again for publishing").or_local("2000"),
    setting(("run", "iteration_ms"), &[Rounds, Regression], "8000", "ms",
        "contribution, flood and vote of one iteration").or_local("4000"),
    setting(("run", "precomputed_bytes"), &[Rounds, Regression], "268435456", "bytes",
        "the most that precomputed noise may hold on a node"),
    setting(("run", "mixing_attempts"), &[Rounds, Regression], "3", "1 to 16",
        "how often noise is mixed, each time afresh, before a training gives up; an attempt costs time, and no privacy"),
    setting(("run", "accuracy"), &[Mean, Stream], "1e-3", "standard errors",
        "consensus, and a stream of one row: largest difference between nodes"),
    setting(("run", "pace_ms"), ALL, "0", "ms",
        "a round lasts at least this long (demonstrations, tests); at most round_ms"),
];

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
