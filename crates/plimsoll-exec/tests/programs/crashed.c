/* Fills memory twice its budget, each page with words of its own address, prints the first address, and crashes. With an
 * argument, a forked child crashes, and this process exits with 0 if the child did. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define BYTES (32ul << 20)

int main(int count, char **arguments) {
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 2;
    for (char *page = memory; page < memory + BYTES; page += PAGE)
        for (size_t at = 0; at < PAGE; at += sizeof(uintptr_t)) *(uintptr_t *)(page + at) = (uintptr_t)page;
    printf("%zu\n", (size_t)memory);
    fflush(stdout);
    if (count > 1) {
        pid_t child = fork();
        if (child < 0) return 3;
        if (child > 0) {
            int status = 0;
            if (waitpid(child, &status, 0) != child) return 4;
            return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? 0 : 5;
        }
        /* If the page is out of RAM, the child's own pager restores it. */
        if (*(volatile uintptr_t *)memory != (uintptr_t)memory) _exit(6);
    }
    abort();
}
