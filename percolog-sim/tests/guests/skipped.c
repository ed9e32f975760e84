// A beginning that is worth skipping: one thread fills tables while another watches a word, a third sleeps and a fourth
// computes. Then the region begins, and each of them has something to do in it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 500, WORDS = 1 << 17 };

static struct { _Alignas(512) long word; } ping, pong, ended;
static long *shared;
static long table[WORDS], other[WORDS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_begun = PTHREAD_COND_INITIALIZER;
static int begun;

static void mark(long operation, long argument) {
#ifndef UNMARKED
    syscall(0x5045524FL, operation, argument);
#endif
}

static long load(long *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static void store(long *word, long value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

__attribute__((noinline)) void add(void) {
    for (int i = 0; i < ROUNDS; i++) __atomic_fetch_add(shared, 1, __ATOMIC_RELAXED);
}

static long fill(long *words) {
    long sum = 0;
    for (int i = 0; i < WORDS; i++) sum += words[i] += i;
    return sum;
}

__attribute__((noinline)) static long *make_shared(void) { return calloc(512, 1); }

static void *watch(void *unused) {
    for (long i = 1; i <= ROUNDS; i++) {
        while (load(&ping.word) < i) {}
        store(&pong.word, i);
    }
    return unused;
}

static void *sleep_first(void *unused) {
    pthread_mutex_lock(&mutex);
    while (!begun) pthread_cond_wait(&has_begun, &mutex);
    pthread_mutex_unlock(&mutex);
    add();
    return unused;
}

static void *compute(void *unused) {
    while (load(shared) < ROUNDS) fill(other);
    __atomic_fetch_add(&ended.word, 1, __ATOMIC_RELEASE);
    return unused;
}

int main(void) {
    void *(*works[])(void *) = {watch, sleep_first, compute};
    pthread_t threads[3];
    shared = make_shared();
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, works[i], 0);
    long sum = 0;
    for (int i = 0; i < 4; i++) sum += fill(table);

    mark(1, 0);
    for (long i = 1; i <= ROUNDS; i++) {
        store(&ping.word, i);
        while (load(&pong.word) < i) {}
    }
    pthread_mutex_lock(&mutex);
    begun = 1;
    pthread_cond_broadcast(&has_begun);
    pthread_mutex_unlock(&mutex);
    add();
    while (load(&ended.word) < 1) {}
    mark(2, ROUNDS);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    printf("%ld %ld\n", sum, *shared);
    return 0;
}
