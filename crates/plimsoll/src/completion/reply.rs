//! The output for the scripts: one line that tells whether file names fit too, then a candidate a line.

use super::{Answer, Line};
use crate::cli::CompletingShell;

pub fn script(shell: CompletingShell) -> &'static str {
    match shell {
        CompletingShell::Bash => include_str!("scripts/plimsoll.bash"),
        CompletingShell::Zsh => include_str!("scripts/plimsoll.zsh"),
        CompletingShell::Fish => include_str!("scripts/plimsoll.fish"),
    }
}

/// The answer as the script reads it. `word` is the end of the line that bash replaces: it breaks words at `=` and `@`.
pub fn reply(shell: CompletingShell, answer: &Answer, line: &Line, word: Option<&str>) -> String {
    let mut text = String::from(if answer.files { "files\n" } else { "words\n" });
    for candidate in &answer.candidates {
        match shell {
            CompletingShell::Bash => {
                let quoted = quoted(&candidate.value, line.quote);
                let kept = line
                    .raw
                    .strip_suffix(word.unwrap_or_default())
                    .unwrap_or_default();
                let Some(rest) = quoted.as_deref().and_then(|quoted| quoted.strip_prefix(kept)) else {
                    continue;
                };
                text.push_str(rest);
            }
            // They quote by themselves.
            CompletingShell::Zsh | CompletingShell::Fish => {
                text.push_str(&candidate.value);
                text.push('\t');
                text.push_str(&candidate.meaning);
            }
        }
        text.push('\n');
    }
    text
}

/// A word as bash must insert it: each other character escaped. None inside quotes, where an escape would end them.
fn quoted(word: &str, quote: Option<char>) -> Option<String> {
    let plain = |letter: char| letter.is_alphanumeric() || "_@%+=:,./-".contains(letter);
    if word.chars().all(plain) {
        return Some(word.to_owned());
    }
    if quote.is_some() {
        return None;
    }
    let mut quoted = String::with_capacity(word.len() + 8);
    for letter in word.chars() {
        if !plain(letter) {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    Some(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completion::Candidate;

    fn bash(text: &str, word: &str, value: &str) -> Vec<String> {
        let answer = Answer {
            files: false,
            candidates: vec![Candidate::new(value, "meaning")],
        };
        let reply = reply(CompletingShell::Bash, &answer, &Line::split(text), Some(word));
        reply.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn bash_gets_the_end_that_it_replaces_quoted() {
        assert_eq!(bash("plimsoll report @la", "la", "@latest"), ["latest"]);
        assert_eq!(bash("plimsoll report @", "", "@latest"), ["latest"]);
        assert_eq!(bash("plimsoll ps --sort=sw", "sw", "--sort=swap"), ["swap"]);
        assert_eq!(bash("plimsoll ps --so", "--so", "--sort"), ["--sort"]);
        assert_eq!(
            bash("plimsoll run x 'order=f", "order=f", "order=fixed"),
            ["order=fixed"]
        );
        assert_eq!(
            bash("plimsoll report x", "x", "x'$(touch y)'"),
            ["x\\'\\$\\(touch\\ y\\)\\'"]
        );
        // A quote in a name would end the open one.
        assert!(bash("plimsoll report 'x", "x", "x'$(touch y)'").is_empty());
        assert!(bash("plimsoll report \"x", "x", "x$(touch y)").is_empty());
    }
}
