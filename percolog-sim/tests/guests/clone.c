/* A thread made without the C library: its registers are its maker's, and its word is cleared when it ends, by nobody
   who might do it once more after the stack and the word have gone to the next thread. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 300, STACK = 16384 };
static const uint64_t FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                              CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
static char stack[STACK] __attribute__((aligned(64)));
static volatile int word;
static volatile uint64_t seen;
static volatile long ran;

/* What the thread does before it ends: it notes the register of the first argument. */
static __attribute__((used)) void child(uint64_t first) {
    seen = first;
    ran++;
}

static long start(void) {
    long result = SYS_clone;
    register volatile int *child_word __asm__("r10") = &word;
    register uint64_t tls __asm__("r8") = 0;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "call child\n\t"
                     "mov %[exit], %%eax\n\t"
                     "xor %%edi, %%edi\n\t"
                     "syscall\n\t"
                     "1:"
                     : "+a"(result)
                     : "D"(FLAGS), "S"(stack + STACK), "d"(&word), "r"(child_word), "r"(tls), [exit] "i"(SYS_exit)
                     : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        long tid = start();
        if (tid < 0)
            return 1;
        for (int now; (now = word) != 0;)
            syscall(SYS_futex, &word, FUTEX_WAIT, now, 0, 0, 0);
        if (seen != FLAGS)
            return 2;
        /* The word is the next thread's from here on. */
        word = 1;
        usleep(10);
        if (word != 1)
            return 3;
    }
    printf("%ld\n", ran);
    return 0;
}
