/* Threads on aarch64 that use memory in the way that the first argument says; the lines are labelled, and the region marked. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "percolog_roi.h"

enum { THREADS = 8, ROUNDS = 200 };

static struct {
    _Atomic uint64_t word;
    uint64_t rest[7];
} shared __attribute__((aligned(64))), apart[THREADS] __attribute__((aligned(64))), queue[2] __attribute__((aligned(64)));
static uint64_t plain __attribute__((aligned(64)));
static unsigned char zeroed[512] __attribute__((aligned(512)));
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t together;
static const char *how;

/* With a load and a conditional store, whatever the compiler would take. */
static void add_exclusively(_Atomic uint64_t *word) {
    uint64_t value;
    uint32_t failed;
    do
        __asm__ volatile("ldxr %0, [%3]\n\tadd %0, %0, #1\n\tstxr %w1, %0, [%3]"
                         : "=&r"(value), "=&r"(failed), "+Q"(*word)
                         : "r"(word)
                         : "memory");
    while (failed);
}

/* With one instruction, likewise. */
static void add_at_once(_Atomic uint64_t *word) {
    __asm__ volatile(".arch_extension lse\n\tstadd %1, [%2]" : "+Q"(*word) : "r"(1UL), "r"(word) : "memory");
}

static void work(long number) {
    if (!strcmp(how, "shared")) {
        add_at_once(&shared.word);
    } else if (!strcmp(how, "exclusive")) {
        add_exclusively(&shared.word);
    } else if (!strcmp(how, "apart")) {
        add_at_once(&apart[number].word);
        add_exclusively(&apart[number].word);
    } else if (!strcmp(how, "zero")) {
        /* Clears all of the block that it points into. */
        __asm__ volatile("dc zva, %0" : : "r"(zeroed + 8 * number) : "memory");
    } else if (!strcmp(how, "ticket")) {
        uint64_t mine = atomic_fetch_add_explicit(&queue[0].word, 1, memory_order_relaxed);
        while (atomic_load_explicit(&queue[1].word, memory_order_acquire) != mine)
            __asm__ volatile("yield");
        plain++;
        atomic_store_explicit(&queue[1].word, mine + 1, memory_order_release);
    } else {
        pthread_mutex_lock(&mutex);
        plain++;
        pthread_mutex_unlock(&mutex);
    }
}

static void *thread(void *argument) {
    long number = (long)argument;
    percolog_roi_core((size_t)number);
    work(number);
    pthread_barrier_wait(&together);
    percolog_roi_begin();
    for (int i = 0; i < ROUNDS; i++)
        work(number);
    percolog_roi_end(ROUNDS);
    pthread_barrier_wait(&together);
    return NULL;
}

static int count(void) {
    pthread_t threads[THREADS];
    percolog_roi_label(&shared, sizeof shared, "shared");
    percolog_roi_label(&apart, sizeof apart, "apart");
    percolog_roi_label(&queue, sizeof queue, "queue");
    pthread_barrier_init(&together, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, thread, (void *)i))
            return 2;
    for (long i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    uint64_t sum = shared.word + plain;
    for (long i = 0; i < THREADS; i++)
        sum += apart[i].word;
    printf("%lu\n", sum);
    return 0;
}

/* Instructions of all kinds, for their addresses. */
static int instructions(void) {
    static _Alignas(512) unsigned char memory[4096];
    unsigned char *at = memory + 1024;
    memset(memory, 7, sizeof memory);
    memmove(memory + 3, memory + 100, 2000);
    __asm__ volatile(
        ".arch_extension lse\n\t"
        ".arch_extension rcpc\n\t"
        "mov x1, %0\n\t"
        "ldr x2, [x1, #64]\n\t"
        "ldr x2, [x1], #16\n\t"
        "str x2, [x1, #-16]!\n\t"
        "ldur w2, [x1, #-3]\n\t"
        "mov x3, #-8\n\t"
        "ldr x2, [x1, w3, sxtw #3]\n\t"
        "mov x3, #5\n\t"
        "ldrh w2, [x1, w3, uxtw #1]\n\t"
        "ldrsb x2, [x1, x3]\n\t"
        "ldp x2, x4, [x1, #32]\n\t"
        "stp w2, w4, [x1, #-8]!\n\t"
        "ldpsw x2, x4, [x1], #8\n\t"
        "ldnp q0, q1, [x1, #64]\n\t"
        "stp d0, d1, [x1, #16]\n\t"
        "ldr q2, [x1, #16]\n\t"
        "str b2, [x1, x3]\n\t"
        "ldr x2, 1f\n\t"
        "b 2f\n"
        ".balign 8\n"
        "1:\t.quad 77\n"
        "2:\tldxp x2, x4, [x1]\n\t"
        "stxp w5, x2, x4, [x1]\n\t"
        "ldaxrb w2, [x1]\n\t"
        "stlxrb w5, w2, [x1]\n\t"
        "ldar x2, [x1]\n\t"
        "stlr x2, [x1]\n\t"
        "ldapr x2, [x1]\n\t"
        "ldaddal x2, x4, [x1]\n\t"
        "swpb w2, w4, [x1]\n\t"
        "casal x2, x4, [x1]\n\t"
        "mov x6, #0\n\t"
        "mov x7, #0\n\t"
        "caspal x6, x7, x6, x7, [x1]\n\t"
        "ld1 {v0.16b, v1.16b}, [x1], #32\n\t"
        "st1 {v0.b}[3], [x1]\n\t"
        "ld4 {v0.8h, v1.8h, v2.8h, v3.8h}, [x1]\n\t"
        "st3 {v0.s, v1.s, v2.s}[2], [x1]\n\t"
        "ld2r {v0.2d, v1.2d}, [x1]\n\t"
        "prfm pldl1keep, [x1]\n\t"
        "add x3, %0, #100\n\t"
        "dc zva, x3\n\t"
        "orr x3, x1, #0xff00000000000000\n\t"
        "ldr x2, [x3]\n\t"
        :
        : "r"(at)
        : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "v0", "v1", "v2", "v3", "memory");
    /* The block is cleared, and nothing beside it. */
    printf("%d %d %d\n", at[0] + at[511], memory[1023] != 0, memory[1536] != 0);
    return 0;
}

static int processes(void) {
    struct timespec hour = {3600, 0};
    time_t before = time(NULL);
    nanosleep(&hour, NULL);
    printf("%ld seconds on %ld cores\n", (long)(time(NULL) - before), sysconf(_SC_NPROCESSORS_ONLN));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(syscall(-1) == -1 && errno == ENOSYS ? 5 : 6);
    int status = 0;
    if (waitpid(child, &status, 0) != child)
        return 3;
    printf("%d\n", WEXITSTATUS(status));
    fflush(stdout);
    execl("/proc/self/exe", "arm", "shared", NULL);
    return 4;
}

int main(int count_of_arguments, char **arguments) {
    how = count_of_arguments > 1 ? arguments[1] : "shared";
    if (!strcmp(how, "instructions"))
        return instructions();
    if (!strcmp(how, "processes"))
        return processes();
    return count();
}
