//! Pages of commands on memory in use: of the machine, processes and cgroups.

use super::{BROWSER, COLOURS, JOURNALS, NO_COLOR, Page, RECORDINGS, STATE, TERM, example};

pub(super) const PAGES: &[(&str, Page)] = &[
    (
        "plimsoll-watch",
        Page {
            examples: &[
                example("plimsoll watch", "Show the memory of the machine:"),
                example(
                    "plimsoll watch --record build -- make",
                    "Watch and record a program:",
                ),
                example("plimsoll watch --replay @latest", "Show the newest recording:"),
                example(
                    "plimsoll watch --serve 127.0.0.1:8080",
                    "Show the machine in a browser:",
                ),
                example(
                    "plimsoll watch --headless --serve 127.0.0.1:9180 --token-file /etc/plimsoll/token",
                    "Serve the page and metrics as a service:",
                ),
            ],
            exit: "With COMMAND: its exit code; 128 + N if signal N ended it; 127 if it was not found; 126 if it could \
                   not be executed.",
            files: &[RECORDINGS],
            environment: &[NO_COLOR, TERM, ("COLORTERM", "If truecolor, use 24-bit colours.")],
            see_also: &[
                ("plimsoll", 1),
                ("plimsoll-ps", 1),
                ("plimsoll-trim", 1),
                ("plimsoll-report", 1),
            ],
        },
    ),
    (
        "plimsoll-ps",
        Page {
            examples: &[
                example(
                    "plimsoll ps --sort rss --limit 10",
                    "List the ten largest processes:",
                ),
                example(
                    "plimsoll ps --storm",
                    "List the processes in a fault storm, with its cap and a remedy:",
                ),
                example(
                    "plimsoll ps --cgroups --depth 2",
                    "List the upper memory cgroups as a tree:",
                ),
            ],
            exit: "",
            files: &[],
            environment: COLOURS,
            see_also: &[
                ("plimsoll", 1),
                ("plimsoll-watch", 1),
                ("plimsoll-trim", 1),
                ("proc", 5),
            ],
        },
    ),
    (
        "plimsoll-trim",
        Page {
            examples: &[
                example(
                    "plimsoll trim 4242",
                    "Reclaim a process, and print the pages that come back within a second:",
                ),
                example(
                    "plimsoll trim --cgroup /web --size 512M",
                    "Reclaim at most 512 MiB of a cgroup:",
                ),
            ],
            exit: "",
            files: &[],
            environment: COLOURS,
            see_also: &[
                ("plimsoll", 1),
                ("plimsoll-ps", 1),
                ("process_madvise", 2),
                ("cgroups", 7),
            ],
        },
    ),
    (
        "plimsoll-hold",
        Page {
            examples: &[
                example(
                    "plimsoll hold --available 500M --duration 5m",
                    "Leave 500 MiB to other programs for five minutes:",
                ),
                example(
                    "plimsoll hold --used 90% --cgroup /web",
                    "Fill a cgroup to 90% of its limit, as root:",
                ),
                example(
                    "plimsoll hold --psi some=10%",
                    "Keep a task waiting for memory 10% of the time, as root:",
                ),
                example(
                    "plimsoll hold --bytes 2G --duration 5m --output",
                    "Record the level and the machine for a report, in the folder plimsoll-runs:",
                ),
            ],
            exit: "0 after the duration, 5 at a signal, 3 if the reserve of the machine was reached or would be, 2 if the \
                   level was never reached.",
            files: &[RECORDINGS, JOURNALS],
            environment: &[NO_COLOR, TERM, BROWSER, STATE],
            see_also: &[
                ("plimsoll", 1),
                ("plimsoll-report", 1),
                ("plimsoll-trim", 1),
                ("plimsoll-cleanup", 1),
                ("cgroups", 7),
                ("proc", 5),
            ],
        },
    ),
    (
        "plimsoll-guard",
        Page {
            examples: &[
                example(
                    "plimsoll guard --dry-run",
                    "Print the decisions for the machine, and carry out none:",
                ),
                example(
                    "plimsoll guard --cgroup /batch",
                    "Let the processes of a cgroup take turns while they thrash, as root:",
                ),
                example(
                    "plimsoll guard --protect nginx --protect-cgroup /system.slice --json",
                    "Guard the machine except a program and a cgroup, and print JSON lines:",
                ),
                example(
                    "plimsoll guard --pid 4242",
                    "Guard a process and its descendants:",
                ),
            ],
            exit: "0 at a signal or after the duration, 1 if there is no such cgroup or process, 2 if it vanished, 3 beside \
                   another guard.",
            files: &[JOURNALS],
            environment: &[STATE, NO_COLOR, TERM],
            see_also: &[
                ("plimsoll", 1),
                ("plimsoll-cleanup", 1),
                ("plimsoll-ps", 1),
                ("plimsoll-trim", 1),
                ("process_madvise", 2),
                ("cgroups", 7),
                ("signal", 7),
            ],
        },
    ),
];
