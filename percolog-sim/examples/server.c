/* The program of the README's first screen: each thread handles requests, and counts them where all others do. */
#include <pthread.h>
#include <stdlib.h>

#include "percolog_roi.h"

static _Atomic unsigned long requests;
static pthread_barrier_t together;

static unsigned long handle(unsigned long request) {
    requests++;
    for (int i = 0; i < 400; i++) request = request * 6364136223846793005UL + 1442695040888963407UL;
    return request;
}

static void *serve(void *mine) {
    unsigned long answers = (unsigned long)mine;
    pthread_barrier_wait(&together);
    percolog_roi_begin();
    for (int i = 0; i < 1000; i++) answers = handle(answers);
    percolog_roi_end(1000);
    return (void *)answers;
}

int main(int count, char **words) {
    int threads = count > 1 ? atoi(words[1]) : 1;
    pthread_t *thread = malloc(sizeof(pthread_t) * (size_t)threads);
    percolog_roi_label(&requests, sizeof requests, "requests");
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (long i = 0; i < threads; i++) pthread_create(&thread[i], NULL, serve, (void *)i);
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    return 0;
}
