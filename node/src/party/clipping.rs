//! From a party's raw vector or records to the lattice: clip, weigh, round within the clipping
//! range.

use undertone_protocol::lattice::grid::Lattice;
use undertone_protocol::lattice::payload::Payload;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::handed_over::ClippedBy;
use undertone_protocol::plan::run_file::settings::{Clip, Data, Unit};
use undertone_protocol::plan::run_file::tensors::Ball;

use crate::telling::table::number;

/// Clips in place, as the plan says; where that changed anything, what the vector, or the tensor
/// that lost most, was scaled by (1 in a box). Bounds are public, and not to be taken from the
/// data. `balls` are the range's own; none of a box.
fn clip(bounds: &Clip, balls: &[Ball], values: &mut [f64]) -> Option<f64> {
    if let Clip::Box { low, high } = bounds {
        let mut changed = false;
        for (i, value) in values.iter_mut().enumerate() {
            let clipped = value.max(low.at(i)).min(high.at(i));
            changed |= clipped != *value;
            *value = clipped;
        }
        return changed.then_some(1.0);
    }
    let (mut rest, mut scaled) = (values, None);
    for ball in balls {
        let (own, others) = std::mem::take(&mut rest).split_at_mut(ball.coordinates);
        rest = others;
        if let Some(factor) = clip_to_ball(ball.radius, own) {
            scaled = Some(scaled.map_or(factor, |least: f64| least.min(factor)));
        }
    }
    scaled
}

fn clip_to_ball(radius: f64, values: &mut [f64]) -> Option<f64> {
    // Scaled, so that it neither overflows nor loses small vectors.
    let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    if largest == 0.0 {
        return None;
    }
    let relative = values.iter().map(|v| (v / largest).powi(2)).sum::<f64>().sqrt();
    if largest * relative <= radius {
        return None;
    }
    let factor = radius / relative;
    values.iter_mut().for_each(|v| *v = *v / largest * factor);
    Some(factor / largest)
}

/// What clipping did to a party's vector, or to its records. For its owner's eyes alone: it never
/// goes to a file, a log or another party, and does not print itself.
#[derive(Clone, Copy, PartialEq)]
pub struct Clipped {
    /// How many vectors or records were changed.
    pub changed: usize,
    /// How many there are.
    pub of: usize,
    /// What the vector that lost most was multiplied by, where the range is a ball; else 1.
    scaled: f64,
}

impl Clipped {
    /// Nothing is told: how many gradients are clipped depends on the model.
    pub fn none() -> Self {
        Clipped {
            changed: 0,
            of: 0,
            scaled: 1.0,
        }
    }

    /// A sentence for the owner; none where everything was within the range.
    pub fn sentence(&self, data: &Data) -> Option<String> {
        let Clipped { changed, of, scaled } = *self;
        let what = match (data.unit, &data.clip) {
            _ if changed == 0 => return None,
            (Unit::Party, Clip::L2 { .. }) => format!("your vector was scaled by {}", number(scaled)),
            (Unit::Party, Clip::Box { .. }) => "your vector was moved into its bounds".to_owned(),
            (Unit::Party, Clip::Tensors { .. }) => {
                format!(
                    "tensors of yours were scaled, the longest for its radius by {}",
                    number(scaled)
                )
            }
            (Unit::Record, Clip::L2 { .. } | Clip::Tensors { .. }) => format!(
                "{} of {} rows clipped, the longest scaled by {}",
                grouped(changed),
                grouped(of),
                number(scaled)
            ),
            (Unit::Record, Clip::Box { .. }) => {
                format!("{} of {} rows clipped", grouped(changed), grouped(of))
            }
        };
        Some(format!(
            "{what} (data.clip); the error that is stated is the noise's only and does not know of it"
        ))
    }
}

/// A count with its thousands apart.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).expect("digits"))
        .collect();
    groups.join(",")
}

/// Clips a party's vector, or each of its records.
pub fn clip_all(data: &Data, values: &mut [f64]) -> Clipped {
    let mut clipped = Clipped {
        changed: 0,
        of: 0,
        scaled: 1.0,
    };
    let balls = data.balls().unwrap_or_default();
    for vector in values.chunks_mut(data.dimension()) {
        clipped.of += 1;
        if let Some(factor) = clip(&data.clip, &balls, vector) {
            clipped.changed += 1;
            clipped.scaled = clipped.scaled.min(factor);
        }
    }
    clipped
}

/// The mean of rows of `dimension` coordinates each, of which there is at least one.
pub fn mean_of_rows(values: &[f64], dimension: usize) -> Vec<f64> {
    let mut mean = vec![0.0; dimension];
    // Divided first: no sum of finite numbers may overflow.
    let share = dimension as f64 / values.len() as f64;
    values
        .chunks(dimension)
        .for_each(|row| mean.iter_mut().zip(row).for_each(|(m, v)| *m += v * share));
    mean
}

/// What a party carries, on the plan's lattice and within the range that Δ was derived from: its
/// clipped vector times its public weight, or the sum of its clipped records. Each record is
/// rounded, and checked, by itself, so that a change of one stays within Δ.
pub fn onto_lattice(plan: &Plan, party: usize, clipped: &[f64]) -> LatticeVector {
    let balls = plan.draft().data.balls().unwrap_or_default();
    match plan.draft().data.unit {
        Unit::Party => one_onto_lattice(plan, (party, &balls), plan.draft().weight(party), clipped),
        Unit::Record => {
            let dimension = plan.draft().dimension();
            let mut sum = plan.lattice().zeros(dimension);
            clipped
                .chunks(dimension)
                .for_each(|record| sum.add(&one_onto_lattice(plan, (party, &balls), 1.0, record)));
            sum
        }
    }
}

/// What a source handed over, clipped and on the plan's lattice: a party's vector, its rows, or the
/// sum of rows that a program clipped.
pub fn handed_over_onto_lattice(plan: &Plan, party: usize, mut values: Vec<f64>) -> LatticeVector {
    let data = &plan.draft().data;
    match (data.clipped, &data.clip) {
        (ClippedBy::ByProgram, Clip::L2 { radius }) => {
            // Rows within their ball come to no more together, and then nothing is changed here:
            // two sums are as far apart as they were handed over, and as rounding takes them.
            clip_to_ball(radius * plan.draft().weight(party), &mut values);
            plan.lattice().encode(values.into_iter())
        }
        _ => {
            clip_all(data, &mut values);
            onto_lattice(plan, party, &values)
        }
    }
}

fn one_onto_lattice(
    plan: &Plan,
    (party, balls): (usize, &[Ball]),
    weight: f64,
    clipped: &[f64],
) -> LatticeVector {
    match &plan.draft().data.clip {
        Clip::L2 { radius } => ball_onto_lattice(plan.lattice(), radius * weight, weight, clipped),
        Clip::Tensors { .. } => {
            // Each tensor within its own ball on the lattice, by a factor of its own.
            let (mut rest, mut scaled) = (clipped, Vec::with_capacity(clipped.len()));
            for ball in balls {
                let (own, others) = rest.split_at(ball.coordinates);
                rest = others;
                let (_, factor) = within_ball(plan.lattice(), ball.radius * weight, weight, own);
                scaled.extend(own.iter().map(|value| value * factor));
            }
            plan.lattice().encode(scaled.into_iter())
        }
        Clip::Box { .. } => plan
            .lattice()
            .encode(clipped.iter().enumerate().map(|(i, value)| {
                let (low, high) = plan
                    .input_range(party, i)
                    .expect("a box has a range for every coordinate");
                (value * weight / plan.scales().at(i)).max(low).min(high)
            })),
    }
}

/// What an integer vector's norm is held against.
pub(super) struct CellBall {
    /// The most that the square of its norm may be.
    pub(super) bound: f64,
    /// What a vector is multiplied with whose norm is above that, as often as it takes.
    pub(super) shrink: f64,
}

/// For vectors of so many coordinates, in a ball of this radius in cells.
pub(super) fn cells_within(radius: f64, coordinates: usize) -> CellBall {
    // Summing m squares in f64, and this line's own rounding, are off by at most this, relatively.
    let doubt = (coordinates as f64 + 8.0) * 2f64.powi(-52);
    CellBall {
        bound: radius.powi(2) * (1.0 - doubt),
        shrink: 1.0 - doubt.max(2f64.powi(-44)),
    }
}

/// Checks the *integer* norm: floating point may not let a vector out of its ball.
pub(super) fn ball_onto_lattice(
    lattice: &Lattice,
    radius: f64,
    weight: f64,
    clipped: &[f64],
) -> LatticeVector {
    within_ball(lattice, radius, weight, clipped).0
}

/// The vector, times the weight, within its ball on the lattice, and what it was multiplied by.
fn within_ball(lattice: &Lattice, radius: f64, weight: f64, clipped: &[f64]) -> (LatticeVector, f64) {
    let (cell, grid) = (lattice.value_step(), lattice.value_grid());
    let ball = cells_within(radius / cell, clipped.len());
    let mut factor = weight;
    loop {
        let vector = lattice.encode(clipped.iter().map(|v| v * factor));
        let norm: f64 = vector.steps().map(|s| ((s / grid) as f64).powi(2)).sum();
        if norm <= ball.bound {
            return (vector, factor);
        }
        factor *= ball.shrink;
    }
}

#[cfg(test)]
mod tests {
    use undertone_protocol::lattice::grid::{LatticeRequest, Travel, WEIGHT_UNIT};
    use undertone_protocol::lattice::injection::Injection;
    use undertone_protocol::plan::peers::Peers;
    use undertone_protocol::plan::run_file::parsed::RunFile;
    use undertone_protocol::plan::run_file::settings::Bound;

    use super::*;
    use crate::planning::make;

    #[test]
    fn clipping_keeps_what_is_inside_and_reports_what_it_changed() {
        let ball = Clip::L2 { radius: 5.0 };
        let whole = [Ball {
            coordinates: 2,
            radius: 5.0,
        }];
        let mut inside = [3.0, 4.0];
        assert_eq!(clip(&ball, &whole, &mut inside), None);
        assert_eq!(inside, [3.0, 4.0]);
        for outside in [[6.0, 8.0], [1e300, 1e300], [1.7e308, -1.7e308]] {
            let mut values = outside;
            assert!(clip(&ball, &whole, &mut values).is_some());
            assert!((values[0].hypot(values[1]) - 5.0).abs() < 1e-12);
        }
        let cube = Clip::Box {
            low: Bound::All(-1.0),
            high: Bound::Each(vec![1.0, 1.0, 3.0]),
        };
        let mut values = [0.5, -3.0, 2.0];
        assert_eq!(clip(&cube, &[], &mut values), Some(1.0));
        assert_eq!(values, [0.5, -1.0, 2.0]);
    }

    /// A plan of 4 parties with 3 records each of 2 columns.
    fn plan_of_records(data: &str) -> Plan {
        let text = format!(
            "name = \"rows\"\n[data]\nshape = [2]\nunit = \"record\"\n{data}\n[mechanism]\nrounds = 3\n"
        );
        let run = RunFile::parse(&text, 4).unwrap();
        make::make(run, &Peers::simulated(4, Some(3)).unwrap(), 0).unwrap()
    }

    fn in_units(plan: &Plan, vector: &LatticeVector) -> Vec<f64> {
        vector.steps().map(|s| s as f64 * plan.lattice().step()).collect()
    }

    #[test]
    fn records_are_clipped_and_rounded_one_by_one() {
        let plan = plan_of_records("clip = { kind = \"l2\", radius = 1.0 }");
        let mut values = vec![3.0, 4.0, 0.6, 0.8, -0.3, 0.0];
        assert_eq!(clip_all(&plan.draft().data, &mut values).changed, 1);
        let sum = in_units(&plan, &onto_lattice(&plan, 0, &values));
        let cell = plan.lattice().value_step();
        // Each of three rows is rounded towards zero by less than a cell.
        for (found, exact) in sum.iter().zip([0.6 + 0.6 - 0.3, 0.8 + 0.8]) {
            assert!(
                (found - exact).abs() < 3.0 * cell,
                "{found} for {exact}, cell {cell}"
            );
        }
        // Replacing one row moves the sum by at most 2C, opposite corners included.
        let mut other = values.clone();
        other[..2].copy_from_slice(&[-0.6, -0.8]);
        let moved = in_units(&plan, &onto_lattice(&plan, 0, &other));
        let distance = (sum[0] - moved[0]).hypot(sum[1] - moved[1]);
        assert!(
            distance <= plan.draft().sensitivity(0) && distance > 2.0 - 4.0 * cell,
            "{distance}"
        );
    }

    #[test]
    fn the_sum_of_many_rows_is_not_biased_by_their_rounding() {
        let text = "name = \"rows\"\n[data]\nshape = [1]\nunit = \"record\"\n\
                    clip = { kind = \"box\", low = 0, high = 1 }\n[mechanism]\nrounds = 3\n";
        let rows = 200_000;
        let peers = Peers::simulated(4, Some(rows)).unwrap();
        let plan = make::make(RunFile::parse(text, 4).unwrap(), &peers, 0).unwrap();
        let values: Vec<f64> = (0..rows).map(|row| (row as f64 * 0.618).fract()).collect();
        let sum = in_units(&plan, &onto_lattice(&plan, 0, &values))[0];
        let exact: f64 = values.iter().sum();
        assert!(
            (sum - exact).abs() < 1e-3 * plan.calibration().independent_std,
            "{sum} for {exact}"
        );
    }

    #[test]
    fn columns_meet_the_lattice_in_widths() {
        let plan = plan_of_records("clip = { kind = \"box\", low = [0, 40], high = [1, 500] }");
        let mut values = vec![1.0, 500.0, 0.0, 40.0, 0.5, 1e9];
        assert_eq!(clip_all(&plan.draft().data, &mut values).changed, 1);
        assert_eq!(values[5], 500.0);
        let sum = in_units(&plan, &onto_lattice(&plan, 1, &values));
        let cell = plan.lattice().value_step();
        assert!(
            (sum[0] - 1.5).abs() < 3.0 * cell && (sum[1] - 1040.0 / 460.0).abs() < 3.0 * cell,
            "{sum:?}"
        );
        let mut other = values.clone();
        other[..2].copy_from_slice(&[0.0, 40.0]);
        let moved = in_units(&plan, &onto_lattice(&plan, 1, &other));
        let distance = (sum[0] - moved[0]).hypot(sum[1] - moved[1]);
        assert!(
            distance <= plan.draft().sensitivity(1) && distance > 2f64.sqrt() - 4.0 * cell,
            "{distance}"
        );
    }

    /// Each tensor stays in its own ball on the lattice, whatever the others are, and no two rows
    /// are further apart than the sensitivity.
    #[test]
    fn tensors_are_clipped_each_to_its_own_radius() {
        let text = "name = \"tensors\"\n[data]\nunit = \"record\"\ntensors = { b = [2], w = [3, 1] }\n\
                    clip = { kind = \"tensors\", radius = { b = 0.25, w = 2.0 } }\n";
        let run = RunFile::parse(text, 4).unwrap();
        let plan = make::make(run, &Peers::simulated(4, Some(1)).unwrap(), 0).unwrap();
        let (cell, sensitivity) = (plan.lattice().value_step(), plan.draft().sensitivity(0));
        assert!((sensitivity - 2.0 * (0.25f64.powi(2) + 4.0).sqrt()).abs() < 1e-12);
        let rows = [
            [3.0, 4.0, 1e9, -1e9, 3.0],
            [-3.0, -4.0, -1e9, 1e9, -3.0],
            [0.15, 0.2, 0.0, 0.0, 0.0],
            [0.0, 0.0, 1.2, 0.1, 1.6],
        ];
        let onto = rows.map(|row| {
            let mut values = row.to_vec();
            clip_all(&plan.draft().data, &mut values);
            in_units(&plan, &onto_lattice(&plan, 0, &values))
        });
        let norm = |part: &[f64]| part.iter().map(|x| x * x).sum::<f64>().sqrt();
        for vector in &onto {
            assert!(
                norm(&vector[..2]) <= 0.25 && norm(&vector[2..]) <= 2.0,
                "{vector:?}"
            );
        }
        for (found, exact) in onto[0].iter().zip([0.15, 0.2, 2f64.sqrt(), -(2f64.sqrt()), 0.0]) {
            assert!((found - exact).abs() < 2.0 * cell, "{:?}", onto[0]);
        }
        let apart: Vec<f64> = onto[0].iter().zip(&onto[1]).map(|(a, b)| a - b).collect();
        let apart = norm(&apart);
        assert!(
            apart <= sensitivity && apart > sensitivity - 10.0 * cell,
            "{apart}"
        );
    }

    /// Two sums of three rows, one of which is replaced, also at the border of the ball of all.
    #[test]
    fn sums_of_a_program_are_no_further_apart_than_the_sensitivity() {
        let text = "task = \"rounds\"\nname = \"sums\"\n[data]\nshape = [2]\nunit = \"record\"\nreleases = 2\n\
                    clipped = \"by-program\"\nclip = { kind = \"l2\", radius = 1.0 }\n";
        let run = RunFile::parse(text, 4).unwrap();
        let plan = make::make(run, &Peers::simulated(4, Some(3)).unwrap(), 0).unwrap();
        assert!(plan.lattice().value_step() <= plan.draft().data.coarsest_cell());
        let mut furthest = 0.0f64;
        for turn in 0..720 {
            let (x, y) = (f64::from(turn) / 720.0 * std::f64::consts::TAU).sin_cos();
            for others in [[0.0, 0.0], [2.0 * x, 2.0 * y], [1.3, 1.2]] {
                let of = |sign: f64| vec![others[0] + sign * x, others[1] + sign * y];
                let [one, two] =
                    [1.0, -1.0].map(|sign| in_units(&plan, &handed_over_onto_lattice(&plan, 0, of(sign))));
                furthest = furthest.max((one[0] - two[0]).hypot(one[1] - two[1]));
            }
        }
        // Rounding takes some of them further apart than two rows are.
        assert!(
            furthest > 2.0 && furthest <= plan.draft().sensitivity(0),
            "{furthest}"
        );
    }

    #[test]
    fn no_vector_leaves_its_ball_on_the_lattice() {
        let injection = Injection::exact_incremental(7);
        let lattice = Lattice::fit(&LatticeRequest {
            parties: 8,
            dimension: 3,
            travel: Travel::Split {
                fanout: 1,
                injection: &injection,
                received_bound: 1,
            },
            value_bound: 1.0,
            rows: 1,
            coarsest: f64::INFINITY,
            weight_bound: WEIGHT_UNIT,
            independent_std: 4.0,
            correlated_std: 3.0,
            shares_bound: 7,
            epsilon: 1.0,
            delta: 1e-6,
        })
        .unwrap();
        for scale in [1.0, 3.0, 1e9, 1e-3] {
            for direction in [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.3, -0.9, 0.1]] {
                let mut values = direction.map(|v| v * scale);
                clip_to_ball(1.0, &mut values);
                let vector = ball_onto_lattice(&lattice, 1.0, 1.0, &values);
                let norm: i128 = vector.steps().map(|s| s * s).sum();
                let bound = 1.0 / lattice.step();
                assert!((norm as f64) <= bound * bound, "{direction:?} {scale}");
            }
        }
    }
}
