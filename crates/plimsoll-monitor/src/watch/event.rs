//! Marks of the monitor as events of a recording, and back.

use super::state::{Mark, MarkKind};
use plimsoll_model::recording::WarningCode;
use plimsoll_model::recording::model::{Event, EventKind};
use plimsoll_model::sanitize::sanitize;

/// The recorded form of a mark.
pub(super) fn event_of(mark: &Mark) -> Event {
    let (kind, number) = match mark.kind {
        MarkKind::Number(number) => (EventKind::Mark, Some(number)),
        MarkKind::Note => (EventKind::Mark, None),
        MarkKind::Trim => (EventKind::Trim, None),
        MarkKind::Release => (EventKind::Release, None),
        MarkKind::Target => (EventKind::Target, None),
        MarkKind::PageFlags => (EventKind::PageFlags, None),
        MarkKind::FaultStorm | MarkKind::Event => (EventKind::Warning, None),
    };
    Event {
        number,
        code: (mark.kind == MarkKind::FaultStorm).then_some(WarningCode::FaultStorm),
        ..Event::new(mark.t_ns, kind, mark.text.clone())
    }
}

/// The mark for a recorded event, sanitized; None for events that are no point of interest.
pub(super) fn mark_of(event: &Event) -> Option<Mark> {
    let named = |what: &str| match event.trial.as_deref() {
        Some(trial) => format!("{what} {trial}"),
        None => what.to_owned(),
    };
    let (kind, text) = match event.kind {
        EventKind::Mark => match event.number {
            Some(number) => (MarkKind::Number(number), event.text.clone()),
            None => (MarkKind::Note, event.text.clone()),
        },
        EventKind::PhaseStart => {
            let phase = event.phase.clone().unwrap_or_default();
            (event.number.map_or(MarkKind::Event, MarkKind::Number), phase)
        }
        EventKind::TrialStart => (MarkKind::Event, named("start of")),
        EventKind::TrialEnd => (MarkKind::Event, named("end of")),
        EventKind::Warning if event.code == Some(WarningCode::FaultStorm) => {
            (MarkKind::FaultStorm, event.text.clone())
        }
        EventKind::Stopped | EventKind::Warning => (MarkKind::Event, event.text.clone()),
        EventKind::Target => (MarkKind::Target, event.text.clone()),
        EventKind::Trim => (MarkKind::Trim, event.text.clone()),
        EventKind::Release => (MarkKind::Release, event.text.clone()),
        EventKind::PageFlags => (MarkKind::PageFlags, event.text.clone()),
        EventKind::RunStart
        | EventKind::RunEnd
        | EventKind::Calibration
        | EventKind::PhaseEnd
        | EventKind::Environment => return None,
    };
    Some(Mark {
        t_ns: event.t_ns,
        kind,
        text: sanitize(&text).into_owned(),
    })
}
