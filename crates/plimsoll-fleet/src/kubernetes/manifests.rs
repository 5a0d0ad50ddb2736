//! The manifests and scripts of a plan, as text.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::plan::{Engine, Plan, Task};
use crate::{FleetError, script, sha256};

/// Most completions of a Job with retries of its own for each index.
const MOST_INDEXES: usize = 100_000;
/// Longest part of a run's name in the names of objects. A pod's name adds numbers of node and index, and may have 63 letters.
const LONGEST_NAME: usize = 32;
/// Longest DNS label, and longest value of a label.
const LONGEST_LABEL: usize = 63;
/// Longest DNS subdomain.
const LONGEST_SUBDOMAIN: usize = 253;
/// Most retries of an index: `backoffLimitPerIndex` is an int32.
const MOST_RETRIES: u32 = i32::MAX as u32;

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
    tolerations: &'p [String],
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
            tolerations,
        } = &plan.engine
        else {
            return Err(refused(
                format_args!("the engine of the plan is {}", plan.engine.name()),
                "submit it to that engine",
            ));
        };
        check_names(namespace, nodes, tolerations)?;
        if !is_quantity(memory_limit) {
            return Err(refused(
                format_args!("memory limit `{memory_limit}` is not a quantity"),
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
            tolerations,
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

    /// The labels of the tasks' pods. The pod of files.yaml has the same instance.
    pub(super) fn task_pods(&self) -> String {
        format!("app.kubernetes.io/name=plimsoll-fleet,{}", self.selector())
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
                String::new(),
                plan.at_most as usize,
            ),
            Some(node) => (
                format!("{}-{number}", self.instance),
                format!(
                    "The fleet {}: a Job for each node, each of its indexes is a task.",
                    plan.run
                ),
                script::fill(include_str!("placement-node.yaml"), &[("NODE", node)]),
                1,
            ),
        };
        let completions = group.tasks.len();
        let values = [
            ("ABOUT", about),
            ("JOB", name),
            ("COMPLETIONS", completions.to_string()),
            ("PARALLELISM", parallelism.min(completions).to_string()),
            ("RETRIES", plan.retries.to_string()),
            ("STOP_AFTER", stop_after(plan.stop_after, completions)),
            ("FIRST_LINE", first_line.to_string()),
            ("PLACEMENT", placement),
            ("TOLERATIONS", tolerations(self.tolerations)),
        ];
        let values = values.iter().map(|(name, value)| (*name, value.as_str()));
        let values: Vec<(&str, &str)> = values.chain(self.common()).collect();
        script::fill(include_str!("job.yaml"), &values)
    }
}

/// The lines about the end after failed tasks; empty if any number may fail.
fn stop_after(failures: Option<u32>, completions: usize) -> String {
    // The API server refuses `maxFailedIndexes` above `completions`; more failures than tasks stop nothing.
    match failures.filter(|&failures| failures as usize <= completions) {
        None => String::new(),
        Some(failures) => format!(
            "  # `--stop-after` - 1: the next failed task terminates the Job and its running pods.\n  \
             maxFailedIndexes: {}\n",
            failures.saturating_sub(1)
        ),
    }
}

/// The tolerations with a comment for each; for none, a comment on how to add one.
fn tolerations(keys: &[String]) -> String {
    if keys.is_empty() {
        return include_str!("no-tolerations.yaml").to_owned();
    }
    let mut text = include_str!("tolerations.yaml").to_owned();
    for key in keys {
        let values = [("KEY", key.as_str())];
        text.push_str(&script::fill(include_str!("toleration.yaml"), &values));
    }
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

fn refused(reason: impl Display, advice: &str) -> FleetError {
    FleetError::refused(format_args!("cannot plan for Kubernetes: {reason}"), advice)
}

fn check_names(namespace: &str, nodes: &[String], tolerations: &[String]) -> Result<(), FleetError> {
    if !is_label(namespace) {
        return Err(refused(
            format_args!("namespace `{namespace}` is not a DNS label"),
            "see `kubectl get namespaces`",
        ));
    }
    if let Some(node) = nodes.iter().find(|node| !is_node(node)) {
        return Err(refused(
            format_args!("node `{node}` is not a value of the label kubernetes.io/hostname"),
            "see `kubectl get nodes --show-labels`",
        ));
    }
    match tolerations.iter().find(|key| !is_label_key(key)) {
        Some(key) => Err(refused(
            format_args!("toleration `{key}` is not the key of a taint"),
            "see the taints in `kubectl describe nodes`",
        )),
        None => Ok(()),
    }
}

fn check_limits(plan: &Plan, groups: &[Group<'_>]) -> Result<(), FleetError> {
    if let Some(large) = groups.iter().find(|group| group.tasks.len() > MOST_INDEXES) {
        return Err(refused(
            format_args!(
                "{} tasks exceed the {MOST_INDEXES} indexes of a Job",
                large.tasks.len()
            ),
            "split them into several fleets",
        ));
    }
    if plan.retries > MOST_RETRIES {
        return Err(refused(
            format_args!("--retries {} exceeds {MOST_RETRIES}", plan.retries),
            "lower --retries",
        ));
    }
    if groups.len() == 1 {
        return Ok(());
    }
    if groups.len() > plan.at_most as usize {
        return Err(refused(
            format_args!(
                "{} nodes exceed --at-most {}, and all node Jobs start at once",
                groups.len(),
                plan.at_most
            ),
            "raise --at-most, list fewer nodes, or let the scheduler choose with --tasks",
        ));
    }
    if plan.stop_after.is_some() {
        return Err(refused(
            format_args!(
                "--stop-after is the limit of one Job, and {} nodes have a Job each",
                groups.len()
            ),
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
    format!("plimsoll-{part}-{}", &sha256::of_bytes(run)[..6])
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

/// Whether it can be the key of a label or taint: `[SUBDOMAIN/]NAME`.
fn is_label_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let is_subdomain = |text: &str| text.len() <= LONGEST_SUBDOMAIN && text.split('.').all(is_label);
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_outer = |letter: char| letter.is_ascii_alphanumeric();
    prefix.is_none_or(is_subdomain)
        && (1..=LONGEST_LABEL).contains(&name.len())
        && name.bytes().all(is_inner)
        && name.starts_with(is_outer)
        && name.ends_with(is_outer)
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
