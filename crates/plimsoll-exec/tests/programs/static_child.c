/* A statically linked program, which inherits the filter of its parent. Without an argument, prints the results of calls, which
 * are the same with and without the filter. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE (24ul << 20)

static void *add(void *number) {
    static int sum;
    return (void *)(intptr_t)__atomic_add_fetch(&sum, (int)(intptr_t)number, __ATOMIC_SEQ_CST);
}

/* The filter of this process, and its answer to io_uring and AIO. */
static int show_filter(void) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "Seccomp:", 8) || !strncmp(line, "NoNewPrivs:", 11)) fputs(line, stdout);
    syscall(SYS_io_uring_setup, 0, NULL);
    printf("io_uring_setup: %s\n", strerror(errno));
    syscall(SYS_io_setup, 0, NULL);
    printf("io_setup: %s\n", strerror(errno));
    return 0;
}

/* A number that is an address of the arena. */
static int seek_far(void) {
    off_t far = 0x100000000005;
    int file = memfd_create("far", 0);
    printf("%d\n", lseek(file, far, SEEK_SET) == far);
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "filter")) return show_filter();
    if (count > 1 && !strcmp(arguments[1], "far")) return seek_far();
    /* A dynamic program loads the library again. */
    if (count > 1) return system("grep -q libplimsoll_exec.so /proc/self/maps") != 0;
    char *memory = malloc(LARGE);
    memset(memory, 3, LARGE);
    memory = realloc(memory, 2 * LARGE);
    long sum = 0;
    for (size_t at = 0; at < LARGE; at++) sum += memory[at];
    printf("large block: %ld\n", sum);
    free(memory);
    char *blocks[2000];
    for (int at = 0; at < 2000; at++) blocks[at] = strdup("block");
    for (int at = 0; at < 2000; at++) sum += blocks[at][4];
    printf("blocks: %ld\n", sum);

    pthread_t threads[8];
    for (intptr_t at = 0; at < 8; at++) pthread_create(&threads[at], NULL, add, (void *)at);
    for (int at = 0; at < 8; at++) pthread_join(threads[at], NULL);
    printf("threads: %ld\n", (long)(intptr_t)add(0));

    int file = memfd_create("file", 0), status = -1;
    char text[] = "text", read_text[5] = "";
    ssize_t written = pwrite(file, text, 5, 1 << 20), got = pread(file, read_text, 5, 1 << 20);
    char *mapped = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    printf("file: %zd, %zd, %s, %s\n", written, got, read_text, mapped + (1 << 20));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(mapped[1 << 20]);
    waitpid(child, &status, 0);
    printf("child: %x\n", status);
    fflush(stdout);
    /* A dynamic program. */
    FILE *shell = popen("echo from the shell", "r");
    char line[64] = "nothing\n";
    printf("shell: %s", fgets(line, sizeof line, shell) ? line : "nothing\n");
    printf("end of the shell: %x\n", pclose(shell));
    return 0;
}
