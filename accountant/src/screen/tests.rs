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
        injection: InjectionSpec::Named(NamedInjection::Incremental),
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
        let fast = screen.worst(&coalition, &faults, &setting.sensitivity, 9.0).expect("somebody is honest");
        let honest: Vec<Party> = (0..5).filter(|party| !coalition.contains(party)).collect();
        let between = faults.iter().filter(|fault| honest.contains(&fault.from) && honest.contains(&fault.to));
        let careful = std::iter::once(None).chain(between.map(Some)).flat_map(|fault| {
            let squares = screen.with_care(&coalition, fault, 9.0);
            honest.iter().zip(squares).map(|(&party, square)| scaled(setting.sensitivity[party], square)).collect::<Vec<_>>()
        });
        let careful = careful.fold(0.0, f64::max);
        assert!((fast.0 / careful - 1.0).abs() < 1e-10, "{fast:?} {careful}");
    }
}

#[test]
fn dependent_rows_are_left_to_the_careful_way() {
    assert!(Cholesky::of(Array2::from_elem((2, 2), 1.0)).is_none());
    let view = View { honest: vec![0], b: Array2::from_elem((2, 1), 1.0), a: Array2::from_elem((2, 1), 2.0) };
    assert!((squared_losses_by_gram(&view, 1.0)[0] - 0.2).abs() < 1e-14);
}
