//! The pool of a trial: one budget that the pagers of its workers share.
//!
//! The pool is a file in memory without a name. Workers inherit its descriptor, so that no file is left behind when the
//! runner and its workers are killed.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use plimsoll_pager::pool::{Limits, Member, Pool, PoolError, PoolStatus};
use serde::{Deserialize, Serialize};

/// The pool of a trial, in the runner. It ends with this and the last of its members.
#[derive(Debug)]
pub struct TrialPool {
    pool: Pool,
    /// A descriptor of the pool that programs inherit.
    inherited: OwnedFd,
}

impl TrialPool {
    /// Makes a pool of `total` bytes. Processes that this one starts from now on, until its end, can join it.
    ///
    /// # Errors
    /// [`PoolError`] if there can be no such pool.
    pub fn new(total: u64) -> Result<TrialPool, PoolError> {
        let pool = Pool::in_memory(total)?;
        // Unlike the pool's own, the copy is not closed on exec.
        let inherited = rustix::io::dup(pool.descriptor()).map_err(|errno| PoolError::Io {
            doing: "copy the descriptor of",
            object: "(file in memory)".into(),
            source: errno.into(),
        })?;
        Ok(TrialPool { pool, inherited })
    }

    /// The request to a worker to join the pool with these limits.
    pub fn request(&self, limits: Limits) -> PoolRequest {
        PoolRequest {
            descriptor: self.inherited.as_raw_fd(),
            limits,
        }
    }

    /// The pool and its members now.
    ///
    /// # Errors
    /// [`PoolError::Damaged`], [`PoolError::Busy`].
    pub fn status(&self) -> Result<PoolStatus, PoolError> {
        self.pool.status()
    }
}

/// A request to a worker: join a [`TrialPool`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRequest {
    /// The descriptor that the worker inherited.
    descriptor: i32,
    #[serde(with = "LimitsFields")]
    limits: Limits,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Limits")]
struct LimitsFields {
    minimum: u64,
    maximum: u64,
    priority: u8,
}

/// The reason why a worker is no member of the pool of its trial.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum JoinError {
    #[error(
        "cannot open the pool of the trial, descriptor {descriptor}: {source}; mount /proc of this PID namespace"
    )]
    Descriptor { descriptor: i32, source: io::Error },
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl PoolRequest {
    pub(crate) fn join(&self) -> Result<Member, JoinError> {
        let descriptor = self.descriptor;
        // A descriptor of its own, which a program that the worker starts does not inherit.
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/self/fd/{descriptor}"));
        let file = opened.map_err(|source| JoinError::Descriptor { descriptor, source })?;
        Ok(Pool::of_descriptor(file.into())?.join(self.limits)?)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_pager::pool::Defect;

    use super::*;

    #[test]
    fn a_request_reads_back_and_joins_with_its_limits() {
        let pool = TrialPool::new(64 << 20).unwrap();
        let limits = Limits {
            minimum: 8 << 20,
            maximum: 32 << 20,
            priority: 3,
        };
        let line = serde_json::to_string(&pool.request(limits)).unwrap();
        let request: PoolRequest = serde_json::from_str(&line).unwrap();
        assert_eq!(request, pool.request(limits));
        let member = request.join().unwrap();
        let status = pool.status().unwrap();
        assert_eq!((status.total, status.members.len()), (64 << 20, 1));
        let seen = &status.members[0];
        assert_eq!(
            (seen.minimum, seen.maximum, seen.priority),
            (8 << 20, 32 << 20, 3)
        );
        member.leave().unwrap();
        assert!(pool.status().unwrap().members.is_empty());
    }

    #[test]
    fn a_descriptor_of_no_pool_is_refused() {
        let pool = TrialPool::new(64 << 20).unwrap();
        let of = |descriptor| PoolRequest {
            descriptor,
            ..pool.request(Limits::default())
        };
        let closed = of(i32::MAX).join().unwrap_err();
        assert!(matches!(closed, JoinError::Descriptor { .. }), "{closed}");
        let file = tempfile::tempfile().unwrap();
        let other = of(file.as_raw_fd()).join().unwrap_err();
        let refused = matches!(
            &other,
            JoinError::Pool(PoolError::Refused {
                defect: Defect::NotSealed,
                ..
            })
        );
        assert!(refused, "{other}");
        let promised = Limits {
            minimum: 65 << 20,
            ..Limits::default()
        };
        let promised = pool.request(promised).join().unwrap_err();
        assert!(matches!(promised, JoinError::Pool(_)), "{promised}");
    }
}
