//! The machine as tests share it.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use plimsoll_lab::environment::Session;
use plimsoll_model::scenario::{
    Backing, Compression, FillClass, Filling, Settings, ThpMode, TrimMechanism, Workload,
};

/// How long a test waits for the machine: all the others may be before it, on a machine several times slower.
pub(crate) const WAIT: Duration = Duration::from_secs(1800);
/// How long the test that killed a run has to clean up after it.
const CLEANED_UP_WITHIN: Duration = Duration::from_secs(60);

/// The machine to this test alone: swap is one for all, so a test that turns some on would take the pages of
/// another's. Held until dropped.
pub(crate) fn alone() -> Session {
    alone_as("a-test")
}

/// The same, under the name of a run.
///
/// A run that was killed leaves its devices without holding the machine. A test which took it then would see them
/// go in its middle, and take that for its own doing: so it stands back until the killer of that run has cleaned up.
pub(crate) fn alone_as(run: &str) -> Session {
    let mut dead_since = None;
    loop {
        let session = Session::open(run, &["test".to_owned()], Some(WAIT), &AtomicBool::new(false))
            .expect("the machine within half an hour");
        let dead = session.dead_runs().expect("the journals");
        if dead.is_empty() || dead_since.get_or_insert_with(Instant::now).elapsed() > CLEANED_UP_WITHIN {
            return session;
        }
        drop(session);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Settings of an environment for a test: a cgroup of `limit` bytes, and `swap_size` bytes of swap on `subject` for the
/// rest of `size` bytes. Swap files are in a folder on a disk.
pub(crate) fn settings(subject: &str, size: u64, limit: u64, swap_size: u64) -> Settings {
    Settings {
        workload: Workload::Compression(Compression {
            filling: Filling {
                class: FillClass::Random,
                size,
                hold: 0.0,
                thp: ThpMode::Never,
                memory: Backing::Anonymous,
                threads: 1,
            },
            request: size,
            trim: TrimMechanism::Cgroup,
        }),
        subject: subject.parse().expect("a subject"),
        limit,
        swap_size,
        swappiness: None,
        page_cluster: None,
        zswap_pool_percent: None,
        // The system's own folder for temporary files is often in memory.
        swap_dir: env!("CARGO_TARGET_TMPDIR").into(),
        background: None,
        phase_timeout: 60.0,
    }
}

/// Asks for another size of a trial that fills memory.
pub(crate) fn set_size(settings: &mut Settings, bytes: u64) {
    match &mut settings.workload {
        Workload::Compression(compression) => compression.filling.size = bytes,
        Workload::Map(map) => map.size = bytes,
        other => panic!("{other:?} has no size of its own"),
    }
}
