//! Contents of the man pages that the definition of the command line does not have.

/// The further sections of one page.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    pub examples: &'static [Example],
    /// Exceptions from the exit codes of all commands; may be empty.
    pub exit: &'static str,
    pub files: &'static [(&'static str, &'static str)],
    pub environment: &'static [(&'static str, &'static str)],
    /// Names and sections of other pages.
    pub see_also: &'static [(&'static str, u8)],
}

/// A command line with its meaning.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    pub command: &'static str,
    pub meaning: &'static str,
}

const fn example(command: &'static str, meaning: &'static str) -> Example {
    Example { command, meaning }
}

type Rows = &'static [(&'static str, &'static str)];

const RECORDINGS: (&str, &str) = (
    "plimsoll-runs/",
    "Recordings of runs, one folder each. @latest, @-1 and the start of a name are looked up here.",
);
const JOURNALS: (&str, &str) = (
    "/var/lib/plimsoll",
    "Journals of runs as root, and the lock of the machine. Other users: $XDG_STATE_HOME/plimsoll or \
     ~/.local/state/plimsoll.",
);
const SWAP_FILES: (&str, &str) = (
    "/var/tmp",
    "Swap files of runs, unless the key swap-dir names another folder.",
);
const STATE: (&str, &str) = (
    "PLIMSOLL_STATE_DIR",
    "Folder of the journals, in place of the default.",
);
const BROWSER: (&str, &str) = (
    "BROWSER",
    "Commands for --open, separated by colons; %s stands for the address. The default is xdg-open.",
);
const NO_COLOR: (&str, &str) = ("NO_COLOR", "If not empty, print neither colours nor links.");
const TERM: (&str, &str) = ("TERM", "If dumb, print neither colours nor links.");

const COLOURS: Rows = &[NO_COLOR, TERM];

/// The contents of a page by its name; of an unknown one, those of the program.
pub fn page(name: &str) -> Page {
    let [program, others @ ..] = PAGES;
    let found = others.iter().find(|(known, _)| *known == name);
    found.map_or(program.1, |(_, page)| *page)
}

const PAGES: &[(&str, Page); 23] = &[
    (
        "plimsoll",
        Page {
            examples: &[
                example(
                    "plimsoll doctor",
                    "Check the machine, then print the plan of the shortest experiment:",
                ),
                example(
                    "plimsoll run compression --quick --dry-run",
                    "Without root and without any change:",
                ),
                example(
                    "plimsoll run",
                    "Take the tour of every experiment, in two minutes, as root:",
                ),
                example(
                    "plimsoll compare @-1 @latest",
                    "Compare the newest run with the one before:",
                ),
            ],
            exit: "watch and heap run exit with the code of the program that they run.",
            files: &[RECORDINGS, JOURNALS, SWAP_FILES],
            environment: &[NO_COLOR, TERM, BROWSER, STATE],
            see_also: &[
                ("proc", 5),
                ("cgroups", 7),
                ("madvise", 2),
                ("swapon", 8),
                ("zramctl", 8),
            ],
        },
    ),
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
        "plimsoll-heap",
        Page {
            examples: &[
                example(
                    "plimsoll heap run -- python3 program.py",
                    "Run a program on the low-fragmentation heap:",
                ),
                example("plimsoll heap stat 4242", "Inspect its heaps:"),
            ],
            exit: "heap run exits with the code of the program.",
            files: &[],
            environment: COLOURS,
            see_also: &[
                ("plimsoll", 1),
                ("plimsoll-heap-run", 1),
                ("plimsoll-heap-stat", 1),
                ("malloc", 3),
            ],
        },
    ),
    (
        "plimsoll-heap-run",
        Page {
            examples: &[
                example(
                    "plimsoll heap run -- redis-server",
                    "Run a program in place of its malloc:",
                ),
                example(
                    "plimsoll heap run --hardened -- ./server",
                    "Detect more errors of the program:",
                ),
            ],
            exit: "These codes are of plimsoll itself. A program that starts ends with its own code; 127 if it was not \
                   found; 126 if it could not be executed; 4 if it cannot load the library.",
            files: &[(
                "~/.cache/plimsoll",
                "The unpacked library, checked by hash before each use.",
            )],
            environment: &[
                ("XDG_CACHE_HOME", "Folder of caches, in place of ~/.cache."),
                (
                    "TMPDIR",
                    "Folder for a private copy of the library if there is no cache.",
                ),
                ("LD_PRELOAD", "Set for the program; libraries in it remain."),
                (
                    "PLIMSOLL_HEAP_FRONT_END, PLIMSOLL_HEAP_PROFILE",
                    "Set for the program by the options.",
                ),
            ],
            see_also: &[
                ("plimsoll", 1),
                ("plimsoll-heap-stat", 1),
                ("ld.so", 8),
                ("malloc", 3),
            ],
        },
    ),
    (
        "plimsoll-heap-stat",
        Page {
            examples: &[
                example(
                    "plimsoll heap stat 4242 --validate",
                    "Print the heaps of a process and check them:",
                ),
                example(
                    "plimsoll heap stat --all-heaps",
                    "List the heaps of every process:",
                ),
            ],
            exit: "2 if a heap is damaged.",
            files: &[],
            environment: COLOURS,
            see_also: &[("plimsoll", 1), ("plimsoll-heap-run", 1), ("process_vm_readv", 2)],
        },
    ),
    (
        "plimsoll-pager",
        Page {
            examples: &[example(
                "plimsoll pager stat 4242",
                "Inspect the pagers of a process:",
            )],
            exit: "2 if a pager is damaged.",
            files: &[],
            environment: COLOURS,
            see_also: &[("plimsoll", 1), ("plimsoll-pager-stat", 1), ("userfaultfd", 2)],
        },
    ),
    (
        "plimsoll-pager-stat",
        Page {
            examples: &[
                example(
                    "plimsoll pager stat 4242 --validate",
                    "Print the pagers of a process and check every page:",
                ),
                example(
                    "plimsoll pager stat 4242 --watch",
                    "Print them again each second:",
                ),
            ],
            exit: "2 if a pager is damaged.",
            files: &[],
            environment: COLOURS,
            see_also: &[("plimsoll", 1), ("plimsoll-ps", 1), ("process_vm_readv", 2)],
        },
    ),
    (
        "plimsoll-doctor",
        Page {
            examples: &[
                example(
                    "plimsoll doctor",
                    "Check this machine as this user; the last line is the verdict:",
                ),
                example("plimsoll doctor --json", "The same for a program:"),
            ],
            exit: "0 whatever the verdict.",
            files: &[],
            environment: COLOURS,
            see_also: &[("plimsoll", 1), ("plimsoll-run", 1), ("capabilities", 7)],
        },
    ),
    (
        "plimsoll-cleanup",
        Page {
            examples: &[example(
                "plimsoll cleanup",
                "Undo the changes of a run that was killed:",
            )],
            exit: "3 if a change remains.",
            files: &[JOURNALS],
            environment: &[STATE, NO_COLOR, TERM],
            see_also: &[("plimsoll", 1), ("plimsoll-run", 1)],
        },
    ),
    (
        "plimsoll-bench",
        Page {
            examples: &[example(
                "plimsoll bench sampler",
                "Measure the CPU cost of a sample:",
            )],
            exit: "",
            files: &[],
            environment: COLOURS,
            see_also: &[("plimsoll", 1), ("plimsoll-watch", 1)],
        },
    ),
    (
        "plimsoll-completions",
        Page {
            examples: &[
                example(
                    "plimsoll completions bash",
                    "Print the script for bash; load it with source <(...):",
                ),
                example(
                    "plimsoll completions zsh",
                    "Print the script for zsh; write it to _plimsoll in a folder of fpath:",
                ),
                example(
                    "plimsoll completions fish",
                    "Print the script for fish; pipe it into source:",
                ),
            ],
            exit: "",
            files: &[
                (
                    "/usr/share/bash-completion/completions/plimsoll",
                    "The script for bash of the Debian package.",
                ),
                (
                    "/usr/share/zsh/vendor-completions/_plimsoll",
                    "The script for zsh.",
                ),
                (
                    "/usr/share/fish/vendor_completions.d/plimsoll.fish",
                    "The script for fish.",
                ),
            ],
            environment: COLOURS,
            see_also: &[("plimsoll", 1), ("plimsoll-man", 1), ("bash", 1)],
        },
    ),
    (
        "plimsoll-man",
        Page {
            examples: &[
                example("plimsoll man", "Print this manual as roff:"),
                example("plimsoll man man1", "Write every page into a folder:"),
            ],
            exit: "",
            files: &[],
            environment: COLOURS,
            see_also: &[("plimsoll", 1), ("plimsoll-completions", 1), ("man", 1)],
        },
    ),
];
