/* Handlers of a fork that allocate. Built twice: with LIBRARY as a library whose constructor registers them before the
   program's first call of malloc, and without as a program that forks while its threads allocate. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Enough blocks that no cache of free ones has them all. */
static void allocate(void) {
    static const size_t sizes[] = {24, 48, 1000, 9000, 100 * 1024};
    void *blocks[200];
    for (int i = 0; i < 200; i++) {
        blocks[i] = malloc(sizes[i % 5]);
        if (blocks[i] == NULL)
            abort();
        memset(blocks[i], i, sizes[i % 5]);
    }
    for (int i = 0; i < 200; i++)
        free(blocks[i]);
}

#ifdef LIBRARY
__attribute__((constructor)) static void register_handlers(void) {
    if (pthread_atfork(allocate, allocate, allocate) != 0)
        abort();
}

int handlers_are_registered(void) { return 1; }
#else
int handlers_are_registered(void);
static int ended;

static void *work(void *unused) {
    while (!__atomic_load_n(&ended, __ATOMIC_RELAXED))
        allocate();
    return unused;
}

int main(void) {
    pthread_t threads[4];
    alarm(120);
    if (!handlers_are_registered() || pthread_atfork(allocate, allocate, allocate) != 0)
        return 1;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 50; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            allocate();
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            printf("child %d ended with status %d\n", i, status);
            return 1;
        }
    }
    __atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("50 children allocated\n");
    return 0;
}
#endif
