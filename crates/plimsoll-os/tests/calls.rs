//! The raw calls against the running kernel.

use plimsoll_os::{
    Advice, Errno, Mapping, PageOutError, Pidfd, Range, UffdMode, api_handshake, open_userfaultfd, own_page,
    page_size, swap_off, swap_on,
};

use plimsoll_testkit::rseq;

/// Whether `outcome` is not a refusal for want of privilege or of a kernel that knows the call.
fn allowed<T>(capability: &str, outcome: Result<T, Errno>) -> bool {
    let refusals = [Errno::PERM, Errno::NOMEM, Errno::NOSYS];
    match outcome {
        Err(errno) if refusals.contains(&errno) => {
            plimsoll_testkit::capability(capability, false, &errno.to_string())
        }
        _ => true,
    }
}

fn is_mapped(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split(' ').next().unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&address)
    })
}

#[test]
fn a_mapping_is_zero_writable_and_gone_after() {
    let mut mapping = Mapping::anonymous(1 << 20).unwrap();
    assert!(mapping.bytes().iter().all(|byte| *byte == 0));
    mapping.bytes_mut().fill(7);
    assert!(mapping.len() == 1 << 20 && mapping.bytes().iter().all(|byte| *byte == 7));
    let address = mapping.address();
    assert!(is_mapped(address));
    mapping.unmap().unwrap();
    assert!(!is_mapped(address));
}

#[test]
fn a_shared_page_becomes_this_process_s_own_with_the_same_contents() {
    let mut mapping = Mapping::anonymous(2 * page_size()).unwrap();
    mapping.bytes_mut().fill(7);
    let address = mapping.address();
    let is_own = |page: usize| {
        let mut entry = [0; 8];
        let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
        let at = (address / page_size() + page) * entry.len();
        std::os::unix::fs::FileExt::read_exact_at(&pagemap, &mut entry, at as u64).unwrap();
        u64::from_ne_bytes(entry) >> 56 & 1 == 1
    };
    let (mut waits, end) = std::io::pipe().unwrap();
    let child = std::thread::spawn(move || {
        plimsoll_testkit::status_of_fork(std::panic::AssertUnwindSafe(move || {
            assert_eq!(std::io::Read::read(&mut waits, &mut [0]).unwrap(), 1);
        }))
    });
    while is_own(0) {
        std::thread::yield_now();
    }
    own_page(address + 8).unwrap();
    assert_eq!([is_own(0), is_own(1)], [true, false]);
    std::io::Write::write_all(&mut { end }, &[0]).unwrap();
    assert_eq!(child.join().unwrap(), 0);
    assert!(mapping.bytes().iter().all(|byte| *byte == 7));
    mapping.unmap().unwrap();
    assert_eq!(own_page(address), Err(Errno::FAULT));
}

#[test]
fn what_cannot_be_mapped_is_an_error() {
    assert_eq!(Mapping::anonymous(0).unwrap_err(), Errno::INVAL);
    assert_eq!(Mapping::anonymous(usize::MAX).unwrap_err(), Errno::NOMEM);
    assert_eq!(Mapping::anonymous(1 << 60).unwrap_err(), Errno::NOMEM);
}

#[test]
fn advice_keeps_contents() {
    let mut mapping = Mapping::anonymous(8 << 20).unwrap();
    mapping.bytes_mut().fill(9);
    for advice in [Advice::NoHugePage, Advice::PageOut, Advice::HugePage] {
        mapping.advise(advice).unwrap();
        assert!(mapping.bytes().iter().all(|byte| *byte == 9), "{advice:?}");
    }
}

/// Whether the files of a folder have no other place than RAM.
fn is_in_memory(folder: &str) -> bool {
    let said = plimsoll_testkit::command("stat")
        .args(["-f", "-c", "%T", folder])
        .output();
    let said = said.expect("coreutils has stat");
    ["tmpfs", "ramfs"].contains(&String::from_utf8_lossy(&said.stdout).trim())
}

/// A dirty page of a file leaves RAM only after it was written: its page-out alone unmaps it and leaves it in the cache.
#[test]
fn a_mapped_file_leaves_ram_after_it_was_written() {
    let length = 4 << 20;
    let mut mapping = Mapping::of_disk_file(c"/var/tmp", length).unwrap();
    assert_eq!((mapping.len(), mapping.bytes()[length - 1]), (length, 0));
    mapping.bytes_mut().fill(9);
    assert_eq!(mapping.in_core().unwrap(), length as u64);
    let range = Range {
        start: mapping.address() as u64,
        length: length as u64,
    };
    plimsoll_os::write_back(range).unwrap();
    mapping.advise(Advice::PageOut).unwrap();
    let left = mapping.in_core().unwrap();
    assert!(left <= length as u64 / 20 || is_in_memory("/var/tmp"), "{left}");
    assert!(mapping.bytes().iter().all(|byte| *byte == 9));
    assert_eq!(mapping.in_core().unwrap(), length as u64);
}

/// A page-out of dirty pages unmaps them: a second one found no page in the page tables, and half of a file stayed in RAM.
#[test]
fn cached_pages_that_are_not_mapped_leave_ram_after_they_are_mapped() {
    let length = 4 << 20;
    let mut mapping = Mapping::of_disk_file(c"/var/tmp", length).unwrap();
    mapping.bytes_mut().fill(9);
    mapping.advise(Advice::PageOut).unwrap();
    let range = Range {
        start: mapping.address() as u64,
        length: length as u64,
    };
    plimsoll_os::write_back(range).unwrap();
    mapping.map_cached().unwrap();
    mapping.advise(Advice::PageOut).unwrap();
    let left = mapping.in_core().unwrap();
    assert!(left <= length as u64 / 20 || is_in_memory("/var/tmp"), "{left}");
    assert!(mapping.bytes().iter().all(|byte| *byte == 9));
}

#[test]
fn a_mapped_memory_file_is_shared_memory_of_its_own() {
    let length = 3 * page_size() + 1;
    let mut mapping = Mapping::of_memory_file(length).unwrap();
    assert_eq!((mapping.len(), mapping.in_core().unwrap()), (length, 0));
    mapping.bytes_mut()[length - 1] = 3;
    assert_eq!(mapping.in_core().unwrap(), page_size() as u64);
    assert_eq!(mapping.bytes()[length - 1], 3);
    assert!(Mapping::of_memory_file(0).is_err() && Mapping::of_disk_file(c"/no/such/folder", 4096).is_err());
}

#[test]
fn a_userfaultfd_tells_what_it_can_do() {
    let opened = open_userfaultfd(UffdMode::UserModeOnly);
    if !allowed("userfaultfd", opened.as_ref().map_err(|errno| *errno)) {
        return;
    }
    let api = api_handshake(&opened.unwrap()).unwrap();
    // _UFFDIO_REGISTER, _UFFDIO_UNREGISTER and _UFFDIO_API have been there from the first version on.
    let first = 1 << 0 | 1 << 1 | 1 << 0x3f;
    assert_eq!(api.ioctls & first, first, "{api:x?}");
}

#[test]
fn a_page_out_ends_where_it_is_told_or_refused() {
    let this = Pidfd::open(std::process::id()).unwrap();
    let page = page_size() as u64;
    let mut mapping = Mapping::anonymous(page_size() * 8).unwrap();
    mapping.bytes_mut().fill(1);
    let start = mapping.address() as u64;
    let range = Range {
        start,
        length: 8 * page,
    };
    let all = this.page_out(&[range], 3 * page, |_| true);
    if !allowed("process-madvise", all.map_err(|error| error.errno)) {
        return;
    }
    assert_eq!(all, Ok(8 * page));
    assert_eq!(
        this.page_out(&[range], 3 * page, |done| done < 6 * page),
        Ok(6 * page)
    );
    let astray = Range {
        start: start + 1,
        length: page,
    };
    let refused = this.page_out(&[range, astray], 8 * page, |_| true);
    let expected = PageOutError {
        advised: 8 * page,
        errno: Errno::INVAL,
    };
    assert_eq!(refused, Err(expected));
    assert!(mapping.bytes().iter().all(|byte| *byte == 1));
}

#[test]
fn the_area_of_restartable_sequences_is_found_where_there_is_one() {
    let usable = rseq::is_usable();
    plimsoll_testkit::capability("rseq", usable, rseq::WHAT_IS_NEEDED);
    assert_eq!(plimsoll_os::restartable_area().is_some(), usable);
}

#[test]
fn a_process_that_was_reaped_cannot_be_signalled() {
    let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
    let pidfd = Pidfd::open(child.id()).unwrap();
    pidfd.send_signal(libc::SIGKILL).unwrap();
    child.wait().unwrap();
    assert_eq!(pidfd.send_signal(libc::SIGKILL), Err(Errno::SRCH));
}

#[test]
fn swap_calls_refuse_what_is_no_swap() {
    let priority_too_high = swap_on(c"/no/such/device", Some(32_768));
    assert_eq!(priority_too_high, Err(Errno::INVAL));
    let expected = [libc::ENOENT, libc::EPERM];
    for refused in [swap_on(c"/no/such/device", None), swap_off(c"/no/such/device")] {
        assert!(expected.contains(&refused.unwrap_err().raw()));
    }
}

#[test]
fn an_error_is_shown_in_words_with_its_number() {
    assert_eq!(Errno::NOMEM.to_string(), "Cannot allocate memory (errno 12)");
}

#[test]
fn memory_of_another_process_is_read_while_it_runs() {
    let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
    let path = format!("/proc/{}/maps", child.id());
    let maps = loop {
        let maps = std::fs::read_to_string(&path).unwrap();
        // Before it has become the other program it is a copy of this one.
        if maps.contains("/sleep") {
            break maps;
        }
    };
    let start = maps.lines().find(|line| line.contains("/sleep")).unwrap();
    let start = usize::from_str_radix(start.split_once('-').unwrap().0, 16).unwrap();
    let mut bytes = [0; 4];
    let outcome = plimsoll_os::read_other(child.id(), start, &mut bytes);
    let nowhere = plimsoll_os::read_other(child.id(), 0, &mut bytes);
    let pid = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    if allowed("ptrace", outcome) {
        assert_eq!((outcome, &bytes), (Ok(4), b"\x7fELF"));
        assert_eq!(nowhere, Err(Errno::FAULT));
        assert_eq!(plimsoll_os::read_other(pid, start, &mut bytes), Err(Errno::SRCH));
    }
}
