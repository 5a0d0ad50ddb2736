//! `plimsoll run heap-...`: loads on malloc, on every allocator of this machine.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::sync::LazyLock;

use serde_json::Value;
use tempfile::TempDir;

use super::{Ended, PLIMSOLL, Run, phase, phase_names};
use crate::heap::NOBODY;

/// A run with the file that it is told to run.
struct HeapRun {
    run: Run,
    /// The folder of the scenario, which another user can read.
    file: TempDir,
}

/// A run of a scenario of these lines.
fn run_of(lines: &str) -> HeapRun {
    let folder = tempfile::tempdir().expect("a folder");
    open_to_all(&folder);
    let file = folder.path().join("heap.toml");
    let text = format!(
        "[scenario]\nname = \"heap\"\n[global]\nworkload = \"heap\"\nblocks = 300\nduration = 0.05\nhold = 0.05\n\
         repeat = 1\n{lines}\n"
    );
    std::fs::write(&file, text).expect("write");
    // Another user reads it, whatever the umask.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("opened");
    HeapRun {
        run: Run::of(file.to_str().expect("UTF-8"), &[]),
        file: folder,
    }
}

const LOADS: [&str; 8] = [
    "replacement",
    "larson",
    "aggressive",
    "fragmentation",
    "scaling",
    "cross-thread",
    "large",
    "idle-threads",
];
const PROFILES: [&str; 2] = ["plimsoll:lfh", "plimsoll:lfh,hardened"];

/// One run, calibrated once, with a section for each of several tests.
static SECTIONS: LazyLock<Ended> = LazyLock::new(|| {
    let sections = format!(
        "[loads]\nheap-load = {LOADS:?}\nblock-size = 32\nfree-order = \"random\"\nthreads = 4\nvolume = \"1M\"\n\
         subject = \"glibc\"\n\
         [default-limit]\nsubject = \"plimsoll:lfh\"\nheap-load = \"fragmentation\"\n\
         [inside]\nsubject = [\"glibc\", \"plimsoll:lfh\", \"plimsoll:standard\"]\nheap-load = \"fragmentation\"\n\
         volume = \"8M\"\n\
         [profiles]\nsubject = {PROFILES:?}\nheap-load = \"cross-thread\""
    );
    run_of(&sections).finish()
});

/// The trials of a section of [`SECTIONS`], as many as there must be.
fn of_section(section: &str, count: usize) -> Vec<&'static Value> {
    SECTIONS.assert_went_well();
    let found = SECTIONS.of_section(section);
    assert_eq!(found.len(), count, "{section}: {:#}", SECTIONS.results);
    found
}

fn open_to_all(folder: &TempDir) {
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("opened");
}

impl HeapRun {
    fn finish(&self) -> Ended {
        self.run.finish()
    }

    /// Runs as a user that can make no cgroup.
    fn finish_as_nobody(&self) -> Ended {
        open_to_all(&self.run.folder);
        // The program may be closed to others.
        let program = self.file.path().join("plimsoll");
        plimsoll_testkit::copy_program(PLIMSOLL, &program);
        let mut command = self.run.command_of(&program);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.env("HOME", self.run.folder.path()).output();
        Ended::of(output.expect("plimsoll starts"))
    }
}

fn metric(trial: &Value, name: &str) -> f64 {
    let value = trial["metrics"][name].as_f64();
    value.unwrap_or_else(|| panic!("no {name}: {trial:#}"))
}

/// Allocators that are installed where these tests must not skip: the name of each, and that of its library.
const PEERS: [(&str, &str, &str); 3] = [
    ("jemalloc", "jemalloc", "libjemalloc.so."),
    ("mimalloc", "mimalloc", "libmimalloc.so."),
    ("tcmalloc", "tcmalloc-minimal", "libtcmalloc_minimal.so."),
];

/// Whether the loader finds a library of that name, with a version of 1 to 9.
fn is_loaded(library: &str) -> bool {
    (1..10).any(|version| {
        let mut shell = plimsoll_testkit::command("sh");
        let library = format!("{library}{version}");
        shell
            .args(["-c", "grep -q \"$LD_PRELOAD\" /proc/$$/maps"])
            .env("LD_PRELOAD", library);
        shell.output().expect("the shell starts").status.success()
    })
}

#[test]
fn every_allocator_of_the_machine_is_measured_and_proves_that_it_is_the_one() {
    let ended = run_of("subject = \"installed\"\nthreads = 2\nblock-size = \"0-1k\"").finish();
    ended.assert_went_well();
    let subject = |trial: &Value| trial["subject"].as_str().expect("a subject").to_owned();
    let found: BTreeSet<String> = ended.trials().iter().map(subject).collect();
    for ours in ["glibc", "plimsoll:lfh", "plimsoll:standard"] {
        assert!(found.contains(ours), "{ours} is not in {found:?}");
    }
    assert!(
        !found.iter().any(|subject| subject.ends_with(",hardened")),
        "{found:?}"
    );
    for (capability, subject, library) in PEERS {
        let installed =
            plimsoll_testkit::capability(capability, is_loaded(library), "the loader does not find it");
        assert_eq!(found.contains(subject), installed, "{subject}: {found:?}");
    }
    for trial in ended.trials() {
        let library = trial["params"]["library"].as_str().expect("a library");
        let subject = subject(trial);
        let wanted = match subject.as_str() {
            "glibc" => "libc.so.6".to_owned(),
            ours if ours.starts_with("plimsoll") => "libplimsoll_malloc.so".to_owned(),
            other => {
                let peer = PEERS.iter().find(|(_, subject, _)| *subject == other);
                peer.map_or("lib", |(_, _, library)| library).to_owned()
            }
        };
        assert!(library.starts_with(&wanted), "{wanted}: {trial:#}");
        assert_eq!(phase_names(trial), ["replacement", "left"]);
        assert!(metric(trial, "operation_cpu_s") > 0.0);
        assert!(metric(trial, "operations_per_s") > 0.0);
        // 600 blocks of 512 bytes on an average.
        assert!((200e3..420e3).contains(&metric(trial, "live_bytes")), "{trial:#}");
    }
}

#[test]
fn every_load_has_its_values() {
    for trial in of_section("loads", LOADS.len()) {
        let load = trial["params"]["heap-load"].as_str().expect("a load");
        let own: &[&str] = match load {
            "larson" => &["operation_cpu_s", "threads_lived"],
            "aggressive" => &[
                "operation_cpu_s",
                "cold_cpu_s",
                "steady_cpu_s",
                "free_cpu_s",
                "generator_free_cpu_s",
                "aggressive_s",
            ],
            "fragmentation" => &["last_live_percent"],
            "cross-thread" => &["operation_cpu_s", "generator_cpu_s", "peak_growth_bytes"],
            "large" => &["operation_cpu_s", "realloc_cpu_s", "generator_realloc_cpu_s"],
            "idle-threads" => &["idle_thread_bytes", "resident_growth_bytes"],
            _ => &["operation_cpu_s", "operations_per_s", "generator_cpu_s"],
        };
        for name in own {
            assert!(metric(trial, name) > 0.0, "{load} {name}: {trial:#}");
        }
        let live = match load {
            "replacement" | "larson" | "large" => 4 * 300 * 32,
            "scaling" => 300 * 32,
            "aggressive" => 4 << 20,
            "fragmentation" => 1 << 20,
            _ => 0,
        };
        if live > 0 {
            let share = metric(trial, "live_bytes") / f64::from(live);
            assert!((0.99..1.01).contains(&share), "{load}: {share}");
        }
        let order = trial["params"]["free-order"].as_str();
        assert_eq!(order, (load == "aggressive").then_some("random"), "{trial:#}");
        // After blocks of 4 MiB glibc keeps up to 8 MiB in each of its arenas.
        let kept = if load == "large" { 4.0 * 8e6 } else { 0.0 };
        // What the process was before is not counted: that is more than all of this.
        let left = metric(trial, "left_bytes");
        assert!(left < 2.0 * f64::from(live) + 2e6 + kept, "{load}: {left}");
        assert!(left > 0.0 || live == 0 || load == "large", "{load}: {left}");
        let cost = phase(trial, load);
        let cpu = ["cpu_user_s", "cpu_system_s"].map(|name| cost[name].as_f64().expect("a time"));
        assert!(cpu[0] + cpu[1] > 0.0, "{cost:#}");
    }
}

/// By its defaults the load of `plimsoll:lfh` once ended by the OOM killer: the limit had no room for the table of blocks.
#[test]
fn fragmentation_fits_into_its_default_limit() {
    for trial in of_section("default-limit", 1) {
        assert_eq!(trial["verified"], true, "{trial:#}");
        assert!(metric(trial, "peak_growth_bytes") > 100e6, "{trial:#}");
    }
}

/// The values of the talk: free blocks, uncommitted ranges, and both kinds of fragmentation. Other allocators have none.
#[test]
fn our_heaps_are_looked_into_while_fragmentation_holds_its_blocks() {
    let inside = [
        "free_blocks",
        "uncommitted_ranges",
        "external_fragmentation_percent",
        "virtual_fragmentation_percent",
    ];
    for trial in of_section("inside", 3) {
        assert_eq!(phase_names(trial), ["fragmentation", "free", "left"]);
        if trial["subject"] == "glibc" {
            assert!(
                inside.iter().all(|name| trial["metrics"][name].is_null()),
                "{trial:#}"
            );
            continue;
        }
        let [blocks, ranges, external, between] = inside.map(|name| metric(trial, name));
        assert!(blocks >= 1.0 && ranges >= 1.0, "{trial:#}");
        assert!(
            (0.0..100.0).contains(&external) && (0.0..100.0).contains(&between),
            "{trial:#}"
        );
        // Survivors of four sizes lie between what was freed.
        if trial["subject"] == "plimsoll:standard" {
            assert!(blocks > 100.0 && external > 5.0, "{trial:#}");
        }
    }
}

#[test]
fn our_heap_is_measured_with_the_hardened_profile_if_it_is_named() {
    let trials = of_section("profiles", PROFILES.len());
    let subjects = trials.iter().filter_map(|trial| trial["subject"].as_str());
    assert_eq!(subjects.collect::<BTreeSet<_>>(), BTreeSet::from(PROFILES));
}

#[test]
fn an_allocator_that_is_not_there_is_named_with_the_way_to_get_it() {
    let run = run_of("subject = \"preload=/nowhere/libmine.so\"");
    let names = ["preload=/nowhere/libmine.so", "glibc", "plimsoll:lfh"];
    run.finish().assert_refused(3, &names);
}

#[test]
fn a_library_that_brings_no_malloc_does_not_pass_for_an_allocator() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let other = maps
        .split_whitespace()
        .find(|word| word.contains("libgcc_s.so"))
        .expect("a library");
    let ended = run_of(&format!("subject = \"preload={other}\"")).finish();
    ended.assert_failed(2, "allocator");
}

#[test]
fn it_needs_no_privilege() {
    let ended = run_of("subject = [\"glibc\", \"plimsoll:standard\"]").finish_as_nobody();
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 2, "{}", ended.stderr);
}

#[test]
fn a_worker_that_takes_more_than_its_limit_is_ended_with_and_without_a_cgroup() {
    let lines = "subject = \"glibc\"\nheap-load = \"aggressive\"\nvolume = \"48M\"\nlimit = \"24M\"";
    let ended = run_of(lines).finish_as_nobody();
    ended.assert_failed(5, "over-limit");
    if super::has_laboratory() {
        run_of(lines).finish().assert_failed(5, "out-of-memory");
    }
}
