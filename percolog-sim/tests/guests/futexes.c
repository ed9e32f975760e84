/* Futexes by their system calls: every operation, its result, and its errors. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint32_t first, second;
static volatile int waiting, woken;

static long futex(uint32_t *word, int operation, uint32_t value, const void *timeout, uint32_t *other, uint32_t last) {
    long result = syscall(SYS_futex, word, operation, value, timeout, other, last);
    return result < 0 ? -errno : result;
}

static void *waiter(void *bits) {
    __sync_fetch_and_add(&waiting, 1);
    futex(&first, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, (uint32_t)(uintptr_t)bits);
    __sync_fetch_and_add(&woken, 1);
    return NULL;
}

static void expect(const char *what, long found, long expected) {
    if (found != expected)
        printf("%s: %ld instead of %ld\n", what, found, expected);
}

/* Lets all others run until they sleep. */
static void settle(void) {
    usleep(1000);
}

int main(void) {
    pthread_t threads[8];
    struct timespec short_time = {0, 1000000}, bad = {0, 1000000000}, now;
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, waiter, (void *)(uintptr_t)(i < 2 ? 1 : 2));
    settle();
    expect("waiting", waiting, 8);
    expect("value differs", futex(&first, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), -EAGAIN);
    expect("timeout", futex(&second, FUTEX_WAIT_PRIVATE, 0, &short_time, NULL, 0), -ETIMEDOUT);
    clock_gettime(CLOCK_REALTIME, &now);
    expect("past", futex(&second, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &now, NULL, ~0u), -ETIMEDOUT);
    expect("bad time", futex(&second, FUTEX_WAIT_PRIVATE, 0, &bad, NULL, 0), -EINVAL);
    expect("no bits", futex(&second, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, 0), -EINVAL);
    expect("no bits to wake", futex(&second, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 0), -EINVAL);
    expect("bad word", futex((uint32_t *)64, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), -EFAULT);
    expect("crooked word", futex((uint32_t *)((char *)&first + 1), FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), -EINVAL);
    expect("other bits", futex(&first, FUTEX_WAKE_BITSET_PRIVATE, 100, NULL, NULL, 4), 0);
    expect("these bits", futex(&first, FUTEX_WAKE_BITSET_PRIVATE, 100, NULL, NULL, 1), 2);
    settle();
    expect("woken by bits", woken, 2);
    expect("changed", futex(&first, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)2, &second, 1), -EAGAIN);
    expect("moved", futex(&first, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)2, &second, 0), 3);
    settle();
    expect("woken by moving", woken, 3);
    expect("those that stay", futex(&first, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), 1);
    expect("those that moved", futex(&second, FUTEX_WAKE_PRIVATE, 100, NULL, NULL, 0), 2);
    second = 5;
    expect("operation that does not hold",
           futex(&second, FUTEX_WAKE_OP_PRIVATE, 1, (void *)100, &second, FUTEX_OP(FUTEX_OP_ADD, 2, FUTEX_OP_CMP_GT, 5)), 0);
    expect("sum", second, 7);
    expect("operation that holds",
           futex(&second, FUTEX_WAKE_OP_PRIVATE, 1, (void *)100, &first, FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)), 2);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    expect("woken in the end", woken, 8);
    puts("done");
    return 0;
}
