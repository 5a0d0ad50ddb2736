// An allocator of the program's own, in its executable, with one lock that a fork holds: as jemalloc in rustc.
// A thread that allocates in a forked child before the child's handlers waits for the fork.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AREA = 96 << 20, BLOCK = 4096, BLOCKS = 6144, FORKS = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *area;
static size_t used;
static unsigned long calls;

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

void *memalign(size_t alignment, size_t bytes) {
    void *block = NULL;
    pthread_mutex_lock(&lock);
    if (!area)
        area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // The size of a block precedes it.
    size_t start = (used + 16 + alignment - 1) & ~(alignment - 1);
    if (area != MAP_FAILED && start + bytes <= AREA) {
        block = area + start;
        memcpy((char *)block - 16, &bytes, sizeof bytes);
        used = start + bytes;
        calls++;
    }
    pthread_mutex_unlock(&lock);
    if (!block)
        errno = ENOMEM;
    return block;
}

void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
void *malloc(size_t bytes) { return memalign(16, bytes); }
// The area is new: its bytes are zero.
void *calloc(size_t count, size_t bytes) { return malloc(count * bytes); }
void free(void *block) { (void)block; }

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    *block = memalign(alignment < 16 ? 16 : alignment, bytes);
    return *block ? 0 : ENOMEM;
}

void *realloc(void *former, size_t bytes) {
    size_t old = 0;
    void *block = malloc(bytes);
    if (former && block) {
        memcpy(&old, (char *)former - 16, sizeof old);
        memcpy(block, former, old < bytes ? old : bytes);
    }
    return block;
}

static uint64_t *blocks[BLOCKS];

static int wrong(void) {
    int count = 0;
    for (int i = 0; i < BLOCKS; i++)
        count += blocks[i][0] != (uint64_t)i || blocks[i][BLOCK / 8 - 1] != ~(uint64_t)i;
    return count;
}

static void *allocate(void *unused) {
    char *volatile block = malloc(100);
    memset(block, 1, 100);
    return unused;
}

// Ends the program, and a child that waits in its fork.
static void give_up(int unused) { kill(0, SIGKILL); }

int main(void) {
    setpgid(0, 0);
    signal(SIGALRM, give_up);
    alarm(60);
    pthread_atfork(before_fork, after_fork, after_fork);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK);
        blocks[i][0] = i;
        blocks[i][BLOCK / 8 - 1] = ~(uint64_t)i;
    }
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, allocate, NULL) || pthread_join(thread, NULL))
                _exit(2);
            _exit(wrong() != 0);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status) {
            printf("child %d: status %x\n", i, status);
            return 1;
        }
    }
    printf("%d children, %d blocks are wrong\n", FORKS, wrong());
    return calls < BLOCKS;
}
