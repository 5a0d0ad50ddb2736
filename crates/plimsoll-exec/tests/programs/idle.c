/* Frees 20 MiB in small blocks and sleeps, in the parent and in a child of a fork. Prints whether the memory left RAM. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 200000
#define BYTES 100

static void *blocks[COUNT];

static long resident_kib(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2) exit(1);
    fclose(file);
    return resident * 4;
}

static void free_and_sleep(const char *name) {
    for (int i = 0; i < COUNT; i++) blocks[i] = memset(malloc(BYTES), i, BYTES);
    long before = resident_kib();
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    int looks = 0;
    while (looks++ < 100 && before - resident_kib() < 15 << 10) usleep(100000);
    printf("%s: %s\n", name, looks <= 100 ? "returned" : "kept");
    fflush(stdout);
}

int main(void) {
    free_and_sleep("parent");
    if (!fork()) {
        free_and_sleep("child");
        _exit(0);
    }
    wait(0);
    return 0;
}
