//! The verdict on a budget.

use super::*;
use plimsoll_model::recording::size::{EngineSize, SIZE_SCHEMA, SizeInterval};

fn size(engines: &[(&str, Option<u64>, bool)]) -> ProgramSize {
    let engine = |(name, recommended, untrustworthy): &(&str, Option<u64>, bool)| EngineSize {
        engine: (*name).to_owned(),
        points: Vec::new(),
        repeats: 3,
        untrustworthy: *untrustworthy,
        knee_bytes: *recommended,
        knee_low_bytes: *recommended,
        knee_high_bytes: *recommended,
        interval: SizeInterval::Range,
        recommended_bytes: *recommended,
        swap_bytes: None,
        headroom_bytes: None,
        headroom_reason: None,
        advice: Vec::new(),
    };
    ProgramSize {
        schema: SIZE_SCHEMA,
        command: vec!["prog".to_owned()],
        tolerance: 0.05,
        measure: "wall time".to_owned(),
        cache: "cold".to_owned(),
        peak_bytes: 1000,
        peak_anon_bytes: None,
        peak_file_bytes: None,
        reclaimable_percent: None,
        engines: engines.iter().map(engine).collect(),
    }
}

#[test]
fn a_budget_holds_on_every_engine_or_fails_with_code_6() {
    let two = size(&[("none", Some(900), false), ("zram:lz4", Some(500), false)]);
    assert!(check("prog", &two, 900).is_ok());
    let over = check("prog", &two, 899).unwrap_err();
    let SizeError::OverBudget { engine, needed, .. } = &over else {
        panic!("{over:?}")
    };
    assert_eq!((engine.as_str(), *needed), ("none", 900));
    assert_eq!(Failure::from(over).exit, Exit::Regression);
}

#[test]
fn a_budget_without_a_trustworthy_result_is_unknown_not_kept() {
    for engines in [
        size(&[("none", None, false)]),
        size(&[("none", Some(5), true)]),
        size(&[("swapfile", Some(5), false), ("none", Some(900), true)]),
    ] {
        let found = check("prog", &engines, 800).unwrap_err();
        assert!(matches!(found, SizeError::Unknown { .. }), "{found:?}");
        assert_eq!(Failure::from(found).exit, Exit::Untrustworthy);
    }
    // One that is known to need more is worse.
    let both = size(&[("none", None, false), ("swapfile", Some(900), false)]);
    let found = check("prog", &both, 800).unwrap_err();
    assert!(matches!(found, SizeError::OverBudget { .. }), "{found:?}");
}
