/* What a program meets that does not expect the heap's helper thread. The one argument names the story; the program
   exits with 0 if it ends well, with 77 if the machine does not allow to tell it, and otherwise with a message and 1. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
enum { MIB = 1 << 20, FREED_MIB = 200, ROUNDS = 3000, MOST_THREADS = 64 };

static void fail(const char *message) {
    fprintf(stderr, "%s: errno %d (%s)\n", message, errno, strerror(errno));
    exit(1);
}

static void cannot_tell(const char *message) {
    perror(message);
    exit(77);
}

/* Allocates memory, writes to it and frees it. */
static void free_much(int mib) {
    static char *blocks[1024];
    for (int i = 0; i < mib * 4; i++) {
        blocks[i] = malloc(MIB / 4);
        if (blocks[i] == NULL)
            abort();
        for (int at = 0; at < MIB / 4; at += 4096)
            blocks[i][at] = 1;
    }
    for (int i = 0; i < mib * 4; i++)
        free(blocks[i]);
}

/* Takes a third of some blocks and then frees another: there is always memory that was free a moment ago, so that a
   helper goes on for as long as this is called. */
static void stay_active(void) {
    static char *blocks[72];
    static int third;
    for (int i = third; i < 72; i += 3) {
        blocks[i] = malloc(MIB / 4);
        if (blocks[i] == NULL)
            abort();
        for (int at = 0; at < MIB / 4; at += 4096)
            blocks[i][at] = 1;
    }
    third = (third + 1) % 3;
    /* Taken two calls ago. */
    for (int i = (third + 1) % 3; i < 72; i += 3) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

static size_t read_text(const char *path, char *text, size_t size) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, size - 1);
    if (file >= 0)
        close(file);
    text[length < 0 ? 0 : length] = 0;
    return length < 0 ? 0 : (size_t)length;
}

/* MiB of the program that are resident. */
static long resident(void) {
    char text[200];
    long total, pages;
    read_text("/proc/self/statm", text, sizeof text);
    if (sscanf(text, "%ld %ld", &total, &pages) != 2)
        abort();
    return pages * sysconf(_SC_PAGESIZE) / MIB;
}

/* The number of threads, as Python and others count them. */
static int count_of_threads(void) {
    char text[1000], *at;
    read_text("/proc/self/stat", text, sizeof text);
    at = strrchr(text, ')');
    for (int field = 2; field < 20; field++)
        at = strchr(at + 1, ' ');
    return atoi(at);
}

/* The threads of the program but the calling one; returns how many. Allocates nothing. */
static int others(int *threads) {
    static char entries[8192];
    int count = 0, self = syscall(SYS_gettid);
    int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long length;
    while ((length = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0)
        for (long at = 0; at < length;) {
            struct { unsigned long number, offset; unsigned short length; unsigned char type; char name[]; } *entry;
            entry = (void *)(entries + at);
            int thread = atoi(entry->name);
            if (thread != 0 && thread != self && count < MOST_THREADS)
                threads[count++] = thread;
            at += entry->length;
        }
    close(folder);
    return count;
}

/* Frees memory until there is a helper, and returns its number. `known` is a thread of the program. */
static int helper_beside(int known) {
    int threads[MOST_THREADS];
    for (int round = 0; round < ROUNDS; round++) {
        free_much(FREED_MIB);
        int count = others(threads);
        for (int i = 0; i < count; i++)
            if (threads[i] != known)
                return threads[i];
        usleep(1000);
    }
    fail("there is no helper");
    return 0;
}

/* A program of one thread joins a mount namespace, as container tools do. */
static void join_a_namespace(void) {
    int namespace = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (setns(namespace, CLONE_NEWNS) != 0)
        cannot_tell("setns before memory was freed");
    helper_beside(0);
    if (setns(namespace, CLONE_NEWNS) != 0)
        fail("setns beside the helper");
}

/* A mount that the program left can be unmounted: the helper stays at the root. */
static void leave_a_folder(void) {
    char link[100], path[100];
    if (chdir("/proc/self") != 0)
        cannot_tell("chdir");
    int helper = helper_beside(0);
    snprintf(path, sizeof path, "/proc/self/task/%d/cwd", helper);
    /* It goes there as soon as it runs. */
    for (int round = 0; round < ROUNDS; round++) {
        ssize_t length = readlink(path, link, sizeof link);
        if (length == 1 && link[0] == '/')
            return;
        if (length < 0)
            snprintf(path, sizeof path, "/proc/self/task/%d/cwd", helper_beside(0));
        usleep(1000);
    }
    fail("the helper keeps the folder");
}

/* A program of one thread has one thread after a fork: Python warns of others. */
static void fork_alone(void) {
    for (int round = 0; round < 5; round++) {
        helper_beside(0);
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        int threads = count_of_threads();
        if (child < 0 || waitpid(child, NULL, 0) != child)
            fail("fork");
        if (threads != 1)
            fail("there is a thread that the program does not know");
    }
}

/* A program that does nothing but fork after it freed memory gets the memory returned. */
static void fork_on(void) {
    helper_beside(0);
    for (int forks = 0; forks < 200; forks++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, NULL, 0) != child)
            fail("fork");
        if (resident() < 20)
            return;
    }
    fail("the memory is still resident");
}

/* A thread at the lowest priority, or a real-time one bound to a processor, frees memory. */
static int first_thread, policy;

static void *free_at_odds(void *unused) {
    struct sched_param parameters = {.sched_priority = policy == SCHED_OTHER ? 0 : 5};
    cpu_set_t all, one, of_helper;
    sched_getaffinity(first_thread, sizeof all, &all);
    CPU_ZERO(&one);
    for (int processor = 0; CPU_COUNT(&one) == 0; processor++)
        if (CPU_ISSET(processor, &all))
            CPU_SET(processor, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0 || setpriority(PRIO_PROCESS, 0, 7) != 0)
        cannot_tell("affinity and nice value");
    if (sched_setscheduler(0, policy, &parameters) != 0)
        cannot_tell("real-time policy");
    int helper = helper_beside(first_thread);
    /* It settles as soon as it runs. */
    for (int round = 0; round < ROUNDS; round++) {
        int found = sched_getscheduler(helper);
        errno = 0;
        int nice_value = getpriority(PRIO_PROCESS, helper);
        if (found < 0 || errno != 0 || sched_getaffinity(helper, sizeof of_helper, &of_helper) != 0)
            helper = helper_beside(first_thread);
        else if (found == SCHED_OTHER && nice_value == 0 && CPU_EQUAL(&of_helper, &all))
            return unused;
        usleep(1000);
    }
    fail("the helper is scheduled as the thread that freed memory");
    return unused;
}

static void schedule_by_the_first_thread(int policy_of_thread) {
    pthread_t thread;
    first_thread = getpid();
    policy = policy_of_thread;
    if (pthread_create(&thread, NULL, free_at_odds, NULL) != 0)
        fail("pthread_create");
    pthread_join(thread, NULL);
}

/* Whether a thread has the user root, or a capability. A thread that has ended has none. */
static int is_privileged(int thread) {
    char path[100], text[4000], *uid, *capabilities;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    if (read_text(path, text, sizeof text) == 0)
        return 0;
    uid = strstr(text, "\nUid:");
    capabilities = strstr(text, "\nCapPrm:");
    if (uid == NULL || capabilities == NULL)
        abort();
    return strtol(uid + 5, NULL, 10) == 0 || strtoull(capabilities + 8, NULL, 16) != 0;
}

static void drop_user(void) {
    if (getuid() != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)
        cannot_tell("setresuid");
}

static void drop_capabilities(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    if (syscall(SYS_capset, &header, none) != 0)
        fail("capset");
}

/* A server starts as root, drops that, and goes on. No thread may have more than it from then on. */
static void drop_privileges(void (*drop)(void), int (*has_more)(int)) {
    int threads[MOST_THREADS], privileged = 1;
    for (int call = 0; call < 3; call++)
        stay_active();
    helper_beside(0);
    drop();
    for (int round = 0; privileged && round < ROUNDS; round++) {
        stay_active();
        privileged = 0;
        for (int count = others(threads); count > 0; count--)
            privileged |= has_more(threads[count - 1]);
        usleep(2000);
    }
    if (privileged)
        fail("the helper keeps privileges");
}

static int has_capabilities(int thread) {
    char path[100], text[4000], *capabilities;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    if (read_text(path, text, sizeof text) == 0)
        return 0;
    capabilities = strstr(text, "\nCapPrm:");
    return capabilities != NULL && strtoull(capabilities + 8, NULL, 16) != 0;
}

/* A server frees what it needed to start, drops root and waits: its memory returns all the same. */
static void drop_user_and_sleep(void) {
    helper_beside(0);
    drop_user();
    for (int round = 0; round < ROUNDS; round++) {
        if (resident() < 20)
            return;
        usleep(10000);
    }
    fail("the memory is still resident");
}

/* libpsx sends a signal to each thread, and waits until its handler ran there or the thread is gone. */
static volatile int answered[MOST_THREADS], answers;

static void answer(int signal) {
    (void)signal;
    answered[__atomic_fetch_add(&answers, 1, __ATOMIC_RELAXED) % MOST_THREADS] = syscall(SYS_gettid);
}

static void signal_each_thread(void) {
    struct sigaction action = {.sa_handler = answer};
    int threads[MOST_THREADS];
    if (sigaction(SIGSYS, &action, NULL) != 0)
        fail("sigaction");
    for (int attempt = 0; attempt < 10; attempt++) {
        int helper = helper_beside(0), waits = 1;
        if (syscall(SYS_tkill, helper, SIGSYS) != 0)
            continue;
        for (int round = 0; waits && round < ROUNDS; round++) {
            sched_yield();
            waits = 0;
            for (int count = others(threads); count > 0; count--)
                waits |= threads[count - 1] == helper;
            for (int i = 0; i < MOST_THREADS; i++)
                if (waits && answered[i] == helper)
                    return;
            usleep(1000);
        }
        /* It ended for the signal, not because it had done its work: the memory is there. */
        if (!waits && resident() > FREED_MIB / 2)
            return;
    }
    fail("the helper does not answer the signal");
}

int main(int count, char **words) {
    const char *story = count == 2 ? words[1] : "";
    alarm(240);
    if (strcmp(story, "namespace") == 0)
        join_a_namespace();
    else if (strcmp(story, "folder") == 0)
        leave_a_folder();
    else if (strcmp(story, "fork") == 0)
        fork_alone();
    else if (strcmp(story, "forks") == 0)
        fork_on();
    else if (strcmp(story, "nice") == 0)
        schedule_by_the_first_thread(SCHED_OTHER);
    else if (strcmp(story, "real-time") == 0)
        schedule_by_the_first_thread(SCHED_FIFO);
    else if (strcmp(story, "user") == 0)
        drop_privileges(drop_user, is_privileged);
    else if (strcmp(story, "capabilities") == 0)
        drop_privileges(drop_capabilities, has_capabilities);
    else if (strcmp(story, "sleep") == 0)
        drop_user_and_sleep();
    else if (strcmp(story, "signal") == 0)
        signal_each_thread();
    else
        fail("no such story");
    return 0;
}
