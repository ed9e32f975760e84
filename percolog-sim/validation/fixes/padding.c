// A counter for each thread, side by side; and each in lines of its own, as InnoDB's ib_counter_t has them.
#include "threads.h"

static struct {
    long count;
} packed[MOST];

static struct {
    long count;
    char alone[120];
} padded[MOST];

static void begin(void) {}

static void prepare(int thread) {}

static void once(int thread, int round) {
    volatile long *count = mended ? &padded[thread].count : &packed[thread].count;
    ++*count;
    work(100);
}
