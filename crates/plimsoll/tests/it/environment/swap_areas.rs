//! zram, swap files and zswap on the real kernel.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use plimsoll_lab::environment::{
    Environment, EnvironmentError, MissingKind, Session, SwapFolderDefect, SwapKind,
};
use plimsoll_proc::cgroup::PROCESSES;
use serde_json::Value;

use super::{
    MIB, NEVER, Traces, again, disk, has_swap_file, has_zram, has_zswap, is_role, read, session, settings,
    swaps, zram_devices,
};

const ZSWAP: &str = "/sys/module/zswap/parameters";

#[test]
fn zram_takes_what_is_reclaimed_and_is_gone_afterwards() {
    if !has_zram() {
        return;
    }
    let mut session = session("test-zram");
    let before = Traces::now();
    let environment = Environment::prepare(&mut session, &settings("zram")).unwrap();
    let device = environment.swap_device().unwrap().clone();
    let SwapKind::Zram { algorithm, added, .. } = &device.kind else {
        panic!("{device:?}")
    };
    let name = device.zram_name().unwrap();
    assert!(
        *added && !before.zram.iter().any(|(other, _)| *other == name),
        "{name} was there before"
    );
    assert!(read(format!("/sys/block/{name}/comp_algorithm")).contains(&format!("[{algorithm}]")));
    assert_eq!(
        read(format!("/sys/block/{name}/disksize")),
        device.size.to_string()
    );
    assert_eq!(device.size, 64 * MIB);
    let ours = swaps()
        .into_iter()
        .find(|(path, _)| Path::new(path) == device.path)
        .unwrap();
    assert_eq!(ours.1, i32::from(device.priority));
    assert!(before.swaps.iter().all(|(_, priority)| *priority < ours.1));
    assert!(environment.description().to_string().contains(&name));

    let cgroup = environment.cgroup().unwrap();
    let procs = cgroup.group().file(PROCESSES).display().to_string();
    let script =
        format!("echo $$ > {procs}; a=$(head -c 16000000 /dev/zero | tr '\\0' x); echo held; read line");
    let mut holder = plimsoll_testkit::command("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0u8; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut line).unwrap();
    let reclaimed = cgroup
        .reclaim(8 * MIB, std::time::Duration::from_secs(60), &NEVER)
        .unwrap();
    assert!(reclaimed.bytes() >= 6 * MIB, "{reclaimed:?}");
    assert!(cgroup.swap().unwrap().unwrap() >= 6 * MIB, "{:?}", cgroup.swap());
    assert_eq!(
        cgroup.limit().unwrap(),
        Some(48 * MIB),
        "reclaim must leave the limit as it was"
    );
    let stored: u64 = read(format!("/sys/block/{name}/mm_stat"))
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(stored >= 6 * MIB, "{stored} bytes in {name}");
    holder.stdin.take().unwrap().write_all(b"\n").unwrap();
    holder.wait().unwrap();

    let path = cgroup.path().to_owned();
    let report = environment.tear_down(&mut session).unwrap();
    assert!(report.left_alone.is_empty(), "{report:?}");
    assert_eq!(Traces::now(), before);
    assert!(!path.exists());
    let _ = session.finish().unwrap();
}

#[test]
fn an_unknown_algorithm_is_refused_with_the_known_ones() {
    if !has_zram() {
        return;
    }
    let mut session = session("test-algorithm");
    // The kernel lists its algorithms by a device: a machine without one gets another error.
    let theirs = Stranger::add();
    let before = Traces::now();
    let error = Environment::prepare(&mut session, &settings("zram:bogus")).unwrap_err();
    let available = available_of(&error, MissingKind::ZramAlgorithm);
    assert!(
        !available.is_empty() && available.iter().all(|name| !name.contains('[')),
        "{available:?}"
    );
    assert_eq!(Traces::now(), before);
    // Every algorithm that is offered works.
    for subject in available {
        let name = subject.strip_prefix("zram:").expect("a subject");
        let environment = Environment::prepare(&mut session, &settings(subject)).unwrap();
        let kind = environment.swap_device().unwrap().kind.clone();
        assert!(
            matches!(&kind, SwapKind::Zram { algorithm, .. } if algorithm == name),
            "{kind:?}"
        );
        let _ = environment.tear_down(&mut session).unwrap();
    }
    assert_eq!(Traces::now(), before);
    theirs.leave(session);
}

/// The available names of the one requirement that a refusal lacks.
fn available_of(error: &EnvironmentError, kind: MissingKind) -> &[String] {
    let EnvironmentError::Missing(missing) = error else {
        panic!("{error}")
    };
    assert_eq!(
        missing.iter().map(|one| one.kind).collect::<Vec<_>>(),
        [kind],
        "{error}"
    );
    &missing[0].available
}

/// Adds a zram device that the run takes for another program's; removed when dropped.
///
/// That has to be before the session gives the machine away: the next test counts the devices before and after, and
/// one that goes in between looks like its own doing. So a session that knew a stranger ends by [`Stranger::leave`].
struct Stranger(u32);

impl Stranger {
    fn add() -> Stranger {
        Stranger(read("/sys/class/zram-control/hot_add").parse().unwrap())
    }

    fn attribute(&self, name: &str) -> String {
        format!("/sys/block/zram{}/{name}", self.0)
    }

    /// Removes the device while the machine is still held, and then gives the machine away.
    fn leave(self, session: Session) {
        drop(self);
        let _ = session.finish().unwrap();
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = fs::write(self.attribute("reset"), "1");
        let _ = fs::write("/sys/class/zram-control/hot_remove", self.0.to_string());
    }
}

#[test]
fn a_foreign_zram_device_stays_untouched() {
    if !has_zram() {
        return;
    }
    let mut session = session("test-stranger");
    let theirs = Stranger::add();
    fs::write(theirs.attribute("disksize"), (8 * MIB).to_string()).unwrap();
    let node = format!("/dev/zram{}", theirs.0);
    fs::OpenOptions::new()
        .write(true)
        .open(&node)
        .unwrap()
        .write_all(b"their bytes")
        .unwrap();
    let before = Traces::now();
    let environment = Environment::prepare(&mut session, &settings("zram")).unwrap();
    assert_ne!(environment.swap_device().unwrap().path, Path::new(&node));
    let _ = environment.tear_down(&mut session).unwrap();
    assert_eq!(Traces::now(), before);
    let mut bytes = [0u8; 11];
    std::io::Read::read_exact(&mut fs::File::open(&node).unwrap(), &mut bytes).unwrap();
    assert_eq!(&bytes, b"their bytes");
    theirs.leave(session);
}

#[test]
fn a_device_that_another_process_took_over_stays() {
    if !has_zram() {
        return;
    }
    let mut session = session("test-taken-over");
    let environment = Environment::prepare(&mut session, &settings("zram")).unwrap();
    let device = environment.swap_device().unwrap().clone();
    let SwapKind::Zram { id, .. } = device.kind else {
        panic!("{device:?}")
    };
    let theirs = Stranger(id);
    assert!(
        plimsoll_testkit::command("swapoff")
            .arg(&device.path)
            .status()
            .unwrap()
            .success()
    );
    fs::write(theirs.attribute("reset"), "1").unwrap();
    fs::write(theirs.attribute("disksize"), (16 * MIB).to_string()).unwrap();
    let report = environment.tear_down(&mut session).unwrap();
    assert_eq!(read(theirs.attribute("disksize")), (16 * MIB).to_string());
    assert_eq!(report.left_alone.len(), 1, "{report:?}");
    theirs.leave(session);
}

/// Runs where no device can be added, started by the test below.
#[test]
fn free_device_role() {
    if !is_role("environment::swap_areas::free_device_role") {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let mut session =
        plimsoll_lab::environment::Session::open_in(state.path(), "free-device", &[], None, &NEVER).unwrap();
    let environment = Environment::prepare(&mut session, &settings("zram:lzo")).unwrap();
    let device = environment.swap_device().unwrap();
    println!("used {}", serde_json::to_string(device).unwrap());
    let _ = environment.tear_down(&mut session).unwrap();
    let _ = session.finish().unwrap();
}

#[test]
fn where_no_device_can_be_added_a_free_one_is_used_and_left_as_it_was() {
    if !has_zram() {
        return;
    }
    // The helper process works under this lock: nobody else adds devices meanwhile.
    let session = session("test-free-device");
    let free = Stranger::add();
    fs::write(free.attribute("comp_algorithm"), "lz4").unwrap();
    let before = Traces::now();
    let role = again("environment::swap_areas::free_device_role");
    // A mount over the control file, seen by the helper alone, stands for a kernel without it.
    let script = "mount --bind /proc/self/cmdline /sys/class/zram-control/hot_add && exec \"$0\" \"$@\"";
    let output = plimsoll_testkit::command("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(role.get_program())
        .args(role.get_args())
        .envs(role.get_envs().filter_map(|(key, value)| Some((key, value?))))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let used = text.lines().find_map(|line| line.strip_prefix("used "));
    let used: Value = serde_json::from_str(used.expect("the role prints it")).unwrap();
    assert_eq!(used["path"], format!("/dev/zram{}", free.0), "{used:#}");
    assert_eq!(used["kind"]["added"], false, "{used:#}");
    assert_eq!(Traces::now(), before);
    assert!(
        read(free.attribute("comp_algorithm")).contains("[lz4]"),
        "{}",
        read(free.attribute("comp_algorithm"))
    );
    drop(free);
    assert!(zram_devices().len() < before.zram.len());
    let _ = session.finish().unwrap();
}

#[test]
fn a_swap_file_is_private_used_and_removed() {
    if !has_swap_file() {
        return;
    }
    let mut session = session("test-swap-file");
    let before = Traces::now();
    let environment = Environment::prepare(&mut session, &settings("swapfile")).unwrap();
    let device = environment.swap_device().unwrap().clone();
    assert_eq!((device.size, &device.kind), (64 * MIB, &SwapKind::File));
    let metadata = fs::metadata(&device.path).unwrap();
    assert_eq!(
        (metadata.permissions().mode() & 0o777, metadata.len()),
        (0o600, 64 * MIB)
    );
    assert!(swaps().iter().any(|(path, _)| Path::new(path) == device.path));
    let _ = environment.tear_down(&mut session).unwrap();
    assert!(!device.path.exists());
    assert_eq!(Traces::now(), before);
    let _ = session.finish().unwrap();
}

#[test]
fn a_folder_in_memory_is_refused() {
    if !has_swap_file() || !Path::new("/dev/shm").is_dir() {
        return;
    }
    let mut session = session("test-tmpfs");
    let mut asked = settings("swapfile");
    asked.swap_dir = "/dev/shm".into();
    let error = Environment::prepare(&mut session, &asked).unwrap_err();
    let EnvironmentError::Missing(list) = &error else {
        panic!("{error}")
    };
    let [missing] = &list[..] else { panic!("{error}") };
    assert_eq!(missing.kind, MissingKind::SwapFolder, "{error}");
    assert_eq!(missing.why, SwapFolderDefect::InMemory.to_string());
    assert!(missing.how.contains("swap-dir"), "{error}");
    let _ = session.finish().unwrap();
}

/// A small ext4 on a loop device, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: u64) -> Option<SmallDisk> {
        let folder = tempfile::tempdir_in(disk()).unwrap();
        let image = folder.path().join("image");
        fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        fs::create_dir(folder.path().join("mounted")).unwrap();
        let made = plimsoll_testkit::command("mkfs.ext4")
            .args(["-q", "-F"])
            .arg(&image)
            .status()
            .is_ok_and(|s| s.success());
        let disk = SmallDisk(folder);
        let mount = || {
            plimsoll_testkit::command("mount")
                .args(["-o", "loop"])
                .arg(&image)
                .arg(disk.path())
                .status()
        };
        (made && mount().is_ok_and(|status| status.success())).then_some(disk)
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("mounted")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = plimsoll_testkit::command("umount")
            .arg(self.path())
            .stderr(Stdio::null())
            .status();
    }
}

#[test]
fn a_full_disk_is_an_error_with_bytes_and_leaves_no_file() {
    if !has_swap_file() {
        return;
    }
    let mut session = session("test-disk-full");
    let Some(small) = SmallDisk::mount(64 * MIB) else {
        plimsoll_testkit::capability("swapfile", false, "needs mkfs.ext4 and loop devices");
        return;
    };
    let before = Traces::now();
    let mut asked = settings("swapfile");
    asked.swap_dir = small.path();
    let error = Environment::prepare(&mut session, &asked).unwrap_err();
    let EnvironmentError::DiskFull {
        needed, available, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*needed, 64 * MIB);
    assert!(*available > 30 * MIB && *available < 64 * MIB, "{available}");
    assert!(error.to_string().contains(&needed.to_string()), "{error}");
    assert_eq!(Traces::now(), before);
    // What fits is made on the same disk.
    asked.swap_size = 16 * MIB;
    let environment = Environment::prepare(&mut session, &asked).unwrap();
    let _ = environment.tear_down(&mut session).unwrap();
    let left: Vec<_> = fs::read_dir(small.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left, ["lost+found"]);
    let _ = session.finish().unwrap();
}

#[test]
fn a_run_whose_swap_file_does_not_fit_its_disk_is_refused_in_numbers() {
    if !has_swap_file() {
        return;
    }
    let session = session("test-run-disk-full");
    let Some(small) = SmallDisk::mount(64 * MIB) else {
        plimsoll_testkit::capability("swapfile", false, "needs mkfs.ext4 and loop devices");
        return;
    };
    let before = Traces::now();
    let recordings = tempfile::tempdir().unwrap();
    let output = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"))
        .args([
            "run",
            "compression",
            "--set",
            "subject=swapfile",
            "--set",
            "size=32M",
        ])
        .args(["--set", "swap-size=128M", "--repeat", "1", "--set"])
        .arg(format!("swap-dir={}", small.path().display()))
        .arg("--output")
        .arg(recordings.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("128 MiB"), "{text}");
    assert!(text.contains(&small.path().display().to_string()), "{text}");
    assert_eq!(Traces::now(), before);
    let on_disk: Vec<_> = fs::read_dir(small.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(on_disk, ["lost+found"]);
    assert_eq!(fs::read_dir(recordings.path()).unwrap().count(), 0);
    let _ = session.finish().unwrap();
}

/// Lists the missing requirements many times, started by the test below.
#[test]
fn large_plan_role() {
    if is_role("environment::swap_areas::large_plan_role") {
        for _ in 0..10_000 {
            let lacking = plimsoll_lab::environment::missing(&settings("zram"));
            assert!(
                lacking.iter().all(|missing| missing.kind != MissingKind::Zram),
                "{lacking:?}"
            );
        }
    }
}

#[test]
fn modprobe_is_asked_once_for_all_trials_of_a_plan() {
    if !has_zram() {
        return;
    }
    // Folders without zram over those of sysfs, seen by the helper alone, stand for a module that is not loaded.
    let folder = tempfile::tempdir().unwrap();
    let (modprobe, asked) = (folder.path().join("modprobe"), folder.path().join("asked"));
    let echo = format!("#!/bin/sh\necho \"$@\" >> {}\n", asked.display());
    plimsoll_testkit::write_script(&modprobe, &echo);
    let role = again("environment::swap_areas::large_plan_role");
    let script =
        "mount -t tmpfs none /sys/block && mount -t tmpfs none /sys/class/zram-control && exec \"$0\" \"$@\"";
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let status = plimsoll_testkit::command("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(role.get_program())
        .args(role.get_args())
        .envs(role.get_envs().filter_map(|(key, value)| Some((key, value?))))
        .env("PATH", path)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(fs::read_to_string(&asked).unwrap(), "-D zram\n");
}

#[test]
fn zswap_is_on_during_the_trial_and_as_before_afterwards() {
    if !has_zswap() {
        return;
    }
    let mut session = session("test-zswap");
    let before = Traces::now();
    let compressor = if read(format!("{ZSWAP}/compressor")) == "lzo" {
        "lzo-rle"
    } else {
        "lzo"
    };
    let mut asked = settings(&format!("zswap:{compressor}"));
    asked.zswap_pool_percent = Some(11);
    let environment = Environment::prepare(&mut session, &asked).unwrap();
    let zswap = environment.description().zswap.clone().unwrap();
    assert_eq!(
        (zswap.enabled, zswap.compressor.as_str(), zswap.max_pool_percent),
        (true, compressor, 11)
    );
    assert_eq!(read(format!("{ZSWAP}/enabled")), "Y");
    let _ = environment.tear_down(&mut session).unwrap();
    assert_eq!(Traces::now(), before);

    let error = Environment::prepare(&mut session, &settings("zswap:bogus")).unwrap_err();
    let available = available_of(&error, MissingKind::ZswapCompressor);
    assert!(
        available.contains(&format!("zswap:{compressor}")),
        "{available:?}"
    );
    assert_eq!(Traces::now(), before);
    let _ = session.finish().unwrap();
}

/// A parameter of the kernel, which gets its value back when this is dropped, by a failure too.
struct Restored<'p>(&'p str, String);

impl Restored<'_> {
    fn of(parameter: &str) -> Restored<'_> {
        Restored(parameter, read(parameter))
    }
}

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        // A second panic would hide the first.
        let _ = fs::write(self.0, &self.1);
    }
}

#[test]
fn zswap_is_off_for_subjects_that_do_not_ask_for_it() {
    if !has_zswap() {
        return;
    }
    let enabled = format!("{ZSWAP}/enabled");
    // A failure left zswap on, so that a later test found no page in zram. It is dropped after the session, which may restore `Y`.
    let _restored = Restored::of(&enabled);
    let mut session = session("test-zswap-off");
    fs::write(&enabled, "Y").unwrap();
    let environment = Environment::prepare(&mut session, &settings("swapfile")).unwrap();
    assert_eq!(read(&enabled), "N");
    let _ = environment.tear_down(&mut session).unwrap();
    assert_eq!(read(&enabled), "Y");
    let _ = session.finish().unwrap();
}

#[test]
fn sizes_of_nonsense_leave_nothing_behind() {
    if !has_zram() {
        return;
    }
    let mut session = session("test-sizes");
    let before = Traces::now();
    for (subject, bytes) in [
        ("zram", 0),
        ("zram", 99 << 40),
        ("swapfile", 4096),
        ("swapfile", 15 << 40),
    ] {
        let mut asked = settings(subject);
        asked.swap_size = bytes;
        let error = Environment::prepare(&mut session, &asked).unwrap_err();
        let refused = match &error {
            EnvironmentError::Header(defect) => defect.bytes,
            EnvironmentError::DiskFull { needed, .. } => *needed,
            _ => panic!("{subject} of {bytes}: {error}"),
        };
        assert_eq!(refused, bytes, "{subject}: {error}");
        assert_eq!(Traces::now(), before);
    }
    let _ = session.finish().unwrap();
}

#[test]
fn a_look_at_the_algorithms_of_zram_leaves_no_device() {
    if !has_zram() {
        return;
    }
    let mut session = session("test-zram-algorithms");
    let before = Traces::now();
    let found = session.zram_algorithms().unwrap();
    assert_eq!(Traces::now(), before);
    for (name, _) in zram_devices() {
        let listed = read(format!("/sys/block/{name}/comp_algorithm"));
        let listed: Vec<&str> = listed
            .split_whitespace()
            .map(|name| name.trim_matches(['[', ']']))
            .collect();
        assert_eq!(found, listed);
    }
    let _ = session.finish().unwrap();
}
