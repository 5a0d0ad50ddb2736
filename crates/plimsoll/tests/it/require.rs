//! What a test needs of the machine: a skip is said aloud, and is a failure where `PLIMSOLL_REQUIRE` names it.

/// Returns true when the capability is there. Otherwise prints why the test is skipped, or panics when the
/// environment variable `PLIMSOLL_REQUIRE` (comma-separated) names the capability.
pub fn capability(name: &str, available: bool, reason: &str) -> bool {
    if available {
        return true;
    }
    let required = std::env::var("PLIMSOLL_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|r| r.trim() == name),
        "capability `{name}` is required but missing: {reason}"
    );
    eprintln!("skipped: needs {name}: {reason}");
    false
}

/// The machine to this test alone: swap is one for all, so a test that turns some on would take the pages of
/// another's. Held until dropped.
pub fn machine_alone() -> plimsoll::environment::Session {
    let wait = std::time::Duration::from_secs(600);
    plimsoll::environment::Session::open("a-test", &[], Some(wait)).expect("the machine within ten minutes")
}
