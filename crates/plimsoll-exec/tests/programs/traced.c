/* Computes over memory twice its budget while tracer.c traces it, and shows the tracer pages that are out of RAM: by signals
 * whose value is the address of the page. The first word of each page is then its own address. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul
#define WORDS (PAGE / sizeof(uint64_t))
#define PAGES (32ul << 20 >> 12)

static uint64_t (*pages)[WORDS];

static uint64_t checksum(void) {
    uint64_t sum = 0;
    for (size_t page = 0; page < PAGES; page++)
        for (size_t at = 1; at < WORDS; at++) sum = (sum << 1 | sum >> 63) ^ pages[page][at];
    return sum;
}

/* A page from `first` on that is not in RAM; `first` if there is none. */
static size_t absent_page(size_t first) {
    int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    size_t page = first;
    for (uint64_t entry = 0; page < PAGES; page++) {
        if (pread(file, &entry, sizeof entry, (uintptr_t)pages[page] / PAGE * sizeof entry) != sizeof entry) exit(3);
        if (entry >> 62 == 0) break;
    }
    close(file);
    return page == PAGES ? first : page;
}

int main(void) {
    pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return 2;
    for (int round = 1; round <= 3; round++)
        for (size_t page = 0; page < PAGES; page++)
            for (size_t at = 0; at < WORDS; at++) pages[page][at] += page * round + at / 64;
    printf("sum %lx\n", checksum());
    for (size_t page = 0; page < PAGES; page++) pages[page][0] = (uintptr_t)pages[page];
    fflush(stdout);
    size_t page = 0;
    for (int number = 0; number < 4; number++) {
        page = absent_page(page + 64);
        sigqueue(getpid(), SIGUSR2, (union sigval){.sival_ptr = pages[page]});
    }
    printf("sum %lx\n", checksum());
    return 0;
}
