// A table that is hardly ever changed, read under a lock for readers; and read without, as with RCU.
#include "threads.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static long table[64];

static void begin(void) {}

static void prepare(int thread) {}

static void once(int thread, int round) {
    if (!mended) {
        pthread_rwlock_rdlock(&lock);
    }
    for (int entry = 0; entry < 16; entry++) {
        found[thread].sum += table[(round + entry) & 63];
    }
    if (!mended) {
        pthread_rwlock_unlock(&lock);
    }
    work(100);
}
