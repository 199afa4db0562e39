/* The table of kernels, and the two calls that run one: pack and convolve. */
#include "internal.h"

static const sc_unit *const units[] = {
#define SC_ISA(name, condition) SC_UNIT_##name
#if SC_X86
#define SC_UNIT_baseline &sc_unit_baseline,
#define SC_UNIT_avx2 &sc_unit_avx2,
#define SC_UNIT_avx512 &sc_unit_avx512,
#define SC_UNIT_neon NULL,
#elif SC_ARM
#define SC_UNIT_baseline &sc_unit_baseline,
#define SC_UNIT_avx2 NULL,
#define SC_UNIT_avx512 NULL,
#define SC_UNIT_neon &sc_unit_neon,
#else
#define SC_UNIT_baseline &sc_unit_baseline,
#define SC_UNIT_avx2 NULL,
#define SC_UNIT_avx512 NULL,
#define SC_UNIT_neon NULL,
#endif
#include "../isas.def"
#undef SC_ISA
};
enum { PER_UNIT = SC_N_DTYPES * SC_N_RECIPES };

int sc_kernel_count(void) {
    int count = 0;
    for (int isa = 0; isa < SC_N_ISAS; isa++)
        if (units[isa]) count += PER_UNIT;
    return count;
}

const sc_kernel *sc_kernel_at(int index) {
    for (int isa = 0; isa < SC_N_ISAS && index >= 0; isa++) {
        if (!units[isa]) continue;
        if (index < PER_UNIT) return &units[isa]->kernels[index];
        index -= PER_UNIT;
    }
    return NULL;
}

const sc_kernel *sc_kernel_find(sc_algorithm algorithm, sc_layout layout, int isa, sc_dtype dtype) {
    if (!sc_isa_built(isa)) return NULL;
    for (int i = 0; i < PER_UNIT; i++) {
        const sc_kernel *kernel = &units[isa]->kernels[i];
        if (kernel->algorithm == algorithm && kernel->layout == layout && kernel->dtype == dtype)
            return kernel;
    }
    return NULL;
}

double sc_unit_flops(int isa, sc_dtype dtype, ptrdiff_t iterations) {
    return units[isa]->peak_flops(dtype, iterations);
}

/* Below this many multiplications a second thread costs more than it brings. The fuzzer sets it low.
 */
#ifndef SC_WORK_A_THREAD
#define SC_WORK_A_THREAD (1 << 18)
#endif

int sc_threads_for(const sc_problem *p, int threads) {
    double work = (double)p->images * p->inner * p->groups * p->c_out * p->h_out * p->w_out *
                  p->c_in * p->h_f * p->w_f;
    double useful = work / SC_WORK_A_THREAD;
    threads = (int)sc_min(threads, sc_most_threads());
    return useful < 2 || threads < 2 ? 1 : useful < threads ? (int)useful : threads;
}

size_t sc_conv_workspace(const sc_kernel *kernel, const sc_problem *p, int threads, int packed) {
    sc_problem q = sc_merged(p);
    return kernel->workspace(kernel, &q, sc_threads_for(p, threads), packed);
}

int sc_pack(const sc_kernel *kernel, const sc_problem *p, const void *w, void *packed,
            sc_team team) {
    team.threads = sc_threads_for(p, team.threads);
    return kernel->pack_filter(kernel, p, w, packed, team);
}

sc_error sc_conv(const sc_kernel *kernel, const sc_problem *p, const void *x, const void *w,
                 const void *packed, int packed_finite, const void *bias, void *y, sc_team team) {
    sc_problem q = sc_merged(p);
    sc_operands operands = {x, w, packed, bias, y, NULL, packed_finite, team};
    size_t bytes;
    operands.team.threads = sc_threads_for(p, team.threads);
    bytes = kernel->workspace(kernel, &q, operands.team.threads, packed != NULL);
    operands.workspace = sc_alloc(bytes);
    if (bytes && !operands.workspace) return SC_NO_MEMORY;
    kernel->run(kernel, &q, &operands);
    sc_free(operands.workspace);
    return SC_OK;
}
