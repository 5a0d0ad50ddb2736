// Memory of each kind, which a system call and then the program use; with an argument, all that can be unmapped is at the end.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1 << 20)

static int ends[2];

static void use(char *start, int bytes) {
    write(ends[1], "x", 1);
    if (read(ends[0], start, bytes) != 1 || *start != 'x')
        exit(2);
    memset(start, 1, bytes);
}

int main(int count, char **arguments) {
    pipe(ends);
    char *plain = mmap(0, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    use(plain, 8 * MIB);
    char *reserved = mmap(0, 8 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(reserved, 4 * MIB, PROT_READ | PROT_WRITE);
    use(reserved, 4 * MIB);
    use(sbrk(3 * MIB), 3 * MIB);
    use(malloc(6 * MIB), 6 * MIB);
    for (int block = 0; block < 1000; block++)
        memset(malloc(3000), 1, 3000);
    char *moved = mremap(plain, 8 * MIB, 16 * MIB, MREMAP_MAYMOVE);
    use(moved, 16 * MIB);
    if (count > 1) {
        munmap(moved, 16 * MIB);
        munmap(reserved, 8 * MIB);
    }
    return 0;
}
