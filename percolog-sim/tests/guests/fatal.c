/* Dies of a signal while other threads run: `segv`, `abort`, or `spin` (of one from outside). */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int started, never;

static void *spin(void *unused) {
    /* Every other one writes while it spins, so that it can be told from one that waits for ever. */
    if (__sync_fetch_and_add(&started, 1) % 2) {
        while (!never) {
        }
    } else {
        for (volatile unsigned long i = 0; !never; i++) {
        }
    }
    return unused;
}

int main(int count, char **arguments) {
    int threads = strcmp(arguments[count - 1], "spin") == 0 ? 47 : 7;
    pthread_t thread;
    for (int i = 0; i < threads; i++)
        pthread_create(&thread, NULL, spin, NULL);
    while (started < threads)
        ;
    if (strcmp(arguments[count - 1], "abort") == 0)
        abort();
    if (strcmp(arguments[count - 1], "segv") == 0)
        *(volatile int *)8 = 1;
    spin(NULL);
    return 0;
}
