//! The tables of a data set.
//!
//! `run`, `host` and `task` are parts of the path of a file (Hive-style partitions), so `samples`, `trials` and `metrics` have no such
//! columns. Readers take partitions as text (`hive_types_autocast = false` in DuckDB): a task may be named `7`.

use plimsoll_model::recording::table::{Column, Kind};

use Kind::{Flag, Integer, Number, Text};

/// `tasks.parquet`: one row per task of the plan.
pub const TASKS: &[Column] = &[
    text("run", "Name of the fleet's run."),
    text("task", "Id of the task."),
    optional(
        "host",
        Text,
        "",
        "Host of the result, else of the last attempt, else the host in the plan.",
    ),
    integer("repeat", "Repeat of the task, from 1."),
    text("state", "`done`, `failed`, `missing`, `corrupt` or `unreadable`."),
    optional("reason", Text, "", "The reason for a state other than `done`."),
    integer("attempts", "Attempts that began."),
    text(
        "attempt_list",
        "The attempts as a JSON list: number, host, outcome, exit, started, ended.",
    ),
    optional("attempt", Integer, "", "Number of the attempt with the result."),
    optional(
        "exit",
        Integer,
        "",
        "Exit code of the result or of the last attempt.",
    ),
    optional(
        "engine_restarts",
        Integer,
        "",
        "Times that the engine started the task again.",
    ),
    optional(
        "engine_state",
        Text,
        "",
        "State of the task in the engine's own record: `COMPLETED`, `NODE_FAIL`.",
    ),
    optional(
        "engine_hosts",
        Text,
        "",
        "Hosts of the starts in the engine's own record, as a JSON list.",
    ),
    optional("started", Text, "", "Start of the result's run in UTC."),
    optional("ended", Text, "", "End of the result's run in UTC."),
    optional("binary_sha256", Text, "", "SHA-256 of the program that ran."),
    optional(
        "class",
        Text,
        "",
        "Class of the host: that of the hosts file, else its hardware.",
    ),
    optional("architecture", Text, "", "Architecture of the host."),
    optional("machine", Text, "", "Model of the host."),
    optional("kernel", Text, "", "Kernel of the host."),
    optional("cpus", Integer, "", "CPUs of the host."),
    optional("memory_bytes", Integer, "bytes", "Memory of the host."),
    optional("swap", Text, "", "Swap devices of the host, as JSON."),
    optional("settings", Text, "", "Settings of the host by name, as JSON."),
    optional("samples", Integer, "", "Rows of the task's samples."),
    optional("trials", Integer, "", "Rows of the task's trials."),
    optional("metrics", Integer, "", "Rows of the task's metrics."),
];

/// `trials.parquet`: one row per trial.
pub const TRIALS: &[Column] = &[
    text("trial", "Id of the trial."),
    text("workload", "Name of the workload."),
    text("subject", "The swap device, pager or allocator under test."),
    text("params", "Swept and headline parameters by name, as JSON."),
    integer("repeat", "Repeat of the trial in its run, from 1."),
    text("status", "`ok`, `failed` or `untrustworthy`."),
    flag(
        "verified",
        "Whether the verification of the workload ran and passed.",
    ),
    optional(
        "reasons",
        Text,
        "",
        "Reasons of a status other than `ok`, a line each.",
    ),
    nanoseconds("start_ns", "Start, in the time of the samples."),
    nanoseconds("end_ns", "End, in the time of the samples."),
];

/// `metrics.parquet`: one row per value of a trial.
pub const METRICS: &[Column] = &[
    text("trial", "Id of the trial."),
    text("workload", "Name of the workload."),
    text("subject", "The swap device, pager or allocator under test."),
    text("params", "Swept and headline parameters by name, as JSON."),
    integer("repeat", "Repeat of the trial in its run, from 1."),
    optional(
        "phase",
        Text,
        "",
        "Phase of the value; absent for a metric of the whole trial.",
    ),
    text("metric", "Name of the value."),
    text(
        "unit",
        "Unit: `seconds`, `GB/s`, `per second`, `bytes`, `ratio`, `percent` or `number`.",
    ),
    optional(
        "better",
        Text,
        "",
        "`less`, `more` or `neither`; absent for a value that is no known metric.",
    ),
    flag("headline", "Whether it is a headline metric of its workload."),
    Column {
        name: "value",
        kind: Number,
        optional: false,
        unit: "",
        meaning: "The value, in `unit`.",
    },
    text(
        "status",
        "Status of the value: `ok`, `failed` or `untrustworthy`.",
    ),
    flag("trusted", "Whether `status` is `ok`."),
    optional(
        "why",
        Text,
        "",
        "The confounders that spoil it, or the reasons of the failed trial.",
    ),
];

const fn column(name: &'static str, kind: Kind, meaning: &'static str) -> Column {
    Column {
        name,
        kind,
        optional: false,
        unit: "",
        meaning,
    }
}

const fn text(name: &'static str, meaning: &'static str) -> Column {
    column(name, Text, meaning)
}

const fn integer(name: &'static str, meaning: &'static str) -> Column {
    column(name, Integer, meaning)
}

const fn flag(name: &'static str, meaning: &'static str) -> Column {
    column(name, Flag, meaning)
}

const fn nanoseconds(name: &'static str, meaning: &'static str) -> Column {
    Column {
        unit: "nanoseconds",
        ..column(name, Integer, meaning)
    }
}

const fn optional(name: &'static str, kind: Kind, unit: &'static str, meaning: &'static str) -> Column {
    Column {
        optional: true,
        unit,
        ..column(name, kind, meaning)
    }
}
