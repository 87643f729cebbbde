//! Gossip averaging (Koskela and Kulkarni): every party adds up its own message and its neighbours'
//! under public weights, round after round. Here is what is computed; who sends what when is the
//! machine's.
//!
//! Round t: zⱼ = θⱼ + xⱼ + uⱼ, state and release and fresh noise, goes to the neighbours that are
//! active in round t; θ′ᵢ = round(Σⱼ Nᵢⱼ zⱼ / 2^16), N the integer weights of the round's edges. A
//! message that is missing leaves its term out, of the state and of the public weight that comes
//! with it: departures then tell a coalition no more than if it had joined it.

pub mod averaging;
pub(crate) mod circles;
pub mod close;
pub mod rounds;
pub mod weights;
