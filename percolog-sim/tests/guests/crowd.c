/* More threads than cores, and threads that come and go. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static volatile long count, gone;
static volatile int go;

static void *work(void *unused) {
    /* Spins for a thread that has no core yet: the slice must end. */
    __sync_fetch_and_add(&count, 1);
    while (!go) {
    }
    for (int i = 0; i < 100; i++) {
        __sync_fetch_and_add(&count, 1);
        if (i % 10 == 0)
            sched_yield();
    }
    return unused;
}

static void *brief(void *unused) {
    __sync_fetch_and_add(&gone, 1);
    return unused;
}

int main(void) {
    enum { THREADS = 12, BRIEF = 200 };
    pthread_t threads[THREADS], thread;
    pthread_attr_t detached;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    while (count < THREADS) {
    }
    go = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < BRIEF; i++) {
        if (i % 2) {
            while (pthread_create(&thread, &detached, brief, NULL) != 0)
                sched_yield();
        } else {
            pthread_create(&thread, NULL, brief, NULL);
            pthread_join(thread, NULL);
        }
    }
    while (gone < BRIEF)
        usleep(100);
    printf("%ld %ld\n", count, gone);
    return 0;
}
