//! The manifests and scripts of a plan, as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::plan::{Engine, Plan, Task};
use crate::{FleetError, script};

/// Most completions of a Job with retries of its own for each index.
const MOST_INDEXES: usize = 100_000;
/// Longest part of a run's name in the names of objects. A pod's name adds numbers of node and index, and may have 63 letters.
const LONGEST_NAME: usize = 32;
/// Longest DNS label, and longest value of a label.
const LONGEST_LABEL: usize = 63;

/// The tasks of one Job: all, or those of a node.
#[derive(Debug)]
struct Group<'p> {
    node: Option<&'p str>,
    tasks: Vec<&'p Task>,
}

/// A plan that Kubernetes can carry out.
#[derive(Debug)]
pub(super) struct Manifests<'p> {
    plan: &'p Plan,
    namespace: &'p str,
    image: &'p str,
    memory: &'p str,
    /// Name of the claim, and value of the label `app.kubernetes.io/instance` of all objects.
    instance: String,
    groups: Vec<Group<'p>>,
}

impl<'p> Manifests<'p> {
    /// # Errors
    /// [`FleetError::Refused`]: another engine, names that Kubernetes does not accept, limits that several Jobs cannot keep.
    pub(super) fn of(plan: &'p Plan) -> Result<Manifests<'p>, FleetError> {
        let Engine::Kubernetes {
            namespace,
            image,
            nodes,
            memory_limit,
        } = &plan.engine
        else {
            return Err(FleetError::refused(
                format_args!("the engine of the plan is {}, not kubernetes", plan.engine.name()),
                "submit it to that engine",
            ));
        };
        if !is_label(namespace) {
            return Err(FleetError::refused(
                format_args!("`{namespace}` is no name of a namespace"),
                "see `kubectl get namespaces`",
            ));
        }
        if let Some(node) = nodes.iter().find(|node| !is_node(node)) {
            return Err(FleetError::refused(
                format_args!("`{node}` is no name of a node"),
                "see the label kubernetes.io/hostname in `kubectl get nodes --show-labels`",
            ));
        }
        if !is_quantity(memory_limit) {
            return Err(FleetError::refused(
                format_args!("`{memory_limit}` is no amount of memory"),
                "write for example 4Gi",
            ));
        }
        let groups = groups(plan);
        check_limits(plan, &groups)?;
        Ok(Manifests {
            plan,
            namespace,
            image,
            memory: memory_limit,
            instance: object_name(plan.run.as_str()),
            groups,
        })
    }

    pub(super) fn namespace(&self) -> &str {
        self.namespace
    }

    /// The label of the Jobs.
    pub(super) fn selector(&self) -> String {
        format!("app.kubernetes.io/instance={}", self.instance)
    }

    /// The files of the engine, by name.
    pub(super) fn files(&self) -> [(&'static str, String); 7] {
        let common = self.common();
        let filled = |text: &str| script::fill(text, &common);
        [
            ("tasks.tsv", self.task_ids()),
            ("job.yaml", self.jobs()),
            ("claim.yaml", filled(include_str!("claim.yaml"))),
            ("files.yaml", filled(include_str!("files.yaml"))),
            ("submit.sh", filled(include_str!("submit.sh"))),
            ("fetch.sh", filled(include_str!("fetch.sh"))),
            ("pod-task.sh", include_str!("pod-task.sh").to_owned()),
        ]
    }

    fn common(&self) -> [(&'static str, &str); 5] {
        [
            ("RUN", self.plan.run.as_str()),
            ("NAMESPACE", self.namespace),
            ("INSTANCE", &self.instance),
            ("IMAGE", self.image),
            ("MEMORY", self.memory),
        ]
    }

    /// A task's id a line, in the order of the Jobs and their indexes.
    fn task_ids(&self) -> String {
        let tasks = self.groups.iter().flat_map(|group| &group.tasks);
        tasks.map(|task| format!("{}\n", task.id)).collect()
    }

    /// The Jobs, one document each. The comments stand in the first.
    fn jobs(&self) -> String {
        let mut text = String::new();
        let mut first_line = 1;
        for (number, group) in self.groups.iter().enumerate() {
            let job = self.job(group, number, first_line);
            if number == 0 {
                text.push_str(&job);
            } else {
                text.push_str("---\n");
                let is_comment = |line: &&str| line.trim_start().starts_with('#');
                for line in job.lines().filter(|line| !is_comment(line)) {
                    text.push_str(line);
                    text.push('\n');
                }
            }
            first_line += group.tasks.len();
        }
        text
    }

    fn job(&self, group: &Group<'_>, number: usize, first_line: usize) -> String {
        let plan = self.plan;
        let (name, about, placement, parallelism) = match group.node {
            None => (
                self.instance.clone(),
                format!("The fleet {}: a Job, each of its indexes is a task.", plan.run),
                include_str!("placement-any.yaml"),
                plan.at_most as usize,
            ),
            Some(_) => (
                format!("{}-{number}", self.instance),
                format!(
                    "The fleet {}: a Job for each node, each of its indexes is a task.",
                    plan.run
                ),
                include_str!("placement-node.yaml"),
                1,
            ),
        };
        let placement_values = [
            ("INSTANCE", self.instance.as_str()),
            ("NODE", group.node.unwrap_or_default()),
        ];
        let completions = group.tasks.len().to_string();
        let values = [
            ("ABOUT", about),
            ("JOB", name),
            ("COMPLETIONS", completions),
            ("PARALLELISM", parallelism.min(group.tasks.len()).to_string()),
            ("RETRIES", plan.retries.to_string()),
            ("STOP_AFTER", stop_after(plan)),
            ("FIRST_LINE", first_line.to_string()),
            ("PLACEMENT", script::fill(placement, &placement_values)),
        ];
        let values = values.iter().map(|(name, value)| (*name, value.as_str()));
        let values: Vec<(&str, &str)> = values.chain(self.common()).collect();
        script::fill(include_str!("job.yaml"), &values)
    }
}

/// The lines about the end after failed tasks; empty if any number may fail.
fn stop_after(plan: &Plan) -> String {
    let Some(failures) = plan.stop_after else {
        return String::new();
    };
    let mut text = String::new();
    let most = failures.saturating_sub(1);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  # One more failed task ends the Job and its pods.");
    let _ = writeln!(text, "  maxFailedIndexes: {most}");
    text
}

/// The tasks by node, in the order of their first tasks; tasks without a node together.
fn groups(plan: &Plan) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for task in &plan.tasks {
        let node = task.host.as_deref();
        let place = *places.entry(node).or_insert_with(|| {
            groups.push(Group {
                node,
                tasks: Vec::new(),
            });
            groups.len() - 1
        });
        groups[place].tasks.push(task);
    }
    groups
}

fn check_limits(plan: &Plan, groups: &[Group<'_>]) -> Result<(), FleetError> {
    if let Some(large) = groups.iter().find(|group| group.tasks.len() > MOST_INDEXES) {
        return Err(FleetError::refused(
            format_args!(
                "a Job of Kubernetes has at most {MOST_INDEXES} tasks, not {}",
                large.tasks.len()
            ),
            "plan several fleets",
        ));
    }
    if groups.len() == 1 {
        return Ok(());
    }
    if groups.len() > plan.at_most as usize {
        return Err(FleetError::refused(
            format_args!(
                "Kubernetes starts a Job on each of {} nodes at once, more than {}",
                groups.len(),
                plan.at_most
            ),
            "raise --at-most, list fewer nodes, or let the scheduler choose with --tasks",
        ));
    }
    if plan.stop_after.is_some() {
        return Err(FleetError::refused(
            "the Jobs of several nodes do not stop each other",
            "leave out --stop-after, or let the scheduler choose the nodes with --tasks",
        ));
    }
    Ok(())
}

/// The name of a run as part of DNS names; a hash distinguishes runs with the same part.
fn object_name(run: &str) -> String {
    let part: String = run.replace(['.', '_'], "-").chars().take(LONGEST_NAME).collect();
    let part = part.trim_end_matches('-');
    if part == run {
        return format!("plimsoll-{part}");
    }
    let hash = Sha256::digest(run);
    format!("plimsoll-{part}-{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2])
}

/// Whether it is a DNS label.
fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST_LABEL).contains(&text.len())
        && text.bytes().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether it can be the value of the label `kubernetes.io/hostname`.
fn is_node(text: &str) -> bool {
    text.len() <= LONGEST_LABEL && text.split('.').all(is_label)
}

/// Whether it is a whole number with a unit of memory or without.
fn is_quantity(text: &str) -> bool {
    let units = ["Ki", "Mi", "Gi", "Ti", "k", "M", "G", "T"];
    let number = units
        .iter()
        .find_map(|unit| text.strip_suffix(unit))
        .unwrap_or(text);
    (1..=15).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && !number.starts_with('0')
}
