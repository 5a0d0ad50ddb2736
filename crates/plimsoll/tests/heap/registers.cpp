// What calls leave in registers. A compiler may copy registers that mean nothing into a new object (it does for an empty
// std::optional), so any of them may come to stand anywhere in a block, and the block is freed as well as any other.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <new>

// Those that a call need not keep, besides the result's, as the last call left them.
constexpr int REGISTERS = 8;
extern "C" {
uint64_t left[REGISTERS];
// Calls function(argument).
uint64_t call(const void *function, uint64_t argument);
}

asm(R"(
    .text
call:
    push %rbx
    mov %rdi, %rax
    mov %rsi, %rdi
    call *%rax
    lea left(%rip), %rbx
    mov %rcx, 0(%rbx)
    mov %rdx, 8(%rbx)
    mov %rsi, 16(%rbx)
    mov %rdi, 24(%rbx)
    mov %r8, 32(%rbx)
    mov %r9, 40(%rbx)
    mov %r10, 48(%rbx)
    mov %r11, 56(%rbx)
    pop %rbx
    ret
)");

// More than a processor's slot holds, so that they come from everywhere and go everywhere.
constexpr size_t BLOCKS = 1000;

static void all_of(const void *allocate, const void *release, size_t size, int which) {
    static uint64_t *blocks[BLOCKS];
    auto take = [&] { return (uint64_t *)call(allocate, size); };
    auto give = [&](uint64_t *block) { call(release, (uint64_t)block); };
    for (auto &block : blocks) {
        // Of the call that brought the block, and of one before it.
        uint64_t before = left[which];
        block = take();
        block[0] = before;
        block[1] = left[which];
    }
    for (auto block : blocks) {
        give(block);
        uint64_t before = left[which];
        // The same block, or one of those that were free with it.
        uint64_t *next = take();
        next[0] = next[1] = before;
        give(next);
    }
}

int main() {
    void *(*plain)(size_t) = operator new;
    void *(*array)(size_t) = operator new[];
    void (*plain_delete)(void *) = operator delete;
    void (*array_delete)(void *) = operator delete[];
    for (int which = 0; which < REGISTERS; which++)
        for (size_t size : {16, 24, 100, 2000, 12000}) {
            all_of((void *)malloc, (void *)free, size, which);
            all_of((void *)plain, (void *)plain_delete, size, which);
            all_of((void *)array, (void *)array_delete, size, which);
        }
    puts("all blocks freed");
}
