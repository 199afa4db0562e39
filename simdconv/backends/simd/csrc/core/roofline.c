/* The two peaks of a roofline, measured: FMAs from registers, and bytes from memory. */
#include "internal.h"

#include <stdlib.h>
#include <time.h>

double sc_unit_flops(int isa, sc_dtype dtype, ptrdiff_t iterations);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
    int isa;
    sc_dtype dtype;
    float *to;
    const float *from;
    ptrdiff_t n, tasks;
} measured;

enum { ITERATIONS = 2000000, REPEATS = 5, TRIAD_FLOATS = 1 << 24 };

static void flops_task(void *context, ptrdiff_t task, int thread) {
    const measured *m = context;
    (void)task;
    (void)thread;
    sc_unit_flops(m->isa, m->dtype, ITERATIONS);
}

double sc_peak_gflops(int isa, sc_dtype dtype, int threads) {
    measured m = {isa, dtype, NULL, NULL, 0, threads};
    sc_team team = {threads, 0};
    double best = 0, each;
    if (!sc_isa_found(isa)) return 0;
    each = sc_unit_flops(isa, dtype, 1) * ITERATIONS;
    for (int i = 0; i < REPEATS; i++) {
        double start = now(), rate;
        sc_parallel(threads, team, flops_task, &m);
        rate = each * threads / (now() - start) / 1e9;
        best = rate > best ? rate : best;
    }
    return best;
}

static void triad_task(void *context, ptrdiff_t task, int thread) {
    const measured *m = context;
    ptrdiff_t first = sc_part(m->n, m->tasks, task), last = sc_part(m->n, m->tasks, task + 1);
    (void)thread;
    for (ptrdiff_t i = first; i < last; i++) m->to[i] = m->to[i] + 3.0f * m->from[i];
}

double sc_bandwidth(int threads) {
    measured m = {0, SC_F32, NULL, NULL, TRIAD_FLOATS, threads};
    sc_team team = {threads, 0};
    float *block = sc_alloc(2 * sizeof(float) * TRIAD_FLOATS);
    double best = 0;
    if (!block) return 0;
    m.to = block;
    m.from = block + TRIAD_FLOATS;
    for (ptrdiff_t i = 0; i < 2 * (ptrdiff_t)TRIAD_FLOATS; i++) block[i] = 1;
    for (int i = 0; i < REPEATS; i++) {
        double start = now(), rate;
        sc_parallel(threads, team, triad_task, &m);
        rate = 3.0 * sizeof(float) * TRIAD_FLOATS / (now() - start) / 1e9;
        best = rate > best ? rate : best;
    }
    sc_free(block);
    return best;
}
