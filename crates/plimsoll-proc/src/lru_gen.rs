//! `/sys/kernel/mm/lru_gen`: the multi-generational LRU (`Documentation/admin-guide/mm/multigen_lru.rst`).

use super::Tree;

/// The switch of its parts, as the kernel writes it: `0x0007`.
pub const ENABLED: &str = "sys/kernel/mm/lru_gen/enabled";
const MIN_TTL_MS: &str = "sys/kernel/mm/lru_gen/min_ttl_ms";

/// The state of a kernel that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LruGen {
    /// A bit for each part that is on; 0 if the file holds no number.
    pub bits: u32,
    /// The age in milliseconds of pages that reclaim spares; `None` if it cannot be read.
    pub min_ttl_ms: Option<u64>,
}

/// The parts by bit; without the first one, the others do nothing.
const PARTS: [(u32, &str); 3] = [
    (1, "core"),
    (2, "leaf page-table walks"),
    (4, "non-leaf page-table walks"),
];

impl LruGen {
    /// `None` if the kernel is built without it.
    pub fn of(tree: &Tree) -> Option<LruGen> {
        Some(LruGen {
            bits: bits(&tree.read(ENABLED)?),
            min_ttl_ms: tree.parse(MIN_TTL_MS),
        })
    }

    /// Whether reclaim uses it.
    pub fn is_on(&self) -> bool {
        self.bits & 1 != 0
    }

    /// The names of the parts that are on.
    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        let on = PARTS.iter().filter(|(bit, _)| self.bits & bit != 0);
        on.map(|(_, name)| *name)
    }
}

/// The bits in the text of [`ENABLED`]; 0 if it holds no number.
pub fn bits(text: &str) -> u32 {
    let digits = text.trim().trim_start_matches("0x");
    u32::from_str_radix(digits, 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_bits_of_a_hexadecimal_number() {
        assert_eq!(
            [bits("0x0007\n"), bits("0x0010"), bits("y"), bits("")],
            [7, 16, 0, 0]
        );
        let state = |bits| LruGen {
            bits,
            min_ttl_ms: None,
        };
        assert_eq!(
            state(5).parts().collect::<Vec<_>>(),
            ["core", "non-leaf page-table walks"]
        );
        assert!(state(1).is_on() && !state(6).is_on());
    }

    #[test]
    fn a_kernel_without_it_has_no_state() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::below(folder.path());
        assert_eq!(LruGen::of(&tree), None);
        std::fs::create_dir_all(tree.path(ENABLED).parent().unwrap()).unwrap();
        std::fs::write(tree.path(ENABLED), "0x0003\n").unwrap();
        std::fs::write(tree.path(MIN_TTL_MS), "1000\n").unwrap();
        let found = LruGen {
            bits: 3,
            min_ttl_ms: Some(1000),
        };
        assert_eq!(LruGen::of(&tree), Some(found));
    }
}
