//! Requirements of a trial on the machine and the user, checked before any change.

use std::fs::File;
use std::path::Path;
use std::sync::LazyLock;

use plimsoll_pager::{BuildError, Pager};
use plimsoll_proc::capabilities::{SYS_ADMIN, this_process_has};
use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy, MemoryCgroup};
use plimsoll_proc::sysctl::{PAGE_CLUSTER, SWAPPINESS};
use plimsoll_proc::zswap::Parameter;
use plimsoll_proc::{Tree, crypto, huge_pages, sysctl};
use rustix::fs::{Access, access};

use plimsoll_model::scenario::{
    Allocator, CapBy, FillClass, FrontEnd, HeapProfile, KNOWN_ALLOCATORS, Mapping, Need, Settings, Subject,
};

use super::allocators::allocator_library;
use super::cgroup::find_parent;
use super::error::{HOW_TO_GET_HIGH, Missing, MissingKind};
use super::{swap_folder, zram, zswap};

// Facts that cannot change while the program runs, read once: plans have thousands of trials.
static MISSING_CGROUP: LazyLock<Option<Missing>> = LazyLock::new(missing_cgroup);
static MISSING_HIGH: LazyLock<Option<Missing>> = LazyLock::new(missing_high);
static MISSING_PAGER: LazyLock<Option<Missing>> = LazyLock::new(|| missing_pager(small_pager().err()?));
static MAY_ADMINISTER: LazyLock<bool> = LazyLock::new(|| this_process_has(SYS_ADMIN));

/// Bytes of the pager that is built to see whether one can be.
const SMALL_PAGER: u64 = 8 << 20;

const AS_ROOT: &str = "run as root: `sudo plimsoll ...`";

/// The requirements that a trial with these settings lacks here, each with a remedy. Empty when
/// [`Environment::prepare`](super::Environment::prepare) can be tried. Changes nothing.
pub fn missing(settings: &Settings) -> Vec<Missing> {
    missing_beside(settings, zram::algorithms().as_deref())
}

/// As [`missing`], with the algorithms that the kernel's zram is known to have; `None` if they are unknown.
pub fn missing_beside(settings: &Settings, zram_algorithms: Option<&[String]>) -> Vec<Missing> {
    let mut missing = Vec::new();
    match &settings.subject {
        // The heap workload also runs without a cgroup: the runner enforces the limit.
        Subject::Allocator(allocator) => missing.extend(missing_allocator(allocator)),
        // A pager keeps its budget by itself, and runs without a cgroup as well.
        Subject::Pager(_) => missing.extend(MISSING_PAGER.clone()),
        _ => missing.extend(MISSING_CGROUP.clone()),
    }
    for need in settings.workload.needs() {
        missing.extend(match need {
            Need::MemoryHigh => MISSING_HIGH.clone(),
            Need::HugePages(bytes) => missing_huge_pages(bytes),
        });
    }
    missing.extend(missing_data(settings));
    missing.extend(missing_swap(
        &settings.subject,
        &settings.swap_dir,
        zram_algorithms,
    ));
    if settings.fills_file() || settings.page_file_bytes().is_some() {
        missing.extend(missing_disk(&settings.swap_dir));
    }
    missing.extend(missing_swappiness(
        settings.swappiness,
        sysctl::release(&Tree::live()),
    ));
    for (asked, path) in [
        (settings.swappiness, SWAPPINESS),
        (settings.page_cluster, PAGE_CLUSTER),
    ] {
        if asked.is_some() && access(path, Access::WRITE_OK).is_err() {
            missing.push(Missing {
                kind: MissingKind::Privilege,
                what: format!("the right to write {path}"),
                why: "the scenario sets it during the trial".to_owned(),
                how: format!("{AS_ROOT}; in a container /proc/sys must be writable (`--privileged`)"),
                available: Vec::new(),
            });
        }
    }
    missing
}

/// The requirements of the subject's swap that are missing here.
pub(super) fn missing_swap(
    subject: &Subject,
    swap_dir: &Path,
    zram_algorithms: Option<&[String]>,
) -> Vec<Missing> {
    let mut missing = Vec::new();
    if subject.has_swap() && !*MAY_ADMINISTER {
        missing.push(Missing {
            kind: MissingKind::Privilege,
            what: "the capability CAP_SYS_ADMIN".to_owned(),
            why: "swap cannot be turned on without it".to_owned(),
            how: format!("{AS_ROOT}; in a container add `--cap-add SYS_ADMIN` or `--privileged`"),
            available: Vec::new(),
        });
    }
    match subject {
        Subject::Zram(algorithm) => {
            missing.extend(missing_zram(subject, algorithm.as_deref(), zram_algorithms));
        }
        Subject::Zswap(compressor) => {
            missing.extend(missing_zswap(compressor.as_deref()));
            missing.extend(missing_folder(swap_dir));
        }
        Subject::SwapFile => missing.extend(missing_folder(swap_dir)),
        Subject::NoSwap | Subject::Pager(_) | Subject::Allocator(_) => {}
    }
    missing
}

/// The requirement for a cgroup that this machine or user lacks.
pub fn cgroup_missing() -> Option<Missing> {
    MISSING_CGROUP.clone()
}

/// Whether the algorithms of zram are known: without a device the kernel lists none.
pub fn zram_algorithms_known() -> bool {
    zram::algorithms().is_some()
}

/// Whether [`Environment::prepare`](super::Environment::prepare) can be tried: nothing is missing, and a cgroup can be
/// made.
pub fn can_prepare(settings: &Settings) -> bool {
    MISSING_CGROUP.is_none() && missing(settings).is_empty()
}

/// The other choices of a key.
fn others(key: &str, names: &[&str], missing: &str) -> Vec<String> {
    let others = names.iter().filter(|name| **name != missing);
    others.map(|name| format!("{key}={name}")).collect()
}

/// The subjects of heap loads that this machine has.
fn installed_allocators() -> Vec<String> {
    let ours = FrontEnd::ALL.map(|front_end| Allocator::Plimsoll(front_end, HeapProfile::Default));
    let known = KNOWN_ALLOCATORS.iter().map(|known| Allocator::Known(known.name));
    let there = known.filter(|known| allocator_library(known).is_some());
    let all = [Allocator::Glibc].into_iter().chain(ours).chain(there);
    all.map(|allocator| allocator.to_string()).collect()
}

fn missing_allocator(allocator: &Allocator) -> Option<Missing> {
    let ours_or_there = matches!(allocator, Allocator::Glibc | Allocator::Plimsoll(..))
        || allocator_library(allocator).is_some();
    let how = match allocator {
        Allocator::Library(_) => "name a library that is there".to_owned(),
        _ => "install it, name its library (`--set subject=preload=/path/of/a/library`), or compare the installed ones \
              (`--set subject=installed`)"
            .to_owned(),
    };
    (!ours_or_there).then(|| Missing {
        kind: MissingKind::Allocator,
        what: format!("the allocator `{allocator}`"),
        why: "its library is in none of the folders of the loader".to_owned(),
        how,
        available: installed_allocators(),
    })
}

/// A pager, which shows whether there can be one.
fn small_pager() -> Result<Pager, BuildError> {
    Pager::builder()
        .ram(SMALL_PAGER)
        .address_space(SMALL_PAGER)
        .build()
}

fn missing_pager(error: BuildError) -> Option<Missing> {
    let text = error.to_string();
    let (cause, remedy) = text
        .split_once("; ")
        .unwrap_or((&text, "run it on another machine"));
    Some(Missing {
        kind: MissingKind::Userfaultfd,
        what: "userfaultfd for a pager".to_owned(),
        why: cause.to_owned(),
        how: remedy.to_owned(),
        available: Vec::new(),
    })
}

fn missing_cgroup() -> Option<Missing> {
    let why = "the worker's memory cannot be limited, and pressure would hit the whole machine".to_owned();
    let hierarchy = match Hierarchy::of_this_process() {
        Ok(hierarchy) => hierarchy,
        Err(found) => {
            let how =
                "boot with the memory controller (not `cgroup_disable=memory`) and mount cgroup2".to_owned();
            return Some(Missing {
                kind: MissingKind::Cgroup,
                what: format!("a memory cgroup ({found})"),
                why,
                how,
                available: Vec::new(),
            });
        }
    };
    let possible = match hierarchy.version {
        CgroupVersion::V1 => MemoryCgroup::new(&hierarchy.own, hierarchy.version).is_writable(),
        CgroupVersion::V2 => {
            find_parent(&hierarchy).is_some()
                || MemoryCgroup::new(&hierarchy.mount, hierarchy.version).may_give_controllers()
        }
    };
    (!possible).then(|| Missing {
        kind: MissingKind::Privilege,
        what: format!(
            "the right to make a memory cgroup ({}) under {}",
            hierarchy.version,
            hierarchy.own.display()
        ),
        why,
        how: format!("{AS_ROOT}, or within `systemd-run --user --scope -p Delegate=yes`"),
        available: Vec::new(),
    })
}

/// `None` without a memory cgroup: [`missing_cgroup`] reports that.
fn missing_high() -> Option<Missing> {
    let hierarchy = Hierarchy::of_this_process().ok()?;
    (hierarchy.version == CgroupVersion::V1).then(|| Missing {
        kind: MissingKind::MemoryHigh,
        what: "memory.high (cgroup v2)".to_owned(),
        why: "the scenario caps by it (`cap-by`), and the memory controller is on cgroup v1".to_owned(),
        how: HOW_TO_GET_HIGH.to_owned(),
        available: others("cap-by", CapBy::NAMES, CapBy::High.name()),
    })
}

/// The missing requirements of a subject on zram. `known`: the algorithms that the kernel lists; `None` without a device to ask.
fn missing_zram(subject: &Subject, algorithm: Option<&str>, known: Option<&[String]>) -> Option<Missing> {
    if !zram::available() {
        return Some(Missing {
            kind: MissingKind::Zram,
            what: "zram".to_owned(),
            why: format!("the subject `{subject}` compresses into a zram device"),
            how: "`modprobe zram` (from the kernel's extra modules), or use another subject".to_owned(),
            available: other_stores(),
        });
    }
    let (asked, known) = (algorithm?, known?);
    // Older kernels take algorithms of the crypto API that they do not list.
    let there = known.iter().any(|name| name == asked)
        || crypto::compressors(&Tree::live())
            .iter()
            .any(|name| name == asked);
    (!there).then(|| Missing {
        kind: MissingKind::ZramAlgorithm,
        what: format!("the zram algorithm `{asked}`"),
        why: format!("the subject `{subject}` compresses with it, and this kernel's zram does not have it"),
        how: format!("boot a kernel whose zram is built with `{asked}`, or use another algorithm"),
        available: known.iter().map(|name| format!("zram:{name}")).collect(),
    })
}

/// The file of a class, if this user cannot read it.
fn missing_data(settings: &Settings) -> Option<Missing> {
    let Some(FillClass::File(path)) = settings.class() else {
        return None;
    };
    let cause = match File::open(path).and_then(|file| file.metadata()) {
        Ok(found) if found.is_file() && found.len() > 0 => return None,
        Ok(_) => "it is empty or no regular file".to_owned(),
        Err(error) => error.to_string(),
    };
    Some(Missing {
        kind: MissingKind::DataFile,
        what: format!("the file {}", path.display()),
        why: format!("the workers fill their memory with its bytes (`class`), and {cause}"),
        how: "name a file with data that this user can read".to_owned(),
        available: Vec::new(),
    })
}

/// The subjects with swap that need no zram.
fn other_stores() -> Vec<String> {
    let zswap = zswap::available().then(|| Subject::Zswap(None).to_string());
    zswap.into_iter().chain([Subject::SwapFile.to_string()]).collect()
}

fn missing_zswap(compressor: Option<&str>) -> Option<Missing> {
    let why = "the subject `zswap` compresses in it".to_owned();
    if !zswap::available() {
        let how =
            "boot a kernel built with CONFIG_ZSWAP=y (`zswap.enabled=1` turns it on at boot)".to_owned();
        return Some(Missing {
            kind: MissingKind::Zswap,
            what: "zswap".to_owned(),
            why,
            how,
            available: vec![Subject::Zram(None).to_string(), Subject::SwapFile.to_string()],
        });
    }
    if let Some(asked) = compressor.filter(|asked| !zswap::has_compressor(asked)) {
        return Some(Missing {
            kind: MissingKind::ZswapCompressor,
            what: format!("the compressor `{asked}`"),
            why: format!("the subject `zswap:{asked}` compresses with it, and this kernel does not have it"),
            how: format!("load the kernel's module for `{asked}`, or use another compressor"),
            available: zswap::compressors()
                .iter()
                .map(|name| format!("zswap:{name}"))
                .collect(),
        });
    }
    access(Parameter::Enabled.file(), Access::WRITE_OK)
        .is_err()
        .then(|| Missing {
            kind: MissingKind::Privilege,
            what: "the right to change zswap's parameters".to_owned(),
            why,
            how: format!("{AS_ROOT}; in a container /sys must be writable (`--privileged`)"),
            available: Vec::new(),
        })
}

fn missing_folder(folder: &Path) -> Option<Missing> {
    let how = "name a folder on a disk of this machine with `--set swap-dir=...`".to_owned();
    if let Err(defect) = swap_folder::suitable(folder) {
        return Some(Missing {
            kind: MissingKind::SwapFolder,
            what: format!("a place for a swap file ({})", folder.display()),
            why: defect.to_string(),
            how,
            available: Vec::new(),
        });
    }
    access(folder, Access::WRITE_OK | Access::EXEC_OK)
        .is_err()
        .then(|| Missing {
            kind: MissingKind::Privilege,
            what: format!("the right to make files in {}", folder.display()),
            why: "the swap file is made there".to_owned(),
            how: format!("{AS_ROOT}, or {how}"),
            available: Vec::new(),
        })
}

/// A folder that cannot hold the files of the worker: of `memory = "file"`, and the page file of a pager.
fn missing_disk(folder: &Path) -> Option<Missing> {
    let why = swap_folder::not_on_disk(folder).or_else(|| {
        let refused = access(folder, Access::WRITE_OK | Access::EXEC_OK).err()?;
        Some(format!("this user cannot make files in it: {refused}"))
    })?;
    Some(Missing {
        kind: MissingKind::SwapFolder,
        what: format!("a folder on a disk for the worker's files ({})", folder.display()),
        why,
        how: "name a folder on a disk of this machine with `--set swap-dir=...`".to_owned(),
        available: Vec::new(),
    })
}

/// Checks that the kernel of this release accepts the value: since Linux 5.8 that is any up to 200.
fn missing_swappiness(asked: Option<u32>, release: Option<(u32, u32)>) -> Option<Missing> {
    let above = asked.filter(|&asked| asked > 100 && release.is_some_and(|release| release < (5, 8)))?;
    Some(Missing {
        kind: MissingKind::Swappiness,
        what: format!("a kernel that accepts swappiness {above}"),
        why: "Linux before 5.8 weighs swap against page cache only up to 100, where both cost the same"
            .to_owned(),
        how: "use Linux 5.8 or newer, or lower values (`--set 'swappiness=[\"system\", 10, 100]'`)"
            .to_owned(),
        available: vec!["swappiness=0 to swappiness=100".to_owned()],
    })
}

/// Checks that the administrator has reserved enough huge pages. Plimsoll never reserves them: reserved pages are
/// lost to all other programs.
fn missing_huge_pages(size: u64) -> Option<Missing> {
    let free = huge_pages::free_2_mib(&Tree::live());
    let needed = size.div_ceil(Mapping::HUGE_PAGE);
    (free < needed).then(|| Missing {
        kind: MissingKind::HugePages,
        what: format!("{needed} reserved huge pages of 2 MiB ({free} are free)"),
        why: "the mapping `hugetlb` takes its pages from those that are reserved".to_owned(),
        how: format!(
            "`sysctl vm.nr_hugepages={needed}`, which takes {} MiB from all others until it is 0 again, or use \
             another `mapping`",
            (needed * Mapping::HUGE_PAGE) >> 20
        ),
        available: others("mapping", Mapping::NAMES, Mapping::Hugetlb.name()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of the pager has the cause and the remedy; a plan shows them apart.
    #[test]
    fn a_pager_that_cannot_be_built_is_a_requirement_with_a_remedy() {
        let errno = plimsoll_os::Errno::PERM;
        for error in [
            BuildError::Seccomp(errno),
            BuildError::Sysctl(errno),
            BuildError::NotBuilt,
            BuildError::PageSize(16384),
            BuildError::KernelTooOld {
                missing: "UFFD_FEATURE_MOVE",
                since: "6.8",
            },
            BuildError::System(errno),
        ] {
            let text = error.to_string();
            let missing = missing_pager(error).unwrap();
            assert_eq!(missing.kind, MissingKind::Userfaultfd);
            assert!(text.starts_with(&missing.why), "{missing}");
            assert!(!missing.how.is_empty() && !missing.why.contains(';'), "{missing}");
        }
        assert!(MissingKind::Userfaultfd.refuses());
    }

    #[test]
    fn swappiness_above_100_needs_linux_5_8() {
        let missing = |asked, release| missing_swappiness(asked, release).map(|missing| missing.kind);
        assert_eq!(missing(Some(150), Some((5, 4))), Some(MissingKind::Swappiness));
        assert_eq!(missing(Some(101), Some((4, 19))), Some(MissingKind::Swappiness));
        for (asked, release) in [
            (Some(100), Some((5, 4))),
            (Some(200), Some((5, 8))),
            (Some(200), Some((6, 1))),
            (None, Some((5, 4))),
            (Some(200), None),
        ] {
            assert_eq!(missing(asked, release), None, "{asked:?} {release:?}");
        }
        assert!(MissingKind::Swappiness.refuses());
    }
}
