//! Sums whose terms are added one after the other, in the order of their places: what every machine
//! has to come to the same bits of.

/// Σ a_i·b_i, one after the other.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b)
}

/// √Σ v_i², scaled by the largest so that it neither overflows nor vanishes.
pub fn norm(vector: &[f64]) -> f64 {
    let largest = vector.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    let squares = vector.iter().fold(0.0, |sum, v| {
        let scaled = v / largest;
        sum + scaled * scaled
    });
    largest * squares.sqrt()
}
