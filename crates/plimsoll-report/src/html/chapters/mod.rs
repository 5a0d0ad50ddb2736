//! A chapter of the page for each kind of work that ran: its sentence, its drawings, its tables.

pub(crate) mod contention;
pub(crate) mod heap;
pub(crate) mod loadline;
pub(crate) mod map;
pub(crate) mod thrash;
pub(crate) mod wscap;

use super::table::Table;
use crate::analysis::Group;
use crate::findings;
use crate::page::Page;
use crate::workloads;
use plimsoll_model::scenario::WorkloadKind;

/// What the page shows of one kind of work.
pub(crate) struct Chapter {
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

impl Chapter {
    /// Whether two drawings a row leave one over: the first, headline one then has a row of its own.
    pub(super) fn has_odd_drawings(&self) -> bool {
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
