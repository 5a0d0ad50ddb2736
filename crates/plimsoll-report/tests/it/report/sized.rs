//! The RAM that a program needs, from recordings of searches with a known answer.

use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::{Results, TrialStatus};
use plimsoll_model::recording::size::{
    EngineSize, HeadroomReason, ProgramSize, SIZE_SCHEMA, SizeInterval, SizedSystem,
};
use plimsoll_report::analysis::groups;
use plimsoll_report::{html, markdown, page, results, terminal};
use plimsoll_testkit::sized::SizedRun;

const MIB: u64 = 1 << 20;

fn recorded(sized: &SizedRun) -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let path = sized.record(folder.path());
    Recording::open(&path).unwrap()
}

fn size_of(recording: &Recording) -> ProgramSize {
    results(recording).size.expect("a search")
}

fn engine<'a>(size: &'a ProgramSize, name: &str) -> &'a EngineSize {
    let mut engines = size.engines.iter();
    engines.find(|engine| engine.engine == name).expect(name)
}

/// A program with a need of 900 MiB without swap and of 400 MiB on zram.
fn known() -> SizedRun {
    SizedRun::new("size-1", &[("none", 900), ("zram:lz4", 400)])
}

#[test]
fn the_known_need_is_in_the_interval_and_the_recommendation_is_within_the_search_step() {
    let size = size_of(&recorded(&known()));
    assert_eq!(size.schema, SIZE_SCHEMA);
    assert_eq!(size.command, ["prog", "two words"]);
    assert_eq!((size.tolerance, size.peak_bytes), (0.05, 1000 * MIB));
    assert_eq!(size.reclaimable_percent, Some(20.0));
    for (name, need) in [("none", 900), ("zram:lz4", 400)] {
        let engine = engine(&size, name);
        let need = need * MIB;
        let ends = (engine.knee_low_bytes.unwrap(), engine.knee_high_bytes.unwrap());
        assert!(
            ends.0 < need && need <= ends.1 && ends.1 <= ends.0 + ends.0 / 20 + 1,
            "{name}: {ends:?}"
        );
        let knee = engine.knee_bytes.unwrap();
        assert!(ends.0 <= knee && knee <= ends.1, "{name}: {knee} of {ends:?}");
        let recommended = engine.recommended_bytes.unwrap();
        assert!(recommended.is_multiple_of(MIB) && recommended >= need);
        assert!(recommended as f64 <= 1.06 * need as f64, "{name}: {recommended}");
        assert_eq!((engine.repeats, engine.interval), (3, SizeInterval::Range));
        assert!(!engine.untrustworthy);
        let limits: Vec<u64> = engine.points.iter().map(|point| point.limit_bytes).collect();
        assert!(limits.is_sorted_by(|a, b| a >= b), "{limits:?}");
    }
    // A kill is a point of the curve, without a slowdown.
    let killed = engine(&size, "none").points.last().unwrap();
    assert_eq!((killed.status.as_str(), killed.slowdown), ("oom-killed", None));
    let swap = engine(&size, "zram:lz4").swap_bytes.unwrap();
    assert!((500 * MIB..600 * MIB).contains(&swap), "{swap}");
    assert_eq!(engine(&size, "none").swap_bytes, Some(0));
}

#[test]
fn few_repeats_have_their_range_and_six_an_interval() {
    let spread = |repeats| {
        let sized = SizedRun {
            repeats,
            spread: 0.04,
            ..SizedRun::new("size-1", &[("zram:lz4", 400)])
        };
        size_of(&recorded(&sized)).engines.remove(0)
    };
    let few = spread(5);
    assert_eq!((few.repeats, few.interval), (5, SizeInterval::Range));
    // The largest need is that of the last repeat.
    let greatest = (400 * MIB) as f64 * 1.16;
    assert!(few.recommended_bytes.unwrap() as f64 >= greatest);
    assert!(few.knee_low_bytes.unwrap() < 400 * MIB);
    let enough = spread(6);
    assert_eq!((enough.repeats, enough.interval), (6, SizeInterval::Bootstrap95));
    assert!(enough.knee_low_bytes <= enough.knee_bytes && enough.knee_bytes <= enough.knee_high_bytes);
}

#[test]
fn the_order_of_trials_changes_nothing() {
    let mut recording = recorded(&SizedRun {
        repeats: 6,
        spread: 0.02,
        ..known()
    });
    let before = size_of(&recording);
    recording.trials.reverse();
    assert_eq!(size_of(&recording), before);
}

#[test]
fn hard_limits_have_headroom_with_its_reason() {
    let size = size_of(&recorded(&known()));
    let zram = engine(&size, "zram:lz4");
    let need = zram.recommended_bytes.unwrap();
    assert_eq!(zram.headroom_bytes, Some((need / 4).next_multiple_of(MIB)));
    assert_eq!(zram.headroom_reason, Some(HeadroomReason::Share));
    for advice in &zram.advice {
        assert_eq!(advice.soft_bytes, need);
        assert_eq!(advice.hard_bytes, need + zram.headroom_bytes.unwrap());
    }
    // Repeats that differ by more than a quarter.
    let wide = SizedRun {
        spread: 0.25,
        ..SizedRun::new("size-1", &[("zram:lz4", 400)])
    };
    let wide = size_of(&recorded(&wide)).engines.remove(0);
    assert_eq!(wide.headroom_reason, Some(HeadroomReason::Interval));
    let width = wide.knee_high_bytes.unwrap() - wide.knee_low_bytes.unwrap();
    assert!(wide.headroom_bytes.unwrap() >= width);
}

#[test]
fn settings_are_those_of_each_system() {
    let size = size_of(&recorded(&known()));
    for engine in &size.engines {
        let soft = engine.recommended_bytes.unwrap() / MIB;
        let hard = soft + engine.headroom_bytes.unwrap() / MIB;
        let lines = |system: SizedSystem| {
            let mut advice = engine.advice.iter();
            advice
                .find(|advice| advice.system == system)
                .unwrap()
                .lines
                .clone()
        };
        assert_eq!(
            lines(SizedSystem::Kubernetes),
            [
                "resources:".to_owned(),
                "  requests:".to_owned(),
                format!("    memory: {soft}Mi"),
                "  limits:".to_owned(),
                format!("    memory: {hard}Mi"),
            ]
        );
        let unit = lines(SizedSystem::Systemd);
        assert_eq!(unit[0], "[Service]");
        assert_eq!(
            unit[1..3],
            [format!("MemoryHigh={soft}M"), format!("MemoryMax={hard}M")]
        );
        // Measured without swap, the need does not hold with it, and the other way round.
        let no_swap = unit.contains(&"MemorySwapMax=0".to_owned());
        assert_eq!(no_swap, engine.engine == "none");
        let command = lines(SizedSystem::SystemdRun).remove(0);
        assert!(command.ends_with(" -- prog 'two words'"), "{command}");
    }
}

#[test]
fn failed_repeats_do_not_count_and_a_repeat_without_a_tolerated_limit_leaves_no_need() {
    let mut recording = recorded(&known());
    let of_zram = |recording: &mut Recording,
                   change: &dyn Fn(&mut plimsoll_model::recording::model::Trial)| {
        let mut trials = recording.trials.iter_mut();
        change(trials.find(|trial| trial.id == "size/zram:lz4#2").unwrap());
    };
    of_zram(&mut recording, &|trial| {
        trial.status = TrialStatus::Failed;
        trial.verified = false;
        trial.phases.truncate(1);
    });
    let size = size_of(&recording);
    assert_eq!(engine(&size, "zram:lz4").repeats, 2);
    assert!(engine(&size, "zram:lz4").recommended_bytes.is_some());
    of_zram(&mut recording, &|trial| {
        trial.status = TrialStatus::Ok;
        trial.phases.clear();
    });
    let size = size_of(&recording);
    let zram = engine(&size, "zram:lz4");
    assert_eq!((zram.repeats, zram.recommended_bytes), (3, None));
    assert!(zram.advice.is_empty());
    assert!(engine(&size, "none").recommended_bytes.is_some());
}

#[test]
fn a_program_that_every_limit_is_enough_for_has_a_need_and_no_knee() {
    let mut recording = recorded(&known());
    for trial in &mut recording.trials {
        trial.phases.truncate(2);
    }
    let size = size_of(&recording);
    let zram = engine(&size, "zram:lz4");
    assert_eq!((zram.knee_bytes, zram.knee_low_bytes), (None, None));
    let smallest = zram.points.last().unwrap().limit_bytes;
    assert_eq!(zram.recommended_bytes, Some(smallest.next_multiple_of(MIB)));
}

#[test]
fn a_recording_cut_short_has_a_size_without_needs() {
    let mut recording = recorded(&known());
    recording.trials.clear();
    let size = size_of(&recording);
    assert_eq!((size.peak_bytes, size.engines.len()), (0, 0));
    assert!(terminal::program_size(&size, 80, false).ends_with('\n'));
}

/// Other programs had the CPUs in a run that never met its limit: the knee takes it for as fast as the others, and the points
/// say the same.
#[test]
fn slowdowns_of_points_are_those_that_the_knee_is_made_of() {
    let mut recording = recorded(&known());
    for trial in &mut recording.trials {
        // The base, and the first limit below it.
        for (phase, (hits, cost)) in trial.phases.iter_mut().zip([(0.0, 1.0), (0.0, 1.3)]) {
            phase.values.insert("limit_hits".to_owned(), hits);
            phase.values.insert("cost".to_owned(), cost);
            phase.values.insert("slowdown".to_owned(), cost - 1.0);
        }
    }
    let size = size_of(&recording);
    let zram = engine(&size, "zram:lz4");
    let recommended = zram.recommended_bytes.unwrap();
    let above = zram
        .points
        .iter()
        .filter(|point| point.limit_bytes >= recommended);
    for point in above {
        assert!(
            point.slowdown.is_some_and(|slowdown| slowdown <= 0.05),
            "{point:?}"
        );
    }
}

/// The document of a stranger.
#[test]
fn limits_beyond_any_memory_are_limits() {
    let mut recording = recorded(&known());
    for phase in recording.trials.iter_mut().flat_map(|trial| &mut trial.phases) {
        phase.values.insert("limit_bytes".to_owned(), 1e300);
    }
    let size = size_of(&recording);
    for advice in size.engines.iter().flat_map(|engine| &engine.advice) {
        assert!(advice.hard_bytes >= advice.soft_bytes, "{advice:?}");
    }
    assert!(terminal::program_size(&size, 80, false).ends_with('\n'));
}

#[test]
fn other_recordings_have_no_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = plimsoll_testkit::recordings::recorded(folder.path(), true);
    assert_eq!(results(&Recording::open(&path).unwrap()).size, None);
}

/// Each format shows each engine with its need, and the settings.
fn assert_shows(format: &str, text: &str, results: &Results) {
    let size = results.size.as_ref().unwrap();
    for engine in &size.engines {
        let need = plimsoll_model::quantity::bytes(engine.recommended_bytes.unwrap() as f64);
        assert!(
            text.contains(&engine.engine) && text.contains(&need),
            "{format}: {text}"
        );
        for line in engine.advice.iter().flat_map(|advice| &advice.lines) {
            // HTML has its quotes escaped.
            let escaped = line.replace('\'', "&#39;");
            assert!(
                text.contains(line.as_str()) || text.contains(&escaped),
                "{format}: {line}: {text}"
            );
        }
    }
}

#[test]
fn every_format_shows_needs_and_settings() {
    let recording = recorded(&known());
    let results = results(&recording);
    let groups = groups(&results.trials);
    let text = terminal::summary(&results, &groups, 100, false);
    std::fs::write(super::synthetic::folder().join("size.txt"), &text).expect("written");
    assert_shows("terminal", &text, &results);
    assert_shows("markdown", &markdown::markdown(&recording, &results), &results);
    let page = page::build(&recording, &results);
    let html = html::render(&page);
    std::fs::write(super::synthetic::folder().join("size.html"), &html).expect("written");
    assert_shows("html", &html, &results);
    // One line an engine; the knee and the need of each are marked.
    let start = html.find("id=\"command\"").expect("the section");
    let section = &html[start..start + html[start..].find("</section>").expect("its end")];
    for (words, count) in [("none knee", 1), ("zram:lz4 knee", 1), ("zram:lz4 needs", 1)] {
        assert!(section.matches(words).count() >= count, "{words}: {section}");
    }
    let lines = section.matches("class=\"line\"").count();
    assert!(lines >= 2, "{lines}");
}

#[test]
fn the_document_survives_json() {
    let size = size_of(&recorded(&known()));
    let text = serde_json::to_string(&size).unwrap();
    assert_eq!(serde_json::from_str::<ProgramSize>(&text).unwrap(), size);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    for key in ["schema", "command", "tolerance", "peak_bytes", "engines"] {
        assert!(!value[key].is_null(), "{key}");
    }
    let engine = &value["engines"][0];
    for key in [
        "engine",
        "points",
        "knee_bytes",
        "knee_low_bytes",
        "knee_high_bytes",
        "recommended_bytes",
    ] {
        assert!(!engine[key].is_null(), "{key}");
    }
    for key in ["limit_bytes", "slowdown", "status"] {
        assert!(!engine["points"][0][key].is_null(), "{key}");
    }
}

#[test]
fn hostile_names_stay_texts() {
    let mut recording = recorded(&known());
    for planned in &mut recording.manifest.plan.trials {
        if let plimsoll_model::scenario::Workload::Command(run) = &mut planned.settings.workload {
            run.command = vec!["<b>\u{1b}[31m`x`|".to_owned()];
        }
    }
    let results = results(&recording);
    let text = terminal::program_size(results.size.as_ref().unwrap(), 80, false);
    assert!(!text.contains('\u{1b}'));
    let markdown = markdown::markdown(&recording, &results);
    // An indented line is code, which no reader of Markdown interprets.
    let mut words = markdown.lines().filter(|line| !line.starts_with("    "));
    assert!(!words.any(|line| line.contains("<b>")) && !markdown.contains('\u{1b}'));
    let html = html::render(&page::build(&recording, &results));
    let body = &html[..html.find("application/json").unwrap_or(html.len())];
    assert!(!body.contains("<b>\u{1b}") && !body.contains("<b>["));
}
