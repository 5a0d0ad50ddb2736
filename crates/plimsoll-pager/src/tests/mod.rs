//! Tests of the whole manager: over the simulated driver, and on real memory.
//!
//! | module | topic |
//! |---|---|
//! | `ageing` | the heat of chunks, and the order of trims |
//! | `budget` | the budget while pages fault |
//! | `damage` | each broken invariant is found by the check from inside |
//! | `metadata` | the metadata beside a region of four times the budget |
//! | `modes` | the tests of `real` again: without `UFFDIO_MOVE`, and with a thread that resolves faults |
//! | `pins` | pins while their pages are restored |
//! | `policy` | priorities, limits of working sets, suspended regions |
//! | `real` | the manager on real memory |
//! | `regions` | regions that are closed, and pages that they surrender |
//! | `resize` | a budget that changes, and the reported use of memory |
//! | `restock` | a thread that faults alone keeps the stock of spare frames and cleans the store |
//! | `simulated` | the manager over a model of memory with injected errors |
//! | `sparse` | chunks that are native while all that is committed fits |
//! | `ticks` | the work of one tick of the balance-set manager |
//! | `tiers` | the same over the store and a page file that fails |
//! | `unmoved` | the same on a kernel that cannot move pages; pages that a kernel does not move |

mod ageing;
mod budget;
mod damage;
mod metadata;
mod modes;
mod pins;
mod policy;
mod real;
mod regions;
mod resize;
mod restock;
mod simulated;
mod sparse;
mod ticks;
mod tiers;
mod unmoved;
