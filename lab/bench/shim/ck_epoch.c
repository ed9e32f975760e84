/* The epochs of Concurrency Kit: the functions that src/reclaim/peers/ck_epoch.rs declares. */

#include <stdlib.h>

#include <ck_epoch.h>

/* A record may not be freed before its epoch; so the epoch keeps them all. */
struct member {
    ck_epoch_record_t record;
    struct member *next;
};

struct domain {
    ck_epoch_t epoch;
    struct member *members;
};

/* Returns NULL if there is no memory. */
struct domain *percolog_bench_ck_epoch_new(void)
{
    struct domain *domain;

    if (posix_memalign((void **)&domain, CK_MD_CACHELINE * 2, sizeof(*domain)) != 0)
        return NULL;
    ck_epoch_init(&domain->epoch);
    domain->members = NULL;
    return domain;
}

/* Returns NULL if there is no memory. */
struct member *percolog_bench_ck_epoch_register(struct domain *domain)
{
    struct member *member;

    if (posix_memalign((void **)&member, CK_MD_CACHELINE * 2, sizeof(*member)) != 0)
        return NULL;
    ck_epoch_register(&domain->epoch, &member->record, NULL);
    do {
        member->next = ck_pr_load_ptr(&domain->members);
    } while (!ck_pr_cas_ptr(&domain->members, member->next, member));
    return member;
}

void percolog_bench_ck_epoch_enter(struct member *member)
{
    ck_epoch_begin(&member->record, NULL);
}

void percolog_bench_ck_epoch_leave(struct member *member)
{
    ck_epoch_end(&member->record, NULL);
}

void percolog_bench_ck_epoch_read(struct member *member, unsigned long count)
{
    for (; count > 0; count--) {
        ck_epoch_begin(&member->record, NULL);
        ck_epoch_end(&member->record, NULL);
    }
}

/* The object starts with room for what chains it: see struct Node in Rust. */
void percolog_bench_ck_epoch_call(struct member *member, ck_epoch_entry_t *object, ck_epoch_cb_t *end)
{
    ck_epoch_call(&member->record, object, end);
}

void percolog_bench_ck_epoch_poll(struct member *member)
{
    ck_epoch_poll(&member->record);
}

void percolog_bench_ck_epoch_wait(struct member *member)
{
    ck_epoch_synchronize(&member->record);
}

/* Frees everything that was called. Nobody uses any member. */
void percolog_bench_ck_epoch_finish(struct domain *domain)
{
    struct member *member;

    for (member = domain->members; member != NULL; member = member->next)
        ck_epoch_barrier(&member->record);
}

void percolog_bench_ck_epoch_free(struct domain *domain)
{
    struct member *next, *member = domain->members;

    for (; member != NULL; member = next) {
        next = member->next;
        free(member);
    }
    free(domain);
}
