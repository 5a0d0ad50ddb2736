/* A debugger that starts a program as gdb does: by `vfork`, with `PTRACE_TRACEME` in the child. The list of the arguments is in
 * memory of the pager. A second thread prints the signal that stops the child, and kills the child: the first one is in
 * `vfork`. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static void *end_child(void *unused) {
    int status = 0;
    pid_t child;
    /* No child exists yet. */
    while ((child = waitpid(-1, &status, __WALL)) < 0 && errno == ECHILD) sched_yield();
    printf("stopped: %s\n", WIFSTOPPED(status) ? strsignal(WSTOPSIG(status)) : "no");
    if (WIFSTOPPED(status)) {
        kill(child, SIGKILL);
        waitpid(child, &status, __WALL);
    }
    printf("ended: %x\n", status);
    return unused;
}

int main(void) {
    char **arguments = mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arguments == MAP_FAILED) return 2;
    arguments[0] = "true";
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_child, NULL)) return 3;
    pid_t child = vfork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execvp(arguments[0], arguments);
        _exit(127);
    }
    if (child < 0) _exit(4);
    pthread_join(thread, NULL);
    return 0;
}
