/* Transfers of bytes with buffers of the program, of each function, size and alignment, with memory that leaves RAM meanwhile.
 * Prints sums of the bytes, results and errors. With `functions`, it makes 10,000 transfers by functions of pages that are
 * present; with `direct`, 5,000 by system calls of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);

#define MEMORY (40ul << 20)

static char *memory;
static uint64_t sum = 14695981039346656037ul;
static sigjmp_buf place;
static volatile sig_atomic_t leaves;

static void add(const void *bytes, size_t count) {
    for (size_t at = 0; at < count; at++) sum = (sum ^ ((const unsigned char *)bytes)[at]) * 1099511628211ul;
}

static void note(const char *name, ssize_t result, const void *bytes) {
    int error = result < 0 ? errno : 0;
    add(name, strlen(name));
    add(&result, sizeof result);
    add(&error, sizeof error);
    if (result > 0 && bytes) add(bytes, result);
}

static void show(const char *part) { printf("%s: %016lx\n", part, sum); }

static void on_alarm(int signal) {
    (void)signal;
    if (leaves) siglongjmp(place, 1);
}

static char *map(size_t bytes) {
    char *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) exit(2);
    return mapped;
}

static int open_file(int flags) {
    char name[] = "/var/tmp/transfers-XXXXXX";
    int file = mkstemp(name);
    if (file < 0) exit(2);
    int other = open(name, O_RDWR | flags);
    unlink(name);
    if (other < 0) return file;
    close(file);
    return other;
}

/* The address of byte `at` of the memory, most of which is absent. */
static char *absent(size_t at) { return memory + at % (MEMORY - (1 << 17)); }

static void of_files(void) {
    static const size_t sizes[] = {0, 1, 511, 512, 513, 4095, 4096, 4097, 4352, 4353, 8192, 70000};
    int file = open_file(0);
    off_t end = 0;
    for (int round = 0; round < 12; round++)
        for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
            size_t bytes = sizes[size], at = (round * 12 + size) * 277777 + (round % 3) * 512;
            note("write", write(file, absent(at), bytes), NULL);
            note("pwrite", pwrite(file, absent(at + 3333333), bytes, end), NULL);
            note("pwrite64", pwrite64(file, absent(at + 4444444), bytes / 2, end), NULL);
            char *target = absent(at + 1234567);
            note("pread", pread(file, target, bytes, end), target);
            note("pread64", pread64(file, target + 1, bytes, end / 2), target + 1);
            note("__pread_chk", __pread_chk(file, target + 7, bytes, end, bytes), target + 7);
            note("__pread64_chk", __pread64_chk(file, target + 9, bytes, end, 1 << 20), target + 9);
            lseek(file, end, SEEK_SET);
            note("read", read(file, target, bytes + 50), target);
            note("__read_chk", __read_chk(file, target, 10, 10), target);
            end += bytes;
            lseek(file, end, SEEK_SET);
        }
    show("files");
    close(file);
    int direct = open_file(O_DIRECT);
    for (int round = 0; round < 20; round++) {
        char *page = absent(round * 1888888ul) + 4095;
        page -= (uintptr_t)page % 4096;
        note("direct write", pwrite(direct, page, 4096, round * 4096), NULL);
        memset(page, 1, 4096);
        note("direct read", pread(direct, page, 4096, round * 4096), page);
    }
    show("direct");
    close(direct);
}

static void of_sockets(void) {
    int stream[2], datagrams[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, stream) || socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams)) exit(2);
    struct sockaddr_un address;
    socklen_t length;
    for (int round = 0; round < 40; round++) {
        size_t at = round * 917111, bytes = 1 + round * 113 % 5000;
        char *target = absent(at + 7654321);
        note("send", send(stream[0], absent(at), bytes, 0), NULL);
        note("peek", recv(stream[1], target, bytes, MSG_PEEK), target);
        note("recv", recv(stream[1], target, bytes, MSG_WAITALL), target);
        note("sendto", sendto(stream[0], absent(at + 99), bytes, 0, NULL, 0), NULL);
        note("__recv_chk", __recv_chk(stream[1], target, bytes, bytes, 0), target);
        note("empty", recv(stream[1], target, bytes, MSG_DONTWAIT), NULL);
        note("datagram", send(datagrams[0], absent(at + 500), bytes, 0), NULL);
        note("cut", recv(datagrams[1], target, bytes / 2, 0), target);
        note("datagram", write(datagrams[0], absent(at + 501), bytes), NULL);
        note("length", recv(datagrams[1], target, 1, MSG_TRUNC | MSG_PEEK), NULL);
        /* The address of the sender is in the memory too. */
        struct sockaddr_un *from = (struct sockaddr_un *)absent(at + 3000000);
        socklen_t *room = (socklen_t *)absent(at + 5000000);
        from = (struct sockaddr_un *)((uintptr_t)from & ~7ul);
        room = (socklen_t *)((uintptr_t)room & ~7ul);
        *room = sizeof *from;
        note("recvfrom", recvfrom(datagrams[1], target, bytes, 0, (struct sockaddr *)from, room), target);
        add(room, sizeof *room);
        length = sizeof address;
        note("datagram", send(datagrams[0], absent(at + 502), bytes, 0), NULL);
        note("__recvfrom_chk",
             __recvfrom_chk(datagrams[1], target, bytes, bytes, 0, (struct sockaddr *)&address, &length), target);
    }
    show("sockets");
}

static void of_errors(void) {
    /* Shorter mappings are the kernel's. */
    char *pages = map(1 << 16);
    int file = open_file(0), ends[2];
    if (pipe(ends)) exit(2);
    note("file", read(-1, absent(1), 10), NULL);
    note("file", write(1000, absent(1), 10), NULL);
    note("seek", pread(ends[0], absent(1), 10, 0), NULL);
    note("offset", pwrite(file, absent(1), 10, -5), NULL);
    munmap(pages + 4096, 4096);
    note("unmapped", write(file, pages + 4096, 10), NULL);
    note("unmapped", pwrite(file, pages + 4096 + 100, 1000, 0), NULL);
    if (write(file, absent(1), 100) != 100) exit(2);
    note("unmapped", pread(file, pages + 4096, 10, 0), NULL);
    mprotect(pages + 8192, 4096, PROT_NONE);
    note("protected", write(ends[1], pages + 8192, 10), NULL);
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    note("closed", write(ends[1], absent(1), 10), NULL);
    show("errors");
    close(ends[1]);
    close(file);
}

static void of_signals(void) {
    int ends[2];
    if (pipe(ends)) exit(2);
    char *target = absent(8888888);
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval soon = {.it_value = {0, 20000}, .it_interval = {0, 20000}}, never = {0};
    setitimer(ITIMER_REAL, &soon, NULL);
    note("interrupted", read(ends[0], target, 100), NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    /* A handler leaves the call: more often than the pager has pins. */
    soon.it_value.tv_usec = soon.it_interval.tv_usec = 2000;
    leaves = 1;
    for (volatile int round = 0; round < 400; round++)
        if (!sigsetjmp(place, 1)) {
            target = absent(round * 777777ul);
            setitimer(ITIMER_REAL, &soon, NULL);
            if (read(ends[0], target, 100) != -1) exit(3);
        }
    setitimer(ITIMER_REAL, &never, NULL);
    leaves = 0;
    show("signals");
}

static void *transfer(void *file) {
    char *target = absent(5555555);
    for (;;) pread(*(int *)file, target, 10, 0);
}

static void of_cancellation(void) {
    int file = open_file(0);
    pthread_t thread;
    void *result;
    signal(SIGALRM, SIG_DFL);
    alarm(60);
    for (int round = 0; round < 20; round++) {
        if (pthread_create(&thread, NULL, transfer, &file)) exit(2);
        usleep(2000);
        note("cancel", pthread_cancel(thread), NULL);
        note("join", pthread_join(thread, &result), NULL);
        note("result", result == PTHREAD_CANCELED, NULL);
    }
    alarm(0);
    show("cancellation");
}

int main(int count, char **arguments) {
    if (count > 1) {
        int file = open_file(0), is_direct = arguments[1][0] == 'd';
        char *page = map(1 << 16) + 24;
        for (int round = 0; round < 5000; round++) {
            page[round % 4096] = (char)round;
            ssize_t written = is_direct ? syscall(SYS_pwrite64, file, page, 4096, round % 16 * 4096)
                                        : pwrite(file, page, 4096, round % 16 * 4096);
            if (written != 4096) return 4;
            if (!is_direct && pread(file, page, 4096, round % 16 * 4096) != 4096) return 5;
        }
        return 0;
    }
    memory = map(MEMORY);
    for (size_t at = 0; at < MEMORY; at += 8) *(uint64_t *)(memory + at) = at * 0x9e3779b97f4a7c15ul >> 7 & 0x0f0f0f0f0f0f0f0ful;
    of_files();
    of_sockets();
    of_errors();
    of_signals();
    of_cancellation();
    return 0;
}
