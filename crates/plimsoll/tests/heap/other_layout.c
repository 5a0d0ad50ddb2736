// A control block as that of another release, and nothing behind it.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void) {
    const size_t page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // Between pages that cannot be reached, so that the mapping begins with it.
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_READ | PROT_WRITE) != 0)
        return 1;
    const uint32_t layout = 99;
    memcpy(pages + page, "PLIMSOLL-HEAP\0\0\1", 16);
    memcpy(pages + page + 16, &layout, sizeof layout);
    puts("ready");
    fflush(stdout);
    // Until standard input ends.
    return getchar() != EOF;
}
