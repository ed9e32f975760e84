/* Sleepers wake in the order of their deadlines, whichever call they sleep in, and time is simulated: an hour passes. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t none;

static struct timespec at(clockid_t clock, long milliseconds) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += milliseconds % 1000 * 1000000;
    time.tv_sec += milliseconds / 1000 + time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static void *sleeper(void *argument) {
    long kind = (long)argument;
    long milliseconds = (8 - kind) * 1000;
    struct timespec time;
    struct timeval value = {milliseconds / 1000, 0};
    const char *how = "";
    switch (kind) {
    case 0:
        how = "usleep";
        usleep(milliseconds * 1000);
        break;
    case 1:
        how = "nanosleep until";
        time = at(CLOCK_MONOTONIC, milliseconds);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
        break;
    case 2:
        how = "nanosleep until the wall clock";
        time = at(CLOCK_REALTIME, milliseconds);
        clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, NULL);
        break;
    case 3:
        how = "condition";
        time = at(CLOCK_REALTIME, milliseconds);
        pthread_mutex_lock(&mutex);
        if (pthread_cond_timedwait(&never, &mutex, &time) != ETIMEDOUT)
            how = "condition without a reason";
        pthread_mutex_unlock(&mutex);
        break;
    case 4:
        how = "semaphore";
        time = at(CLOCK_REALTIME, milliseconds);
        if (sem_timedwait(&none, &time) != -1 || errno != ETIMEDOUT)
            how = "semaphore without a reason";
        break;
    case 5:
        how = "poll";
        if (poll(NULL, 0, (int)milliseconds) != 0)
            how = "poll without a reason";
        break;
    case 6:
        how = "select";
        if (select(0, NULL, NULL, NULL, &value) != 0)
            how = "select without a reason";
        break;
    case 7:
        how = "hour";
        sleep(3600);
        break;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%ld %s\n", now.tv_sec - 3600, how);
    return NULL;
}

int main(void) {
    pthread_t threads[8];
    sem_init(&none, 0, 0);
    for (long i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, sleeper, (void *)i);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
