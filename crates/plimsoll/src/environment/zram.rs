//! zram devices: a new one where the kernel can add one, a free one otherwise.
//!
//! Invariant: a device that has a size, is open or swapped to by others is never configured, reset or removed.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use super::cleanup::Undone;
use super::control_file::{chosen, read, read_number, write};
use super::error::{EnvironmentError, UndoError};
use super::journal::Change;
use super::session::Session;
use super::swap_device::{SwapDevice, SwapKind, is_active, turn_on};
use super::swap_header::{self, Found, SwapHeader};

const HOT_ADD: &str = "/sys/class/zram-control/hot_add";
const HOT_REMOVE: &str = "/sys/class/zram-control/hot_remove";
/// How long a device node may take to appear, and a closing device to be free.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// Makes a zram device of `size` bytes with `algorithm` (or the kernel's default) and swaps to it. Undone through
/// the session.
pub(super) fn create(
    session: &mut Session,
    algorithm: Option<&str>,
    size: u64,
) -> Result<SwapDevice, EnvironmentError> {
    load_module(session)?;
    let page = rustix::param::page_size();
    let header = SwapHeader::new(size, page, "plimsoll")?;
    let size = header.pages * page as u64;
    let (id, added) = obtain(session, &header, size)?;
    let path = node(id);
    wait_for(&path)?;
    let algorithm = set_algorithm(id, algorithm)?;
    let disksize = attribute(id, "disksize");
    write(&disksize, &size.to_string())
        .map_err(|source| EnvironmentError::writing(&disksize, &size.to_string(), source))?;
    let priority = turn_on(session, &path, &header)?;
    Ok(SwapDevice {
        path,
        kind: SwapKind::Zram { id, algorithm, added },
        size,
        priority,
    })
}

/// A device nobody uses, journalled: a new one, or a free one where none can be added.
fn obtain(
    session: &mut Session,
    header: &SwapHeader,
    disksize: u64,
) -> Result<(u32, bool), EnvironmentError> {
    let uuid = header.uuid_text();
    let before = devices().map_err(|source| EnvironmentError::reading(Path::new("/sys/block"), source))?;
    let number = session.record(Change::ZramAdd {
        before: before.clone(),
    })?;
    // Reading the file is what adds a device.
    let added = read_number(Path::new(HOT_ADD))
        .ok()
        .and_then(|id| u32::try_from(id).ok());
    if let Some(id) = added {
        session.record(Change::Zram {
            id,
            added: true,
            disksize,
            uuid,
        })?;
        session.record_undone(number)?;
        return Ok((id, true));
    }
    session.record_undone(number)?;
    // The last one: the first is what other programs take without asking.
    match before.into_iter().rev().find(|&id| is_free(id)) {
        Some(id) => {
            record_algorithm(session, id)?;
            session.record(Change::Zram {
                id,
                added: false,
                disksize,
                uuid,
            })?;
            Ok((id, false))
        }
        None => Err(EnvironmentError::system_with(
            format!("add a zram device ({HOT_ADD}), and no existing one is free"),
            io::Error::from(io::ErrorKind::NotFound),
            "run as root, or load the module with more devices (`modprobe zram num_devices=2`)",
        )),
    }
}

/// A free device keeps its algorithm over a reset on some kernels: it is put back after the reset, so it is
/// written down before the device is.
fn record_algorithm(session: &mut Session, id: u32) -> Result<(), EnvironmentError> {
    let path = attribute(id, "comp_algorithm");
    let before = read(&path).map_err(|source| EnvironmentError::reading(&path, source))?;
    let before = chosen(&before).to_owned();
    session.record(Change::ZramAlgorithm { id, before }).map(drop)
}

/// Puts the algorithm of a reset device back.
pub(super) fn undo_algorithm(id: u32, before: &str) -> Result<Undone, UndoError> {
    let path = attribute(id, "comp_algorithm");
    match read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Undone::Gone),
        Err(source) => return Err(UndoError::system(format!("read {}", path.display()))(source)),
        Ok(now) if chosen(&now) == before => return Ok(Undone::Gone),
        Ok(_) => {}
    }
    if read_number(&attribute(id, "disksize")).is_ok_and(|size| size != 0) {
        return Ok(Undone::NotOurs(
            "somebody else configured the device since".to_owned(),
        ));
    }
    write(&path, before).map_err(UndoError::system(format!("write `{before}` back")))?;
    Ok(Undone::Gone)
}

/// Chooses the algorithm, which has to be done before the device has a size. Returns what the kernel says then.
fn set_algorithm(id: u32, asked: Option<&str>) -> Result<String, EnvironmentError> {
    let path = attribute(id, "comp_algorithm");
    let current = || read(&path).map_err(|source| EnvironmentError::reading(&path, source));
    if let Some(asked) = asked {
        let available: Vec<String> = current()?
            .split_whitespace()
            .map(|name| name.trim_matches(['[', ']']).to_owned())
            .collect();
        // The kernel may know more than it lists (a module that it loads on demand): it has the last word.
        match write(&path, asked) {
            Ok(()) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {
                return Err(EnvironmentError::UnknownAlgorithm {
                    asked: asked.to_owned(),
                    available,
                });
            }
            Err(source) => return Err(EnvironmentError::writing(&path, asked, source)),
        }
    }
    let now = current()?;
    let now = chosen(&now);
    match asked {
        Some(asked) if asked != now => Err(EnvironmentError::NotTaken {
            path,
            wanted: asked.to_owned(),
            found: now.to_owned(),
        }),
        _ => Ok(now.to_owned()),
    }
}

/// Whether there is a module to load. It takes a process to ask, so it is asked once.
static LOADABLE: LazyLock<bool> = LazyLock::new(|| modprobe(&["-D", "zram"]).is_ok()); // busybox knows no --dry-run, and no long names

/// Whether this kernel has zram, or a module of it that can be loaded.
pub(super) fn available() -> bool {
    Path::new(HOT_ADD).exists() || devices().is_ok_and(|ids| !ids.is_empty()) || *LOADABLE
}

fn load_module(session: &mut Session) -> Result<(), EnvironmentError> {
    if Path::new(HOT_ADD).exists() || devices().is_ok_and(|ids| !ids.is_empty()) {
        return Ok(());
    }
    let number = session.record(Change::Module {
        name: "zram".to_owned(),
    })?;
    if let Err(source) = modprobe(&["zram"]) {
        session.record_undone(number)?;
        return Err(EnvironmentError::system_with(
            "load the kernel module zram",
            source,
            "install the kernel's extra modules, or use the subject `swapfile`",
        ));
    }
    Ok(())
}

fn modprobe(arguments: &[&str]) -> io::Result<()> {
    // Users' search paths often lack the folders of root's tools.
    let candidates = ["modprobe", "/usr/sbin/modprobe", "/sbin/modprobe"];
    let run = |program| Command::new(program).args(arguments).output();
    let output = match candidates.iter().find_map(|program| run(program).ok()) {
        Some(output) => output,
        None => {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the program `modprobe` is not installed",
            ));
        }
    };
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(
        String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    ))
}

/// Unloads the module, unless somebody uses a device of it.
pub(super) fn undo_module(name: &str) -> Result<Undone, UndoError> {
    if !Path::new("/sys/module").join(name).exists() {
        return Ok(Undone::Gone);
    }
    // The module would go, and take configured devices with it, even while nobody has them open.
    let used = devices().map_err(UndoError::system("list the zram devices"))?;
    if let Some(id) = used.into_iter().find(|&id| !is_free(id)) {
        return Ok(Undone::NotOurs(format!(
            "/dev/zram{id} is in use by somebody else"
        )));
    }
    modprobe(&["-r", name]).map_err(UndoError::system("unload it"))?;
    Ok(Undone::Gone)
}

/// Removes the device that was added when the run died before it could write down which one it was.
pub(super) fn undo_add(before: &[u32]) -> Result<Undone, UndoError> {
    let now = devices().map_err(UndoError::system("list the zram devices"))?;
    let new: Vec<u32> = now.into_iter().filter(|id| !before.contains(id)).collect();
    match new[..] {
        [] => Ok(Undone::Gone),
        [id] if is_free(id) => remove(id),
        _ => Ok(Undone::NotOurs(format!(
            "of the devices {new:?} that are new since, none is surely this run's"
        ))),
    }
}

/// Resets the device, and removes it if it was added, provided that it still is as this run left it.
pub(super) fn undo(id: u32, added: bool, disksize: u64, uuid: &str) -> Result<Undone, UndoError> {
    let size = match read_number(&attribute(id, "disksize")) {
        Ok(size) => size,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Undone::Gone),
        Err(source) => return Err(UndoError::system("read its size")(source)),
    };
    if size != 0 {
        if is_active(&node(id)).map_err(UndoError::system("read /proc/swaps"))? {
            return Err(UndoError::InUse);
        }
        let header = swap_header::find(&node(id)).map_err(UndoError::system("read its header"))?;
        let ours = size == disksize && (header == Found::Blank || header == Found::Uuid(uuid.to_owned()));
        if !ours {
            return Ok(Undone::NotOurs("somebody else configured it since".to_owned()));
        }
        patiently(|| write(&attribute(id, "reset"), "1")).map_err(UndoError::system("reset it"))?;
    }
    if added { remove(id) } else { Ok(Undone::Gone) }
}

fn remove(id: u32) -> Result<Undone, UndoError> {
    patiently(|| write(Path::new(HOT_REMOVE), &id.to_string())).map_err(UndoError::system("remove it"))?;
    if attribute(id, "disksize").exists() {
        Err(UndoError::Stays)
    } else {
        Ok(Undone::Gone)
    }
}

/// Repeats what fails only since another program (udev) has the device open for a moment.
fn patiently(mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                thread::sleep(POLL);
            }
            result => return result,
        }
    }
}

fn wait_for(path: &Path) -> Result<(), EnvironmentError> {
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() {
        if Instant::now() >= deadline {
            return Err(EnvironmentError::system_with(
                format!("find {}", path.display()),
                io::Error::from(io::ErrorKind::NotFound),
                "the kernel added the device, but /dev does not show it: is devtmpfs mounted?",
            ));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// Numbers of the devices that there are, in order.
fn devices() -> io::Result<Vec<u32>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir("/sys/block")? {
        let name = entry?.file_name();
        if let Some(id) = name
            .to_str()
            .and_then(|name| name.strip_prefix("zram"))
            .and_then(|id| id.parse().ok())
        {
            ids.push(id);
        }
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Whether the device has no size, and nobody has claimed it.
fn is_free(id: u32) -> bool {
    let unsized_device = read_number(&attribute(id, "disksize")).is_ok_and(|size| size == 0);
    let unclaimed = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_EXCL)
        .open(node(id))
        .is_ok();
    unsized_device && unclaimed
}

fn node(id: u32) -> PathBuf {
    PathBuf::from(format!("/dev/zram{id}"))
}

fn attribute(id: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/sys/block/zram{id}/{name}"))
}
