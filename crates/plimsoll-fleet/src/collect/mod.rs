//! The results of all tasks as one data set of Parquet files.
//!
//! ```text
//! tasks/ID/ -> data/run=RUN/host=HOST/task=ID/{samples,trials,metrics}.parquet    by rename from data/.collect/
//! all tasks -> data/tasks.parquet                                                 a row a task, whatever its state
//! ```
//!
//! The data set is a function of the plan and of `tasks/`. A task whose result is in it already is passed over, by the digest of its
//! documents. A task that has no usable result any more leaves the data set, and `tasks.parquet` says why.
//!
//! Everything below `tasks/` comes from other machines: [`source`] opens it without links and with limits, and memory depends on
//! neither the number of tasks nor the length of recordings.
//!
//! - Invariant: a task's folder has all of its files, whole. Checked by `a_kill_at_any_moment_and_a_second_run_give_the_same_data`.
//! - Invariant: every task of the plan has one row in `tasks.parquet`. Checked by `random_damage_is_listed_or_changes_nothing`.

pub mod columns;
