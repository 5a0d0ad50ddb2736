//! `/proc/cpuinfo` and `/sys/devices/system/cpu`: the CPUs and their clocks.

use super::Tree;

const CPUINFO: &str = "proc/cpuinfo";

/// Folder of the frequency policies.
pub const FREQUENCY_POLICIES: &str = "sys/devices/system/cpu/cpufreq";

/// CPUs that are online, from the kernel's list (`0-3,6`), or counted in `cpuinfo`.
pub fn online(tree: &Tree) -> u32 {
    let list = tree.read("sys/devices/system/cpu/online").unwrap_or_default();
    let from_list = count_in_list(&list);
    if from_list > 0 {
        return from_list;
    }
    let cpuinfo = tree.read(CPUINFO).unwrap_or_default();
    cpuinfo
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count() as u32
}

fn count_in_list(list: &str) -> u32 {
    let count = |range: &str| -> Option<u32> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(',').filter_map(count).fold(0, u32::saturating_add)
}

/// `model name` on x86; where that is missing (Arm), implementer and part, or the machine that firmware names.
pub fn model(tree: &Tree) -> Option<String> {
    let field = |key| tree.field(CPUINFO, key);
    field("model name").or_else(|| field("Model")).or_else(|| {
        Some(format!(
            "implementer {} part {}",
            field("CPU implementer")?,
            field("CPU part")?
        ))
    })
}

/// Whether the CPU says that a hypervisor runs it (x86).
pub fn has_hypervisor_flag(tree: &Tree) -> bool {
    tree.field(CPUINFO, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The governor of the first policy that has one.
pub fn frequency_governor(tree: &Tree) -> Option<String> {
    let policies = tree.list(FREQUENCY_POLICIES);
    policies
        .iter()
        .find_map(|policy| tree.read(&format!("{FREQUENCY_POLICIES}/{policy}/scaling_governor")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_counted() {
        for (list, count) in [
            ("0-3,6", 5),
            ("0", 1),
            ("", 0),
            ("3-0", 0),
            ("x,2", 1),
            ("0-4294967295", 0),
        ] {
            assert_eq!(count_in_list(list), count, "{list}");
        }
    }
}
