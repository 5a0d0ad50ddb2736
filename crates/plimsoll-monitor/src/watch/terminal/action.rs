//! Actions of keys.

use super::keys::Key;
use super::ranking::Sort;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Quit,
    /// Stop the process until the shell continues it.
    Suspend,
    Help,
    /// Less time per column.
    ZoomIn,
    /// More time per column.
    ZoomOut,
    /// All frames in the width of the chart.
    Whole,
    Back,
    Forward,
    PageBack,
    PageForward,
    Oldest,
    /// Jump to the newest column and follow it.
    Newest,
    Freeze,
    /// Move the cursor to an older column.
    CursorBack,
    /// Move the cursor to a newer column.
    CursorForward,
    /// Jump to the maximum of the target, or of used memory.
    Peak,
    PreviousMark,
    NextMark,
    /// Scale the layers to all RAM or to used RAM.
    Share,
    PickTarget,
    PageFlags,
    Record,
    /// Show the address of the live page.
    OpenPage,
    Messages,
    Mark(u32),
    Note,
    Trim,
    Release,
    Close,
    Confirm,
    Up,
    Down,
    PageUp,
    PageDown,
    Type(char),
    Erase,
    /// Show the tree of cgroups.
    Cgroups,
    /// Hide the children of the selected cgroup.
    Collapse,
    /// Show them.
    Expand,
    /// Show the list of processes, then that of cgroups, then none.
    NextList,
    /// Show or hide the changes.
    Changes,
    NextSort,
    SortBy(Sort),
    /// Select the row this many places further down.
    MoveRow(i16),
    /// Select the row at this place in the order.
    SelectRow(usize),
    /// Make the selected process or cgroup the target.
    WatchRow,
    /// Move the cursor to this visible column.
    CursorTo(usize),
    /// Take mouse events, or leave them to the terminal.
    Mouse,
}

/// The element that receives keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The main screen.
    Page,
    /// An overlay with text.
    Reading,
    /// An overlay with a question.
    Asking,
    /// An overlay with an input line.
    Typing,
    /// An overlay with a filtered list.
    Picking,
    /// An overlay with a tree.
    Tree,
}

/// Help for a key of the main screen.
pub(super) struct Hint {
    pub(super) keys: &'static str,
    /// ASCII form of `keys`.
    pub(super) ascii: &'static str,
    /// One word for the line of keys; empty for keys that it omits.
    pub(super) short: &'static str,
    /// Text for the help overlay.
    pub(super) long: &'static str,
}

/// The keys of the main screen, the most important first.
pub(super) const HINTS: &[Hint] = &[
    hint("?", "?", "help", "this help"),
    hint("q", "q", "quit", "quit"),
    hint("Tab", "Tab", "list", "processes, cgroups"),
    hint("c", "c", "changes", "changes in view"),
    hint("g", "g", "tree", "tree of cgroups"),
    hint("t", "t", "target", "choose the target"),
    hint("1-4", "1-4", "mark", "set a mark"),
    hint("T", "T", "trim", "trim the target"),
    hint("E", "E", "release", "release cache"),
    hint("space", "space", "freeze", "freeze or unfreeze"),
    hint("+ -", "+ -", "zoom", "zoom in or out"),
    hint("0", "0", "all", "fit all samples"),
    hint("\u{2190} \u{2192}", "< >", "scroll", "scroll; PgUp, PgDn: far"),
    hint("o", "o", "order", "order of the list"),
    hint("\u{2191} \u{2193}", "up, down", "", "select in the list"),
    hint("Enter", "Enter", "", "watch the selected row"),
    hint("P", "P", "peak", "go to the peak"),
    hint("m", "m", "note", "set a note"),
    hint("[ ]", "[ ]", "marks", "previous, next mark"),
    hint("r", "r", "record", "start or stop recording"),
    hint("k", "k", "flags", "count page flags"),
    hint("s", "s", "share", "scale: all or used RAM"),
    hint("M", "M", "mouse", "mouse on or off"),
    hint("w", "w", "page", "address of live page"),
    hint("l", "l", "log", "all messages"),
    hint("shift-\u{2190} \u{2192}", "shift <>", "", "move the cursor"),
    hint("Home", "Home", "", "go to the oldest column"),
    hint("End, Esc", "End, Esc", "", "back to now"),
    hint("ctrl-z", "ctrl-z", "", "suspend"),
];

const fn hint(keys: &'static str, ascii: &'static str, short: &'static str, long: &'static str) -> Hint {
    Hint {
        keys,
        ascii,
        short,
        long,
    }
}

pub fn action_of(key: Key, mode: Mode) -> Option<Action> {
    match key {
        // The terminal passes these on as keys. They end or suspend the program in every mode.
        Key::Ctrl('c' | '\\') => return Some(Action::Quit),
        Key::Ctrl('z') => return Some(Action::Suspend),
        _ => {}
    }
    match mode {
        Mode::Page => on_page(key),
        Mode::Reading => match key {
            Key::Escape | Key::Enter | Key::Char('q' | '?' | ' ') => Some(Action::Close),
            Key::Up => Some(Action::Up),
            Key::Down => Some(Action::Down),
            Key::PageUp => Some(Action::PageUp),
            Key::PageDown => Some(Action::PageDown),
            _ => None,
        },
        Mode::Asking => match key {
            Key::Char('y' | 'Y') => Some(Action::Confirm),
            Key::Char('n' | 'N' | 'q') | Key::Escape => Some(Action::Close),
            _ => None,
        },
        Mode::Typing => typed(key),
        Mode::Picking => match key {
            Key::Up => Some(Action::Up),
            Key::Down => Some(Action::Down),
            Key::PageUp => Some(Action::PageUp),
            Key::PageDown => Some(Action::PageDown),
            _ => typed(key),
        },
        Mode::Tree => in_tree(key),
    }
}

fn in_tree(key: Key) -> Option<Action> {
    Some(match key {
        Key::Escape | Key::Char('q' | 'g') => Action::Close,
        Key::Up | Key::Char('k') => Action::Up,
        Key::Down | Key::Char('j') => Action::Down,
        Key::PageUp => Action::PageUp,
        Key::PageDown => Action::PageDown,
        Key::Home => Action::Oldest,
        Key::End => Action::Newest,
        Key::Left | Key::Char('-') => Action::Collapse,
        Key::Right | Key::Char('+') => Action::Expand,
        Key::Enter | Key::Char(' ') => Action::Confirm,
        _ => return None,
    })
}

fn typed(key: Key) -> Option<Action> {
    match key {
        Key::Char(letter) => Some(Action::Type(letter)),
        Key::Backspace => Some(Action::Erase),
        Key::Enter => Some(Action::Confirm),
        Key::Escape => Some(Action::Close),
        _ => None,
    }
}

fn on_page(key: Key) -> Option<Action> {
    Some(match key {
        Key::Char('q') => Action::Quit,
        Key::Char('?' | 'h') => Action::Help,
        Key::Char('+' | '=') => Action::ZoomIn,
        Key::Char('-' | '_') => Action::ZoomOut,
        Key::Char('0') => Action::Whole,
        Key::Left | Key::Char('<') => Action::Back,
        Key::Right | Key::Char('>') => Action::Forward,
        Key::PageUp => Action::PageBack,
        Key::PageDown => Action::PageForward,
        Key::Home => Action::Oldest,
        Key::End | Key::Escape => Action::Newest,
        Key::Char(' ') => Action::Freeze,
        Key::ShiftLeft => Action::CursorBack,
        Key::ShiftRight => Action::CursorForward,
        Key::Char('P' | 'p') => Action::Peak,
        Key::Char('[') => Action::PreviousMark,
        Key::Char(']') => Action::NextMark,
        Key::Char('s') => Action::Share,
        Key::Char('t') => Action::PickTarget,
        Key::Char('k') => Action::PageFlags,
        Key::Char('r') => Action::Record,
        Key::Char('w') => Action::OpenPage,
        Key::Char('l') => Action::Messages,
        Key::Char(digit @ '1'..='4') => Action::Mark(u32::from(digit) - u32::from('0')),
        Key::Char('m') => Action::Note,
        Key::Char('g') => Action::Cgroups,
        Key::Char('T') => Action::Trim,
        Key::Char('E') => Action::Release,
        Key::Tab => Action::NextList,
        Key::Char('c') => Action::Changes,
        Key::Char('o') => Action::NextSort,
        Key::Up => Action::MoveRow(-1),
        Key::Down => Action::MoveRow(1),
        Key::Enter => Action::WatchRow,
        Key::Char('M') => Action::Mouse,
        _ => return None,
    })
}
