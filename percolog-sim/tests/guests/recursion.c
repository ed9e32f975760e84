// A beginning without threads, and then a function that calls itself, ends in a jump to another, and is once left by one
// out of several.
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>

static long total, warm;
static _Thread_local jmp_buf out;

__attribute__((noinline)) long twice(long number) { return 2 * __atomic_add_fetch(&warm, number, __ATOMIC_RELAXED); }

// A tail call, where the compiler makes one.
__attribute__((noinline)) long doubled(long number) { return twice(number + 1); }

__attribute__((noinline)) int fib(int n) {
    __atomic_fetch_add(&total, 1, __ATOMIC_RELAXED);
    if (n == -1) longjmp(out, 1);
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static void *work(void *unused) {
    for (int i = 0; i < 10; i++) {
        fib(5);
        doubled(i);
    }
    if (!setjmp(out)) fib(-1);
    fib(3);
    return unused;
}

static inline __attribute__((always_inline)) void inlined_away(void) {
    __atomic_fetch_add(&warm, 1, __ATOMIC_RELAXED);
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 300000; i++) inlined_away();
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    printf("%ld\n", total);
    return 0;
}
