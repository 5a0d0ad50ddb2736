//! The section of the report for a workload: its sentence, its drawings, its tables.

use crate::drawing::table::Table;

/// What the page shows of one kind of work.
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// What the numbers say, in a sentence.
    pub(crate) sentence: Option<String>,
    /// The drawings, the headline one first.
    pub(crate) drawings: Vec<Drawing>,
    pub(crate) tables: Vec<Table>,
}

impl Section {
    /// Whether two drawings a row leave one over: the first, headline one then has a row of its own.
    pub(crate) fn has_odd_drawings(&self) -> bool {
        self.drawings.len() % 2 == 1
    }
}

pub(crate) struct Drawing {
    pub(crate) caption: String,
    pub(crate) hint: String,
    pub(crate) svg: String,
}
