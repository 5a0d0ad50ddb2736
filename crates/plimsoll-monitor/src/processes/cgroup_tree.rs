//! The tree of memory cgroups, with rates between two readings: the output of `plimsoll ps --cgroups`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use plimsoll_proc::cgroup::{Bounds, Hierarchy, walk};
use plimsoll_sample::monotonic_ns;
use serde::Serialize;

use super::cgroup::{CapKind, Cgroup};

/// Schema version of [`CgroupListing`] in JSON. A removed field or a changed meaning raises it.
pub const CGROUPS_SCHEMA: u32 = 1;

/// Bounds of a reading: it takes some files of each cgroup, about 0.1 ms.
pub const CGROUP_BOUNDS: Bounds = Bounds {
    depth: 32,
    count: 4096,
};

/// The memory cgroups of a hierarchy at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct CgroupTree {
    /// Time of the end of the reading, in nanoseconds of CLOCK_MONOTONIC.
    at_ns: u64,
    version: &'static str,
    mount: PathBuf,
    bounds: Bounds,
    /// Level by level: a parent comes before its children.
    nodes: Vec<Node>,
    too_many: bool,
    too_deep: bool,
    denied: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct Node {
    folder: PathBuf,
    depth: usize,
    parent: Option<usize>,
    /// Time of its reading.
    read_ns: u64,
    cgroup: Cgroup,
}

/// Order of the children of a cgroup: the greatest first, names in ascending order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CgroupOrder {
    #[default]
    Usage,
    Swap,
    Refaults,
    Name,
}

/// The tree with rates between two readings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CgroupListing {
    pub schema: u32,
    pub interval_s: f64,
    /// `v1` or `v2`.
    pub version: &'static str,
    /// Mount of the memory controller.
    pub mount: String,
    /// Whether every cgroup is listed.
    pub complete: bool,
    /// Each cgroup before those below it.
    pub cgroups: Vec<CgroupRow>,
    /// Missing cgroups and values, with the reason.
    pub notes: Vec<String>,
}

/// A cgroup of a [`CgroupListing`]. Values include the cgroups below it. None means unknown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CgroupRow {
    /// Not in the JSON document, which has the mount and `path`.
    #[serde(skip)]
    pub folder: PathBuf,
    /// Path below the mount, with a slash before it. Not sanitized; invalid UTF-8 is replaced.
    pub path: String,
    /// Last part of the path. Not sanitized.
    pub name: String,
    /// Levels below the mount.
    pub depth: usize,
    /// Charged bytes: `memory.current`, or `memory.usage_in_bytes` of v1.
    pub usage: Option<u64>,
    pub swap: Option<u64>,
    /// Caps set on the cgroup itself.
    pub caps: Vec<RowCap>,
    /// Refaulted pages per second. None for the root cgroup of the machine, whose counter is the machine's.
    pub refaults_per_s: Option<f64>,
    /// Percent of the time in which some task waited for memory (v2).
    pub stalled_percent: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RowCap {
    pub kind: CapKind,
    pub bytes: u64,
}

impl CgroupTree {
    /// Reads the cgroups of `hierarchy` within `bounds`.
    ///
    /// # Errors
    ///
    /// If the mount cannot be listed.
    pub fn read(hierarchy: &Hierarchy, bounds: Bounds) -> io::Result<CgroupTree> {
        let found = walk(&hierarchy.mount, bounds)?;
        let nodes: Vec<Node> = found
            .cgroups
            .into_iter()
            .map(|found| Node {
                cgroup: Cgroup::read(&found.folder, hierarchy.version),
                read_ns: monotonic_ns(),
                folder: found.folder,
                depth: found.depth,
                parent: found.parent,
            })
            .collect();
        Ok(CgroupTree {
            at_ns: monotonic_ns(),
            version: hierarchy.version.name(),
            mount: hierarchy.mount.clone(),
            bounds,
            nodes,
            too_many: found.too_many,
            too_deep: found.too_deep,
            denied: found.denied,
        })
    }
}

impl CgroupListing {
    /// The cgroups of `after`. Rates are unknown for a cgroup that is missing in `before`. A cgroup that was removed
    /// during the reading is left out.
    pub fn between(before: &CgroupTree, after: &CgroupTree, order: CgroupOrder) -> CgroupListing {
        let earlier: HashMap<&PathBuf, &Node> =
            before.nodes.iter().map(|node| (&node.folder, node)).collect();
        let mut rows: Vec<Option<CgroupRow>> = after
            .nodes
            .iter()
            .map(|node| {
                let gone = node.cgroup == Cgroup::default() && !node.folder.exists();
                (!gone).then(|| row(node, earlier.get(&node.folder).copied(), &after.mount))
            })
            .collect();
        let cgroups = in_depth_first_order(&after.nodes, &rows, order)
            .into_iter()
            .filter_map(|place| rows[place].take())
            .collect();
        CgroupListing {
            schema: CGROUPS_SCHEMA,
            interval_s: after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9,
            version: after.version,
            mount: after.mount.to_string_lossy().into_owned(),
            complete: !after.too_many && !after.too_deep && after.denied == 0,
            cgroups,
            notes: notes(after),
        }
    }

    /// A listing without cgroups, with the reason.
    pub fn impossible(reason: String) -> CgroupListing {
        CgroupListing {
            schema: CGROUPS_SCHEMA,
            interval_s: 0.0,
            version: "",
            mount: String::new(),
            complete: false,
            cgroups: Vec::new(),
            notes: vec![reason],
        }
    }
}

fn row(node: &Node, earlier: Option<&Node>, mount: &PathBuf) -> CgroupRow {
    let below = node.folder.strip_prefix(mount).unwrap_or(&node.folder);
    let name = below.file_name().map(|name| name.to_string_lossy().into_owned());
    let rate = |of: fn(&Cgroup) -> Option<u64>| {
        let earlier = earlier?;
        let seconds = node.read_ns.checked_sub(earlier.read_ns)? as f64 / 1e9;
        let (before, after) = of(&earlier.cgroup).zip(of(&node.cgroup))?;
        (seconds > 0.0).then(|| after.saturating_sub(before) as f64 / seconds)
    };
    let cap = |cap: &super::Cap| RowCap {
        kind: cap.kind,
        bytes: cap.bytes,
    };
    CgroupRow {
        folder: node.folder.clone(),
        path: format!("/{}", below.to_string_lossy()),
        name: name.unwrap_or_else(|| "/".to_owned()),
        depth: node.depth,
        usage: node.cgroup.usage,
        swap: node.cgroup.swap,
        caps: node.cgroup.caps.iter().map(cap).collect(),
        refaults_per_s: rate(Cgroup::refaults),
        // One microsecond per second is a ten-thousandth of a percent. The time of the reading is not exactly that of
        // the counter: a second can seem to hold more than its time.
        stalled_percent: rate(|cgroup| cgroup.stalled_us).map(|us_per_s| (us_per_s / 1e4).min(100.0)),
    }
}

/// Places of the nodes: each before those below it, siblings in `order`.
fn in_depth_first_order(nodes: &[Node], rows: &[Option<CgroupRow>], order: CgroupOrder) -> Vec<usize> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (place, node) in nodes.iter().enumerate() {
        if let Some(parent) = node.parent {
            children[parent].push(place);
        }
    }
    let size = |place: usize| {
        let row = rows[place].as_ref()?;
        match order {
            CgroupOrder::Usage => row.usage,
            CgroupOrder::Swap => row.swap,
            // Rates are finite and not negative.
            CgroupOrder::Refaults => row.refaults_per_s.map(|rate| (rate * 1e3) as u64),
            CgroupOrder::Name => None,
        }
    };
    for siblings in &mut children {
        siblings.sort_by_cached_key(|&place| (Reverse(size(place)), nodes[place].folder.clone()));
    }
    let mut ordered = Vec::with_capacity(nodes.len());
    let mut next: Vec<usize> = if nodes.is_empty() { Vec::new() } else { vec![0] };
    while let Some(place) = next.pop() {
        ordered.push(place);
        next.extend(children[place].iter().rev());
    }
    ordered
}

fn notes(tree: &CgroupTree) -> Vec<String> {
    let mut notes = Vec::new();
    if tree.too_many {
        let most = tree.bounds.count;
        notes.push(format!(
            "cannot list every cgroup: there are more than {most}; the upper levels are listed"
        ));
    }
    // A lower bound is the user's choice.
    if tree.too_deep && tree.bounds.depth >= CGROUP_BOUNDS.depth {
        let most = tree.bounds.depth;
        notes.push(format!(
            "cannot list every cgroup: some are more than {most} levels deep"
        ));
    }
    if tree.denied > 0 {
        notes.push(format!(
            "cannot list the children of {} cgroups: permission denied; run as root to see them",
            tree.denied
        ));
    }
    if tree.version == "v1" {
        notes.push("cgroup v1 has no memory pressure for each cgroup: shown as -".to_owned());
    }
    notes
}

/// The lines of a tree before each of its rows, whose depths are given: each row stands before those below it.
pub(crate) fn branches(depths: &[usize], unicode: bool) -> Vec<String> {
    let [through, fork, end] = match unicode {
        true => ["\u{2502} ", "\u{251c} ", "\u{2514} "],
        false => ["| ", "|-", "`-"],
    };
    // Whether a later row is a sibling, by level.
    let mut later: Vec<bool> = Vec::new();
    let mut branches: Vec<String> = depths
        .iter()
        .rev()
        .map(|&depth| {
            later.resize(depth + 1, false);
            let mut text: String = (1..depth)
                .map(|level| if later[level] { through } else { "  " })
                .collect();
            if depth > 0 {
                text += if later[depth] { fork } else { end };
            }
            later[depth] = true;
            text
        })
        .collect();
    branches.reverse();
    branches
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use plimsoll_proc::cgroup::CgroupVersion;

    use super::*;

    fn hierarchy(root: &tempfile::TempDir, version: CgroupVersion) -> Hierarchy {
        Hierarchy {
            version,
            mount: root.path().to_owned(),
            inner: "/".into(),
            own: root.path().to_owned(),
        }
    }

    fn put(root: &tempfile::TempDir, folder: &str, files: &[(&str, &str)]) {
        let folder = root.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    fn v2(usage: u64, refaults: u64, stalled_us: u64) -> Vec<(&'static str, String)> {
        vec![
            ("cgroup.type", "domain\n".to_owned()),
            ("memory.current", format!("{usage}\n")),
            ("memory.swap.current", "4096\n".to_owned()),
            ("memory.max", "max\n".to_owned()),
            ("memory.high", "1048576\n".to_owned()),
            (
                "memory.stat",
                format!("workingset_refault_anon {refaults}\nworkingset_refault_file 0\n"),
            ),
            (
                "memory.pressure",
                format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled_us}\n"),
            ),
        ]
    }

    fn put_v2(root: &tempfile::TempDir, folder: &str, usage: u64, refaults: u64, stalled_us: u64) {
        let files = v2(usage, refaults, stalled_us);
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        put(root, folder, &files);
    }

    /// Readings ten seconds apart.
    fn listing(root: &tempfile::TempDir, change: impl Fn(), order: CgroupOrder) -> CgroupListing {
        let hierarchy = hierarchy(root, CgroupVersion::V2);
        let mut before = CgroupTree::read(&hierarchy, CGROUP_BOUNDS).unwrap();
        change();
        let after = CgroupTree::read(&hierarchy, CGROUP_BOUNDS).unwrap();
        before.at_ns = after.at_ns - 10_000_000_000;
        for node in &mut before.nodes {
            let later = after.nodes.iter().find(|later| later.folder == node.folder);
            node.read_ns = later.map_or(0, |later| later.read_ns - 10_000_000_000);
        }
        CgroupListing::between(&before, &after, order)
    }

    #[test]
    fn a_v2_tree_has_sizes_caps_and_rates_and_children_below_their_parents() {
        let root = tempfile::tempdir().unwrap();
        put_v2(&root, "web", 100, 0, 0);
        put_v2(&root, "web/small", 10, 0, 0);
        put_v2(&root, "web/large", 80, 7, 1_000_000);
        put_v2(&root, "batch", 5000, 0, 0);
        let change = || {
            put_v2(&root, "web/large", 90, 57, 6_000_000);
            put_v2(&root, "new", 1, 9, 9);
        };
        let listed = listing(&root, change, CgroupOrder::Usage);
        let paths: Vec<&str> = listed.cgroups.iter().map(|row| row.path.as_str()).collect();
        assert_eq!(paths, ["/", "/batch", "/web", "/web/large", "/web/small", "/new"]);
        let large = &listed.cgroups[3];
        assert_eq!((large.depth, large.usage, large.swap), (2, Some(90), Some(4096)));
        let cap = RowCap {
            kind: CapKind::High,
            bytes: 1 << 20,
        };
        assert_eq!(large.caps, [cap]);
        assert_eq!(
            (large.refaults_per_s, large.stalled_percent),
            (Some(5.0), Some(50.0))
        );
        assert_eq!(
            listed.cgroups[5].refaults_per_s, None,
            "a new cgroup has no rates"
        );
        assert_eq!((listed.interval_s, listed.complete), (10.0, true));
        let by_name = listing(&root, || (), CgroupOrder::Name);
        assert_eq!(by_name.cgroups[3].path, "/web");
    }

    #[test]
    fn a_v1_tree_has_swap_and_limits_but_no_pressure() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            ("memory.usage_in_bytes", "8192\n"),
            ("memory.limit_in_bytes", "16384\n"),
            (
                "memory.stat",
                "total_swap 4096\ntotal_workingset_refault_anon 3\n",
            ),
        ];
        put(&root, "job", &files);
        let tree = CgroupTree::read(&hierarchy(&root, CgroupVersion::V1), CGROUP_BOUNDS).unwrap();
        let listed = CgroupListing::between(&tree, &tree, CgroupOrder::Usage);
        let job = &listed.cgroups[1];
        assert_eq!(
            (job.usage, job.swap, job.caps[0].bytes),
            (Some(8192), Some(4096), 16384)
        );
        assert_eq!(job.stalled_percent, None);
        assert_eq!(listed.version, "v1");
    }

    /// Names are bytes: the document must not fail on one, nor the listing on its removal.
    #[test]
    fn a_name_of_any_bytes_is_listed_and_a_removed_cgroup_is_not() {
        let root = tempfile::tempdir().unwrap();
        let hostile = std::ffi::OsStr::from_bytes(b"a\x1b[2J\xff");
        fs::create_dir(root.path().join(hostile)).unwrap();
        put_v2(&root, "gone", 1, 0, 0);
        let hierarchy = hierarchy(&root, CgroupVersion::V2);
        let mut tree = CgroupTree::read(&hierarchy, CGROUP_BOUNDS).unwrap();
        for node in tree.nodes.iter_mut().filter(|node| node.folder.ends_with("gone")) {
            node.cgroup = Cgroup::default();
        }
        fs::remove_dir_all(root.path().join("gone")).unwrap();
        let listed = CgroupListing::between(&tree, &tree, CgroupOrder::Usage);
        let names: Vec<&str> = listed.cgroups.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["/", "a\x1b[2J\u{fffd}"]);
        let json = serde_json::to_value(&listed).unwrap();
        assert_eq!(json["cgroups"][1]["path"], "/a\x1b[2J\u{fffd}");
    }

    #[test]
    fn more_cgroups_than_the_bounds_are_listed_in_part_and_the_listing_says_so() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..50 {
            fs::create_dir(root.path().join(number.to_string())).unwrap();
        }
        let bounds = Bounds { depth: 2, count: 20 };
        let tree = CgroupTree::read(&hierarchy(&root, CgroupVersion::V2), bounds).unwrap();
        let listed = CgroupListing::between(&tree, &tree, CgroupOrder::Usage);
        assert_eq!((listed.cgroups.len(), listed.complete), (20, false));
        assert_eq!(listed.notes.len(), 1);
    }

    #[test]
    fn branches_connect_siblings_only() {
        let depths = [0, 1, 2, 2, 1, 2];
        assert_eq!(branches(&depths, false), ["", "|-", "| |-", "| `-", "`-", "  `-"]);
        assert_eq!(branches(&[], true), [""; 0]);
    }
}
