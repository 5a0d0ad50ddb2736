//! The events of a recording without those of killed workers.

use std::collections::HashSet;

use super::Recording;
use super::model::{Event, EventKind};

impl Recording {
    /// The events without the phase starts of a worker that another replaced in the same trial: a numbered phase that
    /// starts twice in a trial counts from its last start.
    pub fn current_events(&self) -> Vec<&Event> {
        current(&self.events)
    }
}

fn current(events: &[Event]) -> Vec<&Event> {
    let mut started = HashSet::new();
    let mut current: Vec<&Event> = Vec::with_capacity(events.len());
    for event in events.iter().rev() {
        match event.kind {
            // A resumed run starts an interrupted trial again; both parts keep their phases.
            EventKind::TrialStart => started.clear(),
            EventKind::PhaseStart
                if event.number.is_some() && !started.insert((&event.trial, &event.phase)) =>
            {
                continue;
            }
            _ => {}
        }
        current.push(event);
    }
    current.reverse();
    current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_phase_counts_from_its_last_start() {
        let event = |t_ns, kind, number, phase: &str| Event {
            trial: Some("1".to_owned()),
            phase: Some(phase.to_owned()),
            number,
            ..Event::new(t_ns, kind, "")
        };
        let events = [
            event(1, EventKind::TrialStart, None, ""),
            event(2, EventKind::PhaseStart, Some(1), "fill"),
            event(3, EventKind::TrialStart, None, ""),
            event(4, EventKind::PhaseStart, Some(1), "fill"),
            event(5, EventKind::PhaseStart, Some(3), "capped"),
            event(6, EventKind::PhaseEnd, Some(3), "capped"),
            event(7, EventKind::PhaseStart, Some(1), "fill"),
            event(8, EventKind::PhaseStart, Some(3), "capped"),
            event(9, EventKind::PhaseStart, None, "load 1"),
            event(10, EventKind::PhaseStart, None, "load 1"),
        ];
        let times: Vec<u64> = current(&events).into_iter().map(|event| event.t_ns).collect();
        assert_eq!(times, [1, 2, 3, 6, 7, 8, 9, 10]);
    }
}
