//! The sections of a report: one for each workload that ran, or that of a sized service or of a held level.

use crate::analysis::Group;
use crate::contents::Page;
use crate::headlines;
use crate::hold;
use crate::service;
use crate::workloads;
use crate::workloads::section::Section;
use plimsoll_model::scenario::WorkloadKind;

/// The sections of a page, those of a sized service and of a held level last. Timed phases are in the section of [`cost`](super::cost).
pub(super) fn all(page: &Page) -> Vec<Section> {
    let kinds = headlines::kinds(&page.groups);
    let section = |kind: WorkloadKind| {
        let groups: Vec<&Group> = page
            .groups
            .iter()
            .filter(|group| group.workload == kind.name())
            .collect();
        let mut section = (workloads::of(kind).section?)(page, &groups)?;
        section.details = headlines::details(kind, &page.groups);
        if let Some(size) = page.results.size.as_ref().filter(|_| section.holds_size) {
            super::size::complete(&mut section, size);
        }
        Some(section)
    };
    kinds
        .into_iter()
        .filter_map(section)
        .chain(service::section::section(page))
        .chain(hold::section::section(page))
        .collect()
}
