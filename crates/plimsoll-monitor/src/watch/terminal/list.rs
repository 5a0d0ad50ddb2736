//! Draws the list of processes or cgroups.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::boxes::row_of;
use super::numbers;
use super::panels::Panels;
use super::ranking::{Rows, Sort, ranked};
use super::snapshot::Snapshot;
use super::theme::{Ink, TARGET, Theme};
use super::words::put;
use crate::cells::{fit_end, in_cells};
use crate::processes::{CgroupRow, Entry, Rates, cap, cpus};
use crate::watch::top::PERIOD;
use plimsoll_model::quantity::plural;

/// Least width of the names; columns are dropped instead.
const LEAST_NAME: u16 = 14;
/// Width of the symbol in front of a name, with the space behind it.
const SIGN_WIDTH: u16 = 2;

/// A column of numbers: heading, width with the gap on its left, rank for omission (the greatest first, 0 never).
struct Column<T> {
    heading: &'static str,
    width: u16,
    rank: u8,
    /// Sort key that the heading selects.
    sort: Option<Sort>,
    /// The value as text; None if it is unknown.
    cell: fn(&T) -> Option<String>,
}

const fn column<T>(
    heading: &'static str,
    width: u16,
    rank: u8,
    sort: Option<Sort>,
    cell: fn(&T) -> Option<String>,
) -> Column<T> {
    Column {
        heading,
        width,
        rank,
        sort,
        cell,
    }
}

const OF_PROCESSES: &[Column<Entry>] = &[
    column("pid", 8, 2, None, |entry| Some(entry.identity.pid.to_string())),
    column("RSS", 7, 0, Some(Sort::Resident), |entry| {
        Some(numbers::bytes(entry.wss as f64))
    }),
    column("swap", 7, 0, Some(Sort::Swap), |entry| bytes(entry.swap)),
    column("major/s", 9, 0, Some(Sort::Faults), |entry| {
        Some(numbers::count(entry.rates?.major_per_s))
    }),
    column("minor/s", 8, 4, None, |entry| {
        Some(numbers::count(entry.rates?.minor_per_s))
    }),
    column("CPUs", 7, 3, None, |entry| {
        let percent = |rates: &Rates| rates.user_percent + rates.system_percent;
        Some(cpus(entry.rates.as_ref().map(percent)))
    }),
];

const OF_CGROUPS: &[Column<CgroupRow>] = &[
    column("memory", 8, 0, Some(Sort::Resident), |entry| bytes(entry.usage)),
    column("swap", 7, 0, Some(Sort::Swap), |entry| bytes(entry.swap)),
    column("refault/s", 11, 0, Some(Sort::Faults), |entry| {
        Some(numbers::count(entry.refaults_per_s?))
    }),
    column(STALL, 7, 2, None, |entry| {
        Some(numbers::percent(entry.stalled_percent?))
    }),
    column("limit", 11, 3, None, |entry| Some(cap(entry, numbers::bytes))),
];

/// Heading of the column that only cgroup v2 fills.
const STALL: &str = "stall";

fn of_processes() -> Vec<&'static Column<Entry>> {
    OF_PROCESSES.iter().collect()
}

/// The columns of cgroups, without one that the kernel cannot fill.
fn of_cgroups(rows: &[&CgroupRow]) -> Vec<&'static Column<CgroupRow>> {
    let stalls = rows.iter().any(|row| row.stalled_percent.is_some());
    let columns = OF_CGROUPS.iter();
    columns
        .filter(|column| stalls || column.heading != STALL)
        .collect()
}

fn bytes(value: Option<u64>) -> Option<String> {
    Some(numbers::bytes(value? as f64))
}

/// Draws the list into `area`. `past` means that the chart shows an earlier time.
pub(super) fn draw_list(
    buffer: &mut Buffer,
    theme: &Theme,
    area: Rect,
    panels: &Panels,
    snapshot: &Snapshot,
    past: bool,
) {
    let Some(listed) = panels.list else { return };
    let Some(rows) = Rows::of(listed, snapshot) else {
        let text = match snapshot.status.replay {
            true => "a recording has no list of processes or cgroups",
            false => "listing ...",
        };
        put(buffer, theme, row_of(area, 0), text, theme.ink(Ink::Dim));
        return;
    };
    let order = ranked(&rows, panels.sort);
    let sheet = Sheet {
        theme,
        area,
        panels,
        first: first_row(panels, &rows, &order, area),
        past,
        interval: interval(&rows, snapshot),
    };
    let selected = panels.place_in(&rows, &order);
    match rows {
        Rows::Processes(entries) => {
            let entries: Vec<&Entry> = order.iter().map(|&index| &entries[index]).collect();
            let target = snapshot.target.as_ref();
            // In a list of the target alone, a symbol on each row says nothing.
            let marked = target.filter(|target| target.scope().is_none());
            let pids = marked.map_or(&[][..], |target| &target.pids);
            sheet.draw(buffer, of_processes(), "process", &entries, selected, |entry| {
                Named {
                    name: &entry.name,
                    is_path: false,
                    is_target: pids.contains(&entry.identity.pid),
                    storm: entry.storm,
                }
            });
        }
        Rows::Cgroups(cgroups) => {
            let columns = of_cgroups(&cgroups);
            let cgroups: Vec<&CgroupRow> = order.iter().map(|&index| cgroups[index]).collect();
            sheet.draw(buffer, columns, "cgroup", &cgroups, selected, |row| Named {
                name: &row.path,
                is_path: true,
                is_target: false,
                storm: false,
            });
            let notes = snapshot.cgroups.iter().flat_map(|listing| &listing.notes);
            // Without a row, the reason is of use.
            if let Some(note) = notes.take(1).find(|_| cgroups.is_empty() && area.height > 1) {
                put(buffer, theme, row_of(area, 1), note, theme.ink(Ink::Dim));
            }
        }
    }
}

/// Time between the last two readings of the rows.
fn interval(rows: &Rows<'_>, snapshot: &Snapshot) -> Option<Duration> {
    match rows {
        Rows::Processes(_) => snapshot.top.as_ref()?.interval,
        Rows::Cgroups(_) => Duration::try_from_secs_f64(snapshot.cgroups.as_ref()?.interval_s).ok(),
    }
}

/// Rows of entries in the area of a list.
pub(super) fn rows_in(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(1))
}

fn first_row(panels: &Panels, rows: &Rows<'_>, order: &[usize], area: Rect) -> usize {
    let selected = panels.place_in(rows, order);
    panels.first_row(rows_in(area), selected, order.len())
}

/// Part of the list at a place on the screen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Part {
    /// The row of this place in the order; whether it is selected.
    Row(usize, bool),
    /// A heading with this sort key.
    Heading(Sort),
}

/// The part of the list in `area` at a place on the screen.
pub(super) fn part_at(area: Rect, panels: &Panels, snapshot: &Snapshot, x: u16, y: u16) -> Option<Part> {
    let rows = Rows::of(panels.list?, snapshot)?;
    let order = ranked(&rows, panels.sort);
    if y == area.y {
        let headings = match &rows {
            Rows::Processes(_) => headings(of_processes(), area),
            Rows::Cgroups(cgroups) => headings(of_cgroups(cgroups), area),
        };
        let found = headings
            .into_iter()
            .find(|(from, to, _)| (*from..*to).contains(&x));
        return found.and_then(|(.., sort)| sort).map(Part::Heading);
    }
    let row = usize::from(y.checked_sub(area.y + 1)?);
    let place = first_row(panels, &rows, &order, area) + row;
    let selected = panels.place_in(&rows, &order);
    (place < order.len() && row < rows_in(area)).then_some(Part::Row(place, selected == Some(place)))
}

/// Columns that fit into `area`, and the width of the names.
fn fitting<T>(mut fitting: Vec<&'static Column<T>>, area: Rect) -> (Vec<&'static Column<T>>, u16) {
    loop {
        let taken = SIGN_WIDTH + fitting.iter().map(|column| column.width).sum::<u16>();
        let last = fitting.iter().map(|column| column.rank).max().unwrap_or(0);
        if taken + LEAST_NAME <= area.width || last == 0 {
            return (fitting, area.width.saturating_sub(taken));
        }
        fitting.retain(|column| column.rank != last);
    }
}

/// Left and right edge of each column's heading, with its sort key.
fn headings<T>(columns: Vec<&'static Column<T>>, area: Rect) -> Vec<(u16, u16, Option<Sort>)> {
    let (fitting, name) = fitting(columns, area);
    let mut x = area.x + SIGN_WIDTH + name;
    let edges = fitting.into_iter().map(|column| {
        let from = x;
        x += column.width;
        (from, x, column.sort)
    });
    edges.collect()
}

/// Text in front of the numbers of a row.
struct Named<'a> {
    /// Not sanitized.
    name: &'a str,
    /// Whether the end of the name says more than its start.
    is_path: bool,
    is_target: bool,
    storm: bool,
}

struct Sheet<'a> {
    theme: &'a Theme,
    area: Rect,
    panels: &'a Panels,
    first: usize,
    past: bool,
    /// Time since the list before.
    interval: Option<Duration>,
}

impl Sheet<'_> {
    fn draw<T>(
        &self,
        buffer: &mut Buffer,
        columns: Vec<&'static Column<T>>,
        noun: &str,
        rows: &[&T],
        selected: Option<usize>,
        named: impl Fn(&T) -> Named<'_>,
    ) {
        let (theme, area) = (self.theme, self.area);
        let (columns, name_width) = fitting(columns, area);
        self.head(buffer, &columns, noun, rows.len());
        let visible = rows.iter().enumerate().skip(self.first).take(rows_in(area));
        for (at, (place, entry)) in visible.enumerate() {
            let line = row_of(area, 1 + at as u16);
            let named = named(entry);
            let mut style = match (named.storm, named.is_target) {
                (true, _) => theme.ink(Ink::Alarm),
                (false, true) => theme.ink(Ink::Strong),
                (false, false) => Style::new(),
            };
            if selected == Some(place) {
                style = style.add_modifier(Modifier::REVERSED);
                buffer.set_style(line, style);
            }
            self.name(buffer, line, &named, name_width, style);
            let mut x = line.x + SIGN_WIDTH + name_width;
            for column in &columns {
                let text = (column.cell)(entry).unwrap_or_else(|| "-".to_owned());
                x = self.number(buffer, (x, line.y), column.width, &text, style);
            }
        }
    }

    /// Draws the symbol and the name of an entry.
    fn name(&self, buffer: &mut Buffer, line: Rect, named: &Named<'_>, width: u16, style: Style) {
        let theme = self.theme;
        let symbol = Rect { width: 1, ..line };
        match (named.storm, named.is_target) {
            (true, _) => drop(put(buffer, theme, symbol, "!", style)),
            (false, true) => {
                let hatch = if theme.unicode { "\u{2571}" } else { "/" };
                let style = style.fg(theme.hatch()).bg(theme.layer(TARGET));
                put(buffer, theme, symbol, hatch, style);
            }
            (false, false) => {}
        }
        let place = Rect::new(line.x + SIGN_WIDTH, line.y, width, 1);
        let name = in_cells(named.name, theme.unicode);
        let name = match named.is_path {
            true => fit_end(&name, usize::from(width), theme.unicode),
            false => name,
        };
        put(buffer, theme, place, &name, style);
    }

    /// Draws a number or its heading at the right edge of a column of `width` that begins at `x`. Returns that edge.
    fn number(&self, buffer: &mut Buffer, (x, y): (u16, u16), width: u16, text: &str, style: Style) -> u16 {
        // The first cell is the gap.
        let (from, room) = (x + 1, width - 1);
        let text = format!("{text:>0$}", usize::from(room));
        put(buffer, self.theme, Rect::new(from, y, room, 1), &text, style);
        x + width
    }

    /// Draws the headings: the noun with the visible rows, then the columns; the sort key is marked.
    fn head<T>(&self, buffer: &mut Buffer, columns: &[&Column<T>], noun: &str, count: usize) {
        let (theme, area) = (self.theme, self.area);
        let taken: u16 = columns.iter().map(|column| column.width).sum();
        let last = (self.first + rows_in(area)).min(count);
        let mut title = match count {
            0 => format!("no {noun}"),
            _ if last - self.first == count => format!("{count} {noun}{}", plural(noun, count)),
            _ => format!("{noun} {}-{last} of {count}", self.first + 1),
        };
        if self.past {
            title += ", now";
        }
        if let Some(interval) = self.interval.filter(|interval| *interval > 2 * PERIOD) {
            title += &format!(
                ", every {}",
                numbers::duration(interval.as_secs() * 1_000_000_000)
            );
        }
        let room = Rect {
            width: area.width.saturating_sub(taken + 1),
            ..row_of(area, 0)
        };
        put(buffer, theme, room, &title, theme.ink(Ink::Strong));
        let mut x = area.right() - taken;
        for column in columns {
            let sorted = column.sort == Some(self.panels.sort);
            let symbol = match (sorted, theme.unicode) {
                (false, _) => "",
                (true, true) => "\u{25be}",
                (true, false) => "v",
            };
            let text = format!("{}{symbol}", column.heading);
            let ink = if sorted { Ink::Accent } else { Ink::Dim };
            x = self.number(buffer, (x, area.y), column.width, &text, theme.ink(ink));
        }
    }
}
