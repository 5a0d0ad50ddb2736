//! Each confounder: seen where it is, not seen where it is not, and the trials it spoils are the right ones.

use plimsoll::analysis::confounders::confounders;
use plimsoll::analysis::judge;
use plimsoll::recording::Samples;
use plimsoll::recording::model::{Confounder, Manifest, Trial, TrialStatus};
use plimsoll::sample::Row;
use plimsoll::sample::columns::col;
use plimsoll::scenario::{FillClass, ThpMode};

use crate::recording::{manifest, plan, trial};

const SIZE: i64 = 64 << 20;

/// Two trials of a second each on a quiet machine of 2 CPUs, sampled at 20 Hz; `disturb` adds to each row, told the
/// seconds since the start of the second trial (negative before it).
fn quiet(disturb: impl Fn(&mut Row, f64)) -> (Samples, Manifest, Vec<Trial>) {
    let plan = plan(&[FillClass::Random], 2);
    let trials = vec![trial(&plan, 0, TrialStatus::Ok), trial(&plan, 1, TrialStatus::Ok)];
    let rows: Vec<Row> = (0..40_u64)
        .map(|tick| {
            let mut row = Row::empty(tick * 50_000_000);
            let us = tick as i64 * 50_000;
            // The worker keeps a CPU busy through its phase and idles outside of it; here it is busy throughout.
            for (column, value) in [
                (col::CPU_USER_US, us * 26 / 30),
                (col::CPU_SYSTEM_US, 0),
                (col::CPU_IDLE_US, us),
                (col::CPU_STEAL_US, 0),
                (col::DAMON_SZ_APPLIED, 5_000_000),
                (col::ZSWPOUT, 70),
                (col::SWAP_TOTAL, 1 << 30),
                (col::SWAP_FREE, 1 << 30),
                (col::CGROUP_SWAP, 0),
            ] {
                row.set(column, value);
            }
            disturb(&mut row, tick as f64 / 20.0 - 1.0);
            row
        })
        .collect();
    (Samples::from_rows(&rows), manifest("quiet", plan), trials)
}

/// Adds to a column as time goes by in the second trial.
fn grow(column: usize, per_second: i64) -> impl Fn(&mut Row, f64) {
    move |row, seconds| {
        let before = row.get(column).unwrap_or(0);
        row.set(column, before + (per_second as f64 * seconds.max(0.0)) as i64);
    }
}

fn found(run: &(Samples, Manifest, Vec<Trial>)) -> Vec<Confounder> {
    confounders(&run.0, &run.1, &run.2)
}

/// Asserts that the one confounder is `name` and spoils the second trial alone, or none.
fn assert_one(run: &(Samples, Manifest, Vec<Trial>), name: &str, spoils: bool, evidence: &str) {
    let found = found(run);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].name, name);
    assert!(found[0].evidence.contains(evidence), "{}", found[0].evidence);
    let expected: Vec<String> = run.2[1..].iter().map(|trial| trial.id.clone()).collect();
    assert_eq!(found[0].spoils, if spoils { expected } else { Vec::new() });
    assert!(!found[0].advice.is_empty());
}

#[test]
fn a_quiet_machine_has_none() {
    assert_eq!(found(&quiet(|_, _| {})), []);
}

#[test]
fn damon_is_seen_in_the_settings_and_in_its_counters() {
    let mut run = quiet(|_, _| {});
    let scheme = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/action";
    run.1.host.settings.insert(scheme.into(), "pageout\n".into());
    assert_one(&run, "damon", false, "0.0%");
    assert_one(
        &quiet(grow(col::DAMON_SZ_APPLIED, SIZE / 10)),
        "damon",
        true,
        "% of the trial's size",
    );
}

#[test]
fn steal_spoils_from_five_percent() {
    assert_one(&quiet(grow(col::CPU_STEAL_US, 40_000)), "steal", false, "2.");
    assert_one(&quiet(grow(col::CPU_STEAL_US, 400_000)), "steal", true, "17.");
}

#[test]
fn other_load_is_what_neither_worker_nor_kernel_threads_used() {
    assert_one(
        &quiet(grow(col::CPU_SYSTEM_US, 300_000)),
        "other-load",
        false,
        "15%",
    );
    assert_one(
        &quiet(grow(col::CPU_SYSTEM_US, 900_000)),
        "other-load",
        true,
        "45%",
    );
}

#[test]
fn swap_of_others_is_told_apart_from_the_trials_own() {
    let mut run = quiet(|_, _| {});
    run.1.host.swap_before.push(("/swapfile".into(), 512 << 20));
    assert_one(&run, "other-swap", false, "512 MiB");
    // The trial's own pages are no confounder.
    let own = quiet(|row, seconds| {
        grow(col::SWAP_FREE, -SIZE)(row, seconds);
        grow(col::CGROUP_SWAP, SIZE)(row, seconds);
    });
    assert_eq!(found(&own), []);
    let others = quiet(grow(col::SWAP_FREE, -SIZE / 4));
    assert_one(&others, "other-swap", true, "% of");
}

#[test]
fn zswap_confounds_where_it_is_not_the_subject() {
    let mut run = quiet(|_, _| {});
    let enabled = "/sys/module/zswap/parameters/enabled";
    run.1.host.settings.insert(enabled.into(), "Y".into());
    assert_one(&run, "zswap", false, "is on");
    let pages = SIZE / 4096;
    let mut used = quiet(grow(col::ZSWPOUT, pages / 2));
    assert_one(&used, "zswap", true, "was used");
    used.1.host.settings.insert(enabled.into(), "Y".into());
    used.2
        .iter_mut()
        .for_each(|trial| trial.subject = "zswap:lzo".into());
    assert_eq!(found(&used), []);
}

#[test]
fn settings_of_the_machine_are_told_and_spoil_nothing() {
    let mut run = quiet(|_, _| {});
    let thp = "/sys/kernel/mm/transparent_hugepage/enabled";
    run.1
        .host
        .settings
        .insert(thp.into(), "[always] madvise never".into());
    assert_eq!(found(&run), [], "the trials ask for no huge pages");
    run.1.plan.trials[0].settings.thp = ThpMode::System;
    assert_one(&run, "thp", false, "always");

    for (path, quiet_value, value, name) in [
        (
            "/sys/module/page_reporting/parameters/page_reporting_order",
            "4294967295",
            "9",
            "page-reporting",
        ),
        (
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "performance",
            "schedutil",
            "cpu-frequency",
        ),
    ] {
        let mut run = quiet(|_, _| {});
        run.1.host.settings.insert(path.into(), quiet_value.into());
        assert_eq!(found(&run), []);
        run.1.host.settings.insert(path.into(), value.into());
        assert_one(&run, name, false, value);
    }
}

#[test]
fn a_spoiled_trial_is_untrustworthy_and_a_failed_one_stays_failed() {
    let run = quiet(grow(col::CPU_STEAL_US, 400_000));
    let confounders = found(&run);
    let mut trials = run.2;
    trials[0].status = TrialStatus::Failed;
    for _ in 0..2 {
        trials.iter_mut().for_each(|trial| judge(trial, &confounders));
    }
    assert_eq!(
        (trials[0].status, trials[0].reasons.len()),
        (TrialStatus::Failed, 0)
    );
    assert_eq!(trials[1].status, TrialStatus::Untrustworthy);
    assert_eq!(trials[1].reasons.len(), 1, "judged twice, said once");
    assert!(
        trials[1].reasons[0].starts_with("steal: "),
        "{:?}",
        trials[1].reasons
    );
}

#[test]
fn without_samples_nothing_is_made_up() {
    let (_, manifest, trials) = quiet(|_, _| {});
    assert_eq!(confounders(&Samples::default(), &manifest, &trials), []);
}
