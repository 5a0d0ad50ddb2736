//! Pages of commands on the machine and on the installation.

use super::{COLOURS, JOURNALS, NO_COLOR, Page, STATE, TERM, example};

pub(super) const PAGES: &[(&str, Page)] = &[
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
