//! `/sys/kernel/mm/damon`: the kernel's monitors of memory, and their schemes.

use super::Tree;

/// The folder of the monitors.
pub const KDAMONDS: &str = "sys/kernel/mm/damon/admin/kdamonds";

/// DAMON's modules that act on their own, apart from the monitors in [`KDAMONDS`].
pub const MODULES: [&str; 2] = ["damon_reclaim", "damon_lru_sort"];

/// The parameter that switches a module of [`MODULES`]: `Y` or `N`.
pub fn module_switch(module: &str) -> String {
    format!("sys/module/{module}/parameters/enabled")
}

/// Whether a module of [`MODULES`] is on.
pub fn is_module_on(tree: &Tree, module: &str) -> bool {
    tree.read(&module_switch(module)).as_deref() == Some("Y")
}

/// The file that starts and stops a monitor: `on` or `off`.
pub fn switch(kdamond: &str) -> String {
    format!("{kdamond}/state")
}

/// Whether a monitor runs; `None` if this user may not know.
pub fn is_on(tree: &Tree, kdamond: &str) -> Option<bool> {
    Some(tree.read(&switch(kdamond))? == "on")
}

/// Whether a kernel thread of a monitor runs; its name is visible without privileges.
pub fn has_thread(tree: &Tree) -> bool {
    let is_pid = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    tree.list("proc").iter().any(|name| {
        is_pid(name)
            && tree
                .read(&format!("proc/{name}/comm"))
                .is_some_and(|comm| comm.starts_with("kdamond"))
    })
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

/// A rule of a monitor: an action on pages with a pattern of accesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheme {
    /// As the kernel names it: `pageout`.
    pub action: String,
    /// The time without access that pages must have had; `None` if the kernel does not say.
    pub idle_us: Option<u64>,
    /// The most bytes in each interval of so many milliseconds; `None` without that limit.
    pub quota: Option<(u64, u64)>,
    pub excludes_anonymous: bool,
}

impl Scheme {
    /// The scheme in a folder of [`schemes`] of `context`; `None` if it has no action that this user may read.
    pub fn read(tree: &Tree, context: &str, folder: &str) -> Option<Scheme> {
        let number = |file: &str| tree.parse::<u64>(&format!("{folder}/{file}"));
        // Ages are counted in intervals of aggregation.
        let aggregation_us: Option<u64> =
            tree.parse(&format!("{context}/monitoring_attrs/intervals/aggr_us"));
        let age = number("access_pattern/age/min");
        let quota = number("quotas/bytes").filter(|bytes| *bytes > 0);
        Some(Scheme {
            action: tree.read(&format!("{folder}/action"))?,
            idle_us: age.zip(aggregation_us).map(|(age, us)| age.saturating_mul(us)),
            quota: quota.zip(number("quotas/reset_interval_ms")),
            excludes_anonymous: excludes_anonymous(tree, folder),
        })
    }
}

/// Whether a filter of a scheme excludes anonymous pages: it matches them and its `allow` is not Y. Before Linux 6.14
/// filters have no `allow` and exclude the pages that they match.
fn excludes_anonymous(tree: &Tree, scheme: &str) -> bool {
    FILTERS.iter().any(|folder| {
        let folder = format!("{scheme}/{folder}");
        tree.list(&folder).iter().any(|filter| {
            let word = |file: &str| tree.read(&format!("{folder}/{filter}/{file}"));
            word("type").as_deref() == Some("anon")
                && word("matching").as_deref() == Some("Y")
                && word("allow").as_deref() != Some("Y")
        })
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_read_with_its_limits() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::below(folder.path());
        let put = |file: &str, text: &str| {
            let path = tree.path(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let (context, scheme) = ("c", "c/schemes/0");
        assert_eq!(Scheme::read(&tree, context, scheme), None);
        put("c/schemes/0/action", "pageout\n");
        put("c/schemes/0/quotas/bytes", "0\n");
        put("c/schemes/0/quotas/reset_interval_ms", "1000\n");
        put("c/schemes/0/access_pattern/age/min", "600\n");
        let mut expected = Scheme {
            action: "pageout".to_owned(),
            idle_us: None,
            quota: None,
            excludes_anonymous: false,
        };
        assert_eq!(Scheme::read(&tree, context, scheme), Some(expected.clone()));
        put("c/monitoring_attrs/intervals/aggr_us", "100000\n");
        put("c/schemes/0/quotas/bytes", "4096\n");
        put("c/schemes/0/filters/0/type", "anon\n");
        put("c/schemes/0/filters/0/matching", "Y\n");
        expected.idle_us = Some(60_000_000);
        expected.quota = Some((4096, 1000));
        expected.excludes_anonymous = true;
        assert_eq!(Scheme::read(&tree, context, scheme), Some(expected.clone()));
        put("c/schemes/0/filters/0/allow", "Y\n");
        expected.excludes_anonymous = false;
        assert_eq!(Scheme::read(&tree, context, scheme), Some(expected));
    }

    #[test]
    fn monitors_and_modules_are_on_off_or_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::below(folder.path());
        let kdamond = format!("{KDAMONDS}/0");
        assert_eq!(is_on(&tree, &kdamond), None);
        assert!(!is_module_on(&tree, MODULES[0]) && !has_thread(&tree));
        for (file, text) in [
            (switch(&kdamond), "on\n"),
            (module_switch(MODULES[0]), "Y\n"),
            ("proc/31/comm".to_owned(), "kdamond.0\n"),
        ] {
            std::fs::create_dir_all(tree.path(&file).parent().unwrap()).unwrap();
            std::fs::write(tree.path(&file), text).unwrap();
        }
        assert_eq!(is_on(&tree, &kdamond), Some(true));
        assert!(is_module_on(&tree, MODULES[0]) && has_thread(&tree));
        std::fs::write(tree.path(&switch(&kdamond)), "off\n").unwrap();
        assert_eq!(is_on(&tree, &kdamond), Some(false));
    }
}
