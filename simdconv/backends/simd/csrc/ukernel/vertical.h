/* Micro-kernel "vertical": one vector an output, for groups of few filters.
 *
 *   acc[i] = sum over inputs c, runs r, taps u of
 *                weight(a + c*a_input + runs[r].k + u*a_row) *
 *                vector(c, b + runs[r].x + u*b_step + i*b_vector)
 *
 * Outputs i follow one another along the axis that the taps slide along: rows of NCHW, CHWN and
 * CHWN8, where a weight is one element for all lanes (BY_FILTER; BY_PAIR: of two filters, a_filter
 * apart, that share the vectors; `narrow`: half a register of lanes); columns of NHWC, where each lane
 * is a channel with a weight of its own (BY_LANE). There is one input for all that, or, where the
 * inputs of a vector's groups lie within a vector, as many as a group has, for each of which what
 * is loaded is permuted (BY_PERMUTED_LANE). Where outputs are one or two taps apart, three
 * or five taps share their vectors: each is loaded once for all the outputs that want it. The sum
 * of an output runs over the same products in the same order however many outputs a tile has.
 * Per step of three taps and eight rows: 10 loads, 3 weights, 24 FMAs, of a pair 6 and 48. */
#define VERTICAL_ROWS 8
#define VERTICAL_TAPS (VREGS > 16 ? 5 : 3) /* with more, weights and sums would spill */
#define VERTICAL_PAIRS (VREGS > 16)        /* likewise, of 16 sums */
#ifndef SC_VERTICAL_WEIGHTS
#define SC_VERTICAL_WEIGHTS
enum { BY_FILTER, BY_PAIR, BY_LANE, BY_PERMUTED_LANE, N_VERTICAL_WEIGHTS };
#define IS_BY_LANE(weights) ((weights) == BY_LANE || (weights) == BY_PERMUTED_LANE)
#define FOR_VERTICAL_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#endif

/* `taps` taps, outputs `stride` taps apart (0: anything apart; one tap) */
SC_INLINE void FN(vertical_taps)(const FN(tile) *t, const int rows, const int taps,
                                 const int stride, const int weights, const int narrow,
                                 vec_index index, const T *a, const T *b,
                                 vec (*acc)[TILE_VECTORS]) {
    const ptrdiff_t step = stride ? t->b_step : t->b_vector;
    const int apart = stride ? stride : 1, vectors = (rows - 1) * apart + taps;
    vec w[5], other[5];
#pragma GCC unroll 5
    for (int u = 0; u < taps; u++) {
        w[u] = IS_BY_LANE(weights) ? v_load(a) : v_bcast(a);
        if (weights == BY_PAIR) other[u] = v_bcast(a + t->a_filter);
        a += t->a_row;
    }
#pragma GCC unroll 20
    for (int i = 0; i < vectors; i++) {
        vec x = narrow ? v_load_low(b) : v_load(b);
        if (weights == BY_PERMUTED_LANE) x = v_permute(x, index);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const int u = i - r * apart;
            if (u < 0 || u >= taps) continue;
            acc[r][0] = narrow ? v_fma_low(w[u], x, acc[r][0]) : v_fma(w[u], x, acc[r][0]);
            if (weights != BY_PAIR) continue;
            acc[r][1] = narrow ? v_fma_low(other[u], x, acc[r][1]) : v_fma(other[u], x, acc[r][1]);
        }
        b += step;
    }
}

/* The sum over one input. Each distance between outputs has a loop of its own: in one the compiler
 * would join what they have in common, and spill. */
SC_INLINE void FN(vertical_sum)(const FN(tile) *t, const int rows, const int weights,
                                const int narrow, const int apart, vec_index index, const T *weight,
                                vec (*acc)[TILE_VECTORS]) {
    const int most = narrow && weights == BY_PAIR ? 3 : VERTICAL_TAPS;
    const ptrdiff_t a_row = t->a_row, b_step = t->b_step;
    for (const sc_run *run = t->runs, *end = run + t->count; run < end; run++) {
        const T *a = weight + run->k, *b = t->b + run->x;
        for (ptrdiff_t left = t->len, taken; left > 0;
             left -= taken, a += taken * a_row, b += taken * b_step) {
            taken = !apart || left < 3 ? 1 : most < 5 || left < 5 || left == 6 ? 3 : 5;
            if (taken == 1) FN(vertical_taps)(t, rows, 1, 0, weights, narrow, index, a, b, acc);
            else if (most < 5 || taken == 3)
                FN(vertical_taps)(t, rows, 3, apart, weights, narrow, index, a, b, acc);
            else FN(vertical_taps)(t, rows, 5, apart, weights, narrow, index, a, b, acc);
        }
    }
}

SC_INLINE void FN(vertical_kernel)(const FN(tile) *t, const int rows, const int weights,
                                   const int narrow) {
    const int filters = weights == BY_PAIR ? 2 : 1;
    vec acc[VERTICAL_ROWS][TILE_VECTORS];
    vec_index index = v_index((const int[VL]){0});
    FN(tile_start)(t, rows, filters, acc);
    if (FN(asks_for_result)(t)) FN(ask_for_result)(t, rows, filters);
    for (ptrdiff_t c = 0; c < (weights == BY_PERMUTED_LANE ? t->inputs : 1); c++) {
        const T *weight = t->a + c * t->a_input;
        if (weights == BY_PERMUTED_LANE) index = t->indices[c];
        if (t->b_vector == t->b_step)
            FN(vertical_sum)(t, rows, weights, narrow, 1, index, weight, acc);
        else if (t->b_vector == 2 * t->b_step)
            FN(vertical_sum)(t, rows, weights, narrow, 2, index, weight, acc);
        else FN(vertical_sum)(t, rows, weights, narrow, 0, index, weight, acc);
    }
    if (t->bias) {
#pragma GCC unroll 2
        for (int j = 0; j < filters; j++) {
            const vec bias = IS_BY_LANE(weights) ? v_load_mask(t->bias, v_mask(t->columns[0]))
                                                 : v_bcast(t->bias + j);
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++) acc[i][j] = v_add(acc[i][j], bias);
        }
    }
    FN(tile_activate_sums)(t, rows, filters, acc);
    FN(tile_store_rows)(t, rows, filters, acc);
}

#define VERTICAL_KERNEL(name, rows, weights, narrow)                                               \
    static void FN(name##_##rows)(const FN(tile) *t) {                                             \
        FN(vertical_kernel)(t, rows, weights, narrow);                                             \
    }
#define VERTICAL_KERNELS(rows)                                                                     \
    VERTICAL_KERNEL(by_filter, rows, BY_FILTER, 0)                                                 \
    VERTICAL_KERNEL(by_lane, rows, BY_LANE, 0)                                                     \
    VERTICAL_KERNEL(by_permuted_lane, rows, BY_PERMUTED_LANE, 0)
FOR_VERTICAL_ROWS(VERTICAL_KERNELS)
#undef VERTICAL_KERNELS
#if VERTICAL_PAIRS
#define VERTICAL_KERNELS(rows) VERTICAL_KERNEL(by_pair, rows, BY_PAIR, 0)
FOR_VERTICAL_ROWS(VERTICAL_KERNELS)
#undef VERTICAL_KERNELS
#define BY_PAIR_ENTRY(rows) FN(by_pair_##rows)
#else
#define BY_PAIR_ENTRY(rows) NULL
#endif
#if VNARROW
#define VERTICAL_KERNELS(rows)                                                                     \
    VERTICAL_KERNEL(narrow_filter, rows, BY_FILTER, 1)                                             \
    VERTICAL_KERNEL(narrow_pair, rows, BY_PAIR, 1)
FOR_VERTICAL_ROWS(VERTICAL_KERNELS)
#undef VERTICAL_KERNELS
#define NARROW_ENTRY(rows) {FN(narrow_filter_##rows), FN(narrow_pair_##rows), NULL, NULL}
#else
#define NARROW_ENTRY(rows) {NULL, NULL, NULL, NULL}
#endif
#undef VERTICAL_KERNEL
#define VERTICAL_ENTRY(rows)                                                                       \
    {{FN(by_filter_##rows), BY_PAIR_ENTRY(rows), FN(by_lane_##rows), FN(by_permuted_lane_##rows)}, \
     NARROW_ENTRY(rows)},
/* by rows, whether narrow, weights */
static void (*const FN(vertical_kernels)[VERTICAL_ROWS][2][N_VERTICAL_WEIGHTS])(
    const FN(tile) *) = {FOR_VERTICAL_ROWS(VERTICAL_ENTRY)};
#undef VERTICAL_ENTRY
#undef NARROW_ENTRY
#undef BY_PAIR_ENTRY
