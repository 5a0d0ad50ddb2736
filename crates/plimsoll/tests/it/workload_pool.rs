//! Workers whose pagers share the budget of a trial, as the kernel counts it.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use plimsoll_lab::workload::protocol::{Command, Placement, RefusalCode, Reply};
use plimsoll_lab::workload::{PagerBudget, PagerRequest, TrialPool, Worker, WorkerError, WorkerOptions};
use plimsoll_model::scenario::{FillClass, PagerOptions, ThpMode};
use plimsoll_pager::pool::{Limits, PoolError};

const EXE: &str = env!("CARGO_BIN_EXE_plimsoll");
const MINUTE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

const MEMBERS: usize = 6;
/// Bytes that each worker fills. All together fill twice the pool.
const SIZE: u64 = 16 * MIB;
const TOTAL: u64 = MEMBERS as u64 * SIZE / 2;

fn limits() -> Limits {
    Limits {
        minimum: 5 * MIB,
        ..Limits::default()
    }
}

fn fill(pool: &TrialPool, limits: Limits, seed: u64) -> Command {
    let options = PagerOptions::of_text("pager:lz4")
        .expect("a pager")
        .expect("options");
    Command::Fill {
        bytes: SIZE,
        request: SIZE,
        class: FillClass::Ratio(4.0),
        seed,
        thp: ThpMode::System,
        placement: Placement {
            pager: Some(PagerRequest {
                budget: PagerBudget::Pool(pool.request(limits)),
                bytes: SIZE,
                options,
                folder: "/var/tmp".into(),
            }),
            ..Placement::default()
        },
    }
}

fn call(worker: &mut Worker, command: &Command) -> Result<Reply, WorkerError> {
    worker.call(command, MINUTE, &AtomicBool::new(false))
}

/// Anonymous bytes of all workers in RAM, beside those that each had before its fill.
fn sum(workers: &[Worker], base: &[u64]) -> u64 {
    let resident = |worker: &Worker| worker.residency().expect("it lives").resident;
    let pairs = workers.iter().zip(base);
    pairs
        .map(|(worker, base)| resident(worker).saturating_sub(*base))
        .sum()
}

fn wait_for(what: &str, goal: impl Fn() -> bool) {
    let start = Instant::now();
    while !goal() {
        assert!(start.elapsed() < MINUTE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_workers_of_a_trial_share_its_budget() {
    if !crate::run::pager::has_userfaultfd() {
        return;
    }
    let pool = TrialPool::new(TOTAL).expect("there is memory");
    let spawn = |_| Worker::spawn(Path::new(EXE), &WorkerOptions::default()).expect("it starts");
    let mut workers: Vec<Worker> = (0..MEMBERS).map(spawn).collect();
    let base: Vec<u64> = workers
        .iter()
        .map(|worker| worker.residency().expect("it lives").resident)
        .collect();
    // Buffers of the workers themselves.
    let own = MEMBERS as u64 * MIB;
    let most = TOTAL / 100 * 102 + own;
    for (seed, worker) in (0..).zip(&mut workers) {
        let reply = call(worker, &fill(&pool, limits(), seed)).expect("it is filled");
        assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    }
    let status = pool.status().expect("it is whole");
    assert_eq!(status.members.len(), MEMBERS, "{status:#?}");
    assert!(status.members.iter().all(|member| member.minimum == 5 * MIB));
    assert!(
        sum(&workers, &base) <= most,
        "{} {status:#?}",
        sum(&workers, &base)
    );
    for at in 0..MEMBERS {
        let reply = call(&mut workers[at], &Command::Restore).expect("it is restored");
        let right = matches!(&reply, Reply::Done { verification: Some(found), .. } if found.holds() && found.bytes == SIZE);
        assert!(right, "{reply:?}");
        let held = sum(&workers, &base);
        assert!(held <= most, "{held} of {most} after {at}: {:#?}", pool.status());
    }
    // A member that is killed returns its share; one that releases its memory leaves.
    let killed = workers.pop().expect("there are several");
    killed.kill().expect("it is killed");
    call(&mut workers[0], &Command::Release).expect("it is released");
    wait_for("shares return", || {
        pool.status().expect("it is whole").members.len() == MEMBERS - 2
    });
    let reply = call(&mut workers[0], &fill(&pool, limits(), 9)).expect("it joins again");
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    drop(workers);
    let left = pool.status().expect("it is whole").members;
    assert!(left.iter().all(|member| member.has_ended), "{left:#?}");
}

/// The minima of all members must fit the pool: the worker says so, and goes on.
#[test]
fn a_worker_that_cannot_join_says_why() {
    if !crate::run::pager::has_userfaultfd() {
        return;
    }
    let pool = TrialPool::new(TOTAL).expect("there is memory");
    let mut worker = Worker::spawn(Path::new(EXE), &WorkerOptions::default()).expect("it starts");
    let greedy = Limits {
        minimum: TOTAL + MIB,
        ..Limits::default()
    };
    let error = call(&mut worker, &fill(&pool, greedy, 1)).expect_err("it does not fit");
    let cause = PoolError::LimitsOutOfOrder {
        minimum: TOTAL + MIB,
        maximum: TOTAL,
    };
    assert!(
        matches!(&error, WorkerError::Failed { code: RefusalCode::Pager, message } if message.contains(&cause.to_string())),
        "{error:?}"
    );
    call(&mut worker, &fill(&pool, limits(), 1)).expect("it goes on");
}
