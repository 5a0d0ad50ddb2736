//! Plans on a machine without zram: the same trials on a swap file.

use std::collections::HashSet;

use plimsoll_model::recording::{Warning, WarningCode};
use plimsoll_model::scenario::{Plan, Settings, Subject};

/// Moves the trials on zram to a swap file if `zram_missing`. A trial that names an algorithm stays on zram. Returns
/// a warning if a trial moved.
pub(super) fn without_zram(plan: &mut Plan, zram_missing: impl Fn(&Settings) -> bool) -> Option<Warning> {
    let mut moved = 0;
    for trial in &mut plan.trials {
        let asked = trial.settings.subject.to_string();
        if trial.settings.subject != Subject::Zram(None) || !zram_missing(&trial.settings) {
            continue;
        }
        let instead = Subject::SwapFile.to_string();
        trial.settings = trial.settings.with_subject(Subject::SwapFile);
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
    (moved > 0).then(|| {
        let text = format!(
            "zram is missing, so {moved} trials run on a swap file instead; `modprobe zram` (from the kernel's \
             extra modules) makes the subject available"
        );
        Warning::new(WarningCode::SubjectReplaced, text)
    })
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
    fn nothing_moves_on_a_machine_with_zram() {
        let mut plan = plan("zram");
        let before = plan.clone();
        assert_eq!(without_zram(&mut plan, |_| false), None);
        assert_eq!(plan, before);
    }
}
