//! A program holds memory while another one asks for more and more.

use crate::run::context::{Surroundings, TrialContext};
use crate::run::phase::Worked;
use crate::run::trial_error::{TrialError, lacking};
use crate::workload::Findings;
use crate::workload::protocol::{Command, Reply};
use crate::workload::{Residency, Worker};
use plimsoll_model::quantity;
use plimsoll_model::recording::FailureCode;
use plimsoll_model::scenario::Contention;
use plimsoll_pager::pool::Limits;

pub(super) use crate::workload::NoRequests as Requests;

/// The part of a trial that needs an environment.
pub(super) const CONFINED: &str = "contention";

/// Share of its memory by which the first program must shrink to count as trimmed. The kernel's batches of counting,
/// and a page here and there, stay below.
const TRIMMED: f64 = 0.02;
/// Asks after trimming has begun: enough to see which program goes on losing.
const MORE_ASKS: usize = 4;
/// Share of the size that must be resident before the first ask.
const REACHED: f64 = 0.95;
/// Of a pager in a pool: room for its tables and some pages, beside which the pool is free to divide the budget.
const LIMITS: Limits = Limits {
    minimum: 5 << 20,
    maximum: u64::MAX,
    priority: 5,
};

pub(super) fn run(context: &mut TrialContext<'_, '_>, contention: &Contention) -> Result<(), TrialError> {
    context.param("suspended", contention.suspended.to_string());
    if let Surroundings::Lacking(missing) = &context.surroundings {
        // Without a limit around both they would take the whole machine.
        return Err(lacking("contention", missing));
    }
    context.share_budget(LIMITS)?;
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
    /// The first program before the other one asked.
    at_first: Residency,
}

impl Programs<'_> {
    fn contend(&mut self, context: &mut TrialContext<'_, '_>) -> Result<(), TrialError> {
        self.hold(context)?;
        self.ask(context)?;
        if self.asked.suspended {
            self.holder.resume().map_err(|error| context.explain(&error))?;
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
        // In one mapping, as each ask is.
        let fill = context.fill(size, size);
        context.phase("hold", None, |context, _| context.find(&mut self.holder, &fill))?;
        self.at_first = residency(context, &self.holder)?;
        if (self.at_first.resident as f64) < size as f64 * REACHED {
            context.errors.push(TrialError::failed(
                FailureCode::SizeNotReached,
                format_args!(
                    "size not reached: only {} of {} were resident before the first ask; raise `limit`",
                    quantity::bytes(self.at_first.resident as f64),
                    quantity::bytes(size as f64)
                ),
            ));
        }
        if self.asked.suspended {
            self.holder.suspend().map_err(|error| context.explain(&error))?;
        }
        context.rest(hold)
    }

    /// The second one asks, until the first one has been trimmed and a few asks more, or until there is no room.
    fn ask(&mut self, context: &mut TrialContext<'_, '_>) -> Result<(), TrialError> {
        let most = self.asked.most_asked(&context.plan.settings);
        let (mut asked, mut number, mut after) = (0, 0, 0);
        while asked < most && after <= MORE_ASKS {
            number += 1;
            let bytes = self.asked.request.min(most - asked);
            let command = match asked {
                // The same stream as the first one's: the second holds more of the same data.
                0 => context.fill(bytes, bytes),
                _ => Command::Grow { bytes },
            };
            asked += bytes;
            let mut trimmed = false;
            context.phase(&format!("ask-{number}"), Some(number), |context, _| {
                let mut worked = context.find(&mut self.asker, &command)?;
                trimmed = self.look(context, asked, &mut worked)?;
                Ok(worked)
            })?;
            after += usize::from(trimmed);
            context.rest(self.asked.filling.hold)?;
        }
        Ok(())
    }

    /// Notes where the memory of both is; returns whether the first one was trimmed.
    fn look(
        &self,
        context: &TrialContext<'_, '_>,
        asked: u64,
        worked: &mut Worked,
    ) -> Result<bool, TrialError> {
        let (holder, asker) = (
            residency(context, &self.holder)?,
            residency(context, &self.asker)?,
        );
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
        findings.set("ask_s", seconds);
        findings.set("demand_percent", demand);
        findings.set("trimmed", f64::from(u8::from(trimmed)));
        Ok(trimmed)
    }
}

fn residency(context: &TrialContext<'_, '_>, worker: &Worker) -> Result<Residency, TrialError> {
    worker.residency().map_err(|error| context.explain(&error))
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
