/* The first thread ends before the others, and the process with the last of them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void at_exit(void) { puts("exit"); }

static void *other(void *unused) {
    usleep(300000);
    puts("the other thread ends");
    return unused;
}

int main(void) {
    atexit(at_exit);
    pthread_t thread;
    pthread_create(&thread, 0, other, 0);
    pthread_exit(0);
}
