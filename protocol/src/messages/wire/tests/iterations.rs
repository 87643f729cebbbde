use super::*;

#[test]
fn a_later_iteration_is_reported_by_its_number() {
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

#[test]
fn the_bytes_of_a_message_of_gossip_are_pinned() {
    let frame = message_frame(&[0xaa; 32], share_id(), LatticeWeight(1 << 64), &[1, 2, 3]);
    let (aa, weight) = ("aa".repeat(32), format!("{}01{}", "00".repeat(8), "00".repeat(7)));
    assert_eq!(
        hex(&frame),
        format!("0108 {aa} 02000000 01000000 03000000 {weight} 010203").replace(' ', "")
    );
    match read_private(&frame) {
        Ok(PrivateFrame::Message {
            digest,
            id,
            weight,
            values,
        }) => {
            assert_eq!((digest, id), ([0xaa; 32], share_id()));
            assert_eq!((weight, &frame[values]), (LatticeWeight(1 << 64), &[1, 2, 3][..]));
        }
        other => panic!("{other:?}"),
    }
    read_private(&frame[..40]).expect_err("cut short");
    // The same kind is another frame on the public graph.
    read_public(&frame).expect_err("no set");
}
