//! How long KK's sensitivities take on a large sparse graph, and how large they are.
//!
//! `cargo run --release -p undertone-accountant --example gossip_speed -- [EDGES.txt] [--observers
//! N]`
//!
//! Without an edge list a graph like the Facebook one is grown by preferential attachment. N
//! observers (default 8), spread over the nodes, are asked about all targets. (All pairs, and a
//! picture of them: `undertone account gossip --observers all --plot PAIRS.svg`.)

#![allow(clippy::disallowed_methods)] // It measures time.

use std::time::Instant;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_accountant::account::gossip::observers::Observers;
use undertone_accountant::account::gossip::threat::{ObserversNoise, ObserversView, Threat};
use undertone_accountant::account::gossip::weights::{Scheme, Weights};
use undertone_accountant::account::gossip::{edges, sensitivity};
use undertone_protocol::topology::graph::Graph;

const ROUNDS: usize = 200;

fn main() {
    let mut path = None;
    let mut observers = 8;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--observers" => {
                observers = arguments
                    .next()
                    .and_then(|n| n.parse().ok())
                    .expect("a number of observers")
            }
            _ => path = Some(argument),
        }
    }
    let start = Instant::now();
    let graph = match &path {
        Some(path) => {
            edges::connected(&std::fs::read_to_string(path).expect("readable")).expect("a connected graph")
        }
        None => grown(4039, 22),
    };
    println!(
        "{} nodes, {} edges, read in {:.3} s",
        graph.parties(),
        graph.edges().len(),
        start.elapsed().as_secs_f64()
    );
    let weights = Weights::of(&graph, Scheme::Metropolis);
    pairs(&weights);
    over_rounds(&weights, graph.edges().len());
    over_sizes();
    distribution(&weights, observers);
}

fn threat(observer: &usize, rounds: usize) -> Threat<'_> {
    let observers = std::slice::from_ref(observer);
    Threat {
        observers,
        rounds,
        view: ObserversView::Sum,
        noise: ObserversNoise::Unknown,
    }
}

/// The median of three.
fn seconds(mut work: impl FnMut()) -> f64 {
    let mut times = [0.0; 3].map(|_: f64| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    times.sort_unstable_by(f64::total_cmp);
    times[1]
}

fn pairs(weights: &Weights) {
    println!("\none observer and one target, T = {ROUNDS}, from the loaded graph");
    let last = weights.nodes() - 1;
    for (observer, target) in [
        (0, 1),
        (0, last),
        (last, last - 1),
        (last / 2, last / 2),
        (300.min(last), 0),
    ] {
        let mut answer = None;
        let time = seconds(|| {
            answer = Some(sensitivity(weights, &threat(&observer, ROUNDS), target).expect("an answer"))
        });
        let answer = answer.expect("measured");
        println!(
            "  {observer:5} <- {target:5}  {time:.3} s   {:.9e} … {:.9e}",
            answer.lower, answer.upper
        );
    }
}

fn over_rounds(weights: &Weights, edges: usize) {
    println!("\nover T: one observer, one target");
    let mut points = Vec::new();
    for rounds in [25, 50, 100, 200, 400, 800] {
        let time = seconds(|| {
            sensitivity(weights, &threat(&0, rounds), 1).expect("an answer");
        });
        let unit = (rounds * (edges + rounds)) as f64;
        println!(
            "  T = {rounds:4}  {time:.4} s   {:.2} ns for each of T (edges + T)",
            time / unit * 1e9
        );
        points.push((libm::log(unit), libm::log(time)));
    }
    println!("  time grows like (T (edges + T)) ^ {:.2}", slope(&points));
}

fn over_sizes() {
    println!("\nover n: grown graphs, 22 edges a node, T = {ROUNDS}, one observer, one target");
    let mut points = Vec::new();
    for nodes in [1000, 2000, 4000, 8000, 16000, 32000] {
        let graph = grown(nodes, 22);
        let weights = Weights::of(&graph, Scheme::Metropolis);
        let time = seconds(|| {
            sensitivity(&weights, &threat(&0, ROUNDS), 1).expect("an answer");
        });
        let unit = (ROUNDS * (graph.edges().len() + ROUNDS)) as f64;
        println!(
            "  n = {nodes:5}  {time:.4} s   {:.2} ns for each of T (edges + T)",
            time / unit * 1e9
        );
        points.push((libm::log(nodes as f64), libm::log(time)));
    }
    println!("  time grows like n ^ {:.2}", slope(&points));
}

fn distribution(weights: &Weights, count: usize) {
    println!(
        "\nupper values, T = {ROUNDS}: {count} observers, all {} targets each",
        weights.nodes()
    );
    let targets: Vec<usize> = (0..weights.nodes()).collect();
    let (mut all, mut slowest) = (Vec::with_capacity(count * targets.len()), 0.0f64);
    for index in 0..count {
        let observer = index * weights.nodes() / count;
        let start = Instant::now();
        let prepared = Observers::of(weights, &threat(&observer, ROUNDS), &targets).expect("an observer");
        all.extend(prepared.sensitivities().iter().map(|answer| answer.upper));
        slowest = slowest.max(start.elapsed().as_secs_f64());
    }
    all.sort_unstable_by(f64::total_cmp);
    let central = ROUNDS as f64 / weights.nodes() as f64;
    println!(
        "  slowest observer {slowest:.1} s; T/n = {central:.3e}; mean {:.3e}",
        all.iter().sum::<f64>() / all.len() as f64
    );
    for percent in [0.0, 1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0, 99.9, 100.0] {
        let value = all[((all.len() - 1) as f64 * percent / 100.0) as usize];
        println!("  {percent:5} %  {value:.4e}  = {:.3} T/n", value / central);
    }
}

/// Preferential attachment from a core: every further node joins `degree` distinct ones, in
/// proportion to their degrees.
fn grown(nodes: usize, degree: usize) -> Graph {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut edges: Vec<(usize, usize)> = (0..=degree).flat_map(|a| (0..a).map(move |b| (b, a))).collect();
    for node in degree + 1..nodes {
        let mut chosen = Vec::with_capacity(degree);
        while chosen.len() < degree {
            let (a, b) = edges[random.random_range(0..edges.len())];
            let end = if random.random() { a } else { b };
            if end != node && !chosen.contains(&end) {
                chosen.push(end);
            }
        }
        edges.extend(chosen.into_iter().map(|end| (end, node)));
    }
    Graph::from_edges(nodes, &edges).expect("a simple graph")
}

/// The slope of the least-squares line through these points.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
        / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}
