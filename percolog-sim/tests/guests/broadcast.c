/* Many wait for one condition, again and again: wake-ups, requeued or not, must not be lost. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

enum { THREADS = 16, ROUNDS = 50 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t arrived, passed;
static int turn;
static long seen;

static void *wait_for_rounds(void *unused) {
    for (int round = 1; round <= ROUNDS; round++) {
        pthread_mutex_lock(&mutex);
        sem_post(&arrived);
        while (turn < round)
            pthread_cond_wait(&changed, &mutex);
        seen++;
        pthread_mutex_unlock(&mutex);
        sem_post(&passed);
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    sem_init(&arrived, 0, 0);
    sem_init(&passed, 0, 0);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, wait_for_rounds, NULL);
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < THREADS; i++)
            sem_wait(&arrived);
        /* Whoever has arrived holds the mutex until it waits. */
        pthread_mutex_lock(&mutex);
        turn = round;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
        for (int i = 0; i < THREADS; i++)
            sem_wait(&passed);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", seen);
    return 0;
}
