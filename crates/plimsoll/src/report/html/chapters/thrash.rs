//! The thrash chapter of the page.

use super::Chapter;
use crate::analysis::Group;
use crate::report::page::Page;

/// The chapter of these groups.
pub(super) fn chapter(_page: &Page, _groups: &[&Group]) -> Option<Chapter> {
    None
}
