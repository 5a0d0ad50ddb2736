/* Makes one mistake with the heap and, where nobody stops it, goes on for a while and ends with 0.
 *
 * mistakes NAME SIZE
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The compiler must neither see the mistakes nor leave out what has no effect. */
static void *volatile sink;
static void *(*volatile allocate)(size_t) = malloc;
static void (*volatile give_back)(void *) = free;
static void *(*volatile resize)(void *, size_t) = realloc;
static size_t (*volatile measure)(void *) = malloc_usable_size;

/* What a program does after its mistake: blocks of all sizes come and go, those of the size most of all. */
static void go_on(size_t size)
{
    void *kept[512];
    for (int round = 0; round < 8; round++) {
        for (int at = 0; at < 512; at++) {
            kept[at] = allocate(at % 4 == 0 ? (size_t)at * 7 + 1 : size);
            if (kept[at] != NULL)
                memset(kept[at], at, 1);
        }
        for (int at = 0; at < 512; at++)
            give_back(kept[at]);
    }
}

/* Something else than what is there: else a single byte changes nothing where the heap's own is the same by chance. */
static void write_at(char *block, size_t from, size_t bytes)
{
    volatile char *volatile to = block + from;
    for (size_t at = 0; at < bytes; at++)
        to[at] = to[at] == 'A' ? 'B' : 'A';
}

int main(int count, char **words)
{
    if (count != 3)
        return 99;
    const char *mistake = words[1];
    size_t size = strtoull(words[2], NULL, 10);
    char *before = allocate(size), *block = allocate(size), *after = allocate(size);
    memset(before, 1, size);
    memset(block, 2, size);
    memset(after, 3, size);

    if (strcmp(mistake, "none") == 0) {
        give_back(block);
    } else if (strcmp(mistake, "double-free") == 0) {
        give_back(block);
        give_back(block);
    } else if (strcmp(mistake, "double-free-later") == 0) {
        give_back(block);
        give_back(after);
        give_back(before);
        give_back(block);
        before = after = NULL;
    } else if (strcmp(mistake, "double-free-much-later") == 0) {
        void *others[300];
        for (int at = 0; at < 300; at++)
            others[at] = allocate(size);
        give_back(block);
        for (int at = 0; at < 300; at++)
            give_back(others[at]);
        give_back(block);
    } else if (strcmp(mistake, "free-interior") == 0) {
        give_back(block + 16);
    } else if (strcmp(mistake, "free-unaligned") == 0) {
        give_back(block + 3);
    } else if (strcmp(mistake, "free-stack") == 0) {
        _Alignas(16) char local[64] = {0};
        sink = local;
        give_back(local + 16);
    } else if (strcmp(mistake, "free-static") == 0) {
        _Alignas(16) static char constant[64] = {0};
        give_back(constant + 16);
    } else if (strcmp(mistake, "free-wild") == 0) {
        give_back((void *)(uintptr_t)0x123456789ab0);
    } else if (strncmp(mistake, "overflow-", 9) == 0) {
        write_at(block, size, strtoull(mistake + 9, NULL, 10));
        give_back(block);
        give_back(after);
        after = NULL;
    } else if (strcmp(mistake, "write-after-free") == 0) {
        give_back(block);
        write_at(block, 8, 8);
    } else if (strcmp(mistake, "write-after-free-first") == 0) {
        give_back(block);
        write_at(block, 0, 8);
    } else if (strcmp(mistake, "write-after-free-deep") == 0) {
        give_back(block);
        write_at(block, size / 2, 1);
    } else if (strcmp(mistake, "realloc-after-free") == 0) {
        give_back(block);
        sink = resize((void *)block, size + size / 16);
    } else if (strcmp(mistake, "size-after-free") == 0) {
        give_back(block);
        size += measure(block) * 0;
    } else if (strcmp(mistake, "read-after-free") == 0) {
        give_back(block);
        for (size_t at = 0; at < size; at++)
            if (block[at] == 2 && at >= 16)
                return 3; /* what was there can still be read */
    } else {
        return 98;
    }
    go_on(size);
    give_back(before);
    give_back(after);
    return 0;
}
