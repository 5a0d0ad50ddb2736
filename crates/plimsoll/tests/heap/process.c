/* A process under the heap: what it is charged for, how many mappings it has, and where it has its environment from.
 *
 * process charge       prints the bytes that the kernel charges it for
 * process mappings     has more large blocks than the kernel allows mappings
 * process profile      prints which profile its heap has
 * process no-proc      becomes `process profile` where there is no /proc
 * process as-nobody    becomes `cat /proc/self/maps` of another user
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

/* Bytes of the mappings that count as committed memory: their flags have "ac". */
static long charged(void)
{
    static char line[4096];
    static char text[65536];
    FILE *maps = fopen("/proc/self/smaps", "r");
    long size = 0, sum = 0;
    if (maps == NULL)
        return -1;
    setvbuf(maps, text, _IOFBF, sizeof text);
    while (fgets(line, sizeof line, maps) != NULL) {
        sscanf(line, "Size: %ld kB", &size);
        if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " ac") != NULL)
            sum += size * 1024;
    }
    fclose(maps);
    return sum;
}

static long count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    long lines = 0;
    for (int c; maps != NULL && (c = getc(maps)) != EOF;)
        lines += c == '\n';
    if (maps != NULL)
        fclose(maps);
    return lines;
}

static void *nothing(void *argument)
{
    return argument;
}

static int mappings(void)
{
    long most = 0, refused = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (file == NULL || fscanf(file, "%ld", &most) != 1)
        return 1;
    fclose(file);
    /* Two mappings for each would be more than there may be. */
    for (long at = 0; at < most / 2 + 1000; at++) {
        char *volatile block = malloc(20000);
        refused += block == NULL;
    }
    long taken = count_mappings();
    pthread_t thread;
    int started = pthread_create(&thread, NULL, nothing, NULL);
    if (started == 0)
        pthread_join(thread, NULL);
    void *own = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int split = own == MAP_FAILED ? -1 : mprotect(own, 4096, PROT_NONE);
    printf("%ld refused, %s, %s, %s\n", refused, taken < most / 2 ? "most mappings left" : "few mappings left",
           started == 0 ? "a thread" : "no thread", split == 0 ? "a mapping" : "no mapping");
    return 0;
}

int main(int count, char **words)
{
    const char *what = count == 2 ? words[1] : "";
    if (strcmp(what, "charge") == 0) {
        char *volatile block = malloc(100);
        printf("%ld\n", block == NULL ? -1 : charged());
    } else if (strcmp(what, "mappings") == 0) {
        return mappings();
    } else if (strcmp(what, "profile") == 0) {
        puts(malloc_usable_size(malloc(20)) == 20 ? "hardened" : "default");
    } else if (strcmp(what, "no-proc") == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
            || mount("none", "/proc", "tmpfs", 0, NULL) != 0)
            return 77;
        execl(words[0], words[0], "profile", (char *)NULL);
        return 1;
    } else if (strcmp(what, "as-nobody") == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0)
            return 77;
        execlp("cat", "cat", "/proc/self/maps", (char *)NULL);
        return 1;
    } else {
        return 99;
    }
    return 0;
}
