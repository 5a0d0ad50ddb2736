//! Text on screens of any size: whole, or with an ellipsis at its end.

use std::cell::RefCell;

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use super::{Depth, LEAST, Order, Overlay, Picker, Purpose, Snapshot, Theme, View, columns_in, draw};
use crate::cells::ellipsis;
use crate::watch::{Candidate, Facts, Level, Mark, MarkKind, State, TargetState};
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
        ended: (name.len() % 3 == 0).then(|| name.to_owned()),
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
    if let Some(columns) = columns_in(Rect::new(0, 0, width, height)) {
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

/// The signs of `width` cells from a place on.
fn signs(buffer: &Buffer, (x, y): (u16, u16), width: usize) -> String {
    let mut text = String::new();
    let mut x = x;
    while text.width() < width && x < buffer.area().right() {
        let sign = buffer[(x, y)].symbol();
        text += sign;
        x += (sign.width() as u16).max(1);
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
                .push_str(if name.len() % 2 == 0 { "" } else { name });
            Overlay::Picker(picker)
        }
        _ => return None,
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
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Titles, legends, strips, axes, marks, status lines, key hints and boxes: on a terminal from 40 columns on, each
    /// text stands whole on the screen, or as its beginning and an ellipsis, and nothing overwrites it.
    #[test]
    fn every_text_stands_whole_or_ends_with_an_ellipsis(
        name in any_name(),
        magnitude in prop::sample::select(vec![0.0, 0.4, 99.6, 170.0, 1.2e4, 5.6e9]),
        marks in prop::collection::vec((0_u64..100, 0_u8..6), 0..12),
        width in LEAST.0..230,
        height in LEAST.1..70,
        kind in 0_u8..12,
        cursor in prop::option::of(0_u64..100),
        (unicode, mono, replay, ended) in any::<(bool, bool, bool, bool)>(),
    ) {
        let mut state = state(&name, magnitude, &marks);
        state.status.replay = replay;
        state.status.ended = ended.then(|| name.clone());
        let mut view = if replay { View::of_recording(name.clone()) } else { View::new(name.clone()) };
        view.overlay = overlay(kind, &name);
        view.cursor = cursor.map(|second| second * SECOND);
        let theme = Theme { depth: if mono { Depth::Mono } else { Depth::True }, light: false, unicode };
        let (buffer, written) = screen(&state, &mut view, theme, (width, height));
        prop_assert!(written.len() > 1);
        for (area, text) in written {
            let room = usize::from(area.width);
            if text.width() <= room {
                let seen = signs(&buffer, (area.x, area.y), text.width());
                prop_assert_eq!(seen, text, "at {:?}", area);
                continue;
            }
            let seen = signs(&buffer, (area.x, area.y), room);
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
    view.rows_of_text = super::overlay::rows_inside(area);
    view.columns_of_text = super::overlay::columns_inside(area);
    let before = snapshot(&state, &mut view, 60, 20);
    for _ in 0..200 {
        view.act(super::Action::Down, &before);
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
    view.act(super::Action::Up, &before);
    let (_, written) = screen(&state, &mut view, theme, (60, 20));
    assert!(
        !written.iter().any(|(_, text)| text.ends_with("19 ends")),
        "one step back is visible at once"
    );
}
