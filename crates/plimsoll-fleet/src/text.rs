//! Checks of text that becomes a file name or a word of a command.

/// Longest word of a command.
const LONGEST: usize = 253;

/// What follows the id of a task in the name of the folder of its attempts. So no name ends in it.
pub(crate) const ATTEMPTS: &str = ".attempts";

/// Whether it is a file name of `a-z 0-9 . _ -` that needs no quoting and does not start with a dot: an id of a task, the name of a
/// run.
pub(crate) fn is_name(text: &str) -> bool {
    let start = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let rest = |byte: u8| start(byte) || b"._-".contains(&byte);
    text.len() <= 63
        && text.bytes().next().is_some_and(start)
        && text.bytes().all(rest)
        && !text.contains("..")
        && !text.ends_with(ATTEMPTS)
}

/// Whether it is one word of a command that is no option and needs no quoting: a host, a partition, an image.
pub(crate) fn is_word(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:/@+".contains(&byte);
    (1..=LONGEST).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(allowed)
}

/// Whether it is a line of text: not empty, bounded, without control characters.
pub(crate) fn is_line(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len()) && !text.chars().any(char::is_control)
}
