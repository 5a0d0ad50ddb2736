//! Where trimmed pages can go: zram, zswap, swap devices.

use super::caller::SYS_ADMIN;
use super::{About, Check, Group, Look, State, size};
use plimsoll_sample::host::{Tree, swap_devices};

pub(super) fn zram(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "zram",
        group: Group::Stores,
        title: "zram",
        lost: "no compressed swap in RAM: the subject zram cannot run; where it is the default, a swap file takes its place",
    };
    let tree = look.tree;
    let devices: Vec<String> = tree
        .list("sys/block")
        .into_iter()
        .filter(|name| name.starts_with("zram"))
        .collect();
    let control = tree.exists("sys/class/zram-control");
    if devices.is_empty() && !control {
        return if look.module_on_disk("zram") {
            ABOUT.says(State::Limited, "module on disk, not loaded", "sudo modprobe zram")
        } else {
            ABOUT.says(
                State::Missing,
                "neither loaded nor a module for this kernel on disk",
                "sudo modprobe zram   # on the host, where this is a container\n\
                 # without the module: install the distribution's extra kernel modules, or CONFIG_ZRAM=m",
            )
        };
    }
    let free = |name: &&String| tree.read(&format!("sys/block/{name}/initstate")).as_deref() == Some("0");
    let free: Vec<&String> = devices.iter().filter(free).collect();
    let hot_add = control && tree.readable("sys/class/zram-control/hot_add");
    let usable_device = free.iter().any(|name| {
        tree.writable(&format!("sys/block/{name}/disksize")) && tree.writable(&format!("dev/{name}"))
    });
    let algorithms = devices
        .iter()
        .find_map(|name| tree.read(&format!("sys/block/{name}/comp_algorithm")))
        .unwrap_or_else(|| "known once there is a device".to_owned());
    let in_use: Vec<String> = devices
        .iter()
        .filter(|name| !free.contains(name))
        .map(|name| zram_use(tree, name))
        .collect();
    let mut found = format!(
        "{} device(s), {} free; hot_add {}; algorithms {algorithms}",
        devices.len(),
        free.len(),
        if hot_add { "yes" } else { "no" },
    );
    if !in_use.is_empty() {
        found.push_str(&format!("; in use: {}", in_use.join(", ")));
    }
    let usable = look.caller.has(SYS_ADMIN) && (hot_add || usable_device);
    let state = if usable { State::Available } else { State::Limited };
    ABOUT.says(
        state,
        found,
        format!("sudo modprobe zram\n{}", look.become_root()),
    )
}

/// `zram0 (4 GiB, holds 1.2 GiB in 0.4 GiB)`, the first three fields of `mm_stat`.
fn zram_use(tree: &Tree, name: &str) -> String {
    let disk_size = tree
        .parse(&format!("sys/block/{name}/disksize"))
        .map_or("?".to_owned(), size);
    let stat = tree
        .read(&format!("sys/block/{name}/mm_stat"))
        .unwrap_or_default();
    let fields: Vec<u64> = stat
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    match fields[..] {
        [original, _, used, ..] => {
            format!("{name} ({disk_size}, holds {} in {})", size(original), size(used))
        }
        _ => format!("{name} ({disk_size})"),
    }
}

pub(super) fn zswap(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "zswap",
        group: Group::Stores,
        title: "zswap",
        lost: "no compressed cache before a swap file: the subject zswap cannot run",
    };
    let folder = "sys/module/zswap/parameters";
    if !look.tree.exists(folder) {
        return look.absent_from(
            "sys/module",
            &ABOUT,
            "not built into this kernel",
            "# build the kernel with CONFIG_ZSWAP=y",
        );
    }
    let parameter = |name: &str| look.tree.read(&format!("{folder}/{name}"));
    let shown = |name: &str| parameter(name).unwrap_or_else(|| "?".to_owned());
    let pool = parameter("zpool").map_or(String::new(), |pool| format!(", pool {pool}"));
    let on = parameter("enabled").as_deref() == Some("Y");
    let standing = if on {
        "on: it stands before every swap device, zram too"
    } else {
        "off"
    };
    let found = format!(
        "{standing}; compressor {}{pool}, at most {}% of RAM, shrinker {}",
        shown("compressor"),
        shown("max_pool_percent"),
        shown("shrinker_enabled"),
    );
    let writable = look.tree.writable(&format!("{folder}/enabled"));
    let state = if writable {
        State::Available
    } else {
        State::Limited
    };
    let enable = if writable {
        "# switched by the run itself; by hand: echo 1 | sudo tee /sys/module/zswap/parameters/enabled"
    } else {
        look.become_root()
    };
    ABOUT.says(state, found, enable)
}

pub(super) fn swap(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "swap",
        group: Group::Stores,
        title: "swap devices",
        lost: "anonymous memory cannot leave RAM: a trim moves nothing",
    };
    if !look.tree.exists("proc/swaps") {
        return ABOUT.says(
            State::Missing,
            "no /proc/swaps: this kernel cannot swap, or it is hidden",
            "# build the kernel with CONFIG_SWAP=y",
        );
    }
    let devices = swap_devices(look.tree);
    let lines: Vec<String> = devices
        .iter()
        .map(|swap| {
            format!(
                "{} ({}, {} used, priority {})",
                swap.path,
                size(swap.size),
                size(swap.used),
                swap.priority
            )
        })
        .collect();
    let now = if lines.is_empty() {
        "none in use".to_owned()
    } else {
        lines.join(", ")
    };
    let can_add = look.caller.has(SYS_ADMIN);
    let found = format!(
        "{now}; this user may {}add swap",
        if can_add { "" } else { "not " }
    );
    let state = match (can_add, devices.is_empty()) {
        (true, _) => State::Available,
        (false, false) => State::Limited,
        (false, true) => State::Missing,
    };
    ABOUT.says(state, found, look.become_root())
}
