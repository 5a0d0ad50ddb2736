//! The mappings of this process, of which the kernel allows only so many. No call touches `errno`. The module reads the files
//! of `/proc` itself, because the heap calls it where nothing may allocate.

use crate::kernel_file::read_file;

/// The most mappings that the kernel allows a process: `vm.max_map_count`. None without `/proc`.
pub fn most_mappings() -> Option<usize> {
    let mut number: Option<usize> = None;
    let mut add = |digit: u8| {
        let so_far = number.unwrap_or(0);
        number = Some(
            so_far
                .saturating_mul(10)
                .saturating_add(usize::from(digit - b'0')),
        );
    };
    let read = read_file(c"/proc/sys/vm/max_map_count", |bytes| {
        bytes
            .iter()
            .copied()
            .filter(u8::is_ascii_digit)
            .for_each(&mut add);
    });
    read.ok().and(number)
}

/// The mappings of this process. The kernel takes some tenths of a microsecond for each. None without `/proc`.
pub fn count_mappings() -> Option<usize> {
    let mut lines = 0;
    let read = read_file(c"/proc/self/maps", |bytes| {
        lines += bytes.iter().filter(|byte| **byte == b'\n').count();
    });
    read.is_ok().then_some(lines)
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    extern crate std;

    use super::*;
    use crate::address_space;

    #[test]
    fn the_limit_is_that_of_the_system() {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("there is /proc");
        assert_eq!(most_mappings(), text.trim().parse().ok());
    }

    /// Other tests map and unmap meanwhile.
    #[test]
    fn new_mappings_are_counted() {
        const MORE: usize = 1000;
        let before = count_mappings().expect("there is /proc");
        let page = crate::page_size();
        let length = MORE * page;
        let start = address_space::map(length).expect("there is memory");
        // Neighbours with other rights are not one mapping.
        for number in (0..MORE).step_by(2) {
            // SAFETY: the range is this test's own, and nothing reads or writes it.
            unsafe { address_space::set_access(start + number * page, page, address_space::Access::None) }
                .expect("the range is mapped");
        }
        let with = count_mappings().expect("there is /proc");
        // SAFETY: as above.
        unsafe { address_space::unmap(start, length) }.expect("mapped above");
        assert!(
            (before + MORE / 2..before + 2 * MORE).contains(&with),
            "{before} {with}"
        );
    }
}
