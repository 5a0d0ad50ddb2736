/*
 * A heap for a tree, freed all at once.
 *
 * From the root of the repository:
 *
 *     cargo build --profile malloc -p plimsoll-malloc
 *     cc -Icrates/plimsoll-malloc/include crates/plimsoll-malloc/examples/heap.c -o target/heap \
 *         -Ltarget/malloc -lplimsoll_malloc -Wl,-rpath,"$PWD/target/malloc"
 *     target/heap
 */
#include <stdio.h>
#include <string.h>

#include "plimsoll_heap.h"

struct word {
    struct word *smaller, *larger;
    unsigned count;
    char text[];
};

static struct word *add(plimsoll_heap_t *heap, struct word *tree, const char *text) {
    if (tree == NULL) {
        struct word *word = plimsoll_heap_calloc(heap, 1, sizeof *word + strlen(text) + 1);
        if (word != NULL) {
            word->count = 1;
            strcpy(word->text, text);
        }
        return word;
    }
    int order = strcmp(text, tree->text);
    if (order < 0)
        tree->smaller = add(heap, tree->smaller, text);
    else if (order > 0)
        tree->larger = add(heap, tree->larger, text);
    else
        tree->count++;
    return tree;
}

static void print(const struct word *tree) {
    if (tree == NULL)
        return;
    print(tree->smaller);
    printf("%u %s\n", tree->count, tree->text);
    print(tree->larger);
}

int main(void) {
    plimsoll_heap_t *heap = plimsoll_heap_create(0);
    if (heap == NULL) {
        perror("cannot make a heap");
        return 1;
    }
    if (plimsoll_heap_set_front_end(heap, PLIMSOLL_HEAP_LOW_FRAGMENTATION) != 0) {
        fputs("the heap stays with the standard front end\n", stderr);
        return 1;
    }
    char text[] = "one heap for the words and one heap for the rest";
    struct word *tree = NULL;
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        tree = add(heap, tree, word);
    print(tree);
    /* No walk over the tree: its heap ends, and every word with it. */
    return plimsoll_heap_destroy(heap);
}
