//! Tests of the course of a guard.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
const THRASHES: Pressure = Pressure {
    stalled: 0.9,
    refaults_per_s: 9000.0,
};

fn id(pid: u32) -> ProcessId {
    ProcessId { pid, start_ticks: 1 }
}

fn look(pids: impl IntoIterator<Item = u32>, user_us: u64) -> Look {
    let candidates = pids.into_iter().map(|pid| Candidate {
        id: id(pid),
        demand: 100 * MIB,
        resident: 50 * MIB,
        user_us,
        cpu_us: user_us,
        faults: user_us,
        oom_adjustment: 0,
        // One in four has none.
        group: Some(GroupId::from(pid % 4)).filter(|group| *group > 0),
    });
    let candidates: Vec<Candidate> = candidates.collect();
    Look {
        groups: candidates.iter().filter_map(|one| one.group).collect(),
        candidates,
        ..Look::default()
    }
}

/// A machine whose processes do useful work only when few of them run.
struct Model {
    course: Course,
    second: u64,
    user_us: u64,
    /// Work of a second while all run, and while some are stopped.
    work: (u64, u64),
    events: Vec<Event>,
    most_stopped: usize,
}

impl Model {
    fn new(policy: GuardPolicy, work: (u64, u64)) -> Model {
        Model {
            course: Course::new(policy, false),
            second: 0,
            user_us: 0,
            work,
            events: Vec::new(),
            most_stopped: 0,
        }
    }

    fn seconds(&mut self, seconds: u64, pids: std::ops::Range<u32>) {
        for _ in 0..seconds {
            self.second += 1;
            let at = Duration::from_secs(self.second);
            let (pressure, work) = match self.course.stopped.is_empty() {
                true => (THRASHES, self.work.0),
                false => (Pressure::default(), self.work.1),
            };
            self.user_us += work;
            self.events.extend(self.course.feel(at, pressure));
            if self.course.needs_look() {
                let look = look(pids.clone(), self.user_us);
                let decided = self.course.decide(at, 220 * MIB, &look);
                self.events.extend(decided.events);
            }
            self.most_stopped = self.most_stopped.max(self.course.stopped.len());
        }
    }

    fn has(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(wanted)
    }
}

#[test]
fn a_policy_that_helps_stays_until_the_processes_fit() {
    let mut model = Model::new(GuardPolicy::Relay, (10_000, 50_000));
    model.seconds(120, 1..6);
    assert_eq!(model.course.stopped.len(), 3);
    assert!(model.has(|event| matches!(event, Event::Judged { helps: true, .. })));
    assert!(!model.has(|event| matches!(event, Event::Judged { helps: false, .. })));
    model.seconds(1, 1..3);
    assert!(model.course.stopped.is_empty() && model.course.is_calm());
}

#[test]
fn a_policy_that_does_not_help_is_lifted_for_ever_longer() {
    let mut model = Model::new(GuardPolicy::Relay, (50_000, 40_000));
    model.seconds(600, 1..6);
    let rests: Vec<f64> = model
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Resting { seconds } => Some(*seconds),
            _ => None,
        })
        .collect();
    assert_eq!(rests[..4], [30.0, 60.0, 120.0, 240.0]);
    assert_eq!(model.most_stopped, 3);
}

/// No order can make a single process, or processes that fit, faster.
#[test]
fn a_process_alone_is_left_alone() {
    for pids in [1..2, 1..3] {
        let mut model = Model::new(GuardPolicy::Relay, (10_000, 50_000));
        model.seconds(100, pids);
        assert_eq!(model.most_stopped, 0);
        assert!(model.has(|event| matches!(event, Event::Unfit { .. })));
    }
}

/// The guard looked at the processes each second for as long as the pressure lasted, and told nothing.
#[test]
fn a_scope_without_candidates_is_told_and_looked_at_seldom() {
    let mut model = Model::new(GuardPolicy::Relay, (0, 0));
    model.seconds(60, 1..1);
    let none = |event: &Event| matches!(event, Event::Unfit { candidates: 0, .. });
    assert_eq!(model.events.iter().filter(|event| none(event)).count(), 2);
    assert!(model.has(|event| matches!(event, Event::Resting { seconds: 30.0 })));
}

#[test]
fn thrashing_that_ends_by_itself_is_calm_again() {
    let mut course = Course::new(GuardPolicy::Relay, false);
    let mut at = Duration::ZERO;
    let mut feel = |course: &mut Course, pressure, seconds| {
        let mut events = Vec::new();
        for _ in 0..seconds {
            at += Duration::from_secs(1);
            events.extend(course.feel(at, pressure));
        }
        events
    };
    assert!(matches!(
        feel(&mut course, THRASHES, 4)[..],
        [Event::Thrashing { .. }]
    ));
    assert!(course.needs_look());
    assert_eq!(feel(&mut course, Pressure::default(), 11), [Event::Calm]);
    assert!(course.is_calm() && !course.needs_look());
}

/// A dry run carries nothing out: it tells the first orders of each try, and is calm when the thrashing ends.
#[test]
fn a_dry_run_stops_nothing_and_becomes_calm() {
    let mut course = Course::new(GuardPolicy::Relay, true);
    let mut orders = 0;
    let mut calm = false;
    for second in 0..40 {
        let at = Duration::from_secs(second);
        let pressure = match second < 20 {
            true => THRASHES,
            false => Pressure::default(),
        };
        calm |= course.feel(at, pressure).contains(&Event::Calm);
        if course.needs_look() {
            orders += course.decide(at, 220 * MIB, &look(1..6, second)).orders.len();
        }
        assert!(course.stopped.is_empty());
    }
    assert_eq!(orders, 3);
    assert!(calm && course.is_calm());
}

fn policies() -> impl Strategy<Value = GuardPolicy> {
    prop::sample::select(GuardPolicy::ALL.to_vec())
}

proptest! {
    /// Any processes that come, grow and go, under any pressure: an order names a candidate of its look, each stop is of a
    /// running process and is followed by a continuation, and in the end all run.
    #[test]
    fn orders_name_candidates_and_each_stop_is_continued(
        policy in policies(),
        seconds in prop::collection::vec(
            (0..8u32, 1..8u32, 0..300u64, any::<bool>(), 0..90_000u64, 0..12u64),
            30..200,
        ),
    ) {
        let mut course = Course::new(policy, false);
        let mut stopped: BTreeSet<ProcessId> = BTreeSet::new();
        let mut throttled: BTreeSet<GroupId> = BTreeSet::new();
        let mut user_us = 0;
        for (second, (first, number, mib, presses, work, exempt)) in (0..).zip(seconds) {
            let at = Duration::from_secs(second);
            // Pressure that lasts, with breaks: else nothing would ever begin.
            let pressure = if presses || second % 60 < 50 { THRASHES } else { Pressure::default() };
            course.feel(at, pressure);
            user_us += work;
            if !course.needs_look() {
                prop_assert!(stopped.is_empty() && throttled.is_empty());
                continue;
            }
            let mut look = look(first..first + number, user_us);
            // An exempt process comes into a cgroup; another cgroup has only idle processes.
            look.groups.remove(&exempt);
            look.groups.insert(9);
            for (candidate, extra) in look.candidates.iter_mut().zip(0..) {
                candidate.demand += mib * extra * MIB;
            }
            for order in course.decide(at, 220 * MIB, &look).orders {
                let is_candidate = look.candidates.iter().any(|one| match order.target() {
                    Target::Process(process) => one.id == process,
                    Target::Group(group) => one.group == Some(group),
                });
                match order {
                    Order::Stop { process, .. } => prop_assert!(is_candidate && stopped.insert(process)),
                    Order::Continue { process, reason } => {
                        prop_assert!(stopped.remove(&process), "{process:?}");
                        prop_assert!(is_candidate || reason == Reason::Exempt);
                    }
                    Order::Throttle { group, .. } => {
                        prop_assert!(is_candidate);
                        throttled.insert(group);
                    }
                    Order::Unthrottle { group, reason } => {
                        prop_assert!(throttled.remove(&group), "{group}");
                        prop_assert!(is_candidate || reason == Reason::Exempt);
                    }
                    Order::Trim { .. } | Order::Kill { .. } => prop_assert!(is_candidate),
                }
            }
            prop_assert_eq!(&stopped, &course.stopped);
            prop_assert_eq!(&throttled, &course.throttled);
            let works = |one: &Candidate| {
                !stopped.contains(&one.id) && !one.group.is_some_and(|group| throttled.contains(&group))
            };
            prop_assert!(look.candidates.iter().any(works) || look.candidates.is_empty(), "one works always");
        }
        let mut decided = Decided::default();
        course.lift(Reason::Over, &mut decided);
        prop_assert_eq!(decided.orders.len(), stopped.len() + throttled.len());
    }
}
