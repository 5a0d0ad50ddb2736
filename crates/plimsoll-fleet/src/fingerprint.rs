//! The hardware and settings of a host, without values that are unique to it or that move by themselves: two hosts of a class
//! have equal fingerprints except for their names, unless one is set up differently.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_proc::zram::Zram;
use plimsoll_proc::{Tree, swaps};
use serde::{Deserialize, Serialize};

/// The file in the folder of a task's result.
pub const FILE: &str = "host.json";
pub const VERSION: u32 = 1;

/// `host.json` of a task's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// [`VERSION`].
    pub version: u32,
    /// `uname -n`.
    pub host: String,
    /// Vendor and product of the machine, and its CPU.
    pub machine: String,
    /// `uname -r` and `-v`.
    pub kernel: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    /// `uname -m`.
    pub architecture: String,
    /// Before the run.
    pub swap: Vec<SwapDevice>,
    /// By path.
    pub settings: BTreeMap<String, String>,
    /// `class=` of the hosts file. A host does not know it: `collect` takes it from the plan.
    #[serde(default)]
    pub class: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwapDevice {
    /// `zram`, `partition` or `file`.
    pub kind: String,
    pub bytes: u64,
    /// Compression algorithm of zram.
    #[serde(default)]
    pub algorithm: Option<String>,
}

impl Fingerprint {
    /// Of this host.
    pub fn this() -> Fingerprint {
        Fingerprint::of(&Tree::live())
    }

    /// Of the host whose files are `tree`.
    pub fn of(tree: &Tree) -> Fingerprint {
        let host = plimsoll_sample::host::host_of(tree);
        Fingerprint {
            version: VERSION,
            machine: machine(tree, &host.cpu),
            host: host.hostname,
            kernel: host.kernel,
            cpus: host.cpus,
            memory_bytes: host.mem_total,
            architecture: rustix::system::uname().machine().to_string_lossy().into_owned(),
            swap: swap(tree),
            settings: settings(host.settings),
            class: None,
        }
    }

    /// Hosts of one class are comparable: the class of the hosts file, or the same hardware.
    pub fn class_key(&self) -> String {
        if let Some(class) = &self.class {
            return class.clone();
        }
        format!(
            "{}, {}, {} CPUs, {} GiB",
            self.architecture,
            self.machine,
            self.cpus,
            installed_gib(self.memory_bytes)
        )
    }
}

/// The memory of a machine from the memory that its kernel manages, which is some percent less and differs between kernels: rounded up
/// to an eighth of the next power of two, so that equal machines have one class.
fn installed_gib(managed: u64) -> u64 {
    const GIB: u64 = 1 << 30;
    let step = (managed.max(GIB).checked_next_power_of_two().unwrap_or(1 << 63) / 8).max(GIB);
    managed.div_ceil(step).saturating_mul(step) / GIB
}

/// Vendor, product and CPU, without those that are unknown.
fn machine(tree: &Tree, cpu: &str) -> String {
    const DMI: &str = "sys/class/dmi/id";
    let parts = [
        tree.read(&format!("{DMI}/sys_vendor")),
        tree.read(&format!("{DMI}/product_name")),
        tree.read("proc/device-tree/model"),
        Some(cpu.to_owned()),
    ];
    let parts = parts.into_iter().flatten();
    let parts = parts.map(|part| part.trim_matches(['\0', ' ']).to_owned());
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => "unknown machine".to_owned(),
        false => parts.join(" "),
    }
}

/// The swap devices, without their names and in a fixed order.
fn swap(tree: &Tree) -> Vec<SwapDevice> {
    let mut devices: Vec<SwapDevice> = swaps::of(tree)
        .into_iter()
        .map(|swap| match swap.zram() {
            Some(id) => SwapDevice {
                kind: "zram".to_owned(),
                bytes: swap.size,
                algorithm: Zram::of_tree(tree, id).algorithm().ok(),
            },
            None => SwapDevice {
                kind: match swap.path.starts_with("/dev") {
                    true => "partition".to_owned(),
                    false => "file".to_owned(),
                },
                bytes: swap.size,
                algorithm: None,
            },
        })
        .collect();
    devices.sort();
    devices
}

/// Settings that the kernel computes from the RAM at its boot: they differ in the last digits between equal hosts.
const COMPUTED: [&str; 3] = [
    "/proc/sys/vm/min_free_kbytes",
    "/proc/sys/vm/user_reserve_kbytes",
    "/proc/sys/vm/admin_reserve_kbytes",
];
/// Parameters of the kernel's command line that name a host or a disk of it.
const UNIQUE: [&str; 12] = [
    "root",
    "resume",
    "ip",
    "BOOTIF",
    "BOOT_IMAGE",
    "initrd",
    "hostname",
    "nfsroot",
    "cryptdevice",
    "systemd.hostname",
    "systemd.machine_id",
    "ds",
];
const COMMAND_LINE: &str = "/proc/cmdline";
const CPU_FREQUENCY: &str = "/sys/devices/system/cpu/cpufreq/policy";

/// The settings that hosts share.
fn settings(recorded: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut kept: BTreeMap<String, String> = BTreeMap::new();
    let mut frequencies: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, value) in recorded {
        if path == COMMAND_LINE {
            kept.insert(path, command_line(&value));
        } else if COMPUTED.contains(&path.as_str()) {
            kept.insert(path, rounded(&value));
        } else if let Some((_, file)) = path
            .strip_prefix(CPU_FREQUENCY)
            .and_then(|rest| rest.split_once('/'))
        {
            // A host may number its CPUs differently, and a file for each CPU is one setting.
            let path = format!("{CPU_FREQUENCY}*/{file}");
            frequencies.entry(path).or_default().insert(value);
        } else if !is_of_one_host(&path) {
            kept.insert(path, value);
        }
    }
    for (path, values) in frequencies {
        kept.insert(path, values.into_iter().collect::<Vec<_>>().join(" "));
    }
    kept
}

/// Whether a setting has a value of one host only: a process id, a counter.
fn is_of_one_host(path: &str) -> bool {
    plimsoll_model::recording::is_counter(path) || path.ends_with("_pid")
}

/// The kernel's command line without the parameters of one host.
fn command_line(text: &str) -> String {
    let shared = text.split_ascii_whitespace().filter(|word| {
        let key = word.split('=').next().unwrap_or_default();
        !UNIQUE.contains(&key) && !key.starts_with("rd.") && !has_uuid(word)
    });
    shared.collect::<Vec<_>>().join(" ")
}

/// Whether a text contains a UUID: 8-4-4-4-12 hexadecimal digits.
fn has_uuid(text: &str) -> bool {
    const LENGTH: usize = 36;
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    text.as_bytes().windows(LENGTH).any(|window| {
        window
            .iter()
            .enumerate()
            .all(|(index, byte)| match DASHES.contains(&index) {
                true => *byte == b'-',
                false => byte.is_ascii_hexdigit(),
            })
    })
}

/// A number to two significant digits.
fn rounded(text: &str) -> String {
    let Ok(number) = text.parse::<u64>() else {
        return text.to_owned();
    };
    let mut unit = 1;
    while number / unit >= 100 {
        unit *= 10;
    }
    (number.saturating_add(unit / 2) / unit * unit).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = Tree::below(folder.path());
        (folder, tree)
    }

    fn host(name: &str, swappiness: &str, root: &str, free: &str, algorithm: &str) -> Fingerprint {
        let (_folder, tree) = tree(&[
            ("proc/sys/kernel/hostname", name),
            ("proc/sys/kernel/random/boot_id", name),
            ("proc/sys/vm/swappiness", swappiness),
            ("proc/sys/vm/min_free_kbytes", free),
            (
                "proc/cmdline",
                &format!("BOOT_IMAGE=/vmlinuz root=UUID={root} ro transparent_hugepage=never x={root}"),
            ),
            ("proc/meminfo", "MemTotal:       16000000 kB\n"),
            ("sys/class/dmi/id/sys_vendor", "Vendor\n"),
            ("sys/class/dmi/id/product_name", "Model 1\n"),
            (
                "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
                "powersave\n",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy1/scaling_governor",
                "powersave\n",
            ),
            (
                "proc/swaps",
                "Filename Type Size Used Priority\n/dev/zram3 partition 1024 0 5\n/swap-of-a file 4096 0 -2\n",
            ),
            ("sys/block/zram3/comp_algorithm", algorithm),
        ]);
        Fingerprint::of(&tree)
    }

    #[test]
    fn equal_hosts_differ_in_their_names_only() {
        let one = host(
            "a",
            "60",
            "01234567-89ab-cdef-0123-456789abcdef",
            "67584",
            "lzo [zstd]\n",
        );
        let mut other = host(
            "b",
            "60",
            "11234567-89ab-cdef-0123-456789abcdef",
            "67589",
            "lzo [zstd]\n",
        );
        assert_ne!(one, other);
        other.host = one.host.clone();
        assert_eq!(one, other);
        assert_eq!(one.settings["/proc/cmdline"], "ro transparent_hugepage=never");
        let governor = format!("{CPU_FREQUENCY}*/scaling_governor");
        assert_eq!(one.settings[&governor], "powersave");
        assert!(one.class_key().contains("Vendor Model 1"), "{}", one.class_key());
        assert!(one.class_key().contains("16 GiB"), "{}", one.class_key());
    }

    #[test]
    fn a_host_that_is_set_up_differently_shows_it() {
        let root = "01234567-89ab-cdef-0123-456789abcdef";
        let one = host("a", "60", root, "67584", "lzo [zstd]\n");
        let other = host("b", "10", root, "67584", "[lzo] zstd\n");
        let differing: Vec<_> = one
            .settings
            .iter()
            .filter(|(path, value)| other.settings.get(*path) != Some(value))
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(differing, ["/proc/sys/vm/swappiness"]);
        let algorithm = |host: &Fingerprint| host.swap.iter().find_map(|swap| swap.algorithm.clone());
        assert_eq!(algorithm(&one).as_deref(), Some("zstd"));
        assert_eq!(algorithm(&other).as_deref(), Some("lzo"));
        assert_eq!(one.class_key(), other.class_key());
        let kinds: Vec<_> = one.swap.iter().map(|swap| swap.kind.as_str()).collect();
        assert_eq!(kinds, ["file", "zram"]);
    }

    #[test]
    fn this_host_has_no_value_of_its_own() {
        let mut here = Fingerprint::this();
        assert!(here.memory_bytes > 0 && here.cpus > 0, "{here:?}");
        here.settings.remove(COMMAND_LINE);
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        for value in here.settings.values() {
            assert!(!has_uuid(value), "{value}");
            assert_ne!(value.trim(), boot.trim());
        }
        // The memory that the kernel reserves moves; everything else is equal a moment later.
        let again = Fingerprint::this();
        here.settings.insert(
            COMMAND_LINE.to_owned(),
            again.settings.get(COMMAND_LINE).cloned().unwrap_or_default(),
        );
        if again.settings.contains_key(COMMAND_LINE) {
            assert_eq!(here.settings, again.settings);
        }
    }

    #[test]
    fn equal_machines_have_the_same_memory() {
        for (managed_mib, gib) in [
            (500, 1),
            (1900, 2),
            (3800, 4),
            // 16 GiB, with two kernels.
            (15_840, 16),
            (15_900, 16),
            (24_000, 24),
            (64_200, 64),
            (96_150, 96),
            (128_600, 128),
            (257_000, 256),
        ] {
            assert_eq!(installed_gib(managed_mib << 20), gib, "{managed_mib} MiB");
        }
        assert!(installed_gib(u64::MAX) > 0);
    }

    #[test]
    fn numbers_are_rounded_to_two_digits() {
        for (number, shown) in [
            ("0", "0"),
            ("99", "99"),
            ("67584", "68000"),
            ("131072", "130000"),
            ("x", "x"),
        ] {
            assert_eq!(rounded(number), shown);
        }
        assert_eq!(rounded(&u64::MAX.to_string()).len(), 20);
    }
}
