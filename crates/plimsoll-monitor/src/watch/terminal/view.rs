//! The user's view, and the effect of actions on it.

use std::path::PathBuf;

use super::action::{Action, HINTS, Mode};
use super::panels::Panels;
use super::place::LEAST_WITH_PANEL;
use super::ranking::{RowId, Rows};
use super::snapshot::{Snapshot, column_number};
use super::tree::TreeView;
use super::words::wrapped;
use crate::cells::in_cells;
use crate::watch::options::Candidate;

/// Durations of a column that the user can choose, in milliseconds. Those below a tick are skipped.
const ZOOMS_MS: [u64; 17] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    1_800_000, 3_600_000,
];
/// Initial duration for a live machine: the view then moves once a second, which is calm and cheap to draw.
const START_ZOOM: usize = 6;
/// Most characters of an input line.
const LONGEST_LINE: usize = 200;

/// Shortest column of a fitted chart.
const LEAST_COLUMN_NS: u64 = 1_000_000;

/// Duration of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zoom {
    /// Index into [`ZOOMS_MS`].
    Step(usize),
    /// All frames fill the width of the chart; with the duration for its present width.
    Whole { column_ns: u64 },
}

#[derive(Debug, Clone, PartialEq)]
pub struct View {
    zoom: Zoom,
    /// Time at the right edge; None to follow the newest frame.
    pub(super) anchor: Option<u64>,
    pub(super) frozen: bool,
    /// Time of the displayed values; None for the right edge.
    pub(super) cursor: Option<u64>,
    /// Whether layers are scaled to used memory instead of all RAM.
    pub(super) share: bool,
    pub(super) overlay: Option<Overlay>,
    /// The tree of cgroups as the user left it.
    tree: TreeView,
    /// Columns of the chart in the last frame.
    pub(super) width: usize,
    /// Rows of text that fit into a box, and cells of a row.
    pub(super) rows_of_text: usize,
    pub(super) columns_of_text: u16,
    /// Address of the live page, or how to serve it.
    pub(super) page: String,
    pub(super) panels: Panels,
    /// Whether mouse events come here, not to the terminal.
    pub(super) mouse: bool,
}

/// A box over the main screen.
#[derive(Debug, Clone, PartialEq)]
pub enum Overlay {
    /// First visible line.
    Help(usize),
    /// Title, lines, first visible line.
    Text(String, Vec<String>, usize),
    /// The order to execute on yes, and the text of the question.
    Question(Order, Vec<String>),
    Prompt(Purpose, String),
    Picker(Picker),
    /// The tree of cgroups.
    Tree(TreeView),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Note,
    /// Folder of a recording.
    Record,
}

/// A list of processes with a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picker {
    candidates: Vec<Candidate>,
    pub(super) filter: String,
    /// Index of the selected entry among the filtered ones.
    pub(super) chosen: usize,
}

/// A request to the main loop or the monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    Quit,
    /// Stop the process until the shell continues it.
    Suspend,
    Peak,
    ListCandidates,
    Target(u32),
    NoTarget,
    /// Watch the cgroup with this folder.
    Cgroup(PathBuf),
    PageFlags,
    Messages,
    /// Start to record into this folder.
    Record(String),
    EndRecording,
    Mark(u32),
    Note(String),
    Trim,
    /// Show the plan of a release.
    PlanRelease,
    Release,
}

impl View {
    /// A view of the newest minutes. `page` is the address of the live page, or how to serve it.
    pub fn new(page: impl Into<String>) -> View {
        View {
            zoom: Zoom::Step(START_ZOOM),
            anchor: None,
            frozen: false,
            cursor: None,
            share: false,
            overlay: None,
            tree: TreeView::default(),
            width: 1,
            rows_of_text: 1,
            columns_of_text: 1,
            page: page.into(),
            panels: Panels::default(),
            mouse: true,
        }
    }

    /// A view of a whole recording: its frames fill the width of the chart, however many they are.
    pub fn of_recording(page: impl Into<String>) -> View {
        View {
            zoom: Zoom::Whole {
                column_ns: LEAST_COLUMN_NS,
            },
            ..View::new(page)
        }
    }

    /// Adapts the view to a chart of `width` columns and to the frames of `snapshot`.
    pub fn fit(&mut self, snapshot: &Snapshot, width: usize) {
        self.width = width;
        if let Zoom::Whole { column_ns } = &mut self.zoom {
            *column_ns = whole_column_ns(snapshot, width);
        }
    }

    pub fn open_picker(&mut self, picker: Picker) {
        self.overlay = Some(Overlay::Picker(picker));
    }

    /// Duration of a column: at least a tick, and a whole number of ticks if possible.
    pub fn column_ns(&self, period_ns: u64) -> u64 {
        let wanted = match self.zoom {
            Zoom::Step(step) => ZOOMS_MS[step] * 1_000_000,
            Zoom::Whole { column_ns } => return column_ns,
        };
        match wanted.checked_div(period_ns) {
            None | Some(0) => period_ns.max(1),
            Some(ticks) if ticks < 100 => ticks * period_ns,
            Some(_) => wanted,
        }
    }

    /// Number of the first column of a chart of `width` columns.
    pub fn first_column(&self, snapshot: &Snapshot, width: usize) -> i64 {
        let edge = self.anchor.unwrap_or(snapshot.edge_ns);
        column_number(edge, self.column_ns(snapshot.period_ns)) + 1 - width as i64
    }

    /// The element that receives keys.
    pub fn mode(&self) -> Mode {
        match &self.overlay {
            None => Mode::Page,
            Some(Overlay::Help(_) | Overlay::Text(..)) => Mode::Reading,
            Some(Overlay::Question(..)) => Mode::Asking,
            Some(Overlay::Prompt(..)) => Mode::Typing,
            Some(Overlay::Picker(_)) => Mode::Picking,
            Some(Overlay::Tree(_)) => Mode::Tree,
        }
    }

    /// Applies an action to the view. Returns an order for actions beyond the view.
    pub fn act(&mut self, action: Action, snapshot: &Snapshot) -> Option<Order> {
        match action {
            Action::Quit => return Some(Order::Quit),
            Action::Suspend => return Some(Order::Suspend),
            _ => {}
        }
        if let (Some(Overlay::Tree(tree)), Some(listing)) = (&mut self.overlay, &snapshot.cgroups) {
            tree.act(action, listing);
        }
        if self.overlay.is_some() {
            return self.act_on_overlay(action);
        }
        if snapshot.status.replay && changes(action) {
            let text = match action {
                Action::Cgroups => "A recording has no tree of cgroups.",
                _ => "A replay has no actions.",
            };
            let text = text.to_owned();
            self.overlay = Some(Overlay::Text("replay".to_owned(), vec![text], 0));
            return None;
        }
        match action {
            Action::ZoomIn => self.zoom_to(self.shorter(), snapshot),
            Action::ZoomOut => self.zoom_to(self.longer(), snapshot),
            Action::Whole => self.show_whole(snapshot),
            Action::Back => self.scroll(-(self.width as i64 / 8).max(1), snapshot),
            Action::Forward => self.scroll((self.width as i64 / 8).max(1), snapshot),
            Action::PageBack => self.scroll(-(self.width as i64), snapshot),
            Action::PageForward => self.scroll(self.width as i64, snapshot),
            Action::Oldest => self.scroll(i64::MIN / 2, snapshot),
            Action::Newest => self.follow(),
            Action::Freeze => match self.frozen {
                true => self.follow(),
                false => {
                    self.frozen = true;
                    self.anchor.get_or_insert(snapshot.edge_ns);
                }
            },
            Action::CursorBack => self.move_cursor(-1, snapshot),
            Action::CursorForward => self.move_cursor(1, snapshot),
            Action::PreviousMark => self.step_to_mark(false, snapshot),
            Action::NextMark => self.step_to_mark(true, snapshot),
            Action::Share => self.share = !self.share,
            Action::Help => self.overlay = Some(Overlay::Help(0)),
            Action::OpenPage => {
                self.overlay = Some(Overlay::Text("page".to_owned(), vec![self.page.clone()], 0));
            }
            Action::Cgroups => self.overlay = Some(Overlay::Tree(self.tree.clone())),
            Action::Note => self.overlay = Some(Overlay::Prompt(Purpose::Note, String::new())),
            Action::Record if snapshot.status.recording.is_some() => return Some(Order::EndRecording),
            Action::Record => self.overlay = Some(Overlay::Prompt(Purpose::Record, String::new())),
            Action::Trim => self.overlay = Some(ask_to_trim(snapshot)),
            Action::Peak => return Some(Order::Peak),
            Action::PickTarget => return Some(Order::ListCandidates),
            Action::PageFlags => return Some(Order::PageFlags),
            Action::Messages => return Some(Order::Messages),
            Action::Mark(number) => return Some(Order::Mark(number)),
            Action::Release => return Some(Order::PlanRelease),
            Action::CursorTo(column) => {
                if let Some((oldest, newest)) = snapshot.span {
                    // A column before the start has no time.
                    let t_ns = snapshot.time_of(column).unwrap_or(0);
                    self.go_to(t_ns.clamp(oldest, newest), snapshot);
                }
            }
            Action::Mouse => self.mouse = !self.mouse,
            Action::NextList | Action::Changes if !self.panels.fits && !self.panels.any() => {
                self.overlay = Some(no_room());
            }
            action => {
                let rows = self.panels.list.and_then(|listed| Rows::of(listed, snapshot));
                let row = self.panels.act(action, rows.as_ref());
                return row.map(order_to_watch);
            }
        }
        None
    }

    fn act_on_overlay(&mut self, action: Action) -> Option<Order> {
        let (rows, columns) = (self.rows_of_text, self.columns_of_text);
        let last = |lines: &[String]| {
            let lines: Vec<String> = lines.iter().map(|line| in_cells(line, true)).collect();
            wrapped(&lines, columns).len().saturating_sub(rows)
        };
        let last_hint = HINTS.len().saturating_sub(rows);
        let overlay = self.overlay.as_mut()?;
        match (action, overlay) {
            (Action::Close, Overlay::Tree(tree)) => {
                // The next time, it is as the user left it.
                self.tree = std::mem::take(tree);
                self.overlay = None;
            }
            (Action::Close, _) => self.overlay = None,
            (Action::Up, Overlay::Text(.., top) | Overlay::Help(top)) => *top = top.saturating_sub(1),
            (Action::PageUp, Overlay::Text(.., top) | Overlay::Help(top)) => *top = top.saturating_sub(10),
            (Action::Down, Overlay::Help(top)) => *top = (*top + 1).min(last_hint),
            (Action::PageDown, Overlay::Help(top)) => *top = (*top + 10).min(last_hint),
            (Action::Down, Overlay::Text(_, lines, top)) => {
                *top = (*top + 1).min(last(lines));
            }
            (Action::PageDown, Overlay::Text(_, lines, top)) => {
                *top = (*top + 10).min(last(lines));
            }
            (Action::Type(letter), Overlay::Prompt(_, text)) if text.chars().count() < LONGEST_LINE => {
                text.push(letter);
            }
            (Action::Erase, Overlay::Prompt(_, text)) => {
                text.pop();
            }
            (Action::Confirm, Overlay::Prompt(purpose, text)) => {
                let (purpose, text) = (*purpose, text.trim().to_owned());
                self.overlay = None;
                return match purpose {
                    _ if text.is_empty() => None,
                    Purpose::Note => Some(Order::Note(text)),
                    Purpose::Record => Some(Order::Record(text)),
                };
            }
            (Action::Confirm, Overlay::Question(order, _)) => {
                let order = order.clone();
                self.overlay = None;
                return Some(order);
            }
            (Action::Confirm, Overlay::Picker(picker)) => {
                let order = match picker.entries().nth(picker.chosen)? {
                    Some(candidate) => Order::Target(candidate.pid),
                    None => Order::NoTarget,
                };
                self.overlay = None;
                return Some(order);
            }
            (action, Overlay::Picker(picker)) => picker.act(action),
            _ => {}
        }
        None
    }

    /// Follows the newest frame.
    fn follow(&mut self) {
        (self.anchor, self.cursor, self.frozen) = (None, None, false);
    }

    /// The longest step that is shorter than the present duration of a column.
    fn shorter(&self) -> usize {
        match self.zoom {
            Zoom::Step(step) => step.saturating_sub(1),
            Zoom::Whole { column_ns } => ZOOMS_MS
                .iter()
                .rposition(|ms| ms * 1_000_000 < column_ns)
                .unwrap_or(0),
        }
    }

    /// The shortest step that is longer than the present duration of a column.
    fn longer(&self) -> usize {
        let last = ZOOMS_MS.len() - 1;
        match self.zoom {
            Zoom::Step(step) => (step + 1).min(last),
            Zoom::Whole { column_ns } => ZOOMS_MS
                .iter()
                .position(|ms| ms * 1_000_000 > column_ns)
                .unwrap_or(last),
        }
    }

    /// Shows all frames of a recording, and the shortest step that holds all frames of a live machine, which get more.
    fn show_whole(&mut self, snapshot: &Snapshot) {
        self.follow();
        let column_ns = whole_column_ns(snapshot, self.width);
        self.zoom = if snapshot.status.replay {
            Zoom::Whole { column_ns }
        } else {
            let steps = ZOOMS_MS.iter().map(|ms| ms * 1_000_000);
            let holds = |step: u64| step >= column_ns && step >= snapshot.period_ns;
            let step = steps.into_iter().position(holds);
            Zoom::Step(step.unwrap_or(ZOOMS_MS.len() - 1))
        };
    }

    /// Keeps the cursor, or the right edge, in place on the screen.
    fn zoom_to(&mut self, zoom: usize, snapshot: &Snapshot) {
        let least = ZOOMS_MS
            .iter()
            .position(|ms| ms * 1_000_000 >= snapshot.period_ns)
            .unwrap_or(ZOOMS_MS.len() - 1);
        self.zoom = Zoom::Step(zoom.max(least));
        if let Some(cursor) = self.cursor {
            self.bring_to_sight(cursor, snapshot);
        }
    }

    fn scroll(&mut self, columns: i64, snapshot: &Snapshot) {
        let column_ns = i128::from(self.column_ns(snapshot.period_ns));
        let (oldest, newest) = snapshot.span.unwrap_or((0, 0));
        let edge = self.anchor.unwrap_or(snapshot.edge_ns);
        let moved = i128::from(edge) + i128::from(columns) * column_ns;
        // Keeps at least one column of data visible.
        let least = i128::from(oldest) + column_ns * (self.width as i128 - 1);
        let moved = moved.clamp(least.min(i128::from(newest)), i128::from(u64::MAX));
        let moved = u64::try_from(moved).unwrap_or(u64::MAX);
        self.anchor = match moved >= snapshot.edge_ns && !self.frozen {
            true => None,
            false => Some(moved.min(snapshot.edge_ns)),
        };
        // Otherwise the displayed values would belong to an invisible time.
        self.cursor = None;
    }

    fn move_cursor(&mut self, columns: i64, snapshot: &Snapshot) {
        let column_ns = self.column_ns(snapshot.period_ns);
        let (oldest, newest) = snapshot.span.unwrap_or((0, 0));
        let from = self
            .cursor
            .or(self.anchor)
            .unwrap_or(snapshot.edge_ns)
            .min(newest);
        let moved = from.saturating_add_signed(columns * column_ns as i64);
        self.go_to(moved.clamp(oldest, newest), snapshot);
    }

    fn step_to_mark(&mut self, forward: bool, snapshot: &Snapshot) {
        let from = self.cursor.or(self.anchor).unwrap_or(snapshot.edge_ns);
        let mut times = snapshot.marks.iter().map(|mark| mark.t_ns);
        let found = match forward {
            true => times.find(|&t_ns| t_ns > from),
            false => times.rfind(|&t_ns| t_ns < from),
        };
        if let Some(t_ns) = found {
            self.go_to(t_ns, snapshot);
        }
    }

    /// Moves the cursor to a time, and scrolls to it.
    pub(super) fn go_to(&mut self, t_ns: u64, snapshot: &Snapshot) {
        self.cursor = Some(t_ns);
        self.bring_to_sight(t_ns, snapshot);
    }

    fn bring_to_sight(&mut self, t_ns: u64, snapshot: &Snapshot) {
        let column_ns = self.column_ns(snapshot.period_ns);
        let column = column_number(t_ns, column_ns);
        let first = self.first_column(snapshot, self.width);
        if !(first..first + self.width as i64).contains(&column) {
            let half = column_ns.saturating_mul(self.width as u64 / 2);
            self.anchor = Some(t_ns.saturating_add(half).min(snapshot.edge_ns));
        } else {
            // The view must not move while the cursor is in use.
            self.anchor.get_or_insert(snapshot.edge_ns);
        }
    }
}

/// Duration of a column with which all frames fill `width` columns. A recording that still grows gets the next longer
/// step, so that the chart moves rather than shrinks with every second.
fn whole_column_ns(snapshot: &Snapshot, width: usize) -> u64 {
    let Some((oldest, newest)) = snapshot.span else {
        return LEAST_COLUMN_NS;
    };
    let width = (width as u64).max(1);
    let mut column_ns = ((newest - oldest) / width).max(LEAST_COLUMN_NS);
    // The first and the last column may be filled in part only.
    while newest / column_ns - oldest / column_ns >= width {
        column_ns += (column_ns / (8 * width)).max(1);
    }
    if snapshot.status.ended.is_some() {
        return column_ns;
    }
    let steps = ZOOMS_MS.iter().map(|ms| ms * 1_000_000);
    let holds = |step: &u64| *step >= column_ns && *step >= snapshot.period_ns;
    steps.into_iter().find(holds).unwrap_or(column_ns)
}

fn order_to_watch(row: RowId) -> Order {
    match row {
        RowId::Process(identity) => Order::Target(identity.pid),
        RowId::Cgroup(folder) => Order::Cgroup(folder),
    }
}

fn no_room() -> Overlay {
    let (width, height) = LEAST_WITH_PANEL;
    let text = format!("A panel needs a terminal of {width}x{height}.");
    Overlay::Text("panel".to_owned(), vec![text], 0)
}

/// Whether an action affects the machine, not only the view.
fn changes(action: Action) -> bool {
    matches!(
        action,
        Action::Trim
            | Action::Release
            | Action::PageFlags
            | Action::PickTarget
            | Action::Record
            | Action::Cgroups
            | Action::Mark(_)
            | Action::Note
    )
}

fn ask_to_trim(snapshot: &Snapshot) -> Overlay {
    match &snapshot.target {
        Some(target) if target.ended.is_none() => Overlay::Question(
            Order::Trim,
            vec![
                format!("Trim {}: reclaim its pages?", target.title),
                "It takes page faults on its next accesses.".to_owned(),
            ],
        ),
        _ => Overlay::Text(
            "trim".to_owned(),
            vec!["There is no target to trim: press t to choose one.".to_owned()],
            0,
        ),
    }
}

impl Picker {
    pub fn new(candidates: Vec<Candidate>) -> Picker {
        Picker {
            candidates,
            filter: String::new(),
            chosen: 0,
        }
    }

    /// Processes whose name or pid contains the filter. With an empty filter, "no target" comes first.
    pub(super) fn entries(&self) -> impl Iterator<Item = Option<&Candidate>> {
        let wanted = self.filter.to_lowercase();
        let none = wanted.is_empty().then_some(None);
        let matching = self.candidates.iter().filter(move |candidate| {
            candidate.name.to_lowercase().contains(&wanted) || candidate.pid.to_string().contains(&wanted)
        });
        none.into_iter().chain(matching.map(Some))
    }

    fn act(&mut self, action: Action) {
        let last = self.entries().count().saturating_sub(1);
        match action {
            Action::Up => self.chosen = self.chosen.saturating_sub(1),
            Action::Down => self.chosen = (self.chosen + 1).min(last),
            Action::PageUp => self.chosen = self.chosen.saturating_sub(10),
            Action::PageDown => self.chosen = (self.chosen + 10).min(last),
            Action::Type(letter) if self.filter.chars().count() < LONGEST_LINE => {
                self.filter.push(letter);
                self.chosen = 0;
            }
            Action::Erase => {
                self.filter.pop();
                self.chosen = 0;
            }
            _ => {}
        }
    }
}
