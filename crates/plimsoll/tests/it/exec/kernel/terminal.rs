//! The program on a terminal: its keys, and a shell that stops and continues it.

use super::super::PLIMSOLL;
use super::Swapped;
use crate::watch::terminal::pseudo_terminal::{OWNED, Terminal};

#[test]
fn the_keys_of_a_terminal_reach_the_program_and_the_shell_sees_its_end() {
    let Some(machine) = Swapped::new() else { return };
    let state = machine.state.path().to_str().expect("text").to_owned();
    let mut terminal = Terminal::start(
        OWNED,
        &["bash", "--norc", "--noprofile", "-i"],
        &[("PS1", "ready> "), ("PLIMSOLL_STATE_DIR", &state)],
    );
    terminal.until_text("ready>");
    let line =
        format!("{PLIMSOLL} exec --engine kernel --ram 64M -- sh -c 'echo sta''rted; exec sleep 600'\n");
    terminal.press(&line);
    terminal.until_text("started");
    terminal.press("\x1a");
    terminal.until_text("Stopped");
    terminal.press("fg\n");
    // The shell has continued it when it shows its command line again.
    terminal.until("the command line of fg", |screen| {
        screen.contents().matches("sleep 600").count() >= 3
    });
    terminal.press("\x03");
    terminal.press("echo code=$?\n");
    terminal.until_text("code=130");
    machine.assert_nothing_left();
    // A program that stops itself alone.
    let line = format!(
        "clear; {PLIMSOLL} exec --engine kernel --ram 64M -- sh -c 'kill -TSTP $$; echo aw''ake; exit 6'\n"
    );
    terminal.press(&line);
    terminal.until_text("Stopped");
    terminal.press("fg; echo code=$?\n");
    terminal.until_text("awake");
    terminal.until_text("code=6");
    terminal.press("exit\n");
    assert!(terminal.end().is_some());
    machine.assert_nothing_left();
}
