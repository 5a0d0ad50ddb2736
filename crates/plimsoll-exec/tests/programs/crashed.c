/* Fills memory twice its budget, each page with words of its own address, prints the first address, and crashes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096ul
#define BYTES (32ul << 20)

int main(void) {
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 2;
    for (char *page = memory; page < memory + BYTES; page += PAGE)
        for (size_t at = 0; at < PAGE; at += sizeof(uintptr_t)) *(uintptr_t *)(page + at) = (uintptr_t)page;
    printf("%zu\n", (size_t)memory);
    fflush(stdout);
    abort();
}
