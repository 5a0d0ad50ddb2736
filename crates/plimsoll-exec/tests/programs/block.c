// A block of 64 MiB, 8 MiB of which are filled from its start, by read(2), and 8 MiB from its end downwards, as sort(1) does.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB (1l << 20)
#define PAGE 4096

int main(void) {
    int zeros = open("/dev/zero", O_RDONLY);
    char *block = malloc(64 * MIB);
    if (!block)
        return 1;
    for (long at = 0; at < 8 * MIB; at += MIB / 4) {
        if (read(zeros, block + at, MIB / 4) != MIB / 4)
            return 2;
        block[at] = 1;
    }
    char *end = block + 64 * MIB;
    for (long at = 1; at <= 8 * MIB / 16; at++)
        end[-16 * at] = 2;
    for (long at = 0; at < 8 * MIB; at += MIB / 4)
        if (block[at] != 1 || block[at + PAGE] != 0)
            return 3;
    for (long at = 1; at <= 8 * MIB / 16; at++)
        if (end[-16 * at] != 2)
            return 4;
    return block[32 * MIB] != 0;
}
