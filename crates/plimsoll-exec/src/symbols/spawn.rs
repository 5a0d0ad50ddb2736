//! The symbols of calls that execute a program.
//!
//! A child of `posix_spawn` runs with default handlers, and blocks all signals: it has no page that is absent. So the texts that it
//! passes to the kernel are copies outside of the arena. Programs that replace this process have their texts brought instead.
//!
//! A program with rights that this process lacks does not get the settings of the library: see [`privileged`].
#![allow(unsafe_code, reason = "exported symbols, and variables of the C library")]

#[cfg(target_arch = "x86_64")]
mod listed;
mod privileged;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use libc::{pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};

use super::errors::{error, failed, returned};
use crate::calls::{self, Call, Strings, is_managed};
use crate::next_symbol::Next;
use crate::{pool, trampoline};
use privileged::WorkingDirectory;

type Texts = *const *const c_char;

unsafe extern "C" {
    static mut environ: Texts;
}

fn environment() -> Texts {
    // SAFETY: the C library's variable, which the program changes as it may.
    unsafe { environ }
}

/// A copy of texts outside of the arena: the library's own memory.
struct Copied {
    texts: Vec<Vec<u8>>,
    list: Vec<*const c_char>,
}

impl Copied {
    /// Copies a list of texts; null stays null.
    unsafe fn new(list: Texts) -> Copied {
        let mut copied = Copied {
            texts: Vec::new(),
            list: Vec::new(),
        };
        if list.is_null() {
            return copied;
        }
        let mut next = list;
        // SAFETY: the list ends with a null pointer, and texts with NUL.
        unsafe {
            while !(*next).is_null() {
                copied
                    .texts
                    .push(CStr::from_ptr(*next).to_bytes_with_nul().to_vec());
                next = next.add(1);
            }
        }
        let texts = copied.texts.iter().map(|text| text.as_ptr().cast());
        copied.list = texts.chain([ptr::null()]).collect();
        copied
    }

    fn as_ptr(&self) -> Texts {
        if self.list.is_empty() {
            ptr::null()
        } else {
            self.list.as_ptr()
        }
    }
}

/// A copy of a text outside of the arena.
unsafe fn copy_text(text: *const c_char) -> Vec<u8> {
    // SAFETY: the caller's premise.
    unsafe { CStr::from_ptr(text) }.to_bytes_with_nul().to_vec()
}

/// The environment of this process outside of the arena while the value lives: functions of the C library pass it to children by
/// themselves.
struct SafeEnvironment {
    former: Texts,
    copied: Option<Copied>,
}

impl SafeEnvironment {
    fn new() -> SafeEnvironment {
        let former = environment();
        // SAFETY: the program's environment is a list of texts.
        let copied = unsafe { is_in_arena(former).then(|| Copied::new(former)) };
        if let Some(copied) = &copied {
            // SAFETY: as a program may set it, to a list that lives as long.
            unsafe { environ = copied.as_ptr() };
        }
        SafeEnvironment { former, copied }
    }
}

impl Drop for SafeEnvironment {
    fn drop(&mut self) {
        if let Some(copied) = &self.copied
            && environment() == copied.as_ptr()
        {
            // SAFETY: as it was before.
            unsafe { environ = self.former };
        }
    }
}

/// Whether a list, or one of its texts, is in the arena.
unsafe fn is_in_arena(list: Texts) -> bool {
    let mut next = list;
    // SAFETY: the list ends with a null pointer.
    unsafe {
        while !next.is_null() && !(*next).is_null() {
            if is_managed(*next as usize) {
                return true;
            }
            next = next.add(1);
        }
    }
    is_managed(list as usize)
}

type Spawn = unsafe extern "C" fn(
    *mut pid_t,
    *const c_char,
    *const posix_spawn_file_actions_t,
    *const posix_spawnattr_t,
    Texts,
    Texts,
) -> c_int;

/// `posix_spawn` and `posix_spawnp`.
macro_rules! spawn_functions {
    ($($name:ident, $text:literal, $next:ident, $environment_for:path;)*) => {$(
        // SAFETY: the type of the function.
        static $next: Next<Spawn> = unsafe { Next::new($text) };

        #[doc = concat!("`", stringify!($name), "(3)`.")]
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            process: *mut pid_t,
            path: *const c_char,
            actions: *const posix_spawn_file_actions_t,
            attributes: *const posix_spawnattr_t,
            arguments: Texts,
            environment: Texts,
        ) -> c_int {
            let Some(next) = $next.find() else {
                return libc::ENOSYS;
            };
            // SAFETY: the caller's premise.
            unsafe {
                let directory = working_directory(actions);
                $environment_for(path, directory, environment, |environment| match calls::is_active() {
                    true => spawn(next, process, path, actions, attributes, arguments, environment),
                    false => next(process, path, actions, attributes, arguments, environment),
                })
            }
        }
    )*};
}

spawn_functions! {
    posix_spawn, c"posix_spawn", NEXT_SPAWN, privileged::environment_of_path;
    posix_spawnp, c"posix_spawnp", NEXT_SPAWNP, privileged::environment_of_name;
}

/// The C library's actions on files of a child. The texts in them are the C library's own blocks.
#[repr(C)]
struct FileActions {
    allocated: c_int,
    used: c_int,
    actions: *mut c_void,
    _padding: [c_int; 16],
}

/// The working directory of a child with these actions, any of which may change it.
///
/// # Safety
/// The actions are those of `posix_spawn`.
unsafe fn working_directory(actions: *const posix_spawn_file_actions_t) -> WorkingDirectory {
    // SAFETY: the caller's premise: a structure of the C library, or null.
    let actions = unsafe { actions.cast::<FileActions>().as_ref() };
    match actions.is_some_and(|actions| actions.used > 0) {
        true => WorkingDirectory::Unknown,
        false => WorkingDirectory::Own,
    }
}

/// Bytes of an action.
const ACTION: usize = 32;
const _: () = assert!(size_of::<FileActions>() == size_of::<posix_spawn_file_actions_t>());

unsafe fn spawn(
    next: Spawn,
    process: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    arguments: Texts,
    environment: Texts,
) -> c_int {
    // SAFETY: the caller's premise: the texts and structures are valid. The copies live while the child needs them: the call returns
    // when it has executed its program.
    unsafe {
        let _environment = SafeEnvironment::new();
        let path = copy_text(path);
        let (arguments, environment) = (Copied::new(arguments), Copied::new(environment));
        let attributes = attributes
            .as_ref()
            .map(|attributes| ptr::from_ref(attributes).read());
        let mut actions = actions
            .as_ref()
            .map(|actions| ptr::from_ref(actions).cast::<FileActions>().read());
        let list = actions.as_mut().map(|actions| {
            let bytes = usize::try_from(actions.used).unwrap_or(0) * ACTION;
            let mut list = vec![0u64; bytes / size_of::<u64>()];
            if bytes > 0 {
                ptr::copy_nonoverlapping(actions.actions.cast::<u8>(), list.as_mut_ptr().cast(), bytes);
                actions.actions = list.as_mut_ptr().cast();
            }
            list
        });
        let mut child = 0;
        let result = next(
            &raw mut child,
            path.as_ptr().cast(),
            actions
                .as_ref()
                .map_or(ptr::null(), |actions| ptr::from_ref(actions).cast()),
            attributes.as_ref().map_or(ptr::null(), ptr::from_ref),
            arguments.as_ptr(),
            environment.as_ptr(),
        );
        drop(list);
        if result == 0 && !process.is_null() {
            process.write(child);
        }
        result
    }
}

/// `system(3)`, over `posix_spawn`: the C library's own passes the text on as it is.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    // SAFETY: the type of the function.
    static NEXT: Next<unsafe extern "C" fn(*const c_char) -> c_int> = unsafe { Next::new(c"system") };
    let Some(next) = NEXT.find() else {
        return failed(libc::ENOSYS);
    };
    // SAFETY: the caller's premise.
    unsafe {
        if command.is_null() || !calls::is_active() {
            return next(command);
        }
        let _environment = SafeEnvironment::new();
        let command = copy_text(command);
        next(command.as_ptr().cast())
    }
}

/// `popen(3)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn popen(command: *const c_char, kind: *const c_char) -> *mut libc::FILE {
    // SAFETY: the type of the function.
    static NEXT: Next<unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE> =
        unsafe { Next::new(c"popen") };
    let Some(next) = NEXT.find() else {
        failed(libc::ENOSYS);
        return ptr::null_mut();
    };
    // SAFETY: the caller's premise.
    unsafe {
        if !calls::is_active() {
            return next(command, kind);
        }
        let _environment = SafeEnvironment::new();
        let command = copy_text(command);
        next(command.as_ptr().cast(), kind)
    }
}

/// The process executes a program while the value lives. Its share of the pool returns if the program takes its place; it stays if the
/// call fails.
struct Executing;

impl Executing {
    fn begin() -> Executing {
        Executing::note(true);
        Executing
    }

    fn note(is_executing: bool) {
        pool::note_execution(is_executing);
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        Executing::note(false);
    }
}

/// `execve(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    let _executing = Executing::begin();
    // SAFETY: the caller's premise.
    unsafe {
        privileged::environment_of_path(path, WorkingDirectory::Own, environment, |environment| {
            let arguments = [path as usize, arguments as usize, environment as usize, 0, 0, 0];
            let call = Call::new(libc::SYS_execve, arguments);
            match calls::is_active() {
                true => returned(calls::serve(call)) as c_int,
                false => returned(trampoline::call(call.number, call.arguments)) as c_int,
            }
        })
    }
}

/// `execveat(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: Texts,
    environment: Texts,
    flags: c_int,
) -> c_int {
    let call = Call::new(
        libc::SYS_execveat,
        [
            folder as usize,
            path as usize,
            arguments as usize,
            environment as usize,
            flags as usize,
            0,
        ],
    );
    let _executing = Executing::begin();
    // SAFETY: the caller's premise.
    unsafe {
        match calls::is_active() {
            true => returned(calls::serve(call)) as c_int,
            false => returned(trampoline::call(call.number, call.arguments)) as c_int,
        }
    }
}

/// `execv(3)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: the caller's premise.
    unsafe { execve(path, arguments, environment()) }
}

/// `fexecve(3)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(file: c_int, arguments: Texts, environment: Texts) -> c_int {
    // SAFETY: the caller's premise.
    unsafe { execveat(file, c"".as_ptr(), arguments, environment, libc::AT_EMPTY_PATH) }
}

/// `execvpe(3)`: the C library looks for the program.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    /// Tries to have all texts present at the same time.
    const MOST_TRIES: usize = 1000;
    // SAFETY: the type of the function.
    static NEXT: Next<unsafe extern "C" fn(*const c_char, Texts, Texts) -> c_int> =
        unsafe { Next::new(c"execvpe") };
    let Some(next) = NEXT.find() else {
        return failed(libc::ENOSYS);
    };
    let _executing = Executing::begin();
    let execute = |environment| {
        let mut result = -1;
        for _ in 0..MOST_TRIES {
            if calls::is_active() {
                bring(arguments);
                bring(environment);
            }
            // SAFETY: the caller's premise.
            result = unsafe { next(file, arguments, environment) };
            if error() != libc::EFAULT {
                break;
            }
        }
        result
    };
    // SAFETY: the caller's premise.
    unsafe { privileged::environment_of_name(file, WorkingDirectory::Own, environment, execute) }
}

/// Makes the texts of a list present, for a moment at least.
fn bring(list: Texts) {
    let mut texts = Strings::new(list as usize);
    while let Ok(Some(_)) = texts.next() {}
}

/// `execvp(3)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: the caller's premise.
    unsafe { execvpe(file, arguments, environment()) }
}
