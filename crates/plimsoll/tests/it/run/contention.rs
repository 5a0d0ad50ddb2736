//! `plimsoll run contention`.

use rustix::process::Signal;
use serde_json::Value;

use super::{Run, has_laboratory, phase_names, phase_value, phases};

/// 32 MiB held, 8 MiB more with each request, under a limit of 64 MiB.
const SMALL: [&str; 10] = [
    "--repeat",
    "1",
    "--set",
    "size=32M",
    "--set",
    "hold=0.05",
    "--set",
    "subject=zram",
    "--set",
    "class=runs20",
];

#[test]
fn the_first_program_is_trimmed_when_both_want_too_much_and_nobody_loses_a_byte() {
    if !has_laboratory() {
        return;
    }
    let ended = Run::of("contention", &SMALL).finish();
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 2, "idle, and stopped");
    for trial in ended.trials() {
        let asks: Vec<&Value> = phases(trial)
            .iter()
            .filter(|phase| {
                phase["name"]
                    .as_str()
                    .is_some_and(|name| name.starts_with("ask-"))
            })
            .collect();
        assert!(asks.len() >= 4, "{} asks", asks.len());
        let mut asked = 0.0;
        for ask in &asks {
            assert!(phase_value(ask, "asked_bytes") > asked, "asks grow: {ask:#}");
            asked = phase_value(ask, "asked_bytes");
            let (resident, swapped) = (
                phase_value(ask, "asker_resident_bytes"),
                phase_value(ask, "asker_swapped_bytes"),
            );
            assert!(
                resident + swapped > asked * 0.95,
                "the requested bytes are filled: {ask:#}"
            );
        }
        let (first, last) = (asks[0], asks[asks.len() - 1]);
        assert_eq!(
            phase_value(first, "trimmed"),
            0.0,
            "there is room for the first request: {first:#}"
        );
        let both = phase_value(last, "holder_swapped_bytes") + phase_value(last, "asker_swapped_bytes");
        assert!(both > 4e6, "what has no room is in swap: {last:#}");
        let names = phase_names(trial);
        assert_eq!(
            names[names.len() - 3..],
            ["restore-holder", "restore-asker", "release"]
        );
        let metrics = &trial["metrics"];
        for name in [
            "slowest_ask_s",
            "holder_lost_percent",
            "asker_lost_percent",
            "holder_restore_s",
        ] {
            assert!(
                metrics[name].as_f64().is_some_and(|value| value >= 0.0),
                "{name}: {metrics:#}"
            );
        }
        let demand = metrics["trim_start_percent"].as_f64().expect("it was trimmed");
        assert!((90.0..200.0).contains(&demand), "{demand}");
    }
}

#[test]
fn a_run_that_is_interrupted_leaves_no_stopped_program_behind() {
    if !has_laboratory() {
        return;
    }
    let run = Run::of(
        "contention",
        &[&SMALL[..], &["--set", "suspended=true", "--set", "hold=1"]].concat(),
    );
    let mut started = run.start();
    started.await_event("phase-end", "ask-1");
    let worker = started.worker();
    started.signal(Signal::INT);
    let ended = started.finish();
    assert_ne!(ended.code, 0, "{}", ended.stderr);
    assert!(super::ends_soon(worker), "worker {worker} outlived its run");
}

#[test]
fn an_ask_that_has_no_room_is_refused_before_anything_is_done() {
    let tight = ["--set", "subject=none", "--set", "limit=110% size"];
    let ended = Run::of("contention", &[&SMALL[..], &tight].concat()).finish();
    ended.assert_refused(1, &["32.0 MiB", "8.00 MiB", "`limit`"]);
}
