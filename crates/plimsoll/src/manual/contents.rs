//! Contents of the man pages that the definition of the command line does not have.

mod fleet;
mod libraries;
mod machine;
mod memory;
mod runs;

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
    let groups = [
        runs::PAGES,
        fleet::PAGES,
        memory::PAGES,
        libraries::PAGES,
        machine::PAGES,
    ];
    let found = groups.concat().into_iter().find(|(known, _)| *known == name);
    found.map_or(PROGRAM, |(_, page)| page)
}

const PROGRAM: Page = Page {
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
    exit: "watch, exec and heap run exit with the code of the program that they run.",
    files: &[RECORDINGS, JOURNALS, SWAP_FILES],
    environment: &[NO_COLOR, TERM, BROWSER, STATE],
    see_also: &[
        ("proc", 5),
        ("cgroups", 7),
        ("madvise", 2),
        ("swapon", 8),
        ("zramctl", 8),
    ],
};
