//! The kernel as it was built and booted: `/boot/config-RELEASE` and `/proc/cmdline`.

use super::{Tree, sysctl};

/// The options of the boot loader.
pub const OPTIONS: &str = "proc/cmdline";

/// The value of a switch among the kernel's options, `psi=0`; `None` if it is not given, or not as a switch.
pub fn switch(tree: &Tree, name: &str) -> Option<bool> {
    switch_in(&tree.read(OPTIONS)?, name)
}

/// The same in the text of [`OPTIONS`]. The last one counts, and those after `--` are for init.
pub fn switch_in(options: &str, name: &str) -> Option<bool> {
    let given = options
        .split_whitespace()
        .take_while(|option| *option != "--")
        .filter_map(|option| option.strip_prefix(name)?.strip_prefix('='));
    // As the kernel's kstrtobool.
    match given.last()?.to_ascii_lowercase().as_str() {
        "1" | "y" | "yes" | "t" | "true" | "on" => Some(true),
        "0" | "n" | "no" | "f" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// Whether the kernel's configuration says that it was built without `option`, as `CONFIG_PSI`.
pub fn is_built_without(tree: &Tree, option: &str) -> bool {
    let release = tree.read(sysctl::RELEASE).unwrap_or_default();
    let config = tree.read(&format!("boot/config-{release}")).unwrap_or_default();
    config.lines().any(|line| {
        line.strip_prefix("# ")
            .and_then(|line| line.strip_suffix(" is not set"))
            == Some(option)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_switch_of_the_kernel_counts() {
        assert_eq!(switch_in("quiet psi=0\n", "psi"), Some(false));
        assert_eq!(switch_in("psi=0 psi=on", "psi"), Some(true));
        assert_eq!(switch_in("psi=1 -- psi=0", "psi"), Some(true));
        assert_eq!(switch_in("quiet mypsi=0 psi psi.x=0", "psi"), None);
        assert_eq!(switch_in("psi=maybe", "psi"), None);
    }

    /// `CONFIG_PSI_DEFAULT_DISABLED is not set` is a line of kernels that have PSI.
    #[test]
    fn an_option_is_a_whole_word_of_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::below(folder.path());
        for (file, text) in [
            (sysctl::RELEASE, "6.1.0\n"),
            (
                "boot/config-6.1.0",
                "CONFIG_PSI=y\n# CONFIG_PSI_DEFAULT_DISABLED is not set\n# CONFIG_ZRAM is not set\n",
            ),
        ] {
            std::fs::create_dir_all(tree.path(file).parent().unwrap()).unwrap();
            std::fs::write(tree.path(file), text).unwrap();
        }
        assert!(!is_built_without(&tree, "CONFIG_PSI"));
        assert!(is_built_without(&tree, "CONFIG_ZRAM"));
        assert!(!is_built_without(&Tree::below("/nonexistent"), "CONFIG_ZRAM"));
    }
}
