//! The manifest of a recording that begins now on this machine.

use std::collections::BTreeMap;
use std::time::SystemTime;

use plimsoll_model::recording::Now;
use plimsoll_model::recording::model::{Manifest, RECORDING_SCHEMA, SamplerSettings, Unlocked};
use plimsoll_model::scenario::Plan;

use crate::{host, monotonic_ns};

/// The time, on both clocks of a recording.
pub fn now() -> Now {
    Now {
        utc: humantime::format_rfc3339_nanos(SystemTime::now()).to_string(),
        monotonic_ns: monotonic_ns(),
    }
}

/// The command line of this process. An argument may be any bytes; as text, U+FFFD replaces those that are no UTF-8.
pub fn command_line() -> Vec<String> {
    let arguments = std::env::args_os();
    arguments
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect()
}

/// The manifest of the recording `run` of `plan`, whose sampler has yet to start.
pub fn new_manifest(run: String, plan: Plan, hz: u32) -> Manifest {
    let now = now();
    Manifest {
        schema: RECORDING_SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        run,
        command: command_line(),
        monotonic_start_ns: now.monotonic_ns,
        started: now.utc,
        plan,
        sampler: SamplerSettings {
            hz,
            locked: Err(Unlocked("the sampler did not start".to_owned())),
        },
        swap_slots: Vec::new(),
        host: host::host(),
        calibration: None,
        missing: Vec::new(),
        resumed: Vec::new(),
        checksums: BTreeMap::new(),
    }
}
