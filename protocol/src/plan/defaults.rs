//! The one table of defaults. The parser fills gaps from it, `--help` and the documentation print
//! it.

/// One key of `run.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The table of the run file that has the key; "" at the top.
    pub section: &'static str,
    /// The key without its table.
    pub key: &'static str,
    /// The default as TOML text; None: there is none.
    pub default: Option<&'static str>,
    /// What `local` takes instead, where that differs.
    pub local: Option<&'static str>,
    /// The unit of its values, or the choices.
    pub unit: &'static str,
    /// What the setting is, for a person.
    pub explanation: &'static str,
}

/// Which defaults fill the gaps of a run file.
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

    /// The default as TOML text.
    pub fn value(&self, defaults: Defaults) -> Option<&'static str> {
        match defaults {
            Defaults::File => self.default,
            Defaults::Local => self.local.or(self.default),
        }
    }
}

const fn setting(
    section: &'static str,
    key: &'static str,
    default: &'static str,
    unit: &'static str,
    explanation: &'static str,
) -> Setting {
    Setting {
        section,
        key,
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

/// Every key of `run.toml`, in the order of the file.
#[rustfmt::skip] // a table: one line a row
pub const SETTINGS: &[Setting] = &[
    setting("", "version", "1", "1", "version of this format"),
    setting("", "task", r#""mean""#, r#""mean", "regression", "rounds", "linear-equations", "optimise""#, "what is computed: the (weighted) mean of the parties' vectors; a model that they fit together; means in sequence of what programs hand over; PPSC's Algorithms 3 and 4 as printed, which reveal exact sums"),
    setting("", "name", "", "[a-z0-9-], 1 to 64", "name of the run, shown everywhere; part of the plan").without_default().or_local(r#""local""#),
    setting("data", "shape", "", "list of extents", "shape of one party's vector, or of one record (local: from the input files)").without_default(),
    setting("data", "unit", r#""party""#, r#""party", "record""#, "whose change is hidden: a party's whole vector, or one row of its matrix"),
    setting("data", "adjacency", r#""replace-one""#, r#""replace-one", "zero-out""#, "how that unit may change: into anything in range, or into zero"),
    setting("data", "clip", r#"{ kind = "l2", radius = 1.0 }"#, "the data's unit", "range that inputs are clipped to, public and never taken from the data; noise is proportional to it (a box's bounds may be lists, one per coordinate; { kind = \"tensors\", radius = { name = number } } clips each tensor to a ball of its own); no default for unit = \"record\", and for local --inputs"),
    setting("data", "weights", "", "{ name = number }", "public weights, unit = \"party\" only; 1 for parties that are not named").without_default(),
    setting("data", "columns", "", "list of names", "names of the coordinates along the last axis; a .csv whose first row says otherwise is refused (local: from the input files)").without_default(),
    setting("data", "tensors", "", "{ name = extents }", "the tensors that a vector consists of, ordered by name, if it is a model's; a .safetensors with others is refused (local: from the input files)").without_default(),
    setting("data", "releases", "", "means", "task = \"rounds\" or kind = \"gossip\" only: how many means there are, one after the other; all of them share epsilon (gossip: rows that each party brings, one a round; without it 1)").without_default(),
    setting("data", "result", r#""mean""#, r#""mean", "sum""#, "task = \"rounds\" only: what each of them comes to"),
    setting("data", "clipped", r#""by-node""#, r#""by-node", "by-program""#, "task = \"rounds\" and unit = \"record\" only: the node clips each row that a program hands over; or the program clips its rows and hands over their sum"),
    setting("data", "noise_ok", "false", "true, false", "a result is meant whose noise is larger than any mean can be; without it such a plan is refused by join, submit and local --inputs"),
    setting("data", "adaptive", "false", "true, false", "kind = \"gossip\" with several releases only: rows may depend on estimates of the run; then the headline is what holds whatever they are computed from"),
    setting("model", "loss", "", r#""squared", "logistic", "softmax""#, "task = \"regression\": how a model is held against a row's target").without_default(),
    setting("model", "classes", "", "classes", "softmax only: targets are 0 to classes − 1").without_default(),
    setting("model", "target", r#""last""#, r#""last", a column's name, or its number from 0"#, "the column that the others predict"),
    setting("model", "target_box", "", "[low, high]", "squared only: targets are clipped to this").without_default(),
    setting("model", "intercept", "true", "true, false", "every row gets one more feature, 1"),
    setting("model", "rows", r#""unit""#, r#""unit", "clip", "as-is""#, "a row's features are scaled to length 1; longer ones are; none is"),
    setting("model", "method", r#""descent""#, r#""descent", "statistics""#, "step by step from sums of gradients; statistics, for squared only: solved from one sum of second moments"),
    setting("model", "clip", "0.5", "length", "the most that one row's gradient counts; noise is proportional to it; no default for squared; statistics: the length of a row with its target, whose square noise is proportional to"),
    setting("model", "iterations", "50", "iterations", "how many sums of gradients are released; all of them share epsilon"),
    setting("model", "step", r#""auto""#, r#""auto", a number, { kind = "inverse", first }"#, "how far an iteration goes; auto: 2 over the loss's smoothness with rows of length 1"),
    setting("model", "momentum", "0.8", "from 0 to below 1", "the share of the last step's direction that stays"),
    setting("model", "ridge", "0.0", r#"0 or above, "auto""#, "what the gradient grows by for each length of the model; auto, for statistics only: 0.15 times the expected spectral norm of the noise"),
    setting("model", "set", r#"{ kind = "none" }"#, "none, ball, box, simplex, affine", "where the model is kept"),
    setting("model", "average", "0.5", "from 0 to 1", "the share of the iterates, from the end, whose mean is the model; 0: the last one"),
    setting("model", "template", "", "FILE, or { sha256 }", "task = \"rounds\" with data.tensors: a .safetensors, from this file's folder on, with whose types and tensors of whole numbers the last mean is written, so that it is the same bytes for all; the plan has its SHA-256").without_default(),
    setting("outer", "iterations", "", "iterations", "linear-equations, optimise: how many outer iterations, each of multi-gossip, averaging and a local step").without_default(),
    setting("outer", "accuracy", "1e-2", "squared error", "what is meant to be reached; states are multiples of a thousandth of it, or of less"),
    setting("outer", "step", r#""auto""#, r#""auto", a number, { kind = "inverse", first }"#, "how far a local step goes that is no projection; auto: 1/(l + 1)"),
    setting("outer", "start", "", "list of numbers", "where all begin; without it at 0").without_default(),
    setting("outer", "averaging", r#"{ kind = "exact" }"#, "exact, or paper with rounds and weight", "how all come to the mean: exactly, or in so many rounds with edges of one weight (without it 1/n)"),
    setting("outer", "gossip_iterations", "26", "iterations", "multi-gossip in each outer iteration"),
    setting("outer", "pairwise_std", "1.0", r#"the state's unit, or "theorem""#, "the noise of an exchange; no ε follows from it, whatever it is; theorem: what the paper's Theorem 3 (linear-equations) or 4 (optimise) asks for at epsilon and delta"),
    setting("outer", "solution_norm", "", "the state's unit", "linear-equations with pairwise_std = \"theorem\" only, needed there: a public bound on the length of the solution").without_default(),
    setting("outer", "contraction", "", "from 0 to below 1", "linear-equations with pairwise_std = \"theorem\" only: a public bound on the share of an error that an outer iteration leaves; without it the largest with which iterations are enough for accuracy").without_default(),
    setting("outer", "gradient_change", "", "the gradient's unit", "optimise with pairwise_std = \"theorem\" only, needed there: a public bound on how far a party's gradient changes when its parameters change by 1").without_default(),
    setting("outer", "inconsistent", "", r#""least-squares", "normalised""#, "linear-equations only: equations without a common solution; \"normalised\" is the paper's variant, least squares of rows scaled to length 1").without_default(),
    setting("privacy", "epsilon", "1.0", "above 0", "ε, the most that a coalition may learn about one unit"),
    setting("privacy", "delta", "1e-6", "in (0, 1)", "δ, the chance that ε does not hold; well below 1 / number of people"),
    setting("privacy", "colluding", "1", "parties", "size of the coalitions that the claims cover"),
    setting("privacy", "coalitions", r#""any""#, r#""any", "static""#, "whether the coalition may know the schedule when it forms"),
    setting("privacy", "dropouts", "1", "parties", "departures that the claims tolerate; 0 where parties − 1 does not exceed (parties + colluding)/2: three parties"),
    setting("privacy", "draws", "", "draws", "ignored: a theorem stands where draws were sampled").without_default(),
    setting("privacy", "share_faults", "", "shares", "mechanism.correlated = \"uniform\" only: shares between survivors that may go astray without cost; without it 1, or 0 where the private graph has no room").without_default(),
    setting("privacy", "protect", "", r#""all", "one""#, "kind = \"gossip\" only: whether all of a party's releases may change, or one of them; default: all").without_default(),
    setting("mechanism", "kind", r#""inca""#, r#""inca", "ppsc", "pairwise", "gossip""#, "family of the mechanism"),
    setting("mechanism", "correlated", "", r#""uniform", "gaussian""#, "the noise that cancels in the sum; default: uniform (over residues, to the error floor at any number of parties), but gaussian where something is asked for that only goes with it").without_default(),
    setting("mechanism", "injection", "", r#""incremental", "early", { c, z }"#, "how value and noise enter a party's state, round by round; default: incremental (uniform: late, and no other)").without_default(),
    setting("mechanism", "rounds", r#""auto""#, r#""auto" or 1 to 63; ppsc, gossip: 4096"#, "rounds of mixing; with ppsc network rounds, filled with as many iterations as fit; gossip: of one value, with many one release a round"),
    setting("mechanism", "fanout", "1", "parties", "shares that a party sends in a round"),
    setting("mechanism", "rollback", "true", "true, false", "take departed parties out again; false: the paper's protocol"),
    setting("mechanism", "independent_noise", r#""calibrated""#, r#""calibrated", "none""#, "ppsc only"),
    setting("mechanism", "accept_exact_sum", "false", "true, false", "ppsc only: independent_noise = \"none\" reveals exact sums, and that is meant"),
    setting("mechanism", "local_noise_ok", "false", "true, false", "ppsc only: allow components so small that the noise is local"),
    setting("mechanism", "sums", "", r#""open", "secure""#, "gossip only: open: neighbours read a party's messages, and its own noise is all that hides a value from them; default: open").without_default(),
    setting("mechanism", "circle", "", r#""neighbours", "everybody""#, "gossip with sums = \"secure\" only: whose messages one reader adds up").without_default(),
    setting("mechanism", "edges", "", r#""all", "matching", { degree }"#, "gossip only: which edges of the private graph are active in a round, by chance; default: all").without_default(),
    setting("topology", "private", r#"{ kind = "complete" }"#, "a graph", "pairs that may exchange shares over encrypted channels"),
    setting("topology", "public", r#"{ kind = "complete" }"#, "a graph", "pairs that exchange in the clear, signed"),
    setting("run", "min_parties", "", "parties", "least number of parties that may start and publish; default and least: parties − dropouts").without_default(),
    setting("run", "dissemination", r#""flood""#, r#""flood", "consensus", "auto""#, "how final states spread; auto: whichever sends fewer bytes"),
    setting("run", "sealed", "", "true, false", "finals leave sealed, with the logs, and are opened for one agreed set or for none; default: true with uniform noise, which alone has sealed finals").without_default(),
    setting("run", "join_ms", "120000", "ms", "how long to wait for the others, and again for their STARTs").or_local("10000"),
    setting("run", "grace_ms", "", "ms", "how long to wait for parties that cannot be reached, once all others are ready and enough; default: join_ms, so that whoever is started by hand is waited for; 2000 where a daemon proposes: its members run already").without_default(),
    setting("run", "accept_by", "", "a time: d, h, min, s", "what a daemon proposes only: how long members may take to accept it; it starts when min_parties have accepted and are up; default: \"3d\"").without_default(),
    setting("run", "round_ms", "2000", "ms", "round r ends at the latest r times this after START").or_local("1000"),
    setting("run", "settle_ms", "4000", "ms", "for settling after the last round's deadline, and again for publishing").or_local("2000"),
    setting("run", "accuracy", "1e-3", "standard errors", "dissemination = \"consensus\", and gossip of one value: largest difference between nodes"),
    setting("run", "pace_ms", "0", "ms", "a round lasts at least this long (demonstrations, tests); at most round_ms"),
    setting("run", "ahead_bytes", "268435456", "bytes", "regression, rounds: the most that noise which is mixed ahead may hold on a node; what needs more takes masks of pairs, unless mechanism.kind is written"),
    setting("run", "mixing_attempts", "3", "1 to 16", "regression, rounds with kind = \"inca\": how often noise is mixed, each time afresh, before a training gives up; an attempt costs time, and no privacy"),
    setting("run", "iteration_ms", "8000", "ms", "regression, rounds: contribution, flood and vote of one iteration").or_local("4000"),
];

/// `run.grace_ms` where all members run already, in milliseconds: in what a daemon proposes. Our
/// guess: a process that is restarted is back within it, and a machine that is not there costs a
/// run no more.
pub const GRACE_MS: u64 = 2000;

/// The defaults as one TOML document, sections in order.
pub fn document(defaults: Defaults) -> String {
    let mut text = String::new();
    let mut section = "";
    for setting in SETTINGS {
        if setting.section != section {
            section = setting.section;
            text.push_str(&format!("[{section}]\n"));
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
            SETTINGS
                .iter()
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
        let mut fields: Vec<String> = SETTINGS.iter().map(Setting::field).collect();
        let sections = document(Defaults::File)
            .lines()
            .filter(|line| line.starts_with('['))
            .count();
        assert_eq!(sections, 7);
        fields.sort();
        fields.dedup();
        assert_eq!(fields.len(), SETTINGS.len());
    }
}
