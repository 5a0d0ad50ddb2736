/*
 * Heaps as objects, of libplimsoll_malloc.so.
 *
 * The library serves malloc for the whole program. Beside that heap, a program may make heaps of its own: for memory
 * that it frees all at once, isolates, or examines by itself (`plimsoll heap stat PID`).
 *
 * Link with -lplimsoll_malloc; examples/heap.c shows how. A program that is linked so has this malloc without
 * `plimsoll heap run`.
 *
 * All functions may be called by any thread at any time, but for a heap made with PLIMSOLL_HEAP_NO_SERIALIZE. A block
 * belongs to the heap that it came from: free it in that heap, and in no other.
 */
#ifndef PLIMSOLL_HEAP_H
#define PLIMSOLL_HEAP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A heap. */
typedef struct plimsoll_heap plimsoll_heap_t;

/* Options of plimsoll_heap_create, to be combined with |. */
enum {
    /* Calls take no lock: the program lets one thread at a time use the heap. Standard front end only. */
    PLIMSOLL_HEAP_NO_SERIALIZE = 1,
    /* Every call checks the whole heap. Standard front end only. */
    PLIMSOLL_HEAP_DEBUG = 2,
    /* More mistakes are found, at a cost: guard pages, quarantine, zeroed memory on free. It has the low-fragmentation
       front end from the start. */
    PLIMSOLL_HEAP_HARDENED = 4
};

/* Front ends, which serve blocks of up to 16 KiB. The codes are those of the Windows heap's compatibility information;
   1, look-aside lists, does not exist here. */
enum {
    /* One lock over coalescing blocks. */
    PLIMSOLL_HEAP_STANDARD = 0,
    /* Buckets of 64 sizes, and slots bounded by the number of processors. */
    PLIMSOLL_HEAP_LOW_FRAGMENTATION = 2
};

/*
 * Makes a heap, with the standard front end unless it is hardened. NULL with errno EINVAL for unknown options, and
 * for PLIMSOLL_HEAP_HARDENED with one of the others, EAGAIN at the maximum number of heaps, ENOMEM without memory.
 */
plimsoll_heap_t *plimsoll_heap_create(unsigned int options);

/*
 * Ends a heap and all its blocks, whose memory returns to the kernel. Returns 0, or EINVAL for the heap of the process,
 * which cannot end. NULL is allowed.
 */
int plimsoll_heap_destroy(plimsoll_heap_t *heap);

/* The heap of the process: that of malloc. */
plimsoll_heap_t *plimsoll_heap_process(void);

/* A block of at least `size` bytes, aligned to 16. NULL with errno ENOMEM if no memory is left. */
void *plimsoll_heap_alloc(plimsoll_heap_t *heap, size_t size);

/* As plimsoll_heap_alloc, of `count` times `size` bytes that are zero. */
void *plimsoll_heap_calloc(plimsoll_heap_t *heap, size_t count, size_t size);

/* As plimsoll_heap_alloc, at a multiple of `align`; NULL with errno EINVAL if that is no power of two. */
void *plimsoll_heap_aligned_alloc(plimsoll_heap_t *heap, size_t align, size_t size);

/*
 * Makes a block `size` bytes long; it may move. NULL with errno ENOMEM if no memory is left: the block stays as it was.
 * With NULL it allocates a new one; size 0 leaves the smallest block (unlike realloc, which frees it).
 */
void *plimsoll_heap_realloc(plimsoll_heap_t *heap, void *block, size_t size);

/* Frees a block. NULL is allowed. errno stays as it was. */
void plimsoll_heap_free(plimsoll_heap_t *heap, void *block);

/* Bytes that a block has, at least the requested number; 0 for NULL. */
size_t plimsoll_heap_usable_size(plimsoll_heap_t *heap, const void *block);

/*
 * Sets the front end of small blocks from now on; blocks in use stay as they are. Returns 0, or EINVAL for an unknown
 * code, ENOTSUP if the heap's options forbid it, EBUSY for the standard front end while the low-fragmentation one is in
 * use: that ends only with the heap. ENOMEM if no memory is left for it.
 */
int plimsoll_heap_set_front_end(plimsoll_heap_t *heap, int code);

/* The front end of small blocks: PLIMSOLL_HEAP_STANDARD or PLIMSOLL_HEAP_LOW_FRAGMENTATION. */
int plimsoll_heap_front_end(plimsoll_heap_t *heap);

/* Returns all free memory of a heap to the kernel at once, instead of within about a second. */
void plimsoll_heap_trim(plimsoll_heap_t *heap);

/* The contents of a heap. */
typedef struct plimsoll_heap_holdings {
    size_t reserved;     /* bytes of address space */
    size_t committed;    /* bytes that may be resident: used, free and large */
    size_t used;         /* bytes of blocks of up to 16 KiB in use, with their descriptions */
    size_t free;         /* bytes that are free */
    size_t free_blocks;  /* how many free blocks those are */
    size_t large;        /* bytes of larger blocks in use */
    size_t large_blocks; /* how many those are */
} plimsoll_heap_holdings_t;

/* Counts the contents of a heap now, while other threads run. `plimsoll heap stat PID` prints more. */
void plimsoll_heap_count(plimsoll_heap_t *heap, plimsoll_heap_holdings_t *holdings);

/*
 * Walks over all heaps of the process and checks their data, while other threads run. Returns the number of damages, and
 * writes each to standard error. It ends after 256 of them, with a message. A walk that cannot begin or continue, as the
 * way to the heaps is damaged, counts as a damage too.
 */
size_t plimsoll_heap_validate(void);

#ifdef __cplusplus
}
#endif

#endif
