/* A program that traces a child of its own, with structures in memory that was written out of RAM, and with a pointer to such
 * memory as a value. Prints the same with and without the library. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "evict.h"

#define PAGE 4096ul

static void *volatile pointer;

static void *map(size_t bytes) {
    char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) exit(2);
    return pages;
}

static void result(const char *name, long value) {
    printf("%s: %ld %s\n", name, value, value < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static void count_wrong(const long *registers, pid_t child) {
    int wrong = 0;
    for (size_t at = 0; at < sizeof(struct user_regs_struct) / sizeof(long); at++)
        wrong += registers[at] != ptrace(PTRACE_PEEKUSER, child, at * sizeof(long), NULL);
    printf("%d registers are wrong\n", wrong);
}

/* Waits until the child stops by a signal or ends. Passes on other signals, such as those of its pager. */
static void wait_for(pid_t child, int signal, int *status) {
    while (waitpid(child, status, 0) == child && WIFSTOPPED(*status) && WSTOPSIG(*status) != signal)
        ptrace(PTRACE_CONT, child, NULL, WSTOPSIG(*status));
}

int main(void) {
    char *memory = map(64 << 10);
    memset(memory, 1, 64 << 10);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        _exit(pointer == memory + 5 && memory[5] == 1 ? 7 : 8);
    }
    int status;
    wait_for(child, SIGSTOP, &status);
    printf("stopped: %x\n", status);
    result("options", ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL));

    evict();
    result("write of a pointer", ptrace(PTRACE_POKEDATA, child, &pointer, memory + 5));
    errno = 0;
    long word = ptrace(PTRACE_PEEKDATA, child, &pointer, NULL);
    printf("it is the pointer: %d\n", word == (long)(memory + 5) && errno == 0);

    /* Across the end of a page, and on one page. */
    long *places[] = {(long *)(memory + PAGE - 96), (long *)(memory + 2 * PAGE)};
    for (int place = 0; place < 2; place++) {
        long *registers = places[place];
        evict();
        result("read of registers", ptrace(PTRACE_GETREGS, child, NULL, registers));
        count_wrong(registers, child);
        evict();
        result("write of registers", ptrace(PTRACE_SETREGS, child, NULL, registers));
    }

    /* The vector that names the buffer is in such memory too. The first buffer crosses the end of a page. The second one is the
     * end of the memory, and its vector states more bytes. */
    struct iovec *vector = (struct iovec *)(memory + 9 * PAGE - sizeof(long));
    struct iovec buffers[] = {{memory + 11 * PAGE - 96, 512}, {memory + 16 * PAGE - sizeof(struct user_regs_struct), PAGE}};
    for (int number = 0; number < 2; number++) {
        *vector = buffers[number];
        evict();
        result("read of a set of registers", ptrace(PTRACE_GETREGSET, child, (void *)NT_PRSTATUS, vector));
        printf("%zu bytes\n", vector->iov_len);
        count_wrong(buffers[number].iov_base, child);
        evict();
        result("write of a set of registers", ptrace(PTRACE_SETREGSET, child, (void *)NT_PRSTATUS, vector));
    }
    unsigned long *base = (unsigned long *)(memory + 13 * PAGE);
    evict();
    result("read of a base", ptrace(PTRACE_ARCH_PRCTL, child, base, (void *)ARCH_GET_FS));
    long fs_base = ptrace(PTRACE_PEEKUSER, child, offsetof(struct user_regs_struct, fs_base), NULL);
    printf("it is that of the registers: %d\n", *base == (unsigned long)fs_base);
    siginfo_t *info = (siginfo_t *)(memory + 4 * PAGE - 64);
    evict();
    result("read of the signal", ptrace(PTRACE_GETSIGINFO, child, NULL, info));
    printf("it is SIGSTOP: %d\n", info->si_signo == SIGSTOP);
    result("continuation", ptrace(PTRACE_CONT, child, NULL, NULL));
    wait_for(child, 0, &status);
    printf("ended: %x\n", status);
    return 0;
}
