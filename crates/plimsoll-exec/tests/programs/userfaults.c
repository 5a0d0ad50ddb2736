/* A userfaultfd of the program's own. A thread of the program resolves the faults of three kinds of memory; the pager has
 * registered the fourth kind. Prints a line for each: the result of the registration, and the state of the memory after other
 * memory of more than the budget was used. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pagemap.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define PAGE 4096ul
#define OTHER (28ul << 20)

static int faults;
static volatile int resolved;
static char *other;
/* The kernel reads it in UFFDIO_COPY: it is not in memory of the pager. */
static char source[PAGE] __attribute__((aligned(4096)));

static char *map(size_t bytes, int flags) {
    char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) exit(2);
    return pages;
}

/* Fills each page with the low byte of its number. */
static void *resolve(void *unused) {
    struct uffd_msg message;
    while (read(faults, &message, sizeof message) == sizeof message) {
        uintptr_t page = message.arg.pagefault.address & ~(PAGE - 1);
        memset(source, page >> 12, PAGE);
        struct uffdio_copy copy = {.dst = page, .src = (uintptr_t)source, .len = PAGE};
        /* The thread that waits goes on before the call returns. */
        resolved++;
        if (ioctl(faults, UFFDIO_COPY, &copy)) _exit(6);
    }
    return unused;
}

static int register_missing(char *start, size_t bytes) {
    struct uffdio_register range = {.range = {(uintptr_t)start, bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    return ioctl(faults, UFFDIO_REGISTER, &range) ? errno : 0;
}

static long wrong_bytes(char *start, size_t bytes) {
    long count = 0;
    for (size_t at = 0; at < bytes; at++) count += start[at] != (char)((uintptr_t)(start + at) >> 12);
    return count;
}

static void test(const char *name, char *start, size_t bytes) {
    int error = register_missing(start, bytes);
    if (error) {
        printf("%s: %s\n", name, strerror(error));
        return;
    }
    resolved = 0;
    long wrong = wrong_bytes(start, bytes);
    for (size_t at = 0; at < OTHER; at += PAGE) memset(other + at, at >> 12, 64);
    long resident = kernel_pages(start, bytes);
    wrong += wrong_bytes(start, bytes);
    printf("%s: %d faults, %ld bytes are wrong, %ld of %zu pages\n", name, resolved, wrong, resident, bytes / PAGE);
}

int main(void) {
    faults = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) return 4;
    pthread_t thread;
    if (pthread_create(&thread, NULL, resolve, NULL)) return 5;

    char *large = map(24ul << 20, MAP_PRIVATE), *private = map(64 << 10, MAP_PRIVATE);
    other = map(OTHER, MAP_PRIVATE);
    test("memory of the pager in the budget", private, 64 << 10);
    test("shared memory", map(64 << 10, MAP_SHARED), 64 << 10);
    test("a small mapping", map(16 << 10, MAP_PRIVATE), 16 << 10);
    memset(large, 1, 24ul << 20);
    int error = register_missing(large, 24ul << 20);
    printf("memory that the pager has registered: %s\n", error ? strerror(error) : "registered");
    return 0;
}
