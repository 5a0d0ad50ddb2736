//! A program holds memory while another one requests more and more.
//!
//! Memory of pagers has one budget, the pool of the trial. A process that is stopped cannot trim itself: its pager is suspended
//! before.

use std::time::Duration;

use crate::run::context::{Surroundings, TrialContext};
use crate::run::phase::Worked;
use crate::run::trial_error::{TrialError, lacking};
use crate::workload::protocol::{Command, IN_CORE, Reply};
use crate::workload::{Findings, Memory, Residency, Stopwatch, UsageScope, Work, WorkError, Worker, typed};
use plimsoll_model::quantity;
use plimsoll_model::recording::FailureCode;
use plimsoll_model::scenario::workloads::{contention, finding};
use plimsoll_model::scenario::{Contention, WorkloadKind};
use plimsoll_pager::Pager;
use plimsoll_pager::pool::Limits;
use serde::{Deserialize, Serialize};

pub(super) use Suspension as Requests;

/// The part of a trial that needs an environment.
pub(super) const CONFINED: &str = "contention";

/// Share of its memory by which the first program must shrink to count as trimmed. The kernel's batches of counting,
/// and a page here and there, stay below.
const TRIMMED: f64 = 0.02;
/// Requests after trimming has begun: enough to see which program goes on losing.
const MORE_ASKS: usize = 4;
/// Share of the size that must be resident before the first request.
const REACHED: f64 = 0.95;
/// Pause between two looks at a pager that returns its share, and the most of them: several rounds of its pool.
const SHARE_PAUSE: Duration = Duration::from_millis(10);
const SHARE_LOOKS: u32 = 500;

/// Requests to the worker of the first program, whose memory belongs to a pager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Asked {
    /// Trim all memory, and return its share to the pool.
    Suspend,
    Resume,
}

/// The worker's side.
#[derive(Debug, Default)]
pub(in crate::run) struct Suspension;

impl Work for Suspension {
    fn carry_out(
        &mut self,
        request: &serde_json::Value,
        memory: Option<&mut Memory>,
    ) -> Result<Reply, WorkError> {
        let memory = memory.ok_or(WorkError::NothingFilled { action: "suspend" })?;
        let watch = Stopwatch::start(UsageScope::Process);
        match typed(request)? {
            Asked::Suspend => {
                memory.suspend();
                if let Some(pager) = memory.pager() {
                    await_return(pager);
                }
            }
            Asked::Resume => memory.resume(),
        }
        Ok(Reply::Done {
            cost: watch.stop(0),
            verification: None,
        })
    }
}

/// Waits until a suspended pager has returned its share, as far as its copies do not need it. It may not return: data that do
/// not compress stay resident.
fn await_return(pager: &Pager) {
    let ticks = || pager.membership().map_or(0, |membership| membership.ticks);
    // The tick that finds the share returned says so to the pool.
    let mut returned_at = None;
    for _ in 0..SHARE_LOOKS {
        let stats = pager.stats();
        let needed = stats.store_bytes + stats.metadata_bytes;
        let given = pager
            .membership()
            .map_or(0, |membership| membership.grant.bytes());
        if given <= contention::LEAST_SHARE && stats.resident_bytes() <= given.max(needed) {
            let at = *returned_at.get_or_insert_with(ticks);
            if ticks() > at {
                return;
            }
        } else {
            returned_at = None;
        }
        std::thread::sleep(SHARE_PAUSE);
    }
}

pub(super) fn run(context: &mut TrialContext<'_, '_>, contention: &Contention) -> Result<(), TrialError> {
    context.param("suspended", contention.suspended.to_string());
    if let Surroundings::Lacking(missing) = &context.surroundings
        && !context.needs_no_environment()
    {
        // Without a limit around both they would take the whole machine.
        return Err(lacking("contention", missing));
    }
    context.share_budget(Limits {
        minimum: contention::LEAST_SHARE,
        ..Limits::default()
    })?;
    let holder = context.spawn()?;
    let asker = match context.spawn() {
        Ok(asker) => asker,
        Err(error) => {
            context.retire(holder);
            return Err(error);
        }
    };
    context.watch(&[holder.pid(), asker.pid()]);
    let mut both = Programs {
        holder,
        asker,
        asked: contention,
        at_first: Residency::default(),
        at_stop: None,
    };
    let ended = both.contend(context);
    // A stopped process dies of SIGKILL as any other.
    context.retire(both.holder);
    context.retire(both.asker);
    ended
}

struct Programs<'a> {
    holder: Worker,
    asker: Worker,
    asked: &'a Contention,
    /// The first program before the first request of the other.
    at_first: Residency,
    /// Its pager when it was stopped: since then no thread of it runs, and nothing of it changes.
    at_stop: Option<Held>,
}

/// The memory of a program.
#[derive(Debug, Clone, Copy)]
struct Held {
    residency: Residency,
    /// RAM of its pager's store; `None` without a pager.
    store: Option<f64>,
}

impl Programs<'_> {
    fn contend(&mut self, context: &mut TrialContext<'_, '_>) -> Result<(), TrialError> {
        self.hold(context)?;
        self.ask(context)?;
        if self.asked.suspended {
            self.holder.resume().map_err(|error| context.explain(&error))?;
            if self.at_stop.take().is_some() {
                context.find(&mut self.holder, &work(Asked::Resume))?;
            }
        }
        let (mut verified, names) = (true, ["restore-holder", "restore-asker"]);
        for (worker, name) in [&mut self.holder, &mut self.asker].into_iter().zip(names) {
            context.phase(name, None, |context, _| {
                let (worked, right) = restore(context, worker, name)?;
                verified &= right;
                Ok(worked)
            })?;
        }
        context.verified = verified;
        context.phase("release", None, |context, _| {
            let first = context.find(&mut self.holder, &Command::Release)?.cost;
            let second = context.find(&mut self.asker, &Command::Release)?.cost;
            let mut both = first.and(second);
            both.bytes = first.bytes + second.bytes;
            Ok(both)
        })
    }

    /// The first program fills its memory, and is idle from then on.
    fn hold(&mut self, context: &mut TrialContext<'_, '_>) -> Result<(), TrialError> {
        let (size, hold) = (self.asked.filling.size, self.asked.filling.hold);
        // In one mapping, as each request is.
        let fill = context.fill(size, size);
        context.phase("hold", None, |context, _| context.find(&mut self.holder, &fill))?;
        context.watch_pagers(&self.pids());
        self.at_first = held(context, &mut self.holder)?.residency;
        if (self.at_first.resident as f64) < size as f64 * REACHED {
            context.errors.push(TrialError::failed(
                FailureCode::SizeNotReached,
                format_args!(
                    "size not reached: only {} of {} were resident before the first request; raise `limit`",
                    quantity::bytes(self.at_first.resident as f64),
                    quantity::bytes(size as f64)
                ),
            ));
        }
        if self.asked.suspended {
            self.suspend(context)?;
        }
        context.rest(hold)
    }

    /// Stops the first program; its pager returns its share before, in a phase of its own.
    fn suspend(&mut self, context: &mut TrialContext<'_, '_>) -> Result<(), TrialError> {
        if context.is_paged() {
            context.phase("suspend", None, |context, _| {
                context.find(&mut self.holder, &work(Asked::Suspend))
            })?;
            self.at_stop = Some(held(context, &mut self.holder)?);
        }
        self.holder.suspend().map_err(|error| context.explain(&error))
    }

    fn pids(&self) -> [u32; 2] {
        [self.holder.pid(), self.asker.pid()]
    }

    /// The second program makes requests, until the first one has been trimmed and a few more, or until there is no room.
    fn ask(&mut self, context: &mut TrialContext<'_, '_>) -> Result<(), TrialError> {
        let most = self.asked.most_asked(&context.plan.settings);
        let (mut asked, mut number, mut after) = (0, 0, 0);
        while asked < most && after <= MORE_ASKS {
            number += 1;
            let bytes = self.asked.request.min(most - asked);
            let command = match asked {
                0 => first_ask(context, bytes, most),
                _ => Command::Grow { bytes },
            };
            asked += bytes;
            let mut trimmed = false;
            context.phase(&format!("ask-{number}"), Some(number), |context, _| {
                let mut worked = context.find(&mut self.asker, &command)?;
                trimmed = self.look(context, asked, &mut worked)?;
                Ok(worked)
            })?;
            if number == 1 {
                context.watch_pagers(&self.pids());
            }
            after += usize::from(trimmed);
            context.rest(self.asked.filling.hold)?;
        }
        Ok(())
    }

    /// Notes where the memory of both is; returns whether the first one was trimmed.
    fn look(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        asked: u64,
        worked: &mut Worked,
    ) -> Result<bool, TrialError> {
        let of_holder = match self.at_stop {
            Some(held) => held,
            None => held(context, &mut self.holder)?,
        };
        let of_asker = held(context, &mut self.asker)?;
        let (holder, asker) = (of_holder.residency, of_asker.residency);
        let demand = 100.0 * (self.asked.filling.size + asked) as f64 / context.plan.settings.limit as f64;
        let seconds = worked.cost.seconds;
        let lost = self.at_first.resident.saturating_sub(holder.resident);
        let trimmed = lost as f64 > self.at_first.resident as f64 * TRIMMED;
        let findings: &mut Findings = &mut worked.findings;
        for (name, bytes) in [
            ("asked_bytes", asked),
            ("holder_resident_bytes", holder.resident),
            ("holder_swapped_bytes", holder.swapped),
            ("holder_lost_bytes", lost),
            ("asker_resident_bytes", asker.resident),
            ("asker_swapped_bytes", asker.swapped),
        ] {
            findings.set(name, bytes as f64);
        }
        if let Some((of_holder, of_asker)) = of_holder.store.zip(of_asker.store) {
            findings.set(contention::finding::STORES, of_holder + of_asker);
        }
        findings.set("ask_s", seconds);
        findings.set("demand_percent", demand);
        findings.set("trimmed", f64::from(u8::from(trimmed)));
        Ok(trimmed)
    }
}

fn work(asked: Asked) -> Command {
    Command::work(WorkloadKind::Contention, &asked)
}

/// The second program's first request, of `most` bytes in all.
fn first_ask(context: &TrialContext<'_, '_>, bytes: u64, most: u64) -> Command {
    // The same stream as the first one's: the second holds more of the same data.
    let mut fill = context.fill(bytes, bytes);
    if let Command::Fill { placement, .. } = &mut fill {
        placement.pager = context.pager(most);
    }
    fill
}

/// The places of a program's memory: as the kernel counts them, or as its pager does.
fn held(context: &mut TrialContext<'_, '_>, worker: &mut Worker) -> Result<Held, TrialError> {
    if !context.is_paged() {
        let residency = worker.residency().map_err(|error| context.explain(&error))?;
        return Ok(Held {
            residency,
            store: None,
        });
    }
    let values = context.find(worker, &Command::InCore)?.findings.values;
    let value = |name: &str| values.get(name).copied();
    let bytes = |name: &str| value(name).unwrap_or(0.0) as u64;
    Ok(Held {
        residency: Residency {
            resident: bytes(IN_CORE),
            swapped: bytes(finding::PAGER_SAVED),
        },
        store: value(finding::PAGER_STORE),
    })
}

/// Has a program read all its memory. Returns whether every byte was right.
fn restore(
    context: &mut TrialContext<'_, '_>,
    worker: &mut Worker,
    name: &str,
) -> Result<(Worked, bool), TrialError> {
    let reply = context.ask(worker, &Command::Restore)?;
    let right = matches!(&reply, Reply::Done { verification: Some(found), .. } if found.holds());
    if !right {
        let error = format!("{name}: bytes that were read back differ from the written ones: {reply:?}");
        context
            .errors
            .push(TrialError::failed(FailureCode::WrongBytes, error));
    }
    Ok((Worked::of_reply(reply)?, right))
}
