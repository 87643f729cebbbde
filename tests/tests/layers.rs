//! The house's layers: rooms import only rooms below, no files import each other in a circle, and
//! faces define nothing that their children need.

use std::collections::BTreeMap;

use undertone_tests::house::arrows::Arrows;
use undertone_tests::house::layers::{Fault, ORDERS, Order};
use undertone_tests::house::sources::{below, workspace};

#[test]
fn rooms_import_only_rooms_below_and_no_files_each_other() {
    let mut reported = vec![];
    for order in &ORDERS {
        let sources = below(&workspace().join(order.folder).join("src"));
        let arrows = Arrows::of(&sources);
        let count: usize = arrows.0.values().map(|file| file.imports.len()).sum();
        assert!(count > arrows.0.len(), "{}: the arrows are read", order.folder);
        let faults = order.faults(&arrows);
        reported.extend(
            faults
                .iter()
                .map(|fault| format!("{}/src: {fault}", order.folder)),
        );
    }
    assert!(
        reported.is_empty(),
        "{} faults\n{}",
        reported.len(),
        reported.join("\n")
    );
}

const SMALL: Order = Order {
    folder: "small",
    rooms: &["ground", "upper"],
};

/// What breaks the order of a crate of two rooms, given files beside a sound front page.
fn faults(files: &[(&str, &str)]) -> Vec<Fault> {
    let front = ("lib.rs", "//! `crate::upper`\npub mod ground;\npub mod upper;");
    let files = files.iter().chain([&front]);
    let sources: BTreeMap<String, String> = files
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    SMALL.faults(&Arrows::of(&sources))
}

fn upward(from: &str, line: usize, to: &str) -> Fault {
    let (from, to) = (from.to_owned(), to.to_owned());
    Fault::Upward { from, line, to }
}

fn circle(files: &[&str]) -> Fault {
    Fault::Circle(files.iter().map(|file| (*file).to_owned()).collect())
}

#[test]
fn a_sound_crate_has_no_fault() {
    let sound = [
        ("ground.rs", "pub mod a;\npub mod b;\n#[cfg(test)]\nmod tests;"),
        ("ground/a.rs", "pub struct A<'a>(&'a str);\nconst C: char = '\"';"),
        (
            "ground/b.rs",
            "// crate::upper::U\nuse super::a::A;\nconst T: &str = \"crate::upper::U\";\n\
             #[cfg(test)]\nmod tests {\n    use crate::upper::U;\n}",
        ),
        ("ground/tests.rs", "use crate::upper::U;"),
        ("ground/tests/more.rs", "use crate::upper::U;"),
        ("upper.rs", "use crate::ground::{a::A, b};\npub struct U(A);"),
    ];
    assert_eq!(faults(&sound), []);
}

#[test]
fn an_import_from_above_is_found() {
    let upper = ("upper.rs", "pub struct U;\npub fn f() {}");
    for (text, line) in [
        ("use crate::upper::U;", 1),
        ("use std::fmt;\nuse crate::{upper::U};", 2),
        ("use super::upper::{self, U as V};", 1),
        ("fn g() {\n    crate::upper::f();\n}", 2),
        ("fn g(u: &super::upper::U) {}", 1),
        ("/* \" */ const C: char = '\\'';\nuse crate::upper::*;", 2),
        ("#[cfg(not(test))]\nuse crate::upper::U;", 2),
    ] {
        assert_eq!(
            faults(&[("ground.rs", text), upper]),
            [upward("ground.rs", line, "upper.rs")]
        );
    }
    let front = faults(&[("ground.rs", "use crate::U;"), ("upper.rs", "pub struct U;")]);
    assert_eq!(front, [upward("ground.rs", 1, "lib.rs")]);
}

#[test]
fn of_circles_the_shortest_is_reported() {
    let two = [
        ("ground.rs", "pub mod a;\npub mod b;"),
        ("ground/a.rs", "use crate::ground::b::B;\npub struct A;"),
        ("ground/b.rs", "pub struct B;\nfn f(a: super::a::A) {}"),
        ("upper.rs", ""),
    ];
    assert_eq!(faults(&two), [circle(&["ground/a.rs", "ground/b.rs"])]);
    let three = [
        ("ground.rs", "pub mod a;\npub mod b;\npub mod c;"),
        ("ground/a.rs", "use crate::ground::b;"),
        ("ground/b.rs", "use crate::ground::c;"),
        ("ground/c.rs", "use crate::ground::a;"),
        ("upper.rs", ""),
    ];
    assert_eq!(
        faults(&three),
        [circle(&["ground/a.rs", "ground/b.rs", "ground/c.rs"])]
    );
    // A parent that calls into its child, which holds methods of the parent's type.
    for parent in [
        "mod child;\npub struct P;\nfn f() {\n    child::f();\n}",
        "mod child;\nuse self::child::f;\npub struct P;",
        "mod child;\nuse child::f;\npub struct P;",
    ] {
        let family = [
            ("ground.rs", parent),
            ("ground/child.rs", "use super::P;\nimpl P {}\npub fn f() {}"),
            ("upper.rs", ""),
        ];
        assert_eq!(
            faults(&family),
            [circle(&["ground.rs", "ground/child.rs"])],
            "{parent}"
        );
    }
}

#[test]
fn a_room_that_the_order_does_not_have_is_found() {
    let found = faults(&[("ground.rs", ""), ("upper.rs", ""), ("cellar/wine.rs", "")]);
    assert_eq!(found, [Fault::Unknown("cellar/wine.rs".into())]);
}

#[test]
fn a_face_that_defines_what_a_child_imports_is_found() {
    let with = |child| {
        let face = ("ground.rs", "mod child;\npub struct P;");
        faults(&[face, ("ground/child.rs", child), ("upper.rs", "")])
    };
    let fault = Fault::Face {
        face: "ground.rs".into(),
        child: "ground/child.rs".into(),
    };
    assert_eq!(with("use super::P;\npub struct C(P);"), [fault]);
    assert_eq!(with("use super::P;\nimpl P {}"), [], "an impl over several files");
}
