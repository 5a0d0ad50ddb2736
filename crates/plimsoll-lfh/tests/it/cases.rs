//! How many cases a property is tried with. The unit tests use it too.

use proptest::prelude::ProptestConfig;

/// The number of cases: `PROPTEST_CASES` of the environment, or `few`.
pub(crate) fn cases(few: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(few),
    }
}
