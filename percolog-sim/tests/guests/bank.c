// A mutex that two functions use, and a table of counters from the heap: two of them neighbours in a line.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct entry {
    long hits, misses;
    char rest[112];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry **table;
static long total;

__attribute__((noinline)) struct entry *make_entry(void) {
    struct entry *entry = malloc(sizeof *entry);
    entry->hits = 0;
    return entry;
}

__attribute__((noinline)) void deposit(long amount) {
    pthread_mutex_lock(&mutex);
    total += amount;
    pthread_mutex_unlock(&mutex);
}

__attribute__((noinline)) long balance(void) {
    pthread_mutex_lock(&mutex);
    long found = total;
    pthread_mutex_unlock(&mutex);
    return found;
}

__attribute__((noinline)) void count(int at) {
    __atomic_fetch_add(&table[at]->hits, 1, __ATOMIC_RELAXED);
}

static void *work(void *unused) {
    for (int i = 0; i < 100; i++) {
        deposit(2);
        deposit(-1);
        balance();
        count(i % 2);
    }
    return unused;
}

int main(void) {
    pthread_t threads[8];
    table = calloc(2, sizeof *table);
    for (int i = 0; i < 2; i++) table[i] = make_entry();
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
    printf("%ld %ld\n", total, table[0]->hits + table[1]->hits);
    for (int i = 0; i < 2; i++) free(table[i]);
    free(table);
    return 0;
}
