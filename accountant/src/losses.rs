//! Losses of the values in a linear-Gaussian view.

pub mod charge;
pub mod contributions;
pub(crate) mod covariances;
pub mod gaussian;
pub mod loss;
pub mod releases;
pub mod row_space;
pub mod same_sum;
pub mod view;
