/* Sorts 12 MiB of records in 4 MiB of RAM. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "plimsoll_pager.h"

struct record {
    uint64_t key;
    char text[56];
};

static int by_key(const void *left, const void *right) {
    uint64_t a = ((const struct record *)left)->key, b = ((const struct record *)right)->key;
    return (a > b) - (a < b);
}

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, plimsoll_pager_error());
    return 1;
}

int main(void) {
    plimsoll_pager_options_t options = {.size = sizeof options, .ram = 4 << 20};
    plimsoll_pager_t *pager;
    if (plimsoll_pager_create(&options, &pager) != PLIMSOLL_PAGER_OK)
        return fail("create");

    size_t bytes = 12 << 20, count = bytes / sizeof(struct record);
    void *address;
    if (plimsoll_pager_map(pager, bytes, &address) != PLIMSOLL_PAGER_OK)
        return fail("map");
    struct record *records = address;
    for (size_t i = 0; i < count; i++)
        records[i].key = i * 7919 % count;
    qsort(records, count, sizeof *records, by_key);
    for (size_t i = 0; i < count; i++)
        if (records[i].key != i)
            return 2;

    plimsoll_pager_stats_t stats = {.size = sizeof stats};
    if (plimsoll_pager_stats(pager, &stats) != PLIMSOLL_PAGER_OK)
        return fail("stats");
    printf("%zu records sorted, %" PRIu64 " hard faults, %" PRIu64 " MiB of RAM at most\n", count, stats.hard_faults,
           stats.ram >> 20);
    plimsoll_pager_destroy(pager);
    return stats.resident_bytes > stats.ram;
}
