//! The environment that the process was started with, read from the kernel: the C library's may not be there yet.
#![allow(unsafe_code)]

use crate::raw::system_call;

/// Bytes of one variable: longer ones are cut.
const LONGEST: usize = 256;

/// Calls `visit` with each variable of the environment that the process was started with, `NAME=value`, cut at 256
/// bytes. Without `/proc` there is none. No call touches `errno`.
pub fn with_environment(mut visit: impl FnMut(&[u8])) {
    let path = c"/proc/self/environ";
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let here = libc::AT_FDCWD as usize;
    // SAFETY: the path ends with NUL and outlives the call.
    let Ok(file) = (unsafe { system_call(libc::SYS_openat, [here, path.as_ptr() as usize, flags, 0, 0, 0]) })
    else {
        return;
    };
    let mut variable = [0u8; LONGEST];
    let mut length = 0;
    let mut chunk = [0u8; 1024];
    loop {
        let arguments = [file, chunk.as_mut_ptr() as usize, chunk.len(), 0, 0, 0];
        // SAFETY: the kernel writes at most as many bytes as the chunk has.
        let read = unsafe { system_call(libc::SYS_read, arguments) }.unwrap_or(0);
        for byte in &chunk[..read] {
            if *byte == 0 {
                visit(&variable[..length]);
                length = 0;
            } else if length < LONGEST {
                variable[length] = *byte;
                length += 1;
            }
        }
        if read == 0 {
            break;
        }
    }
    // SAFETY: the descriptor is this function's own.
    let _ = unsafe { system_call(libc::SYS_close, [file, 0, 0, 0, 0, 0]) };
}

#[cfg(test)]
mod tests {
    extern crate std;

    #[test]
    fn every_variable_is_visited() {
        let mut seen = std::vec::Vec::new();
        super::with_environment(|variable| seen.push(variable.to_vec()));
        let path = std::format!("PATH={}", std::env::var("PATH").expect("tests have a PATH"));
        let path = &path.as_bytes()[..path.len().min(super::LONGEST)];
        assert!(seen.iter().any(|variable| variable == path));
    }
}
