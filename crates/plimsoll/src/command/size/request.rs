//! The options of `plimsoll size`, checked.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use plimsoll_model::exit::Failure;
use plimsoll_model::scenario::workloads::command::MetricPattern;
use plimsoll_model::scenario::{PageCache, Subject};

use super::error::SizeError;
use crate::cli::{Size, SizeCache};
use crate::command::trim;

/// Tolerated slowdowns, as shares.
const TOLERATED: std::ops::RangeInclusive<f64> = 0.001..=100.0;

/// The object of a sizing, and its settings.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) command: Vec<String>,
    pub(super) engines: Vec<Subject>,
    pub(super) repeat: u32,
    pub(super) tolerate: f64,
    pub(super) metric: Option<String>,
    pub(super) higher_is_better: bool,
    pub(super) same_output: bool,
    pub(super) cache: PageCache,
    pub(super) budget: Option<u64>,
}

impl Request {
    /// Checks the options. Without `--engine` it has no engines.
    pub(super) fn of(options: &Size) -> Result<Request, Failure> {
        let request = Request {
            command: words(&options.program)?,
            engines: engines(&options.engine)?,
            repeat: options.repeat,
            tolerate: tolerate(&options.tolerate)?,
            metric: options.metric.as_deref().map(metric).transpose()?,
            higher_is_better: options.higher_is_better,
            same_output: options.same_output,
            cache: match options.cache {
                SizeCache::Warm => PageCache::Warm,
                SizeCache::Cold => PageCache::Cold,
            },
            budget: options
                .fail_if_needs_more_than
                .as_deref()
                .map(|text| trim::size("--fail-if-needs-more-than", text))
                .transpose()?,
        };
        request.check_program()?;
        Ok(request)
    }

    /// The program's file name.
    pub(super) fn program(&self) -> &str {
        let name = self.command.first().map_or("", String::as_str);
        Path::new(name)
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or(name)
    }

    /// Refuses a program that no shell would start.
    fn check_program(&self) -> Result<(), SizeError> {
        let program = self.command.first().map_or("", String::as_str);
        let refuse = |cause| {
            Err(SizeError::Program {
                program: program.to_owned(),
                cause,
            })
        };
        let is_file = |path: &Path| path.is_file();
        let executable = |path: &Path| {
            let mode = path.metadata().map(|metadata| metadata.permissions().mode());
            is_file(path) && mode.is_ok_and(|mode| mode & 0o111 != 0)
        };
        if program.contains('/') {
            return match Path::new(program) {
                path if executable(path) => Ok(()),
                path if is_file(path) => refuse("the file is not executable"),
                path if path.exists() => refuse("not a file"),
                _ => refuse("no such file"),
            };
        }
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&folders).any(|folder| executable(&folder.join(program)));
        match found {
            true => Ok(()),
            false => refuse("no such program in PATH"),
        }
    }
}

fn words(program: &[OsString]) -> Result<Vec<String>, SizeError> {
    let word = |word: &OsString| {
        let text = word.to_str().map(str::to_owned);
        text.ok_or_else(|| SizeError::NotText(word.clone()))
    };
    program.iter().map(word).collect()
}

fn engines(names: &[String]) -> Result<Vec<Subject>, SizeError> {
    let mut engines = Vec::new();
    for name in names {
        let engine: Subject = name.trim().parse().map_err(|cause| SizeError::Engine {
            given: name.clone(),
            cause,
        })?;
        if engine.allocator().is_some() {
            return Err(SizeError::Allocator(name.clone()));
        }
        if engine.pager().is_some() {
            return Err(SizeError::Pager(name.clone()));
        }
        if engines.contains(&engine) {
            return Err(SizeError::EngineTwice(name.clone()));
        }
        engines.push(engine);
    }
    Ok(engines)
}

fn tolerate(text: &str) -> Result<f64, SizeError> {
    let percent = text
        .strip_suffix('%')
        .and_then(|number| number.trim().parse().ok());
    percent
        .map(|percent: f64| percent / 100.0)
        .filter(|share| TOLERATED.contains(share))
        .ok_or_else(|| SizeError::Tolerate(text.to_owned()))
}

fn metric(text: &str) -> Result<String, SizeError> {
    match MetricPattern::new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(cause) => Err(SizeError::Metric {
            given: text.to_owned(),
            cause,
        }),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A request of these words on no engine.
    pub(in crate::command::size) fn request(words: &[&str]) -> Request {
        Request {
            command: words.iter().map(|word| (*word).to_owned()).collect(),
            engines: vec![Subject::NoSwap],
            repeat: 3,
            tolerate: 0.05,
            metric: None,
            higher_is_better: false,
            same_output: false,
            cache: PageCache::Cold,
            budget: None,
        }
    }

    #[test]
    fn a_tolerance_is_a_percentage() {
        for (text, share) in [("5%", 0.05), ("0.1%", 0.001), ("150 %", 1.5), ("10000%", 100.0)] {
            assert_eq!(tolerate(text).ok(), Some(share), "{text}");
        }
        for text in ["", "%", "5", "0.05", "-1%", "0%", "nan%", "inf%", "10001%", "5%%"] {
            assert!(matches!(tolerate(text), Err(SizeError::Tolerate(_))), "{text}");
        }
    }

    #[test]
    fn engines_are_places_of_pages_each_once() {
        let parse = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            engines(&names)
        };
        assert_eq!(
            parse(&["none", " zram:lz4"]).unwrap(),
            [Subject::NoSwap, Subject::Zram(Some("lz4".to_owned()))]
        );
        assert!(matches!(parse(&["floppy"]), Err(SizeError::Engine { .. })));
        assert!(matches!(parse(&["jemalloc"]), Err(SizeError::Allocator(_))));
        assert!(matches!(parse(&["pager:lz4"]), Err(SizeError::Pager(_))));
        assert!(matches!(parse(&["none", "none"]), Err(SizeError::EngineTwice(_))));
    }

    #[test]
    fn a_metric_has_exactly_one_group() {
        assert!(metric("ops/s: ([0-9.]+)").is_ok());
        for text in ["ops", "(a)(b)", "("] {
            assert!(matches!(metric(text), Err(SizeError::Metric { .. })), "{text}");
        }
    }

    #[test]
    fn a_program_is_an_executable_file() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "text").unwrap();
        let refused = |program: &str| {
            matches!(
                request(&[program]).check_program(),
                Err(SizeError::Program { .. })
            )
        };
        for program in [
            "",
            "no-such-program-in-any-path",
            "/nonexistent/program",
            folder.path().to_str().unwrap(),
            plain.to_str().unwrap(),
        ] {
            assert!(refused(program), "{program}");
        }
        assert!(!refused("sh"));
        assert!(!refused("/bin/sh"));
    }
}
