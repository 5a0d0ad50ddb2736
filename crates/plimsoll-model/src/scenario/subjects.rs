//! The subjects of a section: those that its work can run on.

use super::assignment::{Entry, Key};
use super::error::{Invalid, Place, Problem};
use super::model::{Machine, Subject};
use super::value::Value;
use super::workload_kind::WorkloadKind;

/// Puts every allocator of the machine where `installed` stands, or no subject.
pub(super) fn name_allocators(entries: &mut Vec<Entry>, machine: &Machine, section: &Place) {
    if let Some(key) =
        Key::find("subject").filter(|key| !entries.iter().any(|entry| entry.key.name == key.name))
    {
        entries.push(Entry {
            key,
            place: section.clone(),
            values: vec![(Value::Installed, section.clone())],
            together: false,
        });
    }
    for entry in entries.iter_mut().filter(|entry| entry.key.name == "subject") {
        let named = |(value, place): (Value, Place)| match value {
            Value::Installed => {
                let subjects = machine.allocators.subjects().map(Subject::Allocator);
                subjects
                    .map(|subject| (Value::Subject(subject), place.clone()))
                    .collect()
            }
            value => vec![(value, place)],
        };
        entry.values = std::mem::take(&mut entry.values)
            .into_iter()
            .flat_map(named)
            .collect();
    }
}

/// Refuses an allocator for work that is done to the kernel's memory, and a place for pages for work on malloc.
pub(super) fn check_subjects(entries: &[Entry], kind: WorkloadKind) -> Result<(), Box<Invalid>> {
    let of_heap = kind.tests_allocators();
    let subjects = entries.iter().filter(|entry| entry.key.name == "subject");
    for (value, place) in subjects.flat_map(|entry| &entry.values) {
        let allocator = match value {
            Value::Subject(subject) => subject.allocator().is_some(),
            _ => true,
        };
        if allocator != of_heap {
            let (is, wants) = match of_heap {
                true => (
                    "a place for pages",
                    "an allocator, such as installed, glibc or jemalloc",
                ),
                false => (
                    "an allocator",
                    "a place for pages, such as zram, swapfile or none",
                ),
            };
            let message = format!(
                "`{value}` is {is}, and the work `{}` does nothing to it",
                kind.name()
            );
            return Err(place
                .error(Problem::BadValue, message, "not a subject of this work")
                .help(format!("the subject of `{}` is {wants}", kind.name())));
        }
        if matches!(value, Value::Subject(Subject::Pager(_))) && !kind.tests_pagers() {
            let with: Vec<String> = WorkloadKind::ALL
                .into_iter()
                .filter(|kind| kind.tests_pagers())
                .map(|kind| format!("`{}`", kind.name()))
                .collect();
            let message = format!("`{value}` cannot hold the memory of the work `{}`", kind.name());
            return Err(place
                .error(Problem::BadValue, message, "not a subject of this work")
                .help(format!(
                    "the work {} can run on a pager; name another subject for this section, such as zram",
                    with.join(", ")
                )));
        }
    }
    Ok(())
}

/// Takes the pagers out of the subjects of a section. Returns them as text.
pub(super) fn take_pagers(entries: &mut [Entry]) -> Vec<String> {
    let mut taken = Vec::new();
    for entry in entries.iter_mut().filter(|entry| entry.key.name == "subject") {
        entry.values.retain(|(value, _)| {
            let is_pager = matches!(value, Value::Subject(Subject::Pager(_)));
            if is_pager {
                taken.push(value.to_string());
            }
            !is_pager
        });
    }
    taken
}

/// The subjects that a section leaves out, and the consequence; `None` without one.
pub(super) fn omission(
    name: &str,
    kind: WorkloadKind,
    omitted: &[String],
    is_left_out: bool,
) -> Option<String> {
    let cause = format!(
        "the work `{}` cannot run on `{}`",
        kind.name(),
        omitted.join("`, `")
    );
    match (omitted.is_empty(), is_left_out) {
        (true, _) => None,
        (false, true) => Some(format!(
            "the section `{name}` is left out: {cause}; `--set {name}.subject=zram` runs it"
        )),
        (false, false) => Some(format!(
            "the section `{name}` runs on the other subjects alone: {cause}"
        )),
    }
}

/// The trials of a pager that a section leaves out, since it does not take this value of a sweep.
pub(super) fn unfit_omission(section: &str, subject: &Subject, key: &str, value: &str) -> String {
    format!(
        "the section `{section}` leaves out the trials of `{subject}` with `{key} = \"{value}\"`, which a pager does not take"
    )
}
