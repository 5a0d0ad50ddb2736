//! Pagers as text for a terminal.

use std::fmt::Write;

use plimsoll_model::quantity::{bytes, count, counted, seconds};
use plimsoll_model::sanitize::sanitize;
use plimsoll_pager::page::PAGE_SIZE;

use super::model::{PageFileReport, PagerReport, PagerSurvey, PagerValidation};
use super::rows::{Group, ROWS, Row, Unit};

/// The survey as text with a final line feed.
pub fn render(survey: &PagerSurvey) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "pid {} {}: {}; read in {}",
        survey.pid,
        sanitize(&survey.name),
        counted(survey.pagers.len(), "pager"),
        seconds(survey.took_us as f64 / 1e6)
    );
    for (number, pager) in survey.pagers.iter().enumerate() {
        pager_text(&mut text, number + 1, pager);
    }
    text
}

fn pager_text(text: &mut String, number: usize, pager: &PagerReport) {
    let _ = writeln!(
        text,
        "\nPager {number} at {:#x}, {} of addresses from {:#x} on",
        pager.record,
        bytes(pager.address_space_bytes as f64),
        pager.arena
    );
    for group in Group::ALL {
        let _ = writeln!(text, "  {}", group.heading());
        if group == Group::Thrashing {
            let _ = writeln!(text, "    {:<22} {}", "Step", sanitize(&pager.thrash_step));
        }
        for row in ROWS.iter().filter(|row| row.group == group) {
            let value = (row.value)(&pager.values.stats, &pager.values.mapped);
            let _ = writeln!(text, "    {:<22} {}", row.label, shown(row, value));
            if row.key == "standby_pages" {
                priorities(text, &pager.standby_pages_by_priority);
            }
        }
    }
    if let Some(file) = &pager.page_file {
        page_file_text(text, file);
    }
    if let Some(validation) = &pager.validation {
        validation_text(text, validation);
    }
}

fn shown(row: &Row, value: u64) -> String {
    match row.unit {
        Unit::Bytes => bytes(value as f64),
        Unit::Pages => bytes(value as f64 * PAGE_SIZE as f64),
        Unit::Times => count(value),
        Unit::Microseconds => seconds(value as f64 / 1e6),
        Unit::Percent => format!("{value}%"),
    }
}

/// The standby pages of each priority that has some.
fn priorities(text: &mut String, pages: &[u64; 8]) {
    for (priority, pages) in pages.iter().enumerate().filter(|(_, pages)| **pages > 0) {
        let size = bytes(*pages as f64 * PAGE_SIZE as f64);
        let _ = writeln!(text, "      priority {priority:<11} {size}");
    }
}

fn page_file_text(text: &mut String, file: &PageFileReport) {
    let _ = writeln!(text, "  Page file\n    {:<22} {}", "State", sanitize(&file.state));
    if let Some(problem) = &file.problem {
        let _ = writeln!(text, "    ! {}", sanitize(problem));
    }
    for (label, value) in [
        ("Size", file.bytes),
        ("Used", file.used_bytes),
        ("On disk", file.allocated_bytes),
        ("Written", file.written_bytes),
        ("Read", file.read_bytes),
    ] {
        let _ = writeln!(text, "    {label:<22} {}", bytes(value as f64));
    }
    let _ = writeln!(text, "    {:<22} {}", "Failed writes", count(file.write_failures));
    let _ = writeln!(text, "    {:<22} {}", "Failed reads", count(file.read_failures));
}

fn validation_text(text: &mut String, validation: &PagerValidation) {
    let _ = writeln!(
        text,
        "  Validated {} of {} chunks, {} pages: {}",
        validation.chunks,
        validation.all_chunks,
        count(validation.pages),
        match validation.violations.len() {
            0 => "no violation".to_owned(),
            some => counted(some, "violation"),
        }
    );
    if !validation.presence_checked {
        text.push_str("    presence of pages not checked: the pagemap of the process is unreadable\n");
    }
    if validation.unsettled_chunks > 0 {
        let _ = writeln!(
            text,
            "    {} changed whenever they were read and have no verdict",
            validation.unsettled_chunks
        );
    }
    if validation.partial {
        text.push_str("    the check ended early\n");
    }
    for violation in &validation.violations {
        let _ = writeln!(text, "    ! {}", sanitize(violation));
    }
}
