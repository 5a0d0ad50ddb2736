//! The sections of a report: one for each workload that ran.

use crate::analysis::Group;
use crate::contents::Page;
use crate::headlines;
use crate::workloads;
use crate::workloads::section::Section;
use plimsoll_model::scenario::WorkloadKind;

/// The sections of a page. That of compression is the page itself.
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
        if let (WorkloadKind::Command, Some(size)) = (kind, &page.results.size) {
            super::size::complete(&mut section, size);
        }
        Some(section)
    };
    kinds.into_iter().filter_map(section).collect()
}
