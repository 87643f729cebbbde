use undertone_protocol::graph::Graph;
use undertone_protocol::schedule::Schedule;

use super::*;
use crate::coalitions;
use crate::execution::{InjectionSpec, NamedInjection};
use crate::faults::single_shares;
use crate::setting::Setting;

#[test]
fn the_way_taken_in_doubt_agrees_with_the_fast_one() {
    let schedule = Schedule::draw(&Graph::complete(5), 1, 3, 5).expect("enough neighbours");
    let setting = Setting {
        family: InjectionSpec::Named(NamedInjection::Incremental).into(),
        out: schedule.out().to_vec(),
        sensitivity: vec![1.0, 1.2, 0.9, 1.1, 1.0],
        weights: vec![1.0; 5],
        colluding: 1,
        dropouts: 1,
        rollback: true,
    };
    let base = setting.fault_free().expect("a schedule");
    let screen = Screen::of(&Trace::of(&base, &setting.weights), &base);
    let faults = single_shares(&setting);
    for coalition in coalitions::all(5, 2) {
        let fast = screen.worst(&screen.at(9.0), &coalition, &faults, &setting.sensitivity).expect("somebody is honest");
        let careful = screen.worst_with_care(&coalition, &faults, &setting.sensitivity, 9.0).expect("somebody is honest");
        assert!(
            (fast.square / careful.square - 1.0).abs() < 1e-10 && (fast.next / careful.next - 1.0).abs() < 1e-10,
            "{fast:?} {careful:?}"
        );
    }
}

#[test]
fn dependent_rows_are_left_to_the_careful_way() {
    assert!(inverse_factor(Array2::from_elem((2, 2), 1.0)).is_none());
    let inverse = inverse_factor(ndarray::array![[4.0, 2.0], [2.0, 5.0]]).expect("positive definite");
    assert_eq!(inverse, ndarray::array![[0.5, 0.0], [-0.25, 0.5]]);
}
