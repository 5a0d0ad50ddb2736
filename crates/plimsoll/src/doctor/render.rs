//! Text of an examination for a terminal.

use anstyle::{AnsiColor, Style};

use super::model::{Check, Examination, State};

/// Widest text: longer lines are hard to read.
const WIDEST: usize = 120;
/// Narrowest text: less would leave one word a line.
const NARROWEST: usize = 40;
/// First column of the explaining lines.
const INDENT: usize = 6;

/// Renders for a terminal of `width` columns. A symbol and a word show the state; `colour` only repeats it.
///
/// An available check is one line. The consequence and the commands that enable it follow any other check, one command
/// a line and never wrapped, for copying.
pub fn render(examination: &Examination, width: usize, colour: bool) -> String {
    let width = width.clamp(NARROWEST, WIDEST);
    let paint = Paint { colour };
    let mut text = wrap(&examination.machine, width, 0, 0);
    let widest = examination
        .checks
        .iter()
        .map(|check| check.title.chars().count())
        .max()
        .unwrap_or(0);
    let mut group = None;
    for check in &examination.checks {
        if group != Some(check.group) {
            group = Some(check.group);
            text.push_str(&format!("\n{}\n", paint.bold(check.group.title())));
        }
        text.push_str(&line_of(check, widest, width, &paint));
    }
    text.push_str(&format!("\n{}\n", summary(examination)));
    text.push_str(&wrap(
        &format!("Verdict: {}.", examination.verdict.text),
        width,
        0,
        0,
    ));
    text
}

fn line_of(check: &Check, widest: usize, width: usize, paint: &Paint) -> String {
    let sign = paint.state(
        check.state,
        &format!("{} {:<9}", check.state.symbol(), check.state.word()),
    );
    let head = format!("  {sign}  {:<widest$}  ", check.title);
    // Colour codes have no width: the width of the head is the sum of its parts.
    let column = 2 + 11 + 2 + widest + 2;
    let mut text = if column + 30 <= width {
        head + &wrap(&check.found, width, column, column)
    } else {
        format!("{}\n{}", head.trim_end(), wrap_block(&check.found, width))
    };
    if check.state != State::Available {
        text.push_str(&format!(
            "{:INDENT$}{}{}",
            "",
            "lost:   ",
            wrap(&check.lost, width, INDENT + 8, INDENT + 8)
        ));
        for (index, command) in check.enable.lines().enumerate() {
            let label = if index == 0 { "enable: " } else { "        " };
            text.push_str(&format!("{:INDENT$}{label}{command}\n", ""));
        }
    }
    text
}

fn wrap_block(words: &str, width: usize) -> String {
    format!("{:INDENT$}{}", "", wrap(words, width, INDENT, INDENT))
}

/// Breaks `words` at spaces into lines of `width` columns, the first beginning at column `start`, the others at
/// `indent`. Ends with a line break. A word longer than a line is left whole.
fn wrap(words: &str, width: usize, start: usize, indent: usize) -> String {
    let mut text = String::new();
    let mut column = start;
    let mut first = true;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if !first && column + 1 + length > width {
            text.push_str(&format!("\n{:indent$}", ""));
            column = indent;
            first = true;
        }
        if !first {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
        first = false;
    }
    text.push('\n');
    text
}

fn summary(examination: &Examination) -> String {
    let count = |state| {
        examination
            .checks
            .iter()
            .filter(|check| check.state == state)
            .count()
    };
    let states = [State::Available, State::Limited, State::Missing, State::Unknown];
    let parts: Vec<String> = states
        .into_iter()
        .map(|state| (count(state), state.word()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    parts.join(", ")
}

struct Paint {
    colour: bool,
}

impl Paint {
    fn bold(&self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    fn state(&self, state: State, text: &str) -> String {
        let colour = match state {
            State::Available => AnsiColor::Green,
            State::Limited => AnsiColor::Yellow,
            State::Missing => AnsiColor::Red,
            State::Unknown => AnsiColor::Cyan,
        };
        self.with(colour.on_default(), text)
    }

    fn with(&self, style: Style, text: &str) -> String {
        if self.colour {
            format!("{}{text}{}", style.render(), style.render_reset())
        } else {
            text.to_owned()
        }
    }
}
