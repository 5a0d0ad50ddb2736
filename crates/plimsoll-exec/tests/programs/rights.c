/* Prints whether the kernel gave this program rights that its caller lacks, and what it has of the library. */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static int is_library(struct dl_phdr_info *object, size_t size, void *unused) {
    return strstr(object->dlpi_name, "libplimsoll_exec.so") != NULL;
}

int main(void) {
    printf("secure %lu, user %d, library %d, LD_PRELOAD %d, PLIMSOLL_EXEC %d\n", getauxval(AT_SECURE), (int)geteuid(),
           dl_iterate_phdr(is_library, NULL), getenv("LD_PRELOAD") != NULL, getenv("PLIMSOLL_EXEC") != NULL);
    return 0;
}
