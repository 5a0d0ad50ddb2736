//! Checks of the means of measurement: performance events, locked memory, allocators.

use super::caller::IPC_LOCK;
use super::{About, Cause, Check, Group, Look, Outcome, State, USABLE, size};
use plimsoll_lab::environment::allocators_below;
use plimsoll_model::scenario::KNOWN_ALLOCATORS;
use plimsoll_proc::resource_limits::Limit;
use plimsoll_proc::sysctl;

/// Locked bytes that suffice for the buffers and the stack of a sampler at 100 Hz.
const ENOUGH_LOCKED: u64 = 64 << 20;

pub(super) fn perf_events(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "perf-events",
        group: Group::Measuring,
        title: "performance events",
        lost: "no CPU share of the fault path; times and fault counts come from /proc and remain",
    };
    let paranoid = look.tree.read(sysctl::PERF_EVENT_PARANOID);
    let units = look.tree.list("sys/bus/event_source/devices");
    let software = &look.probes.perf_software;
    let hardware = &look.probes.perf_hardware;
    let user = &look.probes.perf_user;
    let words = |outcome: &Outcome| match outcome {
        Ok(()) => "usable".to_owned(),
        Err(errno) => format!("not usable ({errno})"),
    };
    let found = format!(
        "software events {}{}, CPU cycles {}; perf_event_paranoid {}; units: {}",
        words(software),
        if user.is_ok() && software.is_err() {
            ", usable for user code only"
        } else {
            ""
        },
        words(hardware),
        paranoid.as_deref().unwrap_or("absent"),
        if units.is_empty() {
            "none".to_owned()
        } else {
            units.join(" ")
        },
    );
    let state = match (software, hardware) {
        (Ok(()), Ok(())) => USABLE,
        (Err(_), Err(_)) if user.is_err() => (State::Missing, Cause::NotPermitted),
        (Err(_), _) => (State::Limited, Cause::NotPermitted),
        (Ok(()), Err(_)) => (State::Limited, Cause::Incomplete),
    };
    let mut enable = "sudo sysctl kernel.perf_event_paranoid=1".to_owned();
    if look.container.is_some() {
        enable.push_str("\ndocker run --cap-add PERFMON --security-opt seccomp=unconfined ...");
    }
    if software.is_ok() && hardware.is_err() {
        enable = "# on the host: add a performance unit to the guest: qemu -cpu host,pmu=on".to_owned();
    }
    ABOUT
        .check(state, found, enable)
        .with("user_code", user.is_ok())
        .with("software", software.is_ok())
        .with("hardware", hardware.is_ok())
}

pub(super) fn locked_memory(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "locked-memory",
        group: Group::Measuring,
        title: "locked memory",
        lost: "the kernel can reclaim the sampler's pages too: ticks are late under high pressure",
    };
    let capable = look.caller.has(IPC_LOCK);
    let limit = match look.caller.memlock {
        Some(Limit::Unlimited) => "no limit".to_owned(),
        Some(Limit::Bytes(bytes)) => size(bytes),
        None => "unknown".to_owned(),
    };
    let enough = match look.caller.memlock {
        Some(Limit::Unlimited) => true,
        Some(Limit::Bytes(bytes)) => bytes >= ENOUGH_LOCKED,
        None => false,
    };
    let state = match (capable || enough, look.caller.memlock) {
        (true, _) => USABLE,
        (false, Some(_)) => (State::Limited, Cause::TooSmall),
        (false, None) => (State::Unknown, Cause::Hidden),
    };
    let found = format!(
        "RLIMIT_MEMLOCK {limit}, CAP_IPC_LOCK {}",
        if capable { "yes" } else { "no" }
    );
    let enable = if look.container.is_some() {
        "docker run --ulimit memlock=-1 ...   # or --cap-add IPC_LOCK"
    } else {
        "sudo prlimit --pid $$ --memlock=unlimited   # for this shell and its children"
    };
    ABOUT.check(state, found, enable)
}

pub(super) fn allocators(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "allocators",
        group: Group::Measuring,
        title: "allocators",
        lost: "the heap scenarios compare Plimsoll's heap with the C library's malloc only",
    };
    let found = allocators_below(&look.tree.path("/"));
    let named = |(name, path): &(&str, std::path::PathBuf)| {
        let file = path.file_name().unwrap_or_default();
        format!("{name} ({})", file.to_string_lossy())
    };
    let enable = "sudo apt install libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0   # names of Debian 12";
    if found.is_empty() {
        let known: Vec<&str> = KNOWN_ALLOCATORS.iter().map(|known| known.name).collect();
        return ABOUT.check(
            (State::Limited, Cause::Absent),
            format!("none of {}", known.join(", ")),
            enable,
        );
    }
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    let found: Vec<String> = found.iter().map(named).collect();
    ABOUT.check(USABLE, found.join(", "), enable).with("names", names)
}
