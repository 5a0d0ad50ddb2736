//! Consumers that together need more than there is, started one after the other: 1 rest, 2 load, 3 recovery.

use std::time::{Duration, Instant};

use super::phase::Worked;
use super::probes::{Felt, Probes};
use super::stage::{Stage, Surroundings};
use super::trial::{Trouble, lacking};
use crate::analysis::ratio;
use crate::analysis::thrash::{self as figures, Distinct, Use};
use crate::exit::Exit;
use crate::latency::Latencies;
use crate::quantity;
use crate::sample::Row;
use crate::scenario::{Settings, Subject, Thrash};
use crate::workload::Worker;
use crate::workload::consume::Consume;
use crate::workload::protocol::{Command, Cost, Findings, Reply};

/// Shortest rest in seconds: a baseline needs some hundred heartbeats and some small sets.
const LEAST_REST: f64 = 0.5;
/// Seconds between the commands to the first consumer and its start: all commands are read by then.
const LEAD: f64 = 0.2;
/// How often a wait looks for a stop and for a killed process.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Seconds of one look at the recovery: its figures are good to that.
const LOOK: f64 = 0.25;
/// Looks in a row that must be as before the load.
const QUIET_LOOKS: u32 = 2;
/// Most seconds that a recovery is watched.
const LONGEST_RECOVERY: f64 = 30.0;

/// Bytes that the process of a consumer takes in the cgroup besides its area: heap, stack, page tables.
const PROCESS: u64 = 512 << 10;
/// Bytes that the probes take: the small set, their processes, and the program that one of them starts.
const PROBES: u64 = 8 << 20;

/// The processes of one trial.
struct Crew {
    consumers: Vec<Worker>,
    probes: Probes,
}

/// Says what is wrong where the consumers cannot all be held: then the OOM killer ends what was meant to thrash.
pub(super) fn check_room(settings: &Settings, thrash: &Thrash) -> Result<(), String> {
    let swap = match settings.subject {
        Subject::NoSwap => 0,
        _ => settings.swap_size,
    };
    let room = settings.limit.saturating_add(swap);
    let processes = u64::from(thrash.consumers).saturating_mul(PROCESS) + PROBES;
    let asked = settings.size.saturating_add(processes);
    if asked <= room {
        return Ok(());
    }
    let bytes = |bytes: u64| quantity::bytes(bytes as f64);
    Err(format!(
        "{} consumers need {} with what their processes and the probes take, but `limit` and `swap-size` with `{}` \
         are {} together, so that the OOM killer would end them; raise `swap-size`, or lower `consumers` or \
         `consumer-size`",
        thrash.consumers,
        bytes(asked),
        settings.subject,
        bytes(room),
    ))
}

/// Takes the consumers through rest, load and recovery.
pub(super) fn run(stage: &mut Stage<'_, '_>, thrash: &Thrash) -> Result<(), Trouble> {
    if let Surroundings::Lacking(missing) = &stage.surroundings {
        // Outside of a cgroup nothing would keep the load from the rest of the machine.
        return Err(lacking("thrash", missing));
    }
    let mut crew = Crew {
        probes: Probes::spawn(stage)?,
        consumers: Vec::new(),
    };
    let ended = crew.experiment(stage, thrash);
    crew.probes.retire(stage);
    for consumer in crew.consumers {
        stage.retire(consumer);
    }
    ended
}

/// What the rest was like: what the recovery must come back to.
struct Baseline {
    usage: Use,
    felt: Felt,
}

impl Crew {
    fn experiment(&mut self, stage: &mut Stage<'_, '_>, thrash: &Thrash) -> Result<(), Trouble> {
        // Before anything is measured, so that no start of a process is.
        for _ in 0..thrash.consumers {
            self.consumers.push(stage.spawn()?);
        }
        let pids: Vec<u32> = self.consumers.iter().map(Worker::pid).collect();
        stage.watch(&pids);
        self.probes.begin(stage)?;
        let mut baseline = None;
        stage.phase("rest", Some(1), |stage, before| {
            let (worked, found) = self.rest(stage, &before.row)?;
            baseline = Some(found);
            Ok(worked)
        })?;
        stage.phase("load", Some(2), |stage, _| self.load(stage, thrash))?;
        // `rest` has set it, or the trial has ended.
        if let Some(baseline) = baseline {
            stage.phase("recovery", Some(3), |stage, before| {
                self.recover(stage, &before.row, &baseline)
            })?;
        }
        self.probes.end(stage)?;
        self.verify(stage)
    }

    /// The machine before the load.
    fn rest(&mut self, stage: &mut Stage<'_, '_>, before: &Row) -> Result<(Worked, Baseline), Trouble> {
        let begun = Instant::now();
        // What the probes met while the consumers started is no baseline.
        self.probes.lap(stage)?;
        stage.rest(stage.plan.settings.hold.max(LEAST_REST))?;
        let felt = self.probes.lap(stage)?;
        let usage = figures::usage(before, &stage.snapshot()?.row);
        let mut findings = Findings::default();
        felt.note(&mut findings);
        note_usage(&mut findings, "", &usage);
        let worked = worked(felt.cost(), begun, findings);
        Ok((worked, Baseline { usage, felt }))
    }

    /// From the first consumer's start to the common end.
    fn load(&mut self, stage: &mut Stage<'_, '_>, thrash: &Thrash) -> Result<Worked, Trouble> {
        self.probes.lap(stage)?;
        let origin = Instant::now();
        self.send(stage, thrash, origin)?;
        let at = |seconds: f64| origin + Duration::from_secs_f64(LEAD + seconds);
        let last_start = f64::from(thrash.consumers - 1) * thrash.stagger;
        attend(stage, at(0.0))?;
        let started = stage.snapshot()?.row;
        attend(stage, at(last_start))?;
        let all_started = stage.snapshot()?.row;
        attend(stage, at(thrash.seconds()))?;
        let ended = stage.snapshot()?.row;
        let felt = self.probes.lap(stage)?;
        let mut load = Load::default();
        for consumer in &mut self.consumers {
            let (timeout, stop) = (stage.timeout(), stage.lab.stop.flag());
            let reply = consumer.answer(timeout, stop);
            load.take(reply.map_err(|error| stage.explain(&error))?)?;
        }
        let mut findings = load.findings();
        felt.note(&mut findings);
        note_usage(&mut findings, "", &figures::usage(&started, &ended));
        note_usage(
            &mut findings,
            "all_active_",
            &figures::usage(&all_started, &ended),
        );
        check_distinct(stage, thrash, &load);
        stage.lists.extend(load.lists);
        Ok(worked(load.cost.and(felt.cost()), origin, findings))
    }

    /// Tells every consumer its start and the common end, each counted from when it is told.
    fn send(&mut self, stage: &Stage<'_, '_>, thrash: &Thrash, origin: Instant) -> Result<(), Trouble> {
        for (number, consumer) in self.consumers.iter_mut().enumerate() {
            let gone = origin.elapsed().as_secs_f64();
            let command = Command::Consume(Consume {
                bytes: thrash.consumer_size,
                writes: thrash.writes,
                sleep: thrash.sleep,
                start: (LEAD + number as f64 * thrash.stagger - gone).max(0.0),
                end: (LEAD + thrash.seconds() - gone).max(0.0),
                // Consumers of one trial write different bytes at different places.
                seed: stage.seed().rotate_left(32) ^ (number as u64 + 1),
            });
            consumer.send(&command).map_err(|error| stage.explain(&error))?;
        }
        Ok(())
    }

    /// Looks until the machine is as it was at rest, or for as long as a recovery is watched.
    fn recover(
        &mut self,
        stage: &mut Stage<'_, '_>,
        before: &Row,
        baseline: &Baseline,
    ) -> Result<Worked, Trouble> {
        let begun = Instant::now();
        let mut felt = Felt::nothing();
        let (mut quiet, mut recovery_s, mut earlier) = (0, 0.0, *before);
        while quiet < QUIET_LOOKS && begun.elapsed().as_secs_f64() < LONGEST_RECOVERY {
            stage.rest(LOOK)?;
            let lap = self.probes.lap(stage)?;
            let now = stage.snapshot()?.row;
            if baseline.is_back(&figures::usage(&earlier, &now), &lap) {
                quiet += 1;
            } else {
                quiet = 0;
                recovery_s = begun.elapsed().as_secs_f64();
            }
            felt.merge(&lap);
            earlier = now;
        }
        let mut findings = Findings::default();
        felt.note(&mut findings);
        note_usage(&mut findings, "", &figures::usage(before, &earlier));
        findings.set("recovery_s", recovery_s);
        if quiet < QUIET_LOOKS {
            stage.param("recovery", format!("not within {LONGEST_RECOVERY} s"));
        }
        Ok(worked(felt.cost(), begun, findings))
    }

    /// Has every consumer compare what it kept of its memory with what it wrote.
    fn verify(&mut self, stage: &mut Stage<'_, '_>) -> Result<(), Trouble> {
        for (number, consumer) in self.consumers.iter_mut().enumerate() {
            let found = match stage.ask(consumer, &Command::Verify)? {
                Reply::Done {
                    verification: Some(found),
                    ..
                } => found,
                other => {
                    return Err(Trouble::new(
                        Exit::WorkloadFailed,
                        format_args!("the worker answered {other:?}"),
                    ));
                }
            };
            if !found.holds() {
                return Err(Trouble::new(
                    Exit::WorkloadFailed,
                    format_args!(
                        "consumer {}: {} of {} bytes differ from what was written, the first at offset {:?}",
                        number + 1,
                        found.wrong_bytes,
                        found.bytes,
                        found.first_wrong,
                    ),
                ));
            }
        }
        stage.verified = true;
        Ok(())
    }
}

/// Waits until then, and ends the trial where a stop was asked for or the OOM killer took a process.
fn attend(stage: &Stage<'_, '_>, until: Instant) -> Result<(), Trouble> {
    loop {
        stage.go_on()?;
        if stage.oom_killed() > 0 {
            return Err(Trouble::new(Exit::Killed, stage.out_of_memory()));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK_UP));
    }
}

/// The cost of workers together, on the clock of the runner. What they work on are writes of a byte and visits of a
/// page, not a stream of bytes: there is no GB/s to be made of it.
fn worked(cost: Cost, begun: Instant, findings: Findings) -> Worked {
    Worked {
        cost: Cost {
            seconds: begun.elapsed().as_secs_f64(),
            bytes: 0,
            ..cost
        },
        findings,
        profile: Vec::new(),
    }
}

fn note_usage(findings: &mut Findings, prefix: &str, usage: &Use) {
    for (name, value) in usage.figures() {
        if let Some(value) = value {
            findings.set(&format!("{prefix}{name}"), value);
        }
    }
}

/// Consumers that touch more or fewer pages than chance says do not do what they say.
fn check_distinct(stage: &mut Stage<'_, '_>, thrash: &Thrash, load: &Load) {
    let sum = |name: &str| load.list(name).iter().sum::<f64>();
    let (pages, cycles) = (sum("consumer_counted_pages"), sum("consumer_counted_cycles"));
    let expected = Distinct::expected(thrash);
    if let Some(touched) = ratio(pages, cycles)
        && !expected.agrees(touched, cycles)
    {
        stage.troubles.push(Trouble::new(
            Exit::WorkloadFailed,
            format_args!(
                "a cycle touched {} distinct pages in the mean of {cycles} cycles, where n(1-(1-1/n)^W) is {}",
                quantity::significant(touched),
                quantity::significant(expected.mean),
            ),
        ));
    }
}

/// What the consumers did, put together.
#[derive(Default)]
struct Load {
    cost: Cost,
    /// Figures of each consumer, in the order of their starts.
    lists: Vec<(String, Vec<f64>)>,
    latencies: Latencies,
    /// Seconds that counting the pages of some cycles took, which no cycle holds.
    counting_s: f64,
}

/// Figures of a consumer that are kept for each, with the name of the list.
const LISTED: [(&str, &str); 9] = [
    ("cycles", "consumer_cycles"),
    ("sleeps", "consumer_sleeps"),
    ("active_s", "consumer_active_s"),
    ("start_late_s", "consumer_start_late_s"),
    ("end_late_s", "consumer_end_late_s"),
    ("shortest_cycle_s", "consumer_shortest_cycle_s"),
    ("longest_cycle_s", "consumer_longest_cycle_s"),
    ("counted_cycles", "consumer_counted_cycles"),
    ("counted_pages", "consumer_counted_pages"),
];

impl Load {
    /// Takes in the answer of the next consumer.
    fn take(&mut self, reply: Reply) -> Result<(), Trouble> {
        let Worked { cost, findings, .. } = Worked::of_reply(reply)?;
        self.cost = self.cost.and(cost);
        self.counting_s += findings.figures.get("counting_s").copied().unwrap_or(0.0);
        if let Some(found) = findings.latency.and_then(|text| Latencies::from_text(&text).ok()) {
            self.latencies.merge(&found);
        }
        for (figure, list) in LISTED {
            let value = findings.figures.get(figure).copied().unwrap_or(0.0);
            match self.lists.iter_mut().find(|(name, _)| name == list) {
                Some((_, values)) => values.push(value),
                None => self.lists.push((list.to_owned(), vec![value])),
            }
        }
        Ok(())
    }

    fn list(&self, name: &str) -> &[f64] {
        let found = self.lists.iter().find(|(list, _)| list == name);
        found.map_or(&[], |(_, values)| values)
    }

    fn findings(&self) -> Findings {
        let mut findings = Findings::default();
        let largest = |name: &str| self.list(name).iter().copied().reduce(f64::max);
        let smallest = |name: &str| self.list(name).iter().copied().reduce(f64::min);
        let mut set = |name: &str, value: Option<f64>| {
            if let Some(value) = value {
                findings.set(name, value);
            }
        };
        let percentile = |percent: f64| self.latencies.percentile(percent).map(|ns| ns as f64 / 1e9);
        set("cycle_p50_s", percentile(50.0));
        set("cycle_p99_s", percentile(99.0));
        set("longest_cycle_s", largest("consumer_longest_cycle_s"));
        set("shortest_cycle_s", smallest("consumer_shortest_cycle_s"));
        set("start_late_s", largest("consumer_start_late_s"));
        set("end_late_s", largest("consumer_end_late_s"));
        let cpu_s = self.cost.cpu_user_s + self.cost.cpu_system_s;
        set("counting_s", Some(self.counting_s));
        set("counting_percent", ratio(100.0 * self.counting_s, cpu_s));
        findings
    }
}

impl Baseline {
    /// Whether a look at the machine was no worse than the rest, with what a quiet machine scatters by: twice the
    /// latency and a millisecond, a hundred pages a second, five percent of time stalled.
    fn is_back(&self, usage: &Use, felt: &Felt) -> bool {
        let near = |now: Option<f64>, then: Option<f64>, factor: f64, margin: f64| {
            now.unwrap_or(0.0) <= factor * then.unwrap_or(0.0) + margin
        };
        let ms = |latency: Option<u64>| latency.map(|ns| ns as f64 / 1e6);
        let heartbeat = |felt: &Felt| ms(felt.heartbeat().percentile(99.0));
        let small_set = |felt: &Felt| ms(felt.small_set().percentile(50.0));
        near(usage.pages_in_per_s, self.usage.pages_in_per_s, 1.0, 100.0)
            && near(usage.stalled_percent, self.usage.stalled_percent, 1.0, 5.0)
            && near(heartbeat(felt), heartbeat(&self.felt), 2.0, 1.0)
            && near(small_set(felt), small_set(&self.felt), 2.0, 1.0)
    }
}
