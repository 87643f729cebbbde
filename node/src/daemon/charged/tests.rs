use super::*;

const ALL: Charge = Charge {
    mu_squared: 0.4,
    draw: 1e-9,
    distance: 2e-10,
};

/// A release that turns out dearer makes the later ones as dear, and those that have left.
#[test]
fn a_dearer_release_makes_all_of_them_as_dear() {
    let mut iterations = Iterations::new(4, ALL);
    let close = |found: f64, expected: f64| found >= expected && found < expected * (1.0 + 1e-12);
    assert!(close(iterations.cost(1).mu_squared, 0.1) && close(iterations.cost(3).mu_squared, 0.3));
    assert_eq!((iterations.cost(4), iterations.cost(9)), (ALL, ALL));
    iterations.charged = 2;
    assert_eq!(iterations.settle(0.3), None, "less than planned lowers nothing");
    assert!(close(iterations.cost(3).mu_squared, 0.3));
    let raised = iterations.settle(0.5).expect("dearer");
    assert!(
        close(raised.mu_squared, 0.5),
        "the two that are charged: {raised:?}"
    );
    for (count, cost) in [(1, 0.25), (3, 0.75), (4, 1.0), (9, 1.0)] {
        let found = iterations.cost(count);
        assert!(close(found.mu_squared, cost), "{count}: {found:?}");
    }
    assert_eq!(iterations.settle(0.4), None, "as dear is not dearer");
    let unknown = iterations.settle(f64::NAN).expect("no knowledge is no bound");
    assert_eq!(unknown.mu_squared, f64::INFINITY);
}

#[test]
fn a_draw_counts_before_anything_leaves_and_sampling_with_the_first_release() {
    let iterations = Iterations::new(4, ALL);
    let draw = Charge {
        draw: 1e-9,
        ..Charge::NOTHING
    };
    assert_eq!(iterations.cost(0), draw);
    for count in 1..6 {
        let cost = iterations.cost(count);
        assert_eq!((cost.draw, cost.distance), (ALL.draw, ALL.distance));
    }
}

/// No iteration leaves before it is charged, and those that are charged are not charged again.
#[test]
fn iterations_are_charged_some_ahead_before_the_first_of_them_leaves() {
    let mut iterations = Iterations::new(25, ALL);
    iterations.charged = AHEAD;
    let mut charged = vec![];
    for iteration in 2..=26 {
        if let Some(count) = iterations.lacking(iteration) {
            iterations.charged = count;
            charged.push((iteration, count));
        }
        assert!(iterations.charged >= iteration.min(25), "{iteration} leaves");
    }
    assert_eq!(charged, [(11, 20), (21, 25)]);
}
