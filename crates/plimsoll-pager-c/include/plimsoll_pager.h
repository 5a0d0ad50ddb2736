/*
 * Memory that is larger than the RAM which it may occupy, of libplimsoll_pager_c.so or libplimsoll_pager_c.a.
 *
 * A pager has a budget of RAM. Its regions are ordinary memory for the program: the pager trims their pages, keeps
 * compressed copies of them, and restores a page when the program touches it. It needs no swap and no root, but Linux 6.8
 * and userfaultfd.
 *
 * The pager handles SIGBUS; signals for other addresses go to the handler that was installed before. A thread that blocks
 * SIGBUS ends the process when it touches an absent page. A system call that meets an absent page returns EFAULT, or fewer
 * bytes than asked for: pin the range first. A child of a fork does not have regions.
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
enum { PLIMSOLL_PAGER_LZ4 = 0, PLIMSOLL_PAGER_ZSTD = 1 };

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
    /* PLIMSOLL_PAGER_LZ4 or PLIMSOLL_PAGER_ZSTD. */
    uint32_t codec;
    /* 0. */
    uint32_t reserved;
} plimsoll_pager_options_t;

/* Figures of a pager: pages by state, bytes of RAM, and counts since it was created. Set `size`. */
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
    /* Pages in the compression store alone, and in the page file alone. */
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

/* Drops the contents of the whole pages in a range of a region: they read as zero, and occupy nothing. */
int plimsoll_pager_discard(plimsoll_pager_t *pager, void *address, size_t bytes);

/* Makes the pages that a range of a region touches present, and keeps them so until the pin ends: system calls may use them. */
int plimsoll_pager_pin(plimsoll_pager_t *pager, void *address, size_t bytes, uint64_t *pin);

/* Ends a pin. */
int plimsoll_pager_unpin(plimsoll_pager_t *pager, uint64_t pin);

/* Changes the budget. It grows at once, and shrinks in steps. */
int plimsoll_pager_set_ram(plimsoll_pager_t *pager, uint64_t bytes);

/* The figures now. */
int plimsoll_pager_stats(plimsoll_pager_t *pager, plimsoll_pager_stats_t *stats);

/* The last failure of the calling thread, until its next one; "" before the first. */
const char *plimsoll_pager_error(void);

#ifdef __cplusplus
}
#endif
#endif
