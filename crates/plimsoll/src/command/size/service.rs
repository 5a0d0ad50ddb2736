//! `plimsoll size --cgroup` and `--pid`: the size of a running service.

use std::time::Duration;

use serde::Serialize;

use crate::cli::{Size, SizeService, Verbosity};
use crate::command::open_page;
use crate::command::run::SERVICES;
use crate::command::{print_error, print_json, print_recording, print_styled, width_of_stdout};
use plimsoll_lab::service::{self, Options, Outcome, ServiceChoice};
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::quantity::{seconds, significant};
use plimsoll_model::recording::service::{ServiceSettings, ServiceSize};
use plimsoll_model::sanitize::sanitize;
use plimsoll_report::terminal;

/// The document of `--json`. Without a size, the service ended before its first sample.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    size: Option<&'a ServiceSize>,
    /// Reason for an early end.
    early: Option<String>,
    recording: &'a std::path::Path,
    report: Option<&'a std::path::Path>,
}

pub(super) fn size(options: &Size, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let service = &options.service;
    let settings = Options {
        choice: choice(service),
        target: service.psi / 100.0,
        duration: Duration::from_secs_f64(service.duration),
        floor: service.floor.unwrap_or(0),
        output: options.output.clone(),
    };
    let begin = |settings: &ServiceSettings| {
        if !verbosity.quiet {
            print_error(&announcement(settings, service));
        }
    };
    let outcome = service::size(&settings, &SERVICES, begin, &mut |text| {
        print_error(&format!("warning: {text}"));
    })?;
    present(&outcome, options.json, verbosity)?;
    if let (true, Some(page)) = (options.open, &outcome.recording.page) {
        open_page::open(page)?;
    }
    if let Some(early) = &outcome.early {
        return Err(Failure::message(early.exit(), early));
    }
    Ok(match outcome.undone {
        true => Exit::Done,
        false => Exit::WorkloadFailed,
    })
}

fn choice(service: &SizeService) -> ServiceChoice {
    match (&service.cgroup, service.pid) {
        (Some(path), _) => ServiceChoice::Cgroup(path.clone()),
        (None, pid) => ServiceChoice::Pid(pid.unwrap_or_default()),
    }
}

fn announcement(settings: &ServiceSettings, service: &SizeService) -> String {
    format!(
        "sizing the cgroup {} for {}: {} sinks until tasks stall in {}% of the time, and is `{}` again at the end; Ctrl-C \
         ends early",
        settings.cgroup,
        seconds(service.duration),
        settings.cap_file,
        significant(settings.target_percent),
        sanitize(&settings.cap_before)
    )
}

fn present(outcome: &Outcome, json: bool, verbosity: &Verbosity) -> Result<(), Failure> {
    if json {
        return print_json(&Document {
            size: outcome.recording.results.service.as_ref(),
            early: outcome.early.as_ref().map(ToString::to_string),
            recording: &outcome.recording.directory,
            report: outcome.recording.page.as_deref(),
        });
    }
    let text = terminal::service(&outcome.recording.results, width_of_stdout());
    print_styled(&format!("{text}\n"))?;
    let recording = &outcome.recording;
    print_recording(&recording.directory, recording.page.as_deref(), verbosity)
}
