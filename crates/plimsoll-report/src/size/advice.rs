//! The settings that give a program its memory.
//!
//! The soft setting is the measured need. The hard one, at which the kernel kills, adds headroom: a quarter, or the width of
//! the knee's interval if that is more.

use plimsoll_model::recording::size::{EngineSize, HeadroomReason, SizeAdvice, SizedSystem};
use plimsoll_model::scenario::{ProgramRun, Subject};

pub(super) const MIB: u64 = 1 << 20;
/// The least headroom, as a divisor of the need.
const HEADROOM_DIVISOR: u64 = 4;

/// Adds headroom and settings to an engine with a recommended limit.
pub(super) fn add(engine: &mut EngineSize, run: &ProgramRun) {
    let Some(need) = engine.recommended_bytes else {
        return;
    };
    let (bytes, reason) = headroom(engine, need);
    engine.headroom_bytes = Some(bytes);
    engine.headroom_reason = Some(reason);
    let hard = need + bytes;
    let advice = |system, lines, premise: &str| SizeAdvice {
        system,
        soft_bytes: need,
        hard_bytes: hard,
        lines,
        premise: premise.to_owned(),
    };
    let is_none = engine.engine.parse() == Ok(Subject::NoSwap);
    let swap = &engine.engine;
    let (pods, units) = match is_none {
        true => (
            "On nodes without swap, or whose pods may not use it.".to_owned(),
            "With and without swap on the machine, which the unit does not use.".to_owned(),
        ),
        false => (
            format!(
                "On nodes with swap on {swap} and `swapBehavior: LimitedSwap` in the kubelet's configuration."
            ),
            format!("On a machine with swap on {swap}."),
        ),
    };
    engine.advice = vec![
        advice(SizedSystem::Kubernetes, kubernetes(need, hard), &pods),
        advice(SizedSystem::Systemd, systemd(need, hard, is_none), &units),
        advice(
            SizedSystem::SystemdRun,
            systemd_run(need, hard, is_none, run),
            &units,
        ),
    ];
}

/// Bytes of headroom, in whole MiB, and their reason.
fn headroom(engine: &EngineSize, need: u64) -> (u64, HeadroomReason) {
    let share = need.div_ceil(HEADROOM_DIVISOR);
    let ends = engine.knee_low_bytes.zip(engine.knee_high_bytes);
    let width = ends.map_or(0, |(low, high)| high.saturating_sub(low));
    let (bytes, reason) = match width > share {
        true => (width, HeadroomReason::Interval),
        false => (share, HeadroomReason::Share),
    };
    (bytes.next_multiple_of(MIB), reason)
}

fn kubernetes(soft: u64, hard: u64) -> Vec<String> {
    vec![
        "resources:".to_owned(),
        "  requests:".to_owned(),
        format!("    memory: {}Mi", soft / MIB),
        "  limits:".to_owned(),
        format!("    memory: {}Mi", hard / MIB),
    ]
}

/// The properties of a unit, by name.
fn properties(soft: u64, hard: u64, no_swap: bool) -> Vec<String> {
    let swap = no_swap.then(|| "MemorySwapMax=0".to_owned());
    let memory = [
        format!("MemoryHigh={}M", soft / MIB),
        format!("MemoryMax={}M", hard / MIB),
    ];
    memory.into_iter().chain(swap).collect()
}

fn systemd(soft: u64, hard: u64, no_swap: bool) -> Vec<String> {
    let mut lines = vec!["[Service]".to_owned()];
    lines.extend(properties(soft, hard, no_swap));
    lines
}

fn systemd_run(soft: u64, hard: u64, no_swap: bool, run: &ProgramRun) -> Vec<String> {
    let properties = properties(soft, hard, no_swap);
    let options: Vec<String> = properties.iter().map(|one| format!("-p {one} ")).collect();
    vec![format!(
        "systemd-run --scope {}-- {}",
        options.concat(),
        run.command_line()
    )]
}
