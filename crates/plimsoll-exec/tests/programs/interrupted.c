/* A signal, whose handler does not restart calls, comes to calls that wait, at any time after their begin: also while their
 * memory comes back to RAM. It has to end the call. Prints the number of calls that a signal ended, and whether that was a
 * later one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define BUFFER (3ul << 20)
#define OTHER (24ul << 20)
#define ROUNDS 60

static volatile sig_atomic_t signals;

static void on_alarm(int signal) {
    (void)signal;
    signals++;
}

static char *map(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(2);
    return memory;
}

/* An alarm after so many microseconds, and one each second: the first may come before the call on a busy machine. */
static void start(long delay) {
    struct itimerval times = {.it_value = {0, delay}, .it_interval = {1, 0}};
    setitimer(ITIMER_REAL, &times, NULL);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    char *buffer = map(BUFFER), *other = map(OTHER);
    int ended = 0, late = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int kind = 0; kind < 3; kind++) {
            int ends[2];
            if (pipe(ends)) return 2;
            /* The buffer leaves RAM. */
            memset(buffer, round + 1, BUFFER);
            for (size_t at = 0; at < OTHER; at += 4096) memset(other + at, (int)(at >> 12) * 7 + round, 64);
            struct iovec parts[2] = {{buffer, BUFFER / 2}, {buffer + BUFFER / 2, BUFFER / 2}};
            int before = signals;
            double begin = now();
            start(300 + round * 400);
            ssize_t moved = kind == 0 ? read(ends[0], buffer, BUFFER)
                            : kind == 1 ? write(ends[1], buffer, BUFFER)
                                        : readv(ends[0], parts, 2);
            ended += moved < 0 ? errno == EINTR : kind == 1 && moved > 0 && moved < (ssize_t)BUFFER;
            late += now() - begin > 0.7;
            while (signals == before) usleep(1000);
            start(0);
            close(ends[0]);
            close(ends[1]);
        }
    }
    fprintf(stderr, "late: %d\n", late);
    printf("%d calls were interrupted, %s late\n", ended, late > ROUNDS / 12 ? "many" : "few");
    return 0;
}
