/* Memory that a system call of another thread uses is dropped, unmapped and mapped anew. Prints a line for each call, which
 * must be the same with and without the library. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES (256ul << 10)
#define RW (PROT_READ | PROT_WRITE)
#define AN (MAP_PRIVATE | MAP_ANONYMOUS)

static int ends[2];
static char *memory;
static volatile pid_t reader;

/* Waits in read(2) for bytes to half of the memory. */
static void *wait_for_bytes(void *unused) {
    reader = gettid();
    ssize_t got = read(ends[0], memory + BYTES / 4, BYTES / 2);
    printf("read %zd %s\n", got, got < 0 ? strerror(errno) : "");
    fflush(stdout);
    return unused;
}

/* Until the thread sleeps in the kernel. */
static void wait_until_it_waits(void) {
    char name[64], line[256];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", reader);
    for (int quiet = 0; quiet < 5; usleep(10000)) {
        FILE *file = fopen(name, "r");
        char state = file && fgets(line, sizeof line, file) ? strrchr(line, ')')[2] : '?';
        if (file) fclose(file);
        quiet = state == 'S' ? quiet + 1 : 0;
    }
}

static size_t others(int byte, size_t from, size_t to) {
    size_t count = 0;
    for (size_t i = from; i < to; i++) count += memory[i] != byte;
    return count;
}

static int drop(void) { return madvise(memory, BYTES, MADV_DONTNEED); }
static int drop_read_only(void) {
    return mprotect(memory, BYTES, PROT_READ) || madvise(memory, BYTES, MADV_DONTNEED) || mprotect(memory, BYTES, RW);
}
static int unmap(void) { return munmap(memory, BYTES); }
static int unmap_a_part(void) { return munmap(memory + BYTES / 2, BYTES / 2); }
static int replace(void) { return mmap(memory, BYTES, RW, AN | MAP_FIXED, -1, 0) == memory ? 0 : -1; }
static int unmap_and_map(void) {
    return munmap(memory, BYTES) || mmap(memory, BYTES, RW, AN | MAP_FIXED, -1, 0) != memory;
}
static int move_away(void) {
    char *moved = mremap(memory, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) return -1;
    size_t wrong = 0;
    for (size_t i = 0; i < BYTES; i++) wrong += moved[i] != 7;
    munmap(moved, 2 * BYTES);
    return wrong != 0;
}

static void test(const char *name, int (*change)(void), int is_mapped_after) {
    memory = mmap(0, 2 * BYTES, RW, AN, -1, 0);
    memset(memory, 7, 2 * BYTES);
    if (pipe(ends)) puts("pipe");
    pthread_t thread;
    reader = 0;
    pthread_create(&thread, 0, wait_for_bytes, 0);
    while (!reader) usleep(1000);
    wait_until_it_waits();
    errno = 0;
    int result = change();
    printf("%s %d %s\n", name, result, result ? strerror(errno) : "");
    fflush(stdout);
    if (is_mapped_after) printf("%zu bytes are not zero\n", others(0, 0, BYTES));
    char bytes[5000];
    memset(bytes, 9, sizeof bytes);
    if (write(ends[1], bytes, sizeof bytes) != sizeof bytes) puts("write");
    pthread_join(thread, 0);
    if (is_mapped_after) {
        printf("%zu bytes are not those of the pipe\n", others(9, BYTES / 4, BYTES / 4 + 5000));
        printf("%zu bytes are not zero\n", others(0, 0, BYTES / 4) + others(0, BYTES / 4 + 5000, BYTES));
    }
    munmap(memory, 2 * BYTES);
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    test("drop", drop, 1);
    test("drop read-only", drop_read_only, 1);
    test("unmap", unmap, 0);
    test("unmap a part", unmap_a_part, 0);
    test("replace", replace, 1);
    test("unmap and map", unmap_and_map, 1);
    test("move away", move_away, 0);
    return 0;
}
