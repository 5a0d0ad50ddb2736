/* A program, and a library that it opens so that the library finds the C library's malloc first (RTLD_DEEPBIND), as PHP
 * opens its extensions. Blocks of the one are freed by the other. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LIBRARY
char *replaced(char *text)
{
    free(text);
    return strdup("freed by the other");
}
#else
typedef char *replace(char *text);

/* Uses a library that was opened, and closes it. */
static int used(void *library)
{
    if (library == NULL) {
        puts(dlerror());
        return 1;
    }
    replace *replaced = (replace *)dlsym(library, "replaced");
    if (replaced == NULL || dlsym(RTLD_DEFAULT, "replaced") != NULL)
        return 2;
    char *text = malloc(100);
    strcpy(text, "a block of the program");
    text = replaced(text);
    int right = strcmp(text, "freed by the other");
    free(text);
    return dlclose(library) != 0 || right != 0;
}

/* The name of the library's file, which the C library looks for where the program says. */
int main(int count, char **words)
{
    if (count != 2)
        return 99;
    int deep = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
    if (used(dlopen(words[1], deep)) != 0 || used(dlmopen(LM_ID_BASE, words[1], deep)) != 0)
        return 1;
    if (dlopen("no-such-library", RTLD_NOW) != NULL || strstr(dlerror(), "no-such-library") == NULL)
        return 2;
    if (dlopen(NULL, RTLD_NOW) == NULL)
        return 3;
    puts("blocks came and went");
    return 0;
}
#endif
