/* System calls with structures of the program, all of which were written out of RAM before: those that wait for descriptors,
 * signals, times and other threads, and those that a kernel fills in. Prints a line for each, which must be the same with and
 * without the library. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define OTHER (28ul << 20)

static char *other;

/* A structure at the end of a page, on pages of its own. */
static void *room(size_t bytes) {
    size_t whole = (bytes + 4095) / 4096 * 4096;
    char *pages = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) exit(2);
    memset(pages, 0, whole);
    return pages + (whole - bytes) / 16 * 16;
}

/* All other memory leaves RAM. */
static void evict(void) {
    static int round;
    round++;
    for (size_t at = 0; at < OTHER; at += 4096) memset(other + at, (int)(at >> 12) * 7 + round, 64);
}

static void say(const char *name, long result) {
    printf("%s: %ld %s\n", name, result, result < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static void descriptors(void) {
    int *ends = room(2 * sizeof *ends);
    evict();
    say("pipe2", pipe2(ends, O_CLOEXEC));
    int from = ends[0], to = ends[1];

    struct pollfd *polled = room(2 * sizeof *polled);
    polled[0] = (struct pollfd){from, POLLIN, 0};
    polled[1] = (struct pollfd){to, POLLOUT, 0};
    evict();
    say("poll", poll(polled, 2, 1000));
    printf("%x %x\n", polled[0].revents, polled[1].revents);
    struct timespec *time = room(sizeof *time);
    sigset_t *mask = room(sizeof *mask);
    time->tv_nsec = 3000000;
    sigemptyset(mask);
    evict();
    say("ppoll", ppoll(polled, 1, time, mask));

    fd_set *readable = room(sizeof *readable), *writable = room(sizeof *writable);
    struct timeval *limit = room(sizeof *limit);
    limit->tv_usec = 2000;
    FD_ZERO(readable);
    FD_SET(from, readable);
    evict();
    say("select that waits", select(from + 1, readable, NULL, NULL, limit));
    FD_SET(from, readable);
    FD_ZERO(writable);
    FD_SET(to, writable);
    limit->tv_sec = 1;
    evict();
    say("select", select((from > to ? from : to) + 1, readable, writable, NULL, limit));
    printf("%d %d\n", FD_ISSET(from, readable) != 0, FD_ISSET(to, writable) != 0);
    FD_SET(to, writable);
    evict();
    say("pselect", pselect(to + 1, NULL, writable, NULL, time, mask));

    int poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event *event = room(sizeof *event), *events = room(600 * sizeof *events);
    *event = (struct epoll_event){EPOLLIN | EPOLLET, {.u64 = 0x123456789abcdef}};
    evict();
    say("epoll_ctl", epoll_ctl(poller, EPOLL_CTL_ADD, from, event));
    evict();
    say("epoll_wait that waits", epoll_wait(poller, events, 600, 3));
    say("write", write(to, "abc", 3));
    evict();
    say("epoll_wait", epoll_wait(poller, events, 600, 1000));
    printf("%x %llx\n", events[0].events, (unsigned long long)events[0].data.u64);
    say("write", write(to, "def", 3));
    evict();
    say("epoll_pwait", epoll_pwait(poller, events, 600, 1000, mask));
    int *bytes = room(sizeof *bytes);
    evict();
    say("FIONREAD", ioctl(from, FIONREAD, bytes));
    printf("%d\n", *bytes);

    int counter = eventfd(5, EFD_CLOEXEC);
    uint64_t *number = room(sizeof *number);
    evict();
    say("read of an eventfd", read(counter, number, 8));
    printf("%llu\n", (unsigned long long)*number);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct itimerspec *set = room(sizeof *set), *before = room(sizeof *before);
    set->it_value.tv_nsec = 2000000;
    evict();
    say("timerfd_settime", timerfd_settime(timer, 0, set, before));
    evict();
    say("read of a timerfd", read(timer, number, 8));
    printf("%llu\n", (unsigned long long)*number);
    for (int fd = 0; fd < 2; fd++) close(ends[fd]);
    close(poller), close(counter), close(timer);
}

static volatile sig_atomic_t handled;
static void on_signal(int number) { handled += number; }

static void signals(void) {
    sigset_t *mask = room(sizeof *mask), *old = room(sizeof *old);
    sigemptyset(mask), sigaddset(mask, SIGUSR1), sigaddset(mask, SIGRTMIN + 3);
    evict();
    say("sigprocmask", sigprocmask(SIG_BLOCK, mask, old));
    evict();
    int descriptor = signalfd(-1, mask, SFD_CLOEXEC);
    say("signalfd", descriptor < 0 ? -1 : 0);
    union sigval value = {.sival_int = 77};
    sigqueue(getpid(), SIGRTMIN + 3, value);
    kill(getpid(), SIGUSR1);
    struct signalfd_siginfo *read_signals = room(2 * sizeof *read_signals);
    evict();
    say("read of a signalfd", read(descriptor, read_signals, 2 * sizeof *read_signals) / (long)sizeof *read_signals);
    printf("%u %u %d\n", read_signals[0].ssi_signo, read_signals[1].ssi_signo - SIGRTMIN, read_signals[1].ssi_int);
    close(descriptor);

    sigqueue(getpid(), SIGRTMIN + 3, value);
    siginfo_t *info = room(sizeof *info);
    struct timespec *time = room(sizeof *time), *left = room(sizeof *left);
    time->tv_sec = 1;
    evict();
    say("sigtimedwait", sigtimedwait(mask, info, time) - SIGRTMIN);
    printf("%d\n", info->si_value.sival_int);
    time->tv_sec = 0, time->tv_nsec = 2000000;
    evict();
    say("sigtimedwait that waits", sigtimedwait(mask, info, time));
    kill(getpid(), SIGUSR1);
    evict();
    say("sigpending", sigpending(old));
    printf("%d\n", sigismember(old, SIGUSR1));

    struct sigaction *action = room(sizeof *action), *before = room(sizeof *before);
    action->sa_handler = on_signal;
    evict();
    say("sigaction", sigaction(SIGUSR1, action, before));
    sigemptyset(mask);
    evict();
    say("sigsuspend", sigsuspend(mask));
    printf("%d\n", handled == SIGUSR1);
    evict();
    say("nanosleep", nanosleep(time, left));
    evict();
    say("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, time, left));
    sigprocmask(SIG_SETMASK, mask, NULL);
    timer_t *timer = room(sizeof *timer);
    struct sigevent *notice = room(sizeof *notice);
    struct itimerspec *set = room(sizeof *set);
    notice->sigev_notify = SIGEV_SIGNAL, notice->sigev_signo = SIGUSR1;
    set->it_value.tv_nsec = 2000000;
    evict();
    say("timer_create", timer_create(CLOCK_MONOTONIC, notice, timer));
    evict();
    say("timer_settime", timer_settime(*timer, 0, set, NULL));
    for (int tries = 0; handled < 2 * SIGUSR1 && tries < 2000; tries++) usleep(1000);
    printf("%d\n", handled == 2 * SIGUSR1);
    timer_delete(*timer);
}

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    long turns;
    int word;
};

static void *take_turns(void *argument) {
    struct shared *shared = argument;
    for (int turn = 0; turn < 2000; turn++) {
        pthread_mutex_lock(&shared->mutex);
        shared->turns++;
        if (turn % 500 == 0) evict();
        pthread_mutex_unlock(&shared->mutex);
    }
    return NULL;
}

static void *wake_late(void *argument) {
    struct shared *shared = argument;
    usleep(30000);
    __atomic_store_n(&shared->word, 1, __ATOMIC_SEQ_CST);
    while (syscall(SYS_futex, &shared->word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0) usleep(1000);
    return NULL;
}

static void threads(void) {
    struct shared *shared = room(sizeof *shared);
    pthread_mutex_init(&shared->mutex, NULL);
    pthread_cond_init(&shared->changed, NULL);
    pthread_t many[4];
    for (int at = 0; at < 4; at++) pthread_create(&many[at], NULL, take_turns, shared);
    for (int at = 0; at < 4; at++) pthread_join(many[at], NULL);
    say("a contended mutex", shared->turns);
    struct timespec *time = room(sizeof *time);
    clock_gettime(CLOCK_REALTIME, time);
    time->tv_nsec += 3000000;
    if (time->tv_nsec >= 1000000000) time->tv_sec++, time->tv_nsec -= 1000000000;
    pthread_mutex_lock(&shared->mutex);
    evict();
    say("pthread_cond_timedwait", pthread_cond_timedwait(&shared->changed, &shared->mutex, time) == ETIMEDOUT);
    pthread_mutex_unlock(&shared->mutex);
    pthread_t waker;
    pthread_create(&waker, NULL, wake_late, shared);
    evict();
    long woken = syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, NULL, NULL, 0);
    say("a futex", woken == 0 || errno == EAGAIN ? 0 : woken);
    /* The waker ends when it has woken one; this thread may have been too late for it. */
    for (int tries = 0; pthread_tryjoin_np(waker, NULL) && tries < 1000; tries++) {
        time->tv_sec = 0, time->tv_nsec = 2000000;
        syscall(SYS_futex, &shared->word, FUTEX_WAIT, 1, time, NULL, 0);
    }
}

static void sockets(void) {
    int pair[2];
    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair);
    struct mmsghdr *messages = room(3 * sizeof *messages);
    struct iovec *parts = room(6 * sizeof *parts);
    char *text = room(60000);
    for (int at = 0; at < 3; at++) {
        memset(text + at * 20000, 'a' + at, 20000);
        parts[2 * at] = (struct iovec){text + at * 20000, 5000};
        parts[2 * at + 1] = (struct iovec){text + at * 20000 + 5000, 2000 * (at + 1)};
        messages[at].msg_hdr.msg_iov = parts + 2 * at;
        messages[at].msg_hdr.msg_iovlen = 2;
    }
    evict();
    say("sendmmsg", sendmmsg(pair[0], messages, 3, 0));
    memset(text, 0, 60000);
    struct timespec *time = room(sizeof *time);
    time->tv_sec = 1;
    evict();
    say("recvmmsg", recvmmsg(pair[1], messages, 3, 0, time));
    for (int at = 0; at < 3; at++) printf("%u %c ", messages[at].msg_len, text[at * 20000 + 6000]);
    puts("");
    int *option = room(sizeof *option);
    socklen_t *length = room(sizeof *length);
    *option = 8192, *length = sizeof *option;
    evict();
    say("setsockopt", setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, option, sizeof *option));
    evict();
    say("getsockopt", getsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, option, length));
    printf("%d %u\n", *option, *length);
    struct sockaddr_un *name = room(sizeof *name);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    name->sun_family = AF_UNIX;
    snprintf(name->sun_path + 1, 60, "plimsoll-test-%d", getpid());
    socklen_t bytes = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name->sun_path + 1);
    evict();
    say("bind", bind(listener, (void *)name, bytes));
    say("listen", listen(listener, 1));
    evict();
    say("connect", connect(client, (void *)name, bytes));
    memset(name, 0, sizeof *name), *length = sizeof *name;
    evict();
    int accepted = accept4(listener, (void *)name, length, SOCK_CLOEXEC);
    say("accept4", accepted < 0 ? -1 : name->sun_family);
    *length = sizeof *name;
    evict();
    say("getpeername", getpeername(client, (void *)name, length));
    printf("%d\n", *length == bytes);
    char *control = room(CMSG_SPACE(sizeof(int)));
    struct msghdr *header = room(sizeof *header);
    parts[0] = (struct iovec){text, 1};
    *header = (struct msghdr){.msg_iov = parts, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(sizeof(int))};
    struct cmsghdr *first = CMSG_FIRSTHDR(header);
    *first = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(first), &listener, sizeof listener);
    evict();
    say("sendmsg of a descriptor", sendmsg(client, header, 0));
    memset(control, 0, CMSG_SPACE(sizeof(int)));
    evict();
    say("recvmsg of a descriptor", recvmsg(accepted, header, MSG_CMSG_CLOEXEC));
    int passed = -1;
    memcpy(&passed, CMSG_DATA(first), sizeof passed);
    printf("%d\n", fcntl(passed, F_GETFD));
    int all[] = {pair[0], pair[1], listener, client, accepted, passed};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) close(all[at]);
    int inet = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifconf *interfaces = room(sizeof *interfaces);
    struct ifreq *list = room(64 * sizeof *list), *one = room(sizeof *one);
    *interfaces = (struct ifconf){.ifc_len = 64 * sizeof *list, .ifc_req = list};
    evict();
    say("SIOCGIFCONF", ioctl(inet, SIOCGIFCONF, interfaces));
    printf("%s\n", list[0].ifr_name);
    strcpy(one->ifr_name, "lo");
    evict();
    say("SIOCGIFINDEX", ioctl(inet, SIOCGIFINDEX, one));
    printf("%d\n", one->ifr_ifindex);
    close(inet);
}

static void terminals(void) {
    int ends[2];
    if (openpty(&ends[0], &ends[1], NULL, NULL, NULL)) return say("openpty", -1);
    struct winsize *size = room(sizeof *size);
    size->ws_row = 33, size->ws_col = 99;
    evict();
    say("TIOCSWINSZ", ioctl(ends[0], TIOCSWINSZ, size));
    memset(size, 0, sizeof *size);
    evict();
    say("TIOCGWINSZ", ioctl(ends[1], TIOCGWINSZ, size));
    printf("%d %d\n", size->ws_row, size->ws_col);
    struct termios *settings = room(sizeof *settings);
    evict();
    say("tcgetattr", tcgetattr(ends[1], settings));
    cfmakeraw(settings);
    evict();
    say("tcsetattr", tcsetattr(ends[1], TCSANOW, settings));
    char *line = room(100);
    strcpy(line, "typed\n");
    evict();
    say("write to a terminal", write(ends[0], line, 6));
    memset(line, 0, 100);
    evict();
    say("read from a terminal", read(ends[1], line, 100));
    printf("%.5s\n", line);
    close(ends[0]), close(ends[1]);
}

static void structures(void) {
    char *path = room(4096);
    struct stat *status = room(sizeof *status);
    struct statx *extended = room(sizeof *extended);
    strcpy(path, "/proc/self");
    evict();
    say("stat", stat(path, status) | !S_ISDIR(status->st_mode));
    evict();
    say("statx", statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, extended) | !S_ISDIR(extended->stx_mode));
    char *target = room(4096);
    evict();
    ssize_t length = readlink(path, target, 4096);
    printf("readlink %d\n", length > 0 && atoi(target) == getpid());
    strcpy(path, "/proc/self/task");
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char *entries = room(32768);
    evict();
    printf("getdents64 %d\n", syscall(SYS_getdents64, folder, entries, 32768) > 0);
    close(folder);
    struct utsname *system = room(sizeof *system);
    evict();
    say("uname", uname(system));
    printf("%s\n", system->sysname);
    cpu_set_t *cpus = room(sizeof *cpus);
    evict();
    say("sched_getaffinity", sched_getaffinity(0, sizeof *cpus, cpus));
    printf("%d\n", CPU_COUNT(cpus) > 0);
    struct rlimit *limits = room(2 * sizeof *limits);
    evict();
    say("prlimit", prlimit(0, RLIMIT_CORE, NULL, limits));
    struct rusage *usage = room(sizeof *usage);
    evict();
    say("getrusage", getrusage(RUSAGE_SELF, usage));
    printf("%d\n", usage->ru_utime.tv_sec >= 0 && usage->ru_maxrss > 0);
    char *bytes = room(5000);
    evict();
    say("getrandom", getrandom(bytes, 5000, 0));
    pid_t child = fork();
    if (child == 0) _exit(42);
    int *ended = room(sizeof *ended);
    evict();
    say("wait4", wait4(child, ended, 0, usage) == child);
    printf("%d\n", WEXITSTATUS(*ended));
    child = fork();
    if (child == 0) _exit(43);
    siginfo_t *info = room(sizeof *info);
    evict();
    say("waitid", waitid(P_PID, child, info, WEXITED));
    printf("%d %d\n", info->si_status, info->si_pid == child);
    int queue = msgget(IPC_PRIVATE, 0600);
    struct { long type; char text[3000]; } *message = room(sizeof *message);
    message->type = 9, memset(message->text, 'm', 3000);
    evict();
    say("msgsnd", msgsnd(queue, message, 3000, 0));
    memset(message, 0, sizeof *message);
    evict();
    say("msgrcv", msgrcv(queue, message, 3000, 9, 0));
    printf("%ld %c\n", message->type, message->text[2999]);
    msgctl(queue, IPC_RMID, NULL);
    int semaphores = semget(IPC_PRIVATE, 2, 0600);
    struct sembuf *steps = room(2 * sizeof *steps);
    steps[0] = (struct sembuf){0, 2, 0}, steps[1] = (struct sembuf){1, 1, 0};
    evict();
    say("semop", semop(semaphores, steps, 2));
    say("semctl", semctl(semaphores, 0, GETVAL));
    semctl(semaphores, 0, IPC_RMID);
    struct iovec *local = room(2 * sizeof *local), *remote = room(2 * sizeof *remote);
    char *copy = room(5000);
    memset(bytes, 'r', 5000);
    local[0] = (struct iovec){copy, 1000}, local[1] = (struct iovec){copy + 1000, 4000};
    remote[0] = (struct iovec){bytes, 5000};
    evict();
    say("process_vm_readv", process_vm_readv(getpid(), local, 2, remote, 1, 0));
    printf("%c\n", copy[4999]);
    int file = memfd_create("waits", MFD_CLOEXEC);
    loff_t *offset = room(sizeof *offset);
    evict();
    say("pwritev", pwritev(file, local, 2, 100));
    memset(copy, 0, 5000);
    evict();
    say("preadv", preadv(file, local, 2, 100));
    printf("%c\n", copy[4999]);
    int second = memfd_create("second", MFD_CLOEXEC);
    *offset = 100;
    evict();
    say("copy_file_range", copy_file_range(file, offset, second, NULL, 3000, 0));
    printf("%lld\n", (long long)*offset);
    close(file), close(second);
}

int main(void) {
    other = mmap(NULL, OTHER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (other == MAP_FAILED) return 2;
    descriptors();
    signals();
    threads();
    sockets();
    terminals();
    structures();
    return 0;
}
