//! The page as it is drawn, cell by cell.

use plimsoll_monitor::watch::terminal::{Action, Colours, Depth, Overlay, Picker, Theme, View};
use plimsoll_monitor::watch::{Candidate, State, TargetState};
use proptest::prelude::*;
use ratatui::style::Color;

use super::seen::{SECOND, page, signs, signs_and_styles, snapshot, state, theme};

fn view() -> View {
    View::new("http://127.0.0.1:8080/?token=abc")
}

/// A view after some actions on a screen of 80x24.
fn after(state: &State, actions: &[Action]) -> View {
    let mut view = view();
    for &action in actions {
        let order = view.act(action, &snapshot(state, &view, 80, 24));
        assert_eq!(order, None, "{action:?} is a matter of the view");
    }
    view
}

#[test]
fn the_page_is_drawn_at_80x24_and_200x60() {
    let state = state(true, true);
    insta::assert_snapshot!(
        "page_80x24",
        signs(&page(&state, &view(), theme(Depth::True), 80, 24))
    );
    insta::assert_snapshot!(
        "page_200x60",
        signs(&page(&state, &view(), theme(Depth::True), 200, 60))
    );
}

#[test]
fn the_page_is_drawn_in_every_depth_of_colour() {
    let state = state(true, true);
    for (name, depth) in [
        ("true", Depth::True),
        ("indexed", Depth::Indexed),
        ("sixteen", Depth::Sixteen),
    ] {
        let cells = signs_and_styles(&page(&state, &view(), theme(depth), 80, 24));
        insta::assert_snapshot!(format!("page_80x24_{name}_colours"), cells);
    }
    let mono = page(&state, &view(), theme(Depth::Mono), 80, 24);
    assert!(
        mono.content()
            .iter()
            .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset),
        "no colour without colours"
    );
    insta::assert_snapshot!("page_80x24_letters", signs(&mono));
}

#[test]
fn without_unicode_every_cell_is_ascii() {
    for depth in [Depth::Mono, Depth::Sixteen] {
        let ascii = Theme {
            unicode: false,
            ..theme(depth)
        };
        let mut state = state(true, true);
        state.swap_devices[0] = "/dev/zr\u{e4}m".to_owned();
        for overlay in [None, Some(Overlay::Help(0))] {
            let mut view = view();
            if overlay.is_some() {
                view.act(Action::Help, &snapshot(&state, &view, 80, 24));
            }
            let drawn = signs(&page(&state, &view, ascii, 80, 24));
            assert!(drawn.is_ascii(), "{drawn}");
        }
        insta::assert_snapshot!(
            format!("page_80x24_ascii_{depth:?}"),
            signs(&page(&state, &view(), ascii, 80, 24))
        );
    }
}

#[test]
fn without_target_and_swap_the_page_says_so() {
    let drawn = signs(&page(&state(false, false), &view(), theme(Depth::True), 80, 24));
    assert!(
        drawn.contains("no swap") && drawn.contains("all processes"),
        "{drawn}"
    );
    insta::assert_snapshot!("page_without_target_and_swap", drawn);
}

#[test]
fn shares_and_boxes_are_drawn() {
    let state = state(true, true);
    let drawn =
        |actions: &[Action]| signs(&page(&state, &after(&state, actions), theme(Depth::True), 80, 24));
    insta::assert_snapshot!("share", drawn(&[Action::Share]));
    insta::assert_snapshot!("help", drawn(&[Action::Help]));
    insta::assert_snapshot!("question", drawn(&[Action::Trim]));
    let typed: Vec<Action> = std::iter::once(Action::Note)
        .chain("half way".chars().map(Action::Type))
        .collect();
    insta::assert_snapshot!("prompt", drawn(&typed));
    insta::assert_snapshot!(
        "cursor_on_a_mark",
        drawn(&[Action::PreviousMark, Action::PreviousMark])
    );
}

#[test]
fn the_list_of_targets_is_narrowed_by_typing() {
    let candidate = |pid, name: &str| Candidate {
        pid,
        name: name.to_owned(),
        resident: u64::from(pid) << 20,
        swap: 0,
    };
    let candidates = vec![
        candidate(4242, "redis-server"),
        candidate(999, "postgres"),
        candidate(17, "sh\u{1b}[2Jell"),
    ];
    let state = state(true, true);
    let mut view = view();
    view.open_picker(Picker::new(candidates));
    let drawn = signs(&page(&state, &view, theme(Depth::True), 80, 24));
    insta::assert_snapshot!("picker", drawn);
    for letter in "post".chars() {
        view.act(Action::Type(letter), &snapshot(&state, &view, 80, 24));
    }
    let drawn = signs(&page(&state, &view, theme(Depth::True), 80, 24));
    assert!(
        drawn.contains("postgres") && !drawn.contains("4242  redis-server"),
        "{drawn}"
    );
    let order = view.act(Action::Confirm, &snapshot(&state, &view, 80, 24));
    assert_eq!(order, Some(plimsoll_monitor::watch::terminal::Order::Target(999)));
}

/// A missing sample is an empty column from top to bottom of the chart, and its neighbours are not.
#[test]
fn missed_samples_are_a_gap() {
    let state = state(true, true);
    let buffer = page(&state, &view(), theme(Depth::True), 200, 60);
    let snapshot = snapshot(&state, &view(), 200, 60);
    for second in 0..100 {
        let column = snapshot
            .column_of(second * SECOND)
            .expect("100 columns are visible") as u16;
        let filled = (1..20).any(|y| buffer[(6 + column, y)].bg != Color::Reset);
        assert_eq!(filled, !(40..45).contains(&second), "second {second}");
    }
}

#[test]
fn hostile_names_do_not_act() {
    let mut state = state(true, true);
    let evil = "a\u{1b}[2J\u{9b}31m\r\n\u{202e}live\u{200b}\u{301}\u{4e2d}\u{6587}";
    state.target = Some(TargetState {
        title: evil.to_owned(),
        error: Some(evil.to_owned()),
        ..TargetState::default()
    });
    state.swap_devices = vec![evil.to_owned(); 2];
    state.status.busy = Some(evil.to_owned());
    for depth in [Depth::True, Depth::Mono] {
        for (width, height) in [(80, 24), (200, 60)] {
            let buffer = page(&state, &view(), theme(depth), width, height);
            for cell in buffer.content() {
                let harmless = |sign: char| !sign.is_control() && !"\u{200b}\u{202e}\u{301}".contains(sign);
                assert!(cell.symbol().chars().all(harmless), "{:?}", cell.symbol());
            }
        }
    }
}

#[test]
fn a_small_terminal_gets_a_message() {
    for (width, height) in [(39, 24), (80, 15), (20, 3), (1, 1)] {
        let drawn = signs(&page(
            &state(true, true),
            &view(),
            theme(Depth::True),
            width,
            height,
        ));
        let text: String = drawn.replace('\n', "");
        assert!(
            "terminal too small".starts_with(&text[..text.len().min(9)]),
            "{drawn}"
        );
    }
    let drawn = signs(&page(&state(true, true), &view(), theme(Depth::True), 60, 16));
    insta::assert_snapshot!("page_60x16", drawn);
    let drawn = signs(&page(&state(true, true), &view(), theme(Depth::True), 40, 16));
    insta::assert_snapshot!("page_40x16", drawn);
}

#[test]
fn colours_follow_the_environment() {
    let theme = |colours, variables: &[(&str, &str)]| {
        Theme::of_environment(colours, |name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    };
    let depth = |variables: &[(&str, &str)]| theme(Colours::Auto, variables).depth;
    assert_eq!(
        depth(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]),
        Depth::True
    );
    assert_eq!(
        depth(&[("TERM", "xterm-256color"), ("COLORTERM", "24bit")]),
        Depth::True
    );
    assert_eq!(depth(&[("TERM", "screen-256color")]), Depth::Indexed);
    assert_eq!(depth(&[("TERM", "linux")]), Depth::Sixteen);
    assert_eq!(depth(&[("TERM", "vt220")]), Depth::Mono);
    assert_eq!(depth(&[("TERM", "xterm"), ("NO_COLOR", "1")]), Depth::Mono);
    assert_eq!(depth(&[("TERM", "xterm"), ("NO_COLOR", "")]), Depth::Sixteen);
    let always = theme(Colours::Always, &[("TERM", "xterm"), ("NO_COLOR", "1")]);
    assert_eq!(always.depth, Depth::Sixteen);
    assert_eq!(
        theme(Colours::Never, &[("COLORTERM", "truecolor")]).depth,
        Depth::Mono
    );
    assert!(theme(Colours::Auto, &[("LC_ALL", "de_DE.UTF-8")]).unicode);
    assert!(theme(Colours::Auto, &[("LC_ALL", ""), ("LANG", "C.utf8")]).unicode);
    assert!(!theme(Colours::Auto, &[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]).unicode);
    assert!(theme(Colours::Auto, &[("COLORFGBG", "0;15")]).light);
    assert!(!theme(Colours::Auto, &[("COLORFGBG", "15;0")]).light);
}

fn any_action() -> impl Strategy<Value = Action> {
    prop::sample::select(vec![
        Action::ZoomIn,
        Action::ZoomOut,
        Action::Back,
        Action::Forward,
        Action::PageBack,
        Action::PageForward,
        Action::Oldest,
        Action::Newest,
        Action::Freeze,
        Action::CursorBack,
        Action::CursorForward,
        Action::PreviousMark,
        Action::NextMark,
        Action::Share,
        Action::Help,
        Action::Note,
        Action::Type('x'),
        Action::Erase,
        Action::Trim,
        Action::Close,
        Action::Down,
        Action::Up,
        Action::NextList,
        Action::Changes,
        Action::NextSort,
        Action::MoveRow(1),
        Action::CursorTo(7),
        Action::Mouse,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// After any keys on a screen of any size, the page is drawn, and a snapshot that was carried along shows the
    /// same cells as one that is new.
    #[test]
    fn any_keys_on_any_size_draw_like_a_new_snapshot(
        actions in prop::collection::vec(any_action(), 0..24),
        width in 1_u16..220,
        height in 1_u16..70,
        depth in prop::sample::select(vec![Depth::True, Depth::Sixteen, Depth::Mono]),
    ) {
        let state = state(true, true);
        let mut view = view();
        let mut carried = snapshot(&state, &view, width, height);
        let area = ratatui::layout::Rect::new(0, 0, width, height);
        for action in actions {
            view.act(action, &carried);
            if let Some(columns) = plimsoll_monitor::watch::terminal::columns_in(area, &view) {
                let column_ns = view.column_ns(carried.period_ns);
                let first = view.first_column(&carried, columns);
                carried.show(&state.history, column_ns, first, columns);
            }
        }
        let mut buffer = ratatui::buffer::Buffer::empty(area);
        plimsoll_monitor::watch::terminal::draw(&mut buffer, &theme(depth), &view, &carried);
        prop_assert_eq!(signs(&buffer), signs(&page(&state, &view, theme(depth), width, height)));
    }
}
