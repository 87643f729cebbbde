use super::*;

#[test]
fn a_later_iteration_is_told_by_its_number() {
    let inner = set_frame(&Set::Items(vec![(1, [7; 32])]));
    let outer = Bytes::from_owner(iteration_frame(7, &inner));
    assert_eq!(outer[..6], [VERSION, 10, 7, 0, 0, 0]);
    let (iteration, found) = of_iteration(&outer).expect("one");
    assert_eq!((iteration, &found[..]), (7, &inner[..]));
    let alone = Bytes::from_owner(inner);
    assert_eq!(of_iteration(&alone).expect("the first").0, 1);
    for short in [&[VERSION, 10][..], &[VERSION, 10, 1, 0, 0]] {
        of_iteration(&Bytes::copy_from_slice(short)).expect_err("no number");
    }
    // A number within a number is no frame of any run.
    let twice = Bytes::from_owner(iteration_frame(8, &outer));
    let (_, within) = of_iteration(&twice).expect("one");
    assert_eq!(read_public(&within).expect_err("no frame"), WireError::Kind(10));
}
