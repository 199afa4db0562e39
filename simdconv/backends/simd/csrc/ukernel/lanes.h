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
enum { LANES_FULL, LANES_MASKED, LANES_NARROW, LANES_HALVES, N_LANES_MODES };
#endif

/* What stays in scalar registers over the runs */
typedef struct {
    const sc_run *end;
    ptrdiff_t step, half, ahead_step;
} FN(lanes_steps);

/* one run; `asks`: for vectors of a run to come */
SC_INLINE void FN(lanes_run)(const FN(tile) *t, const sc_run *run, const FN(lanes_steps) s,
                             const int rows, const int vectors, const int mode, const int asks,
                             const mask *valid, vec (*acc)[TILE_VECTORS]) {
    const int narrow = mode == LANES_NARROW;
    enum { LATER = 4 }; /* runs from one to that whose vectors are asked for in L1 */
    const T *a = t->a + run->k * rows;
    const T *b[TILE_VECTORS];
    const T *ahead = t->b + run->x + t->ahead, *soon = NULL;
#pragma GCC unroll 2
    for (int j = 0; j < vectors; j++) b[j] = t->b + run->x + j * t->b_vector;
    if (asks) soon = t->b + (s.end - run > LATER ? run + LATER : t->runs)->x;
    for (ptrdiff_t k = run->len; k > 0; k--) {
        vec bv[TILE_VECTORS];
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) {
            if (mode == LANES_HALVES) bv[j] = v_load_halves(b[j], b[j] + s.half);
            else if (narrow && j == vectors - 1) bv[j] = v_load_low_mask(b[j], valid[j]);
            else if (mode == LANES_MASKED) bv[j] = v_load_mask(b[j], valid[j]);
            else bv[j] = v_load(b[j]);
            b[j] += s.step;
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            vec av = v_bcast(a + i);
#pragma GCC unroll 2
            for (int j = 0; j < vectors; j++)
                acc[i][j] = narrow && j == vectors - 1 ? v_fma_low(av, bv[j], acc[i][j])
                                                       : v_fma(av, bv[j], acc[i][j]);
        }
        a += rows;
        __builtin_prefetch(ahead, 0, 2);
        ahead += s.ahead_step;
        if (!asks) continue;
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) __builtin_prefetch(soon + j * t->b_vector);
        soon += s.step;
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
    const FN(lanes_steps) s = {run + t->count, t->b_step, t->b_half, t->ahead_step};
    vec acc[TILE_ROWS][TILE_VECTORS];
    mask valid[TILE_VECTORS];
    for (int j = 0; j < vectors; j++) valid[j] = v_mask(t->columns[j]);
    FN(tile_start)(t, rows, vectors, acc);
    const int many = ASKS_ALWAYS && mode != LANES_NARROW && rows * vectors > FEW_LINES;
    const T *to = t->c;
    int left = 0; /* rows of the result to be asked for, one a run */
    if (FN(asks_for_result)(t)) {
        if (many && t->count >= 2 * rows) left = rows;
        else FN(ask_for_result)(t, rows, vectors);
    }
    if (mode != LANES_NARROW && (ASKS_ALWAYS || t->asks)) {
        for (; run < s.end; run++) {
            READ_AGAIN();
            if (many && left > 0) {
                for (int j = 0; j < vectors; j++) __builtin_prefetch(to + j * t->c_vector, 1);
                to += t->c_row;
                left--;
            }
            FN(lanes_run)(t, run, s, rows, vectors, mode, 1, valid, acc);
        }
    } else {
        for (; run < s.end; run++) {
            READ_AGAIN();
            FN(lanes_run)(t, run, s, rows, vectors, mode, 0, valid, acc);
        }
    }
    FN(lanes_finish)(t, rows, vectors, mode != LANES_MASKED && mode != LANES_NARROW, acc);
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
     LANES_HALVES_ENTRY(rows)},
static void (*const FN(lanes_kernels)[TILE_ROWS][N_LANES_MODES][TILE_VECTORS])(const FN(tile) *) = {
    FOR_TILE_ROWS(LANES_ENTRY)};
#undef LANES_ENTRY
#undef LANES_NARROW_ENTRY
#undef LANES_HALVES_ENTRY

/* how a tile is read of which the last vector may be partly filled */
static int FN(lanes_mode)(const FN(tile) *t, int vectors) {
    const ptrdiff_t last = t->columns[vectors - 1];
    if (last == VL) return LANES_FULL;
    return VNARROW && 2 * last <= VL ? LANES_NARROW : LANES_MASKED;
}
