/* The peers of liburcu: the functions that src/reclaim/peers/urcu.rs declares, for the flavour that the including file
 * has chosen, with the prefix PEER(). A section is one call from Rust, or one call for many of them. */

/* The readers' side is inlined, as in programs in C. It asks for a licence that the LGPL gets along with: MIT does. */
#define _LGPL_SOURCE
#include <urcu.h>

void PEER(register)(void)
{
    rcu_register_thread();
}

void PEER(unregister)(void)
{
    rcu_unregister_thread();
}

void PEER(enter)(void)
{
    rcu_read_lock();
}

void PEER(leave)(void)
{
    rcu_read_unlock();
}

void PEER(read)(unsigned long count)
{
    for (; count > 0; count--) {
        rcu_read_lock();
        rcu_read_unlock();
    }
}

/* The object starts with room for what chains it: see struct Node in Rust. */
void PEER(call)(struct rcu_head *object, void (*end)(struct rcu_head *))
{
    call_rcu(object, end);
}

void PEER(wait)(void)
{
    synchronize_rcu();
}

/* Returns when everything that was called has run. */
void PEER(finish)(void)
{
    rcu_barrier();
}
