//! A chapter of the page for each kind of work that ran: its sentence, its drawings, its tables.

pub(in crate::report) mod contention;
pub(in crate::report) mod heap;
pub(in crate::report) mod loadline;
pub(in crate::report) mod map;
pub(in crate::report) mod thrash;
pub(in crate::report) mod wscap;

use super::table::Table;
use crate::analysis::Group;
use crate::report::findings;
use crate::report::page::Page;
use crate::report::workloads;
use crate::scenario::WorkloadKind;

/// What the page shows of one kind of work.
pub(in crate::report) struct Chapter {
    /// Stable name.
    pub(in crate::report) id: &'static str,
    /// Title for people.
    pub(in crate::report) title: &'static str,
    /// What the numbers say, in a sentence.
    pub(in crate::report) sentence: Option<String>,
    /// The drawings, the telling one first.
    pub(in crate::report) drawings: Vec<Drawing>,
    /// Tables below the drawings.
    pub(in crate::report) tables: Vec<Table>,
}

impl Chapter {
    /// Whether two drawings a row leave one over: the first, telling one then has a row of its own.
    pub(super) fn has_odd_drawings(&self) -> bool {
        self.drawings.len() % 2 == 1
    }
}

/// A drawing with its words.
pub(in crate::report) struct Drawing {
    /// What it shows.
    pub(in crate::report) caption: String,
    /// How to read it.
    pub(in crate::report) hint: String,
    /// The drawing, SVG.
    pub(in crate::report) svg: String,
}

/// The chapters of a page. That of compression is the page itself.
pub(super) fn all(page: &Page) -> Vec<Chapter> {
    let kinds = findings::kinds(&page.groups);
    let chapter = |kind: WorkloadKind| {
        let groups: Vec<&Group> = page
            .groups
            .iter()
            .filter(|group| group.workload == kind.name())
            .collect();
        let mut chapter = (workloads::of(kind).section?)(page, &groups)?;
        chapter.sentence = findings::sentence(kind, &page.groups);
        Some(chapter)
    };
    kinds.into_iter().filter_map(chapter).collect()
}
