//! `/sys/kernel/mm/transparent_hugepage`: huge pages that the kernel forms by itself
//! (`Documentation/admin-guide/mm/transhuge.rst`).

use std::collections::BTreeMap;

use super::Tree;

const FOLDER: &str = "sys/kernel/mm/transparent_hugepage";

/// The state of a kernel that has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransparentHugePages {
    /// `always`, `madvise` or `never`.
    pub mode: String,
    /// When a fault compacts memory for a huge page: `always`, `defer`, `defer+madvise`, `madvise` or `never`.
    pub defrag: Option<String>,
    /// Whether khugepaged compacts memory: `1` or `0`.
    pub khugepaged_defrag: Option<String>,
    /// The mode of each size, by KiB; `inherit` follows [`TransparentHugePages::mode`]. Empty before Linux 6.8.
    pub sizes: BTreeMap<u64, String>,
}

impl TransparentHugePages {
    /// `None` if the kernel is built without them.
    pub fn of(tree: &Tree) -> Option<TransparentHugePages> {
        let file = |name: &str| format!("{FOLDER}/{name}");
        let of_size = |name: String| {
            let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
            Some((
                kib.parse::<u64>().ok()?,
                tree.choice(&file(&format!("{name}/enabled")))?,
            ))
        };
        Some(TransparentHugePages {
            mode: tree.choice(&file("enabled"))?,
            defrag: tree.choice(&file("defrag")),
            khugepaged_defrag: tree.read(&file("khugepaged/defrag")),
            sizes: tree.list(FOLDER).into_iter().filter_map(of_size).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_modes_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::below(folder.path());
        let put = |file: &str, text: &str| {
            let path = tree.path(&format!("{FOLDER}/{file}"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("hugepages-2048kB/enabled", "always [inherit] madvise never\n");
        assert_eq!(TransparentHugePages::of(&tree), None);
        put("enabled", "always [madvise] never\n");
        put("khugepaged/defrag", "1\n");
        put("hugepages-64kB/enabled", "always inherit madvise [never]\n");
        put("hugepages-huge/enabled", "[always]\n");
        let expected = TransparentHugePages {
            mode: "madvise".to_owned(),
            defrag: None,
            khugepaged_defrag: Some("1".to_owned()),
            sizes: [(64, "never".to_owned()), (2048, "inherit".to_owned())].into(),
        };
        assert_eq!(TransparentHugePages::of(&tree), Some(expected));
    }
}
