//! Processes, containers and hosts that wait much more than they compute: for deadlines, for lost
//! packets, for each other.
//!
//! They are one program, so that several wait at once: nothing in it has the machine for itself,
//! and deadlines that nobody is to miss leave time for others' work. Give it more threads than
//! there are cores (`RUST_TEST_THREADS`).

mod averaging;
mod compose;
mod daemon_averaging;
mod daemon_budget;
mod dark;
mod doctor_testnet;
mod dropouts;
mod journeys;
mod kill;
mod labs;
mod leave;
mod lobby;
mod mixing_again;
mod monitored;
mod notebook;
mod reached;
mod relayed;
mod router;
mod soak;
mod starting;
mod testnet;
mod training;
