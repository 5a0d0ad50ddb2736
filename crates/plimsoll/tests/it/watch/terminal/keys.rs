//! Bytes to keys, keys to actions, actions to orders.

use plimsoll_monitor::watch::terminal::{Action, Gesture, Key, Mode, Mouse, Order, View, action_of, decode};
use proptest::prelude::*;

use super::seen::{snapshot, state};

fn keys(bytes: &[u8]) -> Vec<Key> {
    let mut bytes = bytes.to_vec();
    let keys = decode(&mut bytes, true);
    assert!(bytes.is_empty(), "nothing is left of {bytes:?}");
    keys
}

#[test]
fn bytes_of_terminals_are_keys() {
    assert_eq!(keys(b"qT1"), [Key::Char('q'), Key::Char('T'), Key::Char('1')]);
    assert_eq!(
        keys(b"\x1b[A\x1b[B\x1b[C\x1b[D"),
        [Key::Up, Key::Down, Key::Right, Key::Left]
    );
    assert_eq!(keys(b"\x1bOA\x1bOD"), [Key::Up, Key::Left]);
    assert_eq!(keys(b"\x1b[1;2C\x1b[1;2D"), [Key::ShiftRight, Key::ShiftLeft]);
    assert_eq!(
        keys(b"\x1b[5~\x1b[6~\x1b[H\x1b[F"),
        [Key::PageUp, Key::PageDown, Key::Home, Key::End]
    );
    assert_eq!(keys(b"\x1b"), [Key::Escape]);
    assert_eq!(keys(b"\x1b\x1b[A"), [Key::Escape, Key::Up]);
    assert_eq!(
        keys(b"\r\n\x7f\x08"),
        [Key::Enter, Key::Enter, Key::Backspace, Key::Backspace]
    );
    assert_eq!(
        keys(b"\x03\x1a\x1c"),
        [Key::Ctrl('c'), Key::Ctrl('z'), Key::Ctrl('\\')]
    );
    assert_eq!(keys("\u{e4}\u{4e2d}\u{1f600}".as_bytes()).len(), 3);
    assert_eq!(
        keys(b"\x1b[200~\x1b[?1;2cq\xffr"),
        [Key::Char('q'), Key::Char('r')]
    );
}

#[test]
fn a_character_in_two_reads_is_one_key() {
    let mut bytes = "\u{e4}".as_bytes()[..1].to_vec();
    assert_eq!(decode(&mut bytes, false), []);
    bytes.push("\u{e4}".as_bytes()[1]);
    assert_eq!(decode(&mut bytes, false), [Key::Char('\u{e4}')]);
}

#[test]
fn an_escape_without_a_rest_is_a_key() {
    let mut bytes = b"q\x1b".to_vec();
    assert_eq!(decode(&mut bytes, false), [Key::Char('q')]);
    assert_eq!(decode(&mut bytes, true), [Key::Escape]);
    assert!(bytes.is_empty());
}

fn mouse(gesture: Gesture, column: u16, row: u16) -> Key {
    Key::Mouse(Mouse { gesture, column, row })
}

#[test]
fn bytes_of_a_mouse_are_events() {
    assert_eq!(
        keys(b"\x1b[<0;1;1M\x1b[<0;1;1m\x1b[<32;300;70M"),
        [mouse(Gesture::Press, 0, 0), mouse(Gesture::Drag, 299, 69)]
    );
    let wheel: Vec<Key> = [
        Gesture::WheelUp,
        Gesture::WheelDown,
        Gesture::WheelLeft,
        Gesture::WheelRight,
    ]
    .map(|gesture| mouse(gesture, 4, 5))
    .into();
    assert_eq!(
        keys(b"\x1b[<64;5;6M\x1b[<65;5;6M\x1b[<66;5;6M\x1b[<67;5;6M"),
        wheel
    );
    // With modifier keys; from a terminal without the SGR form; of other buttons.
    assert_eq!(keys(b"\x1b[<20;5;6M"), [mouse(Gesture::Press, 4, 5)]);
    assert_eq!(keys(b"\x1b[M %&q"), [mouse(Gesture::Press, 4, 5), Key::Char('q')]);
    assert_eq!(keys(b"\x1b[<1;5;6M\x1b[<2;5;6M\x1b[<128;5;6Mq"), [Key::Char('q')]);
    assert_eq!(
        keys(b"\x1b[<;;Mq\x1b[<0;0;0Mr\x1b[<99999999;1;1M"),
        [Key::Char('q'), Key::Char('r')]
    );
}

/// A fast drag fills the buffer of a read: the rest of a sequence set mark 3 and turned the mouse off, as it was read as
/// keys.
#[test]
fn a_sequence_in_two_reads_is_one_event_and_no_keys() {
    for whole in [
        &b"\x1b[<32;12;14M"[..],
        b"\x1b[M %&",
        b"\x1b[1;2C",
        b"\x1bOA",
        b"\x1b[5~",
    ] {
        let expected = keys(whole);
        assert_eq!(expected.len(), 1);
        for cut in 1..whole.len() {
            let mut bytes = whole[..cut].to_vec();
            assert_eq!(decode(&mut bytes, false), [], "{cut}");
            bytes.extend(&whole[cut..]);
            assert_eq!(decode(&mut bytes, false), expected, "{cut}");
            assert!(bytes.is_empty());
        }
    }
}

proptest! {
    /// Any bytes are decoded, and no more than the beginning of one character waits for others.
    #[test]
    fn any_bytes_are_decoded(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut rest = bytes;
        decode(&mut rest, true);
        prop_assert!(rest.len() < 4);
    }

    /// Reads of any length give the same keys as one read.
    #[test]
    fn the_length_of_a_read_does_not_matter(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "\x1b[<32;120;14M", "\x1b[<0;1;1m", "\x1b[<64;5;6M", "\x1b[A", "\x1b[1;2D", "\x1bOB", "q", "3", "\u{e4}", "\t",
            ]),
            0..40,
        ),
        length in 1..40_usize,
    ) {
        let whole = pieces.concat();
        let mut pending = Vec::new();
        let mut read = Vec::new();
        for bytes in whole.as_bytes().chunks(length) {
            pending.extend(bytes);
            read.extend(decode(&mut pending, false));
        }
        prop_assert_eq!(read, keys(whole.as_bytes()));
    }

    #[test]
    fn text_is_decoded_as_it_was_typed(text in "[ -~\u{a1}-\u{d7ff}]{0,40}") {
        let typed: Vec<Key> = text.chars().map(Key::Char).collect();
        prop_assert_eq!(keys(text.as_bytes()), typed);
    }
}

#[test]
fn every_key_of_the_page_has_its_action() {
    let table = [
        (Key::Char('q'), Action::Quit),
        (Key::Char('?'), Action::Help),
        (Key::Char('+'), Action::ZoomIn),
        (Key::Char('-'), Action::ZoomOut),
        (Key::Char('0'), Action::Whole),
        (Key::Left, Action::Back),
        (Key::Right, Action::Forward),
        (Key::PageUp, Action::PageBack),
        (Key::PageDown, Action::PageForward),
        (Key::Home, Action::Oldest),
        (Key::End, Action::Newest),
        (Key::Escape, Action::Newest),
        (Key::Char(' '), Action::Freeze),
        (Key::ShiftLeft, Action::CursorBack),
        (Key::ShiftRight, Action::CursorForward),
        (Key::Char('P'), Action::Peak),
        (Key::Char('['), Action::PreviousMark),
        (Key::Char(']'), Action::NextMark),
        (Key::Char('s'), Action::Share),
        (Key::Char('t'), Action::PickTarget),
        (Key::Char('k'), Action::PageFlags),
        (Key::Char('r'), Action::Record),
        (Key::Char('w'), Action::OpenPage),
        (Key::Char('1'), Action::Mark(1)),
        (Key::Char('4'), Action::Mark(4)),
        (Key::Char('m'), Action::Note),
        (Key::Char('g'), Action::Cgroups),
        (Key::Char('T'), Action::Trim),
        (Key::Char('E'), Action::Release),
        (Key::Tab, Action::NextList),
        (Key::Char('c'), Action::Changes),
        (Key::Char('o'), Action::NextSort),
        (Key::Up, Action::MoveRow(-1)),
        (Key::Down, Action::MoveRow(1)),
        (Key::Enter, Action::WatchRow),
        (Key::Char('M'), Action::Mouse),
        (Key::Ctrl('z'), Action::Suspend),
        (Key::Ctrl('c'), Action::Quit),
    ];
    for (key, action) in table {
        assert_eq!(action_of(key, Mode::Page), Some(action), "{key:?}");
    }
    for key in ['5', 'x', 'Q'] {
        assert_eq!(action_of(Key::Char(key), Mode::Page), None, "{key:?}");
    }
    for mode in [
        Mode::Reading,
        Mode::Asking,
        Mode::Typing,
        Mode::Picking,
        Mode::Tree,
    ] {
        assert_eq!(action_of(Key::Ctrl('c'), mode), Some(Action::Quit), "{mode:?}");
        assert_eq!(action_of(Key::Escape, mode), Some(Action::Close), "{mode:?}");
    }
    assert_eq!(action_of(Key::Char('q'), Mode::Typing), Some(Action::Type('q')));
    assert_eq!(
        action_of(Key::Enter, Mode::Asking),
        None,
        "a question wants its letter"
    );
}

/// Presses keys on a page of 80x24; the orders that came of it.
fn press(typed: &[u8]) -> (View, Vec<Order>) {
    let state = state(true, true);
    let mut view = View::new("");
    let mut orders = Vec::new();
    for key in keys(typed) {
        let snapshot = snapshot(&state, &view, 80, 24);
        orders.extend(action_of(key, view.mode()).and_then(|action| view.act(action, &snapshot)));
    }
    (view, orders)
}

#[test]
fn orders_are_given_after_their_questions() {
    assert_eq!(press(b"13").1, [Order::Mark(1), Order::Mark(3)]);
    assert_eq!(press(b"T").1, []);
    assert_eq!(press(b"Tn").1, []);
    assert_eq!(press(b"T\x1b").1, []);
    assert_eq!(press(b"T\r").1, [], "enter alone does not trim");
    assert_eq!(press(b"Ty").1, [Order::Trim]);
    assert_eq!(press(b"mq 1?\r").1, [Order::Note("q 1?".to_owned())]);
    assert_eq!(press(b"mab\x7fc\r").1, [Order::Note("ac".to_owned())]);
    assert_eq!(press(b"m \r").1, [], "an empty note is none");
    assert_eq!(press(b"rruns/a\r").1, [Order::Record("runs/a".to_owned())]);
    assert_eq!(
        press(b"E").1,
        [Order::PlanRelease],
        "what it does is asked for first"
    );
    assert_eq!(
        press(b"tPkq").1,
        [Order::ListCandidates, Order::Peak, Order::PageFlags, Order::Quit]
    );
    assert_eq!(press(b"?q").1, [], "q leaves the help first");
    assert_eq!(press(b"?qq").1, [Order::Quit]);
}

#[test]
fn trim_needs_a_target() {
    let state = state(false, true);
    let mut view = View::new("");
    let snapshot = snapshot(&state, &view, 80, 24);
    assert_eq!(view.act(Action::Trim, &snapshot), None);
    assert_eq!(view.mode(), Mode::Reading);
}
