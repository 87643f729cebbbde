//! What a linear-Gaussian view costs those whose values it shows.

pub mod charge;
pub mod contributions;
pub(crate) mod covariances;
pub mod gaussian;
pub mod loss;
pub mod releases;
pub mod row_space;
pub mod same_sum;
pub mod view;
