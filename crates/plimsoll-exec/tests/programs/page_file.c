// Uses three times the budget, with words that do not compress, in a parent, and in children that it forks before and after
// that. Prints the number of the page file's descriptor, whether the file has bytes, mistakes in the words, and changes of the
// numbers in use.
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS (48u << 20 >> 3)

// The library's numbers begin here.
#define HIGH 896

// Whether a file is in memory, as that of a pool.
static int is_in_memory(int file) {
    char name[32], target[8] = "";
    sprintf(name, "/proc/self/fd/%d", file);
    readlink(name, target, sizeof target - 1);
    return strcmp(target, "/memfd:") == 0;
}

// The open files, those of them with low numbers, and the last one that is a regular one without a name.
static int files(int *low, int *nameless, struct stat *found) {
    int count = 0;
    *low = 0;
    *nameless = -1;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct stat status;
        int file = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fstat(file, &status) != 0) {
            continue;
        }
        count++;
        *low += file < HIGH;
        if (S_ISREG(status.st_mode) && status.st_nlink == 0 && !is_in_memory(file)) {
            *nameless = file;
            *found = status;
        }
    }
    closedir(folder);
    return count;
}

static int open_files(int *low) {
    int file;
    struct stat status;
    return files(low, &file, &status);
}

static void show(const char *when) {
    int low, file;
    struct stat status = {0};
    files(&low, &file, &status);
    printf("%s: %s, %s\n", when, file < 0 ? "none" : file < HIGH ? "low" : "high",
           status.st_size == 0 && status.st_blocks == 0 ? "empty" : "written");
    fflush(stdout);
}

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void use(uint64_t seed) {
    static uint64_t *words;
    words = words ? words : malloc(WORDS * sizeof *words);
    uint64_t state = seed;
    for (size_t word = 0; word < WORDS; word++) {
        words[word] = next(&state);
    }
    long mistakes = 0;
    state = seed;
    for (size_t word = 0; word < WORDS; word++) {
        mistakes += words[word] != next(&state);
    }
    printf("mistakes: %ld\n", mistakes);
    fflush(stdout);
}

// Closes all files that it does not know, and leaves its folder, as a daemon.
static void become_daemon(void) {
    for (int file = 3; file < 1200; file++) {
        dup2(0, file);
        close(file);
    }
    chdir("/");
}

int main(void) {
    become_daemon();
    int low_before, low;
    int before = open_files(&low_before);
    show("start");
    pid_t early = fork();
    if (early == 0) {
        show("child");
        use(1);
        show("child after use");
        _exit(0);
    }
    int status;
    if (waitpid(early, &status, 0) != early || status) {
        return 3;
    }
    show("parent after it");
    use(2);
    show("parent after use");
    int after = open_files(&low);
    printf("other descriptors: %d\n", after - before);
    fflush(stdout);
    // If the parent has a page file, this child reads it, and the parent has a pipe.
    pid_t late = fork();
    if (late == 0) {
        raise(SIGSTOP);
        become_daemon();
        use(3);
        open_files(&low);
        printf("low numbers of the late child: %d\n", low - low_before);
        fflush(stdout);
        _exit(0);
    }
    if (waitpid(late, &status, WUNTRACED) != late || !WIFSTOPPED(status)) {
        return 4;
    }
    int now = open_files(&low);
    printf("pipes: %d, low numbers: %d\n", now - after, low - low_before);
    fflush(stdout);
    kill(late, SIGCONT);
    waitpid(late, &status, 0);
    return status != 0;
}
