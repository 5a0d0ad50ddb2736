// Damages its heap as the first word says, prints how many damages the heap itself finds, and waits for the end of its
// input, so that others can look. The second word is where in the control block the damage of it goes.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 200

// The control block is at the start of its mapping.
static char *control_block(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    char *found = NULL;
    while (maps != NULL && found == NULL && fgets(line, sizeof line, maps) != NULL) {
        char *start = (char *)strtoull(line, NULL, 16);
        if (strstr(line, " rw-p ") != NULL && memcmp(start, "PLIMSOLL-HEAP\0\0\x01", 16) == 0)
            found = start;
    }
    if (maps != NULL)
        fclose(maps);
    return found;
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    size_t (*validate)(void) = (size_t (*)(void))dlsym(RTLD_DEFAULT, "plimsoll_heap_validate");
    char *control = control_block();
    if (validate == NULL || control == NULL)
        return 3;
    // As a number, through which the compiler does not see the mistakes.
    volatile uintptr_t block = 0;
    for (int at = 0; at < BLOCKS; at++)
        block = (uintptr_t)malloc(100);
    if (strcmp(how, "after-free") == 0) {
        free((void *)block);
        *(volatile uint64_t *)(block + 8) = 0x4141414141414141;
    } else if (strcmp(how, "overrun") == 0) {
        *(volatile char *)(block + 100) ^= 1;
    } else if (strcmp(how, "control") == 0) {
        *(volatile uint64_t *)(control + strtoul(words[2], NULL, 10)) = 0x4141414141414141;
    } else if (strcmp(how, "none") != 0) {
        return 3;
    }
    // Without the heap from here on.
    char said[32];
    int length = snprintf(said, sizeof said, "%zu\n", validate());
    if (write(1, said, length) != length)
        _exit(3);
    while (read(0, said, sizeof said) > 0) {
    }
    _exit(0);
}
