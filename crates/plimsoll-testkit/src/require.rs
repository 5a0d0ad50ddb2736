//! Capabilities that a test needs: a skip is printed, and is a failure where `PLIMSOLL_REQUIRE` names the capability.

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
