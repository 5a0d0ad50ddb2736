/* Huge pages that the program demands. Prints the same with and without the library; with the argument `collapse`, the result of
 * MADV_COLLAPSE, which depends on the kernel without it; with `reserved`, words of a mapping with MAP_HUGETLB; with `none`, that of
 * a mapping that is larger than the machine. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define ARENA 0x100000000000ul
#define ARENA_BYTES (256ul << 30)
#define HUGE (2ul << 20)
#define LARGE (48ul << 20)

static int is_in_arena(void *memory) { return (uintptr_t)memory - ARENA < ARENA_BYTES; }

/* Writes the number of each word into it, and counts the words that have another one afterwards. */
static long wrong_words(volatile uint64_t *words, size_t bytes) {
    long wrong = 0;
    for (size_t at = 0; at < bytes / 8; at++) words[at] = at;
    for (size_t at = 0; at < bytes / 8; at++) wrong += words[at] != at;
    return wrong;
}

/* A mapping of reserved huge pages. The system may have none. */
static int map_huge(size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
    char *huge = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (huge == MAP_FAILED) printf("MAP_HUGETLB: %s\n", strerror(errno));
    else printf("MAP_HUGETLB: %d in the arena, %ld words are wrong\n", is_in_arena(huge), wrong_words((uint64_t *)huge, bytes));
    return 0;
}

int main(int count, char **arguments) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS, access = PROT_READ | PROT_WRITE;
    if (count > 1 && !strcmp(arguments[1], "reserved")) return map_huge(2 * HUGE);
    if (count > 1 && !strcmp(arguments[1], "none")) return map_huge(1ul << 45);
    char *memory = mmap(NULL, LARGE, access, flags, -1, 0);
    if (count > 1) {
        fprintf(stderr, "%d\n", is_in_arena(memory));
        int result = madvise(memory, LARGE, MADV_COLLAPSE);
        printf("MADV_COLLAPSE: %s\n", result ? strerror(errno) : "done");
        return 0;
    }
    int result = madvise(memory, LARGE, MADV_HUGEPAGE);
    printf("MADV_HUGEPAGE: %d, %ld words are wrong\n", result, wrong_words((uint64_t *)memory, LARGE));
    return 0;
}
