/* Every option of a pager and every policy of a region: effects, refusals. The argument is a folder on a disk. */
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plimsoll_pager.h"

#define MIB ((size_t)1 << 20)

static const char *folder;

static plimsoll_pager_options_t options(uint64_t ram) {
    return (plimsoll_pager_options_t){.size = sizeof(plimsoll_pager_options_t), .ram = ram, .address_space = 256 * MIB};
}

static plimsoll_pager_t *create(plimsoll_pager_options_t options) {
    plimsoll_pager_t *pager = NULL;
    if (plimsoll_pager_create(&options, &pager) != PLIMSOLL_PAGER_OK) {
        fprintf(stderr, "%s\n", plimsoll_pager_error());
        abort();
    }
    return pager;
}

static void refused(plimsoll_pager_options_t options, int expected) {
    plimsoll_pager_t *pager = NULL;
    int code = plimsoll_pager_create(&options, &pager);
    if (code != expected || pager != NULL) {
        fprintf(stderr, "code %d in place of %d: %s\n", code, expected, plimsoll_pager_error());
        abort();
    }
}

static plimsoll_pager_stats_t stats(plimsoll_pager_t *pager) {
    plimsoll_pager_stats_t stats = {.size = sizeof stats};
    assert(plimsoll_pager_stats(pager, &stats) == PLIMSOLL_PAGER_OK);
    return stats;
}

static uint64_t *map(plimsoll_pager_t *pager, size_t bytes) {
    void *address;
    assert(plimsoll_pager_map(pager, bytes, &address) == PLIMSOLL_PAGER_OK);
    return address;
}

/* Words that depend on their place: of a page, one in four is random and the rest are zero. */
static uint64_t word(size_t at) {
    if (at % 512 >= 128)
        return 0;
    uint64_t x = (at + 1) * 0x9e3779b97f4a7c15;
    x ^= x >> 29, x *= 0xbf58476d1ce4e5b9, x ^= x >> 32;
    return x;
}

static void fill(uint64_t *words, size_t bytes) {
    for (size_t at = 0; at < bytes / 8; at++)
        words[at] = word(at);
}

static void check(const uint64_t *words, size_t bytes) {
    for (size_t at = 0; at < bytes / 8; at++)
        assert(words[at] == word(at));
}

static void bad_values(void) {
    plimsoll_pager_options_t bad = options(8 * MIB);
    bad.codec = 3;
    refused(bad, PLIMSOLL_PAGER_INVALID);
    bad = options(8 * MIB), bad.fault_mode = 2;
    refused(bad, PLIMSOLL_PAGER_INVALID);
    bad = options(8 * MIB), bad.store_cap = 5;
    refused(bad, PLIMSOLL_PAGER_INVALID);
    bad = options(8 * MIB), bad.page_file_bytes = MIB;
    refused(bad, PLIMSOLL_PAGER_INVALID);
    bad = options(8 * MIB), bad.page_file = folder;
    refused(bad, PLIMSOLL_PAGER_INVALID);
    bad = options(8 * MIB), bad.page_file = "/dev/null/none", bad.page_file_bytes = MIB;
    refused(bad, PLIMSOLL_PAGER_INVALID);
    bad = options(8 * MIB), bad.pool_minimum = MIB;
    refused(bad, PLIMSOLL_PAGER_INVALID);
    /* A budget of its own beside that of a pool. */
    char path[4096];
    snprintf(path, sizeof path, "%s/no-pool", folder);
    bad = options(8 * MIB), bad.pool = path, bad.pool_bytes = 32 * MIB;
    refused(bad, PLIMSOLL_PAGER_INVALID);
    assert(access(path, F_OK) != 0);
    bad = options(0), bad.pool = path;
    refused(bad, PLIMSOLL_PAGER_SYSTEM);
    bad.pool_bytes = 32 * MIB, bad.pool_minimum = 8 * MIB, bad.pool_maximum = 4 * MIB;
    refused(bad, PLIMSOLL_PAGER_INVALID);
    /* Less than a pager needs. */
    bad.pool_minimum = 0, bad.pool_maximum = MIB / 2;
    refused(bad, PLIMSOLL_PAGER_INVALID);
    unlink(path);
}

/* What the store cannot hold goes to the page file, and returns from it. */
static void page_file(void) {
    plimsoll_pager_options_t chosen = options(12 * MIB);
    chosen.page_file = folder, chosen.page_file_bytes = 64 * MIB, chosen.store_cap = 4 * MIB;
    plimsoll_pager_t *pager = create(chosen);
    uint64_t *words = map(pager, 64 * MIB);
    fill(words, 64 * MIB);
    check(words, 64 * MIB);
    plimsoll_pager_stats_t now = stats(pager);
    assert(now.page_file_state == PLIMSOLL_PAGER_PAGE_FILE_WRITABLE && now.page_file_bytes == 64 * MIB);
    assert(now.page_file_used_bytes > 0 && now.page_file_written_bytes > 0 && now.page_file_read_bytes > 0);
    assert(now.page_file_pages > 0);
    assert(now.refaults > 0);
    assert(now.stall_us > 0);
    /* The cap, and the tables and buffers of the file. */
    assert(now.store_bytes <= 5 * MIB);
    plimsoll_pager_destroy(pager);

    pager = create(options(8 * MIB));
    now = stats(pager);
    assert(now.page_file_state == PLIMSOLL_PAGER_NO_PAGE_FILE && now.page_file_bytes == 0);
    plimsoll_pager_destroy(pager);
}

/* Each codec, and copies in place of moves, keep every byte. */
static void codecs(void) {
    for (uint32_t codec = PLIMSOLL_PAGER_LZ4; codec <= PLIMSOLL_PAGER_AUTO; codec++) {
        plimsoll_pager_options_t chosen = options(8 * MIB);
        chosen.codec = codec, chosen.without_move = codec == PLIMSOLL_PAGER_ZSTD;
        plimsoll_pager_t *pager = create(chosen);
        unsigned char *bytes = (unsigned char *)map(pager, 16 * MIB);
        for (size_t at = 0; at < 16 * MIB; at++)
            bytes[at] = at % 4096 < 1000 ? (unsigned char)(at * at >> 3) : 0;
        for (size_t at = 0; at < 16 * MIB; at++)
            assert(bytes[at] == (at % 4096 < 1000 ? (unsigned char)(at * at >> 3) : 0));
        assert(stats(pager).hard_faults > 0);
        plimsoll_pager_destroy(pager);
    }
}

/* With a thread for faults, a program may block SIGBUS. */
static void fault_thread(void) {
    plimsoll_pager_options_t chosen = options(8 * MIB);
    chosen.fault_mode = PLIMSOLL_PAGER_FAULT_THREAD;
    plimsoll_pager_t *pager = create(chosen);
    sigset_t set, former;
    sigemptyset(&set), sigaddset(&set, SIGBUS);
    sigprocmask(SIG_BLOCK, &set, &former);
    uint64_t *words = map(pager, 16 * MIB);
    fill(words, 16 * MIB);
    check(words, 16 * MIB);
    sigprocmask(SIG_SETMASK, &former, NULL);
    int serves = -1;
    assert(plimsoll_pager_serves_system_calls(pager, &serves) == PLIMSOLL_PAGER_OK && (serves == 0 || serves == 1));
    assert(plimsoll_pager_trim(pager, words, 4096, PLIMSOLL_PAGER_TO_STORE, NULL) == PLIMSOLL_PAGER_OK);
    int zeros = open("/dev/zero", O_RDONLY);
    assert((read(zeros, words, 4096) == 4096) == (serves == 1));
    close(zeros);
    plimsoll_pager_destroy(pager);

    pager = create(options(8 * MIB));
    assert(plimsoll_pager_serves_system_calls(pager, &serves) == PLIMSOLL_PAGER_OK && serves == 0);
    plimsoll_pager_destroy(pager);
}

/* Ageing looks in windows while pages are trimmed, unless it is off or the pager copies pages. */
static void ageing(void) {
    plimsoll_pager_options_t chosen = options(8 * MIB);
    chosen.ageing_ms = 20;
    plimsoll_pager_t *pager = create(chosen);
    uint64_t *words = map(pager, 32 * MIB);
    time_t start = time(NULL);
    plimsoll_pager_stats_t now;
    uint64_t chunks;
    do {
        assert(time(NULL) - start < 60);
        fill(words, 32 * MIB);
        now = stats(pager);
        chunks = 0;
        for (size_t heat = 0; heat < 8; heat++)
            chunks += now.heat_chunks[heat];
    } while (now.ageing_windows < 2 || now.ageing_us == 0 || chunks == 0);
    assert(now.ageing_state == PLIMSOLL_PAGER_AGEING_ON && chunks <= 256 / 2);
    check(words, 32 * MIB);
    plimsoll_pager_destroy(pager);

    chosen.ageing_ms = PLIMSOLL_PAGER_NO_AGEING;
    pager = create(chosen);
    words = map(pager, 32 * MIB);
    fill(words, 32 * MIB);
    now = stats(pager);
    assert(now.trimmed_pages > 0 && now.ageing_state == PLIMSOLL_PAGER_AGEING_OFF && now.ageing_windows == 0);
    plimsoll_pager_destroy(pager);

    /* Known at its first trim. */
    chosen = options(8 * MIB), chosen.without_move = 1;
    pager = create(chosen);
    words = map(pager, 32 * MIB);
    start = time(NULL);
    do {
        assert(time(NULL) - start < 60);
        fill(words, 32 * MIB);
    } while (stats(pager).ageing_state != PLIMSOLL_PAGER_AGEING_UNSUPPORTED);
    plimsoll_pager_destroy(pager);
}

/* Time passes in steps; an unknown rule is refused. */
static void thrash_control(void) {
    plimsoll_pager_options_t chosen = options(8 * MIB);
    chosen.thrash_control = PLIMSOLL_PAGER_THRASH_ON;
    plimsoll_pager_t *pager = create(chosen);
    uint64_t *words = map(pager, 32 * MIB);
    time_t start = time(NULL);
    plimsoll_pager_stats_t now;
    uint64_t us;
    do {
        assert(time(NULL) - start < 60);
        fill(words, 32 * MIB);
        now = stats(pager);
        us = 0;
        for (size_t step = PLIMSOLL_PAGER_CALM; step <= PLIMSOLL_PAGER_THROTTLE; step++)
            us += now.thrash_us[step];
    } while (us == 0 || now.worst_faulter_percent == 0);
    assert(now.thrash_step <= PLIMSOLL_PAGER_THROTTLE && now.kept_trials <= now.thrash_trials);
    /* One thread alone is not throttled. */
    assert(now.worst_faulter_percent == 100 && now.throttled_us == 0);
    check(words, 32 * MIB);
    plimsoll_pager_destroy(pager);

    chosen.thrash_control = PLIMSOLL_PAGER_THRASH_ON + 1;
    refused(chosen, PLIMSOLL_PAGER_INVALID);
}

static void most_ram(void) {
    plimsoll_pager_options_t chosen = options(8 * MIB);
    chosen.most_ram = 64 * MIB;
    plimsoll_pager_t *pager = create(chosen);
    assert(plimsoll_pager_set_ram(pager, 64 * MIB) == PLIMSOLL_PAGER_OK && stats(pager).ram == 64 * MIB);
    plimsoll_pager_destroy(pager);
}

static void policies(void) {
    plimsoll_pager_t *pager = create(options(16 * MIB));
    uint64_t *words = map(pager, 24 * MIB), *other = map(pager, 4 * MIB);
    fill(words, 2 * MIB);
    size_t pages = 0;
    assert(plimsoll_pager_reset(pager, words, MIB, &pages) == PLIMSOLL_PAGER_OK);
    assert(plimsoll_pager_reset(pager, words + 1, 1, NULL) == PLIMSOLL_PAGER_OK);
    assert(pages == MIB / 4096);
    for (size_t at = MIB / 8; at < 2 * MIB / 8; at++)
        assert(words[at] == word(at));
    fill(words, 24 * MIB);
    fill(other, 4 * MIB);

    assert(plimsoll_pager_set_priority(pager, words, 2) == PLIMSOLL_PAGER_OK);
    assert(plimsoll_pager_set_priority(pager, words, 0) == PLIMSOLL_PAGER_INVALID);
    assert(plimsoll_pager_set_priority(pager, words, 8) == PLIMSOLL_PAGER_INVALID);
    assert(plimsoll_pager_set_priority(pager, words + 512, 2) == PLIMSOLL_PAGER_INVALID);
    assert(plimsoll_pager_trim(pager, words, 24 * MIB, PLIMSOLL_PAGER_TO_STORE, NULL) == PLIMSOLL_PAGER_OK);
    assert(plimsoll_pager_prefetch(pager, words, MIB) == PLIMSOLL_PAGER_OK);
    assert(plimsoll_pager_trim(pager, words, MIB, PLIMSOLL_PAGER_TO_STANDBY, NULL) == PLIMSOLL_PAGER_OK);
    assert(stats(pager).standby_pages[2] >= MIB / 4096);

    assert(plimsoll_pager_set_working_set(pager, other, 2 * MIB, MIB) == PLIMSOLL_PAGER_INVALID);
    assert(plimsoll_pager_set_working_set(pager, other, 12 * MIB, 12 * MIB) == PLIMSOLL_PAGER_LIMIT);
    assert(plimsoll_pager_set_working_set(pager, other, 0, MIB) == PLIMSOLL_PAGER_OK);
    assert(plimsoll_pager_trim(pager, words, 24 * MIB, PLIMSOLL_PAGER_TO_STORE, NULL) == PLIMSOLL_PAGER_OK);
    check(other, 4 * MIB);
    assert(stats(pager).active_pages <= MIB / 4096);
    assert(plimsoll_pager_set_working_set(pager, other, 0, 0) == PLIMSOLL_PAGER_OK);
    check(other, 4 * MIB);
    assert(stats(pager).active_pages > MIB / 4096);

    assert(plimsoll_pager_suspend(pager, other) == PLIMSOLL_PAGER_OK);
    assert(stats(pager).suspended_pages == 4 * MIB / 4096);
    assert(plimsoll_pager_resume(pager, other) == PLIMSOLL_PAGER_OK && stats(pager).suspended_pages == 0);
    assert(plimsoll_pager_suspend(pager, NULL) == PLIMSOLL_PAGER_INVALID);
    check(words, 24 * MIB);
    check(other, 4 * MIB);
    plimsoll_pager_destroy(pager);
}

/* Two processes have one budget. */
static void pool(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/pool", folder);
    plimsoll_pager_options_t chosen = options(0);
    chosen.pool = path, chosen.pool_bytes = 32 * MIB, chosen.pool_minimum = 4 * MIB;
    plimsoll_pager_t *pager = create(chosen);
    uint64_t *words = map(pager, 48 * MIB);
    fill(words, 48 * MIB);
    assert(plimsoll_pager_set_ram(pager, 8 * MIB) == PLIMSOLL_PAGER_INVALID);

    int ends[2];
    assert(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        plimsoll_pager_options_t second = options(0);
        second.pool = path, second.pool_minimum = 4 * MIB, second.pool_maximum = 8 * MIB, second.pool_priority = 7;
        plimsoll_pager_t *member = create(second);
        uint64_t *own = map(member, 12 * MIB);
        fill(own, 12 * MIB);
        check(own, 12 * MIB);
        uint64_t ram = stats(member).ram;
        assert(ram >= 4 * MIB && ram <= 8 * MIB);
        assert(write(ends[1], &ram, sizeof ram) == sizeof ram);
        plimsoll_pager_destroy(member);
        _exit(0);
    }
    int status;
    uint64_t ram;
    assert(read(ends[0], &ram, sizeof ram) == sizeof ram);
    assert(waitpid(child, &status, 0) == child && status == 0);
    check(words, 48 * MIB);
    assert(stats(pager).ram <= 32 * MIB);
    plimsoll_pager_destroy(pager);
    unlink(path);
}

int main(int count, char **arguments) {
    assert(count == 2);
    folder = arguments[1];
    bad_values();
    page_file();
    codecs();
    fault_thread();
    ageing();
    thrash_control();
    most_ram();
    policies();
    pool();
    puts("all options");
    return 0;
}
