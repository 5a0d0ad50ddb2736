//! `plimsoll run map`.

use std::sync::LazyLock;

use serde_json::Value;

use super::{Ended, Run, has_laboratory, phase};

const SIZE: f64 = 16.0 * 1048576.0;

fn phase_value(phase: &Value, name: &str) -> Option<f64> {
    phase["values"][name].as_f64()
}

/// One run, calibrated once, with a section for each of several tests.
static SECTIONS: LazyLock<Ended> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("map.toml");
    let text = "[scenario]\nname = \"map\"\n[global]\nworkload = \"map\"\nsize = \"16M\"\nhold = 0.2\nrepeat = 1\n\
                subject = \"none\"\n\
                [private]\nmapping = \"anonymous\"\ntouch = \"whole\"\nsubject = \"zram\"\n\
                [files]\nmapping = [\"memfd\", \"file\"]\ntouch = \"4k\"\n\
                [few]\nmapping = [\"anonymous\", \"populate\"]\ntouch = \"64k\"\n";
    std::fs::write(&file, text).expect("write");
    Run::of(file.to_str().expect("UTF-8"), &[]).finish()
});

/// The trial of a mapping in a section of [`SECTIONS`].
fn trial_of(section: &str, mapping: &str) -> &'static Value {
    SECTIONS.assert_went_well();
    let mut trials = SECTIONS.of_section(section).into_iter();
    let found = trials.find(|trial| trial["params"]["mapping"] == mapping);
    found.unwrap_or_else(|| panic!("no {mapping} of {section}: {:#}", SECTIONS.results))
}

#[test]
fn private_memory_is_handed_back_in_every_way_and_what_it_holds_is_checked() {
    if !has_laboratory() {
        return;
    }
    let trial = trial_of("private", "anonymous");
    let ways = [
        "munmap", "dontneed", "free", "mremap", "map-over", "pageout", "exit",
    ];
    for way in ways {
        let phase = phase(trial, way);
        for name in ["map_s", "touch_s", "memset_s", "release_s", "reuse_s"] {
            assert!(
                phase_value(phase, name).is_some_and(|seconds| seconds >= 0.0),
                "{way} {name}: {phase:#}"
            );
        }
        // 4096 pages twice, but for what was populated by huge pages of nobody's asking, or never left.
        let faults = phase["minor_faults"].as_u64().expect("faults");
        assert!(faults >= (SIZE / 4096.0) as u64, "{way}: {phase:#}");
        let back = phase_value(phase, "back_percent").expect("back_percent");
        match way {
            "free" => assert!(back < 50.0 && phase_value(phase, "back_s").is_none(), "{phase:#}"),
            _ => assert!(
                back >= 95.0 && phase_value(phase, "back_s").is_some(),
                "{way}: {phase:#}"
            ),
        }
    }
    let free = phase(trial, "free");
    assert!(
        phase_value(free, "pressure_s").is_some(),
        "a reclaim gets what is free for it: {free:#}"
    );
    let metrics = &trial["metrics"];
    for name in [
        "fastest_cycle_per_page_s",
        "munmap_cost_per_page_s",
        "free_reuse_per_page_s",
        "dontneed_back_s",
    ] {
        assert!(
            metrics[name].as_f64().is_some_and(|value| value >= 0.0),
            "{name}: {metrics:#}"
        );
    }
    let faults = |way: &str| phase(trial, way)["minor_faults"].as_u64().expect("faults");
    assert!(
        faults("free") * 4 < faults("dontneed") * 3,
        "pages that never left cost no fault: {} and {}",
        faults("free"),
        faults("dontneed")
    );
    assert_eq!(trial["verified"], true, "{trial:#}");
}

#[test]
fn only_a_hole_or_the_end_hands_the_pages_of_a_file_back() {
    if !has_laboratory() {
        return;
    }
    let trial = trial_of("files", "memfd");
    for (way, back) in [
        ("munmap", false),
        ("dontneed", false),
        ("punch", true),
        ("exit", true),
    ] {
        let phase = phase(trial, way);
        let share = phase_value(phase, "back_percent").expect("back_percent");
        assert_eq!(share >= 95.0, back, "{way}: {phase:#}");
    }
}

#[test]
fn few_touches_bring_in_few_pages_unless_they_are_populated() {
    if !has_laboratory() {
        return;
    }
    let faults = |mapping: &str| {
        phase(trial_of("few", mapping), "munmap")["minor_faults"]
            .as_u64()
            .expect("faults")
    };
    // 256 touches, twice; all pages as they are mapped, twice.
    assert!(
        (512..1500).contains(&faults("anonymous")),
        "{}",
        faults("anonymous")
    );
    assert!(faults("populate") >= 2 * 4096, "{}", faults("populate"));
}

#[test]
fn reserved_huge_pages_that_are_not_there_are_named_with_the_way_to_get_them() {
    let free = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    if !has_laboratory() || free.is_ok_and(|text| text.trim() != "0") {
        return;
    }
    let hugetlb = [
        "mapping=hugetlb",
        "subject=none",
        "touch=whole",
        "size=16M",
        "repeat=1",
    ];
    let run = Run::of("map", &hugetlb);
    run.finish()
        .assert_refused(3, &["nr_hugepages", "mapping=anonymous"]);
    assert_eq!(run.name(), None, "a refusal leaves no recording");
}
