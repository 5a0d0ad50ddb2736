//! The place of the cursor in the definition of the command line.

use std::borrow::Cow;

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command};
use plimsoll_model::sanitize::sanitize;

use super::sources::Source;
use super::{Answer, Candidate, Line};

/// The candidates for the word at the cursor.
pub fn complete(mut root: Command, line: &Line) -> Answer {
    root.build();
    let mut place = Place::new(&root);
    for word in line.words.iter().skip(1) {
        place.pass(word);
    }
    place.answer(&line.current)
}

/// The state after the words before the cursor.
struct Place<'c> {
    command: &'c Command,
    /// The option that the next word is the value of.
    option: Option<&'c Arg>,
    /// Number of positional arguments so far.
    positionals: usize,
    /// Whether `--` was seen: the rest are values.
    dashes: bool,
    /// Whether the words belong to another program.
    foreign: bool,
    scenario: Option<String>,
}

impl<'c> Place<'c> {
    fn new(command: &'c Command) -> Place<'c> {
        Place {
            command,
            option: None,
            positionals: 0,
            dashes: false,
            foreign: false,
            scenario: None,
        }
    }

    fn pass(&mut self, word: &str) {
        if self.foreign {
            return;
        }
        if self.option.take().is_some() {
            return;
        }
        if !self.dashes {
            if word == "--" {
                self.dashes = true;
                return;
            }
            if let Some(long) = word.strip_prefix("--") {
                self.option = self.long(long).filter(|arg| takes_next(arg));
                return;
            }
            if word.len() > 1 && word.starts_with('-') {
                self.option = self.last_of_cluster(&word[1..]);
                return;
            }
            if self.positionals == 0 {
                let named =
                    |one: &&Command| one.get_name() == word || one.get_all_aliases().any(|name| name == word);
                if let Some(command) = self.command.get_subcommands().find(named) {
                    *self = Place::new(command);
                    return;
                }
            }
        }
        if let Some(arg) = self.positional() {
            if Source::of(arg) == Some(Source::Scenarios) {
                self.scenario = Some(word.to_owned());
            }
            self.foreign = arg.is_trailing_var_arg_set() || arg.is_last_set();
        }
        self.positionals += 1;
    }

    fn long(&self, name: &str) -> Option<&'c Arg> {
        let named = |arg: &&Arg| {
            arg.get_long() == Some(name)
                || arg
                    .get_all_aliases()
                    .is_some_and(|aliases| aliases.contains(&name))
        };
        self.command.get_arguments().find(named)
    }

    /// The option of `-abc` that takes the next word: the last letter, unless an earlier one takes the rest.
    fn last_of_cluster(&self, letters: &str) -> Option<&'c Arg> {
        for (index, letter) in letters.char_indices() {
            let found = self
                .command
                .get_arguments()
                .find(|arg| arg.get_short() == Some(letter));
            if let Some(arg) = found.filter(|arg| takes_values(arg)) {
                let last = index + letter.len_utf8() == letters.len();
                return (last && takes_next(arg)).then_some(arg);
            }
        }
        None
    }

    /// The positional argument that the next word belongs to.
    fn positional(&self) -> Option<&'c Arg> {
        let all: Vec<&Arg> = self
            .command
            .get_positionals()
            .filter(|arg| self.dashes || !arg.is_last_set())
            .collect();
        let repeats = |arg: &&&Arg| {
            matches!(arg.get_action(), ArgAction::Append)
                || arg.get_num_args().is_some_and(|count| count.max_values() > 1)
        };
        all.get(self.positionals)
            .or_else(|| all.last().filter(repeats))
            .copied()
    }

    fn answer(&self, typed: &str) -> Answer {
        if self.foreign {
            return Source::Files.answer(typed, None);
        }
        if let Some(arg) = self.option {
            return self.values(arg, typed);
        }
        if !self.dashes && typed.starts_with('-') {
            return self.options(typed);
        }
        let mut answer = self
            .positional()
            .map(|arg| self.values(arg, typed))
            .unwrap_or_default();
        if !self.dashes && self.positionals == 0 {
            let commands = self.command.get_subcommands().filter(|one| !one.is_hide_set());
            let commands = commands.filter(|one| one.get_name().starts_with(typed));
            answer.candidates.extend(commands.map(|one| {
                let about = one.get_about().map(ToString::to_string);
                Candidate::new(one.get_name(), about.unwrap_or_default())
            }));
        }
        answer
    }

    /// Options that begin with `typed`, or the values of `--option=`.
    fn options(&self, typed: &str) -> Answer {
        if let Some((name, value)) = typed.strip_prefix("--").and_then(|rest| rest.split_once('=')) {
            let found = self.long(name).filter(|arg| takes_values(arg));
            let mut answer = found.map(|arg| self.values(arg, value)).unwrap_or_default();
            for candidate in &mut answer.candidates {
                candidate.value = format!("--{name}={}", candidate.value);
            }
            return answer;
        }
        let visible = self.command.get_arguments().filter(|arg| !arg.is_hide_set());
        let options = visible.filter_map(|arg| {
            let value = format!("--{}", arg.get_long()?);
            let meaning = arg.get_help().map(ToString::to_string).unwrap_or_default();
            value.starts_with(typed).then(|| Candidate::new(value, meaning))
        });
        Answer {
            files: false,
            candidates: options.collect(),
        }
    }

    /// The values of an argument. Of a list, those of its last element; the elements before it stay, and none comes twice.
    fn values(&self, arg: &Arg, typed: &str) -> Answer {
        let Some(delimiter) = arg.get_value_delimiter() else {
            return self.elements(arg, typed);
        };
        let start = typed.rfind(delimiter).map_or(0, |at| at + delimiter.len_utf8());
        let (before, last) = typed.split_at(start);
        let mut answer = self.elements(arg, last);
        let is_shown = matches!(sanitize(before), Cow::Borrowed(_));
        answer
            .candidates
            .retain(|one| is_shown && before.split(delimiter).all(|given| given != one.value));
        for candidate in &mut answer.candidates {
            candidate.value.insert_str(0, before);
        }
        answer
    }

    fn elements(&self, arg: &Arg, typed: &str) -> Answer {
        let listed = arg.get_possible_values();
        if listed.is_empty() {
            let source = Source::of(arg).unwrap_or(Source::Free);
            return source.answer(typed, self.scenario.as_deref());
        }
        let fits = |one: &&PossibleValue| !one.is_hide_set() && one.get_name().starts_with(typed);
        let candidates = listed.iter().filter(fits).map(|one| {
            let help = one.get_help().map(ToString::to_string);
            Candidate::new(one.get_name(), help.unwrap_or_default())
        });
        Answer {
            files: false,
            candidates: candidates.collect(),
        }
    }
}

fn takes_values(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// Whether the value of an option is the next word, not a part of it.
fn takes_next(arg: &Arg) -> bool {
    takes_values(arg) && !arg.is_require_equals_set()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn answer(text: &str) -> Answer {
        complete(Cli::command(), &Line::split(text))
    }

    fn values(text: &str) -> Vec<String> {
        answer(text).candidates.into_iter().map(|one| one.value).collect()
    }

    #[test]
    fn commands_options_and_values_follow_the_definition() {
        assert_eq!(values("plimsoll com"), ["compare", "completions"]);
        assert_eq!(values("plimsoll --verbose heap st"), ["stat"]);
        assert_eq!(values("plimsoll ps --sort sw"), ["swap"]);
        assert_eq!(values("plimsoll ps --sort=sw"), ["--sort=swap"]);
        assert_eq!(values("plimsoll ps -s sw"), ["swap"]);
        assert_eq!(values("plimsoll ps -ws sw"), ["swap"]);
        assert_eq!(values("plimsoll run --dry"), ["--dry-run"]);
        assert_eq!(values("plimsoll run --color al"), ["always"]);
        assert_eq!(values("plimsoll run --wait=5 --dry"), ["--dry-run"]);
        assert_eq!(
            values("plimsoll run --wait thrash-e"),
            ["thrash-e1", "thrash-e2", "thrash-e3", "thrash-e4"]
        );
        assert!(values("plimsoll work").is_empty(), "hidden");
    }

    #[test]
    fn scenarios_come_first_then_keys() {
        assert_eq!(values("plimsoll show tou"), ["tour"]);
        assert!(answer("plimsoll run ./my").files);
        assert!(values("plimsoll run thrash consum").contains(&"consumers=".to_owned()));
        assert!(values("plimsoll run thrash N=5 --set writ").contains(&"writes=".to_owned()));
        assert!(values("plimsoll run --quick thrash N=5 subj").contains(&"subject=".to_owned()));
    }

    #[test]
    fn engines_are_a_list_without_repetition() {
        let all = values("plimsoll size --engine ");
        for engine in ["none", "zram", "zram:lz4", "zswap", "swapfile"] {
            assert!(all.contains(&engine.to_owned()), "{engine}: {all:?}");
        }
        assert!(!all.contains(&"jemalloc".to_owned()), "no allocators: {all:?}");
        assert_eq!(values("plimsoll size --engine swap"), ["swapfile"]);
        assert_eq!(values("plimsoll size --engine none,zram:z"), ["none,zram:zstd"]);
        assert_eq!(
            values("plimsoll size --engine=none,swap"),
            ["--engine=none,swapfile"]
        );
        assert!(values("plimsoll size --engine none,no").is_empty(), "twice");
        assert!(values("plimsoll size --engine \u{1b}[2J,no").is_empty(), "raw");
        // After the list comes another option.
        assert_eq!(values("plimsoll size --engine none,zram --tol"), ["--tolerate"]);
    }

    #[test]
    fn words_of_another_program_are_files() {
        for text in [
            "plimsoll heap run -- pyth",
            "plimsoll heap run python3 --ver",
            "plimsoll watch -- sh -",
        ] {
            let answer = answer(text);
            assert!(answer.files && answer.candidates.is_empty(), "{text}: {answer:?}");
        }
        assert!(!answer("plimsoll watch --pid x").files);
    }

    #[test]
    fn every_placeholder_has_a_source() {
        fn check(command: &Command) {
            for arg in command.get_arguments().filter(|arg| takes_values(arg)) {
                let known = !arg.get_possible_values().is_empty() || Source::of(arg).is_some();
                assert!(
                    known,
                    "{} {}: {:?}",
                    command.get_name(),
                    arg.get_id(),
                    arg.get_value_names()
                );
            }
            command
                .get_subcommands()
                .filter(|one| !one.is_hide_set())
                .for_each(check);
        }
        let mut root = Cli::command();
        root.build();
        check(&root);
    }

    proptest::proptest! {
        /// Except processes: reading them a thousand times takes time.
        #[test]
        fn any_line_is_answered(text in "plimsoll( (run|heap|report|--set|--|-[a-z]{1,3}|--[a-z]{0,5}=?|[a-z=@]{0,4})){0,5} ?") {
            complete(Cli::command(), &Line::split(&text));
        }
    }
}
