// What plimsoll_heap.h promises. Compiled as C and as C++. Prints the first promise that is broken.
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plimsoll_heap.h"

#define CHECK(promise)                                                          \
    do {                                                                        \
        if (!(promise)) {                                                       \
            printf("line %d: not so: %s (errno %d)\n", __LINE__, #promise, errno); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

#define BLOCKS 3000

static volatile size_t huge = PTRDIFF_MAX;

static void use(plimsoll_heap_t *heap) {
    static unsigned char *blocks[BLOCKS];
    for (size_t at = 0; at < BLOCKS; at++) {
        size_t size = at * at / 40;
        blocks[at] = (unsigned char *)plimsoll_heap_alloc(heap, size);
        CHECK(blocks[at] != NULL && plimsoll_heap_usable_size(heap, blocks[at]) >= size);
        memset(blocks[at], (int)at, size);
    }
    for (size_t at = 0; at < BLOCKS; at += 3)
        plimsoll_heap_free(heap, blocks[at]);
    for (size_t at = 0; at < BLOCKS; at++) {
        size_t size = at * at / 40;
        if (at % 3 == 0)
            continue;
        for (size_t byte = 0; byte < size; byte++)
            CHECK(blocks[at][byte] == (unsigned char)at);
        blocks[at] = (unsigned char *)plimsoll_heap_realloc(heap, blocks[at], size + 100);
        CHECK(blocks[at] != NULL && (size == 0 || blocks[at][size - 1] == (unsigned char)at));
        if (at % 3 == 1)
            plimsoll_heap_free(heap, blocks[at]);
    }
    unsigned char *zeros = (unsigned char *)plimsoll_heap_calloc(heap, 100, 100);
    for (size_t byte = 0; byte < 10000; byte++)
        CHECK(zeros[byte] == 0);
    void *aligned = plimsoll_heap_aligned_alloc(heap, 4096, 1);
    CHECK(aligned != NULL && (uintptr_t)aligned % 4096 == 0);
    plimsoll_heap_free(heap, aligned);
    errno = 0;
    CHECK(plimsoll_heap_aligned_alloc(heap, 48, 1) == NULL && errno == EINVAL);
    errno = 0;
    CHECK(plimsoll_heap_alloc(heap, huge) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(plimsoll_heap_calloc(heap, huge, 4) == NULL && errno == ENOMEM);
    errno = 77;
    plimsoll_heap_free(heap, NULL);
    CHECK(plimsoll_heap_usable_size(heap, NULL) == 0 && errno == 77);
    // A third of the blocks are still in use: they end with their heap.
}

// A hardened heap serves as any other, and what it used serves others when it has ended.
static void hardened(void) {
    plimsoll_heap_t *heap = plimsoll_heap_create(PLIMSOLL_HEAP_HARDENED);
    CHECK(heap != NULL);
    use(heap);
    CHECK(plimsoll_heap_destroy(heap) == 0);
    use(plimsoll_heap_process());
}

// If few of many blocks remain, memory that returned to the kernel is neither in use nor free.
static void sparse(void) {
    enum { COUNT = 40000, SIZE = 400 };
    static char *blocks[COUNT];
    plimsoll_heap_t *heap = plimsoll_heap_create(0);
    plimsoll_heap_holdings_t all, left;
    CHECK(heap != NULL && plimsoll_heap_set_front_end(heap, PLIMSOLL_HEAP_LOW_FRAGMENTATION) == 0);
    for (int at = 0; at < COUNT; at++) {
        blocks[at] = (char *)plimsoll_heap_alloc(heap, SIZE);
        memset(blocks[at], 1, SIZE);
    }
    plimsoll_heap_count(heap, &all);
    for (int at = 0; at < COUNT; at++)
        if (at % 40 >= 8)
            plimsoll_heap_free(heap, blocks[at]);
    plimsoll_heap_trim(heap);
    plimsoll_heap_count(heap, &left);
    CHECK(left.committed < all.committed * 2 / 3);
    CHECK(left.used >= COUNT / 5 * SIZE && left.used < all.used / 2);
    CHECK(left.committed == left.used + left.free + left.large);
    CHECK(plimsoll_heap_destroy(heap) == 0);
}

int main(int count, char **words) {
    if (count == 2 && strcmp(words[1], "hardened") == 0) {
        hardened();
        puts("all promises kept");
        return 0;
    }
    plimsoll_heap_t *plain = plimsoll_heap_create(0);
    CHECK(plain != NULL && plimsoll_heap_front_end(plain) == PLIMSOLL_HEAP_STANDARD);
    use(plain);
    CHECK(plimsoll_heap_set_front_end(plain, 1) == EINVAL);
    CHECK(plimsoll_heap_set_front_end(plain, PLIMSOLL_HEAP_LOW_FRAGMENTATION) == 0);
    CHECK(plimsoll_heap_front_end(plain) == PLIMSOLL_HEAP_LOW_FRAGMENTATION);
    use(plain);
    CHECK(plimsoll_heap_set_front_end(plain, PLIMSOLL_HEAP_STANDARD) == EBUSY);
    CHECK(plimsoll_heap_destroy(plain) == 0);
    const unsigned options[] = {PLIMSOLL_HEAP_NO_SERIALIZE, PLIMSOLL_HEAP_DEBUG};
    for (size_t at = 0; at < 2; at++) {
        plimsoll_heap_t *heap = plimsoll_heap_create(options[at]);
        CHECK(heap != NULL && plimsoll_heap_set_front_end(heap, PLIMSOLL_HEAP_LOW_FRAGMENTATION) == ENOTSUP);
        use(heap);
        CHECK(plimsoll_heap_destroy(heap) == 0);
    }
    errno = 0;
    CHECK(plimsoll_heap_create(1024) == NULL && errno == EINVAL);
    for (size_t at = 0; at < 2; at++) {
        errno = 0;
        CHECK(plimsoll_heap_create(PLIMSOLL_HEAP_HARDENED | options[at]) == NULL && errno == EINVAL);
    }
    plimsoll_heap_t *process = plimsoll_heap_process();
    CHECK(plimsoll_heap_destroy(process) == EINVAL && plimsoll_heap_destroy(NULL) == 0);
    void *block = malloc(100);
    CHECK(plimsoll_heap_usable_size(process, block) >= 100);
    plimsoll_heap_free(process, block);
    use(process);
    plimsoll_heap_t *counted = plimsoll_heap_create(0);
    plimsoll_heap_holdings_t holdings;
    char *blocks[100];
    for (int at = 0; at < 100; at++)
        blocks[at] = (char *)plimsoll_heap_alloc(counted, 1000);
    void *large = plimsoll_heap_alloc(counted, 1 << 20);
    plimsoll_heap_count(counted, &holdings);
    CHECK(holdings.used >= 100000 && holdings.large_blocks == 1 && holdings.large >= 1 << 20);
    CHECK(holdings.committed == holdings.used + holdings.free + holdings.large);
    CHECK(holdings.reserved >= holdings.committed);
    for (int at = 0; at < 100; at++)
        plimsoll_heap_free(counted, blocks[at]);
    plimsoll_heap_free(counted, large);
    plimsoll_heap_trim(counted);
    plimsoll_heap_count(counted, &holdings);
    CHECK(holdings.used < 50000 && holdings.large == 0 && holdings.large_blocks == 0);
    CHECK(plimsoll_heap_validate() == 0);
    CHECK(plimsoll_heap_destroy(counted) == 0);
    sparse();
    // Memory of heaps that ended is used again.
    for (int round = 0; round < 1000; round++) {
        plimsoll_heap_t *heap = plimsoll_heap_create(0);
        CHECK(heap != NULL && plimsoll_heap_alloc(heap, 5000) != NULL && plimsoll_heap_destroy(heap) == 0);
    }
    // There may be many, and a last one.
    static plimsoll_heap_t *many[1 << 16];
    size_t made = 0;
    errno = 0;
    while (made < 1 << 16 && (many[made] = plimsoll_heap_create(0)) != NULL)
        made++;
    CHECK(made > 50 && made < 1 << 16 && errno == EAGAIN);
    while (made > 0)
        CHECK(plimsoll_heap_destroy(many[--made]) == 0);
    puts("all promises kept");
    return 0;
}
