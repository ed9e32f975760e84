/*
 * What the unwinder of a compiler made for glibc asks of the C library, written for musl.
 *
 * GCC's unwinder, built for glibc 2.35 or later, finds the exception tables of an address through _dl_find_object, which musl
 * does not have. Everything it needs can be had from dl_iterate_phdr, which musl does have.
 */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* The layout of glibc's struct dl_find_object on x86-64. */
struct found {
    unsigned long long flags;
    void *start;
    void *end;
    void *link_map;
    void *exception_table;
    unsigned long long reserved[7];
};

struct search {
    uintptr_t address;
    struct found *found;
};

/* Looks at one loaded object; 1 ends the search. */
static int visit(struct dl_phdr_info *object, size_t size, void *argument)
{
    (void)size;
    struct search *search = argument;
    const ElfW(Phdr) *table = NULL;
    int holds_address = 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_GNU_EH_FRAME) {
            table = segment;
        } else if (segment->p_type == PT_LOAD && search->address - start < segment->p_memsz) {
            holds_address = 1;
            search->found->start = (void *)start;
            search->found->end = (void *)(start + segment->p_memsz);
        }
    }
    if (!holds_address || !table)
        return 0;
    search->found->flags = 0;
    search->found->link_map = NULL;
    search->found->exception_table = (void *)(object->dlpi_addr + table->p_vaddr);
    return 1;
}

int _dl_find_object(void *address, struct found *found)
{
    struct search search = { (uintptr_t)address, found };
    return dl_iterate_phdr(visit, &search) ? 0 : -1;
}

/*
 * The unwinder refers to these weakly, and takes the presence of one for the presence of all. In a static program a weak
 * reference pulls nothing in, so it would call address 0: refer to them strongly.
 */
void *const percolog_needed_by_unwinder[] = {
    (void *)pthread_once,       (void *)pthread_mutex_lock,  (void *)pthread_mutex_unlock,
    (void *)pthread_key_create, (void *)pthread_getspecific, (void *)pthread_setspecific,
};
