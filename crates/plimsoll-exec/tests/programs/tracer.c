/* A debugger of traced.c: runs a command, traces all of its threads, and passes all of their signals on. For each SIGUSR2, it
 * reads a word of the program in another way: the program's address of the word is the value of the signal, and the word is
 * this address. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t program;
static volatile int is_read;
static volatile pid_t reader_thread;

static const char *outcome(uintptr_t word, uintptr_t address) {
    return word == address ? "the word" : errno ? strerror(errno) : "another word";
}

static const char *read_process(uintptr_t address) {
    uintptr_t word = 0;
    struct iovec own = {&word, sizeof word}, its = {(void *)address, sizeof word};
    errno = 0;
    process_vm_readv(program, &own, 1, &its, 1, 0);
    return outcome(word, address);
}

static const char *read_file(uintptr_t address) {
    char name[64];
    uintptr_t word = 0;
    snprintf(name, sizeof name, "/proc/%d/mem", program);
    int file = open(name, O_RDONLY | O_CLOEXEC);
    errno = 0;
    pread(file, &word, sizeof word, address);
    const char *text = outcome(word, address);
    close(file);
    return text;
}

static const char *peek(pid_t thread, uintptr_t address) {
    errno = 0;
    uintptr_t word = ptrace(PTRACE_PEEKDATA, thread, address, NULL);
    return outcome(word, address);
}

static void *read_in_thread(void *address) {
    reader_thread = syscall(SYS_gettid);
    const char *text = read_process((uintptr_t)address);
    is_read = 1;
    return (void *)text;
}

/* Goes on with a thread that stopped: passes on the signal that it is about to get. */
static void resume(pid_t thread, int status) {
    ptrace(PTRACE_CONT, thread, NULL, status >> 16 ? 0 : WSTOPSIG(status));
}

/* Reads a file on the thread of the read. Returns 0 if the read is over, as the thread may have ended then. */
static int read_reader(const char *kind, char *text, size_t bytes) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/task/%d/%s", reader_thread, kind);
    int file = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, bytes - 1);
    int error = errno;
    if (file >= 0) close(file);
    if (is_read) return 0;
    if (length < 0) {
        fprintf(stderr, "cannot read %s: %s\n", name, strerror(error));
        exit(5);
    }
    text[length] = 0;
    return 1;
}

/* Whether the thread of the read sleeps in the system call. */
static int sleeps(void) {
    char text[512];
    if (reader_thread == 0 || !read_reader("stat", text, sizeof text)) return 0;
    char *state = strrchr(text, ')');
    if (!state || (state[2] != 'D' && state[2] != 'S')) return 0;
    /* The file begins with the number of the call, or is "running". */
    return read_reader("syscall", text, sizeof text) && atol(text) == SYS_process_vm_readv;
}

/* Reads while all threads of the program are stopped, as most debuggers do: does the read wait until they go on? */
static void read_stopped(pid_t stopped, uintptr_t address) {
    static struct { pid_t thread; int status; } others[64];
    int count = 0;
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/task", program);
    DIR *folder = opendir(name);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        pid_t thread = atoi(entry->d_name);
        if (thread == 0 || thread == stopped || count == 64) continue;
        if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL)) continue;
        others[count].thread = thread;
        if (waitpid(thread, &others[count].status, __WALL) == thread && WIFSTOPPED(others[count].status)) count++;
    }
    closedir(folder);
    pthread_t reader;
    pthread_create(&reader, NULL, read_in_thread, (void *)address);
    /* The read is over, or its thread sleeps in it for long: as a thread that waits for a processor, it would not. */
    for (int looks = 0; looks < 20 && !is_read; usleep(10000)) looks = sleeps() ? looks + 1 : 0;
    printf("all threads stopped: %s", is_read ? "" : "waits, then ");
    while (count--) resume(others[count].thread, others[count].status);
    while (!is_read) {
        int status;
        pid_t thread = waitpid(-1, &status, __WALL | WNOHANG);
        if (thread > 0 && WIFSTOPPED(status)) resume(thread, status);
        if (thread <= 0) usleep(1000);
    }
    void *text;
    pthread_join(reader, &text);
    puts(text);
}

static void look(pid_t thread) {
    static int number;
    siginfo_t info;
    ptrace(PTRACE_GETSIGINFO, thread, NULL, &info);
    uintptr_t address = (uintptr_t)info.si_value.sival_ptr;
    switch (number++) {
    case 0: printf("process_vm_readv: %s\n", read_process(address)); break;
    case 1: printf("PTRACE_PEEKDATA: %s\n", peek(thread, address)); break;
    case 2: printf("/proc/PID/mem: %s\n", read_file(address)); break;
    default: read_stopped(thread, address);
    }
    fflush(stdout);
}

int main(int count, char **arguments) {
    int ends[2], faults = 0, calls = 0;
    if (count < 2 || pipe(ends)) return 2;
    program = fork();
    if (program < 0) return 2;
    if (program == 0) {
        char byte;
        close(ends[1]);
        if (read(ends[0], &byte, 1) != 1) _exit(126);
        close(ends[0]);
        execvp(arguments[1], arguments + 1);
        _exit(127);
    }
    long options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, program, NULL, options)) return 3;
    write(ends[1], "x", 1);
    for (;;) {
        int status;
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) return 4;
        if (!WIFSTOPPED(status)) {
            if (thread != program) continue;
            printf("status %x, SIGBUS %s, SIGSYS %s\n", status, faults ? "seen" : "never", calls ? "seen" : "never");
            return 0;
        }
        if (status >> 16 == 0 && WSTOPSIG(status) == SIGUSR2) {
            look(thread);
            ptrace(PTRACE_CONT, thread, NULL, 0);
            continue;
        }
        faults += status >> 16 == 0 && WSTOPSIG(status) == SIGBUS;
        calls += status >> 16 == 0 && WSTOPSIG(status) == SIGSYS;
        resume(thread, status);
    }
}
