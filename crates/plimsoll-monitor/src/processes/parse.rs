//! The texts of a process's files in `/proc`: text in, values out.

/// Microseconds of one tick of the clock that `/proc/PID/stat` counts in, which is 100 Hz on every Linux (USER_HZ).
const CLOCK_TICK_US: u64 = 10_000;

/// The flag of kernel threads in the field `flags` (PF_KTHREAD, `include/linux/sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What is read of `/proc/PID/stat` (`proc_pid_stat(5)`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Name, at most 15 bytes, with whatever bytes it has; the kernel writes a line feed in it as `\n`.
    pub name: String,
    /// State letter: `R`, `S`, `D`, `T`, `Z`, ...
    pub state: char,
    /// Process id of the parent; 0 for none that can be seen.
    pub parent: u32,
    /// Whether it is a thread of the kernel.
    pub kernel_thread: bool,
    /// Faults that were served without waiting for a device.
    pub minor_faults: u64,
    /// Faults that had to read.
    pub major_faults: u64,
    /// CPU time in user mode, in microseconds, in steps of 10 ms.
    pub user_us: u64,
    /// CPU time in the kernel, likewise.
    pub system_us: u64,
    /// Start in clock ticks since boot.
    pub start_ticks: u64,
    /// Resident pages. Kernels since 6.2 count these roughly: off by up to some pages a CPU.
    pub resident_pages: u64,
}

impl Stat {
    /// Parses the text of the file. None when it is not such a text.
    pub fn parse(text: &[u8]) -> Option<Stat> {
        // The name may hold anything, parentheses, spaces and line feeds too; what follows holds no parenthesis.
        let open = text.iter().position(|&byte| byte == b'(')?;
        let close = text.iter().rposition(|&byte| byte == b')')?;
        let name = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(&text[close + 1..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().take(22).collect();
        // Numbered as in the manual page, where the state is the third.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Stat {
            name,
            state: fields.first()?.chars().next()?,
            parent: u32::try_from(number(4)?).ok()?,
            kernel_thread: number(9)? & KERNEL_THREAD != 0,
            minor_faults: number(10)?,
            major_faults: number(12)?,
            user_us: number(14)?.checked_mul(CLOCK_TICK_US)?,
            system_us: number(15)?.checked_mul(CLOCK_TICK_US)?,
            start_ticks: number(22)?,
            resident_pages: number(24)?,
        })
    }
}

/// What is read of `/proc/PID/status` (`proc_pid_status(5)`). Kernel threads and processes that are ending have no
/// memory and none of its fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Effective user id.
    pub uid: Option<u32>,
    /// Resident bytes that no file is behind.
    pub anon: Option<u64>,
    /// Resident bytes of mapped files.
    pub file: Option<u64>,
    /// Resident bytes of shared memory and tmpfs.
    pub shmem: Option<u64>,
    /// Bytes swapped out, shared memory apart.
    pub swap: Option<u64>,
    /// Locked bytes.
    pub locked: Option<u64>,
    /// Bytes of address space.
    pub address_space: Option<u64>,
    /// Bytes of data segments, which `ulimit -d` counts.
    pub data: Option<u64>,
}

impl Status {
    /// Parses the text of the file. The kernel escapes a line feed in the name, so that no name can make a line.
    pub fn parse(text: &[u8]) -> Status {
        let mut status = Status::default();
        for line in text.split(|&byte| byte == b'\n') {
            let Some(colon) = line.iter().position(|&byte| byte == b':') else {
                continue;
            };
            let Ok(value) = std::str::from_utf8(&line[colon + 1..]) else {
                continue;
            };
            let bytes = || first_number(value).and_then(|kib| kib.checked_mul(1024));
            match &line[..colon] {
                b"Uid" => {
                    status.uid = value
                        .split_ascii_whitespace()
                        .nth(1)
                        .and_then(|uid| uid.parse().ok())
                }
                b"VmSize" => status.address_space = bytes(),
                b"VmLck" => status.locked = bytes(),
                b"RssAnon" => status.anon = bytes(),
                b"RssFile" => status.file = bytes(),
                b"RssShmem" => status.shmem = bytes(),
                b"VmData" => status.data = bytes(),
                b"VmSwap" => {
                    status.swap = bytes();
                    // Nothing of interest follows.
                    break;
                }
                _ => {}
            }
        }
        status
    }

    /// Bytes of the working set: anonymous memory, files and shared memory that are resident.
    pub fn wss(&self) -> Option<u64> {
        self.anon?.checked_add(self.file?)?.checked_add(self.shmem?)
    }
}

/// Proportional set size in bytes, of the text of `smaps_rollup`.
pub fn pss(text: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(text);
    let value = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    first_number(value)?.checked_mul(1024)
}

/// The soft limits of `/proc/PID/limits` that bear on memory; None where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// `ulimit -v`: bytes of address space.
    pub address_space: Option<u64>,
    /// `ulimit -d`: bytes of data.
    pub data: Option<u64>,
    /// `ulimit -l`: bytes of locked memory.
    pub locked: Option<u64>,
    /// `ulimit -m`: bytes of resident memory, which Linux does not enforce.
    pub resident: Option<u64>,
}

impl Limits {
    /// Parses the text of the file.
    pub fn parse(text: &[u8]) -> Limits {
        let text = String::from_utf8_lossy(text);
        let soft = |name: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
            first_number(rest)
        };
        Limits {
            address_space: soft("Max address space "),
            data: soft("Max data size "),
            locked: soft("Max locked memory "),
            resident: soft("Max resident set "),
        }
    }
}

/// A command line: arguments apart by spaces. Empty for a process that has none.
pub fn command_line(text: &[u8]) -> String {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    String::from_utf8_lossy(text).replace('\0', " ")
}

/// The first word as a number, if it is one.
pub fn first_number(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}
