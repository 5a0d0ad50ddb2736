//! The section of the report for a workload: its sentence, its drawings, its tables.

use crate::drawing::table::Table;

/// What the page shows of one kind of work.
pub(crate) struct Section {
    /// Stable name.
    pub(crate) id: &'static str,
    /// Title for people.
    pub(crate) title: &'static str,
    /// What the numbers say, in a sentence.
    pub(crate) sentence: Option<String>,
    /// The drawings, the headline one first.
    pub(crate) drawings: Vec<Drawing>,
    /// Tables below the drawings.
    pub(crate) tables: Vec<Table>,
}

impl Section {
    /// Whether two drawings a row leave one over: the first, headline one then has a row of its own.
    pub(crate) fn has_odd_drawings(&self) -> bool {
        self.drawings.len() % 2 == 1
    }
}

/// A drawing with its words.
pub(crate) struct Drawing {
    /// What it shows.
    pub(crate) caption: String,
    /// How to read it.
    pub(crate) hint: String,
    /// The drawing, SVG.
    pub(crate) svg: String,
}
