//! Results and the last of the samples in Prometheus' text format.

use std::io::{self, Write};
use std::time::SystemTime;

use super::exposition::{Exposition, Families, labels};
use crate::workloads::find_metric;
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::{Manifest, Phase, Results, Trial, TrialStatus};

/// Writes the trials' results as gauges with labels, and the last sample as gauges and counters.
///
/// # Errors
/// Those of `output`.
pub fn prometheus(recording: &Recording, results: &Results, output: &mut impl Write) -> io::Result<()> {
    let manifest = &recording.manifest;
    let mut families = Families::default();
    run(&mut families, manifest, results);
    for trial in &results.trials {
        add_trial(&mut families, manifest, trial);
    }
    last_sample(&mut families, recording);
    families.write(Exposition::Prometheus, output)
}

fn run(families: &mut Families, manifest: &Manifest, results: &Results) {
    let status = word(&results.status);
    let labels = labels(&[
        ("run", &manifest.run),
        ("scenario", &manifest.plan.scenario),
        ("status", &status),
        ("version", &manifest.tool_version),
        ("hostname", &manifest.host.hostname),
        ("kernel", &manifest.host.kernel),
    ]);
    families.info("plimsoll_run", "The run; its properties are labels.", &labels);
    let run = run_label(manifest);
    let started = humantime::parse_rfc3339(&manifest.started).ok();
    let since_1970 = started.and_then(|started| started.duration_since(SystemTime::UNIX_EPOCH).ok());
    if let Some(since_1970) = since_1970 {
        let seconds = since_1970.as_millis() as f64 / 1e3;
        families.gauge(
            "plimsoll_run_start_time_seconds",
            "Start of the run, in seconds since 1970.",
            &run,
            seconds,
        );
    }
    if let Some(calibration) = &results.calibration {
        let values = serde_json::to_value(calibration).unwrap_or_default();
        for (name, value) in values.as_object().into_iter().flatten() {
            let (name, value) = in_base_units(name, value.as_f64().unwrap_or(f64::NAN));
            families.gauge(
                &format!("plimsoll_calibration_{name}"),
                "Speeds and latencies of this machine without pressure, measured at the start of the run.",
                &run,
                value,
            );
        }
    }
    let sampler = &results.sampler;
    families.gauge(
        "plimsoll_run_sampler_cpu_seconds",
        "CPU time of the sampling thread over the run.",
        &run,
        sampler.cpu_s,
    );
    families.gauge(
        "plimsoll_run_missed_ticks",
        "Samples that were due and never taken.",
        &run,
        sampler.missed as f64,
    );
}

fn add_trial(families: &mut Families, manifest: &Manifest, trial: &Trial) {
    let class = trial.params.get("class").map_or("", String::as_str);
    let repeat = trial.repeat.to_string();
    let with_status = |status: TrialStatus| {
        labels(&[
            ("run", &manifest.run),
            ("scenario", &manifest.plan.scenario),
            ("trial", &trial.id),
            ("workload", &trial.workload),
            ("subject", &trial.subject),
            ("class", class),
            ("repeat", &repeat),
            ("status", &word(&status)),
        ])
    };
    let whole = with_status(trial.status);
    families.gauge(
        "plimsoll_trial_verified",
        "Whether all contents were verified and right: 1 or 0.",
        &whole,
        f64::from(u8::from(trial.verified)),
    );
    let duration = trial.span_ns.1.saturating_sub(trial.span_ns.0) as f64 / 1e9;
    families.gauge(
        "plimsoll_trial_duration_seconds",
        "Time from the trial's start to its end.",
        &whole,
        duration,
    );
    for (name, value) in &trial.metrics {
        let help = find_metric(name).map_or("A metric of the trial.", |metric| metric.meaning);
        let of = with_status(trial.status_of(name));
        let (name, value) = in_base_units(name, *value);
        families.gauge(&format!("plimsoll_trial_{name}"), help, &of, value);
    }
    for (list, values) in &trial.lists {
        for (index, value) in values.iter().enumerate() {
            let (name, value) = in_base_units(list, *value);
            families.gauge(
                &format!("plimsoll_trial_list_{name}"),
                "A metric of the trial with a list of values; index counts them from 1.",
                &format!("{whole},{}", labels(&[("index", &(index + 1).to_string())])),
                value,
            );
        }
    }
    for phase in &trial.phases {
        add_phase(
            families,
            &format!("{whole},{}", labels(&[("phase", &phase.name)])),
            phase,
        );
    }
}

fn add_phase(families: &mut Families, of: &str, phase: &Phase) {
    let values = [
        (
            "duration_seconds",
            "Wall time of the phase's own work.",
            phase.seconds,
        ),
        ("bytes", "Bytes that the phase moved.", phase.bytes as f64),
        (
            "bytes_per_second",
            "Bytes that the phase moved, over its duration.",
            phase.gb_per_s * 1e9,
        ),
    ];
    for (name, help, value) in values {
        families.gauge(&format!("plimsoll_phase_{name}"), help, of, value);
    }
    for (mode, seconds) in [
        ("user", phase.cpu_user_s),
        ("system", phase.cpu_system_s),
        ("kernel_threads", phase.cpu_kernel_threads_s),
    ] {
        families.gauge(
            "plimsoll_phase_cpu_seconds",
            "CPU time during the phase: of the workers, and of the kernel threads that manage memory.",
            &format!("{of},{}", labels(&[("mode", mode)])),
            seconds,
        );
    }
    for (kind, count) in [("minor", phase.minor_faults), ("major", phase.major_faults)] {
        families.gauge(
            "plimsoll_phase_faults",
            "Page faults of the workers during the phase.",
            &format!("{of},{}", labels(&[("kind", kind)])),
            count as f64,
        );
    }
    for (name, value) in &phase.values {
        let (name, value) = in_base_units(name, *value);
        families.gauge(
            &format!("plimsoll_phase_value_{name}"),
            "A value of the phase that its kind of work measured.",
            of,
            value,
        );
    }
    for (function, share) in &phase.profile {
        families.gauge(
            "plimsoll_phase_profile_ratio",
            "Share of the samples of the worker's CPU time that fell into a function of the kernel, 0 to 1.",
            &format!("{of},{}", labels(&[("function", function)])),
            *share / 100.0,
        );
    }
    for (when, categories) in [("before", &phase.before), ("after", &phase.after)] {
        for (category, bytes) in categories.iter() {
            families.gauge(
                "plimsoll_phase_memory_bytes",
                "Memory of the machine by category, just before and just after the phase.",
                &format!("{of},{}", labels(&[("when", when), ("category", category)])),
                bytes as f64,
            );
        }
    }
}

fn last_sample(families: &mut Families, recording: &Recording) {
    let samples = &recording.samples;
    let Some(last) = samples.len().checked_sub(1) else {
        return;
    };
    let run = run_label(&recording.manifest);
    families.gauge(
        "plimsoll_sample_age_seconds",
        "Time from the start of the recording to the last sample.",
        &run,
        samples.t_ns()[last] as f64 / 1e9,
    );
    families.sample(&samples.row(last), recording.manifest.host.page_size, &run);
}

/// A value whose name has its unit at the end, with its name and the number in base units. Characters that no name may have
/// become `_`.
fn in_base_units(name: &str, value: f64) -> (String, f64) {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let units = [
        ("_gb_per_s", "_bytes_per_second", value * 1e9),
        ("_per_s", "_per_second", value),
        ("_s", "_seconds", value),
        ("_us", "_seconds", value / 1e6),
        ("_ns", "_seconds", value / 1e9),
        // An ending that only counters have.
        ("_total", "", value),
    ];
    for (ending, base, value) in units {
        if let Some(stem) = plain.strip_suffix(ending) {
            return (format!("{stem}{base}"), value);
        }
    }
    (plain, value)
}

fn run_label(manifest: &Manifest) -> String {
    labels(&[("run", &manifest.run)])
}

/// A value of an enum as its documents have it.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
