// Threads that count in memory that the program has mapped itself, in a variable on its stack, and in a block that is
// moved by realloc.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static long *mapped, *local, *moved;

__attribute__((noinline)) long *map_page(void) {
    return mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

__attribute__((noinline)) long *grow(long *block) { return realloc(block, 4096); }

static void *work(void *unused) {
    for (int i = 0; i < 100; i++) {
        __atomic_fetch_add(mapped + 8, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(local, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(moved + 100, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

int main(void) {
    pthread_t threads[8];
    long variable __attribute__((aligned(64))) = 0;
    local = &variable;
    mapped = map_page();
    moved = calloc(1, 16);
    void *keeps_it_from_growing_in_place = malloc(16);
    moved = grow(moved);
    moved[100] = 0;
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
    printf("%ld %ld %ld\n", mapped[8], variable, moved[100]);
    free(keeps_it_from_growing_in_place);
    free(moved);
    return munmap(mapped, 8192);
}
