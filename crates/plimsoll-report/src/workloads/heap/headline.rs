//! The headline of a heap run: an allocator against the best other one.

use std::collections::HashSet;

use crate::analysis::Group;
use crate::workloads::heap::{LEFT, OPERATION_CPU, Test, is_ours, ram_per_live, standing, tests};
use plimsoll_model::quantity::{bytes, significant};

const MOST_NAMED: usize = 3;

/// The standing of Plimsoll's heap or, if it did not run, of the allocator with the least CPU time.
pub(super) fn sentence(groups: &[&Group]) -> Option<String> {
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
    let told: Vec<String> = match (others.is_empty(), ours.is_empty()) {
        (false, false) => ours
            .iter()
            .flat_map(|subject| allocators_named(&tests, subject, &others))
            .collect(),
        _ => {
            let mean = |subject: &str| Some(standing(&tests, subject, OPERATION_CPU, |_| true)?.mean);
            let by_mean = |a: &&str, b: &&str| {
                let of = |subject: &str| mean(subject).unwrap_or(f64::INFINITY);
                of(a).total_cmp(&of(b))
            };
            let best = subjects.iter().copied().min_by(by_mean)?;
            let others: Vec<&str> = subjects.iter().copied().filter(|other| *other != best).collect();
            allocators_named(&tests, best, &others)
        }
    };
    (!told.is_empty()).then(|| told.join(" "))
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

/// Time and memory of an allocator, against those of others.
fn allocators_named(tests: &[Test<'_>], subject: &str, others: &[&str]) -> Vec<String> {
    let time = time(tests, subject, others);
    let named = if time.is_some() { "It" } else { subject };
    time.into_iter()
        .chain(memory(tests, subject, named, others))
        .collect()
}

fn time(tests: &[Test<'_>], subject: &str, others: &[&str]) -> Option<String> {
    let found = standing(tests, subject, OPERATION_CPU, |other| others.contains(&other))?;
    let named: Vec<&str> = found.best.iter().map(String::as_str).take(MOST_NAMED).collect();
    let more = if found.best.len() > MOST_NAMED {
        ", ..."
    } else {
        ""
    };
    let of = match found.tests {
        1 => format!("({}{more})", named.join(", ")),
        several => format!(
            "in each of {several} tests ({}{more}; geometric mean), at worst {} times that of {} ({})",
            named.join(", "),
            significant(found.worst.0),
            found.worst.2,
            found.worst.1,
        ),
    };
    let times = if found.mean < 1.0 { "of" } else { "times" };
    Some(format!(
        "{subject} took {} {times} the CPU time of the best other allocator {of}.",
        significant(found.mean)
    ))
}

fn memory(tests: &[Test<'_>], subject: &str, named: &str, others: &[&str]) -> Option<String> {
    let own = ram_per_live(tests, subject)?;
    let mut text = format!("{named} took {} times its live bytes of RAM", significant(own));
    let best = others
        .iter()
        .filter_map(|other| Some((*other, ram_per_live(tests, other)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((other, least)) = best {
        text += &format!("; the best other allocator, {other}, took {}", significant(least));
    }
    let left = |subject: &str| {
        let left = tests.iter().filter_map(|test| test.median(subject, LEFT));
        left.reduce(f64::max)
    };
    if let Some(own) = left(subject) {
        text += &format!("; {} remained resident after all frees", bytes(own));
        let best = others
            .iter()
            .filter_map(|other| Some((*other, left(other)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((other, least)) = best {
            text += &format!(" ({} of {other})", bytes(least));
        }
    }
    Some(text + ".")
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

    fn said(trials: &[Trial]) -> String {
        let groups = groups(trials);
        sentence(&groups.iter().collect::<Vec<_>>()).unwrap()
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
            "plimsoll:lfh took 0.92 of the CPU time of the best other allocator (jemalloc). It took 1.30 times its live \
             bytes of RAM; the best other allocator, mimalloc, took 1.25; 0 remained resident after all frees (1.00 MiB of \
             jemalloc)."
        );
        let lost = with(trial("plimsoll:lfh", 15.0, 50.0, 0.0));
        assert!(
            lost.starts_with(
                "plimsoll:lfh took 1.50 times the CPU time of the best other allocator (jemalloc)."
            ),
            "{lost}"
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
        let said = said(&trials);
        assert!(
            said.starts_with("plimsoll:lfh took 2.00 times its live bytes of RAM; the best other allocator, glibc, took 1.25;"),
            "{said}"
        );
    }

    #[test]
    fn without_plimsoll_the_cheapest_allocator_is_named() {
        let said = said(&[
            trial("glibc", 20.0, 90.0, 0.0),
            trial("jemalloc", 10.0, 50.0, 0.0),
        ]);
        assert!(
            said.starts_with("jemalloc took 0.50 of the CPU time of the best other allocator (glibc)."),
            "{said}"
        );
    }
}
