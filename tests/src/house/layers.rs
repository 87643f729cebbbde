//! The order of the rooms, and what breaks it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use crate::house::arrows::{Arrows, File};

/// The rooms of a crate's `src`, bottom up: each imports only those before it.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// The crate's folder in the workspace.
    pub folder: &'static str,
    /// Folders, or files without one.
    pub rooms: &'static [&'static str],
}

/// The layers of the three crates, from above.
pub const ORDERS: [Order; 3] = [
    Order {
        folder: "protocol",
        rooms: &[
            "design",
            "time",
            "topology",
            "lattice",
            "averaging",
            "model",
            "describe",
            "sealing",
            "plan",
            "clipping",
            "messages",
            "lobby",
            "agreement",
            "mixing",
            "publishing",
            "run",
            "task",
            "simulator",
        ],
    },
    Order {
        folder: "accountant",
        rooms: &[
            "design",
            "parallel",
            "losses",
            "mechanism",
            "execution",
            "class",
            "bounds",
            "calibration",
            "guarantee",
            "gate",
            "verify",
            "audit",
            "account",
            "papers",
        ],
    },
    Order {
        folder: "node",
        rooms: &[
            "reporting",
            "network",
            "vector_file",
            "table_file",
            "planning",
            "party",
            "daemon",
            "measuring",
            "commands",
        ],
    },
];

/// Something that breaks the layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A file imports one of a room above its own.
    Upward {
        /// The file that imports.
        from: String,
        /// The line of the import.
        line: usize,
        /// The file that is imported.
        to: String,
    },
    /// Each file imports the next, the last one the first.
    Circle(Vec<String>),
    /// A file stands in a room that the order does not have.
    Unknown(String),
    /// A face defines something that a child imports, and the child holds no methods of its types.
    Face {
        /// The file beside the folder.
        face: String,
        /// A file in the folder.
        child: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Upward { from, line, to } => write!(f, "upward: {from}:{line} imports {to}"),
            Fault::Circle(files) => write!(f, "circle: {} → {}", files.join(" → "), files[0]),
            Fault::Unknown(file) => write!(f, "{file} stands in a room that the order does not have"),
            Fault::Face { face, child } => {
                write!(
                    f,
                    "face: {face} defines what {child} imports; let it stand in a child"
                )
            }
        }
    }
}

impl Order {
    /// All that breaks this order.
    pub fn faults(&self, arrows: &Arrows) -> Vec<Fault> {
        let files = &arrows.0;
        let unknown = files.keys().filter(|path| self.floor(path).is_none());
        let mut faults: Vec<Fault> = unknown.cloned().map(Fault::Unknown).collect();
        for (from, file) in files {
            faults.extend(self.upward(from, file));
            faults.extend(faces(from, file, files));
        }
        faults.extend(circles(files).into_iter().map(Fault::Circle));
        faults
    }

    /// How high a file stands; the crate's front page above all rooms.
    fn floor(&self, path: &str) -> Option<usize> {
        if path == "lib.rs" {
            return Some(self.rooms.len());
        }
        let room = path.split('/').next().and_then(|name| name.split('.').next())?;
        self.rooms.iter().position(|known| *known == room)
    }

    fn upward(&self, from: &str, file: &File) -> Vec<Fault> {
        let up = |to: &str| {
            let floors = self.floor(from).zip(self.floor(to));
            floors.is_some_and(|(from, to)| to > from)
        };
        let upward = file.imports.iter().filter(|(to, _)| up(to));
        let fault = |(to, line): (&String, &usize)| Fault::Upward {
            from: from.to_owned(),
            line: *line,
            to: to.clone(),
        };
        upward.map(fault).collect()
    }
}

/// A file beside a folder of its name that defines what the folder's files import. Where these hold
/// methods of its types (an `impl` over several files), they must import it.
fn faces(path: &str, file: &File, files: &BTreeMap<String, File>) -> Vec<Fault> {
    let folder = format!("{}/", path.trim_end_matches(".rs"));
    if path == "lib.rs" || !file.defines {
        return vec![];
    }
    let imports = files.iter().filter(|(child, of)| {
        child.starts_with(&folder) && of.imports.contains_key(path) && of.implements.is_disjoint(&file.types)
    });
    let fault = |(child, _): (&String, &File)| Fault::Face {
        face: path.to_owned(),
        child: child.clone(),
    };
    imports.map(fault).collect()
}

/// The shortest circle through each file that is on one; circles that share a file are told once.
fn circles(files: &BTreeMap<String, File>) -> Vec<Vec<String>> {
    let mut circles: Vec<Vec<String>> = files.keys().filter_map(|file| circle(file, files)).collect();
    circles.sort_by_key(Vec::len);
    let mut seen = BTreeSet::new();
    circles.retain(|circle| {
        let fresh = circle.iter().all(|file| !seen.contains(file));
        seen.extend(circle.iter().cloned());
        fresh
    });
    circles
}

/// The shortest way from a file back to itself.
fn circle(start: &str, files: &BTreeMap<String, File>) -> Option<Vec<String>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for next in files.get(file)?.imports.keys() {
            if next == start {
                let mut way = vec![file.to_owned()];
                while way.last().is_some_and(|last| last != start) {
                    let previous = before[way[way.len() - 1].as_str()];
                    way.push(previous.to_owned());
                }
                way.reverse();
                return Some(way);
            }
            if files.contains_key(next) && !before.contains_key(next.as_str()) {
                before.insert(next, file);
                queue.push_back(next);
            }
        }
    }
    None
}
