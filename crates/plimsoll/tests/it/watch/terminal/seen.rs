//! A machine that never was: 24 GiB, a target that grows and is trimmed, swap, marks and a gap.

use plimsoll_monitor::watch::terminal::{Depth, Snapshot, Theme, View, columns_in, draw};
use plimsoll_monitor::watch::{Facts, Level, Mark, MarkKind, State, TargetState};
use plimsoll_report::analysis::frame::{Frame, Machine};
use plimsoll_report::analysis::gauges::gauge;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

const MIB: i64 = 1 << 20;
pub(super) const SECOND: u64 = 1_000_000_000;

pub(super) fn facts() -> Facts {
    Facts {
        hostname: "ship".to_owned(),
        kernel: "6.18.0".to_owned(),
        machine: Machine {
            page_size: 4096,
            cpus: 2,
        },
        mem_total: 24 << 30,
        started: "2026-01-01T00:00:00Z".to_owned(),
        hz: 10,
    }
}

/// The screen at a time, in tenths of a second.
fn frame(tick: u64, with_target: bool, with_swap: bool) -> Frame {
    let mut frame = Frame::empty(tick * SECOND / 10);
    let second = (tick / 10) as i64;
    let trimmed = second >= 70;
    let target = match (with_target, trimmed) {
        (false, _) => 0,
        (true, false) => (second * 120).min(6000) * MIB,
        (true, true) => 900 * MIB,
    };
    let compressed = if trimmed && with_swap { 1228 * MIB } else { 0 };
    let cache = (5000 + second * 7) * MIB;
    let mut layers = [
        700 * MIB,
        target,
        2100 * MIB,
        compressed,
        60 * MIB,
        130 * MIB,
        cache,
        350 * MIB,
        0,
        90 * MIB,
    ];
    layers[8] = (24 << 30) - layers.iter().sum::<i64>();
    frame.layers = Some(layers);
    let mut set = |index, value| frame.set_gauge(index, value);
    if with_target {
        set(gauge::TARGET_RESIDENT, target as f64 + 5e6);
        set(
            gauge::TARGET_SWAP,
            if trimmed { 4000.0 * MIB as f64 } else { 0.0 },
        );
        set(gauge::TARGET_MINOR, 1200.0);
        set(gauge::TARGET_MAJOR, if trimmed { 30.0 } else { 0.0 });
        set(gauge::TARGET_CPU, 0.87);
        set(gauge::TARGET_PROCESSES, 2.0);
    }
    if with_swap {
        set(gauge::SWAP_TOTAL, 8192.0 * MIB as f64);
        set(gauge::SWAP0, if trimmed { 4000.0 * MIB as f64 } else { 0.0 });
        set(gauge::SWAP1, if trimmed { 900.0 * MIB as f64 } else { 0.0 });
        set(
            gauge::COMPRESSED_HOLDS,
            if trimmed { 4000.0 * MIB as f64 } else { 0.0 },
        );
    } else {
        set(gauge::SWAP_TOTAL, 0.0);
    }
    let storm = (70..74).contains(&second);
    set(gauge::SWAP_OUT, if storm { 1.3e9 } else { 0.0 });
    set(gauge::SWAP_IN, if second > 80 { 4.0e6 } else { 0.0 });
    set(gauge::ZERO_FILLED, 0.0);
    set(gauge::DISK_IN, 2.0e5);
    set(gauge::DISK_OUT, 9.0e6);
    set(gauge::MAJOR, 12.0);
    set(gauge::REFAULT, if second > 80 { 1000.0 } else { 0.0 });
    set(gauge::REFAULT_FILE, 3.0);
    set(gauge::MEMORY_SOME, if storm { 18.0 } else { 0.2 });
    set(gauge::MEMORY_FULL, if storm { 7.0 } else { 0.0 });
    set(gauge::IO_SOME, 2.0);
    set(gauge::CPU_SOME, 11.0);
    set(gauge::USER, 30.0 + (second % 7) as f64 * 6.0);
    set(gauge::SYSTEM, 9.0);
    set(gauge::IOWAIT, 1.0);
    set(gauge::SELF_CPU, 0.1);
    set(gauge::LATE, 0.08);
    set(gauge::MISSED, 0.0);
    frame
}

/// 100 seconds; between 40 and 45 nothing was sampled.
pub(super) fn state(with_target: bool, with_swap: bool) -> State {
    let mut state = State::new(facts());
    for tick in (0..1000).filter(|tick| !(400..450).contains(tick)) {
        state.history.push(frame(tick, with_target, with_swap));
    }
    if with_swap {
        state.swap_devices = vec!["/dev/zram0".to_owned(), "/swapfile".to_owned()];
    }
    if with_target {
        state.target = Some(TargetState {
            title: "pid 4242 redis-server".to_owned(),
            pids: vec![4242, 4243],
            ..TargetState::default()
        });
    }
    let marks = [
        (66, MarkKind::Number(1), ""),
        (70, MarkKind::Trim, "trimmed 5.0 GiB"),
        (90, MarkKind::Note, "restore"),
    ];
    for (second, kind, text) in marks {
        state.mark(Mark {
            t_ns: second * SECOND,
            kind,
            text: text.to_owned(),
        });
    }
    state.say(
        70 * SECOND,
        Level::Info,
        "trimmed pid 4242: 5.0 GiB left RAM, 12 MiB came back within a second",
    );
    state
}

pub(super) fn theme(depth: Depth) -> Theme {
    Theme {
        depth,
        light: false,
        unicode: true,
    }
}

/// A snapshot of `view` of `state` on a screen of that size.
pub(super) fn snapshot(state: &State, view: &View, width: u16, height: u16) -> Snapshot {
    let mut snapshot = Snapshot::of(state);
    snapshot.refresh_facts(state, 100 * SECOND);
    if let Some(columns) = columns_in(Rect::new(0, 0, width, height), view) {
        let column_ns = view.column_ns(snapshot.period_ns);
        let first = view.first_column(&snapshot, columns);
        snapshot.show(&state.history, column_ns, first, columns);
    }
    snapshot
}

/// The page as cells.
pub(super) fn page(state: &State, view: &View, theme: Theme, width: u16, height: u16) -> Buffer {
    let snapshot = snapshot(state, view, width, height);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(&mut buffer, &theme, view, &snapshot);
    buffer
}

/// The signs of the cells, a line a row.
pub(super) fn signs(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area().width);
    let rows = buffer.content().chunks(width);
    let rows = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    rows.map(|row| format!("{}\n", row.trim_end())).collect()
}

/// Signs and, after each row, the stretches of cells with a style that is not the plain one.
pub(super) fn signs_and_styles(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area().width);
    let mut text = String::new();
    for row in buffer.content().chunks(width) {
        let signs: String = row.iter().map(|cell| cell.symbol()).collect();
        text += &format!("{}\n", signs.trim_end());
        let mut from = 0;
        while from < row.len() {
            let style = (row[from].fg, row[from].bg, row[from].modifier);
            let length = row[from..]
                .iter()
                .take_while(|cell| (cell.fg, cell.bg, cell.modifier) == style)
                .count();
            if style != (Color::Reset, Color::Reset, Modifier::empty()) {
                text += &format!("    {from}+{length} {} on {} {:?}\n", style.0, style.1, style.2);
            }
            from += length;
        }
    }
    text
}
