//! Each confounder: seen where it is, not seen where it is not, and the trials it spoils are the right ones.

use plimsoll_model::columns::col;
use plimsoll_model::columns::{COLUMNS, Row};
use plimsoll_model::recording::Samples;
use plimsoll_model::recording::model::{Confounder, Manifest, Trial, TrialStatus};
use plimsoll_model::scenario::{FillClass, Map, Mapping, Subject, ThpMode, Thrash, Touch, Workload};
use plimsoll_report::analysis::confounders::confounders;
use plimsoll_report::judge;

use plimsoll_testkit::recordings::{manifest, plan, trial};

const SIZE: i64 = 64 << 20;

/// Samples, manifest and trials of a run.
type Recorded = (Samples, Manifest, Vec<Trial>);

/// Two trials of a second each on a quiet machine of 2 CPUs, sampled at 20 Hz; `disturb` adds to each row, told the
/// seconds since the start of the second trial (negative before it).
fn quiet(disturb: impl Fn(&mut Row, f64)) -> Recorded {
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

/// The paths of a scheme that pages out, and of the state of its kdamond.
const SCHEME: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/action";
const STATE: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/state";

/// `run` on a machine with these settings too.
fn with_settings(mut run: (Samples, Manifest, Vec<Trial>), settings: &[(&str, &str)]) -> Recorded {
    let settings = settings
        .iter()
        .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()));
    run.1.host.settings.extend(settings);
    run
}

/// A quiet run in whose samples `columns` are missing.
fn quiet_without(columns: &[usize]) -> Recorded {
    let mut run = quiet(|_, _| {});
    let rows: Vec<Row> = (0..run.0.len())
        .map(|index| without(&run.0.row(index), columns))
        .collect();
    run.0 = Samples::from_rows(&rows);
    run
}

fn without(row: &Row, columns: &[usize]) -> Row {
    let mut kept = Row::empty(row.t_ns);
    for column in (0..COLUMNS.len()).filter(|column| !columns.contains(column)) {
        if let Some(value) = row.get(column) {
            kept.set(column, value);
        }
    }
    kept
}

#[test]
fn damon_is_seen_in_the_settings_and_in_its_counters() {
    let on = [(SCHEME, "pageout\n"), (STATE, "on\n")];
    let run = with_settings(quiet(|_, _| {}), &on);
    assert_one(&run, "damon", false, "0.0%");
    assert!(found(&run)[0].advice.contains(STATE));
    assert_one(
        &quiet(grow(col::DAMON_SZ_APPLIED, SIZE / 10)),
        "damon",
        true,
        "9.0%",
    );
}

#[test]
fn a_damon_scheme_of_a_stopped_thread_pages_nothing_out() {
    for settings in [&[(SCHEME, "pageout"), (STATE, "off")][..], &[(SCHEME, "pageout")]] {
        assert_eq!(found(&with_settings(quiet(|_, _| {}), settings)), []);
    }
    // Another thread that is on does something else.
    let settings = [
        (SCHEME, "pageout"),
        (STATE, "off"),
        ("/sys/kernel/mm/damon/admin/kdamonds/1/state", "on"),
        (
            "/sys/kernel/mm/damon/admin/kdamonds/1/contexts/0/schemes/0/action",
            "stat",
        ),
    ];
    assert_eq!(found(&with_settings(quiet(|_, _| {}), &settings)), []);
    let reclaim = "/sys/module/damon_reclaim/parameters/enabled";
    assert_eq!(found(&with_settings(quiet(|_, _| {}), &[(reclaim, "N")])), []);
    let run = with_settings(quiet(|_, _| {}), &[(reclaim, "Y")]);
    assert_one(&run, "damon", false, "0.0%");
    assert!(found(&run)[0].advice.contains(reclaim));
}

#[test]
fn damon_without_counters_is_unknown_but_its_cpu_time_shows() {
    let on = [(SCHEME, "pageout"), (STATE, "on")];
    let run = with_settings(quiet_without(&[col::DAMON_SZ_APPLIED]), &on);
    assert_one(&run, "damon", false, "unknown");
    let evidence = &found(&run)[0].evidence;
    assert!(!evidence.contains('%'), "{evidence}");

    // No setting tells of it, and its thread uses a twentieth of a CPU.
    let mut run = quiet(|row, seconds| {
        *row = without(row, &[col::DAMON_SZ_APPLIED]);
        grow(col::KDAMOND_CPU_US, 50_000)(row, seconds);
    });
    assert_one(&run, "damon", false, "5.0%");
    run = quiet(grow(col::KDAMOND_CPU_US, 5_000));
    assert_eq!(found(&run), [], "monitoring alone");
}

#[test]
fn file_pages_that_come_back_unscanned_are_a_mark_of_damon() {
    let back = |scanned: i64| {
        let run = quiet(move |row, seconds| {
            grow(col::WORKINGSET_REFAULT_FILE, SIZE / 4096 / 20)(row, seconds);
            row.set(col::PGSCAN_FILE, 0);
            grow(col::PGSCAN_FILE, scanned)(row, seconds);
        });
        let run = with_settings(run, &[(SCHEME, "pageout"), (STATE, "on")]);
        found(&run).remove(0).evidence
    };
    insta::assert_snapshot!(back(0), @"a DAMON scheme pages out idle memory; in the worst trial its schemes acted on 0.0% of the trial's size, and the CPU time of its threads is unknown; file pages of 4.5% of the size were refaulted though reclaim had scanned none");
    insta::assert_snapshot!(back(1000), @"a DAMON scheme pages out idle memory; in the worst trial its schemes acted on 0.0% of the trial's size, and the CPU time of its threads is unknown");
}

#[test]
fn steal_spoils_from_five_percent() {
    assert_one(&quiet(grow(col::CPU_STEAL_US, 40_000)), "steal", false, "2.");
    assert_one(&quiet(grow(col::CPU_STEAL_US, 400_000)), "steal", true, "17.");
}

#[test]
fn other_load_excludes_workers_and_kernel_threads() {
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
fn other_load_names_the_programs_with_their_share() {
    let mut run = quiet(grow(col::CPU_SYSTEM_US, 900_000));
    run.2[0].other_programs = vec![("innocent".into(), 1.0)];
    let programs = [
        ("rustc", 31.0),
        ("cc1\u{1b}[2J", 9.4),
        ("sshd", 2.0),
        ("cron", 1.0),
    ];
    run.2[1].other_programs = programs.map(|(name, percent)| (name.to_owned(), percent)).into();
    assert_one(&run, "other-load", true, "rustc 31%, cc1\u{fffd}[2J 9%, sshd 2%");
    let evidence = &found(&run)[0].evidence;
    assert!(
        !evidence.contains("innocent") && !evidence.contains("cron"),
        "{evidence}"
    );
}

#[test]
fn the_comparison_after_the_clock_stopped_is_no_load_of_others() {
    // The second trial restores in 0.15 s, then compares for the rest of the phase, with both CPUs busy.
    let compare = |row: &mut Row, seconds: f64| {
        let before = row.get(col::CPU_SYSTEM_US).unwrap_or(0);
        let compared = (seconds - 0.25).clamp(0.0, 0.3);
        row.set(col::CPU_SYSTEM_US, before + (compared * 1.2e6) as i64);
    };
    let mut run = quiet(compare);
    let restore = &mut run.2[1].phases[0];
    restore.name = "restore".into();
    restore.span_ns = (1_100_000_000, 1_550_000_000);
    restore.seconds = 0.15;
    restore.cpu_user_s = 0.13;
    restore.cpu_system_s = 0.0;
    assert_eq!(found(&run), []);
    // The same load while the clock runs is another program's.
    run.2[1].phases[0].seconds = 0.45;
    assert_one(&run, "other-load", true, "68%");
}

/// `run` as one of many consumers, which ask for four times their limit.
fn of_consumers(mut run: Recorded) -> Recorded {
    for (planned, trial) in run.1.plan.trials.iter_mut().zip(&mut run.2) {
        planned.settings.workload = Workload::Thrash(Thrash {
            consumers: 4,
            consumer_size: SIZE as u64,
            writes: 1000,
            sleep: 0.1,
            stagger: 0.1,
            hold: 0.0,
            together: None,
            guard: None,
        });
        planned.settings.limit = SIZE as u64;
        trial.workload = "thrash".into();
    }
    run
}

#[test]
fn of_work_that_asks_for_more_than_its_limit_the_limit_counts() {
    // In the 0.9 s of the trial 1.8% of the limit, which is 0.45% of what the consumers ask for.
    let run = of_consumers(quiet(grow(col::DAMON_SZ_APPLIED, SIZE / 50)));
    assert_one(&run, "damon", true, "1.8%");
}

#[test]
fn phases_that_do_not_say_their_cpu_time_are_not_looked_at() {
    let mut run = of_consumers(quiet(grow(col::CPU_SYSTEM_US, 900_000)));
    assert_one(&run, "other-load", true, "45%");
    for trial in &mut run.2 {
        for phase in &mut trial.phases {
            (phase.cpu_user_s, phase.cpu_system_s, phase.cpu_kernel_threads_s) = (0.0, 0.0, 0.0);
        }
    }
    assert_eq!(found(&run), []);
}

#[test]
fn the_cpu_time_of_many_workers_is_their_own() {
    // Both CPUs busy throughout the phase, by several workers whose times are added up.
    let mut run = of_consumers(quiet(grow(col::CPU_SYSTEM_US, 1_100_000)));
    for phase in &mut run.2[1].phases {
        phase.cpu_system_s = phase.seconds * 2.0 - phase.cpu_user_s;
    }
    assert_eq!(found(&run), []);
}

#[test]
fn trials_without_swap_are_judged_as_well() {
    let mut run = of_consumers(quiet(grow(col::ZSWPOUT, SIZE / 4096 / 10)));
    for (planned, trial) in run.1.plan.trials.iter_mut().zip(&mut run.2) {
        planned.settings.subject = Subject::NoSwap;
        planned.settings.swap_size = 0;
        trial.subject = Subject::NoSwap.to_string();
    }
    assert_one(&run, "zswap", true, "9.0%");
}

/// A run with its own device in slot 0 and another one, on before, in slot 1.
fn beside_other_swap(mut run: Recorded) -> Recorded {
    run.1.host.swap_before.push(("/swapfile".into(), 512 << 20));
    run.1.swap_slots = vec!["/dev/zram1".into(), "/swapfile".into()];
    run
}

#[test]
fn growth_of_other_swap_excludes_the_trials_own() {
    let idle = beside_other_swap(quiet(|row, _| row.set(col::SWAP1_USED, 4096)));
    assert_one(&idle, "other-swap", false, "512 MiB");
    // The trial's own device is no confounder, though the cgroup does not count what is in the swap cache.
    let own = quiet(grow(col::SWAP0_USED, SIZE));
    assert_eq!(found(&own), []);
    // Pages of others, or of a trial that did not fit its device.
    let spilled = beside_other_swap(quiet(grow(col::SWAP1_USED, SIZE / 4)));
    assert_one(&spilled, "other-swap", true, "22.5%");
}

/// A run on a device of its own: in the second trial the device's use is the cgroup's swap and these foreign bytes.
fn on_own_device(foreign: impl Fn(f64) -> i64) -> Recorded {
    quiet(move |row, seconds| {
        let own = if seconds > 0.2 { SIZE / 2 } else { 0 };
        let foreign = if seconds > 0.0 { foreign(seconds) } else { 0 };
        row.set(col::CGROUP_SWAP, own);
        row.set(col::DEVICE_SWAP_SIZE, 4 * SIZE);
        row.set(col::DEVICE_SWAP_USED, own + foreign);
        row.set(col::OTHER_SWAP_SIZE, 0);
        row.set(col::OTHER_SWAP_USED, 0);
    })
}

#[test]
fn foreign_pages_are_the_use_of_the_device_without_the_cgroups_own() {
    let alone = on_own_device(|_| 0);
    assert_eq!(found(&alone), []);
    // 64 pages a CPU may be counted late.
    let late = on_own_device(|_| 2 * 64 * 4096);
    assert_eq!(found(&late), []);
    let few = on_own_device(|_| 2 * 64 * 4096 + SIZE / 100);
    assert_one(&few, "foreign-pages", false, "1.93%");
    let many = on_own_device(|_| 2 * 64 * 4096 + SIZE / 2);
    assert_one(&many, "foreign-pages", true, "49.6%");
    assert_one(&many, "foreign-pages", true, "(32.0 MiB of 64.5 MiB)");
    // The device and the cgroup are not read at one moment: one sample is no evidence.
    let once = on_own_device(|seconds| if seconds == 0.5 { SIZE / 2 } else { 0 });
    assert_eq!(found(&once), []);
}

#[test]
fn pages_in_the_swap_cache_are_foreign_to_no_cgroup() {
    let mut run = on_own_device(|_| SIZE / 2);
    let cached = |mut row: Row| {
        row.set(col::CGROUP_SWAP_CACHED, SIZE / 2);
        row
    };
    let rows: Vec<Row> = (0..run.0.len()).map(|index| cached(run.0.row(index))).collect();
    run.0 = Samples::from_rows(&rows);
    run.1.host.cgroup = "v1".into();
    assert_eq!(found(&run), []);
    // v2 counts them as swap of the cgroup already.
    run.1.host.cgroup = "v2".into();
    assert_one(&run, "foreign-pages", true, "49.2%");
}

#[test]
fn foreign_pages_are_unknown_where_the_kernel_counts_no_swap_of_cgroups() {
    let mut run = on_own_device(|_| SIZE / 2);
    let rows: Vec<Row> = (0..run.0.len())
        .map(|index| without(&run.0.row(index), &[col::CGROUP_SWAP]))
        .collect();
    run.0 = Samples::from_rows(&rows);
    assert_one(&run, "foreign-pages", false, "unknown");
}

#[test]
fn swap_that_is_turned_on_during_a_trial_is_noticed() {
    let turned_on = |used: i64| {
        quiet(move |row, seconds| {
            let is_on = seconds > 0.4;
            row.set(col::OTHER_SWAP_SIZE, if is_on { 512 << 20 } else { 0 });
            row.set(col::OTHER_SWAP_USED, if is_on { used } else { 0 });
        })
    };
    assert_one(&turned_on(0), "other-swap", false, "512 MiB");
    assert_one(&turned_on(SIZE / 4), "other-swap", true, "25.0%");
}

#[test]
fn a_trim_whose_bytes_disagree_is_inconsistent() {
    let trimmed = |swapped: i64, original: i64| {
        let mut run = quiet(|_, _| {});
        for trial in &mut run.2 {
            trial.phases[0].name = "trim".into();
            let metrics = [
                ("trimmed_bytes", SIZE),
                ("swapped_bytes", SIZE),
                ("original_bytes", SIZE),
            ];
            trial.metrics = metrics
                .map(|(name, bytes)| (name.to_owned(), bytes as f64))
                .into();
        }
        let second = &mut run.2[1].metrics;
        second.insert("swapped_bytes".into(), swapped as f64);
        second.insert("original_bytes".into(), original as f64);
        run
    };
    assert_eq!(found(&trimmed(SIZE, SIZE)), []);
    assert_eq!(found(&trimmed(SIZE + SIZE / 100, SIZE)), []);
    assert_one(&trimmed(2 * SIZE, 0), "inconsistent-bytes", true, "128 MiB");
    assert_one(
        &trimmed(SIZE + SIZE / 4, SIZE + SIZE / 4),
        "inconsistent-bytes",
        true,
        "20.0%",
    );
}

#[test]
fn missing_counters_are_unknown_and_not_zero() {
    let run = beside_other_swap(quiet_without(&[col::SWAP1_USED]));
    assert_one(&run, "other-swap", false, "unknown");

    let mut run = quiet_without(&[col::CPU_STEAL_US]);
    assert_eq!(found(&run), [], "nobody takes CPU time from bare metal");
    run.1.host.virtualization = "kvm".into();
    assert_one(&run, "steal", false, "unknown");
    run = quiet(|_, _| {});
    run.1.host.virtualization = "kvm".into();
    assert_eq!(found(&run), [], "a measured zero");
}

#[test]
fn zswap_confounds_where_it_was_used_and_is_not_the_subject() {
    let enabled = [("/sys/module/zswap/parameters/enabled", "Y")];
    let run = with_settings(quiet(|_, _| {}), &enabled);
    assert_eq!(found(&run), [], "on before the run, which turns it off");
    let run = with_settings(quiet_without(&[col::ZSWPOUT]), &enabled);
    assert_one(&run, "zswap", false, "unknown");
    assert_eq!(found(&quiet_without(&[col::ZSWPOUT])), []);

    let pages = SIZE / 4096;
    assert_one(&quiet(grow(col::ZSWPOUT, pages / 200)), "zswap", false, "0.4%");
    let mut used = with_settings(quiet(grow(col::ZSWPOUT, pages / 2)), &enabled);
    assert_one(&used, "zswap", true, "45.0%");
    used.2
        .iter_mut()
        .for_each(|trial| trial.subject = "zswap:lzo".into());
    assert_eq!(found(&used), []);
}

#[test]
fn settings_of_the_machine_are_reported_and_spoil_nothing() {
    let mut run = quiet(|_, _| {});
    let thp = "/sys/kernel/mm/transparent_hugepage/enabled";
    run.1
        .host
        .settings
        .insert(thp.into(), "[always] madvise never".into());
    assert_eq!(found(&run), [], "the trials ask for no huge pages");
    match &mut run.1.plan.trials[0].settings.workload {
        Workload::Compression(compression) => compression.filling.thp = ThpMode::System,
        other => panic!("{other:?}"),
    }
    assert_one(&run, "thp", false, "always");
    let map = Map {
        size: SIZE as u64,
        hold: 0.5,
        mapping: Mapping::Anonymous,
        touch: Touch::Whole,
    };
    for trial in &mut run.1.plan.trials {
        trial.settings.workload = Workload::Map(map);
    }
    assert_eq!(found(&run), [], "map says itself which pages it takes");

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
fn slow_neighbours_are_reported_and_spoil_nothing() {
    let mut run = quiet(|_, _| {});
    run.2[1].metrics.insert("neighbour_p99_s".into(), 0.049);
    assert_eq!(found(&run), []);
    run.2[0].metrics.insert("neighbour_p99_s".into(), 0.051);
    assert_one(&run, "neighbour", false, "51 ms");
}

#[test]
fn the_wakeup_of_the_run_is_no_other_load() {
    // A load of others of 15% of both CPUs, of which the wake-up probe was most.
    let mut run = quiet(grow(col::CPU_USER_US, 300_000));
    assert_one(&run, "other-load", false, "15%");
    for trial in &mut run.2 {
        trial.metrics.insert("neighbour_cpu_percent".into(), 20.0);
    }
    assert_eq!(found(&run), []);
}

#[test]
fn the_background_of_the_run_is_no_other_load() {
    let mut run = quiet(grow(col::CPU_USER_US, 300_000));
    assert_one(&run, "other-load", false, "15%");
    for phase in run.2.iter_mut().flat_map(|trial| &mut trial.phases) {
        phase.cpu_background_s = 0.2 * phase.seconds;
    }
    assert_eq!(found(&run), []);
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
