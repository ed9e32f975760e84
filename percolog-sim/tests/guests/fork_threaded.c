/* Forks ten times while threads count; each child has one thread, and ends. */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static long count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *unused) {
    (void)unused;
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&mutex);
        count++;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    int children = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            /* As if the others had stopped where they were. */
            long before = count;
            usleep(100);
            _exit(count == before ? 20 + i : 1);
        }
        int status;
        if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 20 + i)
            children++;
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%ld counts, %d children\n", count, children);
    return 0;
}
