//! `/sys/block/zramN` and `/sys/class/zram-control`: compressed block devices in RAM.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::fields::{number, words};
use super::{ControlError, Tree, chosen, control};

/// Folder of the files that add and remove devices.
pub const CONTROL: &str = "/sys/class/zram-control";
/// Reading it adds a device, and gives its number.
pub const HOT_ADD: &str = "/sys/class/zram-control/hot_add";
/// Takes the number of a device to remove.
pub const HOT_REMOVE: &str = "/sys/class/zram-control/hot_remove";
/// Folder of all block devices.
pub const BLOCK: &str = "/sys/block";

/// Numbers of the existing devices, ascending.
///
/// # Errors
/// When [`BLOCK`] cannot be listed.
pub fn devices() -> io::Result<Vec<u32>> {
    // A tree says "none" of a folder that it cannot list.
    std::fs::read_dir(BLOCK)?;
    Ok(devices_of(&Tree::live()))
}

/// Numbers of the devices of the machine whose files are `tree`, in order.
pub fn devices_of(tree: &Tree) -> Vec<u32> {
    let names = tree.list(BLOCK);
    let mut ids: Vec<u32> = names.iter().filter_map(|name| number_in(name)).collect();
    ids.sort_unstable();
    ids
}

/// The number in the name of a device, `zram1`.
pub fn number_in(name: &str) -> Option<u32> {
    name.strip_prefix("zram")?.parse().ok()
}

/// Adds a device and gives its number.
///
/// # Errors
/// When the kernel cannot, or this user may not.
pub fn hot_add() -> io::Result<u32> {
    let id = control::read_number(Path::new(HOT_ADD))?;
    u32::try_from(id).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Removes a device.
///
/// # Errors
/// When it is open (EBUSY), or this user may not.
pub fn hot_remove(id: u32) -> io::Result<()> {
    control::write(Path::new(HOT_REMOVE), &id.to_string())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zram {
    pub id: u32,
    folder: PathBuf,
    node: PathBuf,
}

impl Zram {
    /// The device of this machine that has the number.
    pub fn of(id: u32) -> Zram {
        Zram::of_tree(&Tree::live(), id)
    }

    /// The same of the machine whose files are `tree`.
    pub fn of_tree(tree: &Tree, id: u32) -> Zram {
        Zram {
            id,
            folder: tree.path(&format!("{BLOCK}/zram{id}")),
            node: tree.path(&format!("dev/zram{id}")),
        }
    }

    pub fn name(&self) -> String {
        format!("zram{}", self.id)
    }

    pub fn node(&self) -> &Path {
        &self.node
    }

    /// Opens its node for reading and writing.
    ///
    /// # Errors
    /// Those of `open(2)`, and `InvalidData` if the node is a link, a file or another device.
    pub fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(&self.node, flags, Mode::empty())?);
        let found = file.metadata()?;
        let number = format!(
            "{}:{}",
            rustix::fs::major(found.rdev()),
            rustix::fs::minor(found.rdev())
        );
        if found.file_type().is_block_device() && control::read(&self.file("dev"))? == number {
            return Ok(file);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is not the node of the device",
        ))
    }

    /// A file of its folder in sysfs.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn exists(&self) -> bool {
        self.file("disksize").exists()
    }

    /// Its size in bytes; 0 where it was not configured.
    ///
    /// # Errors
    /// `NotFound` where there is no such device.
    pub fn size(&self) -> Result<u64, ControlError> {
        let path = self.file("disksize");
        control::read_number(&path).map_err(|source| ControlError::read(&path, source))
    }

    /// Gives it a size, which configures it.
    ///
    /// # Errors
    /// When it has one already (EBUSY), or this user may not.
    pub fn set_size(&self, bytes: u64) -> Result<(), ControlError> {
        self.set("disksize", &bytes.to_string())
    }

    /// The algorithm that it uses.
    ///
    /// # Errors
    /// `NotFound` where there is no such device.
    pub fn algorithm(&self) -> Result<String, ControlError> {
        self.algorithms().map(|text| chosen(&text).to_owned())
    }

    /// The algorithms that the kernel lists, the one in use in brackets.
    ///
    /// # Errors
    /// As [`Zram::algorithm`].
    pub fn algorithms(&self) -> Result<String, ControlError> {
        let path = self.file("comp_algorithm");
        control::read(&path).map_err(|source| ControlError::read(&path, source))
    }

    /// The names among [`Zram::algorithms`].
    ///
    /// # Errors
    /// As [`Zram::algorithm`].
    pub fn algorithm_names(&self) -> Result<Vec<String>, ControlError> {
        self.algorithms().map(|text| names(&text))
    }

    /// Chooses the algorithm, before it has a size. The kernel may know more than it lists: a module that it loads on
    /// demand.
    ///
    /// # Errors
    /// EINVAL or ENOENT where the kernel has no such algorithm.
    pub fn set_algorithm(&self, name: &str) -> Result<(), ControlError> {
        self.set("comp_algorithm", name)
    }

    /// Takes its size and its contents.
    ///
    /// # Errors
    /// When it is open (EBUSY), or this user may not.
    pub fn reset(&self) -> Result<(), ControlError> {
        self.set("reset", "1")
    }

    /// Whether it was configured; None where the kernel does not say.
    pub fn is_configured(&self) -> Option<bool> {
        control::read(&self.file("initstate"))
            .ok()
            .map(|state| state != "0")
    }

    /// Whether the device has no size, and no process has claimed it.
    pub fn is_free(&self) -> bool {
        let unsized_device = self.size().is_ok_and(|size| size == 0);
        let unclaimed = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_EXCL)
            .open(&self.node)
            .is_ok();
        unsized_device && unclaimed
    }

    pub fn memory(&self) -> Option<MmStat> {
        MmStat::parse(&std::fs::read(self.file("mm_stat")).ok()?)
    }

    fn set(&self, name: &str, value: &str) -> Result<(), ControlError> {
        let path = self.file(name);
        control::write(&path, value).map_err(|source| ControlError::write(&path, value, source))
    }
}

/// The names in the text of `comp_algorithm`, the one in use among them: `lzo [lz4]`.
fn names(algorithms: &str) -> Vec<String> {
    let names = algorithms.split_whitespace();
    names
        .map(|name| name.trim_matches(['[', ']']).to_owned())
        .collect()
}

/// The values of `mm_stat` or `io_stat` in the file's order; None for a word that is no number. Does not allocate.
pub fn values(text: &[u8]) -> impl Iterator<Item = Option<i64>> {
    words(text).map(number)
}

/// The sizes of `mm_stat`, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MmStat {
    /// Bytes of the stored pages before compression.
    pub original: u64,
    /// The same after compression.
    pub compressed: u64,
    /// RAM of the store, fragmentation included.
    pub used: u64,
}

impl MmStat {
    pub fn parse(text: &[u8]) -> Option<MmStat> {
        let mut sizes = values(text).map(|value| value.map(i64::unsigned_abs));
        Some(MmStat {
            original: sizes.next()??,
            compressed: sizes.next()??,
            used: sizes.next()??,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_algorithm_in_use_is_one_of_the_names() {
        assert_eq!(
            names("lzo-rle lzo [lz4] zstd \n"),
            ["lzo-rle", "lzo", "lz4", "zstd"]
        );
        assert!(names("\n").is_empty());
    }
}
