//! A program holds memory while another one asks for more and more.

use crate::exit::Exit;
use crate::quantity;
use crate::run::phase::Worked;
use crate::run::stage::{Stage, Surroundings};
use crate::run::trial::{Trouble, lacking};
use crate::scenario::Contention;
use crate::workload::protocol::{Command, Findings, Reply};
use crate::workload::{Residency, Worker};

/// Share of what it held by which the first program must have shrunk before it counts as trimmed. The kernel's batches
/// of counting, and a page here and there, stay below.
const TRIMMED: f64 = 0.02;
/// Asks after trimming has begun: enough to see who goes on losing.
const MORE_ASKS: usize = 4;
/// Share of the size that must be resident before the first ask.
const REACHED: f64 = 0.95;

/// Runs the trial's work.
pub(super) fn run(stage: &mut Stage<'_, '_>, contention: &Contention) -> Result<(), Trouble> {
    stage.param("suspended", contention.suspended.to_string());
    if let Surroundings::Lacking(missing) = &stage.surroundings {
        // Without a limit around both, all of the machine would be asked for.
        return Err(lacking("contention", missing));
    }
    let holder = stage.spawn()?;
    let asker = match stage.spawn() {
        Ok(asker) => asker,
        Err(trouble) => {
            stage.retire(holder);
            return Err(trouble);
        }
    };
    stage.watch(&[holder.pid(), asker.pid()]);
    let mut both = Both {
        holder,
        asker,
        asked: contention,
        at_first: Residency::default(),
    };
    let ended = both.contend(stage);
    // A stopped process dies of SIGKILL as any other.
    stage.retire(both.holder);
    stage.retire(both.asker);
    ended
}

/// The two programs of a trial.
struct Both<'a> {
    holder: Worker,
    asker: Worker,
    asked: &'a Contention,
    /// The first program before the other one asked.
    at_first: Residency,
}

impl Both<'_> {
    fn contend(&mut self, stage: &mut Stage<'_, '_>) -> Result<(), Trouble> {
        self.hold(stage)?;
        self.ask(stage)?;
        if self.asked.suspended {
            self.holder.resume().map_err(|error| stage.explain(&error))?;
        }
        let (mut verified, names) = (true, ["restore-holder", "restore-asker"]);
        for (worker, name) in [&mut self.holder, &mut self.asker].into_iter().zip(names) {
            stage.phase(name, None, |stage, _| {
                let (worked, right) = restore(stage, worker, name)?;
                verified &= right;
                Ok(worked)
            })?;
        }
        stage.verified = verified;
        stage.phase("release", None, |stage, _| {
            let first = stage.find(&mut self.holder, &Command::Release)?.cost;
            let second = stage.find(&mut self.asker, &Command::Release)?.cost;
            let mut both = first.and(second);
            both.bytes = first.bytes + second.bytes;
            Ok(both)
        })
    }

    /// The first program fills its memory, and is idle from then on.
    fn hold(&mut self, stage: &mut Stage<'_, '_>) -> Result<(), Trouble> {
        let (size, hold) = (self.asked.size, self.asked.hold);
        // In one mapping, as each ask is.
        let fill = stage.fill(size, size);
        stage.phase("hold", None, |stage, _| stage.find(&mut self.holder, &fill))?;
        self.at_first = residency(stage, &self.holder)?;
        if (self.at_first.resident as f64) < size as f64 * REACHED {
            stage.troubles.push(Trouble::new(
                Exit::WorkloadFailed,
                format_args!(
                    "size not reached: only {} of {} were resident before the first ask; raise `limit`",
                    quantity::bytes(self.at_first.resident as f64),
                    quantity::bytes(size as f64)
                ),
            ));
        }
        if self.asked.suspended {
            self.holder.suspend().map_err(|error| stage.explain(&error))?;
        }
        stage.rest(hold)
    }

    /// The second one asks, until the first one has been trimmed and a few asks more, or until there is no room.
    fn ask(&mut self, stage: &mut Stage<'_, '_>) -> Result<(), Trouble> {
        let most = self.asked.most_asked(&stage.plan.settings);
        let (mut asked, mut number, mut after) = (0, 0, 0);
        while asked < most && after <= MORE_ASKS {
            number += 1;
            let bytes = self.asked.request.min(most - asked);
            let command = match asked {
                // The same stream as the first one's: what the second holds is no other data, only more of it.
                0 => stage.fill(bytes, bytes),
                _ => Command::Grow { bytes },
            };
            asked += bytes;
            let mut trimmed = false;
            stage.phase(&format!("ask-{number}"), Some(number), |stage, _| {
                let mut worked = stage.find(&mut self.asker, &command)?;
                trimmed = self.look(stage, asked, &mut worked)?;
                Ok(worked)
            })?;
            after += usize::from(trimmed);
            stage.rest(self.asked.hold)?;
        }
        Ok(())
    }

    /// Notes where the memory of both is; returns whether the first one was trimmed.
    fn look(&self, stage: &Stage<'_, '_>, asked: u64, worked: &mut Worked) -> Result<bool, Trouble> {
        let (holder, asker) = (residency(stage, &self.holder)?, residency(stage, &self.asker)?);
        let demand = 100.0 * (self.asked.size + asked) as f64 / stage.plan.settings.limit as f64;
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

fn residency(stage: &Stage<'_, '_>, worker: &Worker) -> Result<Residency, Trouble> {
    worker.residency().map_err(|error| stage.explain(&error))
}

/// Has a program read all its memory. Returns whether every byte was right.
fn restore(stage: &mut Stage<'_, '_>, worker: &mut Worker, name: &str) -> Result<(Worked, bool), Trouble> {
    let reply = stage.ask(worker, &Command::Restore)?;
    let right = matches!(&reply, Reply::Done { verification: Some(found), .. } if found.holds());
    if !right {
        let trouble = format!("{name}: bytes that were read back differ from what was written: {reply:?}");
        stage.troubles.push(Trouble::new(Exit::WorkloadFailed, trouble));
    }
    Ok((Worked::of_reply(reply)?, right))
}
