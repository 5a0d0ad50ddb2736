//! Shell scripts of a fleet folder, and commands of engines.

use std::process::{Command, Stdio};

use plimsoll_model::sanitize::{sanitize, shorten};

use crate::plan::Plan;
use crate::{FleetError, Folder};

/// Runs one task on its host.
pub(crate) const TASK: &str = "task.sh";
const TASK_TEXT: &str = include_str!("script/task.sh");
/// Longest output of a failed command in an error.
const MOST_ERROR_LETTERS: usize = 2000;

/// The text as one word of a POSIX shell.
pub(crate) fn word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:,@%+=".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Replaces each `@NAME@` of a template.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    // One pass, so that a value is never searched for names.
    while let Some(at) = rest.find('@') {
        let (before, found) = rest.split_at(at);
        text.push_str(before);
        let value = values.iter().find_map(|(name, value)| {
            let after = found.strip_prefix('@')?.strip_prefix(name)?.strip_prefix('@')?;
            Some((value, after))
        });
        if let Some((value, after)) = value {
            text.push_str(value);
            rest = after;
        } else {
            text.push('@');
            rest = &found[1..];
        }
    }
    text.push_str(rest);
    text
}

/// Writes `task.sh`.
///
/// # Errors
/// Those of [`Folder::write`].
pub(crate) fn write_task(plan: &Plan, folder: &Folder) -> Result<(), FleetError> {
    let mut arguments = String::new();
    for change in &plan.changes {
        arguments.push(' ');
        arguments.push_str(&word(change));
    }
    if plan.quick {
        arguments.push_str(" --quick");
    }
    let values = [
        ("SHA256", plan.binary.sha256.as_str()),
        ("ARGUMENTS", arguments.as_str()),
    ];
    write(folder, TASK, &fill(TASK_TEXT, &values))
}

/// Writes a file, executable if it is a script.
///
/// # Errors
/// Those of [`Folder::write`].
pub(crate) fn write(folder: &Folder, name: &str, text: &str) -> Result<(), FleetError> {
    let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
    folder.write(name, text.as_bytes(), mode)
}

/// Runs a command of an engine to its end and returns its standard output.
///
/// # Errors
/// [`FleetError::Engine`] if it does not start or fails.
pub(crate) fn output(command: &mut Command) -> Result<String, FleetError> {
    let failed = |command: &Command, code, text: &str| {
        let words = [command.get_program()].into_iter().chain(command.get_args());
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        FleetError::Engine {
            command: sanitize(&words.join(" ")).into_owned(),
            code,
            stderr: shorten(&sanitize(text.trim()), MOST_ERROR_LETTERS).into_owned(),
        }
    };
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(command, None, &error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let reason = if errors.trim().is_empty() { text } else { errors };
    Err(failed(command, output.status.code(), &reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_word_as_the_text() {
        for text in [
            "",
            "a",
            "-e",
            "it's",
            "$(x) `y` \\ \"",
            "a\nb",
            "*",
            "a b",
            "~",
            "K=[1, 2]",
            "\u{e9}",
        ] {
            let script = format!("printf %s {}", word(text));
            let output = plimsoll_testkit::command("sh").args(["-c", &script]).output();
            assert_eq!(output.expect("a shell").stdout, text.as_bytes(), "{script}");
        }
    }

    #[test]
    fn a_value_is_not_filled_again() {
        let values = [("A", "@B@"), ("B", "b")];
        assert_eq!(fill("@A@ @B@@B@ @C@ a@A", &values), "@B@ bb @C@ a@A");
    }

    #[test]
    fn a_failed_command_has_its_errors_and_code() {
        let mut command = plimsoll_testkit::command("sh");
        command.args(["-c", "echo out; echo 'err\u{1b}' >&2; exit 9"]);
        match output(&mut command) {
            Err(FleetError::Engine { code, stderr, .. }) => {
                assert_eq!((code, stderr.as_str()), (Some(9), "err\u{fffd}"))
            }
            other => panic!("{other:?}"),
        }
        let missing = output(&mut plimsoll_testkit::command("/nowhere/program"));
        assert!(
            matches!(missing, Err(FleetError::Engine { code: None, .. })),
            "{missing:?}"
        );
    }
}
