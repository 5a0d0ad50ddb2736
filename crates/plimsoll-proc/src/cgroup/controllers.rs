//! `/proc/cgroups`: which controllers the kernel has.

use crate::Tree;

const PATH: &str = "proc/cgroups";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controller {
    /// Number of the v1 hierarchy that it is in; 0 for none, or for v2's.
    pub hierarchy: Option<u64>,
    /// Whether it was switched off at boot.
    pub disabled: bool,
}

/// Whether the file is there at all.
pub fn is_known(tree: &Tree) -> bool {
    tree.exists(PATH)
}

/// The memory controller; None where the kernel has none, or does not say.
pub fn memory(tree: &Tree) -> Option<Controller> {
    let table = tree.read(PATH)?;
    // `name hierarchy cgroups enabled`
    let mut words = table
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut words| (words.next() == Some("memory")).then_some(words))?;
    let hierarchy = words.next().and_then(|word| word.parse().ok());
    Some(Controller {
        hierarchy,
        disabled: words.nth(1) == Some("0"),
    })
}
