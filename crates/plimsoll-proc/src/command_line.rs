//! `/proc/PID/cmdline`: the arguments of a process.

/// The arguments apart by spaces. Empty for a process that has none.
pub fn parse(text: &[u8]) -> String {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    String::from_utf8_lossy(text).replace('\0', " ")
}
