/* Executes the program of the argument by functions of the C library, and prints the name of each. Its folder is in PATH. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Runs a call in a child that `fork` or `vfork` makes. */
#define IN_CHILD(fork, call)              \
    do {                                  \
        printf("%s, %s: ", #fork, #call); \
        fflush(stdout);                   \
        pid_t child = fork();             \
        if (child == 0) {                 \
            call;                         \
            _exit(127);                   \
        }                                 \
        end(child);                       \
    } while (0)

#define SPAWN(function, path)                                          \
    do {                                                               \
        printf("%s: ", #function);                                     \
        fflush(stdout);                                                \
        pid_t child = -1;                                              \
        int error = function(&child, path, NULL, NULL, list, environ); \
        if (error) printf("%s\n", strerror(error));                    \
        else end(child);                                               \
    } while (0)

static void end(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    if (status) printf("status %x\n", status);
}

int main(int count, char **arguments) {
    char *path = arguments[1], *name = strrchr(path, '/') + 1, *list[] = {name, NULL}, folders[8192];
    /* The first folder does not have it, and an empty one is the working directory. */
    snprintf(folders, sizeof folders, "/no/such/folder::%.*s:/usr/bin:/bin", (int)(name - path - 1), path);
    setenv("PATH", folders, 1);
    int had_settings = getenv("PLIMSOLL_EXEC") != NULL;

    IN_CHILD(fork, execve(path, list, environ));
    IN_CHILD(vfork, execve(path, list, environ));
    IN_CHILD(fork, execv(path, list));
    IN_CHILD(fork, execl(path, name, NULL));
    IN_CHILD(fork, execvp(path, list));
    IN_CHILD(fork, execvp(name, list));
    IN_CHILD(vfork, execvp(name, list));
    SPAWN(posix_spawn, path);
    SPAWN(posix_spawnp, name);
    printf("system: ");
    fflush(stdout);
    if (system(path)) puts("failed");
    int has_settings = getenv("PLIMSOLL_EXEC") != NULL;
    printf("own settings: %s\n", has_settings == had_settings ? "as before" : "changed");
    return 0;
}
