// Statistics that all threads add to; and a copy for each, as RocksDB's are since they are local to cores.
#include "threads.h"

static struct {
    long hits, bytes;
} all __attribute__((aligned(64)));

static struct {
    long hits, bytes;
    char alone[112];
} own[MOST];

static void begin(void) {}

static void prepare(int thread) {}

static void once(int thread, int round) {
    long *hits = mended ? &own[thread].hits : &all.hits;
    long *bytes = mended ? &own[thread].bytes : &all.bytes;
    __atomic_fetch_add(hits, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(bytes, round, __ATOMIC_RELAXED);
    work(100);
}
