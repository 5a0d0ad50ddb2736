//! The headline of a heap run: an allocator against the best other one.

use std::collections::HashSet;

use crate::analysis::Group;
use crate::workloads::heap::{IDLE_THREAD, LEFT, OPERATION_CPU, Test, is_ours, margin, ram_per_live, tests};
use crate::workloads::sentence::{Told, brief};
use plimsoll_model::quantity::{bytes, significant};
use plimsoll_model::recording::{Statement, StatementCode};

const MOST_NAMED: usize = 3;

/// The margin of Plimsoll's heap or, if it did not run, of the allocator with the least CPU time.
pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let tests = tests(groups);
    let subjects = subjects(groups);
    let others: Vec<&str> = subjects
        .iter()
        .copied()
        .filter(|subject| !is_ours(subject))
        .collect();
    let ours: Vec<&str> = subjects
        .iter()
        .copied()
        .filter(|subject| is_ours(subject))
        .collect();
    let statements: Vec<Statement> = match (others.is_empty(), ours.is_empty()) {
        (false, false) => ours
            .iter()
            .flat_map(|subject| allocators_named(&tests, subject, &others))
            .collect(),
        _ => {
            let mean = |subject: &str| Some(margin(&tests, subject, OPERATION_CPU, |_| true)?.mean);
            let by_mean = |a: &&str, b: &&str| {
                let of = |subject: &str| mean(subject).unwrap_or(f64::INFINITY);
                of(a).total_cmp(&of(b))
            };
            let best = subjects.iter().copied().min_by(by_mean)?;
            let others: Vec<&str> = subjects.iter().copied().filter(|other| *other != best).collect();
            allocators_named(&tests, best, &others)
        }
    };
    let mut told = Told::of_statements(statements)?;
    told.finding = brief(vec![told.finding]);
    Some(told)
}

/// The allocators, in the order of the groups.
pub(crate) fn subjects<'a>(groups: &[&'a Group]) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    let subjects = groups.iter().map(|group| group.subject.as_str());
    let mut subjects: Vec<&str> = subjects.filter(|subject| seen.insert(*subject)).collect();
    // Ours first.
    subjects.sort_by_key(|subject| !is_ours(subject));
    subjects
}

/// Time and memory of an allocator, against those of others: a statement each.
fn allocators_named(tests: &[Test<'_>], subject: &str, others: &[&str]) -> Vec<Statement> {
    let mut said = time(tests, subject, others);
    said.extend(memory(tests, subject, others));
    said.extend(left(tests, subject, others));
    said.extend(idle_threads(tests, subject, others));
    said
}

/// A factor of 1 or more as such, a smaller one in percent: `1.50 times the`, `92.0% of the`.
fn share(ratio: f64) -> String {
    match ratio < 1.0 {
        true => format!("{}% of", significant(100.0 * ratio)),
        false => format!("{} times", significant(ratio)),
    }
}

fn time(tests: &[Test<'_>], subject: &str, others: &[&str]) -> Vec<Statement> {
    let Some(found) = margin(tests, subject, OPERATION_CPU, |other| others.contains(&other)) else {
        return Vec::new();
    };
    let named: Vec<&str> = found.best.iter().map(String::as_str).take(MOST_NAMED).collect();
    let more = if found.best.len() > MOST_NAMED {
        ", ..."
    } else {
        ""
    };
    let took = format!(
        "{subject} took {} the CPU time of the best other allocator",
        share(found.mean)
    );
    let named = format!("{}{more}", named.join(", "));
    let cpu_time = |text: String| {
        Statement::new(StatementCode::HeapCpuTime, text)
            .with("tests", found.tests as f64)
            .with("cpu_time_ratio", found.mean)
            .naming("subject", subject)
    };
    let (worst, test, other) = &found.worst;
    if found.tests == 1 {
        return vec![cpu_time(format!("{took}, {named}.")).naming("other", other)];
    }
    let text = format!(
        "That is the geometric mean against the best of each test ({named}); at worst {subject} took {} that of {other} \
         ({test}).",
        share(*worst)
    );
    let worst = Statement::new(StatementCode::HeapWorstCpuTime, text)
        .with("worst_cpu_time_ratio", *worst)
        .naming("subject", subject)
        .naming("other", other)
        .naming("test", test);
    vec![cpu_time(format!("{took} in {} tests.", found.tests)), worst]
}

/// The other allocator with the lowest value.
fn best<'o>(others: &[&'o str], value: impl Fn(&str) -> Option<f64>) -> Option<(&'o str, f64)> {
    let values = others.iter().filter_map(|other| Some((*other, value(other)?)));
    values.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The statement with the value of an allocator and that of the best other one, which is called `other_<name>`.
fn against(statement: Statement, name: &str, own: (&str, f64), other: Option<(&str, f64)>) -> Statement {
    let statement = statement.naming("subject", own.0).with(name, own.1);
    match other {
        Some((other, least)) => statement
            .naming("other", other)
            .with(format!("other_{name}"), least),
        None => statement,
    }
}

fn memory(tests: &[Test<'_>], subject: &str, others: &[&str]) -> Option<Statement> {
    let own = ram_per_live(tests, subject)?;
    let best = best(others, |other| ram_per_live(tests, other));
    let words = best
        .map(|(other, least)| format!("; the best other allocator, {other}, took {}", significant(least)));
    let text = format!(
        "{subject} took {} times its live bytes of RAM{}.",
        significant(own),
        words.unwrap_or_default()
    );
    let statement = Statement::new(StatementCode::HeapRam, text);
    Some(against(statement, "ram_to_live_ratio", (subject, own), best))
}

/// The highest median of a metric over the tests.
fn most(tests: &[Test<'_>], subject: &str, metric: &str) -> Option<f64> {
    let medians = tests.iter().filter_map(|test| test.median(subject, metric));
    medians.reduce(f64::max)
}

/// The memory after all frees, of loads that measure their live bytes.
fn left(tests: &[Test<'_>], subject: &str, others: &[&str]) -> Option<Statement> {
    ram_per_live(tests, subject)?;
    let own = most(tests, subject, LEFT)?;
    let best = best(others, |other| most(tests, other, LEFT));
    let words = best.map(|(other, least)| format!(", {} of {other}", bytes(least)));
    let text = format!(
        "After all frees {} of {subject} remained resident{}.",
        bytes(own),
        words.unwrap_or_default()
    );
    let statement = Statement::new(StatementCode::HeapLeft, text);
    Some(against(statement, LEFT, (subject, own), best))
}

fn idle_threads(tests: &[Test<'_>], subject: &str, others: &[&str]) -> Option<Statement> {
    let own = most(tests, subject, IDLE_THREAD)?;
    let best = best(others, |other| most(tests, other, IDLE_THREAD));
    let words =
        best.map(|(other, least)| format!("; with the best other allocator, {other}, {}", bytes(least)));
    let text = format!(
        "An idle thread took {} of RAM with {subject}{}.",
        bytes(own),
        words.unwrap_or_default()
    );
    let statement = Statement::new(StatementCode::HeapIdleThread, text);
    Some(against(statement, IDLE_THREAD, (subject, own), best))
}

#[cfg(test)]
mod tests_of_sentences {
    use super::*;
    use crate::analysis::groups;
    use crate::workloads::heap::LIVE_SHARE;
    use plimsoll_model::recording::model::Trial;

    fn trial(subject: &str, cpu_ns: f64, live: f64, left: f64) -> Trial {
        let mut trial = Trial::made_up("heap", Vec::new());
        trial.id = format!("heap/{subject}#1");
        trial.subject = subject.to_owned();
        let values = [(OPERATION_CPU, cpu_ns * 1e-9), (LIVE_SHARE, live), (LEFT, left)];
        trial.metrics = values.map(|(name, value)| (name.to_owned(), value)).into();
        trial
    }

    fn said(trials: &[Trial]) -> Vec<Statement> {
        let groups = groups(trials);
        let told = told(&groups.iter().collect::<Vec<_>>()).unwrap();
        std::iter::once(told.finding).chain(told.bullets).collect()
    }

    /// The code, the allocators, and the value of each in this metric.
    fn facts(statement: &Statement, metric: &str) -> (StatementCode, [String; 2], [Option<f64>; 2]) {
        let value = |name: String| {
            let value = statement.values.get(&name)?;
            Some((value * 1e6).round() / 1e6)
        };
        (
            statement.code,
            ["subject", "other"].map(|role| statement.names[role].clone()),
            [value(metric.to_owned()), value(format!("other_{metric}"))],
        )
    }

    fn names(subject: &str, other: &str) -> [String; 2] {
        [subject, other].map(str::to_owned)
    }

    const OURS: &str = "plimsoll:lfh";

    fn with_peers(ours: Trial) -> Vec<Statement> {
        said(&[
            ours,
            trial("jemalloc", 10.0, 50.0, 1048576.0),
            trial("mimalloc", 20.0, 80.0, 2097152.0),
        ])
    }

    /// The only test of the whole text.
    #[test]
    fn text_of_a_comparison() {
        let said = with_peers(trial(OURS, 9.2, 100.0 / 1.3, 0.0));
        let texts: Vec<&str> = said.iter().map(|statement| &*statement.text).collect();
        insta::assert_snapshot!(texts.join("\n"), @"
        plimsoll:lfh took 92.0% of the CPU time of the best other allocator, jemalloc.
        plimsoll:lfh took 1.30 times its live bytes of RAM; the best other allocator, mimalloc, took 1.25.
        After all frees 0 of plimsoll:lfh remained resident, 1.00 MiB of jemalloc.
        ");
    }

    #[test]
    fn plimsoll_is_compared_with_the_best_other_allocator() {
        let said = with_peers(trial(OURS, 9.2, 100.0 / 1.3, 0.0));
        let [time, ram, left] = &said[..] else {
            panic!("{said:?}")
        };
        assert_eq!(
            facts(time, "cpu_time_ratio"),
            (
                StatementCode::HeapCpuTime,
                names(OURS, "jemalloc"),
                [Some(0.92), None]
            )
        );
        assert_eq!(
            facts(ram, "ram_to_live_ratio"),
            (
                StatementCode::HeapRam,
                names(OURS, "mimalloc"),
                [Some(1.3), Some(1.25)]
            )
        );
        assert_eq!(
            facts(left, LEFT),
            (
                StatementCode::HeapLeft,
                names(OURS, "jemalloc"),
                [Some(0.0), Some(1048576.0)]
            )
        );
        let lost = with_peers(trial(OURS, 15.0, 50.0, 0.0));
        assert_eq!(
            facts(&lost[0], "cpu_time_ratio"),
            (
                StatementCode::HeapCpuTime,
                names(OURS, "jemalloc"),
                [Some(1.5), None]
            )
        );
    }

    #[test]
    fn memory_is_compared_without_timed_operations() {
        let mut trials = [trial("glibc", 1.0, 80.0, 0.0), trial(OURS, 1.0, 50.0, 0.0)];
        for trial in &mut trials {
            trial.metrics.remove(OPERATION_CPU);
        }
        assert_eq!(
            facts(&said(&trials)[0], "ram_to_live_ratio"),
            (
                StatementCode::HeapRam,
                names(OURS, "glibc"),
                [Some(2.0), Some(1.25)]
            )
        );
    }

    #[test]
    fn idle_threads_are_compared_without_operations_and_live_bytes() {
        let idle = |subject: &str, bytes: f64| {
            let mut trial = trial(subject, 1.0, 80.0, 0.0);
            trial.metrics = [(IDLE_THREAD.to_owned(), bytes)].into();
            trial
        };
        let said = said(&[idle("glibc", 20480.0), idle(OURS, 10240.0)]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(
            facts(&said[0], IDLE_THREAD),
            (
                StatementCode::HeapIdleThread,
                names(OURS, "glibc"),
                [Some(10240.0), Some(20480.0)]
            )
        );
    }

    #[test]
    fn without_plimsoll_the_cheapest_allocator_is_named() {
        let said = said(&[
            trial("glibc", 20.0, 90.0, 0.0),
            trial("jemalloc", 10.0, 50.0, 0.0),
        ]);
        assert_eq!(
            facts(&said[0], "cpu_time_ratio"),
            (
                StatementCode::HeapCpuTime,
                names("jemalloc", "glibc"),
                [Some(0.5), None]
            )
        );
    }
}
