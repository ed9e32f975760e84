/* Ends with seven threads running, one asleep and one in a read that never returns. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int started;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];

static volatile int never;

static void *spin(void *unused) {
    __sync_fetch_and_add(&started, 1);
    for (volatile unsigned long i = 0; !never; i++) {
    }
    return unused;
}

static void *sleeper(void *unused) {
    (void)unused;
    __sync_fetch_and_add(&started, 1);
    pthread_mutex_lock(&held);
    return NULL;
}

static void *reader(void *unused) {
    char byte;
    (void)unused;
    __sync_fetch_and_add(&started, 1);
    if (read(ends[0], &byte, 1) != 1)
        abort();
    return NULL;
}

int main(void) {
    pthread_t thread;
    if (pipe(ends) != 0)
        return 1;
    pthread_mutex_lock(&held);
    for (int i = 0; i < 7; i++)
        pthread_create(&thread, NULL, spin, NULL);
    pthread_create(&thread, NULL, sleeper, NULL);
    pthread_create(&thread, NULL, reader, NULL);
    while (started < 9)
        usleep(100);
    puts("leaving");
    exit(7);
}
