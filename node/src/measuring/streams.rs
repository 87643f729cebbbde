//! `benchmark --releases`: streams of gossip over several graphs: what a release takes.

use std::path::Path;

use serde_json::{Value, json};

use crate::measuring::failed::failed;
use crate::measuring::iterations::{iterations, median};
use crate::measuring::local_run;
use crate::telling::failure::Failure;
use crate::telling::output;
use crate::telling::report::Report;
use crate::telling::table::Table;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamSize {
    pub(crate) nodes: usize,
    pub(crate) dimension: usize,
    pub(crate) releases: u64,
}

/// Nodes above which the graph with most edges is random, of degree 8: complete graphs of more are
/// nobody's.
const MOST_COMPLETE: usize = 16;

/// Milliseconds that a release may take on two idle cores, with eight nodes and 1,000 coordinates:
/// with open messages, and with secure sums.
const GOALS_MS: [f64; 2] = [8.0, 25.0];

/// What a node reads of its neighbours.
#[derive(Clone, Copy)]
enum Reads {
    Messages,
    SumOfEverybody,
    SumOfNeighbours,
}

impl Reads {
    /// Lines of a run file's `[mechanism]`.
    fn settings(self) -> &'static str {
        match self {
            Reads::Messages => "sums = \"open\"",
            Reads::SumOfEverybody => "sums = \"secure\"\ncircle = \"everybody\"",
            Reads::SumOfNeighbours => "sums = \"secure\"\ncircle = \"neighbours\"",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Reads::Messages => "messages",
            Reads::SumOfEverybody => "everybody's sum",
            Reads::SumOfNeighbours => "its neighbours' sum",
        }
    }

    fn goal_ms(self) -> f64 {
        GOALS_MS[usize::from(!matches!(self, Reads::Messages))]
    }
}

/// A way to gossip, and what it took.
struct Measured {
    graph: &'static str,
    reads: Reads,
    goal_ms: f64,
    /// Between any two releases of one node, all runs.
    gaps_ms: Vec<f64>,
    finished: u64,
    wall_s: Vec<f64>,
}

/// Runs each way `runs` times, in turns.
pub(crate) fn run(size: StreamSize, runs: usize) -> Result<Report, Failure> {
    let graph = match size.nodes > MOST_COMPLETE {
        true => "{ kind = \"random-regular\", degree = 8 }",
        false => "\"complete\"",
    };
    let way = |(graph, reads): (&'static str, Reads)| Measured {
        graph,
        reads,
        goal_ms: reads.goal_ms(),
        gaps_ms: vec![],
        finished: 0,
        wall_s: vec![],
    };
    let ways = [
        ("\"ring\"", Reads::Messages),
        (graph, Reads::Messages),
        ("\"ring\"", Reads::SumOfEverybody),
        ("\"ring\"", Reads::SumOfNeighbours),
        (graph, Reads::SumOfNeighbours),
    ];
    let mut ways = ways.map(way);
    let folder = tempfile::tempdir().map_err(failed)?;
    for run in 1..=runs {
        output::tell(format_args!("run {run} of {runs} …"));
        ways.iter_mut()
            .try_for_each(|way| way.measure(size, folder.path()))?;
    }
    Ok(report(size, runs, &ways))
}

impl Measured {
    /// Noise is nobody's business here, nor are deadlines.
    fn run_file(&self, size: StreamSize) -> String {
        let rounds = match self.reads {
            Reads::Messages => "round_ms = 60000",
            _ => "settle_ms = 30000\nround_ms = 120000",
        };
        format!(
            "version = 1\nname = \"benchmark\"\n[data]\nshape = [{}]\nreleases = {}\nnoise_ok = true\n\
             clip = {{ kind = \"l2\", radius = 1.0 }}\n[privacy]\ndropouts = 0\n[mechanism]\nkind = \"gossip\"\n{}\n\
             [topology]\nprivate = {}\n[run]\n{rounds}\n",
            size.dimension,
            size.releases,
            self.reads.settings(),
            self.graph
        )
    }

    fn measure(&mut self, size: StreamSize, folder: &Path) -> Result<(), Failure> {
        let path = |name: &str| {
            let path = folder.join(name);
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| failed("the temporary folder's name is not UTF-8"))
        };
        let (run, events) = (path("run.toml")?, path("events")?);
        std::fs::write(&run, self.run_file(size)).map_err(failed)?;
        let object = local_run::run(size.nodes, size.dimension, &["--run", &run, "--events", &events])?;
        let gaps = iterations(Path::new(&events))?;
        self.gaps_ms.extend(gaps);
        self.finished += object["finished"].as_u64().unwrap_or(0);
        self.wall_s.push(object["wall_s"].as_f64().unwrap_or(f64::NAN));
        Ok(())
    }

    /// What a release took: the median stream from START to its result, over its releases.
    fn release_ms(&self, size: StreamSize) -> f64 {
        median(self.wall_s.clone()) * 1e3 / size.releases as f64
    }

    /// The longest that a node waited from one release to the next.
    fn worst_ms(&self) -> f64 {
        self.gaps_ms.iter().copied().fold(f64::NAN, f64::max)
    }

    fn object(&self, size: StreamSize) -> Value {
        json!({
            "private_graph": self.graph, "reads": self.reads.words(), "release_ms": self.release_ms(size),
            "worst_ms": self.worst_ms(), "goal_ms": self.goal_ms, "finished": self.finished,
            "wall_s": median(self.wall_s.clone()),
        })
    }
}

fn report(size: StreamSize, runs: usize, ways: &[Measured]) -> Report {
    let json = json!({
        "nodes": size.nodes, "dimension": size.dimension, "releases": size.releases, "runs": runs,
        "streams": ways.iter().map(|way| way.object(size)).collect::<Vec<_>>(), "exit_code": 0,
    });
    let mut table = Table::with_headings([
        "private graph",
        "a node reads",
        "ms a release",
        "the longest wait",
        "goal (8 nodes, 1,000)",
        "nodes that came to the end",
        "START to the result",
    ]);
    for way in ways {
        table.row([
            way.graph.to_owned(),
            way.reads.words().to_owned(),
            format!("{:.2}", way.release_ms(size)),
            format!("{:.0} ms", way.worst_ms()),
            format!("{}", way.goal_ms),
            format!("{} of {}", way.finished, size.nodes * runs),
            format!("{:.3} s", median(way.wall_s.clone())),
        ]);
    }
    let title = format!(
        "{} processes, {} coordinates, streams of {} releases, {runs} runs\n",
        size.nodes, size.dimension, size.releases
    );
    Report::done(json, title + &table.render())
}
