//! Same-filled pages: one word of eight bytes, repeated.

use crate::store::units::Page;

/// The word that fills a page, in the machine's byte order; none if words of the page differ.
pub(crate) fn filling_word(page: &Page) -> Option<u64> {
    let first = word(&page[..8]);
    // Most pages differ in the first words or at the end, which ends the search.
    if word(&page[page.len() - 8..]) != first {
        return None;
    }
    page.chunks_exact(64)
        .all(|line| {
            line.chunks_exact(8)
                .fold(true, |same, next| same & (word(next) == first))
        })
        .then_some(first)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

pub(crate) fn fill(page: &mut Page, word: u64) {
    for target in page.chunks_exact_mut(8) {
        target.copy_from_slice(&word.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::units::PAGE;

    #[test]
    fn a_page_of_one_word_is_found_and_restored() {
        for word in [0, u64::MAX, 0x1122_3344_5566_7788, 1.0f64.to_bits()] {
            let mut page = [0x55; PAGE];
            fill(&mut page, word);
            assert_eq!(filling_word(&page), Some(word));
        }
    }

    #[test]
    fn one_other_byte_anywhere_makes_a_page_differ() {
        for at in 0..PAGE {
            let mut page = [7; PAGE];
            page[at] = 8;
            assert_eq!(filling_word(&page), None, "byte {at}");
        }
    }
}
