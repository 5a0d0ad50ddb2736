//! Reads the tree of cgroups for a user interface, on a thread of its own, while the tree or the list of cgroups is
//! shown. The list is an order over the rows of the tree.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use plimsoll_proc::cgroup::{Hierarchy, HierarchyError};

use super::lister::pause;
use super::shared::Shared;
use super::top::PERIOD;
use crate::processes::{CGROUP_BOUNDS, CgroupListing, CgroupOrder, CgroupTree};

/// Interval between the first two readings: rates come soon.
const FIRST: Duration = Duration::from_millis(500);

pub(super) struct CgroupReader {
    shared: Arc<Shared>,
}

impl CgroupReader {
    pub(super) fn new(shared: Arc<Shared>) -> CgroupReader {
        CgroupReader { shared }
    }

    /// Reads while the last value of `wanted` is true, until all its senders are dropped.
    pub(super) fn run(self, wanted: &Receiver<bool>) {
        while let Ok(wants) = wanted.recv() {
            if wants && !self.read_while_wanted(wanted) {
                return;
            }
        }
    }

    /// Returns whether the senders are there still.
    fn read_while_wanted(&self, wanted: &Receiver<bool>) -> bool {
        let mut before: Option<CgroupTree> = None;
        loop {
            let began = Instant::now();
            match read() {
                Ok(tree) => {
                    let earlier = before.as_ref().unwrap_or(&tree);
                    self.publish(CgroupListing::between(earlier, &tree, CgroupOrder::Usage));
                    let first = before.replace(tree).is_none();
                    let pause = match pause(began.elapsed()) {
                        PERIOD if first => FIRST,
                        pause => pause,
                    };
                    match wanted.recv_timeout(pause) {
                        Ok(true) | Err(RecvTimeoutError::Timeout) => {}
                        Ok(false) => return true,
                        Err(RecvTimeoutError::Disconnected) => return false,
                    }
                }
                Err(error) => {
                    self.publish(CgroupListing::impossible(error.to_string()));
                    return true;
                }
            }
        }
    }

    fn publish(&self, listing: CgroupListing) {
        let mut state = self.shared.state();
        state.cgroups = Some(Arc::new(listing));
        state.revision += 1;
    }
}

#[derive(Debug, thiserror::Error)]
enum TreeError {
    #[error(transparent)]
    Hierarchy(#[from] HierarchyError),
    #[error("cannot list {}: {source}", mount.display())]
    Unlisted { mount: PathBuf, source: io::Error },
}

fn read() -> Result<CgroupTree, TreeError> {
    let hierarchy = Hierarchy::of_this_process()?;
    CgroupTree::read(&hierarchy, CGROUP_BOUNDS).map_err(|source| TreeError::Unlisted {
        mount: hierarchy.mount,
        source,
    })
}
