//! Where a scenario's text comes from: a file, the binary itself or the command line.

use std::io::{ErrorKind, Read};
use std::path::Path;

use super::error::ScenarioError;
use super::nearest::near;
use super::source_text::Source;
use crate::regular_file::{self, Links, Refusal};

/// Largest scenario file that is read: 1 MiB.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// A scenario that the binary carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// The name that `plimsoll run` takes.
    pub name: &'static str,
    /// One line; the file has the same.
    pub title: &'static str,
    pub text: &'static str,
}

const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "tour",
        title: "A tour of the machine under memory pressure: every experiment in a short form, in about two minutes",
        text: include_str!("../../scenarios/tour.toml"),
    },
    Builtin {
        name: "compression",
        title: "Fill, trim, restore and release memory that compresses badly, well and very well",
        text: include_str!("../../scenarios/compression.toml"),
    },
    Builtin {
        name: "compression-devices",
        title: "The compression experiment over zram, zswap, a swap file and the pager, side by side",
        text: include_str!("../../scenarios/compression-devices.toml"),
    },
    Builtin {
        name: "thrash",
        title: "Processes that together need more memory than the limit, started one after the other",
        text: include_str!("../../scenarios/thrash.toml"),
    },
    Builtin {
        name: "thrash-e1",
        title: "Experiment e1 of the thrashing benchmark: 1000 writes a cycle",
        text: include_str!("../../scenarios/thrash-e1.toml"),
    },
    Builtin {
        name: "thrash-e2",
        title: "Experiment e2 of the thrashing benchmark: 10000 writes a cycle",
        text: include_str!("../../scenarios/thrash-e2.toml"),
    },
    Builtin {
        name: "thrash-e3",
        title: "Experiment e3 of the thrashing benchmark: a second of sleep between cycles",
        text: include_str!("../../scenarios/thrash-e3.toml"),
    },
    Builtin {
        name: "thrash-e4",
        title: "Experiment e4 of the thrashing benchmark: a consumer every second",
        text: include_str!("../../scenarios/thrash-e4.toml"),
    },
    Builtin {
        name: "loadline",
        title: "The load line of a machine: the load that it carries with each swap device",
        text: include_str!("../../scenarios/loadline.toml"),
    },
    Builtin {
        name: "loadline-patterns",
        title: "The load line of a machine for five access patterns",
        text: include_str!("../../scenarios/loadline-patterns.toml"),
    },
    Builtin {
        name: "page-cluster",
        title: "Read-ahead from swap: the load line of a machine with vm.page-cluster as it is, and without",
        text: include_str!("../../scenarios/page-cluster.toml"),
    },
    Builtin {
        name: "swappiness",
        title: "Page cache or swap: the load line of a machine with vm.swappiness as it is, and from 10 to 200",
        text: include_str!("../../scenarios/swappiness.toml"),
    },
    Builtin {
        name: "wscap",
        title: "Cost of a cap on the working set: scans of memory larger than the cap",
        text: include_str!("../../scenarios/wscap.toml"),
    },
    Builtin {
        name: "wscap-sweep",
        title: "Cost of a cap on the working set: sizes from half to four times the cap",
        text: include_str!("../../scenarios/wscap-sweep.toml"),
    },
    Builtin {
        name: "map",
        title: "Cost of mapping memory, releasing it and using it again",
        text: include_str!("../../scenarios/map.toml"),
    },
    Builtin {
        name: "contention",
        title: "Two programs and too little memory: which one is trimmed, and when",
        text: include_str!("../../scenarios/contention.toml"),
    },
    Builtin {
        name: "heap-replacement",
        title: "Cost of an allocation and a free on each allocator, in a heap full of blocks",
        text: include_str!("../../scenarios/heap-replacement.toml"),
    },
    Builtin {
        name: "heap-larson",
        title: "Cost of frees by other threads than the allocating one, while threads come and go",
        text: include_str!("../../scenarios/heap-larson.toml"),
    },
    Builtin {
        name: "heap-aggressive",
        title: "Speed of growing and shrinking heaps: 50 MB in blocks of 32 bytes in each thread",
        text: include_str!("../../scenarios/heap-aggressive.toml"),
    },
    Builtin {
        name: "heap-fragmentation",
        title: "RAM of heaps with 70 MB of blocks of shifting sizes, and after all frees",
        text: include_str!("../../scenarios/heap-fragmentation.toml"),
    },
    Builtin {
        name: "heap-scaling",
        title: "Throughput of heaps with 1 to 512 threads, against the ideal",
        text: include_str!("../../scenarios/heap-scaling.toml"),
    },
];

/// The scenarios that the binary carries, by name.
pub fn builtin() -> &'static [Builtin] {
    BUILTINS
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
        return Ok(Source::new(format!("{} (built in)", builtin.name), builtin.text));
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
