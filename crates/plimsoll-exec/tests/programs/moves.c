/* Spawns the program `rights` of the folder in the argument, by paths that are relative to that folder. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

#define SPAWN(function, path)                                              \
    do {                                                                   \
        printf("%s: ", #function);                                         \
        fflush(stdout);                                                    \
        pid_t child = -1;                                                  \
        int error = function(&child, path, &actions, NULL, list, environ); \
        if (error) printf("%s\n", strerror(error));                        \
        else waitpid(child, NULL, 0);                                      \
    } while (0)

int main(int count, char **arguments) {
    char *list[] = {"rights", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, arguments[1]);
    setenv("PATH", "/no/such/folder:.:/usr/bin:/bin", 1);
    SPAWN(posix_spawn, "./rights");
    SPAWN(posix_spawnp, "./rights");
    SPAWN(posix_spawnp, "rights");
    return 0;
}
