/* Micro-kernel "rows": rows at a run-time distance, vectors packed.
 *
 *   acc[i][j] = sum over runs r, steps k of
 *                   a[runs[r].x + i*a_row + k*a_step] * b[(runs[r].k + k)*COLUMNS + j]
 *
 * Rows are pixels of an image, strip or matrix (vectors: packed filters), or filters where they
 * lie (vectors: a packed panel of pixels). Per step: `vectors` loads, `rows` broadcasts,
 * rows*vectors FMAs, one prefetch: of what the next output row or tile will read and this one did
 * not, or, with nothing to ask for, of what is read; in the first steps one of the result besides,
 * where it has many lines. UNIT and BESIDE: four steps a turn, one or two prefetches. x86 reaches
 * five rows from one pointer (distances 0, 1, 2, 4 scaled, 3 in a second index), so three pointers
 * and two indices serve 14 rows; six take two pointers, three rows each, so that a distance fits
 * beside the index. AArch64 has a pointer a row. Reads those elements of a and packed vectors of b,
 * nothing past them. No alignment is assumed. */

#if SC_X86
#define ROWS_A_POINTER (VREGS > 16 ? 5 : 3)
#define FAR_ROW (VREGS > 16 ? 3 : 2)
#define ROWS_POINTERS (VREGS > 16 ? 3 : 2)
#define KEEP(v) __asm__("" : "+v"(v))
/* the compiler would make one pointer a row, and spill them */
#if VREGS > 16
#define KEEP_POINTERS(p) __asm__("" : "+r"(p[0]), "+r"(p[1]), "+r"(p[2]))
#else
#define KEEP_POINTERS(p) __asm__("" : "+r"(p[0]), "+r"(p[1]))
#endif
#define ROW(i)                                                                                     \
    ((const T *)((const char *)p[(i) / ROWS_A_POINTER] +                                           \
                 ((i) % ROWS_A_POINTER == FAR_ROW ? far : (i) % ROWS_A_POINTER * row)))
#else
#define ROWS_A_POINTER 1
#define FAR_ROW 0
#define ROWS_POINTERS 14
#define KEEP(v) ((void)0)
#define KEEP_POINTERS(p) ((void)0)
#define ROW(i) (p[i])
#endif

#ifndef SC_ROWS_MODES
#define SC_ROWS_MODES
/* ANY distance from step to step; DOTS; NARROW: the last vector half a register; unrolled, steps
 * side by side: UNIT, what is asked for moves at a pace of its own; BESIDE, at theirs */
enum { ROWS_ANY, ROWS_DOTS, ROWS_NARROW, ROWS_UNIT, ROWS_BESIDE, N_ROWS_MODES };
#endif

SC_INLINE void FN(rows_finish)(const FN(tile) *t, int rows, int vectors, vec (*acc)[TILE_VECTORS]) {
    FN(tile_activate_all)(t, rows, vectors, acc);
    if (t->store == STORE_ROWS) FN(tile_store_rows)(t, rows, vectors, acc);
    else FN(tile_store_block)(t, rows, vectors, acc);
}

/* What a run is at, and how far its steps go */
typedef struct {
    const T *p[ROWS_POINTERS], *b, *ask;
    ptrdiff_t row, far, step; /* bytes */
} FN(rows_steps);

/* Sums at the start of a run */
SC_INLINE void FN(rows_run)(const FN(tile) *t, const sc_run *run, const int vectors,
                            FN(rows_steps) *s) {
    s->b = t->b + run->k * (vectors * VL);
#pragma GCC unroll 16
    for (int i = 0; i < ROWS_POINTERS; i++) s->p[i] = t->a + run->x + i * ROWS_A_POINTER * t->a_row;
    s->ask = t->a + run->x + t->ahead;
}

/* `k` steps of it. `to`: each step asks for a line of the result, too, these `to_step` elements
 * apart, or NULL. `narrow`: the last vector has no more valid lanes than half a register; its FMAs
 * broadcast for themselves, which is faster than to share a broadcast with the whole vector. */
SC_INLINE void FN(rows_sums)(FN(rows_steps) *s, ptrdiff_t k, ptrdiff_t ask_step, const T *to,
                             ptrdiff_t to_step, const int rows, const int vectors, const int narrow,
                             vec (*acc)[TILE_VECTORS]) {
    const ptrdiff_t row = s->row, far = s->far, step = s->step;
    const T *p[ROWS_POINTERS], *b = s->b, *ask = s->ask;
    (void)row, (void)far; /* AArch64 has a pointer a row */
#pragma GCC unroll 16
    for (int i = 0; i < ROWS_POINTERS; i++) p[i] = s->p[i];
#pragma GCC unroll 1
    for (; k > 0; k--) {
        vec bv[TILE_VECTORS];
        KEEP_POINTERS(p);
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++)
            bv[j] = narrow && j == vectors - 1 ? v_load_low(b + j * VL) : v_load(b + j * VL);
        b += vectors * VL;
        __builtin_prefetch(ask, 0, 2);
        ask += ask_step;
        if (to) {
            __builtin_prefetch(to, 1);
            to += to_step;
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            vec av = v_bcast(ROW(i));
#pragma GCC unroll 2
            for (int j = 0; j < vectors; j++)
                acc[i][j] = narrow && j == vectors - 1
                                ? v_fma_low(v_bcast_low(ROW(i)), bv[j], acc[i][j])
                                : v_fma(av, bv[j], acc[i][j]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < ROWS_POINTERS; i++) p[i] = (const T *)((const char *)p[i] + step);
    }
#pragma GCC unroll 16
    for (int i = 0; i < ROWS_POINTERS; i++) s->p[i] = p[i];
    s->b = b;
    s->ask = ask;
}

/* As many of `k` steps as fill turns of `steps` each, elements side by side; returns those left.
 * `beside`: what is asked for lies as far from what is read in each step. */
SC_INLINE size_t FN(rows_turns)(const FN(tile) *t, FN(rows_steps) *s, size_t k, const int steps,
                                const int beside, const int rows, const int vectors,
                                vec (*acc)[TILE_VECTORS]) {
    const int skew = steps / 2; /* so that distances from b fit in a byte */
    const ptrdiff_t ahead = t->ahead, ask_step = t->ahead_step;
    ptrdiff_t row = s->row, far = s->far;
    const T *p[ROWS_POINTERS], *b = s->b + skew * vectors * VL, *ask = s->ask;
#pragma GCC unroll 16
    for (int i = 0; i < ROWS_POINTERS; i++) p[i] = s->p[i];
    __asm__("" : "+r"(b));
    for (size_t turn = k / (size_t)steps; turn > 0; turn--) {
        KEEP_POINTERS(p);
        __asm__("" : "+r"(row), "+r"(far));
        if (beside) __builtin_prefetch(p[0] + ahead, 0, 2);
#pragma GCC unroll 4
        for (int u = 0; u < steps; u++) {
            vec bv[TILE_VECTORS];
            READ_AGAIN(); /* one step after the other: registers hold the vectors of one */
            if (!beside && u % 2 == 0) {
                __builtin_prefetch(ask, 0, 2);
                ask += 2 * ask_step;
            }
#pragma GCC unroll 2
            for (int j = 0; j < vectors; j++) bv[j] = v_load(b + ((u - skew) * vectors + j) * VL);
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                vec av = v_bcast(ROW(i) + u);
#pragma GCC unroll 2
                for (int j = 0; j < vectors; j++) acc[i][j] = v_fma_into(av, bv[j], acc[i][j]);
            }
        }
#pragma GCC unroll 16
        for (int i = 0; i < ROWS_POINTERS; i++) p[i] += steps;
        b += steps * vectors * VL;
        __asm__("" : "+r"(b));
    }
#pragma GCC unroll 16
    for (int i = 0; i < ROWS_POINTERS; i++) s->p[i] = p[i];
    s->b = b - skew * vectors * VL;
    s->ask = ask;
    return k % (size_t)steps;
}

/* `k` steps, elements side by side, without a loop for the last ones */
SC_INLINE void FN(rows_unrolled)(const FN(tile) *t, FN(rows_steps) *s, size_t k, const int beside,
                                 const int rows, const int vectors, vec (*acc)[TILE_VECTORS]) {
    k = FN(rows_turns)(t, s, k, 4, beside, rows, vectors, acc);
    k = FN(rows_turns)(t, s, k, 2, beside, rows, vectors, acc);
    FN(rows_turns)(t, s, k, 1, beside, rows, vectors, acc);
}

SC_INLINE void FN(rows_kernel)(const FN(tile) *t, const int rows, const int vectors,
                               const int mode) {
    const int narrow = mode == ROWS_NARROW, beside = mode == ROWS_BESIDE;
    const sc_run *run = t->runs;
    const ptrdiff_t ahead_step = t->ahead_step;
    FN(rows_steps) s;
    vec acc[TILE_ROWS][TILE_VECTORS];
    s.row = t->a_row * (ptrdiff_t)sizeof(T);
    s.far = FAR_ROW * s.row;
    s.step = t->a_step * (ptrdiff_t)sizeof(T);
    FN(tile_start)(t, rows, vectors, acc);
    if (t->count > 0) {
        ptrdiff_t left = run->len;
        FN(rows_run)(t, run, vectors, &s);
        if (FN(asks_for_result)(t)) {
            if (rows * vectors > FEW_LINES && left >= 2 * rows * vectors) {
                for (int j = 0; j < vectors; j++, left -= rows)
                    FN(rows_sums)(&s, rows, ahead_step, t->c + j * t->c_vector, t->c_row, rows,
                                  vectors, narrow, acc);
            } else {
                FN(ask_for_result)(t, rows, vectors);
            }
        }
        for (;;) {
            READ_AGAIN();
            if (beside || mode == ROWS_UNIT)
                FN(rows_unrolled)(t, &s, (size_t)left, beside, rows, vectors, acc);
            else FN(rows_sums)(&s, left, ahead_step, NULL, 0, rows, vectors, narrow, acc);
            if (++run == t->runs + t->count) break;
            FN(rows_run)(t, run, vectors, &s);
            left = run->len;
        }
    }
    FN(rows_finish)(t, rows, vectors, acc);
}

SC_INLINE T FN(sum_of_lanes)(vec v) {
    T lane[VL];
    v_store(lane, v);
    for (int n = VL / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) lane[i] += lane[n + i];
    return lane[0];
}

/* Micro-kernel "dots": pixels too few for a vector, rows as above (one run), vectors along K.
 *
 *   acc[i][j] = sum over k of  a[i*a_row + k] * b[j*b_vector + k]
 *
 * whose lanes are summed up at the end. Per VL steps: rows + pixels loads, rows*pixels FMAs. */
SC_INLINE void FN(dots_kernel)(const FN(tile) *t, const int rows, const int pixels) {
    enum { P = ROWS_POINTERS };
    const ptrdiff_t len = t->len, a_row = t->a_row;
    const ptrdiff_t row = a_row * (ptrdiff_t)sizeof(T), far = FAR_ROW * row;
    const T *b = t->b, *p[P];
    const mask rest = v_mask(len % VL);
    vec acc[TILE_ROWS][TILE_VECTORS];
    (void)far;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < pixels; j++) acc[i][j] = v_zero();
#pragma GCC unroll 16
    for (int i = 0; i < P; i++) p[i] = t->a + i * ROWS_A_POINTER * a_row;
#define DOTS(load_a, load_b)                                                                       \
    vec bv[TILE_VECTORS];                                                                          \
    _Pragma("GCC unroll 2") for (int j = 0; j < pixels; j++) {                                     \
        const T *at = b + j * t->b_vector;                                                         \
        bv[j] = load_b;                                                                            \
    }                                                                                              \
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) {                                      \
        const T *at = ROW(i);                                                                      \
        vec av = load_a;                                                                           \
        KEEP(av); /* or it would be loaded once for each FMA */                                    \
        _Pragma("GCC unroll 2") for (int j = 0; j < pixels; j++) acc[i][j] =                       \
            v_fma(av, bv[j], acc[i][j]);                                                           \
    }
    for (ptrdiff_t k = len / VL; k > 0; k--, b += VL) {
        KEEP_POINTERS(p);
        DOTS(v_load(at), v_load(at))
#pragma GCC unroll 16
        for (int i = 0; i < P; i++) p[i] += VL;
    }
    if (len % VL) {
        DOTS(v_load_mask(at, rest), v_load_mask(at, rest))
    }
#undef DOTS
    for (int j = 0; j < pixels; j++) {
        T sums[TILE_ROWS];
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) sums[i] = FN(sum_of_lanes)(acc[i][j]);
        for (ptrdiff_t i = 0; i < rows; i += VL) {
            const mask valid = v_mask(rows - i);
            vec v = v_load_mask(sums + i, valid);
            if (t->bias) v = v_add(v, v_load_mask(t->bias + i, valid));
            v_store_mask(sums + i, FN(tile_activate)(t, v), valid);
        }
        for (int i = 0; i < rows; i++) t->c[i * t->c_row + j * t->c_column] = sums[i];
    }
}
#undef ROW
#undef KEEP
#undef ROWS_POINTERS
#undef ROWS_A_POINTER
#undef FAR_ROW
#undef KEEP_POINTERS

#define ROWS_KERNEL(rows)                                                                          \
    static void FN(rows_##rows##x1)(const FN(tile) *t) { FN(rows_kernel)(t, rows, 1, ROWS_ANY); }  \
    static void FN(rows_##rows##x2)(const FN(tile) *t) { FN(rows_kernel)(t, rows, 2, ROWS_ANY); }  \
    static void FN(dots_##rows##x1)(const FN(tile) *t) { FN(dots_kernel)(t, rows, 1); }            \
    static void FN(dots_##rows##x2)(const FN(tile) *t) { FN(dots_kernel)(t, rows, 2); }
FOR_TILE_ROWS(ROWS_KERNEL)
#undef ROWS_KERNEL
#if VNARROW
#define ROWS_KERNEL(rows)                                                                          \
    static void FN(narrow_##rows##x1)(const FN(tile) *t) {                                         \
        FN(rows_kernel)(t, rows, 1, ROWS_NARROW);                                                  \
    }                                                                                              \
    static void FN(narrow_##rows##x2)(const FN(tile) *t) {                                         \
        FN(rows_kernel)(t, rows, 2, ROWS_NARROW);                                                  \
    }
FOR_TILE_ROWS(ROWS_KERNEL)
#undef ROWS_KERNEL
#define ROWS_NARROW_ENTRY(rows) {FN(narrow_##rows##x1), FN(narrow_##rows##x2)}
#else
#define ROWS_NARROW_ENTRY(rows) {NULL, NULL}
#endif
#if VUNROLLS
#define ROWS_KERNEL(rows)                                                                          \
    static void FN(unit_##rows##x1)(const FN(tile) *t) { FN(rows_kernel)(t, rows, 1, ROWS_UNIT); } \
    static void FN(unit_##rows##x2)(const FN(tile) *t) { FN(rows_kernel)(t, rows, 2, ROWS_UNIT); } \
    static void FN(beside_##rows##x1)(const FN(tile) *t) {                                         \
        FN(rows_kernel)(t, rows, 1, ROWS_BESIDE);                                                  \
    }                                                                                              \
    static void FN(beside_##rows##x2)(const FN(tile) *t) {                                         \
        FN(rows_kernel)(t, rows, 2, ROWS_BESIDE);                                                  \
    }
FOR_TILE_ROWS(ROWS_KERNEL)
#undef ROWS_KERNEL
#define ROWS_UNIT_ENTRY(rows)                                                                      \
    {FN(unit_##rows##x1), FN(unit_##rows##x2)}, { FN(beside_##rows##x1), FN(beside_##rows##x2) }
#else
#define ROWS_UNIT_ENTRY(rows)                                                                      \
    {NULL, NULL}, { NULL, NULL }
#endif

#define ROWS_ENTRY(rows)                                                                           \
    {{FN(rows_##rows##x1), FN(rows_##rows##x2)},                                                   \
     {FN(dots_##rows##x1), FN(dots_##rows##x2)},                                                   \
     ROWS_NARROW_ENTRY(rows),                                                                      \
     ROWS_UNIT_ENTRY(rows)},
static void (*const FN(rows_kernels)[TILE_ROWS][N_ROWS_MODES][TILE_VECTORS])(const FN(tile) *) = {
    FOR_TILE_ROWS(ROWS_ENTRY)};
#undef ROWS_ENTRY
#undef ROWS_NARROW_ENTRY
#undef ROWS_UNIT_ENTRY

/* a tile whose columns say how many vectors it has, and how full they are */
static void FN(run_rows)(const FN(tile) *t, ptrdiff_t rows) {
    const int last = t->columns[1] > 0;
    int mode = ROWS_ANY;
    if (VNARROW && 2 * t->columns[last] <= VL) mode = ROWS_NARROW;
    else if (VUNROLLS && t->a_step == 1) mode = t->ahead_step == 1 ? ROWS_BESIDE : ROWS_UNIT;
    FN(rows_kernels)[rows - 1][mode][last](t);
}
