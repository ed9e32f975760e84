/* Lines that are shared in different ways. The argument says how; the line is labelled, and the region marked. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 400 };

static struct {
    long words[8];
} line __attribute__((aligned(64)));
static struct {
    long words[8];
} apart[8] __attribute__((aligned(64)));
static pthread_barrier_t together;
static const char *how;
static _Thread_local volatile long sink;

static void mark(long operation, long argument) {
    syscall(0x5045524FL, operation, argument);
}

static void pause_for(long turns) {
    for (volatile long i = 0; i < turns; i++)
        ;
}

static void lock(void) {
    while (__atomic_exchange_n(&line.words[0], 1, __ATOMIC_ACQUIRE))
        while (__atomic_load_n(&line.words[0], __ATOMIC_RELAXED))
            ;
}

static void unlock(void) {
    __atomic_store_n(&line.words[0], 0, __ATOMIC_RELEASE);
}

static void work(long number) {
    if (!strcmp(how, "counter")) {
        __atomic_fetch_add(&line.words[0], 1, __ATOMIC_RELAXED);
    } else if (!strcmp(how, "packed")) {
        /* Each core counts in a word of its own. */
        __atomic_fetch_add(&line.words[number], 1, __ATOMIC_RELAXED);
        sink += __atomic_load_n(&line.words[number], __ATOMIC_RELAXED);
    } else if (!strcmp(how, "padded")) {
        __atomic_fetch_add(&apart[number].words[0], 1, __ATOMIC_RELAXED);
        sink += __atomic_load_n(&apart[number].words[0], __ATOMIC_RELAXED);
    } else if (!strcmp(how, "beside")) {
        /* One core counts; the others read a word beside it that nobody writes. */
        if (number == 0)
            __atomic_fetch_add(&line.words[0], 1, __ATOMIC_RELAXED);
        else
            sink += __atomic_load_n(&line.words[7], __ATOMIC_RELAXED);
    } else if (!strcmp(how, "lock")) {
        /* A lock and what it protects. */
        lock();
        /* For longer than it keeps the line. */
        pause_for(30);
        line.words[1] += line.words[2] + number;
        unlock();
    } else if (!strcmp(how, "mixed")) {
        /* Half of the cores count, the others read a word beside it. */
        if (number % 2 == 0)
            __atomic_fetch_add(&line.words[0], 1, __ATOMIC_RELAXED);
        else
            sink += __atomic_load_n(&line.words[7], __ATOMIC_RELAXED);
    }
    pause_for(20 + 7 * number);
}

static void *run(void *argument) {
    long number = (long)argument;
    mark(4, number);
    pthread_barrier_wait(&together);
    mark(1, 0);
    for (int i = 0; i < ROUNDS; i++)
        work(number);
    mark(2, ROUNDS);
    pthread_barrier_wait(&together);
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t threads[THREADS];
    how = count > 1 ? arguments[1] : "counter";
    syscall(0x5045524FL, 3L, &line, sizeof line, "the line", 8L);
    pthread_barrier_init(&together, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%ld %ld\n", line.words[0], line.words[1]);
    return 0;
}
