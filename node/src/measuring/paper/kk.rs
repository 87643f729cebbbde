//! Koskela and Kulkarni, newest version and first version: scaled sensitivities of pairs of nodes,
//! and mean ε over all.

use std::path::Path;

use serde_json::json;
use undertone_accountant::account::gossip::edges;
use undertone_accountant::account::gossip::figures::{
    MeanEpsilon, Pair, PairSquare, evenly_joined, grown, mean_epsilon, over_rounds, random_pairs,
};
use undertone_accountant::account::gossip::threat::{ObserversNoise, ObserversView};
use undertone_accountant::account::gossip::weights::{Scheme, Weights};
use undertone_protocol::topology::graph::Graph;

use crate::measuring::paper::computed::Computed;
use crate::measuring::paper::draws::{Draws, Grounds};
use crate::planning::files::read_text;
use crate::planning::plot::{Chart, ChartLine};
use crate::telling::failure::{Exit, Failure};
use crate::telling::progress::Progress;
use crate::telling::table::{Table, number};

/// T of each point of a curve.
const ROUNDS: [usize; 9] = [1, 2, 5, 10, 20, 50, 100, 150, 200];

/// T of each point of mean ε: the last two show where the paper's curves cross.
const EPSILON_ROUNDS: [usize; 6] = [5, 10, 20, 40, 60, 80];

/// What the paper's mean ε is at.
const DELTA: f64 = 1e-5;

/// The paper names no σ: ours.
const STD: f64 = 10.0;

/// The Facebook graph's edges, as Stanford's collection names them.
const FACEBOOK_EDGES: &str = "facebook_combined.txt";

/// The node of the Facebook graph that the paper looks at, and who looks: its first two neighbours,
/// then the first two others.
const FACEBOOK: (usize, [usize; 4]) = (300, [0, 80, 1, 2]);

fn refuse(error: impl std::error::Error) -> Failure {
    Failure::new(Exit::Internal, error.to_string())
}

/// A pair on a graph, seen in one way.
struct Course {
    graph: &'static str,
    nodes: usize,
    adjacent: bool,
    view: ObserversView,
    pair: Pair,
    found: Vec<PairSquare>,
}

impl Course {
    fn view(&self) -> &'static str {
        match self.view {
            ObserversView::Messages => "messages",
            ObserversView::Sum => "sums",
        }
    }

    fn adjacency(&self) -> &'static str {
        if self.adjacent {
            "neighbour"
        } else {
            "not adjacent"
        }
    }

    /// (T, Δ²/T) for contribution 1 in every round.
    fn even(&self) -> Vec<(f64, f64)> {
        self.scaled(|found| found.even)
    }

    /// (T, Δ²/T) for any contributions.
    fn worst(&self) -> Vec<(f64, f64)> {
        self.scaled(|found| found.upper)
    }

    /// (T, Δ²/T) by the paper's bound for any contributions.
    fn spectral(&self) -> Vec<(f64, f64)> {
        self.scaled(|found| found.spectral)
    }

    fn scaled(&self, side: fn(&PairSquare) -> f64) -> Vec<(f64, f64)> {
        let points = ROUNDS.iter().zip(&self.found);
        points
            .map(|(&rounds, found)| (rounds as f64, side(found) / rounds as f64))
            .collect()
    }
}

/// A graph with what its pairs are looked at with.
struct LookedAt {
    name: &'static str,
    graph: Graph,
    scheme: Scheme,
    noise: ObserversNoise,
}

impl LookedAt {
    fn courses(&self, pairs: &[(Pair, bool)], views: &[ObserversView]) -> Result<Vec<Course>, Failure> {
        let weights = Weights::of(&self.graph, self.scheme);
        let mut courses = Vec::new();
        for &view in views {
            for &(pair, adjacent) in pairs {
                courses.push(Course {
                    graph: self.name,
                    nodes: self.graph.parties(),
                    adjacent,
                    view,
                    pair,
                    found: over_rounds(&weights, pair, (view, self.noise), &ROUNDS).map_err(refuse)?,
                });
            }
        }
        Ok(courses)
    }

    fn random_pairs(&self, seed: u64) -> [(Pair, bool); 2] {
        let [near, far] = random_pairs(&self.graph, seed);
        [(near, true), (far, false)]
    }
}

/// The two graphs of the newest version's Figures 1 and 2.
fn newest(draws: Draws, progress: &mut Progress) -> Result<Vec<Course>, Failure> {
    let drawn = [
        ("a) Erdős–Rényi, p = 0.15", evenly_joined(100, 0.15, draws.seed)),
        ("b) preferential attachment", grown(100, 5, 3, draws.seed)),
    ];
    let mut courses = Vec::new();
    for (name, graph) in drawn {
        progress.show(name);
        let drawn = LookedAt {
            name,
            graph,
            scheme: Scheme::Metropolis,
            noise: ObserversNoise::Unknown,
        };
        let views = [ObserversView::Messages, ObserversView::Sum];
        courses.extend(drawn.courses(&drawn.random_pairs(draws.seed), &views)?);
    }
    Ok(courses)
}

fn computed(name: &'static str, title: &str, chart: &'static str, courses: &[Course]) -> Computed {
    let mut table = Table::with_headings([
        "graph",
        "pair",
        "view",
        "T",
        "Δ²/T, c = 1",
        "paper's limit",
        "paper's bound λ_max",
        "Δ²/T, any c, at most",
        "bound over c = 1",
    ]);
    let mut rows = Vec::new();
    for course in courses {
        let limit = 1.0 / course.nodes as f64;
        for (&rounds, found) in ROUNDS.iter().zip(&course.found) {
            let scaled = [found.even, found.spectral, found.upper].map(|square| square / rounds as f64);
            let [even, spectral, worst] = scaled;
            let above = if even > 0.0 {
                format!("{:.3}", spectral / even)
            } else {
                String::new()
            };
            table.row([
                course.graph.into(),
                course.adjacency().into(),
                course.view().into(),
                rounds.to_string(),
                number(even),
                number(limit),
                number(spectral),
                number(worst),
                above,
            ]);
            rows.push(json!({
                "graph": course.graph, "pair": course.adjacency(), "view": course.view(), "rounds": rounds,
                "observer": course.pair.observer, "target": course.pair.target,
                "paper_limit": limit, "even": even, "paper_bound": spectral, "upper": worst,
            }));
        }
    }
    Computed {
        name,
        title: title.into(),
        rows,
        table,
        notes: Vec::new(),
        chart: Some(Chart {
            title: chart,
            x: "rounds T",
            y: "squared sensitivity / T",
            logarithmic: true,
            counted: true,
            lines: Vec::new(),
        }),
    }
}

/// What holds for any contributions: a name, and the points of a course.
type Above = (&'static str, fn(&Course) -> Vec<(f64, f64)>);

/// Two lines a course: for even contributions, and what holds for any.
fn lines<'a>(courses: impl Iterator<Item = &'a Course>, (name, above): Above) -> Vec<ChartLine> {
    let both = |course: &Course| {
        let line = |side: &str, points| ChartLine {
            name: format!("{}, {}, {side}", course.graph, course.adjacency()),
            points,
        };
        [line("c = 1", course.even()), line(name, above(course))]
    };
    courses.flat_map(both).collect()
}

const DRAWN: &str = "The paper draws graph and pairs at random and prints neither, nor numbers: --seed draws others. \
                     It says that Δ²/T comes to 1/n.";
const NOT_ONE: &str = "1/n is the limit for contributions that are 1 in every round. The worst ones alternate: what \
                       is valid for any is min(1ᵀ|M|1, T λ_max(M)) (ERRATA), which stays above it for neighbours.";

/// Figure 1 of the newest version.
pub(super) fn figure_1(draws: Draws, progress: &mut Progress) -> Result<Computed, Failure> {
    let courses = newest(draws, progress)?;
    let title = "KK, newest version, Figure 1: squared sensitivity over T, n = 100, of one observer";
    let mut computed = computed(
        "kk-fig1",
        title,
        "Squared sensitivity over T, n = 100, own messages",
        &courses,
    );
    let shown = courses
        .iter()
        .filter(|course| course.view == ObserversView::Messages);
    if let Some(chart) = &mut computed.chart {
        chart.lines = lines(shown, ("any c", Course::worst));
    }
    computed.notes = vec![
        DRAWN.into(),
        NOT_ONE.into(),
        "The paper's matrices have the observer's own message (\"messages\"); \"sums\" is what secure sums show.".into(),
    ];
    Ok(computed)
}

/// Figure 2 of the newest version.
pub(super) fn figure_2(draws: Draws, progress: &mut Progress) -> Result<Computed, Failure> {
    let courses = newest(draws, progress)?;
    let title = "KK, newest version, Figure 2: the upper bound on the squared sensitivity over T, n = 100";
    let mut computed = computed(
        "kk-fig2",
        title,
        "Upper bound on the squared sensitivity over T, n = 100",
        &courses,
    );
    let shown = courses
        .iter()
        .filter(|course| course.view == ObserversView::Messages);
    if let Some(chart) = &mut computed.chart {
        chart.lines = lines(shown, ("λ_max", Course::spectral));
    }
    let most = |view: ObserversView| {
        let seen = courses.iter().filter(|course| course.view == view);
        let ratios = seen.flat_map(|course| {
            let large = ROUNDS
                .iter()
                .zip(&course.found)
                .filter(|(rounds, _)| **rounds >= 100);
            large.map(|(_, found)| found.spectral / found.even)
        });
        ratios.fold(0.0, f64::max)
    };
    computed.notes = vec![
        DRAWN.into(),
        format!(
            "The paper says that its bound T λ_max(M) is less than 10 % above what c = 1 gives. Here, from T = 100 \
             on, it is up to {:.2} times that for own messages, and {:.2} times for sums, where contributions \
             that alternate reach most of it.",
            most(ObserversView::Messages),
            most(ObserversView::Sum)
        ),
        NOT_ONE.into(),
    ];
    Ok(computed)
}

/// Figure 1 of the first version; its right half where the Facebook graph is given.
pub(super) fn first_figure_1(given: &Grounds<'_>, progress: &mut Progress) -> Result<Computed, Failure> {
    let draws = given.draws;
    progress.show("left: Erdős–Rényi, p = 0.2");
    let left = LookedAt {
        name: "left: Erdős–Rényi, p = 0.2",
        graph: evenly_joined(100, 0.2, draws.seed),
        scheme: Scheme::MaxDegree,
        noise: ObserversNoise::Known,
    };
    let views = [ObserversView::Sum];
    let mut courses = left.courses(&left.random_pairs(draws.seed), &views)?;
    let path = given
        .data
        .map(|folder| folder.join(FACEBOOK_EDGES))
        .filter(|path| path.exists());
    let right = path.as_deref().map(facebook).transpose()?;
    if let Some(right) = &right {
        progress.show(right.name);
        let (target, observers) = FACEBOOK;
        let pairs =
            observers.map(|observer| (Pair { observer, target }, right.graph.joins(observer, target)));
        courses.extend(right.courses(&pairs, &views)?);
    }
    let title =
        "KK, first version, Figure 1: squared sensitivity over T with secure sums, observer's noise known";
    let mut computed = computed(
        "kk-first-fig1",
        title,
        "Squared sensitivity over T, secure sums",
        &courses,
    );
    if let Some(chart) = &mut computed.chart {
        chart.lines = lines(courses.iter(), ("any c", Course::worst));
    }
    computed.notes = vec![DRAWN.into(), NOT_ONE.into()];
    computed.notes.push(match right {
        Some(_) => "Right: the edges given, weights 1/max(dᵢ, dⱼ), target 300; nothing is drawn.".into(),
        None => format!(
            "Right: Facebook's social circles, 4,039 nodes, with --data, a folder with {FACEBOOK_EDGES} of \
             Stanford's collection."
        ),
    });
    Ok(computed)
}

fn facebook(path: &Path) -> Result<LookedAt, Failure> {
    let refused = |problem: String| Failure::input(format!("{}: {problem}", path.display())).field("--data");
    let graph = edges::connected(&read_text(path, "--data")?).map_err(|error| refused(error.to_string()))?;
    let (target, _) = FACEBOOK;
    if graph.parties() <= target {
        return Err(refused(format!(
            "has {} nodes; the paper looks at node {target}",
            graph.parties()
        )));
    }
    Ok(LookedAt {
        name: "right: Facebook",
        graph,
        scheme: Scheme::MaxDegree,
        noise: ObserversNoise::Known,
    })
}

/// Figure 2 of the first version.
pub(super) fn first_figure_2(draws: Draws, progress: &mut Progress) -> Result<Computed, Failure> {
    let graph = evenly_joined(50, 0.2, draws.seed);
    let weights = Weights::of(&graph, Scheme::MaxDegree);
    let mut found: Vec<MeanEpsilon> = Vec::new();
    for rounds in EPSILON_ROUNDS {
        progress.show(&format!(
            "T = {rounds}, of {}",
            EPSILON_ROUNDS[EPSILON_ROUNDS.len() - 1]
        ));
        found.push(mean_epsilon(&graph, &weights, rounds, STD, DELTA).map_err(refuse)?);
    }
    /// A curve's name, and its ε at a point.
    type Curve = (&'static str, fn(&MeanEpsilon) -> f64);
    const CURVES: [Curve; 5] = [
        ("local", |at| at.local),
        ("messages, c = 1 (paper)", |at| at.messages[0]),
        ("messages, any c", |at| at.messages[1]),
        ("sums, c = 1 (paper)", |at| at.sums[0]),
        ("sums, any c", |at| at.sums[1]),
    ];
    let mut table = Table::with_headings([
        "T",
        CURVES[0].0,
        CURVES[1].0,
        CURVES[2].0,
        CURVES[3].0,
        CURVES[4].0,
    ]);
    let mut rows = Vec::new();
    for (rounds, at) in EPSILON_ROUNDS.iter().zip(&found) {
        let [a, b, c, d, e] = CURVES.map(|(_, side)| format!("{:.3}", side(at)));
        table.row([rounds.to_string(), a, b, c, d, e]);
        rows.push(json!({
            "rounds": rounds, "local": at.local, "messages_even": at.messages[0], "messages": at.messages[1],
            "sums_even": at.sums[0], "sums": at.sums[1],
        }));
    }
    let line = |(name, side): Curve| ChartLine {
        name: name.into(),
        points: EPSILON_ROUNDS
            .iter()
            .zip(&found)
            .map(|(&t, at)| (t as f64, side(at)))
            .collect(),
    };
    Ok(Computed {
        name: "kk-first-fig2",
        title: format!(
            "KK, first version, Figure 2: mean ε of adaptive contributions, n = 50, p = 0.2, δ = {DELTA:e}, σ = {STD}"
        ),
        rows,
        table,
        notes: vec![
            "The paper prints no numbers and no σ; its graph is drawn at random: --seed draws others.".into(),
            crossing(&found),
            "By what is valid for any contributions, messages give next to nothing over local noise.".into(),
        ],
        chart: Some(Chart {
            title: "Mean ε, n = 50, p = 0.2, δ = 1e-5, σ = 10",
            x: "rounds T",
            y: "mean ε",
            logarithmic: false,
            counted: true,
            lines: CURVES.map(line).into(),
        }),
    })
}

/// Where messages come below sums, as the paper says they do.
fn crossing(found: &[MeanEpsilon]) -> String {
    let first = |side: usize| {
        let below = found.iter().position(|at| at.messages[side] < at.sums[side]);
        below.map_or("nowhere up to T = 80".to_owned(), |place| {
            format!("from T = {} on", EPSILON_ROUNDS[place])
        })
    };
    format!(
        "The paper says that messages become tighter than sums as T grows: for c = 1 {}, for any c {}.",
        first(0),
        first(1)
    )
}
