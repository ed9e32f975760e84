/* Two locks of Concurrency Kit: the functions that src/reclaim/peers/ck_locks.rs declares. The memory is Rust's. */

#include <ck_brlock.h>
#include <ck_spinlock.h>

/* What src/reclaim/peers/ck_locks.rs makes room for. */
_Static_assert(sizeof(struct ck_brlock) <= 16, "room for a lock");
_Static_assert(sizeof(struct ck_brlock_reader) <= 32, "room for a reader");
_Static_assert(sizeof(struct ck_spinlock_mcs) <= 32, "room for a place in the queue");

void percolog_bench_brlock_init(struct ck_brlock *lock)
{
    ck_brlock_init(lock);
}

void percolog_bench_brlock_register(struct ck_brlock *lock, struct ck_brlock_reader *reader)
{
    ck_brlock_read_register(lock, reader);
}

void percolog_bench_brlock_unregister(struct ck_brlock *lock, struct ck_brlock_reader *reader)
{
    ck_brlock_read_unregister(lock, reader);
}

void percolog_bench_brlock_enter(struct ck_brlock *lock, struct ck_brlock_reader *reader)
{
    ck_brlock_read_lock(lock, reader);
}

void percolog_bench_brlock_leave(struct ck_brlock *lock, struct ck_brlock_reader *reader)
{
    (void)lock;
    ck_brlock_read_unlock(reader);
}

void percolog_bench_brlock_read(struct ck_brlock *lock, struct ck_brlock_reader *reader, unsigned long count)
{
    for (; count > 0; count--) {
        ck_brlock_read_lock(lock, reader);
        ck_brlock_read_unlock(reader);
    }
}

void percolog_bench_brlock_write(struct ck_brlock *lock, struct ck_brlock_reader *reader)
{
    (void)reader;
    ck_brlock_write_lock(lock);
    ck_brlock_write_unlock(lock);
}

void percolog_bench_mcs_init(ck_spinlock_mcs_t *lock)
{
    ck_spinlock_mcs_init(lock);
}

void percolog_bench_mcs_register(ck_spinlock_mcs_t *lock, ck_spinlock_mcs_context_t *place)
{
    (void)lock;
    (void)place;
}

void percolog_bench_mcs_unregister(ck_spinlock_mcs_t *lock, ck_spinlock_mcs_context_t *place)
{
    (void)lock;
    (void)place;
}

void percolog_bench_mcs_enter(ck_spinlock_mcs_t *lock, ck_spinlock_mcs_context_t *place)
{
    ck_spinlock_mcs_lock(lock, place);
}

void percolog_bench_mcs_leave(ck_spinlock_mcs_t *lock, ck_spinlock_mcs_context_t *place)
{
    ck_spinlock_mcs_unlock(lock, place);
}

void percolog_bench_mcs_read(ck_spinlock_mcs_t *lock, ck_spinlock_mcs_context_t *place, unsigned long count)
{
    for (; count > 0; count--) {
        ck_spinlock_mcs_lock(lock, place);
        ck_spinlock_mcs_unlock(lock, place);
    }
}

/* Readers exclude each other as well: an update is a section like theirs. */
void percolog_bench_mcs_write(ck_spinlock_mcs_t *lock, ck_spinlock_mcs_context_t *place)
{
    percolog_bench_mcs_read(lock, place, 1);
}
