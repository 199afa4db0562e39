/* Micro-kernel "lanes": rows packed, vectors at a run-time distance.
 *
 *   acc[i][j] = sum over runs r, steps k of
 *                   a[(runs[r].k + k)*rows + i] * b[runs[r].x + k*b_step + j*b_vector]
 *
 * Rows are packed filters, vectors are pixels or images where they lie (CHWN, CHWN8, a strip, a
 * matrix). FULL: whole vectors. MASKED: the first columns[j] lanes of vector j are read, nothing
 * past them. NARROW: the last vector has no more than half a register of them, those before are
 * whole. HALVES: the upper half of a vector is b_half elements from its lower half (two pixels of
 * CHWN8 in one register). Per step: `vectors` loads, `rows` broadcasts, rows*vectors FMAs, one
 * prefetch to L2 of what the next output row will read, and, but for NARROW, to L1 of the vectors
 * of a run to come: runs are too short for the hardware to see where the next one starts. A tile
 * of few registers has few FMAs a step to hide those behind: there, not for windows in L1. */
#define ASKS_ALWAYS (VREGS > 16)
#ifndef SC_LANES_MODES
#define SC_LANES_MODES
/* DENSE: full or masked vectors side by side, EVEN: besides, runs of one length whose filters follow
 * one another; both unrolled */
enum {
    LANES_FULL,
    LANES_MASKED,
    LANES_NARROW,
    LANES_HALVES,
    LANES_DENSE,
    LANES_DENSE_MASKED,
    LANES_EVEN,
    LANES_EVEN_MASKED,
    N_LANES_MODES
};
#endif

/* What stays in scalar registers over the runs */
typedef struct {
    const sc_run *end;
    ptrdiff_t step; /* bytes */
    ptrdiff_t half, ahead_step;
    int far;             /* what steps ask for is a line or more apart */
    ptrdiff_t soon_step; /* bytes, dense: three steps side by side ask for the lines of a tile */
} FN(lanes_steps);

/* What a run is at */
typedef struct {
    const T *a, *b[TILE_VECTORS], *ahead, *soon;
} FN(lanes_at);

SC_INLINE vec FN(lanes_load)(const T *b, ptrdiff_t half, const int mode, const int last,
                             mask valid) {
    if (mode == LANES_HALVES) return v_load_halves(b, b + half);
    if (mode == LANES_NARROW && last) return v_load_low_mask(b, valid);
    if (mode == LANES_MASKED || mode == LANES_DENSE_MASKED || mode == LANES_EVEN_MASKED)
        return v_load_mask(b, valid);
    return v_load(b);
}

/* `turns` of `steps` each; `asks`: for vectors of a run to come */
SC_INLINE void FN(lanes_turns)(const FN(tile) *t, FN(lanes_at) *at, ptrdiff_t turns,
                               const FN(lanes_steps) *s, const int steps, const int rows,
                               const int vectors, const int mode, const int asks, const mask *valid,
                               vec (*acc)[TILE_VECTORS]) {
    const int dense = mode >= LANES_DENSE;
    const T *a = at->a, *b[TILE_VECTORS], *ahead = at->ahead, *soon = at->soon;
#pragma GCC unroll 2
    for (int j = 0; j < vectors; j++) b[j] = at->b[j];
    for (; turns > 0; turns--) {
        /* or where they end up would be computed before the loop, and kept on the stack */
        if (VUNROLLS) __asm__("" : "+r"(a), "+r"(b[0]), "+r"(ahead));
#pragma GCC unroll 4
        for (int u = 0; u < steps; u++) {
            vec bv[TILE_VECTORS];
            if (steps > 1) READ_AGAIN(); /* one step after the other */
#pragma GCC unroll 2
            for (int j = 0; j < vectors; j++) {
                const T *from = dense ? b[0] + j * VL : b[j];
                bv[j] = FN(lanes_load)((const T *)((const char *)from + u * s->step), s->half, mode,
                                       j == vectors - 1, valid[j]);
            }
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                vec av = v_bcast(a + u * rows + i);
#pragma GCC unroll 2
                for (int j = 0; j < vectors; j++)
                    acc[i][j] = mode == LANES_NARROW && j == vectors - 1
                                    ? v_fma_low(av, bv[j], acc[i][j])
                                    : v_fma_into(av, bv[j], acc[i][j]);
            }
            if (u == 0) {
                __builtin_prefetch(ahead, 0, 2);
                if (steps > 1 && s->far) {
                    __builtin_prefetch(ahead + s->ahead_step, 0, 2);
                    __builtin_prefetch(ahead + 2 * s->ahead_step, 0, 2);
                }
                ahead += steps * s->ahead_step;
            }
            if (!asks) continue;
            if (dense) {
                __builtin_prefetch((const char *)soon + u * s->soon_step);
            } else {
#pragma GCC unroll 2
                for (int j = 0; j < vectors; j++) __builtin_prefetch(soon + j * t->b_vector);
                soon = (const T *)((const char *)soon + s->step);
            }
        }
        if (asks && dense) soon = (const T *)((const char *)soon + steps * s->step);
        a += steps * rows;
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++)
            if (j == 0 || !dense) b[j] = (const T *)((const char *)b[j] + steps * s->step);
    }
    at->a = a;
    at->ahead = ahead;
    at->soon = soon;
#pragma GCC unroll 2
    for (int j = 0; j < vectors; j++) at->b[j] = b[j];
}

/* `to_ask`: rows of the result to be asked for, one a run */
SC_INLINE void FN(lanes_runs)(const FN(tile) *t, const sc_run *run, const FN(lanes_steps) *s,
                              const int rows, const int vectors, const int mode, const int asks,
                              int to_ask, const mask *valid, vec (*acc)[TILE_VECTORS]) {
    enum { LATER = 4 }; /* runs from one to that whose vectors are asked for in L1 */
    const int even = mode == LANES_EVEN || mode == LANES_EVEN_MASKED;
    const int steps = mode >= LANES_DENSE ? 3 : 1;
    const T *to = t->c;
    const ptrdiff_t turns = t->len / 3, rest = t->len % 3;
    FN(lanes_at) at;
    at.a = t->a;
    for (; run < s->end; run++) {
        READ_AGAIN();
        if (asks && ASKS_ALWAYS && rows * vectors > FEW_LINES && to_ask > 0) {
            for (int j = 0; j < vectors; j++) __builtin_prefetch(to + j * t->c_vector, 1);
            to += t->c_row;
            to_ask--;
        }
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) at.b[j] = t->b + run->x + j * t->b_vector;
        at.ahead = at.b[0] + t->ahead;
        at.soon = asks ? t->b + (s->end - run > LATER ? run + LATER : t->runs)->x : NULL;
        if (even) {
            FN(lanes_turns)(t, &at, turns, s, 3, rows, vectors, mode, asks, valid, acc);
            FN(lanes_turns)(t, &at, rest, s, 1, rows, vectors, mode, asks, valid, acc);
            continue;
        }
        const ptrdiff_t left =
            steps > 1 ? (ptrdiff_t)((uint32_t)run->len / (uint32_t)steps) : run->len;
        at.a = t->a + run->k * rows;
        FN(lanes_turns)(t, &at, left, s, steps, rows, vectors, mode, asks, valid, acc);
        if (steps > 1)
            FN(lanes_turns)(t, &at, run->len - left * steps, s, 1, rows, vectors, mode, asks, valid,
                            acc);
    }
}

/* `whole`: all vectors are */
SC_INLINE void FN(lanes_finish)(const FN(tile) *t, int rows, int vectors, int whole,
                                vec (*acc)[TILE_VECTORS]) {
    FN(tile_activate_all)(t, rows, vectors, acc);
    if (VL == LINE_LEN && t->store == STORE_LINES)
        FN(tile_store_lines)(t, rows, vectors, whole, acc);
    else FN(tile_store_rows)(t, rows, vectors, acc);
}

SC_INLINE void FN(lanes_kernel)(const FN(tile) *t, const int rows, const int vectors,
                                const int mode) {
    const sc_run *run = t->runs;
    const FN(lanes_steps) s = {run + t->count,
                               t->b_step * (ptrdiff_t)sizeof(T),
                               t->b_half,
                               t->ahead_step,
                               t->ahead_step > LINE_LEN / 2,
                               sc_max(t->b_step, VL) * (ptrdiff_t)sizeof(T)};
    vec acc[TILE_ROWS][TILE_VECTORS];
    mask valid[TILE_VECTORS];
    for (int j = 0; j < vectors; j++) valid[j] = v_mask(t->columns[j]);
    FN(tile_start)(t, rows, vectors, acc);
    const int many = ASKS_ALWAYS && mode != LANES_NARROW && rows * vectors > FEW_LINES;
    const int whole =
        mode == LANES_FULL || mode == LANES_HALVES || mode == LANES_DENSE || mode == LANES_EVEN;
    int to_ask = 0;
    if (FN(asks_for_result)(t)) {
        if (many && t->count >= 2 * rows) to_ask = rows;
        else FN(ask_for_result)(t, rows, vectors);
    }
    if (mode != LANES_NARROW && (ASKS_ALWAYS || t->asks))
        FN(lanes_runs)(t, run, &s, rows, vectors, mode, 1, to_ask, valid, acc);
    else FN(lanes_runs)(t, run, &s, rows, vectors, mode, 0, 0, valid, acc);
    FN(lanes_finish)(t, rows, vectors, whole, acc);
}

#define LANES_KERNEL(rows)                                                                         \
    static void FN(full_##rows##x1)(const FN(tile) *t) {                                           \
        FN(lanes_kernel)(t, rows, 1, LANES_FULL);                                                  \
    }                                                                                              \
    static void FN(full_##rows##x2)(const FN(tile) *t) {                                           \
        FN(lanes_kernel)(t, rows, 2, LANES_FULL);                                                  \
    }                                                                                              \
    static void FN(masked_##rows##x1)(const FN(tile) *t) {                                         \
        FN(lanes_kernel)(t, rows, 1, LANES_MASKED);                                                \
    }                                                                                              \
    static void FN(masked_##rows##x2)(const FN(tile) *t) {                                         \
        FN(lanes_kernel)(t, rows, 2, LANES_MASKED);                                                \
    }
FOR_TILE_ROWS(LANES_KERNEL)
#undef LANES_KERNEL
#if VNARROW
#define LANES_KERNEL(rows)                                                                         \
    static void FN(narrow_lanes_##rows##x1)(const FN(tile) *t) {                                   \
        FN(lanes_kernel)(t, rows, 1, LANES_NARROW);                                                \
    }                                                                                              \
    static void FN(narrow_lanes_##rows##x2)(const FN(tile) *t) {                                   \
        FN(lanes_kernel)(t, rows, 2, LANES_NARROW);                                                \
    }
FOR_TILE_ROWS(LANES_KERNEL)
#undef LANES_KERNEL
#define LANES_NARROW_ENTRY(rows) {FN(narrow_lanes_##rows##x1), FN(narrow_lanes_##rows##x2)}
#else
#define LANES_NARROW_ENTRY(rows) {NULL, NULL}
#endif
#if VUNROLLS
#define LANES_KERNEL_OF(name, rows, mode)                                                          \
    static void FN(name##_##rows##x1)(const FN(tile) *t) { FN(lanes_kernel)(t, rows, 1, mode); }   \
    static void FN(name##_##rows##x2)(const FN(tile) *t) { FN(lanes_kernel)(t, rows, 2, mode); }
#define LANES_KERNEL(rows)                                                                         \
    LANES_KERNEL_OF(dense, rows, LANES_DENSE)                                                      \
    LANES_KERNEL_OF(dense_masked, rows, LANES_DENSE_MASKED)                                        \
    LANES_KERNEL_OF(even, rows, LANES_EVEN)                                                        \
    LANES_KERNEL_OF(even_masked, rows, LANES_EVEN_MASKED)
FOR_TILE_ROWS(LANES_KERNEL)
#undef LANES_KERNEL
#define LANES_UNROLLED_ENTRY(rows)                                                                 \
    {FN(dense_##rows##x1), FN(dense_##rows##x2)},                                                  \
        {FN(dense_masked_##rows##x1), FN(dense_masked_##rows##x2)},                                \
        {FN(even_##rows##x1), FN(even_##rows##x2)}, {                                              \
        FN(even_masked_##rows##x1), FN(even_masked_##rows##x2)                                     \
    }
#else
#define LANES_UNROLLED_ENTRY(rows)                                                                 \
    {NULL, NULL}, {NULL, NULL}, {NULL, NULL}, { NULL, NULL }
#endif
#if VHALVES
#define LANES_KERNEL(rows)                                                                         \
    static void FN(halves_##rows##x1)(const FN(tile) *t) {                                         \
        FN(lanes_kernel)(t, rows, 1, LANES_HALVES);                                                \
    }                                                                                              \
    static void FN(halves_##rows##x2)(const FN(tile) *t) {                                         \
        FN(lanes_kernel)(t, rows, 2, LANES_HALVES);                                                \
    }
FOR_TILE_ROWS(LANES_KERNEL)
#undef LANES_KERNEL
#define LANES_HALVES_ENTRY(rows) {FN(halves_##rows##x1), FN(halves_##rows##x2)}
#else
#define LANES_HALVES_ENTRY(rows) {NULL, NULL}
#endif

#define LANES_ENTRY(rows)                                                                          \
    {{FN(full_##rows##x1), FN(full_##rows##x2)},                                                   \
     {FN(masked_##rows##x1), FN(masked_##rows##x2)},                                               \
     LANES_NARROW_ENTRY(rows),                                                                     \
     LANES_HALVES_ENTRY(rows),                                                                     \
     LANES_UNROLLED_ENTRY(rows)},
static void (*const FN(lanes_kernels)[TILE_ROWS][N_LANES_MODES][TILE_VECTORS])(const FN(tile) *) = {
    FOR_TILE_ROWS(LANES_ENTRY)};
#undef LANES_ENTRY
#undef LANES_NARROW_ENTRY
#undef LANES_HALVES_ENTRY
#undef LANES_UNROLLED_ENTRY

/* how a tile is read of which the last vector may be partly filled */
static int FN(lanes_mode)(const FN(tile) *t, int vectors) {
    const ptrdiff_t last = t->columns[vectors - 1];
    if (VUNROLLS && t->b_vector == VL) {
        const int even = t->len > 0;
        if (last == VL) return even ? LANES_EVEN : LANES_DENSE;
        return even ? LANES_EVEN_MASKED : LANES_DENSE_MASKED;
    }
    if (last == VL) return LANES_FULL;
    return VNARROW && 2 * last <= VL ? LANES_NARROW : LANES_MASKED;
}
