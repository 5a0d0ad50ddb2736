//! State of the panels beside or below the chart: the list of processes or cgroups, and the changes.

use super::action::Action;
use super::ranking::{Listed, RowId, Rows, Sort, id_of, ranked};

/// The panels that the user shows, and the selected row.
///
/// Invariant: a selection is an identity, not a place, so that no action ever meets another process than the selected
/// one. Checked by `the_selection_follows_its_row_in_any_order`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Panels {
    pub(super) list: Option<Listed>,
    pub(super) changes: bool,
    pub(super) sort: Sort,
    selected: Option<RowId>,
    /// Place of the selected row at the last action.
    at: usize,
    /// Place of the first visible row at the last action.
    first: usize,
    /// Rows of the list in the last frame.
    pub(super) rows: usize,
    /// Whether a panel fits into the screen of the last frame.
    pub(super) fits: bool,
}

impl Default for Panels {
    fn default() -> Panels {
        Panels {
            list: None,
            changes: false,
            sort: Sort::Resident,
            selected: None,
            at: 0,
            first: 0,
            rows: 1,
            fits: true,
        }
    }
}

impl Panels {
    /// Whether any panel is shown.
    pub(super) fn any(&self) -> bool {
        self.list.is_some() || self.changes
    }

    /// Applies an action to the panels, of which the list has `rows`. Returns the row that the user wants to watch.
    pub(super) fn act(&mut self, action: Action, rows: Option<&Rows<'_>>) -> Option<RowId> {
        match action {
            Action::NextList => {
                self.list = match self.list {
                    None => Some(Listed::Processes),
                    Some(Listed::Processes) => Some(Listed::Cgroups),
                    Some(Listed::Cgroups) => None,
                };
                (self.selected, self.at, self.first) = (None, 0, 0);
            }
            Action::Changes => self.changes = !self.changes,
            Action::NextSort => self.sort_by(self.sort.next()),
            Action::SortBy(sort) => self.sort_by(sort),
            Action::MoveRow(_) | Action::SelectRow(_) | Action::WatchRow => {
                return self.act_on_rows(action, rows?);
            }
            _ => {}
        }
        None
    }

    fn sort_by(&mut self, sort: Sort) {
        self.sort = sort;
        // The largest rows come into sight, unless the view follows a selected one.
        self.first = 0;
    }

    fn act_on_rows(&mut self, action: Action, rows: &Rows<'_>) -> Option<RowId> {
        let order = ranked(rows, self.sort);
        let selected = self.place_in(rows, &order);
        let last = order.len().checked_sub(1)?;
        let to = match (action, selected) {
            (Action::WatchRow, _) => return self.selected.clone().filter(|_| selected.is_some()),
            (Action::SelectRow(place), _) => place,
            (Action::MoveRow(by), Some(at)) => at.saturating_add_signed(by.into()),
            // The selected row has gone, or there was none: the one in its place.
            (_, None) => self.at,
            (_, Some(at)) => at,
        };
        let to = to.min(last);
        self.selected = Some(id_of(rows, order[to]));
        self.at = to;
        self.first = self.first_row(self.rows, Some(to), order.len());
        None
    }

    /// Place of the selected row in this order; None without one, or if it has gone.
    pub(super) fn place_in(&self, rows: &Rows<'_>, order: &[usize]) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        let is_selected = |index: &usize| match (selected, rows) {
            (RowId::Process(identity), Rows::Processes(entries)) => entries[*index].identity == *identity,
            (RowId::Cgroup(folder), Rows::Cgroups(cgroups)) => cgroups[*index].folder == *folder,
            _ => false,
        };
        order.iter().position(is_selected)
    }

    /// First visible one of `count` rows, if `rows` are visible: the one of the last action, moved as far as the
    /// selected row needs.
    pub(super) fn first_row(&self, rows: usize, selected: Option<usize>, count: usize) -> usize {
        let first = self.first.min(count.saturating_sub(rows));
        match selected {
            Some(place) => first.clamp((place + 1).saturating_sub(rows), place),
            None => first,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::processes::{CgroupRow, Depth, Entry, Listing, Observer, Rates, Users};

    /// The rows of both lists.
    struct Lists {
        processes: Vec<Entry>,
        cgroups: Vec<CgroupRow>,
    }

    impl Lists {
        fn rows(&self, listed: Listed) -> Rows<'_> {
            match listed {
                Listed::Processes => Rows::Processes(&self.processes),
                Listed::Cgroups => Rows::Cgroups(self.cgroups.iter().collect()),
            }
        }
    }

    /// Processes with these (pid, resident, swap, major faults), and cgroups.
    fn lists(values: &[(u32, u64, Option<u64>, Option<u32>)]) -> Lists {
        let mut observer = Observer::new().unwrap();
        let own = observer.snapshot_of(&[std::process::id()], Depth::Sizes);
        let template = Listing::between(&own, &own, &Users::default())
            .processes
            .remove(0);
        let entries = values.iter().map(|&(pid, wss, swap, major)| {
            let mut entry = template.clone();
            entry.identity.pid = pid;
            (entry.wss, entry.swap) = (wss, swap);
            entry.rates = major.map(|major| Rates {
                major_per_s: f64::from(major),
                ..Rates::default()
            });
            entry
        });
        let cgroups = values.iter().map(|&(pid, usage, swap, refaults)| CgroupRow {
            folder: format!("/cg/{pid}").into(),
            path: format!("/{pid}"),
            name: pid.to_string(),
            depth: 1,
            usage: Some(usage),
            swap,
            caps: Vec::new(),
            refaults_per_s: refaults.map(f64::from),
            stalled_percent: None,
        });
        Lists {
            processes: entries.collect(),
            cgroups: cgroups.collect(),
        }
    }

    fn any_values() -> impl Strategy<Value = Vec<(u32, u64, Option<u64>, Option<u32>)>> {
        let value = (0..5_u64, prop::option::of(0..5_u64), prop::option::of(0..5_u32));
        prop::collection::btree_map(1..40_u32, value, 0..30).prop_map(|map| {
            map.into_iter()
                .map(|(pid, (wss, swap, major))| (pid, wss, swap, major))
                .collect()
        })
    }

    fn any_sort() -> impl Strategy<Value = Sort> {
        prop::sample::select(vec![Sort::Resident, Sort::Swap, Sort::Faults])
    }

    fn any_list() -> impl Strategy<Value = Listed> {
        prop::sample::select(vec![Listed::Processes, Listed::Cgroups])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Every entry has one row, no row has a larger value than the one above it, and unknown values come last.
        #[test]
        fn rows_are_in_descending_order(values in any_values(), sort in any_sort(), listed in any_list()) {
            let lists = lists(&values);
            let order = ranked(&lists.rows(listed), sort);
            let mut all = order.clone();
            all.sort_unstable();
            prop_assert_eq!(all, (0..values.len()).collect::<Vec<_>>());
            let key = |index: usize| {
                let (_, resident, swap, faults) = values[index];
                match sort {
                    Sort::Resident => Some(resident),
                    Sort::Swap => swap,
                    Sort::Faults => faults.map(u64::from),
                }
            };
            for pair in order.windows(2) {
                prop_assert!(key(pair[0]) >= key(pair[1]), "{:?}", order);
            }
        }

        /// Values change, processes come and go: the selection stays on its process, the row is visible, and Enter
        /// watches that process or nothing.
        #[test]
        fn the_selection_follows_its_row_in_any_order(
            before in any_values(),
            after in any_values(),
            sort in any_sort(),
            then in any_sort(),
            listed in any_list(),
            place in 0..40_usize,
            rows in 1..12_usize,
        ) {
            let mut panels = Panels { list: Some(listed), sort, rows, ..Panels::default() };
            let (old, new) = (lists(&before), lists(&after));
            let (old, new) = (old.rows(listed), new.rows(listed));
            prop_assert_eq!(panels.act(Action::WatchRow, Some(&old)), None);
            panels.act(Action::SelectRow(place), Some(&old));
            let order = ranked(&old, sort);
            let wanted = order.get(place.min(order.len().saturating_sub(1))).map(|&index| id_of(&old, index));
            prop_assert_eq!(panels.selected.as_ref(), wanted.as_ref());
            panels.act(Action::SortBy(then), Some(&old));
            let order = ranked(&new, then);
            let there = panels.place_in(&new, &order);
            let expected = order.iter().position(|&index| Some(id_of(&new, index)) == wanted);
            prop_assert_eq!(there, expected);
            let first = panels.first_row(rows, there, order.len());
            if let Some(place) = there {
                prop_assert!((first..first + rows).contains(&place));
            }
            prop_assert!(first <= order.len());
            prop_assert_eq!(panels.act(Action::WatchRow, Some(&new)), wanted.filter(|_| there.is_some()));
        }

        /// Any number of steps in any list ends on a row of the list.
        #[test]
        fn steps_stay_in_the_list(values in any_values(), steps in prop::collection::vec(-9..9_i16, 0..20)) {
            let lists = lists(&values);
            let rows = lists.rows(Listed::Processes);
            let mut panels = Panels { list: Some(Listed::Processes), rows: 4, ..Panels::default() };
            for step in steps {
                panels.act(Action::MoveRow(step), Some(&rows));
                let order = ranked(&rows, panels.sort);
                prop_assert_eq!(panels.place_in(&rows, &order).is_some(), !values.is_empty());
            }
        }
    }

    /// A process ends: the next step starts at the row in its place.
    #[test]
    fn a_step_from_an_ended_process_takes_the_row_in_its_place() {
        let mut panels = Panels {
            list: Some(Listed::Processes),
            rows: 4,
            ..Panels::default()
        };
        let before = lists(&[(1, 30, None, None), (2, 20, None, None), (3, 10, None, None)]);
        panels.act(Action::SelectRow(1), Some(&before.rows(Listed::Processes)));
        let after = lists(&[(1, 30, None, None), (3, 10, None, None)]);
        let after = after.rows(Listed::Processes);
        assert_eq!(panels.act(Action::WatchRow, Some(&after)), None);
        panels.act(Action::MoveRow(1), Some(&after));
        let watched = panels.act(Action::WatchRow, Some(&after));
        assert_eq!(watched, Some(id_of(&after, 1)));
    }

    #[test]
    fn tab_shows_processes_then_cgroups_then_nothing() {
        let mut panels = Panels::default();
        let mut shown = Vec::new();
        for _ in 0..3 {
            panels.act(Action::NextList, None);
            shown.push(panels.list);
        }
        assert_eq!(shown, [Some(Listed::Processes), Some(Listed::Cgroups), None]);
    }
}
