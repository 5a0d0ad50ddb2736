/* Stacks in the program's memory, which was written out of RAM before: of threads, of coroutines, of handlers. And handlers of
 * the program for the signals that the library uses. Prints lines that must be the same with and without the library. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define OTHER (28ul << 20)
#define STACK (256ul << 10)

static char *other;

static void *map(size_t bytes, int protection, int flags) {
    char *pages = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (pages == MAP_FAILED) exit(2);
    return pages;
}

static void evict(void) {
    static int round;
    round++;
    for (size_t at = 0; at < OTHER; at += 4096) memset(other + at, (int)(at >> 12) * 7 + round, 64);
}

static int deep(int depth) {
    volatile char bytes[3000];
    memset((char *)bytes, depth, sizeof bytes);
    if (depth == 0) return 0;
    int below = deep(depth - 1);
    return below + bytes[2999];
}

static void *on_a_stack(void *name) {
    int sum = deep(40);
    evict();
    sum += deep(40);
    printf("%s: %d\n", (char *)name, sum);
    return name;
}

static void thread(char *stack, const char *name) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    pthread_t made;
    evict();
    if (pthread_create(&made, &attributes, on_a_stack, (void *)name)) puts("no thread");
    else pthread_join(made, NULL);
}

static char of_program[2][STACK] __attribute__((aligned(4096)));
static pthread_barrier_t both;

static void *beside(void *name) {
    volatile char bytes[60000];
    memset((char *)bytes, *(char *)name, sizeof bytes);
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    long wrong = 0;
    for (size_t at = 0; at < sizeof bytes; at++) wrong += bytes[at] != *(char *)name;
    return (void *)wrong;
}

/* One set of attributes, for a stack of the program's data and then for one of malloc. */
static void reused(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_t threads[2];
    void *block = NULL, *wrong[2];
    if (posix_memalign(&block, 4096, STACK)) exit(2);
    pthread_barrier_init(&both, NULL, 3);
    pthread_attr_setstack(&attributes, of_program[0], STACK);
    if (pthread_create(&threads[0], &attributes, beside, "a")) exit(3);
    pthread_attr_setstack(&attributes, block, STACK);
    if (pthread_create(&threads[1], &attributes, beside, "b")) exit(3);
    pthread_barrier_wait(&both);
    evict();
    pthread_barrier_wait(&both);
    for (int at = 0; at < 2; at++) pthread_join(threads[at], &wrong[at]);
    printf("two threads by one set of attributes: %ld %ld\n", (long)wrong[0], (long)wrong[1]);
}

static ucontext_t outer, inner[3];

static void coroutine(int number) {
    for (int round = 0; round < 4; round++) {
        int sum = deep(30 + number);
        printf("coroutine %d, round %d: %d\n", number, round, sum);
        swapcontext(&inner[number], &outer);
    }
}

static void coroutines(char *(*make)(void), const char *name) {
    for (int at = 0; at < 3; at++) {
        getcontext(&inner[at]);
        inner[at].uc_stack.ss_sp = make();
        inner[at].uc_stack.ss_size = STACK;
        makecontext(&inner[at], (void (*)(void))coroutine, 1, at);
    }
    puts(name);
    for (int round = 0; round < 4; round++)
        for (int at = 0; at < 3; at++) {
            evict();
            swapcontext(&outer, &inner[at]);
        }
}

static char *mapped(void) { return map(STACK, PROT_READ | PROT_WRITE, 0); }
static char *of_malloc(void) { return memset(malloc(STACK), 1, STACK); }

/* More coroutines than pins, one after the other on new stacks, most of them side by side. */
static void many(void) {
    enum { MANY = 600, SMALL = 8 << 10 };
    char *stacks = map(MANY * 2 * SMALL, PROT_READ | PROT_WRITE, 0);
    for (int number = 0; number < MANY; number++) {
        getcontext(&inner[0]);
        inner[0].uc_stack.ss_sp = stacks + (number < 450 ? number : 2 * number - 450) * SMALL;
        inner[0].uc_stack.ss_size = SMALL;
        inner[0].uc_link = &outer;
        makecontext(&inner[0], (void (*)(void))deep, 1, 0);
        swapcontext(&outer, &inner[0]);
    }
    evict();
    puts("many coroutines");
}

static char *guarded;
static int faults;

static void on_fault(int number, siginfo_t *info, void *context) {
    int sum = deep(20);
    faults++;
    printf("signal %d, code %d, address %s, %d\n", number, info->si_code, (char *)info->si_addr == guarded + 5 ? "right" : "wrong", sum);
    mprotect(guarded, 4096, PROT_READ | PROT_WRITE);
}

static sigjmp_buf back;
static void on_bus(int number, siginfo_t *info, void *context) {
    printf("signal %d, code %d\n", number, info->si_code);
    siglongjmp(back, 1);
}

static void on_sys(int number, siginfo_t *info, void *context) {
    printf("signal %d, code %s\n", number, info->si_code == SI_USER || info->si_code == SI_TKILL ? "of a process" : "of the kernel");
}

static void handlers(void) {
    stack_t stack = {.ss_sp = mapped(), .ss_size = STACK};
    printf("sigaltstack: %d\n", sigaltstack(&stack, NULL));
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK}, before;
    sigaction(SIGSEGV, &action, NULL);
    guarded = map(4096, PROT_READ | PROT_WRITE, 0);
    guarded[5] = 1;
    for (int round = 0; round < 3; round++) {
        mprotect(guarded, 4096, round == 0 ? PROT_NONE : PROT_READ);
        evict();
        guarded[5] = round;
    }
    printf("%d faults, %d\n", faults, guarded[5]);

    action.sa_sigaction = on_bus;
    sigaction(SIGBUS, &action, &before);
    printf("before: %s\n", before.sa_handler == SIG_DFL ? "default" : "another");
    int file = memfd_create("short", MFD_CLOEXEC);
    if (ftruncate(file, 4096)) puts("ftruncate");
    volatile char *short_file = mmap(NULL, 8192, PROT_READ, MAP_SHARED, file, 0);
    evict();
    if (sigsetjmp(back, 1) == 0) printf("%d\n", short_file[4096]);
    sigaction(SIGBUS, NULL, &before);
    printf("its own: %d\n", before.sa_sigaction == on_bus);
    evict();

    action.sa_sigaction = on_sys;
    sigaction(SIGSYS, &action, &before);
    printf("before: %s\n", before.sa_handler == SIG_DFL ? "default" : "another");
    evict();
    raise(SIGSYS);
    kill(getpid(), SIGSYS);
    char *path = map(4096, PROT_READ | PROT_WRITE, 0);
    evict();
    printf("a call after it: %d\n", syscall(SYS_getcwd, path, 4096) > 0);
    struct sigaction ignored = {.sa_handler = SIG_IGN};
    sigaction(SIGBUS, &ignored, NULL);
    kill(getpid(), SIGBUS);
    evict();
    puts("ignored");
}

int main(void) {
    other = map(OTHER, PROT_READ | PROT_WRITE, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    thread(map(STACK, PROT_READ | PROT_WRITE, 0), "a thread on a mapping");
    thread(map(STACK, PROT_READ | PROT_WRITE, MAP_STACK), "a thread on MAP_STACK");
    void *block = NULL;
    if (posix_memalign(&block, 4096, STACK)) return 2;
    thread(block, "a thread on a block of malloc");
    coroutines(mapped, "coroutines on mappings");
    coroutines(of_malloc, "coroutines on blocks of malloc");
    reused();
    many();
    handlers();
    return 0;
}
