//! `/sys/kernel/mm/hugepages`: huge pages that the administrator has reserved.

use super::Tree;

/// Reserved pages of 2 MiB that are free; 0 where the kernel has none.
pub fn free_2_mib(tree: &Tree) -> u64 {
    tree.parse("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
        .unwrap_or(0)
}
