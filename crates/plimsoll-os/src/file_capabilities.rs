//! File capabilities: the extended attribute of a program, and whether the kernel sets AT_SECURE for it. No call touches `errno`.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_long};

use crate::Errno;
use crate::raw::system_call;

/// The bits of the first word that are the revision.
const REVISION: u32 = 0xff00_0000;
/// One word of each set of capabilities.
const REVISION_1: u32 = 0x0100_0000;
/// Two words of each set.
const REVISION_2: u32 = 0x0200_0000;
/// As revision 2, with the root user of a user namespace.
const REVISION_3: u32 = 0x0300_0000;
/// The flag of the first word: the program starts with its permitted capabilities in effect.
const EFFECTIVE: u32 = 1;

/// Capabilities of a program, bit N of a set for capability N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileCapabilities {
    is_effective: bool,
    permitted: u64,
    inheritable: u64,
}

/// Capabilities of the process that executes the program, bit N of a set for capability N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessCapabilities {
    /// The permitted set.
    pub permitted: u64,
    /// The inheritable set.
    pub inheritable: u64,
    /// The bounding set: no program gains a capability outside of it.
    pub bounding: u64,
    /// The process has given up new privileges (`no_new_privs`).
    pub gains_none: bool,
}

impl ProcessCapabilities {
    /// The capabilities of the calling thread.
    pub fn own() -> ProcessCapabilities {
        // SAFETY: the function passes calls that write to its own memory alone.
        ProcessCapabilities::own_by(|number, arguments| unsafe { system_call(number, arguments) })
    }

    /// As [`ProcessCapabilities::own`], by calls of `call`, which gets the number and the arguments of a system call. The kernel
    /// writes to the stack of the caller.
    pub fn own_by(mut call: impl FnMut(c_long, [usize; 6]) -> Result<usize, Errno>) -> ProcessCapabilities {
        /// The version of the structures of `capget(2)` with 64 capabilities.
        const VERSION: u32 = 0x2008_0522;
        // The version and the process; effective, permitted and inheritable capabilities, and the same for the higher numbers.
        let mut header = [VERSION, 0];
        let mut sets = [0_u32; 6];
        let arguments = [(&raw mut header) as usize, (&raw mut sets) as usize, 0, 0, 0, 0];
        // A kernel without the call has no capabilities.
        let _ = call(libc::SYS_capget, arguments);
        let set = |low: usize| u64::from(sets[low]) | (u64::from(sets[low + 3]) << 32);
        let (permitted, inheritable) = (set(1), set(2));
        let mut prctl =
            |operation: i32, number: usize| call(libc::SYS_prctl, [operation as usize, number, 0, 0, 0, 0]);
        let bounding = (0..64).filter(|number| prctl(libc::PR_CAPBSET_READ, *number) == Ok(1));
        ProcessCapabilities {
            permitted,
            inheritable,
            bounding: bounding.fold(0, |all, number| all | (1 << number)),
            // A filter of system calls that refuses the call requires this state of a process without rights.
            gains_none: prctl(libc::PR_GET_NO_NEW_PRIVS, 0) != Ok(0),
        }
    }
}

impl FileCapabilities {
    /// The name of the extended attribute.
    pub const ATTRIBUTE: &CStr = c"security.capability";
    /// Bytes of its longest form, that of revision 3.
    pub const MOST_BYTES: usize = 24;

    /// Reads the attribute (`struct vfs_ns_cap_data`). None if the kernel would ignore it or refuse the program. The kernel shows
    /// revision 3 only to processes for which its root is another user than 0, and ignores it for them, except in a user namespace
    /// that maps the root to another number.
    pub fn decode(attribute: &[u8]) -> Option<FileCapabilities> {
        let word = |at: usize| -> Option<u32> {
            let bytes = attribute.get(4 * at..4 * at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let first = word(0)?;
        let (has_high_words, root) = match (first & REVISION, attribute.len()) {
            (REVISION_1, 12) => (false, 0),
            (REVISION_2, 20) => (true, 0),
            (REVISION_3, FileCapabilities::MOST_BYTES) => (true, word(5)?),
            _ => return None,
        };
        // A word of permitted and one of inheritable capabilities, and the same for the higher numbers.
        let set = |low: usize| -> Option<u64> {
            let high = if has_high_words { word(low + 2)? } else { 0 };
            Some(u64::from(word(low)?) | (u64::from(high) << 32))
        };
        let capabilities = FileCapabilities {
            is_effective: first & EFFECTIVE != 0,
            permitted: set(1)?,
            inheritable: set(2)?,
        };
        (root == 0).then_some(capabilities)
    }

    /// Whether the kernel sets AT_SECURE when a process executes the program, whose real user is not root: if the program has the
    /// effective flag, or starts with any permitted capability. Ambient ones do not count: file capabilities clear them.
    pub fn makes_secure(self, process: impl FnOnce() -> ProcessCapabilities) -> bool {
        if self.is_effective {
            return true;
        }
        let process = process();
        let gained = (self.permitted & process.bounding) | (self.inheritable & process.inheritable);
        match process.gains_none {
            true => gained & process.permitted != 0,
            false => gained != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// CAP_NET_BIND_SERVICE, in the lower word.
    const LOW: u32 = 1 << 10;
    /// CAP_BPF (39), in the higher word.
    const HIGH: u32 = 1 << 7;

    fn decoded(words: &[u32]) -> Option<FileCapabilities> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        FileCapabilities::decode(&bytes)
    }

    /// The bytes that `setcap cap_net_bind_service=ep` and `setcap cap_net_bind_service=i` write.
    #[test]
    fn bytes_of_setcap_are_read_as_little_endian_words() {
        let mut bytes = [0_u8; 20];
        bytes[..4].copy_from_slice(&[1, 0, 0, 2]);
        bytes[5] = 4;
        let expected = FileCapabilities {
            is_effective: true,
            permitted: u64::from(LOW),
            inheritable: 0,
        };
        assert_eq!(FileCapabilities::decode(&bytes), Some(expected));
        let mut bytes = [0_u8; 20];
        bytes[3] = 2;
        bytes[9] = 4;
        let expected = FileCapabilities {
            is_effective: false,
            permitted: 0,
            inheritable: u64::from(LOW),
        };
        assert_eq!(FileCapabilities::decode(&bytes), Some(expected));
    }

    #[test]
    fn each_revision_has_its_words() {
        let of = |permitted, inheritable| FileCapabilities {
            is_effective: false,
            permitted,
            inheritable,
        };
        assert_eq!(decoded(&[REVISION_1, LOW, HIGH]), Some(of(1 << 10, 1 << 7)));
        let both = of((1 << 10) | (1 << 39), 3 | (5 << 32));
        assert_eq!(decoded(&[REVISION_2, LOW, 3, HIGH, 5]), Some(both));
        assert_eq!(decoded(&[REVISION_3, LOW, 3, HIGH, 5, 0]), Some(both));
        // For the root user of another user namespace.
        assert_eq!(decoded(&[REVISION_3, LOW, 3, HIGH, 5, 1000]), None);
    }

    #[test]
    fn an_attribute_of_another_length_or_revision_has_no_capabilities() {
        assert_eq!(FileCapabilities::decode(&[]), None);
        assert_eq!(FileCapabilities::decode(&[1, 0, 0]), None);
        for revision in [0, 4 << 24, REVISION | EFFECTIVE] {
            assert_eq!(decoded(&[revision, LOW, 0, 0, 0]), None, "{revision:#x}");
        }
        for words in [1, 2, 4, 6] {
            let mut attribute = vec![0; words];
            attribute[0] = REVISION_2 | EFFECTIVE;
            assert_eq!(decoded(&attribute), None, "{words} words");
        }
    }

    /// `plimsoll exec` refused a program with any attribute, also with one that the kernel ignores, while its library decoded it.
    #[test]
    fn only_the_length_of_its_revision_is_decoded() {
        for revision in 0..=u8::MAX {
            for length in 0..=2 * FileCapabilities::MOST_BYTES {
                let mut attribute = vec![0; length];
                if let Some(byte) = attribute.get_mut(3) {
                    *byte = revision;
                }
                let is_valid = matches!((revision, length), (1, 12) | (2, 20) | (3, 24));
                let decoded = FileCapabilities::decode(&attribute);
                assert_eq!(decoded.is_some(), is_valid, "revision {revision}, {length} bytes");
            }
        }
    }

    #[test]
    fn each_byte_belongs_to_one_set_or_to_the_root_user() {
        for (revision, length) in [(1, 12), (2, 20), (3, 24)] {
            for at in (0..length).filter(|at| *at != 3) {
                for value in 0..=u8::MAX {
                    let mut attribute = vec![0; length];
                    (attribute[3], attribute[at]) = (revision, value);
                    let in_low = u64::from(value) << (at % 4 * 8);
                    let (permitted, inheritable) = match at / 4 {
                        1 => (in_low, 0),
                        2 => (0, in_low),
                        3 => (in_low << 32, 0),
                        4 => (0, in_low << 32),
                        _ => (0, 0),
                    };
                    let expected = FileCapabilities {
                        is_effective: at == 0 && value & 1 == 1,
                        permitted,
                        inheritable,
                    };
                    let is_of_root = at < 20 || value == 0;
                    let decoded = FileCapabilities::decode(&attribute);
                    assert_eq!(decoded, is_of_root.then_some(expected), "{attribute:?}");
                }
            }
        }
    }

    #[test]
    fn own_capabilities_are_those_of_the_status_file() {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("there is /proc");
        let value = |name: &str| {
            let mut lines = status.lines();
            let line = lines
                .find_map(|line| line.strip_prefix(name))
                .expect("it has the line");
            u64::from_str_radix(line.trim(), 16).expect("a number")
        };
        let expected = ProcessCapabilities {
            permitted: value("CapPrm:"),
            inheritable: value("CapInh:"),
            bounding: value("CapBnd:"),
            gains_none: value("NoNewPrivs:") == 1,
        };
        assert_eq!(ProcessCapabilities::own(), expected);
    }

    const PROCESS: ProcessCapabilities = ProcessCapabilities {
        permitted: 0,
        inheritable: 0,
        bounding: u64::MAX,
        gains_none: false,
    };

    fn is_secure(words: [u32; 3], process: ProcessCapabilities) -> bool {
        let file = decoded(&words).expect("capabilities");
        file.makes_secure(|| process)
    }

    #[test]
    fn the_effective_flag_makes_a_program_secure_without_new_privileges_too() {
        for gains_none in [false, true] {
            let process = ProcessCapabilities {
                gains_none,
                ..PROCESS
            };
            assert!(is_secure([REVISION_1 | EFFECTIVE, LOW, 0], process));
            assert!(is_secure([REVISION_1 | EFFECTIVE, 0, LOW], process));
        }
    }

    #[test]
    fn permitted_capabilities_make_a_program_secure_if_it_gets_them() {
        let file = [REVISION_1, LOW, 0];
        assert!(is_secure(file, PROCESS));
        let bounded = ProcessCapabilities {
            bounding: !u64::from(LOW),
            ..PROCESS
        };
        assert!(!is_secure(file, bounded));
        let restricted = ProcessCapabilities {
            gains_none: true,
            ..PROCESS
        };
        assert!(!is_secure(file, restricted));
        let has_it = ProcessCapabilities {
            permitted: u64::from(LOW),
            ..restricted
        };
        assert!(is_secure(file, has_it));
    }

    #[test]
    fn inheritable_capabilities_make_a_program_secure_if_the_process_has_them() {
        let file = [REVISION_1, 0, LOW];
        assert!(!is_secure(file, PROCESS));
        let other = ProcessCapabilities {
            inheritable: u64::from(HIGH),
            ..PROCESS
        };
        assert!(!is_secure(file, other));
        let has_it = ProcessCapabilities {
            inheritable: u64::from(LOW),
            ..PROCESS
        };
        assert!(is_secure(file, has_it));
    }
}
