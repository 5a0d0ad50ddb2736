/*
 * Memory that is larger than the RAM which it may occupy, of libplimsoll_pager_c.so or libplimsoll_pager_c.a.
 *
 * A pager has a budget of RAM. Its regions are ordinary memory for the program: the pager trims their pages, keeps
 * compressed copies of them, and restores a page when the program touches it. It needs no swap and no root, but Linux 6.8
 * and userfaultfd; on Linux 5.11 to 6.7 it copies pages in place of moving them.
 *
 * The pager handles SIGBUS, unless its `fault_mode` is PLIMSOLL_PAGER_FAULT_THREAD; signals for other addresses go to the
 * handler that was installed before. A thread that blocks SIGBUS ends the process when it touches an absent page. A system
 * call that meets an absent page returns EFAULT, or fewer bytes than asked for: pin the range first. A child of a fork does
 * not have regions: functions that take an address or a pin return PLIMSOLL_PAGER_FORKED there. Pager::fork, which gives a
 * child a copy of them, is in the Rust library alone.
 *
 * Functions that can fail return PLIMSOLL_PAGER_OK or another code of enum plimsoll_pager_code, and then leave their
 * results alone; plimsoll_pager_error() describes the last failure of the calling thread. All functions may be called by
 * any thread, but in no signal handler.
 */
#ifndef PLIMSOLL_PAGER_H
#define PLIMSOLL_PAGER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pager. */
typedef struct plimsoll_pager plimsoll_pager_t;

enum plimsoll_pager_code {
    PLIMSOLL_PAGER_OK = 0,
    /* An argument is wrong: a null pointer, an unknown value, a range that is in no region. */
    PLIMSOLL_PAGER_INVALID = 1,
    /* The system refuses or lacks userfaultfd, or its pages have another size. */
    PLIMSOLL_PAGER_UNSUPPORTED = 2,
    /* No RAM or no addresses are left. */
    PLIMSOLL_PAGER_NO_MEMORY = 3,
    /* All pagers of the process or all pins of the pager are in use, or a pin would take more than half of the budget. */
    PLIMSOLL_PAGER_LIMIT = 4,
    /* A saved copy is damaged. */
    PLIMSOLL_PAGER_DAMAGED = 5,
    /* The process is a child of the one that created the pager. */
    PLIMSOLL_PAGER_FORKED = 6,
    /* A system call failed for another reason. */
    PLIMSOLL_PAGER_SYSTEM = 7
};

/* Codecs of saved copies. */
enum {
    PLIMSOLL_PAGER_LZ4 = 0,
    PLIMSOLL_PAGER_ZSTD = 1,
    /* LZ4 at first, Zstandard for copies that stay idle. */
    PLIMSOLL_PAGER_AUTO = 2
};

/* Threads that resolve faults. */
enum {
    /* The faulting thread, in a handler of SIGBUS. */
    PLIMSOLL_PAGER_FAULTING_THREAD = 0,
    /* A thread of the pager, for programs that forbid signals or block SIGBUS. */
    PLIMSOLL_PAGER_FAULT_THREAD = 1
};

/* States of the page file. Limited and failed ones stay so; no copy is lost. */
enum {
    PLIMSOLL_PAGER_NO_PAGE_FILE = 0,
    PLIMSOLL_PAGER_PAGE_FILE_WRITABLE = 1,
    /* The disk is full: the file does not grow, and reuses its space. */
    PLIMSOLL_PAGER_PAGE_FILE_LIMITED = 2,
    /* A write failed: copies stay in RAM. */
    PLIMSOLL_PAGER_PAGE_FILE_FAILED = 3
};

/* A value of `ageing_ms`. */
#define PLIMSOLL_PAGER_NO_AGEING UINT32_MAX

/* States of ageing. */
enum {
    PLIMSOLL_PAGER_AGEING_OFF = 0,
    PLIMSOLL_PAGER_AGEING_ON = 1,
    /* The pager copies pages (Linux before 6.8), or the kernel refused MADV_COLD or /proc/self/smaps. */
    PLIMSOLL_PAGER_AGEING_UNSUPPORTED = 2
};

/* Rules of thrash control. */
enum {
    PLIMSOLL_PAGER_THRASH_DEFAULT = 0,
    /* Thrashing is detected and reported: the default. */
    PLIMSOLL_PAGER_THRASH_OFF = 1,
    /* Measures are tried while the pager thrashes, and kept if they help. A thread may wait up to 10 ms at a fault. */
    PLIMSOLL_PAGER_THRASH_ON = 2
};

/* Steps of thrash control: members of `thrash_us`. */
enum {
    PLIMSOLL_PAGER_CALM = 0,
    /* It thrashes, and no measure is in force. */
    PLIMSOLL_PAGER_THRASHING = 1,
    /* More frames are standby. */
    PLIMSOLL_PAGER_GROWN_STANDBY = 2,
    /* Streams restore nothing ahead. */
    PLIMSOLL_PAGER_NO_READ_AHEAD = 3,
    /* A thread with many faults waits a bounded time at each of them. */
    PLIMSOLL_PAGER_THROTTLE = 4
};

/* Steps of a trim. */
enum {
    /* Out of the working set: the pages keep their frames. */
    PLIMSOLL_PAGER_TO_MODIFIED = 0,
    /* Saved as well: the frames are free to take. */
    PLIMSOLL_PAGER_TO_STANDBY = 1,
    /* Saved, and the frames released to the kernel. */
    PLIMSOLL_PAGER_TO_STORE = 2
};

/* Options of a pager. Set `size`; a member that is 0 has its default. */
typedef struct plimsoll_pager_options {
    /* sizeof(plimsoll_pager_options_t). */
    size_t size;
    /* The budget in bytes: pages, saved copies and metadata together. By default 1 GiB. */
    uint64_t ram;
    /* Bytes of addresses for regions; they cost nothing while untouched. By default 64 GiB. */
    uint64_t address_space;
    /* PLIMSOLL_PAGER_LZ4, PLIMSOLL_PAGER_ZSTD or PLIMSOLL_PAGER_AUTO. */
    uint32_t codec;
    /* PLIMSOLL_PAGER_FAULTING_THREAD or PLIMSOLL_PAGER_FAULT_THREAD. */
    uint32_t fault_mode;
    /* The largest budget that plimsoll_pager_set_ram() will set. By default `ram`. */
    uint64_t most_ram;
    /* The most bytes of the compressed store, at least 1 MiB. By default as much as the budget allows. */
    uint64_t store_cap;
    /*
     * A folder on a disk, or a path where nothing is, for a page file of up to `page_file_bytes`, at least 1 MiB: it takes
     * copies that the store cannot hold. It is encrypted and has no name. By default there is none.
     */
    const char *page_file;
    uint64_t page_file_bytes;
    /*
     * The file of a pool: a budget of `pool_bytes` that processes of one user share. The pager joins it, and its grant is
     * the budget in place of `ram`. The first process makes the file, in a folder that no other user can write to; 0 bytes
     * open a pool that exists. The minimum must be at least 4 MiB; a maximum of 0 is the whole pool. The priority is 1 to 7,
     * by default 5: each step doubles the weight of the time that the program waits for pages.
     */
    const char *pool;
    uint64_t pool_bytes;
    uint64_t pool_minimum;
    uint64_t pool_maximum;
    uint32_t pool_priority;
    /* Not 0: copies pages as on a kernel before Linux 6.8, for tests. */
    uint32_t without_move;
    /*
     * The shortest window of ageing in milliseconds, by default 5000: once a window the pager looks which chunks of 2 MiB
     * were accessed, and trims the others first. PLIMSOLL_PAGER_NO_AGEING turns it off.
     */
    uint32_t ageing_ms;
    /* PLIMSOLL_PAGER_THRASH_OFF or PLIMSOLL_PAGER_THRASH_ON. */
    uint32_t thrash_control;
} plimsoll_pager_options_t;

/* Statistics of a pager: pages by state, bytes of RAM, and counts since it was created. Set `size`. */
typedef struct plimsoll_pager_stats {
    /* sizeof(plimsoll_pager_stats_t). */
    size_t size;
    /* Bytes of the budget; bytes of RAM in use for everything; those of saved copies, and of metadata. */
    uint64_t ram;
    uint64_t resident_bytes;
    uint64_t store_bytes;
    uint64_t metadata_bytes;
    /* Pages whose faults the kernel resolves, as all of them fit into the budget. */
    uint64_t native_pages;
    /* Pages in the working set; trimmed ones in their frames; saved ones whose frames are free to take, by priority. */
    uint64_t active_pages;
    uint64_t modified_pages;
    uint64_t standby_pages[8];
    /* Pages in the compressed store alone, and in the page file alone. */
    uint64_t compressed_pages;
    uint64_t page_file_pages;
    uint64_t pinned_pages;
    /* Frames that exceeded the budget, as nothing could be trimmed. */
    uint64_t forced_frames;
    /* Faults on untouched pages; on modified and standby ones; on compressed and page-file ones. */
    uint64_t zero_faults;
    uint64_t soft_faults;
    uint64_t hard_faults;
    /* Pages restored ahead of the fault of a stream. */
    uint64_t stream_pages;
    uint64_t trimmed_pages;
    uint64_t saved_pages;
    /* Batches that faulting threads trimmed by themselves. */
    uint64_t direct_reclaims;
    /* Evicted pages that were restored, and the microseconds that all threads together waited for them. */
    uint64_t refaults;
    uint64_t stall_us;
    uint64_t suspended_pages;
    /* State of the page file; its most bytes, those in use, and those written and read since the pager was created. */
    uint64_t page_file_state;
    uint64_t page_file_bytes;
    uint64_t page_file_used_bytes;
    uint64_t page_file_written_bytes;
    uint64_t page_file_read_bytes;
    /* State of ageing; windows that ended, and the microseconds of CPU time that they took. */
    uint64_t ageing_state;
    uint64_t ageing_windows;
    uint64_t ageing_us;
    /* Chunks by heat: the coldest first. */
    uint64_t heat_chunks[8];
    /* Step of thrash control; microseconds in each step, and those that throttled threads waited. */
    uint64_t thrash_step;
    uint64_t thrash_us[5];
    uint64_t throttled_us;
    /* Percent of the last faults on evicted pages that the thread with the most of them had. */
    uint64_t worst_faulter_percent;
    /* Trials of measures against thrashing, and those of them whose measure was kept. */
    uint64_t thrash_trials;
    uint64_t kept_trials;
} plimsoll_pager_stats_t;

/* Creates a pager; NULL options are the defaults. */
int plimsoll_pager_create(const plimsoll_pager_options_t *options, plimsoll_pager_t **pager);

/* Ends a pager, its pins and its regions, which no thread uses any more. NULL is allowed. */
void plimsoll_pager_destroy(plimsoll_pager_t *pager);

/* Maps a region of `bytes`, zero at first and aligned to 2 MiB. */
int plimsoll_pager_map(plimsoll_pager_t *pager, size_t bytes, void **address);

/* Unmaps the region at `address`, which no thread uses and of which nothing is pinned. */
int plimsoll_pager_unmap(plimsoll_pager_t *pager, void *address);

/*
 * Trims the pages that a range of a region touches, down to a step. Sets `trimmed`, if not NULL, to the number of pages
 * that left the working set.
 */
int plimsoll_pager_trim(plimsoll_pager_t *pager, void *address, size_t bytes, int step, size_t *trimmed);

/* Makes the pages that a range of a region touches present, as far as the budget allows. */
int plimsoll_pager_prefetch(plimsoll_pager_t *pager, void *address, size_t bytes);

/*
 * Drops the contents of the whole pages in a range of a region, of which nothing is pinned: they read as zero, and occupy
 * nothing.
 */
int plimsoll_pager_discard(plimsoll_pager_t *pager, void *address, size_t bytes);

/*
 * Gives up the contents of the whole pages in a range of a region: they stay until their frames are needed, are never
 * saved, and read as zero after that. A page that the program uses before is an ordinary one again. Sets `pages`, if not
 * NULL, to the number of pages that were given up.
 */
int plimsoll_pager_reset(plimsoll_pager_t *pager, void *address, size_t bytes, size_t *pages);

/* Sets the standby priority of a region's pages, 1 to 7, by default 5: frames of a low one are taken first. */
int plimsoll_pager_set_priority(plimsoll_pager_t *pager, void *region, uint32_t priority);

/*
 * Limits the working set of a region, in bytes: trims spare the minimum while other regions have pages to trim, and a fault
 * above the maximum trims pages of the same region. 0 and 0 end the limits.
 */
int plimsoll_pager_set_working_set(plimsoll_pager_t *pager, void *region, uint64_t minimum, uint64_t maximum);

/* Trims a region whole, and has its frames taken first; its bytes stay usable. */
int plimsoll_pager_suspend(plimsoll_pager_t *pager, void *region);

/* Ends plimsoll_pager_suspend(). */
int plimsoll_pager_resume(plimsoll_pager_t *pager, void *region);

/* Sets `serves` to 1 if a system call that meets an absent page waits for it, to 0 if it returns EFAULT. */
int plimsoll_pager_serves_system_calls(plimsoll_pager_t *pager, int *serves);

/* Makes the pages that a range of a region touches present, and keeps them so until the pin ends: system calls may use them. */
int plimsoll_pager_pin(plimsoll_pager_t *pager, void *address, size_t bytes, uint64_t *pin);

/* Ends a pin. */
int plimsoll_pager_unpin(plimsoll_pager_t *pager, uint64_t pin);

/* Changes the budget. It grows at once, and shrinks in steps. */
int plimsoll_pager_set_ram(plimsoll_pager_t *pager, uint64_t bytes);

/* The counters now. */
int plimsoll_pager_stats(plimsoll_pager_t *pager, plimsoll_pager_stats_t *stats);

/* The last failure of the calling thread, until its next one; "" before the first. */
const char *plimsoll_pager_error(void);

#ifdef __cplusplus
}
#endif
#endif
