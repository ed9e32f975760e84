#define RCU_MEMBARRIER
#define PEER(name) percolog_bench_urcu_memb_##name
#include "urcu.h"
