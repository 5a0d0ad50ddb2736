//! A pool as a process has it open.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::error::PoolError;
use super::file::PoolFile;
use super::identity::{Condition, Identity};
use super::layout::{HEAD, MOST_MEMBERS, PAGE, TABLE_WORDS, buffer_bytes, buffers, last_look, row};
use super::looks::{Conditions, LastLook};
use super::round::{SILENT_MS, Seen, idle, need, reap};
use super::row::{Acknowledged, Report, Row, bell};
use super::status::{MemberStatus, PoolStatus};
use super::table::{Damage, Entry, Table};
use super::versioned::{ReadFailure, Version, Versioned};

/// Tries of a change that other members make fail. Each failed try means that another change was made.
const TRIES: usize = 1000;

/// An open pool: a budget of RAM that processes of one user share. Clones are the same pool.
#[derive(Debug, Clone)]
pub struct Pool {
    file: Arc<PoolFile>,
}

impl Pool {
    /// Makes a pool of `total` bytes, counted in whole pages, in a file in memory without a name. Forked children have it;
    /// other programs get it by its [`descriptor`](Pool::descriptor).
    ///
    /// # Errors
    /// [`PoolError::TotalOutOfRange`], or an error of the system.
    pub fn in_memory(total: u64) -> Result<Pool, PoolError> {
        PoolFile::in_memory(total).map(Pool::of)
    }

    /// Opens the pool of an inherited [`descriptor`](Pool::descriptor).
    ///
    /// # Errors
    /// [`PoolError::Refused`] if it is not that of a pool in memory of this user.
    pub fn of_descriptor(descriptor: OwnedFd) -> Result<Pool, PoolError> {
        PoolFile::of_descriptor(descriptor).map(Pool::of)
    }

    /// Opens the pool in the file `path`, and makes it with `total` bytes if there is none. The folder must be one of the user
    /// that no other user can write to, on a file system with O_TMPFILE: `$XDG_RUNTIME_DIR` for one.
    ///
    /// # Errors
    /// [`PoolError::Refused`] with the [`Defect`](super::Defect) of the file, or an error of the system.
    pub fn at(path: &Path, total: u64) -> Result<Pool, PoolError> {
        PoolFile::at(path, Some(total)).map(Pool::of)
    }

    /// Opens the pool in the file `path`.
    ///
    /// # Errors
    /// As [`Pool::at`]; also if there is none.
    pub fn existing(path: &Path) -> Result<Pool, PoolError> {
        PoolFile::at(path, None).map(Pool::of)
    }

    fn of(file: PoolFile) -> Pool {
        Pool { file: Arc::new(file) }
    }

    /// The budget in bytes.
    pub fn total(&self) -> u64 {
        self.total_pages() * PAGE
    }

    /// The descriptor of the file. It is closed on exec: a program that starts another member clears that flag in the child
    /// and passes the number.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.descriptor()
    }

    /// Maps zeros in place of the page with `address`, which the file lost, if it is one of this pool: to be called by a handler
    /// of SIGBUS, as another process of the user may cut a file with a name. Calls on the pool then fail with
    /// [`PoolError::Damaged`]. Async-signal-safe. Returns false for other addresses.
    pub fn replace_lost_page(&self, address: usize) -> bool {
        self.file.memory.replace_lost_page(address)
    }

    /// The pool and its members.
    ///
    /// # Errors
    /// [`PoolError::Damaged`], [`PoolError::Busy`].
    pub fn status(&self) -> Result<PoolStatus, PoolError> {
        let (_, table) = self.table()?;
        let conditions = Conditions::read(&table, None);
        let members = table.members().map(|(at, entry)| {
            let seen = self.state_of(at, entry, conditions.of_member(at, entry));
            MemberStatus::of(entry, &seen)
        });
        let members: Vec<MemberStatus> = members.collect();
        Ok(PoolStatus {
            total: self.total(),
            free: (self.total_pages() - table.charged()) * PAGE,
            rounds: table.rounds,
            members,
        })
    }

    /// Checks every invariant of the pool: those of the table, that each living member has its row, and that no member has
    /// acknowledged more than it is charged for.
    ///
    /// # Errors
    /// [`PoolError::Damaged`] with the first broken invariant, [`PoolError::Busy`].
    pub fn validate(&self) -> Result<(), PoolError> {
        for _ in 0..TRIES {
            let (version, table) = self.table()?;
            let found = table.members().find_map(|(at, entry)| self.damage_of(at, entry));
            // Rows that changed with the table are no damage.
            if self.versioned().version() == version {
                return found.map_or(Ok(()), |damage| Err(self.damaged(damage)));
            }
        }
        Err(PoolError::Busy)
    }

    fn damage_of(&self, at: usize, entry: &Entry) -> Option<Damage> {
        match self.row(at).of(entry.identity) {
            Some((_, answer)) if answer.number == entry.number && answer.held > entry.charged => {
                Some(Damage::Acknowledged { row: at })
            }
            Some(_) => None,
            None if entry.identity.condition() == Condition::Ended => None,
            None => Some(Damage::Row { row: at }),
        }
    }

    /// Removes the file of a pool without members, so that the next [`Pool::at`] makes another one. Processes that have this
    /// one open cannot join it any more.
    ///
    /// # Errors
    /// [`PoolError::InUse`] if it has living members, or an error of the system.
    pub fn remove(&self) -> Result<(), PoolError> {
        let identity = this_process()?;
        let row = self.claim_row(identity)?;
        let closed = self.change(row, |table| {
            let seen = self.states(table, &self.look(table, identity));
            let mut next = reap(table, self.total_pages(), &|at, _| seen_in(&seen, at));
            let members = next.members().count();
            if members > 0 {
                return Err(PoolError::InUse { members });
            }
            next.is_closed = true;
            Ok(Some(next))
        });
        self.row(row).release(identity);
        closed.and_then(|_| self.file.unlink())
    }

    /// Pages that no member is charged for.
    pub(crate) fn free(&self) -> Result<u64, PoolError> {
        let (_, table) = self.table()?;
        Ok(self.total_pages().saturating_sub(table.charged()))
    }

    pub(crate) fn total_pages(&self) -> u64 {
        self.file.header.total_pages
    }

    /// Whether pages that no other member uses would meet the need of that of row `own` when its faults wait: free ones, those of
    /// processes that have ended, and idle ones.
    pub(crate) fn has_spare_pages(&self, own: usize) -> Result<bool, PoolError> {
        let total = self.total_pages();
        let (_, table) = self.table()?;
        let mut left = need(total).saturating_sub(total.saturating_sub(table.charged()));
        for (at, entry) in table.members().filter(|(at, _)| *at != own) {
            if left == 0 {
                break;
            }
            let spare = match entry.identity.is_gone() {
                true => entry.charged,
                false => self
                    .row(at)
                    .of(entry.identity)
                    .map_or(0, |(report, answer)| idle(entry, &report, answer, total)),
            };
            left = left.saturating_sub(spare);
        }
        Ok(left == 0)
    }

    pub(crate) fn damaged(&self, damage: Damage) -> PoolError {
        PoolError::Damaged {
            file: self.file.path.clone(),
            damage,
        }
    }

    fn versioned(&self) -> Versioned<'_> {
        let words = self.file.memory.words();
        Versioned::new(&words[HEAD], &words[buffers()], TABLE_WORDS)
    }

    pub(crate) fn table(&self) -> Result<(Version, Table), PoolError> {
        let mut words = [0; TABLE_WORDS];
        let version = self
            .versioned()
            .read(&mut words)
            .map_err(|failure| match failure {
                ReadFailure::Damaged => self.damaged(Damage::Head),
                ReadFailure::Busy => PoolError::Busy,
            })?;
        let table = Table::of_words(&words, self.total_pages()).map_err(|damage| self.damaged(damage))?;
        Ok((version, table))
    }

    pub(crate) fn row(&self, number: usize) -> Row<'_> {
        Row::new(&self.file.memory.words()[row(number)])
    }

    /// Takes a free row for this process and allocates its buffers.
    pub(crate) fn claim_row(&self, identity: Identity) -> Result<usize, PoolError> {
        self.file.check_place()?;
        let program = program();
        let own = (0..MOST_MEMBERS).find(|at| self.row(*at).owner() == identity.word());
        if own.is_some_and(|at| self.row(at).program() == program) {
            return Err(PoolError::AlreadyMember);
        }
        let claimed = |at: &usize, is_free: &dyn Fn(Identity) -> bool| {
            let owner = self.row(*at).owner();
            let is_free = Identity::from_word(owner).is_none_or(|owner| owner == identity || is_free(owner));
            is_free && self.row(*at).claim(owner, identity, program)
        };
        // The row of the program that this process ran before its exec, or else any. To look at each member of a large pool costs
        // milliseconds: at first those are passed that have not clearly ended.
        let row = own
            .into_iter()
            .chain(0..MOST_MEMBERS)
            .find(|at| claimed(at, &Identity::is_gone))
            .or_else(|| {
                let has_ended = |owner: Identity| owner.condition() == Condition::Ended;
                (0..MOST_MEMBERS).find(|at| claimed(at, &has_ended))
            });
        let row = row.ok_or(PoolError::Full)?;
        self.looks().forget(row);
        let allocated = self.file.allocate(buffer_bytes(row));
        if allocated.is_err() {
            self.row(row).release(identity);
        }
        allocated.map(|()| row)
    }

    /// Makes the table that `decide` returns the next version, in the buffers of row `row`, which is this process's. If
    /// another member changes it first, calls `decide` again with the changed table. Returns the new table; none if `decide`
    /// returned none.
    pub(crate) fn change(
        &self,
        row: usize,
        mut decide: impl FnMut(&Table) -> Result<Option<Table>, PoolError>,
    ) -> Result<Option<Table>, PoolError> {
        for _ in 0..TRIES {
            let (version, table) = self.table()?;
            let Some(next) = decide(&table)? else {
                return Ok(None);
            };
            next.check(self.total_pages())
                .map_err(|damage| self.damaged(damage))?;
            if self.versioned().replace(version, row, &next.words()) {
                for at in concerned(&table, &next).filter(|at| *at != row) {
                    self.ring(at);
                }
                return Ok(Some(next));
            }
        }
        Err(PoolError::Busy)
    }

    /// The conditions of the members of a table as of the last look of any member. This process, `own`, runs.
    pub(crate) fn last_look(&self, table: &Table, own: Identity) -> Conditions {
        self.looks().conditions(table, own)
    }

    /// Begins a look, unless another member began one in the last 20 ms.
    pub(crate) fn begin_look(&self) -> bool {
        self.looks().begin(plimsoll_os::coarse_milliseconds())
    }

    /// Looks at the members of a table, of which this process is `own`.
    pub(crate) fn look(&self, table: &Table, own: Identity) -> Conditions {
        let found = Conditions::read(table, Some(own));
        self.looks().note(&found);
        found
    }

    fn looks(&self) -> LastLook<'_> {
        LastLook::new(&self.file.memory.words()[last_look()])
    }

    /// The states of the members of a table in these conditions, by row.
    pub(crate) fn states(&self, table: &Table, conditions: &Conditions) -> Vec<Option<Seen>> {
        let entries = table.entries.iter().enumerate();
        let state = |(at, entry): (usize, &Option<Entry>)| {
            let entry = entry.as_ref()?;
            Some(self.state_of(at, entry, conditions.of_member(at, entry)))
        };
        entries.map(state).collect()
    }

    fn state_of(&self, at: usize, entry: &Entry, condition: Condition) -> Seen {
        let row = self.row(at).of(entry.identity);
        let condition = match condition {
            Condition::Runs if self.has_executed(at, row.as_ref()) => Condition::Ended,
            condition => condition,
        };
        Seen { condition, row }
    }

    /// Whether the member of a row has executed a program that is no member: it said that it is about to, and is silent. Its memory
    /// is gone. While the call fails slowly, its other threads report.
    fn has_executed(&self, at: usize, row: Option<&(Report, Acknowledged)>) -> bool {
        let silence = |seen_at| plimsoll_os::coarse_milliseconds().wrapping_sub(seen_at);
        self.row(at).is_executing() && row.is_some_and(|(report, _)| silence(report.seen_at) > SILENT_MS)
    }

    /// Wakes the member of a row, if it sleeps.
    fn ring(&self, row: usize) {
        self.file.memory.words()[bell(row)].fetch_add(1, Ordering::SeqCst);
        self.file.memory.wake(bell(row));
    }

    /// Wakes the member that this process is, for no reason of the pool's.
    pub(crate) fn wake_own_member(&self) {
        let process = plimsoll_os::this_process();
        let is_own = |at: &usize| {
            let owner = Identity::from_word(self.row(*at).owner());
            owner.is_some_and(|owner| owner.pid() == process)
        };
        (0..MOST_MEMBERS).filter(is_own).for_each(|at| self.ring(at));
    }

    /// The rings of the member of a row so far.
    pub(crate) fn rings(&self, row: usize) -> u64 {
        self.file.memory.words()[bell(row)].load(Ordering::SeqCst)
    }

    /// Sleeps until the member of a row is woken after it had `rings`, for `limit` at most.
    pub(crate) fn wait(&self, row: usize, rings: u64, limit: Duration) {
        self.file.memory.wait(bell(row), rings, limit);
    }
}

/// The rows of members that have another share afterwards.
fn concerned(before: &Table, after: &Table) -> impl Iterator<Item = usize> {
    let share = |entry: &Option<Entry>| entry.map(|entry| (entry.identity, entry.given, entry.charged));
    let pairs = before.entries.iter().zip(&after.entries).enumerate();
    pairs.filter_map(move |(at, (before, after))| (share(before) != share(after)).then_some(at))
}

/// The state of a member of the table among those that [`Pool::states`] returned for it.
pub(crate) fn seen_in(seen: &[Option<Seen>], at: usize) -> Seen {
    let known = seen.get(at).copied().flatten();
    known.unwrap_or(Seen {
        condition: Condition::Runs,
        row: None,
    })
}

pub(crate) fn this_process() -> Result<Identity, PoolError> {
    Identity::of_this_process().map_err(|source| PoolError::Identity { source })
}

/// A random number of this program, which is another one after `execve`. A forked child has that of its parent, but another
/// identity.
pub(crate) fn program() -> u64 {
    static PROGRAM: AtomicU64 = AtomicU64::new(0);
    let fresh = plimsoll_os::random_word().unwrap_or(u64::from(plimsoll_os::coarse_milliseconds())) | 1;
    match PROGRAM.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => fresh,
        Err(number) => number,
    }
}
