//! Pages of the commands on fleets.

use super::{BROWSER, COLOURS, NO_COLOR, Page, Rows, TERM, example};

const FOLDER: Rows = &[
    (
        "DIR/plan.json",
        "Plan: tasks, engine, limits, hashes, and the privileged actions of a task.",
    ),
    ("DIR/submit.sh", "Commands that fleet submit runs."),
    (
        "DIR/tasks/ID",
        "Result of a finished task; attempts are in DIR/tasks/ID.attempts.",
    ),
    (
        "DIR/data",
        "Data set of fleet collect: Parquet files by run, host and task.",
    ),
    ("DIR/logs", "Output of the engine and of the tasks."),
];

pub(super) const PAGES: &[(&str, Page)] = &[
    (
        "plimsoll-fleet",
        Page {
            examples: &[
                example(
                    "plimsoll fleet plan compression --folder fleet-1 --slurm batch --tasks 20",
                    "Plan 20 tasks on a Slurm partition:",
                ),
                example("plimsoll fleet submit fleet-1", "Submit the tasks to Slurm:"),
                example(
                    "plimsoll fleet collect fleet-1",
                    "Merge the results that have arrived, and list the tasks that are not done:",
                ),
                example(
                    "plimsoll fleet report fleet-1 --open",
                    "Report the distributions of the metrics and the outlier hosts:",
                ),
            ],
            exit: "collect: 2 if a task is not done. report: 6 if a condition failed, 7 if one cannot be decided.",
            files: FOLDER,
            environment: COLOURS,
            see_also: &[
                ("plimsoll-fleet-plan", 1),
                ("plimsoll-fleet-submit", 1),
                ("plimsoll-fleet-cancel", 1),
                ("plimsoll-fleet-collect", 1),
                ("plimsoll-fleet-report", 1),
                ("plimsoll-run", 1),
            ],
        },
    ),
    (
        "plimsoll-fleet-plan",
        Page {
            examples: &[
                example(
                    "plimsoll fleet plan loadline --quick --folder fleet-1 --hosts hosts.txt --repeat 3",
                    "Plan three tasks for each host of a hosts file, over ssh:",
                ),
                example(
                    "plimsoll fleet plan thrash N=5 --folder fleet-2 --slurm batch --tasks 300 --at-most 50",
                    "Plan 300 tasks on a Slurm partition, of which at most 50 run at a time:",
                ),
                example(
                    "plimsoll fleet plan map --folder fleet-3 --k8s --image registry.example/debian-kmod:1 --nodes a,b,c",
                    "Plan one task on each of three Kubernetes nodes:",
                ),
            ],
            exit: "",
            files: FOLDER,
            environment: COLOURS,
            see_also: &[
                ("plimsoll-fleet", 1),
                ("plimsoll-fleet-submit", 1),
                ("plimsoll-list", 1),
                ("sbatch", 1),
                ("parallel", 1),
                ("kubectl", 1),
            ],
        },
    ),
    (
        "plimsoll-fleet-submit",
        Page {
            examples: &[
                example(
                    "plimsoll fleet submit fleet-1 --dry-run",
                    "Print the commands without running them:",
                ),
                example("plimsoll fleet submit fleet-1", "Submit the tasks:"),
            ],
            exit: "3 if the engine refuses the tasks. With ssh, submit waits for the last task; 2 if a task has no result.",
            files: FOLDER,
            environment: COLOURS,
            see_also: &[
                ("plimsoll-fleet", 1),
                ("plimsoll-fleet-cancel", 1),
                ("plimsoll-fleet-collect", 1),
            ],
        },
    ),
    (
        "plimsoll-fleet-cancel",
        Page {
            examples: &[example(
                "plimsoll fleet cancel fleet-1",
                "Stop the running tasks, which undo their changes, and cancel the waiting ones:",
            )],
            exit: "3 if a task could not be stopped.",
            files: FOLDER,
            environment: COLOURS,
            see_also: &[
                ("plimsoll-fleet", 1),
                ("plimsoll-fleet-submit", 1),
                ("plimsoll-cleanup", 1),
            ],
        },
    ),
    (
        "plimsoll-fleet-collect",
        Page {
            examples: &[
                example(
                    "plimsoll fleet collect fleet-1",
                    "Merge the results, and list the tasks that are not done:",
                ),
                example(
                    "plimsoll fleet collect fleet-1 --json",
                    "Print the state of every task as one JSON document:",
                ),
            ],
            exit: "2 if a task failed, is missing, corrupt or unreadable; the data set has the finished tasks.",
            files: FOLDER,
            environment: COLOURS,
            see_also: &[
                ("plimsoll-fleet", 1),
                ("plimsoll-fleet-report", 1),
                ("plimsoll-export", 1),
            ],
        },
    ),
    (
        "plimsoll-fleet-report",
        Page {
            examples: &[
                example(
                    "plimsoll fleet report fleet-1 --open",
                    "Write the report and open it:",
                ),
                example(
                    "plimsoll fleet report fleet-2 --against fleet-1 --fail-on 'restore.seconds>10%'",
                    "Compare two fleets, and exit with code 6 if the restore time is more than 10% longer:",
                ),
            ],
            exit: "",
            files: FOLDER,
            environment: &[BROWSER, NO_COLOR, TERM],
            see_also: &[
                ("plimsoll-fleet", 1),
                ("plimsoll-fleet-collect", 1),
                ("plimsoll-compare", 1),
            ],
        },
    ),
];
