//! A small network for the digits: 64 pixels, 16 hidden units, 10 classes.

const PIXELS: usize = 64;
const HIDDEN: usize = 16;
const CLASSES: usize = 10;

/// How many weights there are: two layers, each with a bias for every unit.
pub const WEIGHTS: usize = (PIXELS + 1) * HIDDEN + (HIDDEN + 1) * CLASSES;

/// Its layers by name, in the order of the weights: units, and weights of each with its bias.
pub const LAYERS: [(&str, [usize; 2]); 2] =
    [("hidden", [HIDDEN, PIXELS + 1]), ("out", [CLASSES, HIDDEN + 1])];

/// The weights that everybody begins with, drawn from a fixed seed.
pub fn start() -> Vec<f64> {
    let mut state = 7u64;
    let mut draw = || {
        // Knuth's multiplier and increment (MMIX); its upper half as a number from −1 to 1.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        f64::from((state >> 32) as u32) / f64::from(u32::MAX) * 2.0 - 1.0
    };
    (0..WEIGHTS).map(|_| 0.2 * draw()).collect()
}

/// Activations of the hidden units, and each class's chance.
fn forward(weights: &[f64], pixels: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (first, second) = weights.split_at((PIXELS + 1) * HIDDEN);
    let unit = |weights: &[f64], inputs: &[f64]| {
        let (bias, weights) = weights.split_last().expect("a bias");
        weights.iter().zip(inputs).map(|(w, x)| w * x).sum::<f64>() + bias
    };
    let hidden: Vec<f64> = first
        .chunks(PIXELS + 1)
        .map(|weights| unit(weights, pixels).tanh())
        .collect();
    let scores: Vec<f64> = second
        .chunks(HIDDEN + 1)
        .map(|weights| unit(weights, &hidden).exp())
        .collect();
    let total: f64 = scores.iter().sum();
    (hidden, scores.iter().map(|score| score / total).collect())
}

/// One step against a row's gradient.
pub fn learn(weights: &mut [f64], pixels: &[f64], digit: usize, step: f64) {
    let (hidden, chances) = forward(weights, pixels);
    let (first, second) = weights.split_at_mut((PIXELS + 1) * HIDDEN);
    let mut back = vec![0.0; HIDDEN];
    for (class, weights) in second.chunks_mut(HIDDEN + 1).enumerate() {
        let error = chances[class] - f64::from(u8::from(class == digit));
        for at in 0..HIDDEN {
            back[at] += error * weights[at];
            weights[at] -= step * error * hidden[at];
        }
        weights[HIDDEN] -= step * error;
    }
    for ((weights, back), hidden) in first.chunks_mut(PIXELS + 1).zip(back).zip(hidden) {
        let error = back * (1.0 - hidden * hidden);
        for at in 0..PIXELS {
            weights[at] -= step * error * pixels[at];
        }
        weights[PIXELS] -= step * error;
    }
}

/// The share of rows whose digit the network names.
pub fn accuracy(weights: &[f64], rows: &[(Vec<f64>, usize)]) -> f64 {
    let right = rows.iter().filter(|(pixels, digit)| {
        let (_, chances) = forward(weights, pixels);
        let best = (0..CLASSES).max_by(|&a, &b| chances[a].total_cmp(&chances[b]));
        best == Some(*digit)
    });
    right.count() as f64 / rows.len() as f64
}
