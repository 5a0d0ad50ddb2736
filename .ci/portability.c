/* Exercises malloc and its kin from four threads, and fails unless they are plimsoll's and every block keeps what was
   written to it. Blocks are freed by another thread than the one that allocated them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, SHELF = 256, ROUNDS = 40000, LARGE_EVERY = 512 };

struct block {
    unsigned char *bytes;
    size_t size;
    unsigned char mark;
};

/* Where threads leave blocks for each other. */
static struct block shelf[SHELF];
static pthread_mutex_t shelf_lock = PTHREAD_MUTEX_INITIALIZER;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "FAILED  %s\n", what);
        exit(1);
    }
}

static struct block allocate(unsigned *random)
{
    struct block block = {.mark = (unsigned char)rand_r(random)};
    size_t alignment = (size_t)16 << rand_r(random) % 9;
    int is_large = rand_r(random) % LARGE_EVERY == 0;
    block.size = 1 + (size_t)rand_r(random) % (is_large ? 1 << 20 : 2048);
    switch (rand_r(random) % 5) {
    case 0:
        block.bytes = calloc(1, block.size);
        check(block.bytes && !block.bytes[0] && !memcmp(block.bytes, block.bytes + 1, block.size - 1),
              "calloc gives zeros");
        break;
    case 1:
        block.bytes = aligned_alloc(alignment, block.size);
        check((uintptr_t)block.bytes % alignment == 0, "aligned_alloc aligns");
        break;
    case 2:
        check(!posix_memalign((void **)&block.bytes, alignment, block.size), "posix_memalign succeeds");
        check((uintptr_t)block.bytes % alignment == 0, "posix_memalign aligns");
        break;
    case 3: {
        size_t before = block.size / 2 + 1;
        block.bytes = malloc(before);
        check(block.bytes != NULL, "malloc gives a block");
        memset(block.bytes, block.mark, before);
        block.bytes = realloc(block.bytes, block.size);
        check(block.bytes && block.bytes[0] == block.mark, "realloc keeps what was there");
        break;
    }
    default:
        block.bytes = malloc(block.size);
    }
    check(block.bytes != NULL, "a block is given");
    check(malloc_usable_size(block.bytes) >= block.size, "a block is as large as asked for");
    memset(block.bytes, block.mark, block.size);
    return block;
}

static void release(struct block block)
{
    for (size_t i = 0; i < block.size; i++)
        check(block.bytes[i] == block.mark, "a block keeps what was written to it");
    free(block.bytes);
}

static void *work(void *seed)
{
    unsigned random = (unsigned)(uintptr_t)seed;
    for (int round = 0; round < ROUNDS; round++) {
        struct block block = allocate(&random), *place = &shelf[rand_r(&random) % SHELF];
        pthread_mutex_lock(&shelf_lock);
        struct block found = *place;
        *place = block;
        pthread_mutex_unlock(&shelf_lock);
        release(found);
    }
    return NULL;
}

int main(void)
{
    Dl_info of_malloc;
    check(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &of_malloc) && strstr(of_malloc.dli_fname, "plimsoll_malloc"),
          "malloc is plimsoll's");
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        check(!pthread_create(&threads[i], NULL, work, (void *)(i + 1)), "a thread starts");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SHELF; i++)
        release(shelf[i]);
    printf("malloc: %d blocks kept what was written to them\n", THREADS * ROUNDS);
    return 0;
}
