//! Vectors that are the tensors of a model, one after the other by name.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::run_file::problem::{Checked, Problem, require};
use crate::plan::run_file::settings::{Clip, Data};

/// A block of consecutive coordinates that are clipped as one vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ball {
    /// The number of their coordinates.
    pub coordinates: usize,
    /// The largest Euclidean length of them together.
    pub radius: f64,
}

/// The coordinates of a tensor with these extents; saturates.
fn coordinates(shape: &[usize]) -> usize {
    shape
        .iter()
        .fold(1usize, |product, &extent| product.saturating_mul(extent))
}

/// The coordinates of all tensors; saturates.
pub(super) fn coordinates_of_all(tensors: &BTreeMap<String, Vec<usize>>) -> usize {
    tensors
        .values()
        .fold(0usize, |sum, shape| sum.saturating_add(coordinates(shape)))
}

impl Data {
    /// The name of a coordinate that lies in a named tensor, with its place along each axis:
    /// `weight[0,2]`. A tensor without axes is one number, which has the tensor's name.
    pub fn place_in_tensors(&self, coordinate: usize) -> Option<String> {
        let mut rest = coordinate;
        for (name, shape) in self.tensors.as_ref()? {
            let own = coordinates(shape);
            if rest >= own {
                rest -= own;
                continue;
            }
            let mut places = vec![];
            for extent in shape.iter().rev() {
                places.insert(0, (rest % extent).to_string());
                rest /= extent;
            }
            return Some(match places.is_empty() {
                true => name.clone(),
                false => format!("{name}[{}]", places.join(",")),
            });
        }
        None
    }

    /// The balls that a vector's coordinates lie in, in their order: one of all, or one for each
    /// tensor. None for a box.
    pub fn balls(&self) -> Option<Vec<Ball>> {
        let ball = |coordinates, radius| Ball { coordinates, radius };
        match &self.clip {
            Clip::Box { .. } => None,
            Clip::L2 { radius } => Some(vec![ball(self.dimension(), *radius)]),
            Clip::Described { zero_out, .. } => Some(vec![ball(self.dimension(), *zero_out)]),
            Clip::Tensors { radius } => {
                let shapes = self.tensors.as_ref()?.values();
                let each = shapes.zip(radius.values());
                Some(
                    each.map(|(shape, radius)| ball(coordinates(shape), *radius))
                        .collect(),
                )
            }
        }
    }

    /// Returns the largest length of a clipped vector; `None` for a box.
    pub fn radius(&self) -> Option<f64> {
        match &self.clip {
            Clip::Box { .. } => None,
            Clip::L2 { radius } => Some(*radius),
            Clip::Described { zero_out, .. } => Some(*zero_out),
            Clip::Tensors { radius } => {
                // Scaled, so that no square overflows or vanishes beside the largest.
                let largest = radius.values().fold(0.0f64, |most, radius| most.max(*radius));
                let squares = radius.values().map(|radius| (radius / largest).powi(2));
                Some(largest * squares.sum::<f64>().sqrt())
            }
        }
    }

    /// Tensors come to the vector's coordinates, and each has a radius where each is clipped.
    pub(in crate::plan) fn check_tensors(&self) -> Checked {
        let radii = match &self.clip {
            Clip::Tensors { radius } => Some(radius),
            _ => None,
        };
        let Some(tensors) = &self.tensors else {
            return require(radii.is_none(), "data.tensors", || Problem::Missing {
                example: "tensors = { \"layer.weight\" = [16, 65], \"layer.bias\" = [16] } under [data]",
            });
        };
        let fine = |name: &String| (1..=256).contains(&name.len()) && !name.contains(char::is_control);
        let named = !tensors.is_empty() && tensors.keys().all(fine);
        require(named, "data.tensors", || Problem::Tensor {
            what: "has no tensor, or one without a name that a plan can carry",
            name: String::new(),
        })?;
        let found = coordinates_of_all(tensors);
        let empty = tensors.iter().find(|(_, shape)| coordinates(shape) == 0);
        require(empty.is_none(), "data.tensors", || Problem::Tensor {
            what: "has no coordinate in tensor",
            name: empty.map_or(String::new(), |(name, _)| name.clone()),
        })?;
        let agrees = self.shape[..] == [found];
        require(agrees, "data.shape", || Problem::TensorShape { found })?;
        let Some(radii) = radii else { return Ok(()) };
        let names = |of: &mut dyn Iterator<Item = &String>| of.cloned().collect::<BTreeSet<String>>();
        let (shaped, clipped) = (names(&mut tensors.keys()), names(&mut radii.keys()));
        let odd = shaped.symmetric_difference(&clipped).next();
        require(odd.is_none(), "data.clip.radius", || Problem::Tensor {
            what: match odd.is_some_and(|name| clipped.contains(name)) {
                true => "names a tensor that data.tensors does not have:",
                false => "has no radius for tensor",
            },
            name: odd.cloned().unwrap_or_default(),
        })?;
        radii.values().try_for_each(|&radius| check_radius(radius))
    }
}

/// Squares of others would overflow or vanish.
pub(in crate::plan) fn check_radius(radius: f64) -> Checked {
    require((1e-100..=1e100).contains(&radius), "data.clip.radius", || {
        Problem::Range {
            found: radius,
            expected: "a finite number above 0 (1e-100 to 1e100)",
        }
    })
}
