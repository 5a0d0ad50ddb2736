//! Plans on a machine without zram: the same trials on a swap file. Plans of a user without the right to set it up: the same trials
//! on a pager.

use std::collections::HashSet;

use plimsoll_model::recording::{Warning, WarningCode};
use plimsoll_model::scenario::{PagerOptions, Plan, Settings, Subject};

/// Moves the trials on zram to a swap file if `zram_missing`. A trial that names an algorithm stays on zram. Returns
/// a warning if a trial moved.
pub(super) fn without_zram(plan: &mut Plan, zram_missing: impl Fn(&Settings) -> bool) -> Option<Warning> {
    let moved = move_from_zram(plan, &Subject::SwapFile, zram_missing);
    (moved > 0).then(|| {
        let text = format!(
            "zram is missing, so {moved} trials run on a swap file instead; `modprobe zram` (from the kernel's \
             extra modules) makes the subject available"
        );
        Warning::new(WarningCode::SubjectReplaced, text)
    })
}

/// Moves the trials on zram that `need_pager` to a pager. A trial that names an algorithm stays on zram. Returns a warning
/// if a trial moved.
pub(super) fn without_privilege(
    plan: &mut Plan,
    need_pager: impl Fn(&Settings, &Settings) -> bool,
) -> Option<Warning> {
    let pager = Subject::Pager(PagerOptions::default());
    let moved = move_from_zram(plan, &pager, |settings| {
        need_pager(settings, &settings.with_subject(pager.clone()))
    });
    (moved > 0).then(|| {
        let text = format!(
            "this user cannot set up zram, so {moved} trials run on the subject `{pager}` instead, which needs no privilege; \
             run as root to measure zram"
        );
        Warning::new(WarningCode::SubjectReplaced, text)
    })
}

/// Moves the trials on the default zram to `instead`, each combination once. Returns their number.
fn move_from_zram(plan: &mut Plan, instead: &Subject, moves: impl Fn(&Settings) -> bool) -> usize {
    let mut moved = 0;
    let subject = instead;
    for trial in &mut plan.trials {
        let asked = trial.settings.subject.to_string();
        if trial.settings.subject != Subject::Zram(None) || !moves(&trial.settings) {
            continue;
        }
        let instead = subject.to_string();
        trial.settings = trial.settings.with_subject(subject.clone());
        trial.id = trial
            .id
            .replacen(&format!("/{asked}/"), &format!("/{instead}/"), 1);
        for (key, value) in &mut trial.params {
            if key == "subject" {
                value.clone_from(&instead);
            }
        }
        moved += 1;
    }
    let mut seen = HashSet::new();
    plan.trials.retain(|trial| seen.insert(trial.id.clone()));
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::scenario::{AllocatorSet, Document, Machine, Overrides, find};

    fn plan(subjects: &str) -> Plan {
        let machine = Machine {
            ram: 8 << 30,
            available: 6 << 30,
            cgroup_limit: None,
            cpus: 2,
            allocators: AllocatorSet::default(),
        };
        let set = vec![format!("subject={subjects}"), "class=random".to_owned()];
        let overrides = Overrides {
            set,
            repeat: Some(2),
            ..Overrides::default()
        };
        let document = Document::parse(&find("compression").unwrap()).unwrap();
        document.resolve(&machine, &overrides).unwrap()
    }

    #[test]
    fn trials_on_zram_move_to_one_swap_file() {
        let mut plan = plan("[\"zram:lz4\", \"zram\", \"swapfile\", \"zswap\"]");
        assert_eq!(plan.trials.len(), 8);
        let said = without_zram(&mut plan, |_| true);
        assert!(said.is_some_and(|said| said.code == WarningCode::SubjectReplaced));
        let count = |subject: &str| {
            let subjects = plan.trials.iter().map(|trial| trial.settings.subject.to_string());
            subjects.filter(|other| other == subject).count()
        };
        assert_eq!(count("swapfile"), 2, "once a repeat");
        assert_eq!(count("zswap"), 2, "others stay");
        assert_eq!(count("zram:lz4"), 2, "zram itself was asked for");
        assert_eq!(count("zram"), 0);
        assert!(plan.trials.iter().all(|trial| !trial.id.contains("/zram/")));
    }

    #[test]
    fn trials_on_zram_move_to_one_pager_where_it_can_run() {
        let mut plan = plan("[\"zram:lz4\", \"zram\", \"pager\", \"swapfile\"]");
        let told = without_privilege(&mut plan, |zram, pager| {
            assert_eq!(pager.with_subject(zram.subject.clone()), *zram);
            pager.subject == Subject::Pager(PagerOptions::default())
        });
        assert!(told.is_some_and(|told| told.code == WarningCode::SubjectReplaced));
        let count = |subject: &str| {
            let ids = plan
                .trials
                .iter()
                .filter(|trial| trial.id.contains(&format!("/{subject}/")));
            ids.filter(|trial| trial.settings.subject.to_string() == subject)
                .count()
        };
        assert_eq!((count("pager"), count("zram"), count("zram:lz4")), (2, 0, 2));
        assert_eq!(plan.trials.len(), 6);
        assert_eq!(without_privilege(&mut plan, |_, _| true), None);
    }

    #[test]
    fn nothing_moves_on_a_machine_with_zram() {
        let mut plan = plan("zram");
        let before = plan.clone();
        assert_eq!(without_zram(&mut plan, |_| false), None);
        assert_eq!(plan, before);
    }
}
