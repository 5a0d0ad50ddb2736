//! Runs unmodified programs in less RAM than they need, on the pager: facts of the machine and of the program, the
//! settings of the preloaded library, and the start. The engine of the kernel is `plimsoll_lab::confined`.

mod budget;
mod counters;
mod inherited;
mod launch;
mod obstacle;
mod requirements;
mod settings;
mod shared_pool;

pub use budget::available_ram;
pub use counters::{Counters, CountersFile};
pub use launch::{Launch, command, execute};
pub use obstacle::{Obstacle, obstacle};
pub use requirements::{Lack, check};
pub use settings::{Codec, PageFile, Settings};
pub use shared_pool::SharedPool;
