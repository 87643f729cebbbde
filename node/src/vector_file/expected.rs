//! The expectations of a file before it is read.

/// The expectations of a plan or a model of a party's file. They decide whether a first row of
/// numbers in a table is names or data.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected<'a> {
    /// The names of the columns; of a model's file one may be left out, the target's.
    pub columns: Option<&'a [String]>,
    /// How many numbers there are in all, where that is planned.
    pub numbers: Option<usize>,
}

impl Expected<'_> {
    /// Whether a row is one of names that the plan has: each of them once, all or all but one.
    pub(super) fn names<'b>(&self, row: impl Iterator<Item = &'b str> + Clone) -> bool {
        let Some(columns) = self.columns else {
            return false;
        };
        let known = |name: &str| columns.iter().any(|column| column == name);
        let once = |name: &str| row.clone().filter(|other| *other == name).count() == 1;
        row.clone().count() + 1 >= columns.len() && row.clone().all(|name| known(name) && once(name))
    }
}
