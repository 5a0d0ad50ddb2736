/* The structures as a C compiler sees them. */
#include <stdio.h>

#include "plimsoll_pager.h"

int main(void) {
    printf("%zu %zu %zu %zu %zu %zu %zu %zu %zu %zu\n", sizeof(plimsoll_pager_options_t), offsetof(plimsoll_pager_options_t, codec),
           offsetof(plimsoll_pager_options_t, page_file), offsetof(plimsoll_pager_options_t, ageing_ms),
           sizeof(plimsoll_pager_stats_t), offsetof(plimsoll_pager_stats_t, compressed_pages),
           offsetof(plimsoll_pager_stats_t, direct_reclaims), offsetof(plimsoll_pager_stats_t, heat_chunks),
           offsetof(plimsoll_pager_options_t, thrash_control), offsetof(plimsoll_pager_stats_t, kept_trials));
    return 0;
}
