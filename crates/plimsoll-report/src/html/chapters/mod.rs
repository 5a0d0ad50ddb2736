//! A chapter of the page for each kind of work that ran: its sentence, its drawings, its tables. One file a kind.

mod contention;
mod heap;
mod loadline;
mod map;
mod thrash;
mod wscap;

use super::table::Table;
use crate::analysis::Group;
use crate::findings;
use crate::page::Page;
use plimsoll_model::scenario::WorkloadKind;

/// What the page shows of one kind of work.
pub(super) struct Chapter {
    /// Stable name.
    pub(super) id: &'static str,
    /// Title for people.
    pub(super) title: &'static str,
    /// What the numbers say, in a sentence.
    pub(super) sentence: Option<String>,
    /// The drawings, the headline one first.
    pub(super) drawings: Vec<Drawing>,
    /// Tables below the drawings.
    pub(super) tables: Vec<Table>,
}

impl Chapter {
    /// Whether two drawings a row leave one over: the first, headline one then has a row of its own.
    pub(super) fn has_odd_drawings(&self) -> bool {
        self.drawings.len() % 2 == 1
    }
}

/// A drawing with its words.
pub(super) struct Drawing {
    /// What it shows.
    pub(super) caption: String,
    /// How to read it.
    pub(super) hint: String,
    /// The drawing, SVG.
    pub(super) svg: String,
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
        let mut chapter = match kind {
            WorkloadKind::Compression => None,
            WorkloadKind::Thrash => thrash::chapter(page, &groups),
            WorkloadKind::Loadline => loadline::chapter(page, &groups),
            WorkloadKind::Wscap => wscap::chapter(page, &groups),
            WorkloadKind::Map => map::chapter(&groups),
            WorkloadKind::Contention => contention::chapter(page, &groups),
            WorkloadKind::Heap => heap::chapter(page, &groups),
        }?;
        chapter.sentence = findings::sentence(kind, &page.groups);
        Some(chapter)
    };
    kinds.into_iter().filter_map(chapter).collect()
}
