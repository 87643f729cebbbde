use super::*;

fn frame(bytes: &[u8]) -> (Bytes, Range<usize>) {
    ([b"head", bytes].concat().into(), 4..4 + bytes.len())
}

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn fine(_: &Bytes) -> Result<(), &'static str> {
    Ok(())
}

#[test]
fn a_large_body_is_pulled_from_the_first_announcer_then_from_another() {
    let mut items = Items::new(0, 1 << 20, 1600);
    let bytes = vec![7; 20_000];
    let item = (item_hash(&bytes), 20_000);
    assert!(items.announced(5, item, 1));
    assert!(items.announced(5, item, 2));
    assert_eq!(items.pull(at(0), |_| true), Ok((1, 5)));
    assert_eq!(items.pull(at(1), |_| true), Err(at(400)), "asked once");
    items.lost(1);
    assert_eq!(items.pull(at(2), |_| true), Ok((2, 5)));
    let (wrong, range) = frame(&[8; 20_000]);
    assert_eq!(items.body(5, 2, &wrong, range, fine), Taken::Wrong);
    assert_eq!(items.pull(at(3), |_| true), Err(Time::FAR), "nobody is left");
    assert!(items.announced(5, item, 3));
    assert_eq!(items.pull(at(4), |_| true), Ok((3, 5)));
    let (right, range) = frame(&bytes);
    assert_eq!(
        items.body(5, 3, &right, range.clone(), fine),
        Taken::New(item_hash(&bytes))
    );
    items.passed_on(5, item.0);
    assert_eq!(items.body(5, 3, &right, range, fine), Taken::Ignored);
    assert!(items.hold_all(&vec![(5, item.0)]));
    assert!(!items.hold_all(&vec![(5, [0; 32])]));
    let served: Vec<_> = (0..9)
        .map(|_| items.serve(5, 1))
        .filter(|frames| !frames.is_empty())
        .collect();
    assert_eq!(served.len(), 4, "served, not without end");
    assert!(
        served
            .iter()
            .all(|frames| right == frames[0][..] && Arc::ptr_eq(&frames[0], &served[0][0])),
        "as it came, copied once"
    );
    assert_eq!(items.get(5).and_then(Body::bytes).as_deref(), Some(&bytes[..]));
}

#[test]
fn a_few_large_bodies_are_pulled_at_once_beginning_after_oneself() {
    let mut items = Items::new(2, 4 << 20, 1600);
    let bytes = vec![7; 2 << 20];
    for author in 0..6 {
        items.announced(author, (item_hash(&bytes), 2 << 20), author);
    }
    let asked: Vec<_> = (0..3).map(|_| items.pull(at(0), |_| true)).collect();
    assert_eq!(asked, [Ok((3, 3)), Ok((4, 4)), Ok((5, 5))]);
    assert_eq!(items.pull(at(1), |_| true), Err(at(400)));
    let (body, range) = frame(&bytes);
    assert_eq!(
        items.body(4, 4, &body, range, fine),
        Taken::New(item_hash(&bytes))
    );
    assert_eq!(items.pull(at(2), |_| true), Ok((0, 0)), "one done, one more");
    assert_eq!(
        items.pull(at(400), |_| true),
        Ok((3, 3)),
        "two were silent for too long; the last one of them may try again"
    );
}

#[test]
fn short_bodies_are_pulled_all_at_once() {
    let mut items = Items::new(0, 1 << 20, 1600);
    for author in 1..50 {
        items.announced(author, ([author as u8; 32], 20_000), author);
    }
    assert_eq!(
        (0..99).filter(|_| items.pull(at(0), |_| true).is_ok()).count(),
        49
    );
}

#[test]
fn what_is_no_item_is_never_held() {
    let mut items = Items::new(0, 10, 1600);
    assert!(!items.announced(5, ([0; 32], 11), 1));
    items.announced(5, (item_hash(b"junk"), 4), 5);
    let (junk, range) = frame(b"junk");
    assert_eq!(
        items.body(5, 5, &junk, range.clone(), |_| Err("no log")),
        Taken::Void("no log")
    );
    assert!(items.announced(5, (item_hash(b"junk"), 4), 1));
    assert_eq!(items.body(5, 5, &junk, range, fine), Taken::Ignored);
    assert!(items.set().is_empty());
}

#[test]
fn what_was_announced_before_its_stage_is_asked_for_at_once() {
    let mut items = Items::new(0, 1 << 20, 1600).closed();
    items.announced(5, (item_hash(&[7; 10]), 10), 1);
    assert_eq!(items.pull(at(4), |_| true), Err(Time::FAR));
    items.open(std::iter::empty());
    assert_eq!(items.pull(at(5), |_| true), Ok((1, 5)));
}
