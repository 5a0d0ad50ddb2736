// What glibc and POSIX promise of each symbol. Prints the first promise that is broken, and ends with 1.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(promise)                                                          \
    do {                                                                        \
        if (!(promise)) {                                                       \
            printf("line %d: not so: %s (errno %d)\n", __LINE__, #promise, errno); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

// Sizes and alignments that a compiler cannot see through: it would answer for malloc.
static volatile size_t huge = PTRDIFF_MAX, none = 0, half = SIZE_MAX / 2 + 2;

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
extern struct mallinfo __libc_mallinfo(void);

// Not every glibc has these: the program also runs on its malloc, so that the promises are its own.
extern void cfree(void *) __attribute__((weak));
extern void free_sized(void *, size_t) __attribute__((weak));
extern void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));

static int aligned(const void *block, size_t align) {
    return block != NULL && (uintptr_t)block % align == 0;
}

static int all(const unsigned char *block, unsigned char byte, size_t size) {
    for (size_t at = 0; at < size; at++)
        if (block[at] != byte)
            return 0;
    return 1;
}

static void sizes(void) {
    errno = 77;
    void *first = malloc(none), *second = malloc(none);
    CHECK(aligned(first, 16) && aligned(second, 16) && first != second);
    free(first);
    free(second);
    free(NULL);
    for (size_t size = 1; size < 100000; size += 1 + size / 7) {
        unsigned char *block = malloc(size);
        CHECK(aligned(block, 16) && malloc_usable_size(block) >= size);
        memset(block, 0xa5, malloc_usable_size(block));
        free(block);
        block = calloc(size, 1);
        CHECK(aligned(block, 16) && all(block, 0, size));
        free_sized ? free_sized(block, size) : free(block);
    }
    CHECK(malloc_usable_size(NULL) == 0);
    CHECK(errno == 77);
}

static void failures(void) {
    errno = 0;
    CHECK(malloc(huge) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(malloc(huge + 1) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(malloc(2 * huge + 1) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(calloc(half, 2) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(calloc(huge, 1) == NULL && errno == ENOMEM);
    char *block = malloc(10);
    strcpy(block, "kept");
    errno = 0;
    CHECK(realloc(block, huge + 1) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(reallocarray(block, half, 2) == NULL && errno == ENOMEM);
    CHECK(strcmp(block, "kept") == 0);
    errno = 0;
    CHECK(pvalloc(2 * huge + 1) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(memalign(64, huge) == NULL && errno == ENOMEM);
    errno = 77;
    free(block);
    CHECK(errno == 77);
}

static void resizing(void) {
    errno = 77;
    unsigned char *block = realloc(NULL, 1);
    CHECK(aligned(block, 16));
    block[0] = 1;
    size_t written = 1;
    // Up and down, through every way that a heap has of it.
    for (size_t step = 0; step < 60; step++) {
        size_t size = step < 30 ? (size_t)2 << (step * 3 / 4) : (size_t)2 << ((59 - step) * 3 / 4);
        block = realloc(block, size);
        CHECK(aligned(block, 16) && malloc_usable_size(block) >= size);
        size_t kept = written < size ? written : size;
        CHECK(all(block, 1, kept));
        memset(block, 1, size);
        written = size;
    }
    CHECK(realloc(block, none) == NULL && errno == 77);
    block = reallocarray(NULL, 10, 100);
    CHECK(malloc_usable_size(block) >= 1000);
    CHECK(reallocarray(block, none, 100) == NULL && errno == 77);
    block = realloc(NULL, none);
    CHECK(block != NULL);
    free(block);
}

static void alignments(void) {
    void *block = &block;
    errno = 77;
    CHECK(posix_memalign(&block, 0, 1) == EINVAL);
    CHECK(posix_memalign(&block, 4, 1) == EINVAL);
    CHECK(posix_memalign(&block, 24, 1) == EINVAL);
    CHECK(posix_memalign(&block, 64, huge + 1) == ENOMEM);
    CHECK(block == &block && errno == 77);
    for (size_t align = 8; align <= 4 << 20; align *= 2) {
        for (size_t size = 0; size < 70000; size = size * 9 / 2 + 1) {
            CHECK(posix_memalign(&block, align, size) == 0 && aligned(block, align));
            memset(block, 1, size);
            CHECK(malloc_usable_size(block) >= size);
            free(block);
            block = aligned_alloc(align, size);
            CHECK(aligned(block, align));
            free_aligned_sized ? free_aligned_sized(block, align, size) : free(block);
            block = memalign(align - 1, size);
            CHECK(aligned(block, align / 2));
            // A block that was asked for at an address grows as any other.
            block = realloc(block, size + 1000);
            CHECK(aligned(block, 16) && malloc_usable_size(block) >= size + 1000);
            free(block);
        }
    }
    errno = 0;
    CHECK(memalign(half, 1) == NULL && errno == EINVAL);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    block = valloc(10);
    CHECK(aligned(block, page));
    free(block);
    block = pvalloc(page + 1);
    CHECK(aligned(block, page) && malloc_usable_size(block) >= 2 * page);
    free(block);
}

static void other_names(void) {
    unsigned char *block = __libc_malloc(10);
    block = __libc_realloc(block, 100);
    free(block);
    block = __libc_calloc(10, 10);
    CHECK(all(block, 0, 100));
    __libc_free(block);
    block = __libc_memalign(64, 10);
    CHECK(aligned(block, 64));
    CHECK(__libc_mallinfo().uordblks > 0);
    cfree ? cfree(block) : free(block);
}

// Zeroed memory that was written and freed before must be zero again.
static void zeroed(void) {
    for (int round = 0; round < 3; round++) {
        for (size_t size = 8; size <= 4 << 20; size *= 2) {
            unsigned char *block = malloc(size);
            memset(block, 0xff, size);
            free(block);
            block = calloc(1, size);
            CHECK(all(block, 0, size));
            memset(block, 0xff, size);
            free(block);
        }
    }
}

// Statistics of malloc follow what is allocated, and memory that is trimmed is not counted any more.
static void statistics(void) {
    enum { COUNT = 20000, SIZE = 400, LARGE = 3 << 20 };
    static char *blocks[COUNT];
    struct mallinfo2 before = mallinfo2();
    for (int at = 0; at < COUNT; at++)
        memset(blocks[at] = malloc(SIZE), 1, SIZE);
    volatile char *large = malloc(LARGE);
    *large = 1; // a compiler leaves out a block that nobody uses
    struct mallinfo2 with = mallinfo2();
    CHECK(with.uordblks + with.hblkhd >= before.uordblks + before.hblkhd + (size_t)COUNT * SIZE + LARGE);
    CHECK(with.arena >= with.uordblks && with.uordblks >= (size_t)COUNT * SIZE);
    for (int at = 0; at < COUNT; at++)
        free(blocks[at]);
    free((void *)large);
    malloc_trim(0);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.uordblks + after.hblkhd + (size_t)COUNT * SIZE / 2 + LARGE / 2 < with.uordblks + with.hblkhd);
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    CHECK(malloc_info(0, stream) == 0 && fclose(stream) == 0);
    CHECK(strncmp(text, "<malloc version=\"1\">", 20) == 0 && strstr(text, "</malloc>") != NULL);
    free(text);
    errno = 0;
    CHECK(malloc_info(1, stdout) != 0);
    malloc_stats();
}

// If few of many blocks remain, memory that returned to the kernel is neither in use nor free.
static void statistics_of_few_that_are_left(void) {
    enum { COUNT = 40000, SIZE = 400, LEFT_OF_40 = 8 };
    static char *blocks[COUNT];
    size_t left = 0;
    for (int at = 0; at < COUNT; at++)
        memset(blocks[at] = malloc(SIZE), 1, SIZE);
    for (int at = 0; at < COUNT; at++) {
        if (at % 40 >= LEFT_OF_40)
            free(blocks[at]);
        else
            left += SIZE;
    }
    malloc_trim(0);
    struct mallinfo2 found = mallinfo2();
    CHECK(found.uordblks >= left && found.uordblks + found.fordblks <= found.arena);
    for (int at = 0; at < COUNT; at++)
        if (at % 40 < LEFT_OF_40)
            free(blocks[at]);
}

int main(void) {
    sizes();
    failures();
    resizing();
    alignments();
    other_names();
    zeroed();
    statistics();
    statistics_of_few_that_are_left();
    puts("all promises kept");
    return 0;
}
