// Processes that are hard to follow. Prints what each of these came to.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
    pthread_mutex_t mutex;
    pthread_barrier_t barrier;
    sem_t full;
    long count, heap, spins;
};

static struct shared *shared;
static long private_count;

static int status_of(pid_t child) {
    int status = -1;
    if (waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void *add_under_lock(void *unused) {
    (void)unused;
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&shared->mutex);
        shared->count++;
        pthread_mutex_unlock(&shared->mutex);
    }
    return 0;
}

// Locks, barriers and semaphores that processes share are futexes that are not private to one.
static void locks(void) {
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        if ((children[i] = fork()) == 0) {
            pthread_barrier_wait(&shared->barrier);
            add_under_lock(0);
            sem_post(&shared->full);
            _exit(i);
        }
    }
    for (int i = 0; i < 4; i++) sem_wait(&shared->full);
    int sum = 0;
    for (int i = 0; i < 4; i++) sum += status_of(children[i]);
    printf("locks: %ld %d\n", shared->count, sum);
}

// Children that have threads of their own, when their parent has one.
static void threads(void) {
    shared->count = 0;
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
        if ((children[i] = fork()) == 0) {
            pthread_t threads[3];
            for (int t = 0; t < 3; t++)
                if (pthread_create(&threads[t], 0, add_under_lock, 0)) _exit(9);
            for (int t = 0; t < 3; t++) pthread_join(threads[t], 0);
            _exit(0);
        }
    }
    int sum = 0;
    for (int i = 0; i < 3; i++) sum += status_of(children[i]);
    printf("threads: %ld %d\n", shared->count, sum);
}

// The same address is other memory in each, whatever was there before the fork.
static void own_memory(void) {
    long *heap = malloc(sizeof *heap);
    *heap = 1;
    private_count = 1;
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
        if ((children[i] = fork()) == 0) {
            for (int j = 0; j < 50; j++) (*heap)++, private_count++;
            _exit(*heap == 51 && private_count == 51 ? 0 : 1);
        }
    }
    int sum = 0;
    for (int i = 0; i < 3; i++) sum += status_of(children[i]);
    printf("own memory: %ld %ld %d\n", *heap, private_count, sum);
    free(heap);
}

// A child that is killed while it spins, by its parent; one that dies of its own fault; one that is killed by its child.
static void deaths(void) {
    pid_t spinner = fork();
    if (spinner == 0)
        for (;;) __atomic_fetch_add(&shared->spins, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&shared->spins, __ATOMIC_RELAXED) < 100) {}
    kill(spinner, SIGKILL);
    int killed = status_of(spinner);
    pid_t faulty = fork();
    if (faulty == 0) *(volatile int *)8 = 1;
    int fault = status_of(faulty);
    pid_t father = fork();
    if (father == 0) {
        if (fork() == 0) {
            kill(getppid(), SIGTERM);
            _exit(0);
        }
        for (;;) pause();
    }
    printf("deaths: %d %d %d\n", killed, fault, status_of(father));
}

// Whoever does not want to wait, and whoever has nobody to wait for.
static void waits(void) {
    shared->count = 0;
    pid_t child = fork();
    if (child == 0) {
        while (!__atomic_load_n(&shared->count, __ATOMIC_SEQ_CST)) {}
        _exit(5);
    }
    int status = 0;
    int early = waitpid(child, &status, WNOHANG);
    __atomic_store_n(&shared->count, 1, __ATOMIC_SEQ_CST);
    int late = waitpid(-1, &status, 0) == child && WEXITSTATUS(status) == 5;
    int none = waitpid(-1, &status, 0) == -1 && errno == ECHILD;
    printf("waits: %d %d %d\n", early, late, none);
}

// A child that becomes another program, one that cannot, and one whose parent does not wait.
static void others(void) {
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 6", (char *)0);
        _exit(9);
    }
    int other = status_of(child);
    child = fork();
    if (child == 0) {
        execl("/nowhere/at/all", "at all", (char *)0);
        _exit(errno == ENOENT ? 7 : 9);
    }
    int none = status_of(child);
    fflush(stdout);
    if (fork() == 0) {
        usleep(2000);
        _exit(0);
    }
    printf("others: %d %d\n", other, none);
}

int main(void) {
    shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 2;
    pthread_mutexattr_t mutex;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &mutex);
    pthread_barrierattr_t barrier;
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &barrier, 4);
    sem_init(&shared->full, 1, 0);
    locks();
    fflush(stdout);
    threads();
    fflush(stdout);
    own_memory();
    fflush(stdout);
    deaths();
    fflush(stdout);
    waits();
    fflush(stdout);
    others();
    return 0;
}
