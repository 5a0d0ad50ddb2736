//! The map section: bars for each mapping and touch.

use crate::analysis::{Group, MetricUnit};
use crate::drawing::bars::{self, Bar, Bars};
use crate::drawing::table::{Cell, Table, columns};
use crate::workloads::map::{BACK, BACK_SHARE, COST, PRESSURE, RELEASE, REUSE, TOTAL, of_way};
use crate::workloads::section::{Drawing, Section};
use plimsoll_model::quantity;
use plimsoll_model::scenario::ReleaseMethod;

pub(crate) fn section(groups: &[&Group]) -> Option<Section> {
    let drawings: Vec<Drawing> = groups
        .iter()
        .flat_map(|group| [cost(group), reuse(group)])
        .flatten()
        .chain(back(groups))
        .collect();
    if drawings.is_empty() {
        return None;
    }
    Some(Section {
        id: "map",
        title: "Map, release and reuse memory",
        drawings,
        tables: vec![table(groups)],
        ..Section::default()
    })
}

/// A bar of a metric of a method, if the group has it.
fn bar(
    group: &Group,
    way: ReleaseMethod,
    metric: &str,
    label: &'static str,
    colour: &'static str,
) -> Option<Bar> {
    let measured = group.metrics.get(&of_way(way, metric))?;
    Some(Bar::of(label, colour, measured))
}

/// The bars that `of` makes of each way, under its title.
fn by_way(of: impl Fn(ReleaseMethod) -> Vec<Option<Bar>>) -> Vec<Bars> {
    let group = |way: ReleaseMethod| Bars {
        name: way.title().to_owned(),
        bars: of(way).into_iter().flatten().collect(),
    };
    ReleaseMethod::ALL.into_iter().map(group).collect()
}

fn cost(group: &Group) -> Option<Drawing> {
    let rows = by_way(|way| {
        vec![
            bar(group, way, COST, "normalised", "trim"),
            bar(group, way, TOTAL, "unnormalised", "trim").map(Bar::hollow),
        ]
    });
    let caption = format!("Map, touch and release, per page: {}", group.label);
    Some(Drawing {
        id: COST,
        svg: bars::chart(&caption, MetricUnit::Seconds, &rows)?,
        caption,
        hint: "Shorter is better. The outline is the time that a program sees; the full bar leaves out the touch of \
               the same memory when resident."
            .to_owned(),
    })
}

fn reuse(group: &Group) -> Option<Drawing> {
    let rows = by_way(|way| {
        vec![
            bar(group, way, RELEASE, "release", "trim"),
            bar(group, way, REUSE, "use again", "restore"),
        ]
    });
    let caption = format!("Release and reuse, per page: {}", group.label);
    Some(Drawing {
        id: REUSE,
        svg: bars::chart(&caption, MetricUnit::Seconds, &rows)?,
        caption,
        hint: "Shorter is better, but only if the memory really returned to the kernel: see the last drawing. Reuse is \
               the next touch of the memory, mapped again if necessary, the memset subtracted."
            .to_owned(),
    })
}

/// Time until the system has the memory, by group: a method without a bar freed no memory in time.
fn back(groups: &[&Group]) -> Option<Drawing> {
    let group = |group: &&Group| Bars {
        name: group.label.clone(),
        bars: ReleaseMethod::ALL
            .into_iter()
            .filter_map(|way| bar(group, way, BACK, way.title(), "target"))
            .collect(),
    };
    let rows: Vec<Bars> = groups.iter().map(group).collect();
    let caption = "Time until the memory is really back in the kernel".to_owned();
    Some(Drawing {
        id: BACK,
        svg: bars::chart(&caption, MetricUnit::Seconds, &rows)?,
        caption,
        hint: "From the call until 95% of the memory is no longer charged to the cgroup. A method without a bar is lazy: \
               the memory did not return by itself during the rest. The time is unknown without a cgroup and for reserved \
               huge pages."
            .to_owned(),
    })
}

/// A row for each way of each group.
fn table(groups: &[&Group]) -> Table<'static> {
    let row = |group: &Group, way: ReleaseMethod| {
        let median = |metric: &str| Some(group.metrics.get(&of_way(way, metric))?.summary.median);
        median(TOTAL)?;
        let cell = |metric: &str| {
            let shown = |value| Cell::number(value, quantity::metric(metric, value));
            median(metric).map_or_else(Cell::missing, shown)
        };
        let mut cells = vec![Cell::text(&group.label), Cell::text(way.title())];
        cells.extend([TOTAL, COST, RELEASE, REUSE, BACK, BACK_SHARE, PRESSURE].map(cell));
        Some(cells)
    };
    let rows = groups.iter().flat_map(|group| {
        ReleaseMethod::ALL
            .into_iter()
            .filter_map(move |way| row(group, way))
    });
    Table {
        id: "ways",
        title: "Methods",
        rows: rows.collect(),
        columns: columns(&[
            ("Group", false),
            ("Method", false),
            ("Map, touch, release", true),
            ("Without the memset", true),
            ("Release", true),
            ("Reuse", true),
            ("Returned after", true),
            ("Returned", true),
            ("Under pressure", true),
        ]),
    }
}
