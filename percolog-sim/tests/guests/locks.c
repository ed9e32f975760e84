// Threads that take a lock in turns, one for all or one for each, and change data of their own under it: with a lock for each they
// have nothing in common. Or one thread that makes, and waits until others have used it up, which no lock can spare them.
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST 64

struct lock {
    union {
        pthread_mutex_t mutex;
        pthread_spinlock_t spin;
        pthread_rwlock_t rwlock;
        int word;
        struct {
            unsigned next, serving;
        } ticket;
    };
} __attribute__((aligned(64)));

static struct lock locks[MOST];
static struct {
    long sum;
} __attribute__((aligned(64))) data[MOST], guarded[MOST][1];

// A lock and a condition in one line, as Rust's standard library has them.
static struct {
    int lock, condition;
    // Waiting, in use, or over.
    int there, taken, over;
} __attribute__((aligned(64))) slot;

// What another lock does not help.
static struct {
    long count;
} __attribute__((aligned(64))) for_all;

static pthread_barrier_t together;
static char kind;
static int rounds, outside, inside, own;

static void work(int steps) {
    for (volatile int step = 0; step < steps; step++) {
    }
}

static void enter(struct lock *lock) {
    switch (kind) {
    case 'm':
    case 'g':
    case 'a':
        pthread_mutex_lock(&lock->mutex);
        break;
    case 'p':
        pthread_spin_lock(&lock->spin);
        break;
    case 'w':
        pthread_rwlock_wrlock(&lock->rwlock);
        break;
    case 't': {
        unsigned mine = __atomic_fetch_add(&lock->ticket.next, 1, __ATOMIC_RELAXED);
        while (__atomic_load_n(&lock->ticket.serving, __ATOMIC_ACQUIRE) != mine) {
        }
        break;
    }
    case 'b':
        // Who does not get it waits twice as long each time.
        for (int pause = 16; __atomic_exchange_n(&lock->word, 1, __ATOMIC_ACQUIRE);
             pause = pause < 1024 ? 2 * pause : pause) {
            work(pause);
        }
        break;
    }
}

static void leave(struct lock *lock) {
    switch (kind) {
    case 'm':
    case 'g':
    case 'a':
        pthread_mutex_unlock(&lock->mutex);
        break;
    case 'p':
        pthread_spin_unlock(&lock->spin);
        break;
    case 'w':
        pthread_rwlock_unlock(&lock->rwlock);
        break;
    case 't':
        __atomic_store_n(&lock->ticket.serving, lock->ticket.serving + 1, __ATOMIC_RELEASE);
        break;
    case 'b':
        __atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
        break;
    }
}

static void futex(int *word, int operation, int value) {
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, 0, 0, 0);
}

static void lock_slot(void) {
    int none = 0;
    if (!__atomic_compare_exchange_n(&slot.lock, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        while (__atomic_exchange_n(&slot.lock, 2, __ATOMIC_ACQUIRE)) {
            futex(&slot.lock, FUTEX_WAIT, 2);
        }
    }
}

static void unlock_slot(void) {
    if (__atomic_exchange_n(&slot.lock, 0, __ATOMIC_RELEASE) == 2) {
        futex(&slot.lock, FUTEX_WAKE, 1);
    }
}

static void wait_for_slot(void) {
    int seen = __atomic_load_n(&slot.condition, __ATOMIC_RELAXED);
    unlock_slot();
    futex(&slot.condition, FUTEX_WAIT, seen);
    lock_slot();
}

static void tell_all(void) {
    __atomic_fetch_add(&slot.condition, 1, __ATOMIC_RELAXED);
    futex(&slot.condition, FUTEX_WAKE, MOST);
}

static void *changes(void *number) {
    long me = (long)number;
    struct lock *lock = &locks[own ? me : 0];
    // What a lock for all guards is there for all, too: more than a line.
    int guards = kind == 'g' ? 1 : 0;
    long first = kind == 'g' && !own ? 0 : me;
    pthread_barrier_wait(&together);
    for (int round = 0; round < rounds; round++) {
        work(outside);
        for (int other = 0; kind == 'a' && other < 8; other++) {
            __atomic_fetch_add(&for_all.count, 1, __ATOMIC_RELAXED);
        }
        enter(lock);
        work(inside);
        data[first].sum += round;
        for (int more = 0; more < guards; more++) {
            guarded[first][more].sum++;
        }
        leave(lock);
    }
    return 0;
}

static void *consumes(void *number) {
    lock_slot();
    for (;;) {
        while (!slot.there && !slot.over) {
            wait_for_slot();
        }
        if (slot.over) {
            unlock_slot();
            return 0;
        }
        slot.there = 0;
        slot.taken = 1;
        unlock_slot();
        data[(long)number].sum++;
        work(inside);
        lock_slot();
        slot.taken = 0;
        tell_all();
    }
}

static void produce(void) {
    for (int round = 0; round < rounds; round++) {
        work(outside);
        lock_slot();
        slot.there = 1;
        tell_all();
        while (slot.there || slot.taken) {
            wait_for_slot();
        }
        slot.over = round == rounds - 1;
        unlock_slot();
    }
    tell_all();
}

int main(int count, char **arguments) {
    if (count != 7) {
        return 2;
    }
    int threads = atoi(arguments[1]);
    rounds = atoi(arguments[2]);
    kind = arguments[3][0];
    outside = atoi(arguments[4]);
    inside = atoi(arguments[5]);
    own = atoi(arguments[6]);
    for (int number = 0; number < MOST; number++) {
        switch (kind) {
        case 'm':
        case 'g':
        case 'a':
            pthread_mutex_init(&locks[number].mutex, 0);
            break;
        case 'p':
            pthread_spin_init(&locks[number].spin, 0);
            break;
        case 'w':
            pthread_rwlock_init(&locks[number].rwlock, 0);
            break;
        }
    }
    pthread_barrier_init(&together, 0, threads);
    pthread_t handles[MOST];
    int condition = kind == 'c';
    for (long number = 0; number < threads; number++) {
        pthread_create(&handles[number], 0, condition ? consumes : changes, (void *)number);
    }
    if (condition) {
        produce();
    }
    for (int number = 0; number < threads; number++) {
        pthread_join(handles[number], 0);
    }
    long sum = 0;
    for (int number = 0; number < threads; number++) {
        sum += data[number].sum;
    }
    printf("%ld\n", sum);
    return sum == (condition ? rounds : (long)threads * rounds * (rounds - 1) / 2) ? 0 : 1;
}
