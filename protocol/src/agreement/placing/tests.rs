use super::*;
use crate::messages::notice::{Notice, Recipient, item_hash};
use crate::messages::signing::Signer;
use crate::messages::stage::Stage;
use crate::messages::wire::Bytes;
use crate::plan::peers::simulated_keypair;
use crate::sealing::slice_tree::SliceTree;
use crate::simulator::cluster::tests::plan_of;

const ROOT: ItemHash = [1; 32];
const OTHER: ItemHash = [2; 32];
const DIGEST: Digest = [3; 32];

/// The knowledge of a party of eight parties' slices, three keepers each.
fn placing(me: Party) -> Placing {
    let lines = "[run]\nsealed = true\ndissemination = \"slices\"\n[mechanism]\nkind = \"pairwise\"";
    let plan = plan_of(4000, 8, lines, 4);
    let keepers = plan.keepers(&(0..8).collect(), 3).expect("slices");
    Placing::new(me, 8, plan.slices().expect("slices"), keepers, (DIGEST, 1))
}

/// A keeper's report that all of its slices of these authors are here, for one root.
fn report(placing: &Placing, keeper: Party, authors: &[Party], root: ItemHash) -> KeeperReport {
    let kept = placing.keepers.kept_by(keeper).len();
    let roots = authors.iter().map(|&author| (author, root)).collect();
    KeeperReport::of(8, &vec![authors.to_vec(); kept], &roots)
}

/// An author's slices, all zeros, as they travel: the root and each body with its announcement.
fn sealed(placing: &Placing, author: Party) -> (ItemHash, Vec<(Body, SignedNotice)>) {
    let place = SlicePlace {
        digest: &DIGEST,
        author,
        round: 1,
    };
    let residues = |slice: u32| vec![0; placing.slices.bytes(slice)];
    let leaves = placing
        .slices
        .all()
        .map(|slice| place.leaf(slice, &residues(slice)));
    let tree = SliceTree::of(leaves.collect());
    let mut signer = Signer::new(author, DIGEST, simulated_keypair(author), 0);
    let all = placing.slices.all().map(|slice| {
        let item = [tree.path(slice).concat(), residues(slice)].concat();
        let (stage, hash, bytes) = (Stage::Slice(slice), item_hash(&item), item.len() as u64);
        let signed = signer.sign(Recipient::All, Notice::Item { stage, hash, bytes });
        let body = Body::received(hash, item.len(), Bytes::from(item));
        (body, signed.expect("signs"))
    });
    let all = all.collect();
    (tree.root(), all)
}

#[test]
fn a_report_counts_once_and_for_its_root_only() {
    let mut placing = placing(0);
    let author = 5;
    placing.name(author, ROOT);
    let keepers = (0..8).filter(|&party| !placing.keepers.kept_by(party).is_empty());
    let keepers: Vec<Party> = keepers.collect();
    let (&last, others) = keepers.split_last().expect("keepers");
    let nobody = Vec::<Party>::new();
    for &keeper in others {
        let reported = report(&placing, keeper, &[author], ROOT);
        assert_eq!(placing.take_report(keeper, reported.clone()), nobody);
        assert_eq!(placing.take_report(keeper, reported), nobody, "twice the same");
    }
    // Second reports, for another root.
    for keeper in [others[0], last] {
        let other = report(&placing, keeper, &[author], OTHER);
        assert_eq!(placing.take_report(keeper, other), nobody);
    }
    assert!(!placing.hold(author, &ROOT) && !placing.hold(author, &OTHER));
    // Each report counts: nobody can take back what others have acted on.
    let reported = report(&placing, last, &[author], ROOT);
    assert_eq!(placing.take_report(last, reported), [author]);
    assert!(placing.hold(author, &ROOT) && !placing.hold(author, &OTHER));
    let third = report(&placing, last, &[6], ROOT);
    assert_eq!(placing.take_report(last, third), nobody, "there is room for two");
}

#[test]
fn what_is_here_counts_as_reported_and_only_under_its_root() {
    let mut placing = placing(0);
    let author = 5;
    let (root, slices) = sealed(&placing, author);
    let count = slices.len();
    for (slice, (body, signed)) in (0..).zip(slices) {
        assert!(!placing.hold(author, &root));
        let placed = placing.take((author, slice), body.clone(), Some(signed.clone()));
        assert_eq!(placed, slice as usize + 1 == count);
        assert!(!placing.take((author, slice), body, Some(signed)), "once");
    }
    assert!(placing.hold(author, &root) && !placing.hold(author, &ROOT));
    assert!(placing.slice(author, 0, &root).is_some() && placing.slice(author, 0, &ROOT).is_none());
}

#[test]
fn what_a_keeper_does_not_report_goes_to_everybody_once() {
    let author = 5;
    let me = placing(0).keepers.of(0).next().expect("a keeper");
    let mut placing = placing(me);
    let (root, slices) = sealed(&placing, author);
    let (body, signed) = slices[0].clone();
    let version = (author, 0, body.hash);
    let nobody = BTreeSet::new();
    placing.take((author, 0), body, Some(signed));
    assert!(
        placing.unreported(&nobody, true).is_empty(),
        "no log names its root"
    );
    placing.name(author, root);
    assert!(
        placing.unreported(&nobody, false).is_empty(),
        "reports are not due"
    );
    let keepers: Vec<Party> = placing.keepers.of(0).collect();
    let gone = BTreeSet::from([keepers[1]]);
    assert_eq!(placing.unreported(&gone, false), [version], "a keeper is gone");
    assert_eq!(placing.unreported(&nobody, true), [version], "reports are due");
    // All report it, one of them for another root.
    for &keeper in &keepers[..2] {
        let reported = report(&placing, keeper, &[author], root);
        placing.take_report(keeper, reported);
    }
    let other = report(&placing, keepers[2], &[author], OTHER);
    placing.take_report(keepers[2], other);
    assert_eq!(placing.unreported(&nobody, false), [version]);
    // Two reports of one keeper: others may have the one or the other.
    let reported = report(&placing, keepers[2], &[author], root);
    placing.take_report(keepers[2], reported);
    assert_eq!(placing.unreported(&nobody, false), [version]);
    assert!(placing.flood(&version).is_some());
    assert!(placing.flood(&version).is_none(), "once");
    assert!(placing.unreported(&nobody, true).is_empty());
}

#[test]
fn a_node_reports_once_when_all_is_here_or_it_is_due() {
    let mut placing = placing(0);
    assert!(!placing.kept().is_empty());
    let nobody = BTreeSet::new();
    let all: Vec<Party> = (0..8).collect();
    for &author in &all {
        let gone = all[author..].iter().copied().collect();
        assert!(placing.report(&gone, false).is_some(), "the others are gone");
        assert!(placing.report(&nobody, false).is_none(), "{author} is awaited");
        assert!(placing.report(&nobody, true).is_some(), "it is due");
        let (root, slices) = sealed(&placing, author);
        placing.name(author, root);
        for (slice, (body, signed)) in (0..).zip(slices) {
            placing.take((author, slice), body, Some(signed));
        }
    }
    let full = placing.report(&nobody, false).expect("all is here");
    let entries = placing.kept().len() * all.len();
    assert_eq!(full.entries().count(), entries);
    placing.take_report(0, full);
    assert!(placing.report(&nobody, true).is_none(), "once");
}
