//! Pages of the commands on fleets.

use super::{BROWSER, COLOURS, NO_COLOR, Page, Rows, TERM, example};

const FOLDER: Rows = &[
    (
        "DIR/plan.json",
        "Plan: tasks, engine, limits, hashes, and the actions as root on each host.",
    ),
    ("DIR/submit.sh", "Commands of a submission, for a run by hand."),
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
                    "Plan a scenario on 20 hosts of a Slurm partition, then submit it:",
                ),
                example("plimsoll fleet submit fleet-1", "Submit the tasks to Slurm:"),
                example(
                    "plimsoll fleet collect fleet-1",
                    "Merge the results that have arrived, and list the tasks that are not done:",
                ),
                example(
                    "plimsoll fleet report fleet-1 --open",
                    "Report the differences among the hosts:",
                ),
            ],
            exit: "collect: code 2 if a task is not done. report: 6 and 7 as compare.",
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
                    "Plan three tasks for each host of a file, by ssh:",
                ),
                example(
                    "plimsoll fleet plan thrash N=5 --folder fleet-2 --slurm batch --tasks 300 --at-most 50",
                    "Plan 300 tasks on a Slurm partition, on at most 50 hosts at a time:",
                ),
                example(
                    "plimsoll fleet plan map --folder fleet-3 --k8s --image debian:stable-slim --nodes a,b,c",
                    "Plan a task on each of three nodes of Kubernetes:",
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
                    "Print the commands of a submission:",
                ),
                example("plimsoll fleet submit fleet-1", "Submit the tasks:"),
            ],
            exit: "3 if the engine refuses the tasks. By ssh, it ends with the last task: 2 if a task has no result.",
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
                "End the running tasks, which undo their changes, and start no other:",
            )],
            exit: "3 if a task could not be ended.",
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
                example("plimsoll fleet collect fleet-1 --json", "The same for a program:"),
            ],
            exit: "2 if a task failed, is missing or is corrupt; the data set has the others.",
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
                    "Compare two dates or images, and fail a job on a regression of more than a tenth:",
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
