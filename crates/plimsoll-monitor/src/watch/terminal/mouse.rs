//! Decodes mouse input: `ESC [ < button ; column ; row M` (SGR), or `ESC [ M` and three bytes of older terminals.

/// A mouse event at a cell of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mouse {
    pub gesture: Gesture,
    /// Column of the cell, from 0.
    pub column: u16,
    /// Row of the cell, from 0.
    pub row: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gesture {
    /// The left button went down.
    Press,
    /// The mouse moved to another cell with the left button down.
    Drag,
    WheelUp,
    WheelDown,
    WheelLeft,
    WheelRight,
}

/// The bytes at the start of an input.
#[derive(Debug, PartialEq)]
pub(super) enum Report {
    /// A complete sequence of this many bytes; None for an event without an action, such as the release of a button.
    Complete(Option<Mouse>, usize),
    /// The start of a sequence: the rest arrives with the next bytes.
    Incomplete,
    Other,
}

/// More bytes than any SGR sequence has.
const LONGEST: usize = 24;
/// Bits of the modifier keys in a button number.
const MODIFIERS: u16 = 4 + 8 + 16;

/// Parses the mouse sequence at the start of `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Report {
    match bytes {
        [0x1b, b'[', b'<', rest @ ..] => {
            let end = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';'));
            match end {
                Some(end) if rest[end] == b'M' => Report::Complete(sgr(&rest[..end]), 3 + end + 1),
                // A release of a button, or no mouse sequence at all.
                Some(end) => Report::Complete(None, 3 + end + 1),
                None if bytes.len() < LONGEST => Report::Incomplete,
                None => Report::Complete(None, bytes.len()),
            }
        }
        [0x1b, b'[', b'M', button, column, row, ..] => {
            let number = |byte: u8, offset: u8| byte.checked_sub(offset).map(u16::from);
            let parts = (number(*button, 32), number(*column, 33), number(*row, 33));
            let event = match parts {
                (Some(button), Some(column), Some(row)) => event(button, column, row),
                _ => None,
            };
            Report::Complete(event, 6)
        }
        [0x1b, b'[', b'M', ..] => Report::Incomplete,
        _ => Report::Other,
    }
}

/// `button ; column ; row`, with places from 1.
fn sgr(parameters: &[u8]) -> Option<Mouse> {
    let text = std::str::from_utf8(parameters).ok()?;
    let mut numbers = text.split(';').map(|number| number.parse::<u16>().ok());
    let mut next = || numbers.next().flatten();
    let (button, column, row) = (next()?, next()?, next()?);
    event(button, column.checked_sub(1)?, row.checked_sub(1)?)
}

fn event(button: u16, column: u16, row: u16) -> Option<Mouse> {
    let gesture = match button & !MODIFIERS {
        0 => Gesture::Press,
        32 => Gesture::Drag,
        64 => Gesture::WheelUp,
        65 => Gesture::WheelDown,
        66 => Gesture::WheelLeft,
        67 => Gesture::WheelRight,
        _ => return None,
    };
    Some(Mouse { gesture, column, row })
}
