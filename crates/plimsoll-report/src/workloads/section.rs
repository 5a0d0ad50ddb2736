//! The section of the report for a workload: its details, its drawings, its tables.

use crate::drawing::table::Table;

#[derive(Default)]
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// The details of the workload's finding that the head of the report leaves out; the report fills them in.
    pub(crate) details: Vec<String>,
    /// The drawings, the headline one first.
    pub(crate) drawings: Vec<Drawing>,
    pub(crate) tables: Vec<Table<'static>>,
    /// Whether it has the RAM that a program needs, the result of a search.
    pub(crate) holds_size: bool,
}

impl Section {
    /// With two drawings per row, an odd number gives the first, headline one a row of its own.
    pub(crate) fn has_odd_drawings(&self) -> bool {
        self.drawings.len() % 2 == 1
    }
}

pub(crate) struct Drawing {
    /// Name of the drawn value: `data-chart` of the figure in the report, and the argument of `report --chart`, which
    /// numbers equal names.
    pub(crate) id: &'static str,
    pub(crate) caption: String,
    pub(crate) hint: String,
    pub(crate) svg: String,
}
