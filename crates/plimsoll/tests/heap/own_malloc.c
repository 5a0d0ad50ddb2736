// A program with a malloc of its own, which every library that it loads uses too.
#include <stddef.h>
#include <stdio.h>

static char memory[1 << 20];
static size_t used;

void *malloc(size_t size) {
    void *block = memory + used;
    used += (size + 15) / 16 * 16;
    return block;
}

void free(void *block) { (void)block; }

int main(void) {
    puts("ran");
    return 0;
}
