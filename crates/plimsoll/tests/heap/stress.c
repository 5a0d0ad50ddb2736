// What is hard for a heap, one mode a run: `stress fork|signals|churn|exhaustion`. Every block is filled with a byte of
// its own and checked before its free. Prints what was done, or the first mistake.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 256

static void fail(const char *what) {
    printf("mistake: %s (errno %d)\n", what, errno);
    fflush(stdout);
    _exit(1);
}

struct work {
    unsigned char *block[BLOCKS];
    size_t size[BLOCKS];
    uint64_t random;
};

static uint64_t next(struct work *work) {
    work->random ^= work->random << 13;
    work->random ^= work->random >> 7;
    work->random ^= work->random << 17;
    return work->random;
}

// Mostly small, at times large enough for every part of a heap.
static size_t some_size(struct work *work) {
    uint64_t random = next(work);
    unsigned bits = random % 64 == 0 ? 20 : random % 8 == 0 ? 14 : 9;
    return (random >> 8) & (((size_t)1 << bits) - 1);
}

static void check(const unsigned char *block, size_t size, unsigned char byte) {
    for (size_t at = 0; at < size; at++)
        if (block[at] != byte)
            fail("a block changed while it was in use");
}

static void empty(struct work *work, size_t at) {
    if (work->block[at] == NULL)
        return;
    check(work->block[at], work->size[at], (unsigned char)at);
    free(work->block[at]);
    work->block[at] = NULL;
}

static void step(struct work *work) {
    size_t at = next(work) % BLOCKS, size = some_size(work);
    switch (next(work) % 4) {
    case 0:
        if (work->block[at] != NULL) {
            unsigned char *moved = realloc(work->block[at], size + 1);
            if (moved == NULL)
                fail("realloc");
            size_t kept = work->size[at] < size + 1 ? work->size[at] : size + 1;
            check(moved, kept, (unsigned char)at);
            work->block[at] = moved;
            work->size[at] = size + 1;
            memset(moved, (int)at, size + 1);
            break;
        } // fall through
    case 1:
        empty(work, at);
        work->block[at] = calloc(1, size);
        if (work->block[at] == NULL)
            fail("calloc");
        check(work->block[at], size, 0);
        work->size[at] = size;
        memset(work->block[at], (int)at, size);
        break;
    default:
        empty(work, at);
        work->block[at] = malloc(size);
        if (work->block[at] == NULL)
            fail("malloc");
        work->size[at] = size;
        memset(work->block[at], (int)at, size);
    }
}

static void finish(struct work *work) {
    for (size_t at = 0; at < BLOCKS; at++)
        empty(work, at);
}

static atomic_int over;

static void *until_over(void *seed) {
    struct work work = {.random = (uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15u};
    while (!atomic_load_explicit(&over, memory_order_relaxed))
        step(&work);
    finish(&work);
    return NULL;
}

static void start(pthread_t *threads, size_t count) {
    for (size_t at = 0; at < count; at++)
        if (pthread_create(&threads[at], NULL, until_over, (void *)(at + 1)) != 0)
            fail("pthread_create");
}

static void end(pthread_t *threads, size_t count) {
    atomic_store(&over, 1);
    for (size_t at = 0; at < count; at++)
        pthread_join(threads[at], NULL);
}

// Children of a process whose other threads are in the middle of malloc use the heap, and fork again.
static void forks(void) {
    pthread_t threads[4];
    start(threads, 4);
    struct work work = {.random = 7};
    for (int round = 0; round < 100; round++) {
        for (int at = 0; at < 50; at++)
            step(&work);
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0) {
            alarm(60); // a child that hangs in a lock ends by this
            for (int at = 0; at < 500; at++)
                step(&work);
            pid_t grandchild = round % 10 == 0 ? fork() : -1;
            if (grandchild == 0) {
                finish(&work);
                _exit(0);
            }
            int status = 0;
            if (grandchild > 0 && (waitpid(grandchild, &status, 0) < 0 || status != 0))
                _exit(1);
            finish(&work);
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0)
            fail("a child");
    }
    finish(&work);
    end(threads, 4);
    puts("100 forks");
}

static atomic_uint ticks;

static void tick(int signal) {
    (void)signal;
    atomic_fetch_add(&ticks, 1);
}

// Threads are interrupted in the middle of malloc, thousands of times. Signals that come before the last was handled are
// one, so it takes as long as it takes.
static void signals(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t threads[3];
    start(threads, 3);
    struct work work = {.random = 11};
    time_t started = time(NULL);
    for (int round = 0; round < 5000 || atomic_load(&ticks) < 2000; round++) {
        for (int at = 0; at < 20; at++)
            step(&work);
        pthread_kill(threads[round % 3], SIGUSR1);
        if (time(NULL) > started + 200)
            fail("hardly interrupted");
    }
    setitimer(ITIMER_REAL, &never, NULL);
    finish(&work);
    end(threads, 3);
    puts("interrupted");
}

static _Atomic(unsigned char *) handed[64];

// A thread of a short life: what it allocates is freed by another one.
static void *short_life(void *seed) {
    struct work work = {.random = ((uintptr_t)seed + 1) * 0x9e3779b97f4a7c15u};
    for (int at = 0; at < 100; at++)
        step(&work);
    for (int at = 0; at < 64; at++) {
        size_t size = 8 + next(&work) % 1000;
        unsigned char *mine = malloc(size + 8);
        memcpy(mine, &size, 8);
        memset(mine + 8, (int)size, size);
        unsigned char *other = atomic_exchange(&handed[next(&work) % 64], mine);
        if (other != NULL) {
            memcpy(&size, other, 8);
            check(other + 8, size, (unsigned char)size);
            free(other);
        }
    }
    finish(&work);
    return NULL;
}

static void churn(void) {
    pthread_t threads[16];
    for (size_t round = 0; round < 300; round++) {
        for (size_t at = 0; at < 16; at++)
            if (pthread_create(&threads[at], NULL, short_life, (void *)(round * 16 + at)) != 0)
                fail("pthread_create");
        for (size_t at = 0; at < 16; at++)
            pthread_join(threads[at], NULL);
    }
    for (int at = 0; at < 64; at++)
        free(atomic_exchange(&handed[at], NULL));
    puts("4800 threads");
}

// Under `ulimit -v`: memory runs out, which is said as C says it, and comes back when blocks are freed.
static void exhaustion(void) {
    static void *blocks[1 << 18];
    for (int round = 0; round < 3; round++) {
        for (size_t size = 1 << 20; size >= 1 << 10; size /= 32) {
            size_t count = 0;
            errno = 0;
            while (count < 1 << 18 && (blocks[count] = malloc(size)) != NULL) {
                memset(blocks[count], 1, size);
                count++;
            }
            if (count == 1 << 18)
                fail("memory never ran out");
            if (errno != ENOMEM)
                fail("memory ran out without ENOMEM");
            if (count * size < 32 << 20)
                fail("less than half of the limit could be used");
            while (count > 0)
                free(blocks[--count]);
        }
    }
    puts("ran out and recovered");
}

int main(int count, char **words) {
    const char *mode = count == 2 ? words[1] : "";
    if (strcmp(mode, "fork") == 0)
        forks();
    else if (strcmp(mode, "signals") == 0)
        signals();
    else if (strcmp(mode, "churn") == 0)
        churn();
    else if (strcmp(mode, "exhaustion") == 0)
        exhaustion();
    else
        fail("which mode?");
    return 0;
}
