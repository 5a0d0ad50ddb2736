//! Decodes keyboard input.
//!
//! The terminal library's own reader is not used: after the terminal is gone, it reads in an endless loop and takes a
//! whole CPU.

use super::mouse::{self, Mouse, Report};

/// More bytes than any sequence of a key or of the mouse has behind its first two.
const LONGEST: usize = 22;

/// A key, a combination of keys, or a mouse event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    /// A letter with the control key.
    Ctrl(char),
    Enter,
    Escape,
    /// The key that erases to the left.
    Backspace,
    Left,
    Right,
    Up,
    Down,
    ShiftLeft,
    ShiftRight,
    PageUp,
    PageDown,
    Home,
    End,
    Tab,
    Mouse(Mouse),
}

/// The keys in `bytes`, which keeps the start of an incomplete character or sequence.
///
/// Ignores unknown sequences. `over` means that no rest arrives soon: an escape at the end is then the escape key. A
/// terminal sends a sequence at once, but a read can end in the middle of it, and its rest must not become keys.
pub fn decode(bytes: &mut Vec<u8>, over: bool) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some(&first) = rest.first() {
        let (key, length) = match first {
            0x1b if !over && is_start(rest) => break,
            0x1b => match mouse::parse(rest) {
                Report::Complete(event, length) => (event.map(Key::Mouse), length),
                Report::Incomplete => (None, rest.len()),
                Report::Other => escape(rest),
            },
            b'\t' => (Some(Key::Tab), 1),
            b'\r' | b'\n' => (Some(Key::Enter), 1),
            0x7f | 0x08 => (Some(Key::Backspace), 1),
            0x01..=0x1a => (Some(Key::Ctrl(char::from(first - 1 + b'a'))), 1),
            0x1c => (Some(Key::Ctrl('\\')), 1),
            0x00..=0x1f => (None, 1),
            _ => match character(rest) {
                Some(found) => found,
                None => break,
            },
        };
        keys.extend(key);
        rest = &rest[length..];
    }
    *bytes = rest.to_vec();
    keys
}

/// Whether `bytes`, which start with an escape, are the start of a longer sequence.
fn is_start(bytes: &[u8]) -> bool {
    match bytes {
        [_] | [_, b'[' | b'O'] => true,
        [_, b'[', rest @ ..] if rest.len() < LONGEST => {
            let ended = rest.iter().any(|byte| (0x40..=0x7e).contains(byte));
            !ended || mouse::parse(bytes) == Report::Incomplete
        }
        _ => false,
    }
}

/// A UTF-8 character and its length; None if it is incomplete.
fn character(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let length = match bytes[0] {
        0x00..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((None, 1)),
    };
    let Some(text) = bytes.get(..length) else {
        // Invalid UTF-8 cannot become a character: skip it.
        let broken = bytes[1..].iter().any(|byte| byte & 0xc0 != 0x80);
        return broken.then_some((None, 1));
    };
    Some(match std::str::from_utf8(text) {
        Ok(text) => (text.chars().next().map(Key::Char), length),
        Err(_) => (None, 1),
    })
}

/// A key that begins with an escape, and its length.
fn escape(bytes: &[u8]) -> (Option<Key>, usize) {
    match bytes.get(1) {
        Some(b'[') => control_sequence(bytes),
        Some(b'O') => {
            let key = bytes.get(2).and_then(|&last| named(last, false));
            (key, bytes.len().min(3))
        }
        // A key with Alt has no action: skip both bytes.
        Some(byte) if *byte != 0x1b => (None, 2),
        _ => (Some(Key::Escape), 1),
    }
}

/// `ESC [ parameters final`.
fn control_sequence(bytes: &[u8]) -> (Option<Key>, usize) {
    let Some(end) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return (None, bytes.len());
    };
    let (parameters, last) = (&bytes[2..2 + end], bytes[2 + end]);
    let shifted = parameters.ends_with(b";2");
    let key = match (last, parameters) {
        (b'~', b"1" | b"7") => Some(Key::Home),
        (b'~', b"4" | b"8") => Some(Key::End),
        (b'~', b"5") => Some(Key::PageUp),
        (b'~', b"6") => Some(Key::PageDown),
        (b'~', _) | (b'M', _) => None,
        _ => named(last, shifted),
    };
    (key, 3 + end)
}

fn named(last: u8, shifted: bool) -> Option<Key> {
    Some(match (last, shifted) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', false) => Key::Right,
        (b'C', true) => Key::ShiftRight,
        (b'D', false) => Key::Left,
        (b'D', true) => Key::ShiftLeft,
        (b'H', _) => Key::Home,
        (b'F', _) => Key::End,
        (b'M', _) => Key::Enter,
        _ => return None,
    })
}
