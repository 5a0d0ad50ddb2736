// Changes the user of a forked child: the C library has each thread of the process do so, by a signal, and waits for all
// answers. A thread of the library that blocked the signal hung the child.
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    for (int round = 0; round < 8; round++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            // Ids that stay the same need no right.
            _exit(setresgid(-1, -1, -1) != 0 || setresuid(-1, -1, -1) != 0);
        }
        int status;
        waitpid(child, &status, 0);
        printf("%d\n", status);
        if (status != 0) {
            return 1;
        }
    }
    printf("%d\n", setresuid(-1, -1, -1));
    return 0;
}
