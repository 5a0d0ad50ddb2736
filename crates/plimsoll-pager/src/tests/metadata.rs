//! The metadata of a pager: a small part of the memory that it manages, whatever the copies are in.

use super::real::{bytes, fill, verify};
use crate::backing::Backing;
use crate::driver::DriverOptions;
use crate::engine::{Engine, TrimTo};
use crate::page_file::{PageFile, PageFileOptions};
use crate::saved::{FileTier, SavedCopies};
use crate::stats::Stats;
use crate::store::{self, FirstCodec, Store, StoreOptions};

const MIB: usize = 1 << 20;
const RAM: usize = 32 * MIB;
/// Bytes of the region, four times the budget.
const BYTES: usize = 4 * RAM;

fn copies(cap: u64) -> SavedCopies {
    let store = Store::new(&StoreOptions {
        most: RAM as u64,
        limit: cap,
        first: FirstCodec::Lz4,
    });
    SavedCopies::new(store.expect("there is address space"), cap)
}

/// Fills a region of four times the budget, and checks the metadata: when the budget is full, when all pages are saved and
/// `seconds` older, and after all were restored. Returns the statistics when all were saved.
#[track_caller]
fn check(name: &str, copies: SavedCopies, seconds: u32) -> (Stats, store::Stats) {
    let engine = Engine::new(1 << 18, RAM as u64, copies, DriverOptions::default());
    let engine = engine.expect("userfaultfd is allowed");
    let pages = engine.map(BYTES).expect("addresses are free");
    let bytes = bytes(&engine, pages);
    fill(bytes, 0, 1);
    check_now(name, &engine);
    engine.trim(pages, TrimTo::Store);
    for _ in 0..seconds {
        let aged = engine.at_rest(|manager| {
            manager.backing.close_segments();
            manager.age();
        });
        aged.expect("this process built it");
    }
    check_now(name, &engine);
    let stats = engine.manager().stats();
    let saved = stats.compressed_pages + stats.page_file_pages;
    assert_eq!(saved, u64::from(pages.count), "{stats:?}");
    let store = engine.manager().backing.store_stats();
    verify(bytes, 0, 1);
    check_now(name, &engine);
    (stats, store)
}

#[track_caller]
fn check_now(name: &str, engine: &Engine<SavedCopies>) {
    let manager = engine.manager();
    let stats = manager.stats();
    let store = manager.backing.store_stats();
    // Entries and free segments; the ends of segments count whether they are resident or not.
    let contents = store.live + store.dead + store.recycled;
    let tables = store.used.saturating_sub(contents);
    let file = manager.backing.used_bytes() - store.used;
    let metadata = stats.metadata_bytes;
    let most = (BYTES / 100 + MIB) as u64;
    assert!(
        metadata + tables <= most,
        "{name}: metadata of {metadata} and tables of {tables} bytes exceed {most}; page file {file}; {stats:?}"
    );
}

#[test]
fn metadata_is_a_hundredth_of_a_region_with_lz4() {
    check("lz4", copies(RAM as u64), 0);
}

#[test]
fn metadata_is_a_hundredth_of_a_region_with_recompressed_copies() {
    // All copies are idle for longer than 30 s, and 16 MiB of them are compressed again in a second.
    let (_, store) = check("auto", copies(RAM as u64).with_recompression(), 60);
    assert!(store.live_quads > store.live / 2, "{store:?}");
}

#[test]
fn metadata_is_a_hundredth_of_a_region_with_a_page_file() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let options = PageFileOptions {
        in_memory: true,
        ..PageFileOptions::default()
    };
    let (file, writer) =
        PageFile::create(folder.path(), BYTES as u64, options).expect("the folder is this test's");
    let file = FileTier::new(file, writer, RAM as u64).expect("memory");
    let (stats, _) = check("page file", copies(MIB as u64).with_file(file), 0);
    assert!(stats.page_file_pages > stats.compressed_pages, "{stats:?}");
}
