//! The document and text of pagers from synthetic counters. Each value is unique, so that a swap of two values shows.

use std::collections::BTreeSet;

use plimsoll_pager::published::Mapped;
use plimsoll_pager::{Pager, Stats, ThrashStep};

use super::model::{PageFileReport, PagerReport, PagerSurvey, PagerValidation, Values};
use super::rows::ROWS;
use super::text::render;

/// Counters that are all different.
fn stats() -> Stats {
    let mut stats = Stats::default();
    stats.ram = 64 << 20;
    stats.native_pages = 101;
    stats.active_pages = 1103;
    stats.modified_pages = 107;
    stats.standby_pages = [2, 0, 3, 0, 5, 211, 7, 11];
    stats.compressed_pages = 2113;
    stats.page_file_pages = 3119;
    stats.pinned_pages = 13;
    stats.store_bytes = 3 << 20;
    stats.metadata_bytes = 200 << 10;
    stats.forced_frames = 17;
    stats.zero_faults = 10_007;
    stats.soft_faults = 10_009;
    stats.hard_faults = 10_037;
    stats.stream_pages = 10_039;
    stats.spurious_faults = 10_061;
    stats.trimmed_pages = 10_067;
    stats.saved_pages = 10_069;
    stats.refused_saves = 10_079;
    stats.taken_frames = 10_091;
    stats.released_frames = 10_093;
    stats.unmovable_pages = 10_099;
    stats.partial_moves = 10_103;
    stats.copied_frames = 10_111;
    stats.direct_reclaims = 10_133;
    stats.no_memory = 10_139;
    stats.unshared_pages = 10_141;
    stats.adopted_pages = 10_151;
    (stats.suspended_pages, stats.refaults, stats.stall_us) = (10_157, 10_159, 10_163);
    (stats.ageing_windows, stats.ageing_us) = (10_169, 10_177);
    stats.heat_chunks = [10_181, 0, 0, 0, 10_193, 0, 0, 0];
    stats.thrash_step = ThrashStep::NoReadAhead;
    stats.thrash_us = [10_211, 10_223, 10_243, 10_247, 10_253];
    (stats.throttled_us, stats.worst_faulter_percent) = (10_259, 71);
    (stats.thrash_trials, stats.kept_trials) = (10_267, 10_271);
    stats
}

fn survey() -> PagerSurvey {
    let mut mapped = Mapped::default();
    (mapped.pages, mapped.native_pages, mapped.virgin_pages) = (9001, 101, 2219);
    let mut survey = PagerSurvey::new(4711, "program\u{1b}[31m".to_owned());
    survey.took_us = 123;
    survey.pagers.push(PagerReport {
        record: 0x7000_0000_1000,
        arena: 0x7000_4000_0000,
        address_space_bytes: 64 << 30,
        standby_pages_by_priority: stats().standby_pages,
        thrash_step: stats().thrash_step.name().to_owned(),
        values: Values {
            stats: stats(),
            mapped,
        },
        page_file: Some(PageFileReport {
            state: "failed".to_owned(),
            problem: Some("the disk is gone".to_owned()),
            bytes: 19 << 20,
            used_bytes: 17 << 20,
            allocated_bytes: 18 << 20,
            written_bytes: 23 << 20,
            read_bytes: 29 << 20,
            write_failures: 1,
            read_failures: 2,
        }),
        validation: Some(PagerValidation {
            all_chunks: 20,
            chunks: 18,
            unsettled_chunks: 1,
            pages: 8999,
            presence_checked: false,
            partial: true,
            violations: vec!["page 5 is active".to_owned()],
        }),
    });
    survey
}

#[test]
fn a_document_has_each_value_under_its_name() {
    let document = serde_json::to_value(survey()).expect("it is JSON");
    let pager = &document["pagers"][0];
    let values: Vec<u64> = ROWS.iter().filter_map(|row| pager[row.key].as_u64()).collect();
    assert_eq!(values.len(), ROWS.len(), "{pager:#}");
    let distinct: BTreeSet<&u64> = values.iter().collect();
    assert_eq!(distinct.len(), ROWS.len(), "a number stands twice in {pager:#}");
    assert!(!distinct.contains(&0), "{pager:#}");
    insta::assert_snapshot!(
        "document",
        serde_json::to_string_pretty(&document).expect("it is JSON")
    );
}

#[test]
fn the_text_has_each_value_behind_its_name() {
    insta::assert_snapshot!("text", render(&survey()));
}

#[test]
fn the_book_has_each_metric() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/pager-stat.md");
    let book = std::fs::read_to_string(path).expect("the chapter is there");
    for row in ROWS {
        assert!(book.contains(&format!("`{}`", row.key)), "{}", row.key);
        assert!(book.contains(row.label), "{}", row.label);
    }
}

#[test]
fn statistics_of_a_hostile_process_overflow_nothing() {
    let mut all = stats();
    (all.ram, all.active_pages, all.standby_pages) = (u64::MAX, u64::MAX, [u64::MAX; 8]);
    let mut survey = survey();
    survey.pagers[0].values.stats = all;
    survey.pagers[0].standby_pages_by_priority = all.standby_pages;
    assert!(render(&survey).contains("priority 7"));
    assert!(serde_json::to_string(&survey).is_ok());
}

#[test]
fn a_pager_of_this_process_is_found_and_holds() {
    let builder = Pager::builder().ram(8 << 20);
    let pager = builder.build().expect("userfaultfd");
    let mut region = pager.map(12 << 20).expect("addresses");
    region.bytes_mut().fill(1);
    let survey = super::stat(std::process::id(), true).expect("the process is its own");
    assert_eq!(survey.pagers.len(), 1);
    let found = &survey.pagers[0];
    assert!(found.arena <= region.as_ptr() as u64);
    let counts = found.values.stats;
    assert!(counts.trimmed_pages > 0 && counts.ram == 8 << 20, "{counts:?}");
    assert_eq!(found.values.mapped.pages, 3072);
    let validation = found.validation.as_ref().expect("it was asked for");
    assert_eq!(validation.violations, Vec::<String>::new());
    assert!(validation.presence_checked && validation.all_chunks == 6);
    drop((region, pager));
    let none = super::stat(std::process::id(), false);
    assert!(
        matches!(none, Err(super::PagerStatError::NoPager { .. })),
        "{none:?}"
    );
}
