//! The worker's side: the main loop of the hidden subcommand `plimsoll worker`.

use std::io::{BufRead, Result, Write};

use super::calibrate::calibrate;
use super::cost::{Cost, Findings};
use super::memory::{FillRequest, Memory};
use super::memory_error::MemoryError;
use super::probe::{Probe, RunningProbe};
use super::protocol::{Command, IN_CORE, RefusalCode, Reply};
use super::work::{Work, WorkError};

/// Answers the commands on `input` on `output` until `Quit` or the end of `input`; see [`super::protocol`].
/// Binds this process to its parent: it is killed when the thread that started it ends.
///
/// # Errors
/// An input that cannot be read, or an output that cannot be written: the runner is gone.
pub(crate) fn serve(input: impl BufRead, output: impl Write, works: Works) -> Result<()> {
    // The runner's caller may ignore signals (nohup); a worker is the runner's own and behaves the same in every run.
    plimsoll_os::default_signals().map_err(|errno| std::io::Error::from_raw_os_error(errno.raw()))?;
    // A busy worker does not read its input, so the end of the input does not end it.
    plimsoll_os::set_parent_death_signal(libc::SIGKILL)
        .map_err(|errno| std::io::Error::from_raw_os_error(errno.raw()))?;
    answer_all(input, output, works)
}

fn answer_all(input: impl BufRead, mut output: impl Write, works: Works) -> Result<()> {
    let mut worker = Server {
        memory: None,
        probe: None,
        work: None,
        works,
    };
    let pid = std::process::id();
    send(&mut output, &Reply::Ready { pid })?;
    for line in input.lines() {
        let reply = match serde_json::from_str(&line?) {
            Ok(Command::Quit) => break,
            Ok(command) => worker.answer(command),
            Err(error) => failed(RefusalCode::NotACommand, format!("not a command: {error}")),
        };
        send(&mut output, &reply)?;
    }
    Ok(())
}

fn send(output: &mut impl Write, reply: &Reply) -> Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

fn failed(code: RefusalCode, message: impl ToString) -> Reply {
    Reply::Failed {
        code,
        message: message.to_string(),
    }
}

/// The worker's side of the workload of a name.
pub(crate) type Works = fn(&str) -> Option<Box<dyn Work>>;

struct Server {
    memory: Option<Memory>,
    probe: Option<RunningProbe>,
    /// Name and state of the workload, from its first request on.
    work: Option<(String, Box<dyn Work>)>,
    works: Works,
}

impl Server {
    fn answer(&mut self, command: Command) -> Reply {
        match command {
            Command::Fill {
                bytes,
                request,
                class,
                seed,
                thp,
                placement,
            } => self.fill(&FillRequest {
                bytes,
                request,
                class,
                seed,
                thp,
                placement,
            }),
            Command::Calibrate => match calibrate() {
                Ok(calibration) => Reply::Calibration { calibration },
                Err(error) => failed(RefusalCode::Calibration, error),
            },
            Command::Release => {
                if let Some((_, work)) = &mut self.work {
                    work.released();
                }
                match self.memory.take() {
                    Some(memory) => done(memory.release()),
                    None => nothing_filled("release"),
                }
            }
            Command::Trim => match &self.memory {
                Some(memory) => found(memory.trim()),
                None => nothing_filled("trim"),
            },
            Command::WriteBack => match &self.memory {
                Some(memory) => done(memory.write_back()),
                None => nothing_filled("write back"),
            },
            Command::InCore => match self.memory.as_ref().map(Memory::places) {
                Some(Ok((bytes, findings))) => in_core(bytes, findings),
                Some(Err(error)) => failed(error.code(), error),
                None => nothing_filled("look at"),
            },
            Command::Restore => match self.memory.as_mut().map(Memory::restore) {
                Some(Ok((cost, verification))) => Reply::Done {
                    cost,
                    verification: Some(verification),
                },
                Some(Err(error)) => failed(error.code(), error),
                None => nothing_filled("restore"),
            },
            Command::Mappings => match &self.memory {
                Some(memory) => Reply::Mappings {
                    ranges: memory.ranges(),
                },
                None => nothing_filled("list"),
            },
            Command::Grow { bytes } => match &mut self.memory {
                Some(memory) => done(memory.grow(bytes)),
                None => nothing_filled("grow"),
            },
            Command::Work { workload, request } => self
                .work(workload, &request)
                .unwrap_or_else(|error| failed(error.code(), error)),
            Command::Probe(asked) => self.begin_probe(&asked),
            Command::ProbeLap => match self.probe.as_mut().map(RunningProbe::lap) {
                Some(Ok((cost, findings))) => Reply::Found { cost, findings },
                Some(Err(error)) => failed(RefusalCode::Probe, error),
                None => failed(
                    RefusalCode::NoProbe,
                    "there is no probe to ask: none runs; send a probe first",
                ),
            },
            Command::ProbeEnd => match self.probe.take().map(RunningProbe::end) {
                Some(Ok((cost, findings))) => Reply::Found { cost, findings },
                Some(Err(error)) => failed(RefusalCode::Probe, error),
                None => failed(
                    RefusalCode::NoProbe,
                    "there is no probe to end: none runs; send a probe first",
                ),
            },
            // The loop leaves before it asks for an answer.
            Command::Quit => failed(RefusalCode::NotACommand, "quit has no answer"),
        }
    }

    fn work(
        &mut self,
        workload: String,
        request: &serde_json::Value,
    ) -> std::result::Result<Reply, WorkError> {
        let (_, work) = match self.work.take().filter(|(name, _)| *name == workload) {
            Some(work) => self.work.insert(work),
            None => {
                let work =
                    (self.works)(&workload).ok_or_else(|| WorkError::UnknownWorkload(workload.clone()))?;
                self.work.insert((workload, work))
            }
        };
        work.carry_out(request, self.memory.as_mut())
    }

    fn begin_probe(&mut self, asked: &Probe) -> Reply {
        if self.probe.is_some() {
            return failed(
                RefusalCode::ProbeRuns,
                "a probe runs already; end it before another one",
            );
        }
        match RunningProbe::begin(asked) {
            Ok((probe, cost)) => {
                self.probe = Some(probe);
                done(Ok(cost))
            }
            Err(error) => failed(RefusalCode::Probe, error),
        }
    }

    fn fill(&mut self, asked: &FillRequest) -> Reply {
        if self.memory.is_some() {
            return failed(
                RefusalCode::FilledAlready,
                "the worker's memory is filled already; release it before another fill",
            );
        }
        match Memory::fill(asked) {
            Ok((memory, cost)) => {
                self.memory = Some(memory);
                done(Ok(cost))
            }
            Err(error) => failed(error.code(), error),
        }
    }
}

fn done(outcome: std::result::Result<Cost, MemoryError>) -> Reply {
    match outcome {
        Ok(cost) => Reply::Done {
            cost,
            verification: None,
        },
        Err(error) => failed(error.code(), error),
    }
}

/// The reply with findings, if there are any.
fn found(outcome: std::result::Result<(Cost, Findings), MemoryError>) -> Reply {
    match outcome {
        Ok((cost, findings)) if findings != Findings::default() => Reply::Found { cost, findings },
        outcome => done(outcome.map(|(cost, _)| cost)),
    }
}

fn in_core(bytes: u64, mut findings: Findings) -> Reply {
    findings.set(IN_CORE, bytes as f64);
    Reply::Found {
        cost: Cost::default(),
        findings,
    }
}

fn nothing_filled(action: &'static str) -> Reply {
    let error = WorkError::NothingFilled { action };
    failed(error.code(), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::probe::ProbeKind;
    use crate::workload::protocol::Placement;
    use plimsoll_model::scenario::{FillClass, ThpMode};

    fn answers(commands: &[&str]) -> Vec<Reply> {
        let mut output = Vec::new();
        answer_all(commands.join("\n").as_bytes(), &mut output, |_| None).unwrap();
        let lines = std::str::from_utf8(&output).unwrap().lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn refusal(reply: &Reply) -> Option<RefusalCode> {
        match reply {
            Reply::Failed { code, .. } => Some(*code),
            _ => None,
        }
    }

    fn line(command: &Command) -> String {
        serde_json::to_string(command).unwrap()
    }

    #[test]
    fn each_command_has_one_answer_in_order() {
        let fill = line(&Command::Fill {
            bytes: 1 << 20,
            request: 300 << 10,
            class: FillClass::Ratio(2.0),
            seed: 3,
            thp: ThpMode::System,
            placement: Placement::default(),
        });
        let (trim, restore) = (line(&Command::Trim), line(&Command::Restore));
        let (mappings, release) = (line(&Command::Mappings), line(&Command::Release));
        let replies = answers(&[&fill, &mappings, &trim, &restore, &release, &fill, &fill]);
        assert!(matches!(replies[0], Reply::Ready { pid } if pid == std::process::id()));
        assert!(matches!(&replies[1], Reply::Done { cost, verification: None } if cost.bytes == 1 << 20));
        assert!(matches!(&replies[2], Reply::Mappings { ranges } if ranges.len() == 4));
        assert!(matches!(replies[3], Reply::Done { .. }));
        assert!(
            matches!(&replies[4], Reply::Done { verification: Some(v), .. } if v.holds() && v.bytes == 1 << 20)
        );
        assert!(matches!(&replies[5], Reply::Done { cost, .. } if cost.bytes == 1 << 20));
        assert!(matches!(replies[6], Reply::Done { .. }));
        assert!(matches!(
            &replies[7],
            Reply::Failed {
                code: RefusalCode::FilledAlready,
                ..
            }
        ));
        assert_eq!(replies.len(), 8);
    }

    #[test]
    fn requests_without_filled_memory_are_refused() {
        for command in [
            Command::Trim,
            Command::WriteBack,
            Command::InCore,
            Command::Restore,
            Command::Release,
            Command::Mappings,
        ] {
            let replies = answers(&[&line(&command)]);
            assert_eq!(
                refusal(&replies[1]),
                Some(RefusalCode::NothingFilled),
                "{replies:?}"
            );
        }
    }

    #[test]
    fn one_probe_runs_at_a_time_and_its_end_has_one_reply() {
        let begin = line(&Command::Probe(Probe {
            kind: ProbeKind::Wakeup,
            period: 0.01,
        }));
        let end = line(&Command::ProbeEnd);
        let replies = answers(&[&end, &begin, &begin, &end, &end]);
        assert_eq!(refusal(&replies[1]), Some(RefusalCode::NoProbe), "{replies:?}");
        assert!(matches!(replies[2], Reply::Done { .. }), "{replies:?}");
        assert_eq!(refusal(&replies[3]), Some(RefusalCode::ProbeRuns), "{replies:?}");
        assert!(matches!(&replies[4], Reply::Found { findings, .. } if findings.latency.is_some()));
        assert_eq!(refusal(&replies[5]), Some(RefusalCode::NoProbe), "{replies:?}");
    }

    #[test]
    fn the_worker_refuses_a_malformed_command_and_goes_on() {
        let replies = answers(&["{", r#"{"command":"dance"}"#, "", &line(&Command::Trim)]);
        assert_eq!(replies.len(), 5);
        let codes = replies[1..].iter().map(refusal);
        let [unread, unfilled] = [RefusalCode::NotACommand, RefusalCode::NothingFilled].map(Some);
        assert_eq!(codes.collect::<Vec<_>>(), [unread, unread, unread, unfilled]);
    }

    #[test]
    fn the_worker_answers_no_command_after_quit() {
        assert_eq!(answers(&[&line(&Command::Quit), &line(&Command::Trim)]).len(), 1);
    }
}
