//! A map of few names to values, in the order of the names.

use std::ops::Index;
use std::sync::Arc;

/// The values of a group by name. Groups share their names, so that many groups take no memory for the same texts; a tree
/// of one group's metrics takes three times the memory of this.
///
/// Invariant: the names ascend, and no two are alike. Checked by `a_name_map_is_like_a_tree`.
#[derive(Debug, Clone, PartialEq)]
pub struct NameMap<T>(Vec<(Arc<str>, T)>);

impl<T> Default for NameMap<T> {
    fn default() -> Self {
        NameMap(Vec::new())
    }
}

impl<T> NameMap<T> {
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }

    pub fn get(&self, name: &str) -> Option<&T> {
        self.place(name).ok().map(|place| &self.0[place].1)
    }

    pub fn contains_key(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    pub fn retain(&mut self, mut keeps: impl FnMut(&str, &T) -> bool) {
        self.0.retain(|(name, value)| keeps(name, value));
    }
}

impl<T> Index<&str> for NameMap<T> {
    type Output = T;

    fn index(&self, name: &str) -> &T {
        self.get(name).unwrap_or_else(|| panic!("there is no `{name}`"))
    }
}

/// Of equal names the last one stays.
impl<T> FromIterator<(Arc<str>, T)> for NameMap<T> {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, T)>>(entries: I) -> Self {
        let mut map = NameMap::default();
        for (name, value) in entries {
            match map.place(&name) {
                Ok(place) => map.0[place].1 = value,
                Err(place) => map.0.insert(place, (name, value)),
            }
        }
        map.0.shrink_to_fit();
        map
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_map_is_like_a_tree(entries in prop::collection::vec(("[a-d]{0,2}", any::<u8>()), 0..20)) {
            let tree: BTreeMap<String, u8> = entries.iter().cloned().collect();
            let mut map: NameMap<u8> =
                entries.iter().map(|(name, value)| (Arc::from(name.as_str()), *value)).collect();
            let as_list = |map: &NameMap<u8>| -> Vec<(String, u8)> {
                map.iter().map(|(name, value)| (name.to_owned(), *value)).collect()
            };
            prop_assert_eq!(as_list(&map), tree.clone().into_iter().collect::<Vec<_>>());
            prop_assert!(map.keys().eq(tree.keys()) && map.values().eq(tree.values()));
            prop_assert_eq!(map.is_empty(), tree.is_empty());
            for (name, value) in &tree {
                prop_assert_eq!((map.get(name), map[name.as_str()]), (Some(value), *value));
            }
            prop_assert!(!map.contains_key("none") && map.get("none").is_none());
            map.retain(|name, value| name != "a" && value % 2 == 0);
            let mut tree = tree;
            tree.retain(|name, value| name != "a" && *value % 2 == 0);
            prop_assert_eq!(as_list(&map), tree.into_iter().collect::<Vec<_>>());
        }
    }
}
