/* Two threads take two locks in opposite order. */
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, two = PTHREAD_MUTEX_INITIALIZER;

static void *first(void *unused) {
    pthread_mutex_lock(&one);
    usleep(1000);
    pthread_mutex_lock(&two);
    return unused;
}

static void *second(void *unused) {
    pthread_mutex_lock(&two);
    usleep(1000);
    pthread_mutex_lock(&one);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, first, NULL);
    pthread_create(&threads[1], NULL, second, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
