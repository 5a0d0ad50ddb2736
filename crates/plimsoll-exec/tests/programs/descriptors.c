/* Takes all descriptors up to its limit, forks there, and closes standard error before its end. Prints the same with and
 * without the library. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void close_error(void) {
    close(2);
}

int main(void) {
    atexit(close_error);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    char *memory = malloc(1 << 20);
    memset(memory, 7, 1 << 20);
    int taken = 0, last = -1, next;
    while ((next = dup(0)) >= 0) last = next, taken++;
    printf("limit %ld, %d descriptors up to %d, %s\n", (long)limit.rlim_cur, taken, last, strerror(errno));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        getrlimit(RLIMIT_NOFILE, &limit);
        memset(memory + 4096, 8, 4096);
        printf("child: limit %ld, memory %d %d\n", (long)limit.rlim_cur, memory[0], memory[4096]);
        exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("parent: %s, child %d, memory %d\n", child < 0 ? strerror(errno) : "forked", status, memory[4096]);
    return 0;
}
