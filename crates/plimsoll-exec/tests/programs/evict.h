/* Other memory of a program, larger than the budget of 16 MiB: while it is written, all else leaves RAM. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define OTHER (28ul << 20)

static void evict(void) {
    static char *other;
    static int round;
    if (!other) {
        other = mmap(NULL, OTHER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (other == MAP_FAILED) exit(2);
    }
    round++;
    for (size_t at = 0; at < OTHER; at += 4096) memset(other + at, (int)(at >> 12) * 7 + round, 64);
}
