use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;
use crate::party::plan_digest::PlanDigest;

fn plan(number: u64) -> PlanDigest {
    // Weyl's sequence, so that they come in no order.
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    PlanDigest::parse(&format!("{spread:016x}").repeat(4)).unwrap()
}

/// Plans whose digests all begin alike, as somebody may make them who wants them to be slow.
fn crowded(number: u64) -> PlanDigest {
    PlanDigest::parse(&format!("{:032x}{number:032x}", 7)).unwrap()
}

/// Against a tree: more plans than stay in memory, each inserted twice, most of them once they are
/// in the file.
fn is_a_tree(folder: Option<&Path>, plan: impl Fn(u64) -> PlanDigest) -> PlanMap<PlanDigest, u64> {
    let (mut map, mut tree) = (PlanMap::new(folder), BTreeMap::new());
    for step in 0..6000u64 {
        let plan = plan(step * 7 % 3001);
        assert_eq!(map.get(&plan), tree.get(&plan).copied());
        map.insert(plan, step);
        tree.insert(plan, step);
    }
    let same = || map.iter().eq(tree.iter().map(|(plan, value)| (*plan, *value)));
    assert!(same() && tree.iter().all(|(plan, value)| map.get(plan) == Some(*value)));
    assert_eq!(map.get(&plan(3001)), None);
    // Every other one, and between them keys that there are none of.
    let mut in_order = map.in_order();
    let mut wanted: Vec<PlanDigest> = (0..6000).map(&plan).collect();
    wanted.sort();
    for plan in wanted.iter().step_by(2) {
        assert_eq!(in_order(plan), tree.get(plan).copied());
    }
    drop(in_order);
    map.shrink();
    assert!(map.iter().eq(tree.iter().map(|(plan, value)| (*plan, *value))));
    map
}

#[test]
fn a_map_of_plans_is_a_tree_of_them_with_few_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    for map in [
        is_a_tree(Some(folder.path()), plan),
        is_a_tree(Some(folder.path()), crowded),
    ] {
        assert!(map.recent.len() <= RECENT && map.is_sound());
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "without a name"
        );
    }
}

#[test]
fn without_a_folder_or_room_all_stays_in_memory() {
    let map = is_a_tree(None, plan);
    assert_eq!((map.recent.len(), map.is_sound()), (3001, true));
    let map = is_a_tree(Some(Path::new("/proc/nowhere")), plan);
    assert_eq!((map.recent.len(), map.is_sound()), (3001, true));
}

/// Fewer bytes than there were, and none that can be read: no value is made up, and the map says
/// that it is not sound.
#[test]
fn a_file_that_cannot_be_read_makes_a_map_unsound() {
    let folder = tempfile::tempdir().unwrap();
    for look in [
        |map: &PlanMap<PlanDigest, u64>| map.get(&plan(1)).is_none(),
        |map: &PlanMap<PlanDigest, u64>| map.iter().count() < 2000,
    ] {
        let map = is_a_tree(Some(folder.path()), plan);
        map.sorted.as_ref().unwrap().file.set_len(0).unwrap();
        assert!(map.is_sound());
        assert!(look(&map));
        assert!(!map.is_sound());
    }
}

/// A bit of a record that a disk has changed is neither believed nor written into the next file.
#[test]
fn a_file_that_was_changed_makes_a_map_unsound() {
    let folder = tempfile::tempdir().unwrap();
    let mut map = is_a_tree(Some(folder.path()), plan);
    let file = &map.sorted.as_ref().unwrap().file;
    let mut byte = [0];
    file.read_exact_at(&mut byte, 40 * 1500 + 35).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 40 * 1500 + 35).unwrap();
    // Some others are looked for in that piece first.
    let found = (0..3001).filter(|number| map.get(&plan(*number)).is_some());
    let found = found.count() as u64;
    assert!((2500..=3001 - PIECE).contains(&found), "{found}");
    assert!(!map.is_sound());
    let before = map.sorted.as_ref().unwrap().records.count;
    (4000..6000).for_each(|number| map.insert(plan(number), number));
    assert_eq!(map.sorted.as_ref().unwrap().records.count, before);
}

/// Where there is no room for a file, all plans are written once for each time that they double.
#[test]
fn a_disk_without_room_is_tried_rarely() {
    let mut map = PlanMap::new(Some(Path::new("/proc/nowhere")));
    let (mut attempts, mut tried) = (0, 0);
    for number in 0..20_000u64 {
        map.insert(plan(number), number);
        map.shrink();
        if map.tried != tried {
            (attempts, tried) = (attempts + 1, map.tried);
        }
    }
    assert!((5..=8).contains(&attempts), "{attempts} attempts");
}

/// One that could not be read is not sorted into a file without its values.
#[test]
fn an_unsound_map_makes_no_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut map = is_a_tree(Some(folder.path()), plan);
    let file = &map.sorted.as_ref().unwrap().file;
    let mut kept = vec![0; 40 * 3001];
    file.read_exact_at(&mut kept, 0).unwrap();
    file.set_len(0).unwrap();
    (4000..6000).for_each(|number| map.insert(plan(number), number));
    assert!(!map.is_sound());
    let sorted = map.sorted.as_ref().unwrap();
    sorted.file.write_all_at(&kept, 0).unwrap();
    assert_eq!(sorted.records.count, 3001);
    assert_eq!(map.iter().count(), 5001);
}

#[test]
fn values_come_back_from_their_bytes() {
    let charge = Charge {
        mu_squared: 0.1,
        draw: -0.0,
        distance: f64::INFINITY,
    };
    let value = ((7u32, 255u8), (charge, u64::MAX));
    let mut bytes = vec![];
    value.put(&mut bytes);
    assert_eq!(bytes.len(), <((u32, u8), (Charge, u64))>::BYTES);
    assert_eq!(<((u32, u8), (Charge, u64))>::get(&bytes), value);
}
