//! `/proc/iomem`: where RAM is in the physical address space.

use std::ops::Range;

use super::Tree;

/// Frames of RAM, ascending. Some kernels have page flags for the gaps between them too, which nothing tells from pages
/// in use by the kernel. Everything, where the file does not say: others than root are shown zeros.
pub fn memory_frames(tree: &Tree) -> Vec<Range<u64>> {
    parse(&tree.read("proc/iomem").unwrap_or_default())
}

fn parse(text: &str) -> Vec<Range<u64>> {
    let page = rustix::param::page_size() as u64;
    let range = |line: &str| {
        let (addresses, name) = line.trim_start().split_once(" : ")?;
        let (first, last) = addresses.split_once('-')?;
        let first = u64::from_str_radix(first, 16).ok()?;
        let end = u64::from_str_radix(last, 16).ok()?.checked_add(1)?;
        let frames = first.div_ceil(page)..end / page;
        (name.starts_with("System RAM") && !frames.is_empty()).then_some(frames)
    };
    let mut found: Vec<Range<u64>> = text.lines().filter_map(range).collect();
    found.sort_by_key(|frames| frames.start);
    if found.is_empty() {
        found.push(0..u64::MAX);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_where_the_kernel_says() {
        let page = rustix::param::page_size() as u64;
        let text = format!(
            "00000000-00000fff : Reserved\n{:08x}-{:08x} : System RAM\n  00001000-00001fff : Kernel code\n\
             {:08x}-{:08x} : System RAM (kmem)\nno line\n",
            page,
            3 * page + 5,
            10 * page - 1,
            12 * page - 1
        );
        assert_eq!(parse(&text), [1..3, 10..12]);
        // The kernel shows zeros to users other than root.
        let everything = parse("00000000-00000000 : System RAM\n");
        assert_eq!((everything.len(), everything[0].end), (1, u64::MAX));
    }
}
