//! Taking the terminal, and giving it back however the program ends.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

use super::TerminalError;
use super::link::{milliseconds_of, ready};

/// To the other screen, cursor off.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
/// Colours off, cursor on, to the screen that was there before.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// What the terminal was like before it was taken; None while it is not. It stands here for the hook of panics, which may
/// run on any thread.
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);
/// Whether a panic has given the terminal back.
static PANICKED: AtomicBool = AtomicBool::new(false);

struct Taken {
    input: OwnedFd,
    before: Termios,
}

/// The terminal, taken. Dropping it gives it back.
pub(super) struct Screen {
    input: OwnedFd,
}

/// What came of waiting for the keyboard.
pub(super) enum Input {
    /// Nothing, in the time, or before a signal came.
    Nothing,
    /// Bytes.
    Bytes(Vec<u8>),
    /// The terminal is gone.
    Gone,
}

impl Screen {
    /// Takes the terminal: keys come one by one and unseen, and what was on the screen comes back later.
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
        give_back_on_panic();
        let screen = Screen { input };
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
        Ok(())
    }

    /// Gives the terminal back, stops until the shell says to go on, and takes it again.
    ///
    /// Where no shell could do that, nothing happens.
    pub(super) fn suspend(&self) -> io::Result<()> {
        use rustix::process::{Signal, getpid, getppid, getsid, kill_current_process_group};
        let session = getsid(None)?;
        let parents = getppid().and_then(|parent| getsid(Some(parent)).ok());
        if session == getpid() || parents != Some(session) {
            return Ok(());
        }
        give_back();
        // As the terminal itself would: everything that the shell started along with this.
        kill_current_process_group(Signal::STOP)?;
        Ok(self.take()?)
    }

    /// Waits so many milliseconds for the keyboard. A picture that stands still writes nothing: whether what shows it is
    /// still there has to be asked too.
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
        give_back();
    }
}

/// Columns and rows of the terminal; those of the first terminals where it does not say.
pub(super) fn size() -> (u16, u16) {
    tcgetwinsize(rustix::stdio::stdout())
        .ok()
        .map(|size| (size.ws_col, size.ws_row))
        .filter(|(columns, rows)| *columns > 0 && *rows > 0)
        .unwrap_or((80, 24))
}

/// Whether a panic, on whatever thread, has given the terminal back.
pub(super) fn panicked() -> bool {
    PANICKED.load(Ordering::Acquire)
}

/// Standard input, or, where that is something else, the terminal behind it.
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

/// The message of a panic is to be read on the screen that stays.
fn give_back_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if give_back() {
                PANICKED.store(true, Ordering::Release);
            }
            before(panic);
        }));
    });
}

/// Makes the terminal what it was, once; whether there was anything to give back.
fn give_back() -> bool {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(taken) = taken else {
        return false;
    };
    say(LEAVE);
    // A terminal that is gone cannot be given back, and nobody is there to be told.
    let _ = tcsetattr(&taken.input, OptionalActions::Now, &taken.before);
    true
}

/// Writes past all buffers and locks. A terminal that takes nothing is not waited for.
fn say(text: &str) {
    let output = rustix::stdio::stdout();
    if ready(output, 300).unwrap_or(false) {
        // As above.
        let _ = rustix::io::write(output, text.as_bytes());
    }
}
