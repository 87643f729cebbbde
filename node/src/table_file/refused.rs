//! Why a table cannot be read; never a value of it.

/// The fault of a table, and what to do.
#[derive(Debug)]
pub(super) struct RefusedTable {
    pub(super) what: String,
    pub(super) hint: String,
}

impl RefusedTable {
    pub(super) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        RefusedTable {
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// A column that the plan describes is not there.
    pub(super) fn no_column(name: &str) -> Self {
        RefusedTable::new(
            format!("no column is called {name:?}"),
            "the first row names the columns (of a .json: the keys of its objects): give the column that \
             name, or correct describe.column.name in the run file",
        )
    }

    /// A column that the plan describes is there twice.
    pub(super) fn twice(name: &str) -> Self {
        RefusedTable::new(
            format!("two columns are called {name:?}"),
            "give each column a name of its own: columns are told apart by it",
        )
    }
}
