//! Reports as links on a terminal, and in the browser (`--open`).

use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cli::{Verbosity, When};
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::sanitize::sanitize;
use plimsoll_monitor::processes::pass_signals_on;

/// The path as text; on a terminal as a hyperlink to the file (OSC 8).
pub(super) fn linked(path: &Path, verbosity: &Verbosity) -> String {
    let text = sanitize(&path.to_string_lossy()).into_owned();
    // Only a terminal hides the escape sequence, so `--color always` does not suffice.
    let wanted =
        verbosity.color != When::Never && super::use_colour(When::Auto, std::io::stdout().is_terminal());
    let host = rustix::system::uname();
    match absolute(path) {
        Some(path) if wanted => {
            let url = url(&path, &host.nodename().to_string_lossy());
            format!("\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\")
        }
        _ => text,
    }
}

fn absolute(path: &Path) -> Option<PathBuf> {
    std::path::absolute(path).ok()
}

/// `file://HOST/PATH`. The host tells a terminal whether the file is on its machine; a name that needs escapes is left
/// out.
fn url(path: &Path, host: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    let mut url = String::from("file://");
    if host.chars().all(plain) {
        url.push_str(host);
    }
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => url.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => url.push(char::from(*byte)),
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

/// Opens a page with the first command of `$BROWSER` that succeeds, or with `xdg-open`. Waits for its end: a browser in
/// the terminal needs that.
pub(super) fn open(page: &Path) -> Result<(), Failure> {
    let failure = |cause: &str| {
        let text = format!(
            "cannot open {}: {cause}; set BROWSER, or open the file in a browser",
            sanitize(&page.to_string_lossy())
        );
        Failure::message(Exit::Missing, text)
    };
    let Some(path) = absolute(page) else {
        return Err(failure("the current folder is unknown"));
    };
    let url = url(&path, "");
    let mut cause = String::new();
    for command in browsers(std::env::var("BROWSER").ok().as_deref()) {
        let mut words = words(&command, &url);
        let name = words.remove(0);
        let mut command = Command::new(&name);
        // Standard output has results only.
        command.args(words).stdout(std::io::stderr());
        pass_signals_on(&mut command);
        if !std::io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        cause = match command.status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => format!("`{}` failed ({status})", sanitize(&name)),
            Err(error) => format!("cannot start `{}`: {error}", sanitize(&name)),
        };
    }
    Err(failure(&cause))
}

/// The commands to try: those of `BROWSER`, separated by colons, otherwise `xdg-open`.
fn browsers(variable: Option<&str>) -> Vec<String> {
    let named = variable.unwrap_or_default().split(':').map(str::trim);
    let named: Vec<String> = named.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if named.is_empty() {
        vec!["xdg-open".to_owned()]
    } else {
        named
    }
}

/// The words of a command, without a shell: the URL stands for `%s`, or follows.
fn words(command: &str, url: &str) -> Vec<String> {
    let mut words: Vec<String> = command
        .split_whitespace()
        .map(|word| word.replace("%s", url))
        .collect();
    if !command.contains("%s") {
        words.push(url.to_owned());
    }
    words
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn paths_are_percent_encoded() {
        let hostile = Path::new(OsStr::from_bytes(b"/a b/%41/\x1b]8;;x\x07/\xff?#\xc3\xa9.html"));
        assert_eq!(
            url(hostile, "ship-1.example"),
            "file://ship-1.example/a%20b/%2541/%1B%5D8%3B%3Bx%07/%FF%3F%23%C3%A9.html"
        );
        assert_eq!(url(Path::new("/x"), "a\x1bb"), "file:///x");
        assert_eq!(url(Path::new("/x"), ""), "file:///x");
    }

    #[test]
    fn browsers_are_tried_in_order_and_take_the_address_in_one_word() {
        assert_eq!(browsers(None), ["xdg-open"]);
        assert_eq!(browsers(Some(" :")), ["xdg-open"]);
        assert_eq!(browsers(Some("a -x:b %s")), ["a -x", "b %s"]);
        assert_eq!(words("b --new-tab=%s -q", "u"), ["b", "--new-tab=u", "-q"]);
        assert_eq!(words("a $(x);y", "u"), ["a", "$(x);y", "u"]);
    }
}
