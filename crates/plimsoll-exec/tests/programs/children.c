/* Children by each call that makes one, with arguments and stacks that were written out of RAM before. Prints their output and
 * their ends, which must be the same with and without the library. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "evict.h"

extern char **environ;
static char *data;

static void *map(size_t bytes) {
    char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) exit(2);
    return pages;
}

/* Bytes of the data that are wrong. */
static int wrong(void) {
    int count = 0;
    for (int at = 0; at < 1 << 20; at++) count += data[at] != (char)(at / 1000);
    return count;
}

static void ended(const char *name, pid_t child) {
    int status = -1;
    pid_t got = child > 0 ? waitpid(child, &status, 0) : -1;
    printf("%s: %d, status %x\n", name, got == child && child > 0, status);
    fflush(stdout);
}

/* Arguments on pages of their own. */
static char **arguments(const char *script) {
    char **list = map(4096), *text = map(8192);
    strcpy(text, "sh"), strcpy(text + 3, "-c"), strcpy(text + 4000, script);
    list[0] = text, list[1] = text + 3, list[2] = text + 4000;
    return list;
}

static char **environment(void) {
    char **list = map(4096 * 4), *text = map(4096);
    int count = 0;
    for (char **entry = environ; *entry && count < 1500; entry++) list[count++] = *entry;
    strcpy(text, "WORD=from the environment");
    list[count] = text;
    return list;
}

static int own_stack(void *unused) {
    (void)unused;
    char memory[30000];
    memset(memory, 3, sizeof memory);
    _exit(memory[29999] + wrong());
}

static void *fork_in_thread(void *unused) {
    evict();
    pid_t child = fork();
    if (child == 0) _exit(wrong() ? 99 : 11);
    ended("fork in a thread", child);
    return unused;
}

static void on_signal(int number) { (void)number; }

static volatile int is_over;
static void *nothing(void *unused) { return unused; }
static void *come_and_go(void *unused) {
    while (!is_over) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
    }
    return unused;
}

int main(void) {
    data = map(1 << 20);
    for (int at = 0; at < 1 << 20; at++) data[at] = at / 1000;
    char **list = arguments("echo executed, $WORD; exit 5"), **variables = environment();
    setvbuf(stdout, NULL, _IOLBF, 0);

    evict();
    pid_t child = fork();
    if (child == 0) _exit(wrong() ? 99 : 10);
    ended("fork", child);
    evict();
    child = fork();
    if (child == 0) execve("/bin/sh", list, variables), _exit(98);
    ended("fork and execve", child);
    evict();
    child = vfork();
    if (child == 0) execve("/bin/sh", list, variables), _exit(98);
    ended("vfork and execve", child);
    evict();
    child = vfork();
    if (child == 0) _exit(12);
    ended("vfork and _exit", child);
    evict();
    child = vfork();
    if (child == 0) execve("/no/such/program", list, variables), _exit(errno == ENOENT ? 13 : 98);
    ended("vfork and a failed execve", child);
    printf("%d bytes are wrong\n", wrong());

    pthread_t thread;
    pthread_create(&thread, NULL, fork_in_thread, NULL);
    pthread_join(thread, NULL);

    posix_spawn_file_actions_t *actions = map(4096);
    posix_spawnattr_t *attributes = map(4096);
    sigset_t *mask = map(4096), *defaults = map(4096);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return 2;
    posix_spawn_file_actions_init(actions);
    posix_spawn_file_actions_adddup2(actions, ends[1], 1);
    posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawnattr_init(attributes);
    sigemptyset(mask), sigaddset(mask, SIGUSR2), sigemptyset(defaults), sigaddset(defaults, SIGPIPE);
    posix_spawnattr_setsigmask(attributes, mask);
    posix_spawnattr_setsigdefault(attributes, defaults);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    pid_t *made = map(4096);
    char **signals = arguments("grep SigBlk /proc/self/status; read line || echo no line; echo $WORD");
    evict();
    int failed = posix_spawn(made, "/bin/sh", actions, attributes, signals, variables);
    close(ends[1]);
    char *line = map(4096);
    evict();
    for (ssize_t got; (got = read(ends[0], line, 4096)) > 0;) printf("%.*s", (int)got, line);
    close(ends[0]);
    ended("posix_spawn", failed ? -1 : *made);
    char **search = arguments("exit 6");
    evict();
    failed = posix_spawnp(made, "sh", NULL, NULL, search, environ);
    ended("posix_spawnp", failed ? -1 : *made);
    evict();
    printf("posix_spawn of no program: %d\n", posix_spawn(made, "/no/such", NULL, NULL, search, environ));
    evict();
    printf("system: %x\n", system("exit 7"));
    evict();
    FILE *output = popen("echo from a pipe", "r");
    evict();
    printf("popen: %s", fgets(line, 4096, output) ? line : "nothing\n");
    printf("pclose: %x\n", pclose(output));

    char *stack = map(256 << 10);
    evict();
    child = clone(own_stack, stack + (256 << 10), SIGCHLD, NULL);
    ended("clone with a stack", child);
    evict();
    child = clone(own_stack, stack + (256 << 10), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    ended("clone that shares memory", child);
    evict();
    child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(wrong() ? 99 : 14);
    ended("the system call clone", child);
    struct clone_args *how = map(4096);
    int *descriptor = map(4096);
    *how = (struct clone_args){.flags = CLONE_PIDFD, .pidfd = (uintptr_t)descriptor, .exit_signal = SIGCHLD};
    evict();
    child = syscall(SYS_clone3, how, sizeof *how);
    if (child == 0) _exit(wrong() ? 99 : 15);
    evict();
    siginfo_t *end = map(4096);
    printf("pidfd: %d\n", waitid(P_PIDFD, *descriptor, end, WEXITED | WNOWAIT) == 0 && end->si_pid == child && end->si_status == 15);
    ended("the system call clone3", child);
    close(*descriptor);

    int *numbers = map(8192), *of_child = numbers + 1024;
    int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *numbers = *of_child = 0;
    evict();
    child = syscall(SYS_clone, CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, 0, numbers, of_child, 0);
    if (child == 0) _exit(*of_child == getpid() && *numbers == 0 ? 16 : 99);
    printf("numbers: %d\n", *numbers == child && *of_child == 0);
    ended("clone with numbers", child);
    evict();
    child = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) usleep(200000), *numbers = 5, *shared = 6, _exit(wrong() ? 99 : 17);
    printf("the parent waited: %d, %d\n", *shared == 6, *numbers == 5);
    ended("clone that waits", child);
    evict();
    child = _Fork();
    if (child == 0) _exit(wrong() ? 99 : 18);
    ended("_Fork", child);
    struct sigaction handled = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, seen;
    sigaction(SIGUSR1, &handled, NULL), sigaction(SIGUSR2, &handled, NULL), sigaction(SIGBUS, &handled, NULL);
    evict();
    child = syscall(SYS_clone, SIGUSR1, 0, 0, 0, 0);
    if (child == 0) _exit(wrong() ? 99 : 19);
    int status = -1;
    printf("clone with another signal: %d, status %x\n", waitpid(child, &status, __WALL) == child, status);
    *how = (struct clone_args){.flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD};
    evict();
    child = syscall(SYS_clone3, how, sizeof *how);
    if (child == 0) {
        int defaults = 0;
        for (int at = 0; at < 3; at++) {
            sigaction((int[]){SIGUSR1, SIGUSR2, SIGBUS}[at], NULL, &seen);
            defaults = 2 * defaults + (seen.sa_handler == SIG_DFL);
        }
        evict();
        _exit(wrong() ? 99 : 20 + defaults);
    }
    ended("clone3 without handlers", child);
    sigaction(SIGUSR2, NULL, &seen);
    printf("the parent has them: %d\n", seen.sa_handler == on_signal);
    errno = 0;
    long made_by_nothing = syscall(SYS_clone3, NULL, sizeof *how);
    printf("clone3 of nothing: %ld, %d\n", made_by_nothing, errno == EFAULT);
    *how = (struct clone_args){.exit_signal = SIGUSR1};
    evict();
    child = syscall(SYS_clone3, how, sizeof *how);
    if (child == 0) _exit(wrong() ? 99 : 30);
    printf("clone3 with another signal: %d, status %x\n", waitpid(child, &status, __WALL) == child, status);

    /* Threads that come and go, while this one makes children. */
    pthread_create(&thread, NULL, come_and_go, NULL);
    int good = 0;
    for (int at = 0; at < 60; at++) {
        child = at % 2 ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : _Fork();
        if (child == 0) _exit(wrong() ? 99 : 0);
        good += waitpid(child, &status, 0) == child && status == 0;
    }
    is_over = 1;
    pthread_join(thread, NULL);
    printf("%d children beside threads\n", good);
    evict();
    printf("%d bytes are wrong\n", wrong());
    return 0;
}
