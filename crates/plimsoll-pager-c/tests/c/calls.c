/* Every function of the header: results, codes, and nothing left behind. */
#define _GNU_SOURCE
#include <assert.h>
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plimsoll_pager.h"

#define MIB ((size_t)1 << 20)

static plimsoll_pager_t *create(uint64_t ram) {
    plimsoll_pager_options_t options = {.size = sizeof options, .ram = ram, .address_space = 256 * MIB};
    plimsoll_pager_t *pager = NULL;
    int code = plimsoll_pager_create(&options, &pager);
    if (code != PLIMSOLL_PAGER_OK)
        fprintf(stderr, "%d: %s\n", code, plimsoll_pager_error());
    assert(code == PLIMSOLL_PAGER_OK && pager != NULL);
    return pager;
}

static plimsoll_pager_stats_t stats(plimsoll_pager_t *pager) {
    plimsoll_pager_stats_t stats = {.size = sizeof stats};
    assert(plimsoll_pager_stats(pager, &stats) == PLIMSOLL_PAGER_OK);
    return stats;
}

/* A refused call has a code and a text. */
static void refused(int code, int expected) {
    assert(code == expected);
    assert(strncmp(plimsoll_pager_error(), "cannot ", 7) == 0);
}

static void refusals(void) {
    plimsoll_pager_t *pager = NULL;
    void *address = NULL;
    uint64_t pin;
    assert(strcmp(plimsoll_pager_error(), "") == 0);
    refused(plimsoll_pager_create(NULL, NULL), PLIMSOLL_PAGER_INVALID);
    plimsoll_pager_options_t options = {.size = 3};
    refused(plimsoll_pager_create(&options, &pager), PLIMSOLL_PAGER_INVALID);
    options = (plimsoll_pager_options_t){.size = sizeof options, .codec = 9};
    refused(plimsoll_pager_create(&options, &pager), PLIMSOLL_PAGER_INVALID);
    options = (plimsoll_pager_options_t){.size = sizeof options, .ram = 1};
    refused(plimsoll_pager_create(&options, &pager), PLIMSOLL_PAGER_INVALID);
    options = (plimsoll_pager_options_t){.size = sizeof options, .address_space = (uint64_t)1 << 60};
    refused(plimsoll_pager_create(&options, &pager), PLIMSOLL_PAGER_NO_MEMORY);
    assert(pager == NULL);
    refused(plimsoll_pager_map(NULL, 1, &address), PLIMSOLL_PAGER_INVALID);
    plimsoll_pager_destroy(NULL);

    pager = create(8 * MIB);
    refused(plimsoll_pager_map(pager, 0, &address), PLIMSOLL_PAGER_INVALID);
    refused(plimsoll_pager_map(pager, (size_t)1 << 40, &address), PLIMSOLL_PAGER_NO_MEMORY);
    refused(plimsoll_pager_map(pager, 1, NULL), PLIMSOLL_PAGER_INVALID);
    assert(plimsoll_pager_map(pager, 3 * MIB + 5, &address) == PLIMSOLL_PAGER_OK);
    char *bytes = address;
    refused(plimsoll_pager_trim(pager, bytes, MIB, 7, NULL), PLIMSOLL_PAGER_INVALID);
    refused(plimsoll_pager_trim(pager, bytes + 3 * MIB, 6, 0, NULL), PLIMSOLL_PAGER_INVALID);
    refused(plimsoll_pager_prefetch(pager, &pager, 1), PLIMSOLL_PAGER_INVALID);
    refused(plimsoll_pager_discard(pager, bytes, SIZE_MAX), PLIMSOLL_PAGER_INVALID);
    refused(plimsoll_pager_pin(pager, bytes, 3 * MIB, NULL), PLIMSOLL_PAGER_INVALID);
    refused(plimsoll_pager_set_ram(pager, 1), PLIMSOLL_PAGER_INVALID);
    void *large;
    assert(plimsoll_pager_map(pager, 5 * MIB, &large) == PLIMSOLL_PAGER_OK);
    refused(plimsoll_pager_pin(pager, large, 5 * MIB, &pin), PLIMSOLL_PAGER_LIMIT);
    assert(plimsoll_pager_set_ram(pager, 16 * MIB) == PLIMSOLL_PAGER_OK && stats(pager).ram == 16 * MIB);
    assert(plimsoll_pager_pin(pager, large, 5 * MIB, &pin) == PLIMSOLL_PAGER_OK);
    assert(plimsoll_pager_unpin(pager, pin) == PLIMSOLL_PAGER_OK);
    refused(plimsoll_pager_unpin(pager, 5), PLIMSOLL_PAGER_INVALID);
    refused(plimsoll_pager_unmap(pager, bytes + 4096), PLIMSOLL_PAGER_INVALID);
    assert(plimsoll_pager_pin(pager, bytes, 1, &pin) == PLIMSOLL_PAGER_OK);
    refused(plimsoll_pager_unmap(pager, bytes), PLIMSOLL_PAGER_INVALID);
    assert(plimsoll_pager_unpin(pager, pin) == PLIMSOLL_PAGER_OK);
    assert(plimsoll_pager_unmap(pager, bytes) == PLIMSOLL_PAGER_OK);
    plimsoll_pager_destroy(pager);
}

static void calls(void) {
    plimsoll_pager_t *pager = create(8 * MIB);
    void *address;
    assert(plimsoll_pager_map(pager, 16 * MIB, &address) == PLIMSOLL_PAGER_OK);
    unsigned char *bytes = address;
    for (size_t at = 0; at < 16 * MIB; at++)
        bytes[at] = at % 4096 < 1000 ? (unsigned char)(at * at >> 3) : 0;
    size_t trimmed = 0;
    assert(plimsoll_pager_trim(pager, bytes, 16 * MIB, PLIMSOLL_PAGER_TO_STORE, &trimmed) == PLIMSOLL_PAGER_OK);
    assert(trimmed > 0 && stats(pager).active_pages == 0 && stats(pager).compressed_pages > 0);
    assert(plimsoll_pager_prefetch(pager, bytes, MIB) == PLIMSOLL_PAGER_OK);
    /* The pager may have read ahead of the range. */
    assert(stats(pager).active_pages >= MIB / 4096);

    /* A system call uses pinned memory. */
    uint64_t pin;
    assert(plimsoll_pager_pin(pager, bytes + 8 * MIB, 64 * 1024, &pin) == PLIMSOLL_PAGER_OK);
    assert(stats(pager).pinned_pages == 16);
    refused(plimsoll_pager_discard(pager, bytes, 16 * MIB), PLIMSOLL_PAGER_INVALID);
    int ends[2];
    assert(pipe(ends) == 0);
    assert(write(ends[1], bytes + 8 * MIB, 4096) == 4096);
    close(ends[0]), close(ends[1]);
    assert(plimsoll_pager_unpin(pager, pin) == PLIMSOLL_PAGER_OK);
    refused(plimsoll_pager_unpin(pager, pin), PLIMSOLL_PAGER_INVALID);
    assert(stats(pager).pinned_pages == 0);

    for (size_t at = 0; at < 16 * MIB; at++)
        assert(bytes[at] == (at % 4096 < 1000 ? (unsigned char)(at * at >> 3) : 0));
    assert(plimsoll_pager_discard(pager, bytes + 4 * MIB, MIB) == PLIMSOLL_PAGER_OK);
    assert(bytes[4 * MIB + 5] == 0 && bytes[4 * MIB - 4096 + 5] != 0);
    /* A child of a fork has no regions. */
    pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        refused(plimsoll_pager_suspend(pager, bytes), PLIMSOLL_PAGER_FORKED);
        refused(plimsoll_pager_resume(pager, bytes), PLIMSOLL_PAGER_FORKED);
        refused(plimsoll_pager_set_working_set(pager, bytes, 0, MIB), PLIMSOLL_PAGER_FORKED);
        refused(plimsoll_pager_set_priority(pager, bytes, 3), PLIMSOLL_PAGER_FORKED);
        refused(plimsoll_pager_trim(pager, bytes, MIB, PLIMSOLL_PAGER_TO_STORE, NULL), PLIMSOLL_PAGER_FORKED);
        _exit(0);
    }
    int status;
    assert(waitpid(child, &status, 0) == child && status == 0);
    plimsoll_pager_stats_t now = stats(pager);
    assert(now.ram == 8 * MIB && now.resident_bytes <= now.ram && now.hard_faults > 0 && now.saved_pages > 0);

    /* A program of an older header has fewer members. */
    plimsoll_pager_stats_t old = {.size = offsetof(plimsoll_pager_stats_t, active_pages), .active_pages = 77};
    assert(plimsoll_pager_stats(pager, &old) == PLIMSOLL_PAGER_OK);
    assert(old.ram == 8 * MIB && old.active_pages == 77);
    /* Regions end with their pager. */
    plimsoll_pager_destroy(pager);
}

static size_t lines(const char *path) {
    FILE *file = fopen(path, "r");
    assert(file != NULL);
    size_t count = 0;
    for (int byte; (byte = fgetc(file)) != EOF;)
        count += byte == '\n';
    fclose(file);
    return count;
}

static size_t entries(const char *path) {
    DIR *folder = opendir(path);
    assert(folder != NULL);
    size_t count = 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* Pagers that were destroyed leave no mapping, descriptor, thread or block. */
static void leaves_nothing(void) {
    size_t mappings = 0, descriptors = 0, threads = 0, blocks = 0;
    for (int round = 0; round < 25; round++) {
        plimsoll_pager_t *pager = create(4 * MIB);
        for (int region = 0; region < 3; region++) {
            void *address;
            uint64_t pin;
            assert(plimsoll_pager_map(pager, 2 * MIB, &address) == PLIMSOLL_PAGER_OK);
            memset(address, region + 1, 2 * MIB);
            assert(plimsoll_pager_pin(pager, address, 4096, &pin) == PLIMSOLL_PAGER_OK);
            if (region == 1) {
                assert(plimsoll_pager_unpin(pager, pin) == PLIMSOLL_PAGER_OK);
                assert(plimsoll_pager_unmap(pager, address) == PLIMSOLL_PAGER_OK);
            }
        }
        plimsoll_pager_destroy(pager);
        if (round == 4) {
            mappings = lines("/proc/self/maps"), descriptors = entries("/proc/self/fd");
            threads = entries("/proc/self/task"), blocks = mallinfo2().uordblks;
        }
    }
    size_t mappings_now = lines("/proc/self/maps"), blocks_now = mallinfo2().uordblks;
    printf("mappings %zu %zu, blocks %zu %zu\n", mappings, mappings_now, blocks, blocks_now);
    /* One leaked mapping or block a round would be 20. */
    assert(mappings_now <= mappings + 5 && blocks_now <= blocks + 1024);
    assert(entries("/proc/self/fd") == descriptors && entries("/proc/self/task") == threads);
}

int main(void) {
    refusals();
    calls();
    leaves_nothing();
    puts("all calls");
    return 0;
}
