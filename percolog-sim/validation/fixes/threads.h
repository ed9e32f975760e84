// What all of these programs have in common: threads that do the same so many times, as it was or as it was mended.
//
// Each is started with how many threads, how often, and 1 if it is to be mended. They begin together, each having done it once.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64

static int mended;

/// Before there are threads.
static void begin(void);
/// By each thread.
static void prepare(int thread);
/// So many times.
static void once(int thread, int round);

/// What a thread has found, in lines of its own.
static struct {
    volatile long sum;
    char alone[120];
} found[MOST] __attribute__((unused));

/// What else a program does.
__attribute__((unused)) static void work(int steps) {
    for (volatile int step = 0; step < steps; step++) {
    }
}

static int rounds;
static pthread_barrier_t together;

/// What is measured.
__attribute__((noinline)) void repeat(int thread) {
    for (int round = 0; round < rounds; round++) {
        once(thread, round);
    }
}

static void *run(void *number) {
    int thread = (int)(long)number;
    prepare(thread);
    once(thread, 0);
    pthread_barrier_wait(&together);
    repeat(thread);
    return 0;
}

int main(int count, char **arguments) {
    if (count != 4) {
        fprintf(stderr, "usage: %s THREADS ROUNDS MENDED\n", arguments[0]);
        return 2;
    }
    int threads = atoi(arguments[1]);
    rounds = atoi(arguments[2]);
    mended = atoi(arguments[3]);
    begin();
    pthread_barrier_init(&together, 0, threads);
    pthread_t handles[MOST];
    for (long number = 0; number < threads; number++) {
        pthread_create(&handles[number], 0, run, (void *)number);
    }
    for (int number = 0; number < threads; number++) {
        pthread_join(handles[number], 0);
    }
    return 0;
}
