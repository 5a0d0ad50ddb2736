//! What keys mean.

use super::keys::Key;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// End.
    Quit,
    /// Stop until the shell says to go on.
    Suspend,
    /// Show what keys do.
    Help,
    /// Less time a column.
    ZoomIn,
    /// More time a column.
    ZoomOut,
    /// Scroll to older columns.
    Back,
    /// Scroll to newer columns.
    Forward,
    /// Scroll a screen to older columns.
    PageBack,
    /// Scroll a screen to newer columns.
    PageForward,
    /// To the oldest column.
    Oldest,
    /// To the newest column, and along with it.
    Newest,
    /// Hold the picture, or let it go on.
    Freeze,
    /// Move the cursor to an older column.
    CursorBack,
    /// Move the cursor to a newer column.
    CursorForward,
    /// To the greatest size of the target, or of used memory.
    Peak,
    /// To the mark before.
    PreviousMark,
    /// To the next mark.
    NextMark,
    /// Layers as parts of RAM, or of what is used of it.
    Share,
    /// Choose a target.
    PickTarget,
    /// Count page flags.
    PageFlags,
    /// Record, or stop.
    Record,
    /// Where the page is.
    OpenPage,
    /// Show what was said, in full.
    Messages,
    /// Set a mark with a number.
    Mark(u32),
    /// Set a note.
    Note,
    /// Trim the target.
    Trim,
    /// Release standby memory and page cache.
    Release,
    /// Leave what lies over the page.
    Close,
    /// Do what was asked about.
    Confirm,
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// Many lines up.
    PageUp,
    /// Many lines down.
    PageDown,
    /// A letter of what is typed.
    Type(char),
    /// Take the last letter back.
    Erase,
}

/// What listens to keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The page.
    Page,
    /// Text to read.
    Reading,
    /// A question.
    Asking,
    /// A line to type.
    Typing,
    /// A list to choose from, narrowed by typing.
    Picking,
}

/// A key of the page as people are told of it.
pub(super) struct Hint {
    /// The key.
    pub(super) keys: &'static str,
    /// The same in ASCII.
    pub(super) ascii: &'static str,
    /// What it does, in a word; none for those that the line of keys leaves out.
    pub(super) short: &'static str,
    /// What it does.
    pub(super) long: &'static str,
}

/// The keys of the page, the most needed first.
pub(super) const HINTS: &[Hint] = &[
    hint("?", "?", "help", "this help"),
    hint("q", "q", "quit", "quit"),
    hint("1-4", "1-4", "mark", "set a mark"),
    hint("T", "T", "trim", "trim the target"),
    hint("E", "E", "release", "release standby, cache"),
    hint("t", "t", "target", "choose the target"),
    hint("space", "space", "freeze", "freeze, or go on"),
    hint("\u{2190} \u{2192}", "< >", "scroll", "scroll; PgUp, PgDn: far"),
    hint("+ -", "+ -", "zoom", "less, more time a column"),
    hint("P", "P", "peak", "go to the peak"),
    hint("m", "m", "note", "set a note"),
    hint("r", "r", "record", "record, or stop"),
    hint("k", "k", "flags", "count page flags"),
    hint("s", "s", "share", "parts of RAM, or of use"),
    hint("[ ]", "[ ]", "marks", "previous, next mark"),
    hint("w", "w", "page", "where the web page is"),
    hint("l", "l", "log", "what was said, in full"),
    hint("shift-\u{2190} \u{2192}", "shift <>", "", "move the cursor"),
    hint("Home", "Home", "", "to the oldest column"),
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

/// What `key` asks for in `mode`, if anything.
pub fn action_of(key: Key, mode: Mode) -> Option<Action> {
    match key {
        // The terminal passes these on as keys: they end and stop the program wherever it is.
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
    }
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
        Key::Char('T') => Action::Trim,
        Key::Char('E') => Action::Release,
        _ => return None,
    })
}
