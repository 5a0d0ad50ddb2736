//! zram devices: a new one where the kernel can add one, a free one otherwise.
//!
//! Invariant: a device that has a size, is open or swapped to by others is never configured, reset or removed. Checked by
//! `a_device_that_another_process_took_over_stays`.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_proc::ControlError;
use plimsoll_proc::swap_header::{self, Found, SwapHeader};
use plimsoll_proc::swaps::is_active;
use plimsoll_proc::zram::{HOT_ADD, Zram, devices, hot_add, hot_remove};

use super::undo::{UndoError, Undone};

use super::change::Change;
use super::error::EnvironmentError;
use super::journal::Journal;
use super::modules::{self, modprobe};
use super::swap_device::{SwapDevice, SwapKind, turn_on};

/// How long a device node may take to appear, and a closing device to be free.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// Bytes of a device that is never configured.
const SMALL: u64 = 1 << 20;

/// Makes a zram device of `size` bytes with `algorithm` (or the kernel's default) and swaps to it. Undone through
/// the journal.
pub(super) fn create(
    journal: &mut Journal,
    algorithm: Option<&str>,
    size: u64,
) -> Result<SwapDevice, EnvironmentError> {
    load_module(journal)?;
    let page = rustix::param::page_size();
    let header = SwapHeader::new(size, page, "plimsoll")?;
    let size = header.pages * page as u64;
    let (id, added) = obtain(journal, &header, size)?;
    let device = Zram::of(id);
    wait_for(device.node())?;
    let algorithm = set_algorithm(&device, algorithm)?;
    device.set_size(size)?;
    let area = device
        .open()
        .map_err(|source| EnvironmentError::system(format!("open {}", device.node().display()), source))?;
    let priority = turn_on(journal, device.node(), &area, &header)?;
    Ok(SwapDevice {
        path: device.node().to_owned(),
        kind: SwapKind::Zram { id, algorithm, added },
        size,
        priority,
    })
}

/// Journals and returns an unused device: a new one, or a free one if the kernel cannot add one.
fn obtain(
    journal: &mut Journal,
    header: &SwapHeader,
    disksize: u64,
) -> Result<(u32, bool), EnvironmentError> {
    let uuid = header.uuid_text();
    let before = devices().map_err(|source| EnvironmentError::reading(Path::new("/sys/block"), source))?;
    let number = journal.record(Change::ZramAdd {
        before: before.clone(),
    })?;
    if let Ok(id) = hot_add() {
        journal.record(Change::Zram {
            id,
            added: true,
            disksize,
            uuid,
        })?;
        journal.record_undone(number)?;
        return Ok((id, true));
    }
    journal.record_undone(number)?;
    // The last one: other programs take the first without a check.
    match before.into_iter().rev().find(|&id| Zram::of(id).is_free()) {
        Some(id) => {
            record_algorithm(journal, id)?;
            journal.record(Change::Zram {
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
fn record_algorithm(journal: &mut Journal, id: u32) -> Result<(), EnvironmentError> {
    let before = Zram::of(id).algorithm()?;
    journal.record(Change::ZramAlgorithm { id, before }).map(drop)
}

/// Puts the algorithm of a reset device back.
pub(super) fn undo_algorithm(id: u32, before: &str) -> Result<Undone, UndoError> {
    let device = Zram::of(id);
    match device.algorithm() {
        Err(error) if error.io().kind() == io::ErrorKind::NotFound => return Ok(Undone::Gone),
        Err(error) => return Err(UndoError::system("read its algorithm")(error.into_io())),
        Ok(now) if now == before => return Ok(Undone::Gone),
        Ok(_) => {}
    }
    if device.size().is_ok_and(|size| size != 0) {
        return Ok(Undone::NotOurs(
            "another program has configured the device since".to_owned(),
        ));
    }
    device
        .set_algorithm(before)
        .map_err(|error| UndoError::system(format!("write `{before}` back"))(error.into_io()))?;
    Ok(Undone::Gone)
}

/// Chooses the algorithm, before the device has a size. Returns the algorithm that the kernel reports.
fn set_algorithm(device: &Zram, asked: Option<&str>) -> Result<String, EnvironmentError> {
    let Some(asked) = asked else {
        return Ok(device.algorithm()?);
    };
    let available = device.algorithm_names()?;
    // The kernel may know more than it lists: it has the last word.
    match device.set_algorithm(asked) {
        Ok(()) => {}
        Err(error) if matches!(error.errno(), Some(libc::EINVAL | libc::ENOENT)) => {
            return Err(EnvironmentError::UnknownAlgorithm {
                asked: asked.to_owned(),
                available,
            });
        }
        Err(error) => return Err(error.into()),
    }
    let now = device.algorithm()?;
    if asked == now {
        return Ok(now);
    }
    Err(EnvironmentError::NotTaken {
        path: device.file("comp_algorithm"),
        wanted: asked.to_owned(),
        found: now,
    })
}

/// Whether this kernel has zram, or a module of it that can be loaded.
pub(super) fn available() -> bool {
    Path::new(HOT_ADD).exists() || devices().is_ok_and(|ids| !ids.is_empty()) || modules::loadable("zram")
}

/// The algorithms that the kernel lists, by any device; `None` without a device.
pub(super) fn algorithms() -> Option<Vec<String>> {
    let devices = devices().ok()?;
    devices
        .into_iter()
        .find_map(|id| Zram::of(id).algorithm_names().ok())
}

/// Adds a device for a look at its algorithms, which the caller undoes through the journal.
pub(super) fn look_at_algorithms(journal: &mut Journal) -> Result<Vec<String>, EnvironmentError> {
    load_module(journal)?;
    let page = rustix::param::page_size();
    let header = SwapHeader::new(SMALL, page, "plimsoll")?;
    let (id, _) = obtain(journal, &header, SMALL)?;
    Ok(Zram::of(id).algorithm_names()?)
}

fn load_module(journal: &mut Journal) -> Result<(), EnvironmentError> {
    if Path::new(HOT_ADD).exists() || devices().is_ok_and(|ids| !ids.is_empty()) {
        return Ok(());
    }
    let number = journal.record(Change::Module {
        name: "zram".to_owned(),
    })?;
    if let Err(source) = modprobe(&["zram"]) {
        journal.record_undone(number)?;
        return Err(EnvironmentError::system_with(
            "load the kernel module zram",
            source,
            "install the kernel's extra modules, or use the subject `swapfile`",
        ));
    }
    Ok(())
}

/// Unloads the module, unless one of its devices is in use.
pub(super) fn undo_module(name: &str) -> Result<Undone, UndoError> {
    if !Path::new("/sys/module").join(name).exists() {
        return Ok(Undone::Gone);
    }
    // `modprobe -r` would also remove configured devices that no process has open.
    let used = devices().map_err(UndoError::system("list the zram devices"))?;
    if let Some(id) = used.into_iter().find(|&id| !Zram::of(id).is_free()) {
        return Ok(Undone::NotOurs(format!("another program uses /dev/zram{id}")));
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
        [id] if Zram::of(id).is_free() => remove(id),
        _ => Ok(Undone::NotOurs(format!(
            "of the devices {new:?} that are new since, none is surely this run's"
        ))),
    }
}

/// Resets the device, and removes it if it was added, provided that it still is as this run left it.
pub(super) fn undo(id: u32, added: bool, disksize: u64, uuid: &str) -> Result<Undone, UndoError> {
    let device = Zram::of(id);
    let size = match device.size() {
        Ok(size) => size,
        Err(error) if error.io().kind() == io::ErrorKind::NotFound => return Ok(Undone::Gone),
        Err(error) => return Err(UndoError::system("read its size")(error.into_io())),
    };
    if size != 0 {
        if is_active(device.node()).map_err(UndoError::system("read /proc/swaps"))? {
            return Err(UndoError::InUse);
        }
        // Closed again before the reset, which an open device refuses.
        let header = device.open().and_then(|node| swap_header::find(&node));
        let header = header.map_err(UndoError::system("read its header"))?;
        let ours = size == disksize && (header == Found::Blank || header == Found::Uuid(uuid.to_owned()));
        if !ours {
            return Ok(Undone::NotOurs(
                "another program has configured it since".to_owned(),
            ));
        }
        patiently(|| device.reset().map_err(ControlError::into_io)).map_err(UndoError::system("reset it"))?;
    }
    if added { remove(id) } else { Ok(Undone::Gone) }
}

fn remove(id: u32) -> Result<Undone, UndoError> {
    patiently(|| hot_remove(id)).map_err(UndoError::system("remove it"))?;
    if Zram::of(id).exists() {
        Err(UndoError::Stays)
    } else {
        Ok(Undone::Gone)
    }
}

/// Repeats an attempt that fails while another program (udev) has the device open.
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
