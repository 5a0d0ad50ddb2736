//! The main loop: keys to actions, actions to the monitor, state to the screen.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use signal_hook::consts::{SIGTSTP, SIGWINCH};
use unicode_width::UnicodeWidthStr;

use super::action::action_of;
use super::keys::{Key, decode};
use super::link::Link;
use super::numbers;
use super::pace::Pace;
use super::page::{columns_in, draw, settle};
use super::place;
use super::pointer::pointed;
use super::ranking::Listed;
use super::screen::{self, Input, Screen};
use super::snapshot::Snapshot;
use super::theme::{Depth, FREE, Theme};
use super::view::{Order, Overlay, Picker, View};
use super::{End, TerminalError, TerminalOptions};
use crate::watch::monitor::Monitor;
use crate::watch::options::TargetChoice;
use crate::watch::state::{MarkKind, Message, State};
use plimsoll_report::analysis::frame::Frame;
use plimsoll_report::analysis::gauges::gauge;
use plimsoll_sample::stop::Stop;

/// Longest wait for the rest of a sequence of which a read brought the start.
const REST_WAIT: Duration = Duration::from_millis(50);

struct Ui<'a> {
    monitor: &'a Monitor,
    theme: Theme,
    view: View,
    snapshot: Snapshot,
    backend: CrosstermBackend<Link<'a>>,
    /// Current content of the terminal.
    shown: Buffer,
    /// Next content; reused, so that a frame allocates little.
    next: Buffer,
    /// Whether something other than the state has changed since the last frame.
    changed: bool,
    /// Number of page-flag marks at the time of the user's request for another count.
    flags_after: Option<usize>,
    /// Whether the monitor reads the cgroups.
    reads_cgroups: bool,
    lists: bool,
}

pub(super) fn run(monitor: &Monitor, options: &TerminalOptions, stop: &Stop) -> Result<End, TerminalError> {
    let variable = |name: &str| std::env::var(name).ok();
    let term = variable("TERM").unwrap_or_default();
    if term.is_empty() || term == "dumb" {
        return Err(TerminalError::Dumb { term });
    }
    let theme = Theme::of_environment(options.colours, variable);
    if theme.depth != Depth::Mono {
        // The library would apply NO_COLOR again, against `--color always`.
        ratatui::crossterm::style::force_color_output(true);
    }
    let prepared = |source| TerminalError::Terminal {
        what: "prepare",
        source,
    };
    let suspend = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTSTP, Arc::clone(&suspend)).map_err(prepared)?;
    // The signal interrupts the wait for keys, so that a new size takes effect at once; the flag is unused.
    signal_hook::flag::register(SIGWINCH, Arc::default()).map_err(prepared)?;
    let screen = Screen::enter()?;
    let page = options.page.clone().unwrap_or_else(|| {
        "The live page is off. `plimsoll watch --serve 127.0.0.1:8080` serves it instead of this screen."
            .to_owned()
    });
    let snapshot = Snapshot::of(&monitor.state());
    let mut ui = Ui {
        monitor,
        theme,
        view: match snapshot.status.replay {
            true => View::of_recording(page),
            false => View::new(page),
        },
        snapshot,
        backend: CrosstermBackend::new(Link::new(stop)),
        shown: Buffer::empty(Rect::ZERO),
        next: Buffer::empty(Rect::ZERO),
        changed: true,
        flags_after: None,
        reads_cgroups: false,
        lists: false,
    };
    ui.open_panel();
    match ui.show_until_end(&screen, options.duration, stop, &suspend) {
        Ok(end) => Ok(end),
        Err(_) if stop.requested() => Ok(End::Stopped),
        // The terminal disappeared; that is no error.
        Err(UiError::Io(error)) if gone(&error) => Ok(End::Gone),
        Err(UiError::Io(source)) => Err(TerminalError::Terminal {
            what: "draw on",
            source,
        }),
        Err(UiError::Panicked) => Err(TerminalError::Panicked),
    }
}

/// Reasons for the loop to stop.
enum UiError {
    Io(io::Error),
    Panicked,
}

impl From<io::Error> for UiError {
    fn from(error: io::Error) -> UiError {
        UiError::Io(error)
    }
}

fn gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
        || [
            rustix::io::Errno::IO,
            rustix::io::Errno::BADF,
            rustix::io::Errno::NXIO,
        ]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

impl Ui<'_> {
    fn show_until_end(
        &mut self,
        screen: &Screen,
        duration: Option<Duration>,
        stop: &Stop,
        suspend: &AtomicBool,
    ) -> Result<End, UiError> {
        let started = Instant::now();
        let mut pace = Pace::default();
        let mut typed = Vec::new();
        // Time of the last read.
        let mut read = started;
        loop {
            if stop.requested() {
                return Ok(End::Stopped);
            }
            if screen::panicked() {
                return Err(UiError::Panicked);
            }
            if suspend.swap(false, Ordering::AcqRel) {
                self.suspend(screen)?;
            }
            self.follow_lists();
            screen.capture_mouse(self.view.mouse);
            let over = duration.is_some_and(|duration| started.elapsed() >= duration);
            if over || self.is_over() {
                return Ok(End::Over);
            }
            self.follow_size()?;
            if pace.wait(Instant::now()).is_zero() {
                let began = Instant::now();
                self.draw()?;
                pace.drew(Instant::now(), began.elapsed());
                panic_if_asked_to();
            }
            // Rounded up: a wait that is too short would cause another one.
            let mut wait = pace.wait(Instant::now()).as_millis() as i64 + 1;
            if !typed.is_empty() {
                wait = wait.min(REST_WAIT.as_millis() as i64);
            }
            match screen.wait(wait) {
                Input::Nothing if typed.is_empty() || read.elapsed() < REST_WAIT => {}
                Input::Gone => return Ok(End::Gone),
                input => {
                    let over = match input {
                        Input::Bytes(bytes) => {
                            typed.extend(bytes);
                            read = Instant::now();
                            false
                        }
                        _ => true,
                    };
                    for key in decode(&mut typed, over) {
                        if let Some(end) = self.press(key, suspend) {
                            return Ok(end);
                        }
                    }
                    self.changed = true;
                    pace.press();
                }
            }
        }
    }

    /// Executes a key or a mouse event. Returns the reason for the end of the interface, if it was one.
    fn press(&mut self, key: Key, suspend: &AtomicBool) -> Option<End> {
        let action = match key {
            Key::Mouse(mouse) => pointed(mouse, *self.shown.area(), &self.view, &self.snapshot),
            key => action_of(key, self.view.mode()),
        };
        match action.and_then(|action| self.view.act(action, &self.snapshot))? {
            Order::Quit => return Some(End::Quit),
            Order::Suspend => suspend.store(true, Ordering::Release),
            order => self.pass_on(order),
        }
        None
    }

    /// A finished recording stays open for inspection, a finished live target does not.
    fn is_over(&self) -> bool {
        !self.snapshot.status.replay && self.snapshot.status.ended.is_some()
    }

    /// Shows a panel from the start on a screen with room: the processes, or the changes of a replay.
    fn open_panel(&mut self) {
        let (columns, rows) = screen::size();
        if place::is_roomy(Rect::new(0, 0, columns, rows)) {
            match self.snapshot.status.replay {
                false => self.view.panels.list = Some(Listed::Processes),
                true => self.view.panels.changes = true,
            }
        }
    }

    /// Lists processes while their list is shown, and cgroups while their list or tree is; a frozen view keeps the list
    /// that it has.
    fn follow_lists(&mut self) {
        let listed = self.view.panels.list;
        let shows = |list, is_known: bool| listed == Some(list) && !(self.view.frozen && is_known);
        let is_tree = matches!(self.view.overlay, Some(Overlay::Tree(_)));
        let cgroups = is_tree || shows(Listed::Cgroups, self.snapshot.cgroups.is_some());
        let processes = shows(Listed::Processes, self.snapshot.top.is_some());
        if std::mem::replace(&mut self.reads_cgroups, cgroups) != cgroups {
            self.monitor.list_cgroups(cgroups);
        }
        if std::mem::replace(&mut self.lists, processes) != processes {
            self.monitor.list_top(processes);
        }
    }

    fn suspend(&mut self, screen: &Screen) -> io::Result<()> {
        screen.suspend()?;
        self.shown.reset();
        self.changed = true;
        Ok(())
    }

    fn follow_size(&mut self) -> io::Result<()> {
        let (columns, rows) = screen::size();
        let area = Rect::new(0, 0, columns, rows);
        if *self.shown.area() != area {
            self.shown = Buffer::empty(area);
            self.next = Buffer::empty(area);
            self.changed = true;
            // After a change of size, the content of the terminal is undefined.
            self.backend.clear()?;
        }
        Ok(())
    }

    fn draw(&mut self) -> io::Result<()> {
        if !self.look() {
            return Ok(());
        }
        self.next.reset();
        draw(&mut self.next, &self.theme, &self.view, &self.snapshot);
        let updates = self.shown.diff(&self.next);
        if !updates.is_empty() {
            self.backend.draw(updates.into_iter())?;
            Backend::flush(&mut self.backend)?;
        }
        std::mem::swap(&mut self.shown, &mut self.next);
        Ok(())
    }

    /// Copies the visible state. Returns whether there is something to draw.
    fn look(&mut self) -> bool {
        let before = self.snapshot.stamp();
        let now_ns = self.monitor.now_ns();
        let state = self.monitor.state();
        let title = |snapshot: &Snapshot| snapshot.target.as_ref().map(|target| target.title.clone());
        let before_title = title(&self.snapshot);
        self.snapshot.refresh_facts(&state, now_ns);
        if self.lists && title(&self.snapshot) != before_title {
            // The list of another target is not two seconds late.
            self.monitor.list_top(true);
        }
        if !std::mem::take(&mut self.changed) && self.snapshot.stamp() == before {
            return false;
        }
        let area = *self.shown.area();
        settle(&mut self.view, area);
        if let Some(columns) = columns_in(area, &self.view) {
            self.view.fit(&self.snapshot, columns);
            let column_ns = self.view.column_ns(self.snapshot.period_ns);
            let first = self.view.first_column(&self.snapshot, columns);
            self.snapshot.show(&state.history, column_ns, first, columns);
        }
        drop(state);
        self.show_new_flags();
        true
    }

    /// Shows the requested page flags once they are counted.
    fn show_new_flags(&mut self) {
        let Some(before) = self.flags_after else { return };
        let counts = flag_counts(&self.snapshot);
        if let Some(mark) = counts.get(before) {
            self.view.overlay = Some(Overlay::Text("page flags".to_owned(), table(mark), 0));
            self.flags_after = None;
        }
    }

    /// Passes an order on to the monitor.
    fn pass_on(&mut self, order: Order) {
        let monitor = self.monitor;
        match order {
            // The loop itself handles these.
            Order::Quit | Order::Suspend => {}
            Order::Peak => {
                if let Some(t_ns) = peak(&monitor.state()) {
                    self.view.go_to(t_ns, &self.snapshot);
                }
            }
            Order::ListCandidates => {
                self.view.open_picker(Picker::new(monitor.candidates()));
            }
            Order::PlanRelease => {
                let mut lines = monitor.release_plan();
                if lines.is_empty() {
                    lines.push("Release reclaimable cache?".to_owned());
                }
                self.view.overlay = Some(Overlay::Question(Order::Release, lines));
            }
            Order::Target(pid) => monitor.set_target(TargetChoice::Pid(pid)),
            Order::Cgroup(folder) => monitor.set_target(TargetChoice::Cgroup(folder)),
            Order::NoTarget => monitor.set_target(TargetChoice::None),
            Order::PageFlags => {
                self.flags_after = Some(flag_counts(&self.snapshot).len());
                monitor.count_page_flags();
            }
            Order::Messages => {
                let lines = messages(&monitor.state());
                self.view.overlay = Some(Overlay::Text("messages".to_owned(), lines, 0));
            }
            Order::Record(folder) => monitor.record(Some(PathBuf::from(folder))),
            Order::EndRecording => monitor.record(None),
            // A message has the reason of a mark that was not set.
            Order::Mark(number) => {
                monitor.mark(number);
            }
            Order::Note(text) => {
                monitor.note(&text);
            }
            Order::Trim => monitor.trim(),
            Order::Release => monitor.release(),
        }
    }
}

/// The counts of a mark (`words: kind 1.5 GiB, kind 2 MiB`), one line per kind.
fn table(counts: &str) -> Vec<String> {
    let counts = counts.split_once(": ").map_or(counts, |(_, counts)| counts);
    let mut kinds: Vec<(String, &str)> = Vec::new();
    let mut kind = String::new();
    for part in counts.split(", ") {
        // The last two words are a number and its unit; otherwise the comma was part of the kind's name.
        let number = part
            .rmatch_indices(' ')
            .nth(1)
            .filter(|(at, _)| part[at + 1..].starts_with(|letter: char| letter.is_ascii_digit()));
        if let Some((at, _)) = number {
            kind.push_str(&part[..at]);
            kinds.push((std::mem::take(&mut kind), &part[at + 1..]));
        } else {
            kind.push_str(part);
            kind.push_str(", ");
        }
    }
    let width = kinds.iter().map(|(kind, _)| kind.width()).max().unwrap_or(0);
    let line =
        |(kind, size): (String, &str)| format!("{kind}{}  {size:>9}", " ".repeat(width - kind.width()));
    kinds.into_iter().map(line).collect()
}

/// All messages with their age, the newest first.
fn messages(state: &State) -> Vec<String> {
    let latest = state.history.latest().map_or(0, |frame| frame.t_ns);
    let line = |message: &Message| {
        let ago = latest.saturating_sub(message.t_ns) / 1_000_000_000 * 1_000_000_000;
        format!("{:>6} {}", format!("-{}", numbers::duration(ago)), message.text)
    };
    let lines: Vec<String> = state.messages.iter().rev().map(line).collect();
    match lines.is_empty() {
        true => vec!["No messages yet.".to_owned()],
        false => lines,
    }
}

fn flag_counts(snapshot: &Snapshot) -> Vec<&str> {
    let marks = snapshot.marks.iter();
    let counts = marks.filter(|mark| mark.kind == MarkKind::PageFlags);
    counts.map(|mark| mark.text.as_str()).collect()
}

/// Time of the target's largest size in RAM and swap; without a target, of the most used memory.
fn peak(state: &State) -> Option<u64> {
    let target = |frame: &Frame| {
        let resident = frame.gauge(gauge::TARGET_RESIDENT)?;
        Some(resident + frame.gauge(gauge::TARGET_SWAP).unwrap_or(0.0))
    };
    let used = |frame: &Frame| Some(-(frame.layers?[FREE] as f64));
    state
        .target
        .as_ref()
        .and_then(|_| state.history.peak(target))
        .or_else(|| state.history.peak(used))
}

/// Makes tests able to check the terminal after a panic.
fn panic_if_asked_to() {
    if cfg!(debug_assertions) && std::env::var_os("PLIMSOLL_TEST_PANIC").is_some() {
        panic!("PLIMSOLL_TEST_PANIC is set");
    }
}
