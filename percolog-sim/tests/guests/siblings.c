// Workers that are threads or forked processes, as the first argument says, and so many of them: they meet, and add to one counter in
// memory that all of them have. The third argument says how often.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK 0x5045524f
#define LINE 64

struct shared {
    _Alignas(LINE) long ready;
    _Alignas(LINE) long counter;
};

static struct shared *shared;
static long workers, rounds;

static void *work(void *unused) {
    (void)unused;
    __atomic_fetch_add(&shared->ready, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) < workers) {}
    syscall(MARK, 1);
    for (long i = 0; i < rounds; i++) __atomic_fetch_add(&shared->counter, 1, __ATOMIC_SEQ_CST);
    syscall(MARK, 2, rounds);
    return 0;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    workers = atol(arguments[2]), rounds = atol(arguments[3]);
    shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 2;
    if (!strcmp(arguments[1], "threads")) {
        pthread_t threads[workers];
        for (long i = 0; i < workers; i++)
            if (pthread_create(&threads[i], 0, work, 0)) return 2;
        for (long i = 0; i < workers; i++) pthread_join(threads[i], 0);
    } else {
        pid_t children[workers];
        for (long i = 0; i < workers; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                work(0);
                _exit(0);
            }
        }
        for (long i = 0, status; i < workers; i++)
            if (waitpid(children[i], (int *)&status, 0) != children[i]) return 3;
    }
    printf("%ld\n", shared->counter);
    return 0;
}
