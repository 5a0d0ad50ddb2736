//! Takes over the terminal, and restores it however the program ends.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

use super::TerminalError;
use super::link::{milliseconds_of, ready};

/// Alternate screen, cursor off.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
/// Mouse and colours off, cursor on, main screen.
const LEAVE: &str = "\x1b[?1006l\x1b[?1002l\x1b[0m\x1b[?25h\x1b[?1049l";
/// Report of clicks, drags and the wheel, in SGR form.
const MOUSE_ON: &str = "\x1b[?1002h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1002l";

/// Saved terminal settings; None while the terminal is not taken over. A static, for the panic hook, which may run on
/// any thread.
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);
/// Whether a panic has restored the terminal.
static PANICKED: AtomicBool = AtomicBool::new(false);

struct Taken {
    input: OwnedFd,
    before: Termios,
}

/// The taken-over terminal. Dropping it restores the terminal.
pub(super) struct Screen {
    input: OwnedFd,
    /// Whether the terminal reports mouse events.
    mouse: Cell<bool>,
}

/// Result of waiting for the keyboard.
pub(super) enum Input {
    /// Timeout or signal.
    Nothing,
    Bytes(Vec<u8>),
    /// The terminal disappeared.
    Gone,
}

impl Screen {
    /// Takes over the terminal: raw keys without echo, alternate screen.
    pub(super) fn enter() -> Result<Screen, TerminalError> {
        let failed = |what| {
            move |source: rustix::io::Errno| TerminalError::Terminal {
                what,
                source: source.into(),
            }
        };
        if !isatty(rustix::stdio::stdout()) {
            return Err(TerminalError::NoTerminal);
        }
        let input = keyboard()?;
        restore_on_panic();
        let screen = Screen {
            input,
            mouse: Cell::new(false),
        };
        screen.take().map_err(failed("take"))?;
        Ok(screen)
    }

    fn take(&self) -> rustix::io::Result<()> {
        let before = tcgetattr(&self.input)?;
        let mut raw = before.clone();
        raw.make_raw();
        let input = rustix::io::fcntl_dupfd_cloexec(&self.input, 0)?;
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(Taken { input, before });
        tcsetattr(&self.input, OptionalActions::Now, &raw)?;
        say(ENTER);
        if self.mouse.get() {
            say(MOUSE_ON);
        }
        Ok(())
    }

    /// Turns the report of mouse events on or off.
    pub(super) fn capture_mouse(&self, on: bool) {
        if self.mouse.replace(on) != on {
            say(if on { MOUSE_ON } else { MOUSE_OFF });
        }
    }

    /// Restores the terminal, stops the process until the shell continues it, and takes the terminal over again.
    ///
    /// Does nothing without a shell that can continue it.
    pub(super) fn suspend(&self) -> io::Result<()> {
        use rustix::process::{Signal, getpid, getppid, getsid, kill_current_process_group};
        let session = getsid(None)?;
        let parents = getppid().and_then(|parent| getsid(Some(parent)).ok());
        if session == getpid() || parents != Some(session) {
            return Ok(());
        }
        restore();
        // Like the terminal's own ctrl-z: stops the whole process group.
        kill_current_process_group(Signal::STOP)?;
        Ok(self.take()?)
    }

    /// Waits for the keyboard. Also polls the output: a frozen view writes nothing, so a write would not reveal a
    /// vanished terminal.
    pub(super) fn wait(&self, milliseconds: i64) -> Input {
        let output = rustix::stdio::stdout();
        let mut fds = [
            PollFd::new(&self.input, PollFlags::IN),
            PollFd::new(&output, PollFlags::empty()),
        ];
        match poll(&mut fds, Some(&milliseconds_of(milliseconds))) {
            Ok(0) | Err(_) => return Input::Nothing,
            Ok(_) if !fds[1].revents().is_empty() => return Input::Gone,
            Ok(_) if !fds[0].revents().contains(PollFlags::IN) => return Input::Gone,
            Ok(_) => {}
        }
        let mut bytes = vec![0; 1024];
        match rustix::io::read(&self.input, &mut bytes) {
            Ok(0) => Input::Gone,
            Ok(count) => {
                bytes.truncate(count);
                Input::Bytes(bytes)
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Input::Nothing,
            Err(_) => Input::Gone,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Columns and rows of the terminal; 80 x 24 if it does not report them.
pub(super) fn size() -> (u16, u16) {
    tcgetwinsize(rustix::stdio::stdout())
        .ok()
        .map(|size| (size.ws_col, size.ws_row))
        .filter(|(columns, rows)| *columns > 0 && *rows > 0)
        .unwrap_or((80, 24))
}

/// Whether a panic on any thread has restored the terminal.
pub(super) fn panicked() -> bool {
    PANICKED.load(Ordering::Acquire)
}

/// Standard input, or `/dev/tty` if that is no terminal.
fn keyboard() -> Result<OwnedFd, TerminalError> {
    let input = rustix::stdio::stdin();
    let opened = match isatty(input) {
        true => rustix::io::fcntl_dupfd_cloexec(input, 0).map_err(io::Error::from),
        false => File::open("/dev/tty").map(OwnedFd::from),
    };
    opened.map_err(|source| TerminalError::Terminal {
        what: "read keys from",
        source,
    })
}

/// Restores the terminal before a panic prints, so that the message stays on the screen.
fn restore_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if restore() {
                PANICKED.store(true, Ordering::Release);
            }
            before(panic);
        }));
    });
}

/// Restores the terminal, once. Returns whether it was taken over.
fn restore() -> bool {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(taken) = taken else {
        return false;
    };
    say(LEAVE);
    // A vanished terminal cannot be restored, and there is no place to report it.
    let _ = tcsetattr(&taken.input, OptionalActions::Now, &taken.before);
    true
}

/// Writes past all buffers and locks. Gives up if the terminal does not accept bytes.
fn say(text: &str) {
    let output = rustix::stdio::stdout();
    if ready(output, 300).unwrap_or(false) {
        // Nothing to report to, as above.
        let _ = rustix::io::write(output, text.as_bytes());
    }
}
