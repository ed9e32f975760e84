// What hardware threads of one core do together. The first argument is the number of threads, the second what each does, the third how
// often: `work` computes, `count` adds to one counter, `pass` hands a word to the next thread, which spins until it has it.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MARK 0x5045524f
#define LINE 64

static _Alignas(LINE) long ready;
static _Alignas(LINE) long counter;
static _Alignas(LINE) long turn;
static long threads, rounds;
static char what;

static void *run(void *argument) {
    long me = (long)argument;
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < threads) {}
    syscall(MARK, 1);
    unsigned long x = me;
    for (long i = 0; i < rounds; i++) {
        if (what == 'c') {
            __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST);
        } else if (what == 'p') {
            while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != me) {}
            counter++;
            __atomic_store_n(&turn, (me + 1) % threads, __ATOMIC_RELEASE);
        } else {
            for (int step = 0; step < 100; step++) __asm__ volatile("lea 1(%0), %0" : "+r"(x));
        }
    }
    syscall(MARK, 2, rounds);
    return (void *)x;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    threads = atol(arguments[1]), what = arguments[2][0], rounds = atol(arguments[3]);
    pthread_t all[threads];
    for (long i = 1; i < threads; i++)
        if (pthread_create(&all[i], 0, run, (void *)i)) return 2;
    run(0);
    for (long i = 1; i < threads; i++) pthread_join(all[i], 0);
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 2;
    printf("%ld counted, %ld processors, %d allowed\n", counter, sysconf(_SC_NPROCESSORS_ONLN), CPU_COUNT(&set));
    return 0;
}
