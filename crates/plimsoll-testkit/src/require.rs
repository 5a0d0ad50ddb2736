//! Capabilities that a test needs. A skip prints a message; it is a failure if `PLIMSOLL_REQUIRE` names the capability.

/// Returns `available`. If it is false, prints the reason, or panics if the environment variable `PLIMSOLL_REQUIRE`
/// (comma-separated) names the capability.
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
