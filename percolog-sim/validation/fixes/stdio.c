// A log that all threads write to, under the lock of its FILE; and one for each.
#include "threads.h"

static FILE *logs[1 + MOST];

static FILE *opened(void) {
    FILE *log = fopen("/dev/null", "w");
    setvbuf(log, 0, _IOFBF, 1 << 16);
    return log;
}

static void begin(void) {
    logs[0] = opened();
}

static void prepare(int thread) {
    logs[1 + thread] = opened();
}

static void once(int thread, int round) {
    fputs("a line of a log\n", logs[mended ? 1 + thread : 0]);
    work(100);
}
