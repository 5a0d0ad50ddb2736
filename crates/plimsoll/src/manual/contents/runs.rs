//! Pages of experiments and their recordings.

use super::{BROWSER, COLOURS, JOURNALS, NO_COLOR, Page, RECORDINGS, STATE, SWAP_FILES, TERM, example};

pub(super) const PAGES: &[(&str, Page)] = &[
    (
        "plimsoll-run",
        Page {
            examples: &[
                example(
                    "plimsoll run compression --quick",
                    "Run an experiment in about a minute and write a report:",
                ),
                example(
                    "plimsoll run thrash N=5 S=10M --repeat 6",
                    "Set keys of the scenario, and repeat for intervals:",
                ),
                example(
                    "plimsoll run compression --set 'subject=[\"zram:lz4\", \"swapfile\"]' --dry-run",
                    "Print the plan of a sweep:",
                ),
                example(
                    "plimsoll run --resume @latest",
                    "Resume the newest recording after a kill or a crash:",
                ),
            ],
            exit: "",
            files: &[RECORDINGS, JOURNALS, SWAP_FILES],
            environment: &[NO_COLOR, TERM, BROWSER, STATE],
            see_also: &[
                ("plimsoll", 1),
                ("plimsoll-list", 1),
                ("plimsoll-report", 1),
                ("plimsoll-cleanup", 1),
            ],
        },
    ),
    (
        "plimsoll-size",
        Page {
            examples: &[
                example(
                    "plimsoll size -- sort --parallel=2 data.txt",
                    "Measure the RAM that a program needs without swap and on each swap of this machine:",
                ),
                example(
                    "plimsoll size --engine none,zram:lz4 --repeat 6 --tolerate 10% -- ./batch-job",
                    "Compare no swap with zram, for a slowdown of at most 10%, with 95% intervals:",
                ),
                example(
                    "plimsoll size --metric 'ops/s: ([0-9.]+)' --higher-is-better -- ./benchmark",
                    "Judge by the program's own number instead of by time:",
                ),
                example(
                    "plimsoll size --engine none --fail-if-needs-more-than 600M -- ./server-test",
                    "Fail a CI job when the program outgrows its memory budget:",
                ),
                example(
                    "plimsoll size --cgroup /system.slice/web.service",
                    "Find the RAM that a service needs, in ten minutes:",
                ),
                example(
                    "plimsoll size --pid 4242 --psi 0.5% --duration 1h --floor 512M",
                    "Size the cgroup of a process for an hour, with more pressure, and never below 512 MiB:",
                ),
            ],
            exit: "Code 6: the program needs more than --fail-if-needs-more-than. Code 7: also if no trustworthy result \
                   tells whether it does. Of a service: 2 if it ended, its cgroup was removed, or another program changed \
                   the cap meanwhile; 5 if the OOM killer killed one of its processes.",
            files: &[RECORDINGS, JOURNALS, SWAP_FILES],
            environment: &[NO_COLOR, TERM, BROWSER, STATE],
            see_also: &[
                ("plimsoll", 1),
                ("plimsoll-run", 1),
                ("plimsoll-report", 1),
                ("plimsoll-compare", 1),
                ("plimsoll-cleanup", 1),
                ("cgroups", 7),
                ("systemd.resource-control", 5),
            ],
        },
    ),
    (
        "plimsoll-list",
        Page {
            examples: &[
                example("plimsoll list", "List the built-in scenarios:"),
                example("plimsoll list --keys wscap", "List the keys of a workload:"),
            ],
            exit: "",
            files: &[],
            environment: COLOURS,
            see_also: &[("plimsoll", 1), ("plimsoll-show", 1), ("plimsoll-run", 1)],
        },
    ),
    (
        "plimsoll-show",
        Page {
            examples: &[
                example(
                    "plimsoll show thrash",
                    "Print a scenario, as a start for one of your own:",
                ),
                example(
                    "plimsoll show @latest",
                    "Print the scenario of the newest recording, with every value resolved:",
                ),
            ],
            exit: "",
            files: &[RECORDINGS],
            environment: COLOURS,
            see_also: &[("plimsoll", 1), ("plimsoll-list", 1), ("plimsoll-run", 1)],
        },
    ),
    (
        "plimsoll-runs",
        Page {
            examples: &[
                example("plimsoll runs", "List the recordings, newest first:"),
                example("plimsoll runs --json", "The same for a program:"),
            ],
            exit: "",
            files: &[RECORDINGS],
            environment: COLOURS,
            see_also: &[("plimsoll", 1), ("plimsoll-report", 1), ("plimsoll-compare", 1)],
        },
    ),
    (
        "plimsoll-report",
        Page {
            examples: &[
                example(
                    "plimsoll report @latest --open",
                    "Write the report of the newest recording and open it:",
                ),
                example(
                    "plimsoll report @-1 --format text",
                    "Print the summary of the one before:",
                ),
                example(
                    "plimsoll report compression --format csv",
                    "Name the only recording that begins so:",
                ),
            ],
            exit: "",
            files: &[RECORDINGS],
            environment: &[BROWSER, NO_COLOR, TERM],
            see_also: &[
                ("plimsoll", 1),
                ("plimsoll-runs", 1),
                ("plimsoll-compare", 1),
                ("plimsoll-export", 1),
            ],
        },
    ),
    (
        "plimsoll-compare",
        Page {
            examples: &[
                example(
                    "plimsoll compare @-1 @latest",
                    "Compare the newest recording with the one before:",
                ),
                example(
                    "plimsoll compare before after --fail-on 'restore.seconds>10%'",
                    "Fail a job on a regression of more than a tenth:",
                ),
            ],
            exit: "",
            files: &[RECORDINGS],
            environment: COLOURS,
            see_also: &[("plimsoll", 1), ("plimsoll-runs", 1), ("plimsoll-report", 1)],
        },
    ),
    (
        "plimsoll-export",
        Page {
            examples: &[
                example(
                    "plimsoll export @latest --format csv",
                    "Print the samples of the newest recording:",
                ),
                example(
                    "plimsoll export @latest --format parquet --output samples.parquet",
                    "Write them for another program:",
                ),
            ],
            exit: "",
            files: &[RECORDINGS],
            environment: COLOURS,
            see_also: &[("plimsoll", 1), ("plimsoll-runs", 1), ("plimsoll-report", 1)],
        },
    ),
];
