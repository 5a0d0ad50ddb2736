//! The panels beside or below the chart: processes, cgroups, changes; and the mouse on them.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_monitor::processes::{CapKind, CgroupListing, CgroupRow, Entry, Rates, RowCap};
use plimsoll_monitor::watch::terminal::{
    Action, Depth, Gesture, Mode, Mouse, Order, Snapshot, Theme, View, columns_in, draw, pointed, settle,
};
use plimsoll_monitor::watch::{State, Top};
use plimsoll_proc::ProcessId;
use plimsoll_report::analysis::frame::Frame;
use plimsoll_report::analysis::gauges::gauge;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::seen::{SECOND, facts, page, signs, snapshot, state, theme};

const MIB: u64 = 1 << 20;

/// A process of that many MiB in RAM and in swap, with that many major faults per second.
fn process(pid: u32, name: &str, wss: u64, swap: Option<u64>, major_per_s: f64) -> Entry {
    Entry {
        identity: ProcessId {
            pid,
            start_ticks: u64::from(pid),
        },
        parent: 1,
        uid: Some(0),
        user: None,
        name: name.to_owned(),
        command: None,
        state: 'S',
        wss: wss * MIB,
        anon: None,
        file: None,
        shmem: None,
        pss: None,
        swap: swap.map(|mib| mib * MIB),
        compressed: None,
        rates: (major_per_s >= 0.0).then(|| Rates {
            minor_per_s: 40.0 * f64::from(pid),
            major_per_s,
            user_percent: 1.5,
            system_percent: 0.25,
        }),
        pager: None,
        cgroup_refaults_per_s: None,
        oom_score: None,
        oom_score_adj: None,
        cgroup: None,
        caps: Vec::new(),
        limits: Vec::new(),
        storm: false,
    }
}

fn cgroup(path: &str, usage: u64, refaults_per_s: Option<f64>) -> CgroupRow {
    let depth = path.trim_end_matches('/').matches('/').count();
    CgroupRow {
        folder: format!("/sys/fs/cgroup{path}").into(),
        path: path.to_owned(),
        name: path
            .rsplit('/')
            .find(|name| !name.is_empty())
            .unwrap_or("/")
            .to_owned(),
        depth,
        usage: Some(usage * MIB),
        swap: Some(usage * MIB / 4),
        caps: vec![
            RowCap {
                kind: CapKind::High,
                bytes: 2 * usage * MIB,
            };
            depth.min(1)
        ],
        refaults_per_s,
        stalled_percent: Some(0.2),
    }
}

/// The cgroups in the order of the tree.
fn cgroups() -> CgroupListing {
    CgroupListing {
        interval_s: 2.0,
        version: "v2",
        mount: "/sys/fs/cgroup".to_owned(),
        complete: true,
        cgroups: vec![
            cgroup("/", 20_000, None),
            cgroup("/system.slice", 700, Some(3.0)),
            cgroup("/system.slice/a-service-with-a-long-name.service", 650, Some(3.0)),
            cgroup("/web", 900, Some(12_000.0)),
        ],
        notes: Vec::new(),
        ..CgroupListing::impossible(String::new())
    }
}

/// Twenty-four processes, one of them the target, one in a fault storm, one new.
fn top() -> Top {
    let mut processes: Vec<Entry> = (0..20)
        .map(|at| {
            process(
                100 + at,
                &format!("worker-{at}"),
                30 - u64::from(at),
                Some(0),
                0.0,
            )
        })
        .collect();
    processes.push(process(4242, "redis-server", 905, Some(4096), 30.0));
    processes.push(process(17, "kswapd-lookalike-with-long-name", 12, None, 1234.0));
    processes.push(process(31, "new", 400, Some(1), -1.0));
    processes.push(Entry {
        storm: true,
        ..process(900, "stormy", 64, Some(70), 900.0)
    });
    Top {
        interval: Some(Duration::from_secs(2)),
        processes,
    }
}

fn listed() -> State {
    let mut state = state(true, true);
    state.top = Some(Arc::new(top()));
    state.cgroups = Some(Arc::new(cgroups()));
    state
}

fn after(state: &State, actions: &[Action], (width, height): (u16, u16)) -> View {
    let mut view = View::new("");
    for &action in actions {
        settle(&mut view, Rect::new(0, 0, width, height));
        let order = view.act(action, &snapshot(state, &view, width, height));
        assert_eq!(order, None, "{action:?}");
    }
    settle(&mut view, Rect::new(0, 0, width, height));
    view
}

fn drawn(state: &State, actions: &[Action], size: (u16, u16)) -> String {
    let view = after(state, actions, size);
    signs(&page(state, &view, theme(Depth::True), size.0, size.1))
}

#[test]
fn panels_are_drawn_below_and_beside_the_chart() {
    let state = listed();
    let processes = [Action::NextList];
    let both = [Action::NextList, Action::Changes];
    let cgroups = [Action::NextList, Action::NextList];
    let pages = [
        ("processes_80x24", &processes[..], (80, 24)),
        ("cgroups_80x24", &cgroups, (80, 24)),
        ("changes_80x24", &[Action::Changes], (80, 24)),
        ("processes_60x22", &processes, (60, 22)),
        ("both_120x40", &both, (120, 40)),
        ("both_200x60", &both, (200, 60)),
    ];
    for (name, actions, size) in pages {
        insta::assert_snapshot!(name, drawn(&state, actions, size));
    }
    let view = after(&state, &both, (120, 40));
    let ascii = Theme {
        unicode: false,
        ..theme(Depth::Mono)
    };
    let letters = page(&state, &view, ascii, 120, 40);
    assert!(signs(&letters).is_ascii());
    assert!(
        letters
            .content()
            .iter()
            .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
    );
    insta::assert_snapshot!("both_120x40_ascii_letters", signs(&letters));
}

/// The first word of each row of a list that begins below this heading.
fn names(page: &str, heading: &str) -> Vec<String> {
    let rows = page.lines().skip_while(|row| !row.contains(heading)).skip(1);
    let names = rows.map(|row| row.trim_start_matches(['!', '\u{2571}', ' ']).split(' ').next());
    names.flatten().map(str::to_owned).collect()
}

#[test]
fn rows_follow_the_chosen_order() {
    let state = listed();
    let mut actions = vec![Action::NextList];
    let mut first = Vec::new();
    for _ in 0..3 {
        first.push(names(&drawn(&state, &actions, (80, 24)), "major/s")[..2].to_vec());
        actions.push(Action::NextSort);
    }
    let expected = [
        ["redis-server", "new"],
        ["redis-server", "stormy"],
        ["kswapd-lookalike-with-long-name", "stormy"],
    ];
    assert_eq!(first, expected);
}

/// The selected process gets a new place in the order, and the list shows it there.
#[test]
fn the_selected_row_stays_selected_and_in_sight() {
    let mut state = listed();
    let size = (80, 24);
    let mut view = after(&state, &[Action::NextList, Action::SelectRow(1)], size);
    let selected = |state: &State, view: &View| {
        let buffer = page(state, view, theme(Depth::True), size.0, size.1);
        let rows = buffer.content().chunks(usize::from(size.0));
        let reversed = rows.filter(|row| row[3].modifier.contains(Modifier::REVERSED));
        let text = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
        reversed.map(text).collect::<Vec<_>>()
    };
    let rows = selected(&state, &view);
    assert!(rows.len() == 1 && rows[0].contains(" 31 "), "{rows:?}");
    // It shrinks to the last place of 24.
    let mut later = top();
    for entry in later
        .processes
        .iter_mut()
        .filter(|entry| entry.identity.pid == 31)
    {
        entry.wss = 0;
    }
    state.top = Some(Arc::new(later));
    let rows = selected(&state, &view);
    assert!(rows.len() == 1 && rows[0].contains(" 31 "), "{rows:?}");
    let order = view.act(Action::WatchRow, &snapshot(&state, &view, size.0, size.1));
    assert_eq!(order, Some(Order::Target(31)));
    // It ends: Enter watches no other process.
    let mut last = top();
    last.processes.retain(|entry| entry.identity.pid != 31);
    state.top = Some(Arc::new(last));
    assert_eq!(selected(&state, &view), Vec::<String>::new());
    let order = view.act(Action::WatchRow, &snapshot(&state, &view, size.0, size.1));
    assert_eq!(order, None);
}

#[test]
fn enter_watches_the_selected_cgroup() {
    let state = listed();
    let size = (120, 40);
    let mut view = after(
        &state,
        &[
            Action::NextList,
            Action::NextList,
            Action::MoveRow(1),
            Action::MoveRow(1),
        ],
        size,
    );
    let order = view.act(Action::WatchRow, &snapshot(&state, &view, size.0, size.1));
    assert_eq!(order, Some(Order::Cgroup("/sys/fs/cgroup/web".into())));
}

/// The list of cgroups is an order over the rows of the tree; that of a target cgroup has the cgroups in it.
#[test]
fn the_list_has_the_cgroups_of_the_tree_and_of_the_target() {
    let mut state = listed();
    let lists = [Action::NextList, Action::NextList];
    let (listed, tree) = (
        drawn(&state, &lists, (80, 24)),
        drawn(&state, &[Action::Cgroups], (80, 24)),
    );
    for row in &cgroups().cgroups {
        let start: String = row.name.chars().take(20).collect();
        assert!(tree.contains(&start), "{tree}");
    }
    assert!(listed.contains("4 cgroups"), "{listed}");
    insta::assert_snapshot!("tree_80x24", tree);
    let target = state.target.as_mut().expect("a target");
    target.cgroup = Some("/sys/fs/cgroup/system.slice".into());
    let inside = drawn(&state, &lists, (80, 24));
    assert!(
        inside.contains("2 cgroups") && !inside.contains("/web"),
        "{inside}"
    );
    // The target has ended: the list is that of the machine again.
    state.target.as_mut().expect("a target").ended = Some("ended".to_owned());
    assert!(drawn(&state, &lists, (80, 24)).contains("4 cgroups"));
    // A machine without memory cgroups: the reason stands in the list.
    let why = "no memory controller";
    state.cgroups = Some(Arc::new(CgroupListing::impossible(why.to_owned())));
    assert!(drawn(&state, &lists, (80, 24)).contains(why));
}

/// The kernel of cgroup v1 counts no stalls of a cgroup: a column of dashes would say nothing.
#[test]
fn a_column_that_the_kernel_cannot_fill_is_left_out() {
    let mut state = listed();
    let actions = [Action::NextList, Action::NextList];
    assert!(drawn(&state, &actions, (120, 40)).contains("stall"));
    let mut older = cgroups();
    older
        .cgroups
        .iter_mut()
        .for_each(|entry| entry.stalled_percent = None);
    state.cgroups = Some(Arc::new(older));
    let page = drawn(&state, &actions, (120, 40));
    let heading = page.lines().find(|row| row.contains("refault/s"));
    assert!(
        heading.is_some_and(|row| !row.contains("stall") && row.contains("limit")),
        "{page}"
    );
}

/// A list is the machine's at one moment: a recording has none.
#[test]
fn a_replay_has_changes_and_no_list() {
    let mut state = state(true, true);
    state.status.replay = true;
    insta::assert_snapshot!("replay_80x24", drawn(&state, &[Action::NextList], (80, 24)));
    let page = drawn(&state, &[Action::Changes], (80, 24));
    assert!(page.contains("swap used"), "{page}");
    let mut view = after(&state, &[Action::NextList], (80, 24));
    for action in [Action::MoveRow(1), Action::WatchRow, Action::SelectRow(0)] {
        assert_eq!(view.act(action, &snapshot(&state, &view, 80, 24)), None);
    }
}

/// On a machine with many processes the list comes seldom, and says so. Beside an earlier time it says that it is of
/// the present.
#[test]
fn the_heading_states_a_slow_pace_and_the_present() {
    let mut state = listed();
    let page = drawn(&state, &[Action::NextList], (120, 40));
    assert!(!page.contains("every ") && !page.contains(", now"), "{page}");
    state.top = Some(Arc::new(Top {
        interval: Some(Duration::from_secs(41)),
        ..top()
    }));
    let page = drawn(&state, &[Action::NextList, Action::CursorTo(9)], (120, 40));
    assert!(page.contains("process 1-12 of 24, now, every 41s"), "{page}");
    let page = drawn(&state, &[Action::NextList, Action::Freeze], (120, 40));
    assert!(
        !page.contains(", now"),
        "a frozen list is not of the present: {page}"
    );
}

#[test]
fn a_small_terminal_says_that_a_panel_does_not_fit() {
    let state = listed();
    let size = (60, 21);
    let page = drawn(&state, &[Action::NextList], size);
    assert!(!page.contains("major/s") && page.contains("40x22"), "{page}");
}

/// The page with the changes at 80x24, at the time of the newest frame of a state.
fn changes_of(state: &State) -> String {
    let area = Rect::new(0, 0, 80, 24);
    let mut view = View::new("");
    let newest = state.history.latest().map_or(0, |frame| frame.t_ns);
    let mut snapshot = Snapshot::of(state);
    snapshot.refresh_facts(state, newest);
    view.act(Action::Changes, &snapshot);
    let columns = columns_in(area, &view).expect("it fits");
    let column_ns = view.column_ns(snapshot.period_ns);
    let first = view.first_column(&snapshot, columns);
    snapshot.show(&state.history, column_ns, first, columns);
    let mut buffer = Buffer::empty(area);
    draw(&mut buffer, &theme(Depth::True), &view, &snapshot);
    signs(&buffer)
}

/// Soon after the start most columns have no samples: the bars begin with the first one.
#[test]
fn the_bars_of_the_changes_begin_with_the_first_sample() {
    let whole = state(false, true);
    let mut state = State::new(facts());
    for frame in whole.history.after(0).take(39) {
        state.history.push(*frame);
    }
    let page = changes_of(&state);
    let row = page
        .lines()
        .find(|row| row.starts_with("  page cache") && row.contains('+'));
    let bars: String = row.expect("a row").chars().skip(24).take(15).collect();
    assert_eq!(bars.trim_end().chars().count(), 4, "{page}");
    assert!(!bars.starts_with(' ') && page.contains("changes, 4s"), "{page}");
}

/// 24 GiB of RAM of which nothing moves except 10 MiB of the page cache: the stack shows no step, the changes do.
#[test]
fn a_change_of_10_mib_shows_beside_24_gib() {
    const MIB: i64 = 1 << 20;
    let mut state = State::new(facts());
    for tick in 0..400_u64 {
        let mut frame = Frame::empty(tick * SECOND / 10);
        let cache = 5000 * MIB + if tick < 200 { 0 } else { 10 * MIB };
        let mut layers = [700 * MIB, 0, 9000 * MIB, 0, 0, 0, cache, 350 * MIB, 0, 90 * MIB];
        layers[8] = (24 << 30) - layers.iter().sum::<i64>();
        frame.layers = Some(layers);
        frame.set_gauge(gauge::SWAP_TOTAL, 0.0);
        frame.set_gauge(gauge::SWAP_OUT, if tick == 250 { 2.0 * MIB as f64 } else { 0.0 });
        state.history.push(frame);
    }
    let page = changes_of(&state);
    let rows: Vec<&str> = page.lines().skip_while(|row| !row.contains("change")).collect();
    let cells = |text: &str| text.chars().take(38).collect::<String>();
    let moved: Vec<String> = rows[1..3].iter().map(|row| cells(row)).collect();
    assert!(
        moved[0].contains("page cache") && moved[0].contains("+10.0M"),
        "{page}"
    );
    assert!(moved[1].contains("free") && moved[1].contains("-10.0M"), "{page}");
    let bars = |row: &str| (row.contains('\u{2581}'), row.contains('\u{2588}'));
    assert_eq!(
        bars(&moved[0]),
        (true, true),
        "from the foot to the top of the row: {page}"
    );
    // One tick of 2 MiB a second is 0.2 MiB.
    let out = rows.iter().find(|row| row.contains("swap out")).expect("a flow");
    assert!(out.contains(" 205K"), "{out}");
}

#[test]
fn hostile_names_in_a_list_do_not_act() {
    let mut state = listed();
    let evil = "a\u{1b}[2J\u{9b}31m\r\n\u{202e}live\u{200b}\u{301}\u{4e2d}\u{6587}";
    let mut top = top();
    top.processes
        .iter_mut()
        .for_each(|entry| entry.name = evil.to_owned());
    let mut cgroups = cgroups();
    for row in &mut cgroups.cgroups {
        (row.name, row.path) = (evil.repeat(3), evil.repeat(9));
    }
    state.cgroups = Some(Arc::new(cgroups));
    top.processes.truncate(3);
    state.top = Some(Arc::new(top));
    for lists in [1, 2] {
        for (width, height) in [(60, 22), (80, 24), (120, 40), (200, 60)] {
            let view = after(&state, &vec![Action::NextList; lists], (width, height));
            let buffer = page(&state, &view, theme(Depth::True), width, height);
            for cell in buffer.content() {
                let harmless = |sign: char| !sign.is_control() && !"\u{200b}\u{202e}\u{301}".contains(sign);
                assert!(cell.symbol().chars().all(harmless), "{:?}", cell.symbol());
            }
        }
    }
}

/// Column and row of the first cell of `text` on a page.
fn place_of(page: &str, text: &str) -> (u16, u16) {
    let (row, line) = page
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains(text))
        .unwrap_or_else(|| panic!("{text} is there: {page}"));
    let column = line.split(text).next().map_or(0, |before| before.chars().count());
    (column as u16, row as u16)
}

/// A user with a mouse on a screen of 120x40.
struct Hand {
    state: State,
    view: View,
}

impl Hand {
    const AREA: Rect = Rect::new(0, 0, 120, 40);

    fn page(&self) -> String {
        signs(&page(&self.state, &self.view, theme(Depth::True), 120, 40))
    }

    fn does(&mut self, gesture: Gesture, (column, row): (u16, u16)) -> Option<Order> {
        settle(&mut self.view, Self::AREA);
        let snapshot = snapshot(&self.state, &self.view, 120, 40);
        let mouse = Mouse { gesture, column, row };
        let action = pointed(mouse, Self::AREA, &self.view, &snapshot)?;
        self.view.act(action, &snapshot)
    }
}

#[test]
fn a_click_selects_a_row_and_another_one_watches_it() {
    let state = listed();
    let view = after(&state, &[Action::NextList], (120, 40));
    let mut hand = Hand { state, view };
    let heading = place_of(&hand.page(), "major/s");
    assert_eq!(hand.does(Gesture::Press, heading), None);
    let page = hand.page();
    assert_eq!(
        names(&page, "major/s")[..2],
        ["kswapd-lookalike-with-long-name", "stormy"]
    );
    let stormy = place_of(&page, "stormy");
    assert_eq!(hand.does(Gesture::Press, stormy), None, "the first click selects");
    assert_eq!(hand.page(), page, "and moves no row");
    assert_eq!(hand.does(Gesture::Drag, stormy), None);
    assert_eq!(hand.does(Gesture::Press, stormy), Some(Order::Target(900)));
    for _ in 0..30 {
        hand.does(Gesture::WheelDown, stormy);
    }
    assert!(hand.page().contains(" of 24"), "{}", hand.page());
    assert!(!hand.page().contains("stormy"), "the wheel scrolls");
    // Below the list there is nothing to click.
    assert_eq!(hand.does(Gesture::Press, (3, 39)), None);
}

#[test]
fn a_click_in_the_charts_moves_the_cursor_and_the_wheel_zooms() {
    let state = listed();
    let mut hand = Hand {
        state,
        view: View::new(""),
    };
    let before = hand.page();
    let right = place_of(&before, "now");
    // Ten columns of a second left of the newest one, in the middle of the chart, then on a strip.
    for at in [
        (right.0 + 2 - 10, 5),
        (right.0 + 2 - 20, place_of(&before, "swap in").1),
    ] {
        hand.does(Gesture::Press, at);
        assert_eq!(
            place_of(&hand.page(), "\u{25b2}"),
            (at.0, right.1 + 1),
            "{}",
            hand.page()
        );
    }
    // A click on a mark moves the cursor to it, and the status line has its text.
    let mark = place_of(&hand.page(), "T tr");
    hand.does(Gesture::Press, mark);
    assert!(hand.page().contains("ago: T trimmed"), "{}", hand.page());
    let period = |hand: &Hand| hand.view.column_ns(SECOND / 10);
    hand.does(Gesture::WheelUp, (20, 5));
    assert_eq!(period(&hand), SECOND / 2);
    hand.does(Gesture::WheelDown, (20, 5));
    hand.does(Gesture::WheelDown, (20, 5));
    assert_eq!(period(&hand), 2 * SECOND);
    // On the header, the legend and the keys nothing happens.
    let page = hand.page();
    for at in [(3, 0), (115, 5), (3, 39), (500, 500)] {
        for gesture in [
            Gesture::Press,
            Gesture::Drag,
            Gesture::WheelUp,
            Gesture::WheelLeft,
        ] {
            assert_eq!(hand.does(gesture, at), None);
        }
    }
    assert_eq!(hand.page(), page);
}

#[test]
fn the_mouse_answers_no_question() {
    let state = listed();
    let view = after(&state, &[Action::Trim], (120, 40));
    let mut hand = Hand { state, view };
    for gesture in [
        Gesture::Press,
        Gesture::Drag,
        Gesture::WheelUp,
        Gesture::WheelDown,
    ] {
        for row in 0..40 {
            assert_eq!(hand.does(gesture, (60, row)), None);
        }
    }
    assert_eq!(hand.view.mode(), Mode::Asking);
}
