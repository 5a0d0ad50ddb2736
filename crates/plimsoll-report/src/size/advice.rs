//! The settings that give a program its memory.
//!
//! The soft setting is the measured need. The hard one, at which the kernel kills, adds headroom: a quarter, or the width of
//! the knee's interval if that is more.

use crate::memory_settings::{self, kubernetes, properties, systemd, whole};
use plimsoll_model::recording::size::{EngineSize, HeadroomReason, SizeAdvice, SizedSystem};
use plimsoll_model::scenario::{ProgramRun, Subject};

/// Adds headroom and settings to an engine with a recommended limit.
pub(super) fn add(engine: &mut EngineSize, run: &ProgramRun) {
    let Some(need) = engine.recommended_bytes else {
        return;
    };
    let (bytes, reason) = headroom(engine, need);
    engine.headroom_bytes = Some(bytes);
    engine.headroom_reason = Some(reason);
    let hard = need.saturating_add(bytes);
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
    let share = memory_settings::headroom(need);
    let ends = engine.knee_low_bytes.zip(engine.knee_high_bytes);
    let width = ends.map_or(0, |(low, high)| high.saturating_sub(low));
    let (bytes, reason) = match width > share {
        true => (width, HeadroomReason::Interval),
        false => (share, HeadroomReason::Share),
    };
    (whole(bytes), reason)
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
