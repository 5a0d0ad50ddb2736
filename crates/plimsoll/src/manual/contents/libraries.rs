//! Pages of `exec`, of the heap and of the pager.

use super::{COLOURS, JOURNALS, Page, STATE, example};

pub(super) const PAGES: &[(&str, Page)] = &[
    (
        "plimsoll-exec",
        Page {
            examples: &[
                example(
                    "plimsoll exec --ram 512M -- python3 program.py",
                    "Run a program in 512 MiB of RAM:",
                ),
                example(
                    "plimsoll exec --ram 40% --page-file /var/tmp,8G -- make -j4",
                    "Run make in 40% of the container's RAM, with a page file of 8 GiB:",
                ),
                example(
                    "plimsoll exec --ram 512M --report=/var/tmp/run -- python3 program.py",
                    "Record the run, with a report and a summary:",
                ),
                example(
                    "plimsoll exec --ram 1G --engine kernel --stats -- ./server",
                    "Run a server in a memory cgroup on the machine's swap, and print statistics:",
                ),
            ],
            exit: "These codes are of plimsoll itself. If the program starts, the exit status is the program's own code or signal. \
                   127: program not found; 126: program cannot be executed; 125: the library cannot start in the \
                   program; 4: the pager cannot manage the program.",
            files: &[
                (
                    "~/.cache/plimsoll",
                    "The unpacked library, compared with the embedded one before each use.",
                ),
                JOURNALS,
            ],
            environment: &[
                ("XDG_CACHE_HOME", "Folder of caches, in place of ~/.cache."),
                (
                    "TMPDIR",
                    "Folder for a private copy of the library if there is no cache.",
                ),
                ("LD_PRELOAD", "Set for the program; libraries in it remain."),
                (
                    "PLIMSOLL_EXEC",
                    "Set for the program: the settings of the library.",
                ),
                STATE,
            ],
            see_also: &[
                ("plimsoll", 1),
                ("plimsoll-watch", 1),
                ("plimsoll-report", 1),
                ("plimsoll-pager-stat", 1),
                ("plimsoll-cleanup", 1),
                ("ld.so", 8),
                ("userfaultfd", 2),
                ("cgroups", 7),
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
                "The unpacked library, compared with the embedded one before each use.",
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
];
