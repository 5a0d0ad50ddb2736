//! The controller over arbitrary counters, and over loads that respond to its measures.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000;
const RULES: [ThrashControl; 7] = [
    ThrashControl::Off,
    ThrashControl::On,
    ThrashControl::Fixed(ThrashStep::Calm),
    ThrashControl::Fixed(ThrashStep::Thrashing),
    ThrashControl::Fixed(ThrashStep::GrownStandby),
    ThrashControl::Fixed(ThrashStep::NoReadAhead),
    ThrashControl::Fixed(ThrashStep::Throttle),
];

fn census(faults: &[(usize, u64)]) -> Census {
    let mut census = Census::default();
    census.faults[..faults.len()].copy_from_slice(faults);
    census
}

/// A quarter of a second of two threads that thrash: `lost` percent of the time of a CPU, and faults of each.
fn thrashing(lost: u64, faults: [u64; 2]) -> Interval {
    let us = SECOND / 4;
    Interval {
        us,
        stall_us: us * lost / 100,
        hard_faults: 10_000,
        refaults: 10_000,
        near: 8000,
        stream_pages: 100,
        census: census(&[(1, faults[0]), (2, faults[1])]),
        can_act: true,
        ..Interval::default()
    }
}

fn quiet() -> Interval {
    Interval {
        us: SECOND / 4,
        can_act: true,
        ..Interval::default()
    }
}

/// Any counters, from those of a calm pager to those of a damaged one.
fn interval() -> impl Strategy<Value = Interval> {
    let counter = prop_oneof![0..5_u64, 0..1_000_000_u64, any::<u64>()];
    let threads = vec((1..6_usize, 0..5000_u64), 0..5);
    (vec(counter, 7), threads, any::<bool>(), 0..20_u64).prop_map(|(counters, threads, can_act, heavy)| {
        let [
            us,
            stall_us,
            throttled_us,
            balancer_us,
            soft_faults,
            hard_faults,
            refaults,
        ] = counters.try_into().expect("seven counters");
        let mut threads: Vec<(usize, u64)> = threads;
        threads.sort_unstable();
        threads.dedup_by_key(|(thread, _)| *thread);
        let any = Interval {
            us,
            stall_us,
            throttled_us,
            balancer_us,
            soft_faults,
            hard_faults,
            stream_pages: hard_faults % 2,
            refaults,
            near: refaults / 2,
            census: census(&threads),
            can_act,
        };
        // Mostly thrashing, so that all states are reached.
        match heavy {
            0 => any,
            heavy => Interval {
                census: any.census,
                ..thrashing(heavy * 10, [0, 0])
            },
        }
    })
}

proptest! {
    #[test]
    fn measures_are_bounded_and_end_with_the_stalls(
        rule in proptest::sample::select(RULES.to_vec()),
        intervals in vec(interval(), 0..600),
    ) {
        let mut controller = Controller::new(rule);
        let mut trials = 0;
        for interval in &intervals {
            let decision = controller.tick(interval);
            let measures = decision.measures;
            prop_assert!(u64::from(measures.standby) < Measures::STANDBY_PARTS / 2);
            if let Some(throttle) = measures.throttle {
                prop_assert!((1..=MOST_DELAY_US).contains(&throttle.delay_us));
                let (own, all) = (interval.census.of(throttle.thread), interval.census.all());
                prop_assert!(own > 0 && all > own, "the only faulting thread waits");
            }
            if rule == ThrashControl::Off || !interval.can_act {
                prop_assert_eq!(measures, Measures::default());
            }
            prop_assert!(decision.kept <= decision.trials && decision.trials <= trials + 1);
            trials = decision.trials;
        }
        prop_assert!(rule == ThrashControl::On || trials == 0);
        for _ in 0..QUIET_INTERVALS {
            controller.tick(&quiet());
        }
        let decision = controller.tick(&quiet());
        if !matches!(rule, ThrashControl::Fixed(_)) {
            prop_assert_eq!(decision.measures, Measures::default());
            prop_assert!(decision.step == ThrashStep::Calm && !decision.is_at_work);
        }
    }

    /// A load on which each measure has an effect of its own, in per mille of the time lost; those of throttles are on the
    /// faults of the other thread. Counters scatter by 1 % at most.
    #[test]
    fn the_measures_that_help_are_kept_and_no_others(
        standby in prop_oneof![Just(800_u64), Just(1000), Just(1200)],
        no_read_ahead in prop_oneof![Just(850_u64), Just(1000), Just(1150)],
        throttles in [prop_oneof![Just(500_u64), Just(900), Just(1500)], prop_oneof![Just(500_u64), Just(900), Just(1500)]],
        scatter in vec(0..10_u64, 64),
    ) {
        let mut controller = Controller::new(ThrashControl::On);
        let mut scatter = scatter.into_iter().cycle();
        let mut load = |measures: &Measures| {
            let mut lost = 150_000;
            if measures.standby > 0 {
                lost = lost * standby / 1000;
            }
            if measures.no_read_ahead {
                lost = lost * no_read_ahead / 1000;
            }
            let mut faults = [6000, 4000];
            if let Some(throttle) = measures.throttle {
                faults[2 - throttle.thread] = faults[2 - throttle.thread] * throttles[throttle.thread - 1] / 1000;
            }
            let mut noisy = |value: u64| value * (1000 + scatter.next().unwrap_or(0)) / 1000;
            let faults = faults.map(&mut noisy);
            Interval { stall_us: noisy(lost), ..thrashing(0, faults) }
        };
        let mut decision = Decision::default();
        let mut seen = [false; 2];
        // All trials end; then a hold begins, in which each throttle has its turn.
        let mut intervals = 0;
        while !matches!(controller.state, State::Hold { .. }) {
            decision = controller.tick(&load(&decision.measures));
            intervals += 1;
            prop_assert!(intervals < 120, "{:?}", controller.state);
        }
        for _ in 0..2 * TURN {
            decision = controller.tick(&load(&decision.measures));
            if let Some(throttle) = decision.measures.throttle {
                seen[throttle.thread - 1] = true;
            }
        }
        prop_assert!(matches!(controller.state, State::Hold { .. }), "{:?}", controller.state);
        prop_assert_eq!(decision.measures.standby > 0, standby < 1000);
        prop_assert_eq!(decision.measures.no_read_ahead, no_read_ahead < 1000);
        prop_assert_eq!(seen, throttles.map(|effect| effect == 500));
    }

    /// A load that becomes lighter or heavier by itself is no success of a measure.
    #[test]
    fn a_load_that_changes_by_itself_keeps_nothing(percent in prop_oneof![80..97_u64, 104..130_u64]) {
        let mut controller = Controller::new(ThrashControl::On);
        let mut level = match percent < 100 { true => 1_000_000_000_u64, false => 60_000 };
        for _ in 0..100 {
            let faults = [level / 20, level / 10];
            let interval = Interval { stall_us: level, ..thrashing(0, faults) };
            if level > SECOND / 10 {
                prop_assert_eq!(controller.tick(&interval).kept, 0);
            }
            level = (level * percent / 100).min(1 << 40);
        }
        prop_assert!(controller.trials > 0);
    }
}

#[test]
fn thrashing_is_seen_without_control_and_scans_of_much_memory_are_none() {
    let mut controller = Controller::new(ThrashControl::Off);
    let steps: Vec<ThrashStep> = (0..THRASHING_INTERVALS)
        .map(|_| controller.tick(&thrashing(90, [500, 500])).step)
        .collect();
    assert_eq!(
        steps,
        [
            ThrashStep::Calm,
            ThrashStep::Calm,
            ThrashStep::Calm,
            ThrashStep::Thrashing
        ]
    );
    let mut controller = Controller::new(ThrashControl::Off);
    for _ in 0..100 {
        let far = Interval {
            near: 1000,
            ..thrashing(90, [500, 500])
        };
        let rare = Interval {
            refaults: 100,
            near: 100,
            ..thrashing(90, [500, 500])
        };
        let short = thrashing(10, [500, 500]);
        for interval in [far, rare, short] {
            assert_eq!(controller.tick(&interval).step, ThrashStep::Calm, "{interval:?}");
        }
    }
}

#[test]
fn the_measures_that_were_kept_survive_a_short_calm_and_are_tried_again_after_a_long_one() {
    // The standby share helps.
    let load = |measures: &Measures| thrashing(if measures.standby > 0 { 60 } else { 80 }, [500, 500]);
    let mut controller = Controller::new(ThrashControl::On);
    let mut decision = Decision::default();
    for _ in 0..100 {
        decision = controller.tick(&load(&decision.measures));
    }
    let (held, trials) = (decision.measures, decision.trials);
    assert!(held.standby > 0 && decision.step == ThrashStep::GrownStandby);
    for calm in [QUIET_INTERVALS, 10 * LONGEST_HOLD] {
        for _ in 0..calm {
            decision = controller.tick(&quiet());
        }
        assert_eq!(
            (decision.step, decision.measures),
            (ThrashStep::Calm, Measures::default())
        );
        for _ in 0..THRASHING_INTERVALS {
            decision = controller.tick(&thrashing(80, [500, 500]));
        }
        let is_held = calm == QUIET_INTERVALS;
        assert_eq!(decision.measures == held, is_held, "after {calm}");
        assert_eq!(decision.trials, trials);
    }
    assert_eq!(decision.step, ThrashStep::Thrashing);
}

#[test]
fn trials_become_rare_while_nothing_helps() {
    let mut controller = Controller::new(ThrashControl::On);
    let interval = thrashing(80, [500, 500]);
    // An hour.
    let on_trial = (0..4 * 3600).filter(|_| controller.tick(&interval).measures != Measures::default());
    let on_trial = on_trial.count();
    assert!(
        (1..4 * 3600 / 50).contains(&on_trial),
        "{on_trial} intervals with a measure in force"
    );
    assert_eq!(controller.successes, 0);
}

#[test]
fn alike_threads_take_turns_if_the_throttle_of_one_helps() {
    for (faults, both) in [([5000, 4500], true), ([9000, 3000], false)] {
        let load = |measures: &Measures| {
            let faults = match measures.throttle.map(|throttle| throttle.thread) {
                // The throttle of the second thread alone does not help.
                Some(1) => [faults[0], faults[1] / 2],
                _ => faults,
            };
            thrashing(80, faults)
        };
        let mut controller = Controller::new(ThrashControl::On);
        let mut decision = Decision::default();
        while !matches!(controller.state, State::Hold { .. }) {
            decision = controller.tick(&load(&decision.measures));
        }
        let mut intervals = [0; 2];
        for _ in 0..4 * TURN {
            decision = controller.tick(&load(&decision.measures));
            let throttle = decision.measures.throttle.expect("one is in force");
            intervals[throttle.thread - 1] += 1;
        }
        let expected = if both { [2 * TURN, 2 * TURN] } else { [4 * TURN, 0] };
        assert_eq!(intervals, expected, "{faults:?}");
    }
}

#[test]
fn a_measure_that_can_change_nothing_is_not_tried() {
    let mut controller = Controller::new(ThrashControl::On);
    let interval = Interval {
        stream_pages: 0,
        ..thrashing(80, [500, 0])
    };
    let mut steps: Vec<ThrashStep> = (0..200).map(|_| controller.tick(&interval).step).collect();
    steps.dedup();
    assert_eq!(
        steps[..3],
        [ThrashStep::Calm, ThrashStep::Thrashing, ThrashStep::GrownStandby]
    );
    // No stream, and no other thread.
    assert!(
        steps.iter().all(|step| *step <= ThrashStep::GrownStandby),
        "{steps:?}"
    );
}

#[test]
fn the_throttle_leaves_a_thread_that_no_longer_faults_and_one_that_faults_alone() {
    let mut controller = Controller::new(ThrashControl::Fixed(ThrashStep::Throttle));
    let throttled = |controller: &mut Controller, faults| {
        let decision = controller.tick(&thrashing(90, faults));
        decision.measures.throttle.map(|throttle| throttle.thread)
    };
    assert_eq!(throttled(&mut controller, [500, 900]), Some(2));
    // It is delayed, and has fewer faults now.
    assert_eq!(throttled(&mut controller, [500, 100]), Some(2));
    assert_eq!(throttled(&mut controller, [500, 0]), None);
    assert_eq!(throttled(&mut controller, [0, 900]), None);
    assert_eq!(throttled(&mut controller, [500, 100]), Some(1));
}
