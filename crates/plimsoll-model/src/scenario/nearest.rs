//! The nearest valid word for a mistyped one.

/// The candidate that `given` most probably meant, or `None` where nothing comes near.
pub(super) fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    near(given, candidates).into_iter().next()
}

/// All candidates that `given` may have meant, best first.
pub fn near<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // Long garbage has no near word, and comparing it costs its length times the candidate's.
    if given.len() > 64 {
        return Vec::new();
    }
    let given = given.to_lowercase().replace('_', "-");
    let mut scored: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|candidate| (closeness(&given, &candidate.to_lowercase()), candidate))
        .filter(|(score, _)| *score > 0.0)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().map(|(_, candidate)| candidate).collect()
}

/// 0 where the words have too little in common to be offered. Edit distance finds slips of the finger,
/// Jaro-Winkler shortened words (`swap` for `swap-size`).
fn closeness(given: &str, candidate: &str) -> f64 {
    let edits = strsim::normalized_damerau_levenshtein(given, candidate);
    let prefix = strsim::jaro_winkler(given, candidate);
    if edits >= 0.5 || prefix >= 0.85 {
        edits + prefix
    } else {
        0.0
    }
}
