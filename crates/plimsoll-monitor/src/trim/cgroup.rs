//! Trims a cgroup. The cgroup may belong to another program, so its limits stay as they are.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_proc::cgroup::{self, CgroupVersion, Field, Hierarchy, MemoryCgroup};
use plimsoll_proc::{ControlError, read_number, sysctl};
use rustix::fs::{Access, access};

use super::POLL;
use super::error::TrimError;
use super::holdings::{Holdings, Swap};
use super::machine::Machine;
use super::model::Mechanism;
use super::refusal::Refusal;
use plimsoll_model::sanitize::sanitize;

/// Bytes of one write to `memory.reclaim`, which blocks until the kernel has tried.
const STEP: u64 = 64 << 20;
/// Longest run of `memory.force_empty`, which has no end of its own while the processes read their memory back.
const FORCE_EMPTY_WITHIN: Duration = Duration::from_secs(30);

/// A memory cgroup below the root.
#[derive(Debug)]
pub(super) struct Group {
    group: MemoryCgroup,
    /// Path below the mount, with a leading slash.
    name: String,
}

impl Group {
    /// Finds the cgroup at `path`: its folder, or a path below the mount with or without a leading slash.
    pub(super) fn find(path: &Path) -> Result<Group, TrimError> {
        let hierarchy = Hierarchy::of_this_process().map_err(|found| TrimError::NoHierarchy {
            found: found.to_string(),
        })?;
        Self::find_in(&hierarchy, path)
    }

    fn find_in(hierarchy: &Hierarchy, path: &Path) -> Result<Group, TrimError> {
        let (group, name) = hierarchy.find(path).map_err(|why| TrimError::NoSuchCgroup {
            path: path.to_owned(),
            why: why.to_string(),
        })?;
        if group.is_root() && name == "/" {
            return Err(TrimError::RootCgroup {
                path: group.path().to_owned(),
            });
        }
        let usage = hierarchy.version.usage_file();
        if !group.has(usage) {
            return Err(TrimError::NoSuchCgroup {
                path: path.to_owned(),
                why: format!("the memory controller has no {usage} for it"),
            });
        }
        Ok(Group { group, name })
    }

    /// Name for messages. Safe to print.
    pub(super) fn title(&self) -> String {
        format!("cgroup {}", sanitize(&self.name))
    }

    /// The control file to use; `None` if the processes must be trimmed one by one.
    pub(super) fn mechanism(&self, limit: Option<u64>) -> Option<Mechanism> {
        let mechanism = match (self.group.version(), limit) {
            (CgroupVersion::V1, Some(_)) => return None,
            (CgroupVersion::V1, None) => Mechanism::ForceEmpty,
            (CgroupVersion::V2, _) => Mechanism::MemoryReclaim,
        };
        self.group.has(mechanism.name()).then_some(mechanism)
    }

    /// Processes of the cgroup and its descendants.
    pub(super) fn members(&self) -> Result<Vec<u32>, TrimError> {
        cgroup::members(self.group.path()).map_err(|source| self.failed("list the processes of", source))
    }

    /// Memory that is charged to the cgroup.
    pub(super) fn holdings(&self) -> Result<Holdings, TrimError> {
        let failed = |error: ControlError| {
            let name = error.path().file_name().unwrap_or_default().to_string_lossy();
            self.failed(&format!("read {name} of"), error.into_io())
        };
        let stat = self.group.stat().map_err(failed)?;
        let value = |field: Field| stat.get(field).unwrap_or(0);
        let resident = self.group.usage().map_err(failed)?;
        let swapped = self.group.swap().ok().flatten().unwrap_or(0);
        let (shmem, major_faults) = (value(Field::Shmem), value(Field::MajorFaults));
        Ok(Holdings {
            resident,
            anon: value(Field::Anon),
            file: value(Field::File).saturating_sub(shmem),
            shmem,
            swapped,
            locked: value(Field::Unevictable),
            huge: 0,
            minor_faults: value(Field::Faults).saturating_sub(major_faults),
            major_faults,
        })
    }

    /// Whether anonymous memory of the cgroup can be swapped out.
    pub(super) fn swap(&self, machine: &Machine) -> Swap {
        let never = || read_number(Path::new(sysctl::SWAPPINESS)).is_ok_and(|swappiness| swappiness == 0);
        let forbidden = self.group.forbids_swap() || (self.group.version() == CgroupVersion::V2 && never());
        match Swap::of(machine) {
            Swap::Available if forbidden => Swap::Forbidden,
            swap => swap,
        }
    }

    /// Reclaims `bytes` through the control file. Memory that the kernel cannot reclaim is no error. Returns whether
    /// `stop` ended the work early.
    pub(super) fn reclaim(
        &self,
        mechanism: Mechanism,
        bytes: u64,
        stop: &AtomicBool,
    ) -> Result<bool, TrimError> {
        let file = self.group.file(mechanism.name());
        if let Err(errno) = access(&file, Access::WRITE_OK) {
            return Err(self.failed(&format!("write {} of", mechanism.name()), errno.into()));
        }
        let result = match mechanism {
            Mechanism::ForceEmpty => force_empty(&file, stop),
            _ => reclaim_stepwise(&self.group, bytes, stop),
        };
        result.map_err(|source| self.failed(&format!("write {} of", mechanism.name()), source))
    }

    fn failed(&self, action: &str, source: io::Error) -> TrimError {
        match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => TrimError::Denied {
                what: format!("{} ({action} it)", self.title()),
                refusal: Refusal::ControlFiles,
                source,
            },
            _ => TrimError::System {
                action: format!("{action} {}", self.title()),
                source,
            },
        }
    }
}

/// Writes `memory.reclaim` step by step. EAGAIN means that the kernel has reclaimed all that it could.
fn reclaim_stepwise(group: &MemoryCgroup, bytes: u64, stop: &AtomicBool) -> io::Result<bool> {
    let mut asked = 0;
    while asked < bytes {
        if stop.load(Ordering::Acquire) {
            return Ok(true);
        }
        let step = STEP.min(bytes - asked);
        match group.reclaim(step) {
            Ok(()) => asked += step,
            Err(error) if error.errno() == Some(libc::EAGAIN) => break,
            Err(error) if error.errno() == Some(libc::EINTR) => {}
            Err(error) => return Err(error.into_io()),
        }
    }
    Ok(false)
}

/// Writes `memory.force_empty` in a child process. The write returns when nothing is left to reclaim, which may be
/// never while the cgroup's processes read their pages back. Only a signal ends it: a child can be killed, a thread of
/// a program that handles its signals cannot.
fn force_empty(file: &Path, stop: &AtomicBool) -> io::Result<bool> {
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "echo 0 > \"$1\"", "sh"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let start = Instant::now();
    loop {
        if let Some(status) = writer.try_wait()? {
            return if status.success() {
                Ok(false)
            } else {
                Err(io::Error::other(format!("the kernel refused it ({status})")))
            };
        }
        if stop.load(Ordering::Acquire) || start.elapsed() > FORCE_EMPTY_WITHIN {
            writer.kill()?;
            writer.wait()?;
            return Ok(true);
        }
        thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A hierarchy of plain files with one cgroup, `web`.
    fn tree(version: CgroupVersion, files: &[(&str, &str)]) -> (tempfile::TempDir, Hierarchy) {
        let folder = tempfile::tempdir().unwrap();
        let mount = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(mount.join("web/inner")).unwrap();
        fs::write(mount.join("release_agent"), "").unwrap();
        for folder in ["", "web"] {
            fs::write(mount.join(folder).join("cgroup.procs"), "").unwrap();
        }
        for (name, text) in files {
            fs::write(mount.join("web").join(name), text).unwrap();
        }
        let hierarchy = Hierarchy {
            version,
            own: mount.clone(),
            inner: "/".into(),
            mount,
        };
        (folder, hierarchy)
    }

    #[test]
    fn a_cgroup_is_found_by_its_folder_and_below_the_mount() {
        let (_folder, hierarchy) = tree(CgroupVersion::V1, &[("memory.usage_in_bytes", "5\n")]);
        for path in [
            Path::new("web"),
            Path::new("/web"),
            &hierarchy.mount.join("web/../web"),
        ] {
            let group = Group::find_in(&hierarchy, path).unwrap();
            assert_eq!(
                (group.group.path(), group.name.as_str()),
                (&*hierarchy.mount.join("web"), "/web")
            );
        }
        for path in [Path::new("/"), Path::new(""), &hierarchy.mount] {
            let error = Group::find_in(&hierarchy, path).unwrap_err();
            assert!(matches!(error, TrimError::RootCgroup { .. }), "{error}");
        }
        for path in ["/nothing", "..", "../../etc", "web/inner"] {
            let error = Group::find_in(&hierarchy, Path::new(path)).unwrap_err();
            assert!(matches!(error, TrimError::NoSuchCgroup { .. }), "{path}: {error}");
        }
    }

    #[test]
    fn the_root_of_a_container_mount_is_an_ordinary_cgroup() {
        let (_folder, hierarchy) = tree(CgroupVersion::V2, &[]);
        fs::write(hierarchy.mount.join("cgroup.events"), "").unwrap();
        fs::write(hierarchy.mount.join("memory.current"), "1\n").unwrap();
        assert_eq!(Group::find_in(&hierarchy, Path::new("/")).unwrap().name, "/");
        let (_folder, real) = tree(CgroupVersion::V2, &[]);
        assert!(matches!(
            Group::find_in(&real, Path::new("/")),
            Err(TrimError::RootCgroup { .. })
        ));
    }

    #[test]
    fn charges_of_both_versions_are_read() {
        let v1 = "cache 1\nrss 2\ntotal_cache 100\ntotal_rss 200\ntotal_rss_huge 7\ntotal_shmem 30\ntotal_swap 40\n\
                  total_pgfault 12\ntotal_pgmajfault 2\ntotal_unevictable 50\n";
        let v2 = "anon 200\nfile 100\nfile_mapped 9\nshmem 30\nunevictable 50\npgfault 12\npgmajfault 2\n";
        let expected = Holdings {
            resident: 300,
            anon: 200,
            file: 70,
            shmem: 30,
            swapped: 40,
            locked: 50,
            huge: 0,
            minor_faults: 10,
            major_faults: 2,
        };
        for (version, files) in [
            (
                CgroupVersion::V1,
                [
                    ("memory.usage_in_bytes", "300\n"),
                    ("memory.stat", v1),
                    ("memory.force_empty", ""),
                ]
                .as_slice(),
            ),
            (
                CgroupVersion::V2,
                &[
                    ("memory.current", "300\n"),
                    ("memory.swap.current", "40\n"),
                    ("memory.stat", v2),
                    ("memory.reclaim", ""),
                ],
            ),
        ] {
            let (_folder, hierarchy) = tree(version, files);
            let group = Group::find_in(&hierarchy, Path::new("web")).unwrap();
            assert_eq!(group.holdings().unwrap(), expected, "{version}");
            let with_limit = (version == CgroupVersion::V2).then_some(Mechanism::MemoryReclaim);
            assert_eq!(group.mechanism(Some(1)), with_limit);
            assert!(group.mechanism(None).is_some());
        }
    }

    #[test]
    fn memory_reclaim_is_written_in_steps_until_a_stop() {
        let (_folder, hierarchy) = tree(
            CgroupVersion::V2,
            &[("memory.current", "300\n"), ("memory.reclaim", "")],
        );
        let group = Group::find_in(&hierarchy, Path::new("web")).unwrap();
        let file = group.group.file("memory.reclaim");
        let stop = AtomicBool::new(false);
        // A plain file keeps the last step.
        assert!(
            !group
                .reclaim(Mechanism::MemoryReclaim, STEP + 12_345_678, &stop)
                .unwrap()
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "12345678");
        stop.store(true, Ordering::Release);
        assert!(group.reclaim(Mechanism::MemoryReclaim, 1, &stop).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "12345678");
    }
}
