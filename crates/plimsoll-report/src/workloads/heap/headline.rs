//! The headline of a heap run: an allocator against the best other one.

use std::collections::HashSet;

use crate::analysis::Group;
use crate::workloads::heap::{IDLE_THREAD, LEFT, OPERATION_CPU, Test, is_ours, margin, ram_per_live, tests};
use crate::workloads::sentence::{Told, brief};
use plimsoll_model::quantity::{bytes, significant};

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
    let sentences: Vec<String> = match (others.is_empty(), ours.is_empty()) {
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
    let mut sentences = sentences.into_iter();
    Some(Told {
        finding: brief(&[sentences.next()?]),
        bullets: sentences.collect(),
    })
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

/// Time and memory of an allocator, against those of others: a sentence each.
fn allocators_named(tests: &[Test<'_>], subject: &str, others: &[&str]) -> Vec<String> {
    let mut said = time(tests, subject, others);
    said.extend(memory(tests, subject, others));
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

fn time(tests: &[Test<'_>], subject: &str, others: &[&str]) -> Vec<String> {
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
    match found.tests {
        1 => vec![format!("{took}, {named}.")],
        several => vec![
            format!("{took} in {several} tests."),
            format!(
                "That is the geometric mean against the best of each test ({named}); at worst {subject} took {} that \
                 of {} ({}).",
                share(found.worst.0),
                found.worst.2,
                found.worst.1,
            ),
        ],
    }
}

fn memory(tests: &[Test<'_>], subject: &str, others: &[&str]) -> Vec<String> {
    let Some(own) = ram_per_live(tests, subject) else {
        return Vec::new();
    };
    let best = others
        .iter()
        .filter_map(|other| Some((*other, ram_per_live(tests, other)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let against = best.map_or(String::new(), |(other, least)| {
        format!("; the best other allocator, {other}, took {}", significant(least))
    });
    let mut said = vec![format!(
        "{subject} took {} times its live bytes of RAM{against}.",
        significant(own)
    )];
    let left = |subject: &str| {
        let left = tests.iter().filter_map(|test| test.median(subject, LEFT));
        left.reduce(f64::max)
    };
    if let Some(own) = left(subject) {
        let best = others
            .iter()
            .filter_map(|other| Some((*other, left(other)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let against = best.map_or(String::new(), |(other, least)| {
            format!(", {} of {other}", bytes(least))
        });
        said.push(format!(
            "After all frees {} of {subject} remained resident{against}.",
            bytes(own)
        ));
    }
    said
}

fn idle_threads(tests: &[Test<'_>], subject: &str, others: &[&str]) -> Option<String> {
    let thread = |subject: &str| {
        let thread = tests.iter().filter_map(|test| test.median(subject, IDLE_THREAD));
        thread.reduce(f64::max)
    };
    let own = thread(subject)?;
    let best = others
        .iter()
        .filter_map(|other| Some((*other, thread(other)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let against = best.map_or(String::new(), |(other, least)| {
        format!("; with the best other allocator, {other}, {}", bytes(least))
    });
    Some(format!(
        "An idle thread took {} of RAM with {subject}{against}.",
        bytes(own)
    ))
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
        let figures = [(OPERATION_CPU, cpu_ns * 1e-9), (LIVE_SHARE, live), (LEFT, left)];
        trial.metrics = figures.map(|(name, value)| (name.to_owned(), value)).into();
        trial
    }

    fn said(trials: &[Trial]) -> Vec<String> {
        let groups = groups(trials);
        let told = told(&groups.iter().collect::<Vec<_>>()).unwrap();
        std::iter::once(told.finding).chain(told.bullets).collect()
    }

    #[test]
    fn plimsoll_is_compared_with_the_best_other_allocator() {
        let peers = [
            trial("jemalloc", 10.0, 50.0, 1048576.0),
            trial("mimalloc", 20.0, 80.0, 2097152.0),
        ];
        let with = |ours: Trial| said(&[&[ours], &peers[..]].concat());
        assert_eq!(
            with(trial("plimsoll:lfh", 9.2, 100.0 / 1.3, 0.0)),
            [
                "plimsoll:lfh took 92.0% of the CPU time of the best other allocator, jemalloc.",
                "plimsoll:lfh took 1.30 times its live bytes of RAM; the best other allocator, mimalloc, took 1.25.",
                "After all frees 0 of plimsoll:lfh remained resident, 1.00 MiB of jemalloc.",
            ]
        );
        let lost = with(trial("plimsoll:lfh", 15.0, 50.0, 0.0));
        assert_eq!(
            lost[0],
            "plimsoll:lfh took 1.50 times the CPU time of the best other allocator, jemalloc."
        );
    }

    #[test]
    fn memory_is_compared_without_timed_operations() {
        let mut trials = [
            trial("glibc", 1.0, 80.0, 0.0),
            trial("plimsoll:lfh", 1.0, 50.0, 0.0),
        ];
        for trial in &mut trials {
            trial.metrics.remove(OPERATION_CPU);
        }
        assert_eq!(
            said(&trials)[0],
            "plimsoll:lfh took 2.00 times its live bytes of RAM; the best other allocator, glibc, took 1.25."
        );
    }

    #[test]
    fn idle_threads_are_compared_without_operations_and_live_bytes() {
        let idle = |subject: &str, bytes: f64| {
            let mut trial = trial(subject, 1.0, 80.0, 0.0);
            trial.metrics = [(IDLE_THREAD.to_owned(), bytes)].into();
            trial
        };
        assert_eq!(
            said(&[idle("glibc", 20480.0), idle("plimsoll:lfh", 10240.0)]),
            [
                "An idle thread took 10.0 KiB of RAM with plimsoll:lfh; with the best other allocator, glibc, 20.0 KiB."
            ]
        );
    }

    #[test]
    fn without_plimsoll_the_cheapest_allocator_is_named() {
        let said = said(&[
            trial("glibc", 20.0, 90.0, 0.0),
            trial("jemalloc", 10.0, 50.0, 0.0),
        ]);
        assert_eq!(
            said[0],
            "jemalloc took 50.0% of the CPU time of the best other allocator, glibc."
        );
    }
}
