//! The sampling thread does not allocate on a tick, with a target that has a pager. Alone in its program, since it replaces the
//! allocator. The target is this program again, which holds a pager until its standard input ends.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_model::columns::col;
use plimsoll_pager::Pager;
use plimsoll_sample::{HeldPost, Sampler, SamplerConfig, Target, monotonic_ns};

/// Counts allocations and frees of the sampling thread. The search for pagers, when a target is set, has threads that allocate.
struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);
/// The sampling thread's id; 0 before it is known.
static SAMPLER: AtomicI32 = AtomicI32::new(0);

fn count() {
    if SAMPLER.load(Ordering::Relaxed) == rustix::thread::gettid().as_raw_nonzero().get() {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
}

/// The id of the thread of this process with a name.
fn thread_of(name: &str) -> i32 {
    let threads = std::fs::read_dir("/proc/self/task").expect("the threads are listed");
    let ids = threads.map(|entry| {
        entry
            .expect("a thread")
            .file_name()
            .into_string()
            .expect("a number")
    });
    let mut named = ids.filter(|id| {
        std::fs::read_to_string(format!("/proc/self/task/{id}/comm")).is_ok_and(|found| found.trim() == name)
    });
    let id = named.next().expect("the thread runs");
    id.parse().expect("a number")
}

#[allow(unsafe_code)]
// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Argument that has this program hold a pager.
const HOLD: &str = "hold-a-pager";
const BUDGET: u64 = 8 << 20;

fn hold_a_pager() {
    let pager = Pager::builder().ram(BUDGET).build().expect("userfaultfd");
    let mut region = pager.map(12 << 20).expect("addresses");
    region.bytes_mut().fill(3);
    println!("held");
    std::io::stdout().flush().expect("the test reads");
    let _ = std::io::stdin().read(&mut [0]);
}

/// The target, when its pager is there.
fn started_target() -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = plimsoll_testkit::command(program);
    command.arg(HOLD).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut target = command.spawn().expect("this program starts");
    assert_eq!(plimsoll_testkit::next_line(&mut target), "held");
    target
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some(HOLD) {
        return hold_a_pager();
    }
    let mut holder = started_target();
    let (sampler, batches) = Sampler::start(SamplerConfig::by_the_second(100, monotonic_ns()))
        .expect("a sampler needs nothing but /proc/meminfo");
    let target = Target {
        workers: vec![std::process::id(), holder.id()],
        held: Some(HeldPost::default()),
        ..Target::default()
    };
    // The thread's start allocates; its first ticks are over when the second batch has come.
    let started: usize = batches.iter().take(2).map(|batch| batch.rows().len()).sum();
    SAMPLER.store(thread_of("sampler"), Ordering::Relaxed);
    for _ in 0..40 {
        sampler.set_target(Some(&target));
        std::thread::sleep(Duration::from_millis(50));
        sampler.set_target(None);
    }
    let calls = CALLS.load(Ordering::Relaxed);
    let locked = sampler.locked().map_err(ToString::to_string);
    let report = sampler.stop();
    let (mut taken, mut with_pager) = (0, 0);
    for batch in batches.iter() {
        let budgets = batch.rows().iter().map(|row| row.get(col::TARGET_PAGER_BUDGET));
        with_pager += budgets.filter(|budget| *budget == Some(BUDGET as i64)).count();
        taken += batch.rows().len();
    }
    drop(holder.stdin.take());
    holder.wait().expect("it ends with its input");
    assert_eq!(
        calls, 0,
        "{calls} calls of the allocator in 2 s of ticks: {report:?}"
    );
    assert!(taken + started > 100, "{taken} rows after {started}");
    assert!(with_pager > 20, "{with_pager} of {taken} rows have the pager");
    assert!(CALLS.load(Ordering::Relaxed) > 0, "the counter counts");
    println!("no allocation in {taken} samples; memory locked: {locked:?}");
}
