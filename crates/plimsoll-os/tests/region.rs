//! Regions, and the contents of their pages after each call.

use plimsoll_os::{BackingFile, Discard, Errno, Pages, Region, page_size};

const LENGTH: usize = 1 << 20;

/// Words that are not zero.
fn kept(region: &Region) -> usize {
    (0..)
        .map_while(|index| region.word(index))
        .filter(|word| *word != 0)
        .count()
}

#[test]
fn what_is_discarded_reads_as_zero_and_what_is_a_files_stays() {
    let file = BackingFile::in_memory(LENGTH).unwrap();
    for (pages, left) in [(Pages::Anonymous, 0), (Pages::Shared(&file), LENGTH / 8)] {
        let mut region = Region::map(pages, LENGTH).unwrap();
        region.fill(7);
        assert_eq!(kept(&region), LENGTH / 8);
        region.discard(Discard::DontNeed).unwrap();
        assert_eq!(kept(&region), left);
    }
    let region = Region::map(Pages::Shared(&file), LENGTH).unwrap();
    file.punch().unwrap();
    assert_eq!(
        kept(&region),
        0,
        "a hole reads as zero, in a region that was there before"
    );
}

#[test]
fn a_region_shrinks_and_grows_and_is_mapped_over() {
    let mut region = Region::map(Pages::Populated, LENGTH).unwrap();
    region.touch(4096, 1);
    assert_eq!(kept(&region), LENGTH / 4096);
    region.resize(page_size()).unwrap();
    assert_eq!((region.len(), region.word(page_size() / 8)), (page_size(), None));
    region.resize(LENGTH).unwrap();
    assert_eq!(kept(&region), page_size() / 4096, "only what stayed mapped");
    let region = region.map_over(Pages::Anonymous).unwrap();
    assert_eq!((region.len(), kept(&region)), (LENGTH, 0));
    region.unmap().unwrap();
}

#[test]
fn a_file_of_another_length_is_refused() {
    let file = BackingFile::in_memory(LENGTH).unwrap();
    assert_eq!(
        Region::map(Pages::Shared(&file), 2 * LENGTH).unwrap_err(),
        Errno::INVAL
    );
    assert_eq!((file.len(), file.is_empty()), (LENGTH, false));
}
