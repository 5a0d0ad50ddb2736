/* io_uring and AIO by system calls: reads into memory that was written out of RAM, and writes from it. Prints the same with and
 * without the library, unless io_uring is refused. With an argument, the program fails if the memory is still in RAM: then the
 * test would prove nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pagemap.h"

#define PAGE 4096ul
#define BYTES (1ul << 20)
#define FIXED (64ul << 10)
#define OTHER (28ul << 20)

static int ring, file, is_strict;
static aio_context_t context;
static struct io_uring_params how;
static char *submissions, *completions, *other;
static struct io_uring_sqe *entries;

static char *map(size_t bytes) {
    char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) exit(2);
    return pages;
}

static void *map_ring(off_t part, size_t bytes) {
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, part);
    if (start == MAP_FAILED) exit(3);
    return start;
}

static unsigned *word(char *start, unsigned offset) { return (unsigned *)(start + offset); }

/* Has the kernel carry out an entry, and returns the result. */
static int carry_out(struct io_uring_sqe entry) {
    unsigned *tail = word(submissions, how.sq_off.tail), *head = word(completions, how.cq_off.head);
    unsigned index = *tail & *word(submissions, how.sq_off.ring_mask);
    entries[index] = entry;
    word(submissions, how.sq_off.array)[index] = index;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    while (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
        if (errno != EINTR) return -errno;
    if (*head == __atomic_load_n(word(completions, how.cq_off.tail), __ATOMIC_ACQUIRE)) exit(4);
    struct io_uring_cqe *completion = (struct io_uring_cqe *)(completions + how.cq_off.cqes);
    int result = completion[*head & *word(completions, how.cq_off.ring_mask)].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}

/* All other memory leaves RAM. */
static void evict(char *start, size_t bytes) {
    static int round;
    round++;
    for (size_t at = 0; at < OTHER; at += PAGE) memset(other + at, (int)(at >> 12) * 7 + round, 64);
    if (is_strict && bytes / PAGE - kernel_pages(start, bytes) < bytes / PAGE / 2) exit(6);
}

/* The byte of the file at an offset, in the version of that number. */
static char byte(size_t at, int version) { return (at >> 6) * 3 + version; }

static long wrong_bytes(char *start, size_t bytes, int version) {
    long count = 0;
    for (size_t at = 0; at < bytes; at++) count += start[at] != byte(at, version);
    return count;
}

static void use(const char *name, unsigned flags, char *memory, int version) {
    struct io_uring_sqe entry = {.opcode = IORING_OP_READ, .flags = flags, .fd = file, .addr = (uintptr_t)memory, .len = BYTES};
    memset(memory, 1, BYTES);
    evict(memory, BYTES);
    int result = carry_out(entry);
    printf("%s read: %d, %ld bytes are wrong\n", name, result, wrong_bytes(memory, BYTES, version));
    for (size_t at = 0; at < BYTES; at++) memory[at] = byte(at, version + 1);
    evict(memory, BYTES);
    entry.opcode = IORING_OP_WRITE;
    result = carry_out(entry);
    static char copy[BYTES];
    ssize_t got = pread(file, copy, BYTES, 0);
    printf("%s write: %d, %zd, %ld bytes are wrong\n", name, result, got, wrong_bytes(copy, BYTES, version + 1));
}

/* The kernel uses the pages of a registered buffer, not its addresses. */
static void use_registered(char *memory, int version) {
    struct iovec buffer = {memory, FIXED};
    memset(memory, 1, FIXED);
    evict(memory, FIXED);
    long result = syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1);
    printf("register: %s\n", result ? strerror(errno) : "done");
    is_strict = 0;
    evict(memory, FIXED);
    struct io_uring_sqe entry = {.opcode = IORING_OP_READ_FIXED, .fd = file, .addr = (uintptr_t)memory, .len = FIXED};
    result = carry_out(entry);
    printf("read into a registered buffer: %ld, %ld bytes are wrong\n", result, wrong_bytes(memory, FIXED, version));
    evict(memory, FIXED);
    printf("later: %ld bytes are wrong\n", wrong_bytes(memory, FIXED, version));
}

/* Linux AIO. */
static void use_context(char *memory, int version) {
    struct iocb call = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = file, .aio_buf = (uintptr_t)memory, .aio_nbytes = BYTES};
    struct iocb *calls[] = {&call};
    struct io_event event = {0};
    memset(memory, 1, BYTES);
    evict(memory, BYTES);
    long submitted = syscall(SYS_io_submit, context, 1L, calls);
    long ended = submitted == 1 ? syscall(SYS_io_getevents, context, 1L, 1L, &event, NULL) : 0;
    printf("io_submit: %ld, %ld, %lld, %ld bytes are wrong\n", submitted, ended, (long long)event.res, wrong_bytes(memory, BYTES, version));
}

int main(int count, char **arguments) {
    is_strict = count > 1;
    if (syscall(SYS_io_setup, 1, &context)) printf("io_setup: %s\n", strerror(errno));
    ring = syscall(SYS_io_uring_setup, 8, &how);
    if (ring < 0) {
        printf("io_uring_setup: %s\n", strerror(errno));
        return 0;
    }
    submissions = map_ring(IORING_OFF_SQ_RING, how.sq_off.array + how.sq_entries * sizeof(unsigned));
    completions = map_ring(IORING_OFF_CQ_RING, how.cq_off.cqes + how.cq_entries * sizeof(struct io_uring_cqe));
    entries = map_ring(IORING_OFF_SQES, how.sq_entries * sizeof *entries);
    char *memory = map(BYTES);
    other = map(OTHER);
    file = memfd_create("file", MFD_CLOEXEC);
    for (size_t at = 0; at < BYTES; at++) memory[at] = byte(at, 0);
    if (file < 0 || write(file, memory, BYTES) != BYTES) return 7;

    if (context) use_context(memory, 0);
    use("an inline", 0, memory, 0);
    /* By a thread of the kernel. */
    use("an asynchronous", IOSQE_ASYNC, memory, 1);
    use_registered(memory, 2);
    return 0;
}
