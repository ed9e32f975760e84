// Threads pass a turn round by spinning, as many as the first argument says and so often as the second. With `same` as the third, a round
// of the loop leaves all registers as they were; with `adds` it counts, at the same cost.
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MARK 0x5045524f
#define LINE 64

static _Alignas(LINE) unsigned turn;
static _Alignas(LINE) long ready;
static _Alignas(LINE) long guarded;
static long threads, rounds;
static void (*spin)(unsigned);

// Both functions are the same but for what is added.
#define SPIN(NAME, STEP)                                                                                                             \
    static __attribute__((noinline)) void NAME(unsigned mine) {                                                                      \
        long count = 0;                                                                                                              \
        unsigned seen;                                                                                                               \
        __asm__ volatile("1: add $" #STEP ", %[count]\n\tmov (%[word]), %[seen]\n\tcmp %[mine], %[seen]\n\tjne 1b"                   \
                         : [count] "+r"(count), [seen] "=&r"(seen)                                                                   \
                         : [word] "r"(&turn), [mine] "r"(mine)                                                               \
                         : "memory", "cc");                                                                                          \
    }
SPIN(same, 0)
SPIN(adds, 1)

static void *run(void *unused) {
    (void)unused;
    long number = __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < threads) {}
    syscall(MARK, 1);
    for (long i = 0; i < rounds; i++) {
        unsigned mine = i * threads + number;
        spin(mine);
        guarded++;
        __atomic_store_n(&turn, mine + 1, __ATOMIC_RELEASE);
        for (int j = 0; j < 50; j++) __asm__ volatile("");
    }
    syscall(MARK, 2, rounds);
    return 0;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    threads = atol(arguments[1]), rounds = atol(arguments[2]), spin = *arguments[3] == 's' ? same : adds;
    pthread_t all[threads];
    for (long i = 1; i < threads; i++)
        if (pthread_create(&all[i], 0, run, 0)) return 2;
    run(0);
    for (long i = 1; i < threads; i++) pthread_join(all[i], 0);
    return guarded != threads * rounds;
}
