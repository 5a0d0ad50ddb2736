//! The man pages: the definition of the command line, and the sections that it does not have.

mod contents;

use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use plimsoll_model::exit::Exit;
use plimsoll_model::recording::replace_file;

pub use contents::{Example, Page, page};

/// The page of a built command.
///
/// # Errors
/// Only those of memory: the page is a buffer.
pub fn render(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if command.get_subcommands().any(|one| !one.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    let page = page(&name(command));
    let mut roff = Roff::default();
    examples(&mut roff, page.examples);
    exit_status(&mut roff, page.exit);
    definitions(&mut roff, "FILES", page.files);
    definitions(&mut roff, "ENVIRONMENT", page.environment);
    see_also(&mut roff, page.see_also);
    roff.to_writer(&mut text)?;
    Ok(text)
}

/// The name of a page: `plimsoll-heap-run`.
pub fn name(command: &Command) -> String {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned()
}

/// A built command and its visible subcommands, of every depth.
pub fn commands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|one| !one.is_hide_set());
    std::iter::once(command).chain(below.flat_map(commands)).collect()
}

/// Writes the page of every command into a folder. A link in place of a page is replaced, not followed.
///
/// # Errors
/// The folder is not writable.
pub fn write_all(root: &Command, folder: &Path) -> io::Result<()> {
    for command in commands(root) {
        let page = render(command)?;
        replace_file(&folder.join(format!("{}.1", name(command))), |file| {
            file.write_all(&page)
        })?;
    }
    Ok(())
}

fn examples(roff: &mut Roff, examples: &[Example]) {
    roff.control("SH", ["EXAMPLES"]);
    for example in examples {
        roff.control("PP", []);
        roff.text([roman(example.meaning)]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        roff.text([bold(example.command)]);
        roff.control("fi", []);
        roff.control("RE", []);
    }
}

fn exit_status(roff: &mut Roff, exception: &str) {
    roff.control("SH", ["EXIT STATUS"]);
    for exit in Exit::ALL {
        roff.control("TP", []);
        roff.text([bold((exit as u8).to_string())]);
        roff.text([roman(exit.meaning())]);
    }
    if !exception.is_empty() {
        roff.control("PP", []);
        roff.text([roman(exception)]);
    }
}

fn definitions(roff: &mut Roff, title: &str, rows: &[(&str, &str)]) {
    if rows.is_empty() {
        return;
    }
    roff.control("SH", [title]);
    for (term, meaning) in rows {
        roff.control("TP", []);
        roff.text([italic(*term)]);
        roff.text([roman(*meaning)]);
    }
}

fn see_also(roff: &mut Roff, pages: &[(&str, u8)]) {
    roff.control("SH", ["SEE ALSO"]);
    let last = pages.len().saturating_sub(1);
    for (index, (name, section)) in pages.iter().enumerate() {
        let end = if index == last { "" } else { "," };
        roff.text([bold(*name), roman(format!("({section}){end}"))]);
    }
}
