//! The controller against a model of a program with a working set.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
const PAGE_4K: u64 = 4096;
const TICK: Duration = Duration::from_millis(250);
const INTERVAL: Duration = Duration::from_secs(1);
const TARGET: f64 = 0.001;
/// Time that a task waits for a page that comes back.
const FAULT: Duration = Duration::from_micros(50);

fn settings() -> Settings {
    Settings {
        target: TARGET,
        interval: INTERVAL,
        floor: 0,
        ceiling: None,
    }
}

/// A program that touched some bytes once and uses `hot` bytes again and again.
#[derive(Debug, Clone)]
struct Program {
    hot: u64,
    /// Pages that it uses in a second.
    accesses: f64,
    /// Whether it goes through its pages in a circle: below its working set each use then faults, as reclaim takes the
    /// page that is used next.
    circular: bool,
    resident_hot: u64,
    resident_cold: u64,
    cap: u64,
    now: Duration,
    stalled: Duration,
    refaulted: u64,
}

impl Program {
    fn new(hot: u64, cold: u64, accesses: f64, circular: bool) -> Program {
        Program {
            hot,
            accesses,
            circular,
            resident_hot: hot,
            resident_cold: cold,
            cap: u64::MAX,
            now: Duration::ZERO,
            stalled: Duration::ZERO,
            refaulted: 0,
        }
    }

    fn usage(&self) -> u64 {
        self.resident_hot + self.resident_cold
    }

    /// Reclaims down to the cap: cold pages go first.
    fn reclaim(&mut self) {
        let over = self.usage().saturating_sub(self.cap);
        let cold = over.min(self.resident_cold);
        self.resident_cold -= cold;
        self.resident_hot -= over - cold;
    }

    fn tick(&mut self) {
        self.now += TICK;
        let used = self.accesses * TICK.as_secs_f64();
        let missing = self.hot.saturating_sub(self.resident_hot);
        if missing > 0 {
            let share = match self.circular {
                true => 1.0,
                false => missing as f64 / self.hot as f64,
            };
            // A task cannot wait for longer than the tick.
            let most = TICK.as_secs_f64() / FAULT.as_secs_f64();
            let faults = (used * share).min(most);
            self.stalled += FAULT.mul_f64(faults);
            self.refaulted += faults as u64 * PAGE_4K;
            self.resident_hot += (faults as u64 * PAGE_4K).min(missing);
            self.reclaim();
        }
    }

    fn reading(&self) -> Reading {
        Reading {
            at: self.now,
            usage: self.usage(),
            stalled: self.stalled,
            refaulted: self.refaulted,
            unreclaimable: 0,
            waiting: false,
        }
    }

    fn obey(&mut self, order: Order, controller: &mut Controller) {
        match order {
            Order::Keep => return,
            Order::Cap(bytes) => {
                self.cap = bytes;
                controller.applied(Some(bytes));
            }
            Order::Lift => {
                self.cap = u64::MAX;
                controller.applied(None);
            }
        }
        self.reclaim();
    }
}

/// One tick of a [`run`].
struct Seen {
    order: Order,
    cap: u64,
    usage: u64,
    bound: Option<ServiceBound>,
}

fn run(program: &mut Program, controller: &mut Controller, ticks: u32) -> Vec<Seen> {
    let tick = |_| {
        program.tick();
        let order = controller.take(program.reading());
        program.obey(order, controller);
        Seen {
            order,
            cap: program.cap,
            usage: program.usage(),
            bound: controller.bound(),
        }
    };
    (0..ticks).map(tick).collect()
}

/// The longest stretch of ticks that fulfil a condition.
fn longest(seen: &[Seen], holds: impl Fn(&Seen) -> bool) -> usize {
    let stretches = seen.split(|one| !holds(one));
    stretches.map(<[Seen]>::len).max().unwrap_or(0)
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

proptest! {
    #[test]
    fn the_cap_finds_the_working_set_and_is_never_long_below_it(
        hot in 16u64..2048,
        cold_times in 0.0..8.0f64,
        accesses in 2000.0..1e6f64,
        circular: bool,
    ) {
        let hot = hot * MIB;
        let cold = (hot as f64 * cold_times) as u64;
        let mut program = Program::new(hot, cold, accesses, circular);
        let mut controller = Controller::new(settings());
        // Each step is at most 4% or 64 MiB.
        let descent = 4 * (150 + cold / MOST_BYTES) as u32;
        let seen = run(&mut program, &mut controller, descent);
        prop_assert_eq!(controller.bound(), Some(ServiceBound::Pressure));
        let below = |one: &Seen| one.cap < hot / 100 * 95;
        prop_assert!(longest(&seen, below) <= 8, "two intervals");
        let held = run(&mut program, &mut controller, 4 * 300);
        prop_assert!(longest(&held, below) <= 8, "two intervals");
        let sets: Vec<u64> = held
            .iter()
            .filter(|one| one.bound == Some(ServiceBound::Pressure))
            .map(|one| one.usage.min(one.cap))
            .collect();
        prop_assert!(sets.len() > 4 * 200, "held for {} ticks", sets.len());
        let middle = median(sets);
        prop_assert!(middle.abs_diff(hot) <= hot / 20, "{middle} of {hot}");
    }

    /// The working set grows: the service has its memory again before the next tick ends.
    #[test]
    fn a_spike_lifts_the_cap_at_once(
        hot in 64u64..1024,
        growth in 1.2..4.0f64,
        circular: bool,
    ) {
        let hot = hot * MIB;
        let mut program = Program::new(hot, hot, 100_000.0, circular);
        let mut controller = Controller::new(settings());
        run(&mut program, &mut controller, 4 * 150);
        prop_assert_eq!(controller.bound(), Some(ServiceBound::Pressure));
        // Once it is not lifted already.
        for _ in 0..400 {
            if program.cap != u64::MAX {
                break;
            }
            run(&mut program, &mut controller, 1);
        }
        program.hot = (hot as f64 * growth) as u64;
        let seen = run(&mut program, &mut controller, 1);
        prop_assert_eq!(seen[0].order, Order::Lift);
        // The new working set is found after any old one.
        run(&mut program, &mut controller, 4 * 120);
        let seen = run(&mut program, &mut controller, 4 * 100);
        let middle = median(seen.iter().map(|one| one.usage.min(one.cap)).collect());
        prop_assert!(middle.abs_diff(program.hot) <= program.hot / 20, "{middle} of {}", program.hot);
    }

    /// A working set that shrinks is found too.
    #[test]
    fn the_cap_follows_a_working_set_that_shrinks(hot in 64u64..1024, left in 0.2..0.8f64) {
        let hot = hot * MIB;
        let mut program = Program::new(hot, 0, 100_000.0, false);
        let mut controller = Controller::new(settings());
        run(&mut program, &mut controller, 4 * 100);
        let small = (hot as f64 * left) as u64;
        program.resident_cold = program.resident_hot.saturating_sub(small);
        program.resident_hot = program.resident_hot.min(small);
        program.hot = small;
        run(&mut program, &mut controller, 4 * (MOST_HOLD + 100));
        let seen = run(&mut program, &mut controller, 4 * 100);
        let middle = median(seen.iter().map(|one| one.usage.min(one.cap)).collect());
        prop_assert!(middle.abs_diff(small) <= small / 20, "{middle} of {small}");
    }

    #[test]
    fn any_readings_keep_the_cap_within_its_bounds(
        floor in 0u64..1 << 34,
        ceiling in proptest::option::of(0u64..1 << 34),
        readings in prop::collection::vec(
            (0u64..3_000, any::<u64>(), any::<u32>(), any::<u64>(), 0u64..1 << 34, any::<bool>()), 1..200),
    ) {
        let mut controller = Controller::new(Settings { floor, ceiling, ..settings() });
        for (at, usage, stalled, refaulted, unreclaimable, refused) in readings {
            let reading = Reading {
                at: Duration::from_millis(at),
                usage,
                stalled: Duration::from_micros(stalled.into()),
                refaulted,
                unreclaimable,
                waiting: false,
            };
            match controller.take(reading) {
                Order::Cap(bytes) => {
                    prop_assert!(bytes >= floor.max(LEAST) && bytes % PAGE == 0);
                    prop_assert!(ceiling.is_none_or(|ceiling| bytes < ceiling));
                    controller.applied((!refused).then_some(bytes));
                }
                Order::Lift => controller.applied(None),
                Order::Keep => {}
            }
        }
    }
}

/// The floor stops the descent: the working set may be smaller.
#[test]
fn the_floor_is_a_bound_of_its_own() {
    let mut program = Program::new(16 * MIB, 256 * MIB, 10_000.0, false);
    let mut controller = Controller::new(Settings {
        floor: 100 * MIB,
        ..settings()
    });
    let seen = run(&mut program, &mut controller, 4 * 200);
    assert_eq!(controller.bound(), Some(ServiceBound::Floor));
    assert_eq!(seen.iter().map(|one| one.cap).min(), Some(100 * MIB));
}

/// Locked memory, or a full swap device: each order brings nothing, and the controller gives up for a while.
#[test]
fn a_kernel_that_reclaims_nothing_is_a_bound() {
    let program = Program::new(256 * MIB, 0, 0.0, false);
    let mut controller = Controller::new(settings());
    let mut orders = 0;
    for second in 0..10u32 {
        let reading = Reading {
            at: INTERVAL * second,
            ..program.reading()
        };
        if controller.take(reading) != Order::Keep {
            orders += 1;
            controller.applied(None);
        }
    }
    assert_eq!(
        (orders, controller.bound()),
        (FRUITLESS, Some(ServiceBound::Unreclaimable))
    );
}

/// The stall of a task that waits at the cap is counted only at its end: its state tells earlier.
#[test]
fn a_task_that_waits_at_the_cap_lifts_it_at_once() {
    let mut controller = Controller::new(settings());
    let mut program = Program::new(512 * MIB, 512 * MIB, 100.0, false);
    run(&mut program, &mut controller, 20);
    assert!(program.cap < u64::MAX);
    program.now += Duration::from_millis(1);
    let waiting = Reading {
        waiting: true,
        ..program.reading()
    };
    assert_eq!(controller.take(waiting), Order::Lift);
    controller.applied(None);
    program.now += INTERVAL;
    assert_eq!(controller.take(program.reading()), Order::Keep);
    let seen = {
        program.cap = u64::MAX;
        run(&mut program, &mut controller, 40)
    };
    assert!(
        seen.iter().any(|one| one.bound == Some(ServiceBound::Pressure)),
        "a wait is pressure"
    );
}

/// Memory that becomes unreclaimable, as swap fills, raises the cap: a lower one would invoke the OOM killer.
#[test]
fn the_cap_rises_with_the_memory_that_cannot_be_reclaimed() {
    let mut controller = Controller::new(settings());
    let reading = |second: u32, unreclaimable: u64| Reading {
        at: INTERVAL * second,
        usage: 256 * MIB,
        unreclaimable,
        ..Reading::default()
    };
    let mut last = None;
    for second in 0..10 {
        if let Order::Cap(bytes) = controller.take(reading(second, 0)) {
            last = Some(bytes);
            controller.applied(last);
        }
    }
    assert!(last.is_some_and(|cap| cap < 250 * MIB));
    assert_eq!(controller.take(reading(10, 255 * MIB)), Order::Cap(255 * MIB));
}

#[test]
fn a_cap_of_the_users_own_is_never_exceeded() {
    let mut program = Program::new(128 * MIB, 128 * MIB, 100_000.0, false);
    let ceiling = 200 * MIB;
    program.cap = ceiling;
    program.reclaim();
    let mut controller = Controller::new(Settings {
        ceiling: Some(ceiling),
        ..settings()
    });
    for _ in 0..4 * 300 {
        program.tick();
        let order = controller.take(program.reading());
        assert!(
            !matches!(order, Order::Cap(bytes) if bytes >= ceiling),
            "{order:?}"
        );
        program.obey(order, &mut controller);
        program.cap = program.cap.min(ceiling);
    }
    assert_eq!(controller.bound(), Some(ServiceBound::Pressure));
}

/// The pressure of this program stayed between half of the target and the target: the cap stayed too, without a bound for
/// ever, and the sizing had no result.
#[test]
fn a_pressure_near_the_target_is_a_bound() {
    let hot = 952 * MIB;
    let mut program = Program::new(hot, hot, 100_000.0, false);
    let mut controller = Controller::new(settings());
    run(&mut program, &mut controller, 4 * 150);
    assert_eq!(controller.bound(), Some(ServiceBound::Pressure));
}
