//! Where a scenario's text comes from: a file, the binary itself or the command line.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::LazyLock;

use super::builtin::{Builtin, builtins};
use super::error::ScenarioError;
use super::nearest::near;
use super::source_text::Source;
use super::workload_kind::WorkloadKind;
use crate::regular_file::{self, Links, Refusal};

/// Largest scenario file that is read: 1 MiB.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// The scenario of all workloads, which belongs to none of them.
const TOUR: &[Builtin] = builtins! {
    "tour" "A tour of the machine under memory pressure: every experiment in a short form, in about two minutes";
};

/// The scenarios that the binary carries: the tour, then those of each workload.
static BUILTINS: LazyLock<Vec<Builtin>> = LazyLock::new(|| {
    let of_workloads = WorkloadKind::ALL.into_iter().flat_map(WorkloadKind::scenarios);
    TOUR.iter().chain(of_workloads).copied().collect()
});

/// The scenarios that the binary carries.
pub fn builtin() -> &'static [Builtin] {
    &BUILTINS
}

impl Source {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// Not there, not readable, not a regular file, larger than [`MAX_FILE_BYTES`], not UTF-8.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let unreadable = |source| ScenarioError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let too_large = |bytes| ScenarioError::TooLarge {
            path: path.to_owned(),
            bytes,
            max: MAX_FILE_BYTES,
        };
        let file = match regular_file::open(path, Links::Followed, MAX_FILE_BYTES) {
            Ok(file) => file,
            Err(Refusal::System(source)) => return Err(unreadable(source)),
            Err(Refusal::Size(bytes)) => return Err(too_large(bytes)),
            Err(Refusal::Kind(what)) => {
                return Err(ScenarioError::NotAFile {
                    path: path.to_owned(),
                    what,
                });
            }
        };
        // It may grow meanwhile.
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(too_large(bytes.len() as u64));
        }
        let text = String::from_utf8(bytes).map_err(|error| ScenarioError::NotText {
            path: path.to_owned(),
            offset: error.utf8_error().valid_up_to(),
        })?;
        Ok(Self::new(path.display().to_string(), text))
    }
}

/// The text of a built-in scenario, or of the file at a path. A built-in name wins over a file of the same name
/// in the current folder: write `./compression` for the file.
///
/// # Errors
/// Neither a name nor a file (with the nearest names), and the errors of [`Source::read`].
pub fn find(name_or_path: &str) -> Result<Source, ScenarioError> {
    if let Some(builtin) = BUILTINS.iter().find(|b| b.name == name_or_path) {
        return Ok(Source::built_in(builtin.name, builtin.text));
    }
    match Source::read(Path::new(name_or_path)) {
        Err(ScenarioError::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Err(ScenarioError::NotFound {
                name: name_or_path.to_owned(),
                help: not_found_help(name_or_path),
            })
        }
        other => other,
    }
}

fn not_found_help(name: &str) -> String {
    let stem = name.strip_suffix(".toml").unwrap_or(name);
    let near = near(stem, BUILTINS.iter().map(|b| b.name));
    let names = if near.is_empty() {
        let all: Vec<&str> = BUILTINS.iter().map(|b| b.name).collect();
        format!("built in are: {}", all.join(", "))
    } else {
        format!("did you mean `{}`?", near.join("` or `"))
    };
    format!("{names}\na file is named by its path, for example ./my.toml")
}
