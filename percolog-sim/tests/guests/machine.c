/* What a program can find out about the machine; and that being answered changes no register but rax. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void expect(const char *what, long found, long expected) {
    if (found != expected)
        printf("%s: %ld instead of %ld\n", what, found, expected);
}

/* A system call whose first three arguments are looked at afterwards. */
static long preserving(long number, uint64_t a, uint64_t b, uint64_t c) {
    uint64_t x = a, y = b, z = c;
    long result = number;
    __asm__ volatile("syscall" : "+a"(result), "+D"(x), "+S"(y), "+d"(z) : : "rcx", "r11", "memory");
    if (x != a || y != b || z != c)
        printf("system call %ld changed its arguments\n", number);
    return result;
}

static pthread_barrier_t moved;

static void *run_where_told(void *core) {
    pthread_barrier_wait(&moved);
    unsigned here;
    syscall(SYS_getcpu, &here, NULL, NULL);
    expect("core of a thread that was moved", here, (long)core);
    return NULL;
}

/* Threads and the process by their numbers. */
static void by_number(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(getpid(), sizeof set, &set);
    expect("cores of the process by its number", CPU_COUNT(&set), 48);
    pthread_t thread;
    pthread_barrier_init(&moved, NULL, 2);
    pthread_create(&thread, NULL, run_where_told, (void *)29);
    CPU_ZERO(&set);
    CPU_SET(29, &set);
    expect("pinning another", pthread_setaffinity_np(thread, sizeof set, &set), 0);
    CPU_ZERO(&set);
    pthread_getaffinity_np(thread, sizeof set, &set);
    expect("cores of another", CPU_COUNT(&set), 1);
    pthread_barrier_wait(&moved);
    pthread_join(thread, NULL);
}

int main(void) {
    unsigned char mask[1024] = {0};
    char text[256] = {0}, red_zone[8];
    unsigned cpu, node, a, b, c, d;
    cpu_set_t one, all;

    printf("%ld online, %ld configured\n", sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_NPROCESSORS_CONF));
    expect("length of a mask", syscall(SYS_sched_getaffinity, 0, sizeof mask, mask), 8);
    expect("short mask", syscall(SYS_sched_getaffinity, 0, 4, mask), -1);
    expect("crooked mask", syscall(SYS_sched_getaffinity, 0, 12, mask), -1);
    sched_getaffinity(0, sizeof all, &all);
    expect("cores", CPU_COUNT(&all), 48);
    by_number();
    for (int core = 47; core >= 0; core -= 5) {
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        expect("pinning", sched_setaffinity(0, sizeof one, &one), 0);
        syscall(SYS_getcpu, &cpu, &node, NULL);
        expect("core", cpu, core);
        expect("chip", node, core / 6);
        __cpuid_count(0xb, 0, a, b, c, d);
        expect("number of the core", d, core / 6 * 8 + core % 6);
        uint32_t aux;
        __asm__ volatile("rdtscp" : "=c"(aux) : : "rax", "rdx");
        expect("core beside the clock", aux & 0xfff, core);
        expect("chip beside the clock", aux >> 12, core / 6);
    }
    CPU_ZERO(&one);
    expect("nowhere", sched_setaffinity(0, sizeof one, &one), -1);
    expect("its reason", errno, EINVAL);

    long fd = preserving(SYS_openat, AT_FDCWD, (uint64_t)"/sys/devices/system/cpu/online", O_RDONLY);
    expect("reading", read((int)fd, text, sizeof text) > 0, 1);
    printf("online: %s", text);
    struct stat status;
    expect("a folder of a core", preserving(SYS_stat, (uint64_t)"/sys/devices/system/cpu/cpu47", (uint64_t)&status, 3), 0);
    expect("no such core", access("/sys/devices/system/cpu/cpu48", F_OK), -1);
    memset(red_zone, 7, sizeof red_zone);
    expect("own program", access("/proc/self/exe", X_OK), 0);

    struct timespec time, later;
    clock_gettime(CLOCK_REALTIME, &time);
    expect("date", time.tv_sec / 86400, 18262);
    expect("no such place", preserving(SYS_clock_gettime, CLOCK_MONOTONIC, 8, 0), -EFAULT);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    sleep(5);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &later);
    expect("CPU time asleep", later.tv_sec - time.tv_sec, 0);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    expect("CPU time used", usage.ru_utime.tv_sec, 0);

    __cpuid(0x80000007, a, b, c, d);
    expect("invariant clock", d >> 8 & 1, 1);
    unsigned char random[24];
    expect("random bytes", getrandom(random, sizeof random, 0), sizeof random);
    for (unsigned i = 0; i < sizeof random; i++)
        printf("%02x", random[i]);
    putchar('\n');
    return 0;
}
