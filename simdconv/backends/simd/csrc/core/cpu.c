/* What the processor can do, from its feature bits, never from its name. */
#include "internal.h"

#include <unistd.h>

static const char *const names[] = {
#define SC_ISA(name, condition) #name,
#include "../isas.def"
#undef SC_ISA
};
static const int built[] = {
#define SC_ISA(name, condition) (condition) != 0,
#include "../isas.def"
#undef SC_ISA
};

const char *sc_isa_name(int isa) { return isa >= 0 && isa < SC_N_ISAS ? names[isa] : NULL; }
int sc_isa_built(int isa) { return isa >= 0 && isa < SC_N_ISAS && built[isa]; }

int sc_isa_found(int isa) {
    if (!sc_isa_built(isa)) return 0;
#if SC_X86
    __builtin_cpu_init();
    if (isa == SC_ISA_avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (isa == SC_ISA_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               sc_isa_found(SC_ISA_avx2);
#endif
    return 1; /* the baseline is everywhere, and NEON is part of AArch64 */
}

int sc_isa_best(void) {
    int best = 0;
    for (int isa = 0; isa < SC_N_ISAS; isa++)
        if (sc_isa_found(isa)) best = isa;
    return best;
}

static size_t cache_bytes[4] = {0, 32u << 10, 512u << 10, 4u << 20}; /* where nobody tells */

__attribute__((constructor)) static void ask_for_caches(void) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
    static const int names_of_levels[] = {0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE,
                                          _SC_LEVEL3_CACHE_SIZE};
    for (int level = 1; level <= 3; level++) {
        long told = sysconf(names_of_levels[level]);
        if (told > 0) cache_bytes[level] = (size_t)told;
    }
#endif
}

size_t sc_cache_bytes(int level) { return cache_bytes[level >= 1 && level <= 3 ? level : 1]; }
