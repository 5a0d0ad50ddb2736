//! `/sys/kernel/mm/damon`: the kernel's monitors of memory, and their schemes.

use super::Tree;

/// The folder of the monitors.
pub const KDAMONDS: &str = "sys/kernel/mm/damon/admin/kdamonds";

/// DAMON's modules that act on their own, apart from the monitors in [`KDAMONDS`].
pub const MODULES: [&str; 2] = ["damon_reclaim", "damon_lru_sort"];

/// The parameter that tells whether a module of [`MODULES`] is on: `Y` or `N`.
pub fn module_switch(module: &str) -> String {
    format!("sys/module/{module}/parameters/enabled")
}

/// The folders of the monitors, by number.
pub fn kdamonds(tree: &Tree) -> Vec<String> {
    numbered(tree, KDAMONDS)
}

/// The folders of the contexts of a monitor.
pub fn contexts(tree: &Tree, kdamond: &str) -> Vec<String> {
    numbered(tree, &format!("{kdamond}/contexts"))
}

/// The folders of the schemes of a context.
pub fn schemes(tree: &Tree, context: &str) -> Vec<String> {
    numbered(tree, &format!("{context}/schemes"))
}

/// The filters of a scheme, in the layouts of all kernels: folders of folders.
pub const FILTERS: [&str; 3] = ["ops_filters", "core_filters", "filters"];

/// Whether the kernel itself brings the statistics of a monitor up to date (Linux 6.17).
pub fn refreshes_statistics(tree: &Tree, kdamond: &str) -> bool {
    let ms: Option<u64> = tree.parse(&format!("{kdamond}/refresh_ms"));
    ms.is_some_and(|ms| ms > 0)
}

/// The folders 0, 1, 2, ... of `folder`, ascending.
fn numbered(tree: &Tree, folder: &str) -> Vec<String> {
    let names = tree.list(folder);
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .map(|number| format!("{folder}/{number}"))
        .collect()
}
