//! The commands and files that apply a recommendation. Plimsoll itself runs none of them.

use plimsoll_model::recording::ConfigurationFile;

/// Bytes of a MiB, the unit of zram-generator.
pub(super) const MIB: u64 = 1 << 20;
const ZSWAP: &str = "/sys/module/zswap/parameters";

/// The way to apply a recommendation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Applied {
    /// Until the next start of the machine.
    pub(super) commands: Vec<String>,
    pub(super) persistent: Option<ConfigurationFile>,
}

fn file(path: &str, lines: Vec<String>) -> Option<ConfigurationFile> {
    let path = path.to_owned();
    Some(ConfigurationFile { path, lines })
}

/// A zram device of `size` bytes as swap, whose store takes `limit` bytes of RAM at most: whole MiB each.
pub(super) fn zram(algorithm: Option<&str>, size: u64, limit: u64) -> Applied {
    let (size, limit) = (size / MIB, limit / MIB);
    let with_algorithm = algorithm.map_or(String::new(), |name| format!(" --algorithm {name}"));
    let mut lines = vec![
        "[zram0]".to_owned(),
        format!("zram-size = {size}"),
        format!("zram-resident-limit = {limit}"),
    ];
    lines.extend(algorithm.map(|name| format!("compression-algorithm = {name}")));
    Applied {
        commands: vec![
            "sudo modprobe zram".to_owned(),
            format!("device=$(sudo zramctl --find{with_algorithm} --size {size}MiB)"),
            format!("echo {limit}M | sudo tee \"/sys/block/${{device#/dev/}}/mem_limit\""),
            "sudo mkswap \"$device\" && sudo swapon --priority 100 \"$device\"".to_owned(),
        ],
        persistent: file("/etc/systemd/zram-generator.conf", lines),
    }
}

/// zswap before the swap that the machine has.
pub(super) fn zswap(compressor: Option<&str>) -> Applied {
    let parameter = |name: &str| format!("{ZSWAP}/{name}");
    let values: Vec<(String, &str)> = compressor
        .map(|name| (parameter("compressor"), name))
        .into_iter()
        .chain([(parameter("enabled"), "1")])
        .collect();
    let set = |(path, value): &(String, &str)| format!("echo {value} | sudo tee {path}");
    let line = |(path, value): &(String, &str)| format!("w {path} - - - - {value}");
    Applied {
        commands: values.iter().map(set).collect(),
        persistent: file("/etc/tmpfiles.d/zswap.conf", values.iter().map(line).collect()),
    }
}

/// A swap file; the user chooses SIZE.
pub(super) fn swap_file() -> Applied {
    Applied {
        commands: vec![
            "sudo install --mode=600 /dev/null /swapfile && sudo fallocate --length SIZE /swapfile"
                .to_owned(),
            "sudo mkswap /swapfile && sudo swapon /swapfile".to_owned(),
        ],
        persistent: file("/etc/fstab", vec!["/swapfile none swap defaults 0 0".to_owned()]),
    }
}

pub(super) fn sysctl(name: &str, value: u32) -> Applied {
    Applied {
        commands: vec![format!("sudo sysctl {name}={value}")],
        persistent: file("/etc/sysctl.d/90-swap.conf", vec![format!("{name} = {value}")]),
    }
}

pub(super) fn zswap_parameter(name: &str, value: u32) -> Applied {
    let path = format!("{ZSWAP}/{name}");
    Applied {
        commands: vec![format!("echo {value} | sudo tee {path}")],
        persistent: file(
            "/etc/tmpfiles.d/zswap.conf",
            vec![format!("w {path} - - - - {value}")],
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zram_device_has_its_limit_before_it_is_swapped_to() {
        let applied = zram(Some("lz4"), 3000 * MIB + 5, 1024 * MIB);
        assert_eq!(
            applied.commands,
            [
                "sudo modprobe zram",
                "device=$(sudo zramctl --find --algorithm lz4 --size 3000MiB)",
                "echo 1024M | sudo tee \"/sys/block/${device#/dev/}/mem_limit\"",
                "sudo mkswap \"$device\" && sudo swapon --priority 100 \"$device\"",
            ]
        );
        let lines = applied.persistent.unwrap().lines;
        assert_eq!(
            lines,
            [
                "[zram0]",
                "zram-size = 3000",
                "zram-resident-limit = 1024",
                "compression-algorithm = lz4"
            ]
        );
    }

    #[test]
    fn without_an_algorithm_the_kernel_keeps_its_own() {
        let applied = zram(None, 64 * MIB, 32 * MIB);
        let all = format!("{applied:?}");
        assert!(!all.contains("algorithm"), "{all}");
        assert_eq!(zswap(None).commands.len(), 1);
        assert_eq!(zswap(Some("lzo")).persistent.unwrap().lines.len(), 2);
    }
}
