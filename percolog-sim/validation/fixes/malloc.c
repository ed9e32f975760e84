// One heap for all threads; and glibc's arenas, as they are since its version 2.10.
#include "threads.h"
#include <malloc.h>

static void begin(void) {
    if (!mended) {
        mallopt(M_ARENA_MAX, 1);
    }
}

static void prepare(int thread) {}

static void once(int thread, int round) {
    void *blocks[8];
    for (int block = 0; block < 8; block++) {
        blocks[block] = malloc(2000);
        *(char *)blocks[block] = 1;
    }
    for (int block = 0; block < 8; block++) {
        free(blocks[block]);
    }
    work(100);
}
