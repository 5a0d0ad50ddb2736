//! Other programs of the machine, as a run meets them: a cgroup whose program swaps, and swap that is not the run's.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_lab::workload::protocol::{Command, Placement};
use plimsoll_lab::workload::{Worker, WorkerOptions};
use plimsoll_model::scenario::{FillClass, ThpMode};
use plimsoll_proc::cgroup::{Hierarchy, MemoryCgroup};
use plimsoll_proc::swap_header::SwapHeader;
use plimsoll_proc::zram::{self, Zram};

const EXE: &str = env!("CARGO_BIN_EXE_plimsoll");
/// Longest wait of the program for an answer of its worker.
const PATIENCE: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(5);

/// One at a time: a second program would be foreign to the first one's test.
static ONE: Mutex<()> = Mutex::new(());

/// A cgroup with a program that needs more memory than the limit, whenever the machine has swap. The kernel ends the
/// program when its swap goes; it then starts anew.
pub(crate) struct SwappingCgroup {
    cgroup: MemoryCgroup,
    stop: Arc<AtomicBool>,
    most_swapped: Arc<AtomicU64>,
    program: Option<JoinHandle<()>>,
    _one: MutexGuard<'static, ()>,
}

impl SwappingCgroup {
    /// A program of `bytes` in a cgroup of `limit` bytes.
    pub(crate) fn start(limit: u64, bytes: u64) -> SwappingCgroup {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let hierarchy = Hierarchy::of_this_process().expect("a memory cgroup hierarchy");
        let path = hierarchy.own.join(format!("foreign-{}", std::process::id()));
        fs::create_dir(&path).expect("root can make a cgroup");
        let cgroup = MemoryCgroup::new(path, hierarchy.version);
        cgroup.set_limit(limit).expect("a limit");
        let (stop, most_swapped) = (Arc::default(), Arc::default());
        let program = Program {
            cgroup: cgroup.clone(),
            bytes,
            stop: Arc::clone(&stop),
            most_swapped: Arc::clone(&most_swapped),
        };
        SwappingCgroup {
            cgroup,
            stop,
            most_swapped,
            program: Some(std::thread::spawn(move || program.go_on())),
            _one: one,
        }
    }

    /// The most bytes that it was seen to have in swap.
    pub(crate) fn most_swapped(&self) -> u64 {
        self.most_swapped.load(Ordering::Relaxed)
    }
}

impl Drop for SwappingCgroup {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(program) = self.program.take() {
            let _ = program.join();
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(self.cgroup.path()).is_err() && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
    }
}

struct Program {
    cgroup: MemoryCgroup,
    bytes: u64,
    stop: Arc<AtomicBool>,
    most_swapped: Arc<AtomicU64>,
}

impl Program {
    fn go_on(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let swaps = plimsoll_proc::swaps::active().expect("/proc/swaps");
            if !swaps.is_empty() {
                self.fill_and_read();
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Fills the memory and reads it again and again, until the program is told to stop or the kernel ends it.
    fn fill_and_read(&self) {
        let options = WorkerOptions {
            cgroup: Some(self.cgroup.clone()),
            ..WorkerOptions::default()
        };
        let Ok(mut worker) = Worker::spawn(Path::new(EXE), &options) else {
            return;
        };
        let fill = Command::Fill {
            bytes: self.bytes,
            request: self.bytes,
            class: FillClass::Constant,
            seed: 1,
            thp: ThpMode::Never,
            placement: Placement::default(),
        };
        let mut command = &fill;
        while worker.call(command, PATIENCE, &self.stop).is_ok() {
            let swapped = self.cgroup.swap().ok().flatten().unwrap_or(0);
            self.most_swapped.fetch_max(swapped, Ordering::Relaxed);
            command = &Command::Restore;
        }
    }
}

/// A zram device as swap, of no run.
pub(crate) struct OtherSwap {
    device: Zram,
    node: CString,
}

impl OtherSwap {
    /// Turns `bytes` of swap on, before that of every run.
    pub(crate) fn turn_on(bytes: u64) -> OtherSwap {
        let device = Zram::of(zram::hot_add().expect("root can add a zram device"));
        device.set_size(bytes).expect("a size");
        let page = rustix::param::page_size();
        let header = SwapHeader::new(bytes, page, "other").expect("a swap header");
        let node = PathBuf::from(device.node());
        fs::write(&node, header.encode(page)).expect("a header is written");
        let node = CString::new(node.as_os_str().as_bytes()).expect("a path");
        plimsoll_os::swap_on(&node, Some(32_767)).expect("root can turn swap on");
        OtherSwap { device, node }
    }
}

impl Drop for OtherSwap {
    fn drop(&mut self) {
        // The kernel gives up while other programs read their pages back; it must not stay for the tests after this one.
        let deadline = Instant::now() + Duration::from_secs(60);
        while let Err(errno) = plimsoll_os::swap_off(&self.node) {
            if errno == plimsoll_os::Errno::INVAL || Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        let _ = self.device.reset();
        let _ = zram::hot_remove(self.device.id);
    }
}
