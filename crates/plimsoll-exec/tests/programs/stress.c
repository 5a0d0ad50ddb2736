/* Threads that allocate, map, resize, drop and check memory in a random order. Prints the number of mistakes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS 400
#define RW (PROT_READ | PROT_WRITE)

static int rounds;
static _Atomic long mistakes;

static void expect(int holds, const char *what) {
    if (!holds) {
        mistakes++;
        fprintf(stderr, "%s\n", what);
    }
}

static uint32_t draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static uint64_t word(uint32_t key, size_t at) { return (uint64_t)(key >> 12) * 0x9E3779B97F4A7C15ull + (at >> 8); }

static void fill(char *p, size_t length, uint32_t key) {
    for (size_t at = 0; at + 8 <= length; at += 8) *(uint64_t *)(p + at) = word(key, at);
}

static int holds(char *p, size_t length, uint32_t key) {
    for (size_t at = 0; at + 8 <= length; at += 8)
        if (*(uint64_t *)(p + at) != word(key, at)) return 0;
    return 1;
}

static int is_zero(char *p, size_t length) {
    for (size_t at = 0; at < length; at += 512)
        if (p[at]) return 0;
    return 1;
}

struct slot {
    char *p;
    size_t length;
    uint32_t key;
    int is_mapped;
};

static size_t mapped_length(uint32_t *state) { return (draw(state) % 60 + 8) * 4096; }

static void make(struct slot *slot, uint32_t *state) {
    slot->is_mapped = draw(state) % 4 == 0;
    slot->key = draw(state);
    if (slot->is_mapped) {
        slot->length = mapped_length(state);
        slot->p = mmap(0, slot->length, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        expect(is_zero(slot->p, slot->length), "a new mapping is not zero");
    } else {
        slot->length = draw(state) % 20 == 0 ? draw(state) % 600000 : draw(state) % 6000;
        slot->p = calloc(1, slot->length);
        expect(is_zero(slot->p, slot->length), "a new block is not zero");
    }
    fill(slot->p, slot->length, slot->key);
}

static void resize(struct slot *slot, uint32_t *state) {
    size_t length = slot->is_mapped ? mapped_length(state) : draw(state) % 8000 + 8;
    char *p = slot->is_mapped ? mremap(slot->p, slot->length, length, MREMAP_MAYMOVE) : realloc(slot->p, length);
    expect(holds(p, length < slot->length ? length : slot->length, slot->key), "a resize loses contents");
    slot->p = p;
    slot->length = length;
    fill(p, length, slot->key);
}

static void drop(struct slot *slot) {
    madvise(slot->p, slot->length, MADV_DONTNEED);
    expect(is_zero(slot->p, slot->length), "dropped contents are not zero");
    fill(slot->p, slot->length, slot->key);
}

static void pass(struct slot *slot) {
    int ends[2];
    char copy[32768];
    if (pipe(ends)) return;
    ssize_t written = write(ends[1], slot->p, sizeof copy);
    ssize_t got = read(ends[0], copy, sizeof copy);
    expect(written == got && memcmp(copy, slot->p, got) == 0, "a pipe loses contents");
    close(ends[0]);
    close(ends[1]);
}

static void *run(void *number) {
    uint32_t state = (uint32_t)(long)number * 77 + 1;
    struct slot *slots = calloc(SLOTS, sizeof *slots);
    for (int round = 0; round < rounds; round++) {
        struct slot *slot = &slots[draw(&state) % SLOTS];
        int action = draw(&state) % 10;
        if (!slot->p) {
            make(slot, &state);
            continue;
        }
        expect(holds(slot->p, slot->length, slot->key), "contents are lost");
        if (action < 5) {
            slot->is_mapped ? (void)munmap(slot->p, slot->length) : free(slot->p);
            slot->p = 0;
        } else if (action < 7) {
            resize(slot, &state);
        } else if (slot->is_mapped && action == 7) {
            drop(slot);
        } else if (slot->is_mapped && action == 8) {
            mprotect(slot->p, slot->length, PROT_READ);
            expect(holds(slot->p, slot->length, slot->key), "a protected mapping is lost");
            mprotect(slot->p, slot->length, RW);
        } else if (slot->is_mapped) {
            pass(slot);
        }
    }
    return 0;
}

int main(int count, char **arguments) {
    pthread_t threads[4];
    rounds = count > 1 ? atoi(arguments[1]) : 1000;
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, run, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    printf("%ld mistakes\n", mistakes);
    return mistakes != 0;
}
