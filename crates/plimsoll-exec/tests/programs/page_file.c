// Uses three times the budget, with words that do not compress, in a parent and in a child of a fork. Prints the number of the page
// file's descriptor, whether the file has bytes, and mistakes in the words.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS (48u << 20 >> 3)

// The open files, and the last one of them that is a regular one without a name.
static int files(int *nameless, struct stat *found) {
    int count = 0;
    *nameless = -1;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct stat status;
        int file = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fstat(file, &status) != 0) {
            continue;
        }
        count++;
        if (S_ISREG(status.st_mode) && status.st_nlink == 0) {
            *nameless = file;
            *found = status;
        }
    }
    closedir(folder);
    return count;
}

static int show(const char *when) {
    int file;
    struct stat status = {0};
    int count = files(&file, &status);
    printf("%s: %s, %s\n", when, file < 0 ? "none" : file < 896 ? "low" : "high",
           status.st_size == 0 && status.st_blocks == 0 ? "empty" : "written");
    fflush(stdout);
    return count;
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

int main(void) {
    int before = show("start");
    pid_t early = fork();
    if (early == 0) {
        show("child");
        use(1);
        show("child after use");
        _exit(0);
    }
    waitpid(early, NULL, 0);
    show("parent after it");
    use(2);
    int after = show("parent after use");
    printf("other descriptors: %d\n", after - before);
    return 0;
}
