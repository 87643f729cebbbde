//! Lines that ask what kind of run this is: each is a difference that a type could make.

/// A line that has one of these asks. `.gossip` and its like are fields and methods that only some
/// runs have.
const QUESTIONS: [&str; 38] = [
    "averages()",
    "sums_neighbours()",
    "sums_everybody()",
    "reads_circles()",
    ".uniform",
    "is_uniform(",
    "CorrelatedNoise::",
    ".correlated()",
    "run.sealed",
    "are_sealed()",
    "reveals_sums(",
    ".recursion()",
    "draws_at_start(",
    "Coalitions::",
    "drawn_share_faults",
    "ExchangeName::",
    "Dissemination::",
    ".terms()",
    "has_rounds(",
    ".rollback",
    "rolls_back(",
    "goes_on_by_task(",
    "precomputes_noise(",
    "parameters.precomputed",
    "most_mixings(",
    "TaskName::",
    ".sequence()",
    ".model()",
    ".stream()",
    ".sums()",
    "is_statistics()",
    "streams(plan)",
    "releases() > 1",
    ".gossip",
    "IndependentNoise::",
    "accepts_local_noise()",
    "adds_own_noise()",
    "matches!(plan.draft().",
];

/// The files where variants are defined, each with its own keys and checks: what differs between
/// them stands there.
const VARIANTS: [&str; 2] = ["plan/computation/", "plan/exchange/"];

/// The lines, from 1, of a source file below a crate's `src` that ask. Tests, comments, imports and
/// heads of functions do not.
pub fn questions(path: &str, source: &str) -> Vec<usize> {
    let is_test = path.contains("tests/") || path.ends_with("tests.rs");
    if is_test || VARIANTS.iter().any(|folder| path.starts_with(folder)) {
        return vec![];
    }
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    let asks = |line: &str| {
        let line = line.trim_start();
        let head = line.split(['(', ' ']).next().unwrap_or(line);
        let is_head = line.starts_with("fn ") || (head.starts_with("pub") && line.contains("fn "));
        let is_text = line.starts_with("//") || line.starts_with('"') || head == "use";
        !is_head && !is_text && QUESTIONS.iter().any(|question| line.contains(question))
    };
    let lines = code.lines().enumerate().filter(|(_, line)| asks(line));
    lines.map(|(index, _)| index + 1).collect()
}
