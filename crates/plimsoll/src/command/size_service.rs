//! `plimsoll size --cgroup` and `--pid`: the size of a running service.

use serde::Serialize;

use super::run::SERVICES;
use crate::cli::{Size, SizeService, Verbosity};
use plimsoll_lab::service::{self, Options, Outcome, ServiceChoice};
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::quantity::{seconds, significant};
use plimsoll_model::recording::service::{ServiceSettings, ServiceSize};
use plimsoll_model::sanitize::sanitize;
use plimsoll_model::scenario::SizeExpr;
use plimsoll_report::terminal;

/// The document of `--json`. Without a size, the service ended before its first sample.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    size: Option<&'a ServiceSize>,
    /// Reason for an early end.
    early: Option<String>,
    recording: &'a std::path::Path,
    report: &'a std::path::Path,
}

pub(super) fn size(options: &Size, verbosity: &Verbosity) -> Result<Exit, Failure> {
    let service = &options.service;
    let settings = Options {
        choice: choice(service),
        target: service.psi / 100.0,
        duration: service.duration,
        floor: service.floor.as_deref().map(floor).transpose()?.unwrap_or(0),
        output: options.output.clone(),
    };
    let begin = |settings: &ServiceSettings| {
        if !verbosity.quiet {
            super::print_error(&announcement(settings, service));
        }
    };
    let outcome = service::size(&settings, &SERVICES, begin, &mut |text| {
        super::print_error(&format!("warning: {text}"));
    })?;
    present(&outcome, options.json, verbosity)?;
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

fn floor(text: &str) -> Result<u64, Failure> {
    let wrong = |why: &str| {
        let text = format!("cannot use --floor `{text}`: {why}; give bytes, for instance 512M");
        Failure::message(Exit::Usage, text)
    };
    match text.parse() {
        Ok(SizeExpr::Bytes(bytes)) => Ok(bytes),
        Ok(SizeExpr::Share { .. }) => Err(wrong("a share")),
        Err(error) => Err(wrong(&error.to_string())),
    }
}

fn announcement(settings: &ServiceSettings, service: &SizeService) -> String {
    format!(
        "sizing the cgroup {} for {}: {} sinks until tasks stall in {}% of the time, and is `{}` again at the end; Ctrl-C \
         ends early",
        settings.cgroup,
        seconds(service.duration.as_secs_f64()),
        settings.cap_file,
        significant(settings.target_percent),
        sanitize(&settings.cap_before)
    )
}

fn present(outcome: &Outcome, json: bool, verbosity: &Verbosity) -> Result<(), Failure> {
    if json {
        return super::print_json(&Document {
            size: outcome.results.service.as_ref(),
            early: outcome.early.as_ref().map(ToString::to_string),
            recording: &outcome.directory,
            report: &outcome.page,
        });
    }
    let text = terminal::service(&outcome.results, super::width_of_stdout());
    super::print_styled(&format!("{text}\nRecording  {}\n", outcome.directory.display()))?;
    super::print_linked("Report     ", &outcome.page, verbosity)
}
