//! The list of processes and the mouse, on a real pseudo-terminal and this machine.

use std::io::Write;
use std::process::{Child, Stdio};

use super::pseudo_terminal::{Terminal, watch};

const MIB: usize = 1 << 20;

/// A process that holds everything that it is fed.
struct Grower(Child);

impl Grower {
    fn start() -> Grower {
        let child = plimsoll_testkit::command("tail")
            .args(["-c", "1G"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("tail of coreutils starts");
        Grower(child)
    }

    fn grow(&mut self, bytes: usize) {
        let input = self.0.stdin.as_mut().expect("its input");
        let piece = vec![1; MIB];
        for _ in 0..bytes / MIB {
            input.write_all(&piece).expect("it reads");
        }
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Grower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Row and resident MiB of a process in the list.
fn row_of(screen: &vt100::Screen, pid: &str) -> Option<(u16, f64)> {
    let (_, columns) = screen.size();
    let rows = screen.rows(0, columns.get()).enumerate();
    rows.filter(|(row, _)| *row > 0).find_map(|(row, text)| {
        let mut words = text.split_whitespace().skip_while(|word| *word != pid);
        let resident = words.nth(1)?;
        let (number, unit) = resident.split_at(resident.len() - 1);
        let scale = match unit {
            "K" => 1.0 / 1024.0,
            "M" => 1.0,
            "G" => 1024.0,
            _ => return None,
        };
        Some((row as u16, number.parse::<f64>().ok()? * scale))
    })
}

/// Sends a press and a release of the left button at a cell.
fn click(terminal: &mut Terminal, column: u16, row: u16) {
    let (column, row) = (column + 1, row + 1);
    terminal.press(&format!("\u{1b}[<0;{column};{row}M\u{1b}[<0;{column};{row}m"));
}

/// The list shows the growing process, a click selects it, another one watches it.
#[test]
fn the_list_shows_a_program_that_grows_and_two_clicks_watch_it() {
    let mut grower = Grower::start();
    let pid = grower.pid();
    grower.grow(60 * MIB);
    let mut terminal = watch(&[]);
    terminal.until_drawn();
    terminal.resize(200, 60);
    terminal.press("\t");
    terminal.until("60 MiB", |screen| {
        row_of(screen, &pid).is_some_and(|(_, mib)| (60.0..120.0).contains(&mib))
    });
    grower.grow(140 * MIB);
    terminal.until("200 MiB", |screen| {
        row_of(screen, &pid).is_some_and(|(_, mib)| (200.0..300.0).contains(&mib))
    });
    // A frozen list keeps its order, so that the row is where it was seen.
    terminal.press(" ");
    terminal.until_text("FROZEN");
    let row = terminal
        .on_screen(|screen| row_of(screen, &pid))
        .expect("it is listed")
        .0;
    let selected = |screen: &vt100::Screen| screen.cell(row, 198).is_some_and(vt100::Cell::inverse);
    assert!(!terminal.on_screen(selected));
    click(&mut terminal, 150, row);
    terminal.until("a selected row", selected);
    click(&mut terminal, 150, row);
    terminal.until_text(&format!("pid {pid} tail"));
    // The sampler shows its memory as that of the target.
    terminal.press("\u{1b}");
    // A key right behind the escape would be a key with Alt.
    terminal.until("no freeze", |screen| !screen.contents().contains("FROZEN"));
    terminal.until("the target's memory", |screen| {
        screen
            .contents()
            .lines()
            .any(|line| line.contains("resident") && line.contains("20"))
    });
    terminal.press("q");
    assert_eq!(terminal.end(), Some(0));
    terminal.assert_given_back();
}

#[test]
fn tab_lists_the_cgroups_where_there_are_any() {
    let mut terminal = watch(&[]);
    terminal.until_drawn();
    terminal.press("\t");
    terminal.until_text("major/s");
    terminal.press("\t");
    terminal.until("cgroups, or none", |screen| {
        let text = screen.contents();
        text.contains("refault/s") && text.contains("cgroup")
    });
    terminal.press("\t");
    terminal.until("no list", |screen| !screen.contents().contains("refault/s"));
    terminal.press("c");
    terminal.until("changes", |screen| {
        let text = screen.contents();
        text.contains("change") && text.contains("block in")
    });
    terminal.press("q");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn the_mouse_is_reported_until_its_key_and_the_end() {
    use vt100::{MouseProtocolEncoding, MouseProtocolMode};
    let reports = |mode| move |screen: &vt100::Screen| screen.mouse_protocol_mode() == mode;
    let mut terminal = watch(&[]);
    terminal.until_drawn();
    terminal.until("the mouse", |screen| {
        reports(MouseProtocolMode::ButtonMotion)(screen)
            && screen.mouse_protocol_encoding() == MouseProtocolEncoding::Sgr
    });
    click(&mut terminal, 30, 5);
    terminal.until_text("ago");
    terminal.press("\u{1b}[<64;20;5M");
    terminal.until_text("0.5s/col");
    terminal.press("M");
    terminal.until("no mouse", reports(MouseProtocolMode::None));
    terminal.press("M");
    terminal.until("the mouse again", reports(MouseProtocolMode::ButtonMotion));
    terminal.press("q");
    assert_eq!(terminal.end(), Some(0));
    terminal.assert_given_back();
}

/// A fast drag sends more than one read takes: no piece of a sequence is a key.
#[test]
fn a_fast_drag_presses_no_keys() {
    let mut terminal = watch(&[]);
    terminal.until_drawn();
    let drag: String = (0..4000)
        .map(|step| format!("\u{1b}[<32;{};{}M", 8 + step % 30, 2 + step % 20))
        .collect();
    terminal.press(&drag);
    terminal.until_text("ago");
    // A digit of a sequence would be a mark, which `[` goes to and the status line names.
    terminal.press("[?");
    terminal.until_text("this help");
    assert!(!terminal.contents().contains("ago: "), "{}", terminal.contents());
    terminal.press("q");
    terminal.until("no help", |screen| !screen.contents().contains("this help"));
    terminal.press("q");
    assert_eq!(terminal.end(), Some(0));
    terminal.assert_given_back();
    let written = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert_eq!(
        written.matches("\u{1b}[?1002h").count(),
        1,
        "M would have turned it off and on"
    );
}
