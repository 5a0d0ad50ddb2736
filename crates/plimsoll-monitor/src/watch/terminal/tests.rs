//! Text on screens of any size: whole, or with an ellipsis at its end.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_proc::ProcessId;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use super::panels::Panels;
use super::ranking::Rows;
use super::{
    Action, Depth, LEAST, Listed, Order, Overlay, Picker, Purpose, Snapshot, Sort, Theme, TreeView, View,
    columns_in, draw,
};
use crate::cells::ellipsis;
use crate::processes::{CapKind, CgroupListing, CgroupRow, Entry, Rates, RowCap};
use crate::watch::{Candidate, Facts, Level, Mark, MarkKind, State, TargetState, Top};
use plimsoll_report::analysis::frame::{Frame, Machine};
use plimsoll_report::analysis::gauges::{GAUGES, gauge};

const SECOND: u64 = 1_000_000_000;

thread_local! {
    /// Places and texts that were written since the last box.
    static WRITTEN: RefCell<Vec<(Rect, String)>> = const { RefCell::new(Vec::new()) };
}

/// Notes a text that `put` writes.
pub(super) fn wrote(area: Rect, text: &str) {
    WRITTEN.with_borrow_mut(|written| written.push((area, text.to_owned())));
}

/// Forgets the texts before a box, which covers them.
pub(super) fn covered() {
    WRITTEN.with_borrow_mut(Vec::clear);
}

/// A state whose names are `name`, with numbers of `magnitude`.
fn state(name: &str, magnitude: f64, marks: &[(u64, u8)]) -> State {
    let mut state = State::new(Facts {
        hostname: name.to_owned(),
        kernel: name.to_owned(),
        machine: Machine {
            page_size: 4096,
            cpus: 2,
        },
        mem_total: 24 << 30,
        started: String::new(),
        hz: 10,
    });
    for tick in 0..1000 {
        let mut frame = Frame::empty(tick * SECOND / 10);
        let mut layers = [magnitude as i64 >> 4; 10];
        layers[8] = (24 << 30) - layers.iter().sum::<i64>();
        frame.layers = Some(layers);
        for index in 0..GAUGES.len() {
            frame.set_gauge(index, magnitude);
        }
        for index in [gauge::MEMORY_SOME, gauge::MEMORY_FULL, gauge::USER] {
            frame.set_gauge(index, magnitude.min(100.0));
        }
        state.history.push(frame);
    }
    state.swap_devices = vec![name.to_owned(); 4];
    state.target = Some(TargetState {
        title: format!("pid 4242 {name}"),
        pids: vec![104_729],
        ended: name.len().is_multiple_of(3).then(|| name.to_owned()),
        unread: 12,
        ..TargetState::default()
    });
    for &(second, kind) in marks {
        let kind = match kind {
            0 => MarkKind::Number(1),
            1 => MarkKind::Note,
            2 => MarkKind::Trim,
            3 => MarkKind::PageFlags,
            _ => MarkKind::Event,
        };
        state.mark(Mark {
            t_ns: second * SECOND,
            kind,
            text: name.to_owned(),
        });
    }
    state.say(0, Level::Warning, format!("cannot trim {name}: {name}"));
    state
}

fn snapshot(state: &State, view: &mut View, width: u16, height: u16) -> Snapshot {
    let mut snapshot = Snapshot::of(state);
    snapshot.refresh_facts(state, 100 * SECOND);
    let area = Rect::new(0, 0, width, height);
    super::page::settle(view, area);
    if let Some(columns) = columns_in(area, view) {
        view.fit(&snapshot, columns);
        let column_ns = view.column_ns(snapshot.period_ns);
        let first = view.first_column(&snapshot, columns);
        snapshot.show(&state.history, column_ns, first, columns);
    }
    snapshot
}

/// The screen, as a terminal of that size gets it, and the texts that stand on it.
fn screen(
    state: &State,
    view: &mut View,
    theme: Theme,
    (width, height): (u16, u16),
) -> (Buffer, Vec<(Rect, String)>) {
    let snapshot = snapshot(state, view, width, height);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    covered();
    terminal
        .draw(|frame| draw(frame.buffer_mut(), &theme, view, &snapshot))
        .unwrap();
    let written = WRITTEN.with_borrow_mut(std::mem::take);
    (terminal.backend().buffer().clone(), written)
}

/// The symbols of `width` cells from a place on.
fn symbols(buffer: &Buffer, (x, y): (u16, u16), width: usize) -> String {
    let mut text = String::new();
    let mut x = x;
    while text.width() < width && x < buffer.area().right() {
        let symbol = buffer[(x, y)].symbol();
        text += symbol;
        x += (symbol.width() as u16).max(1);
    }
    text
}

fn overlay(kind: u8, name: &str) -> Option<Overlay> {
    let lines = || vec![name.to_owned(), format!("{name} {name}"), String::new()];
    Some(match kind {
        0 => Overlay::Help(0),
        1 => Overlay::Help(9),
        2 => Overlay::Text(name.to_owned(), lines(), 0),
        3 => Overlay::Question(Order::Release, vec![lines(); 9].concat()),
        4 => Overlay::Prompt(Purpose::Note, name.to_owned()),
        5 => Overlay::Prompt(Purpose::Record, String::new()),
        6 => {
            let candidate = |pid| Candidate {
                pid,
                name: name.to_owned(),
                resident: u64::from(pid) << 20,
                swap: u64::from(pid) << 30,
            };
            let mut picker = Picker::new((1..40).map(|number| candidate(number * 104_729)).collect());
            picker
                .filter
                .push_str(if name.len().is_multiple_of(2) { "" } else { name });
            Overlay::Picker(picker)
        }
        7 => Overlay::Tree(TreeView::default()),
        _ => return None,
    })
}

/// A tree of cgroups with these names.
fn cgroups(name: &str, magnitude: f64) -> CgroupListing {
    let row = |depth: usize| CgroupRow {
        folder: format!("/{depth}").into(),
        path: format!("/{}", vec![name; depth].join("/")),
        name: name.to_owned(),
        depth,
        usage: Some(magnitude as u64),
        swap: None,
        caps: vec![RowCap {
            kind: CapKind::High,
            bytes: magnitude as u64,
        }],
        refaults_per_s: Some(magnitude),
        stalled_percent: Some(magnitude.min(100.0)),
    };
    CgroupListing {
        mount: name.to_owned(),
        version: "v2",
        cgroups: (0..40).chain(0..40).map(row).collect(),
        ..CgroupListing::impossible(format!("cannot list {name}"))
    }
}

/// Processes with these names, some of which have no rates. The target and a fault storm are among them.
fn top(name: &str, magnitude: f64, interval_s: Option<u64>) -> Top {
    let known = |number: u32| (!number.is_multiple_of(3)).then_some(magnitude);
    let process = |number: u32| Entry {
        identity: ProcessId {
            pid: number * 104_729,
            start_ticks: u64::from(number),
        },
        parent: 1,
        uid: None,
        user: None,
        name: name.to_owned(),
        command: None,
        state: 'S',
        wss: magnitude as u64,
        anon: None,
        file: None,
        shmem: None,
        pss: None,
        swap: known(number).map(|bytes| bytes as u64),
        compressed: None,
        rates: known(number).map(|per_s| Rates {
            minor_per_s: per_s,
            major_per_s: per_s,
            user_percent: per_s.min(1600.0),
            system_percent: 0.0,
        }),
        pager: None,
        cgroup_refaults_per_s: None,
        oom_score: None,
        oom_score_adj: None,
        cgroup: None,
        caps: Vec::new(),
        limits: Vec::new(),
        storm: number == 2,
    };
    Top {
        interval: interval_s.map(Duration::from_secs),
        processes: (1..40).map(process).collect(),
    }
}

fn any_panels() -> impl Strategy<Value = Panels> {
    let list = prop::option::of(prop::sample::select(vec![Listed::Processes, Listed::Cgroups]));
    let sort = prop::sample::select(vec![Sort::Resident, Sort::Swap, Sort::Faults]);
    (list, any::<bool>(), sort).prop_map(|(list, changes, sort)| {
        let mut panels = Panels::default();
        (panels.list, panels.changes, panels.sort) = (list, changes, sort);
        panels
    })
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9-]{0,15}",
        "[a-z /]{30,90}",
        // Double-width characters, accents and control characters.
        "[a-c\u{4e2d}\u{6587}\u{1f600}\u{301}\u{1b}\u{202e} ]{0,60}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Titles, legends, strips, axes, marks, panels, status lines, key hints and boxes: on a terminal from 40 columns on,
    /// each text stands whole on the screen, or as its beginning and an ellipsis, and nothing overwrites it.
    #[test]
    fn every_text_stands_whole_or_ends_with_an_ellipsis(
        name in any_name(),
        magnitude in prop::sample::select(vec![0.0, 0.4, 99.6, 170.0, 1.2e4, 5.6e9]),
        marks in prop::collection::vec((0_u64..100, 0_u8..6), 0..12),
        width in LEAST.0..230,
        height in LEAST.1..70,
        kind in 0_u8..12,
        cursor in prop::option::of(0_u64..100),
        (panels, row, listed_s) in (any_panels(), 0_usize..60, prop::option::of(0_u64..5000)),
        (unicode, mono, replay, ended) in any::<(bool, bool, bool, bool)>(),
    ) {
        let mut state = state(&name, magnitude, &marks);
        state.status.replay = replay;
        state.status.ended = ended.then(|| name.clone());
        state.cgroups = (magnitude > 0.0).then(|| cgroups(&name, magnitude).into());
        let mut view = if replay { View::of_recording(name.clone()) } else { View::new(name.clone()) };
        view.overlay = overlay(kind, &name);
        view.cursor = cursor.map(|second| second * SECOND);
        state.top = (row < 50).then(|| Arc::new(top(&name, magnitude, listed_s)));
        view.panels = panels;
        super::page::settle(&mut view, Rect::new(0, 0, width, height));
        let listed = view.panels.list;
        let before = snapshot(&state, &mut view, width, height);
        let rows = listed.and_then(|listed| Rows::of(listed, &before));
        view.panels.act(Action::SelectRow(row), rows.as_ref());
        let theme = Theme { depth: if mono { Depth::Mono } else { Depth::True }, light: false, unicode };
        let (buffer, written) = screen(&state, &mut view, theme, (width, height));
        prop_assert!(written.len() > 1);
        for (area, text) in written {
            let room = usize::from(area.width);
            if text.width() <= room {
                let seen = symbols(&buffer, (area.x, area.y), text.width());
                prop_assert_eq!(seen, text, "at {:?}", area);
                continue;
            }
            let seen = symbols(&buffer, (area.x, area.y), room);
            let seen = seen.trim_end();
            let mark = ellipsis(unicode);
            prop_assert!(seen.ends_with(mark), "no ellipsis at {:?}: {:?} of {:?}", area, seen, text);
            let beginning = seen.trim_end_matches(mark);
            prop_assert!(text.starts_with(beginning), "at {:?}: {:?} of {:?}", area, seen, text);
        }
    }
}

/// Text that bypasses `put` can be clipped unnoticed by the test above.
#[test]
fn only_one_function_writes_text() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/watch/terminal");
    let mut writers = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let calls = ["set_string(", "set_stringn(", "set_line(", "set_span("];
        if name != "tests.rs" && calls.iter().any(|call| text.contains(call)) {
            writers.push(name);
        }
    }
    assert_eq!(writers, ["words.rs"]);
}

/// A long text, wrapped to more rows than the box has, can be read to its end.
#[test]
fn the_last_row_of_a_wrapped_text_can_be_reached() {
    let state = state("redis", 1.0, &[]);
    let mut view = View::new("");
    let lines = (0..20).map(|line| format!("{}{line} ends", "word ".repeat(30)));
    view.overlay = Some(Overlay::Text("messages".to_owned(), lines.collect(), 0));
    let area = Rect::new(0, 0, 60, 20);
    view.rows_of_text = super::boxes::rows_inside(area);
    view.columns_of_text = super::boxes::columns_inside(area);
    let before = snapshot(&state, &mut view, 60, 20);
    for _ in 0..200 {
        view.act(Action::Down, &before);
    }
    let theme = Theme {
        depth: Depth::True,
        light: false,
        unicode: true,
    };
    let (_, written) = screen(&state, &mut view, theme, (60, 20));
    assert!(
        written.iter().any(|(_, text)| text.ends_with("19 ends")),
        "{written:?}"
    );
    view.act(Action::Up, &before);
    let (_, written) = screen(&state, &mut view, theme, (60, 20));
    assert!(
        !written.iter().any(|(_, text)| text.ends_with("19 ends")),
        "one step back is visible at once"
    );
}

fn theme() -> Theme {
    Theme {
        depth: Depth::True,
        light: false,
        unicode: true,
    }
}

/// A recording of `seconds`, sampled `hz` times a second.
fn recording(seconds: u64, hz: u64) -> State {
    let mut state = State::new(Facts {
        hz: hz as u32,
        ..state("redis", 1.0, &[]).facts
    });
    for tick in 0..=seconds * hz {
        let mut frame = Frame::empty(3 * SECOND + tick * SECOND / hz);
        frame.layers = Some([1 << 30; 10]);
        state.history.push(frame);
    }
    state.status.replay = true;
    state.status.ended = Some("the recording has ended".to_owned());
    state
}

/// A replay of three seconds was a few columns wide, one of a night showed its last minute.
#[test]
fn a_recording_of_any_length_fills_the_chart_at_first() {
    let lengths = [
        (3, 10),
        (10, 100),
        (30, 10),
        (101, 10),
        (100, 1),
        (3_600, 10),
        (32_000, 2),
    ];
    for (seconds, hz) in lengths {
        let state = recording(seconds, hz);
        for width in [40, 80, 120, 200] {
            let mut view = View::of_recording("");
            let shown = snapshot(&state, &mut view, width, 24);
            let filled = shown.columns.iter().filter(|column| column.is_some()).count();
            let columns = shown.columns.len();
            assert!(
                filled + 1 >= columns,
                "{filled} of {columns} columns for {seconds} s at {hz} Hz"
            );
            let (oldest, newest) = shown.span.unwrap();
            assert!(shown.column_of(oldest).is_some() && shown.column_of(newest).is_some());
        }
    }
}

#[test]
fn zoom_keys_go_on_from_the_whole_recording_and_a_key_leads_back() {
    let state = recording(101, 10);
    let mut view = View::of_recording("");
    let mut column_ns = |action: Option<Action>| {
        let before = snapshot(&state, &mut view, 80, 24);
        if let Some(action) = action {
            assert_eq!(view.act(action, &before), None);
        }
        snapshot(&state, &mut view, 80, 24).column_ns
    };
    let whole = column_ns(None);
    assert!((2 * SECOND..3 * SECOND).contains(&whole), "{whole}");
    assert_eq!(column_ns(Some(Action::ZoomIn)), 2 * SECOND);
    assert_eq!(column_ns(Some(Action::ZoomIn)), SECOND);
    assert_eq!(column_ns(Some(Action::Whole)), whole);
    assert_eq!(column_ns(Some(Action::ZoomOut)), 5 * SECOND);
}

/// A sample stands for its tick, not for the next one: more columns than ticks make no sample out of a missing one.
#[test]
fn a_missed_tick_of_a_short_recording_is_a_gap() {
    let mut state = recording(0, 10);
    for tick in (1..30).filter(|tick| !(10..13).contains(tick)) {
        let mut frame = Frame::empty(3 * SECOND + tick * SECOND / 10);
        frame.layers = Some([1 << 30; 10]);
        state.history.push(frame);
    }
    let mut view = View::of_recording("");
    let shown = snapshot(&state, &mut view, 200, 24);
    let column = |ms: u64| shown.column_of(3 * SECOND + ms * 1_000_000).unwrap();
    assert!(shown.columns[column(930)].is_some());
    assert!((column(1_100)..column(1_290)).all(|column| shown.columns[column].is_none()));
    assert!(shown.columns[column(1_310)].is_some());
}

/// The row of the screen below the chart that has the times, and that with the marks.
fn axis_and_marks(state: &State, view: &mut View, width: u16) -> (String, String) {
    let (buffer, _) = screen(state, view, theme(), (width, 24));
    let layout = super::layout::Layout::of(Rect::new(0, 0, width, 24)).unwrap();
    let row = |area: Rect| {
        (area.x..area.right())
            .map(|x| buffer[(x, area.y)].symbol())
            .collect()
    };
    (row(layout.axis), row(layout.marks))
}

#[test]
fn marks_and_the_cursor_leave_the_times_of_the_axis_alone() {
    let marks: Vec<(u64, u8)> = (0..100).map(|second| (second, (second % 5) as u8)).collect();
    for width in [40, 60, 80, 120, 200] {
        let bare = axis_and_marks(&state("fill", 1.0, &[]), &mut View::new(""), width);
        let mut view = View::new("");
        view.anchor = Some(99 * SECOND + SECOND / 2);
        view.cursor = Some(95 * SECOND);
        let marked = axis_and_marks(&state("fill", 1.0, &marks), &mut view, width);
        assert!(
            (bare.0.contains("-10s") || bare.0.contains("-20s")) && bare.0.ends_with("now"),
            "{}",
            bare.0
        );
        assert_eq!(bare.0, marked.0);
        assert_eq!(bare.1.trim(), "");
    }
}

#[test]
fn each_label_of_a_mark_has_its_own_cells() {
    let marks = [(50, 0), (56, 2), (70, 1), (70, 4), (71, 2), (98, 0)];
    let state = state("restore", 1.0, &marks);
    let mut view = View::new("");
    view.cursor = Some(62 * SECOND);
    view.anchor = Some(100 * SECOND);
    let (_, marks) = axis_and_marks(&state, &mut view, 120);
    // The label of 70 s has no room before the mark of 71 s; it has two marks, of which the note comes first.
    let seen = "1 re\u{2026} T re\u{2026} \u{25b2}       mT restore                  1";
    assert_eq!(marks.trim(), seen, "{marks:?}");
}

/// A stack of pagers takes its rows from the chart, and is there only with a pager.
#[test]
fn the_states_of_pagers_are_stacked_if_there_is_room() {
    let mut with = state("sort", 0.0, &[]);
    for tick in 1000..2000 {
        let mut frame = Frame::empty(tick * SECOND / 10);
        frame.layers = Some([0, 0, 0, 0, 0, 0, 0, 0, 24 << 30, 0]);
        for (index, mib) in [
            (gauge::PAGER_ACTIVE, 40),
            (gauge::PAGER_MODIFIED, 10),
            (gauge::PAGER_STANDBY, 10),
            (gauge::PAGER_STANDBY_LOW, 10),
            (gauge::PAGER_COMPRESSED, 40),
            (gauge::PAGER_PAGE_FILE, 10),
            (gauge::PAGER_METADATA, 0),
        ] {
            frame.set_gauge(index, f64::from(mib << 20));
        }
        with.history.push(frame);
    }
    let rows = |state: &State, size: (u16, u16), theme: Theme| -> Vec<String> {
        let mut view = View::new("");
        view.anchor = Some(199 * SECOND);
        let (buffer, _) = screen(state, &mut view, theme, size);
        (0..size.1)
            .map(|y| symbols(&buffer, (0, y), usize::from(size.0)))
            .collect()
    };
    let mono = Theme {
        depth: Depth::Mono,
        ..theme()
    };
    let large = rows(&with, (120, 50), mono);
    let from = large
        .iter()
        .position(|row| row.contains("120M"))
        .expect("the sum of the stack");
    let stack = &large[from..from + 3];
    assert!(stack[2].starts_with("pager"), "{stack:#?}");
    for (row, letter) in stack.iter().zip(["z", "m", "a"]) {
        let drawn = row.chars().skip(6).take(60).collect::<String>();
        assert!(drawn.contains(&letter.repeat(20)), "{letter}: {stack:#?}");
    }
    let legend = stack.concat();
    for entry in [
        "a act   40.0M",
        "m mod   10.0M",
        "s stby  10.0M",
        "l low   10.0M",
        "z zip   40.0M",
        "f file  10.0M",
    ] {
        assert!(legend.contains(entry), "{entry}: {stack:#?}");
    }
    // Lines in place of a stack on a low screen; neither without a pager.
    let low = rows(&with, (120, 24), mono).concat();
    assert!(!low.contains("pager"), "{low}");
    let mut without = state("sort", 0.0, &[]);
    without.history = crate::watch::history::History::new(SECOND / 10);
    let mut frame = Frame::empty(SECOND);
    frame.layers = with.history.latest().and_then(|latest| latest.layers);
    without.history.push(frame);
    assert!(!rows(&without, (120, 50), mono).concat().contains("pager"));
}
