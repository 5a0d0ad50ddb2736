//! The section on time and memory, of workloads with timed phases: time to complete, and memory and swap use before and
//! after the trim. Bars are medians, whiskers 95% intervals, dots the runs.

use crate::analysis::{Group, MetricUnit};
use crate::contents::{MemoryUse, Page};
use crate::drawing::bars::{Bar, Bars, chart};
use crate::headlines;
use crate::workloads;

pub(super) struct Cost {
    /// The details of the findings that the head leaves out.
    pub(super) details: Vec<String>,
    pub(super) time_chart: Option<String>,
    pub(super) memory_chart: Option<String>,
}

/// `None` without timed phases. A run without a group has the section, to say that no phase ended.
pub(super) fn section(page: &Page) -> Option<Cost> {
    let mut kinds = headlines::kinds(&page.groups);
    kinds.retain(|kind| workloads::of(*kind).timed_phases.is_some());
    if page.manifest.observes() || (kinds.is_empty() && !page.groups.is_empty()) {
        return None;
    }
    let is_timed = |group: &Group| kinds.iter().any(|kind| group.workload == kind.name());
    let memory = page.groups.iter().zip(&page.memory);
    let memory: Vec<(&Group, &MemoryUse)> = memory.filter(|(group, _)| is_timed(group)).collect();
    let groups: Vec<&Group> = memory.iter().map(|(group, _)| *group).collect();
    let details = kinds.iter().map(|kind| headlines::details(*kind, &page.groups));
    Some(Cost {
        details: details.flatten().collect(),
        time_chart: time_to_complete(&groups),
        memory_chart: memory_use(&memory),
    })
}

/// Time to fill, trim and restore, for each group. `None` when no group has a time.
fn time_to_complete(groups: &[&Group]) -> Option<String> {
    // The writeback of file pages has no number.
    const KINDS: [(&str, &str, Option<u32>); 4] = [
        ("fill", "fill", Some(1)),
        ("writeback", "dirty", None),
        ("trim", "trim", Some(2)),
        ("restore", "restore", Some(3)),
    ];
    let bars = |group: &&Group| {
        let bar = |(label, colour, event): (&'static str, &'static str, Option<u32>)| {
            let phase = group.phases.iter().find(|phase| &*phase.name == label)?;
            let mut bar = Bar::of(label, colour, &phase.seconds);
            bar.event = event;
            Some(bar)
        };
        Bars {
            name: group.label.clone(),
            bars: KINDS.into_iter().filter_map(bar).collect(),
        }
    };
    let groups: Vec<Bars> = groups.iter().map(bars).collect();
    chart("Time to complete", MetricUnit::Seconds, &groups)
}

/// Working set, and compressed store and swap or the page cache, before and after the trim, for each group. `None` when no group has any.
fn memory_use(groups: &[(&Group, &MemoryUse)]) -> Option<String> {
    let bars = |(group, memory): &(&Group, &MemoryUse)| {
        let kinds = [
            ("working set, before", "target", &memory.working_set),
            ("compressed store, before", "compressed", &memory.compressed),
            ("swap used, before", "device0", &memory.swap_used),
            ("page cache, before", "page_cache", &memory.page_cache),
        ];
        let mut bars = Vec::new();
        for (label, colour, [before, after]) in kinds {
            bars.extend(
                before
                    .as_ref()
                    .map(|measured| Bar::of(label, colour, measured).hollow()),
            );
            bars.extend(after.as_ref().map(|measured| Bar {
                hatched: colour == "target",
                ..Bar::of("after trim", colour, measured)
            }));
        }
        Bars {
            name: group.label.clone(),
            bars,
        }
    };
    let groups: Vec<Bars> = groups.iter().map(bars).collect();
    chart(
        "Memory and swap use before and after the trim",
        MetricUnit::Bytes,
        &groups,
    )
}

#[cfg(test)]
mod tests {
    use crate::drawing::palette;

    #[test]
    fn colours_of_bars_are_in_the_palette() {
        let css = palette::css_variables(false);
        for key in [
            "fill",
            "dirty",
            "trim",
            "restore",
            "target",
            "compressed",
            "device0",
            "page_cache",
        ] {
            assert!(css.contains(&format!("--{key}:#")), "{key}");
        }
    }
}
