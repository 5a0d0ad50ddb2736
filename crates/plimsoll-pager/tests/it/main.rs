//! The crate as an embedder uses it.
//!
//! | module | topic |
//! |---|---|
//! | `address_space` | a library that manages its program's address space: rights, other mappings, pins in handlers |
//! | `ageing` | the accesses that the kernel tells, and pages in use beside a scan |
//! | `allocations` | the heap is never entered where a page is read |
//! | `cap` | the budget as the kernel counts it |
//! | `children` | forked children and shared words of a test |
//! | `committed` | a region larger than the budget, parts of which are native |
//! | `deferred_file` | page files that the pager creates on first use |
//! | `fault_thread` | the mode in which a thread resolves faults |
//! | `forked_files` | page files of children of `Pager::fork` |
//! | `forked_pagers` | children of `Pager::fork`, under load |
//! | `forked_pool` | children of `Pager::fork` under the budget of a pool, as the kernel counts it |
//! | `forks` | children of a process with a pager, forked under load |
//! | `modes` | the tests of `address_space`, `cap`, `committed`, `deferred_file`, `forked_files`, `forked_pagers`, `forked_pool`, `forks`, `shared_pages` and `system_calls` in every mode |
//! | `killed` | a process that is killed |
//! | `page_file` | files, systems and kernels that refuse, fail or are full |
//! | `pages` | contents of pages, and their check |
//! | `policies` | priorities, contents that are given up, suspended regions |
//! | `pool` | processes that share a budget: kills, stops, forks, exec |
//! | `pool_files` | files of a pool: refused, damaged, removed |
//! | `refused` | systems that refuse userfaultfd |
//! | `resize` | a budget that changes, as the kernel counts it |
//! | `shared_budget` | pagers of several processes under one budget, as the kernel counts it |
//! | `shared_pages` | pages that a device has pinned or a child shares |
//! | `signals` | other handlers of SIGBUS, and forks |
//! | `stress` | sixteen threads that do everything at once |
//! | `system_calls` | system calls on pinned ranges and on absent pages |
//! | `thrash` | thrash control: detection, measures, throttled threads |
//! | `tiers` | a pager with a page file on a real disk |
//! | `trim_modes` | faults of a scan by the rule of trimming |

mod address_space;
mod ageing;
mod alarm;
mod allocations;
mod cap;
mod children;
mod committed;
mod deferred_file;
mod fault_path;
mod fault_thread;
mod forked_files;
mod forked_pagers;
mod forked_pool;
mod forks;
mod killed;
mod modes;
mod page_file;
mod pages;
mod policies;
mod pool;
mod pool_files;
mod refused;
mod resize;
mod shared_budget;
mod shared_pages;
mod signals;
mod stress;
mod system_calls;
mod thrash;
mod tiers;
mod trim_modes;
