/* Handlers run in threads that sleep, wait and read; what they interrupted ends as it would on a real kernel. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t handled;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];
static volatile int results;

static void handler(int signal) {
    struct timespec now;
    (void)signal;
    /* Makes system calls of its own, one of them a sleep. */
    clock_gettime(CLOCK_MONOTONIC, &now);
    usleep(10);
    handled++;
}

static void *asleep(void *unused) {
    struct timespec time = {100, 0}, rest = {0, 0};
    int result = nanosleep(&time, &rest);
    if (result == -1 && errno == EINTR && rest.tv_sec < 100 && rest.tv_sec > 90)
        results |= 1;
    return unused;
}

static void *waits(void *unused) {
    /* Not interrupted: goes on waiting for the lock. */
    if (pthread_mutex_lock(&mutex) == 0)
        results |= 2;
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *reads(void *unused) {
    char byte;
    if (read(ends[0], &byte, 1) == -1 && errno == EINTR)
        results |= 4;
    return unused;
}

static volatile int stop;

static void *spins(void *unused) {
    while (!stop) {
    }
    results |= 8;
    return unused;
}

int main(void) {
    pthread_t threads[4];
    void *(*work[4])(void *) = {asleep, waits, reads, spins};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, NULL);
    if (pipe(ends) != 0)
        return 1;
    sem_init(&semaphore, 0, 0);
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work[i], NULL);
    usleep(100000);
    for (int i = 0; i < 4; i++) {
        int before = handled;
        pthread_kill(threads[i], SIGUSR1);
        while (handled == before)
            usleep(1000);
    }
    stop = 1;
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%d handled, results %d\n", (int)handled, results);
    return 0;
}
