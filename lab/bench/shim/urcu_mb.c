#define RCU_MB
#define PEER(name) percolog_bench_urcu_mb_##name
#include "urcu.h"
