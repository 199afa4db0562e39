/* What both micro-kernels share: the register tile, and how it leaves the registers.
 *
 *   TILE_ROWS x TILE_VECTORS accumulators, from the registers of the ISA: two vectors wide, as many
 *   rows as leave two registers for the vectors and two for broadcasts: (VREGS - 4) / 2.
 *   AVX-512, NEON: 14 x 2; AVX2, baseline: 6 x 2.
 *
 * Columns of a tile lie one after the other in vectors; a store writes the first `columns` of them.
 */
#define TILE_VECTORS 2
#define TILE_ROWS ((VREGS - TILE_VECTORS - 2) / TILE_VECTORS)
#define TILE_COLUMNS (TILE_VECTORS * VL)
#define LINE_LEN ((ptrdiff_t)(64 / sizeof(T))) /* elements of a line of cache */

#ifndef SC_TILE_STORES
#define SC_TILE_STORES
typedef enum {
    STORE_ROWS,    /* vector j of row i at c + i*c_row + j*c_vector */
    STORE_LINES,   /* the same, c_vector being VL, in whole lines (algo/lines.h); VL == LINE_LEN */
    STORE_COLUMNS, /* element (i, j) at c + i + j*c_column: the transpose, row index contiguous */
    STORE_SCATTER  /* element (i, j) at c + i*c_row + c_offsets[j] */
} tile_store;
#endif

typedef struct {
    const T *a, *b;
    const sc_run *runs;
    ptrdiff_t count, len; /* of runs; steps of the one run of dots and of vertical ones, and of each
                             run where those of the lanes kernel are even, else 0 */
    ptrdiff_t a_row;      /* rows kernel: elements from one row to the next */
    ptrdiff_t a_step;     /* rows kernel: elements from one step to the next */
    ptrdiff_t a_filter;   /* pairs: from the weights of one filter to those of the other */
    ptrdiff_t inputs;     /* permuted lanes: of a group */
    ptrdiff_t a_input; /* permuted lanes: elements from the weights of one to those of the next */
    const vec_index *indices; /* permuted lanes: of each input */
    ptrdiff_t b_step;         /* lanes kernel: elements from one step to the next */
    ptrdiff_t b_vector;       /* lanes kernel: elements from one vector to the next */
    ptrdiff_t b_half;         /* lanes kernel, halves: elements from the lower half to the upper */
    int asks;                 /* lanes kernel: for the vectors of runs to come, if not always */
    ptrdiff_t
        ahead; /* elements from a run to what is wanted in L2 soon (by the next row or tile) */
    ptrdiff_t ahead_step; /* elements of that for each step of the run */
    tile_store store;
    int stream; /* whole vectors of STORE_ROWS go past the caches, if aligned */
    ptrdiff_t c_row, c_vector, c_column;
    const ptrdiff_t *c_offsets;
    T *c;
    T *kept;            /* STORE_LINES: the vector before this tile's, of row 0 */
    ptrdiff_t kept_row; /* and elements to that of the next row */
    int accumulate,
        partial; /* STORE_ROWS: start from what c holds; leave bias and activation out */
    ptrdiff_t columns[TILE_VECTORS]; /* valid in each vector */
    const T *bias;                   /* NULL, or one value a row, or one a column */
    int bias_by_row;
    sc_activation activation;
    T lo, hi;
} FN(tile);

SC_INLINE vec FN(tile_activate)(const FN(tile) *t, vec value) {
    if (t->activation == SC_ACT_CLIP) return v_clip(value, v_set1(t->lo), v_set1(t->hi));
    if (t->activation == SC_ACT_LEAKY) return v_leaky(value, v_set1(t->lo));
    return value;
}

/* A run starts from what the tile holds in memory. Kept meanwhile, the compiler would put it into
 * vector registers, and moving it back takes the place of two FMAs a run. */
#define READ_AGAIN() __asm__ volatile("" ::: "memory")

/* Start of the sums: zeros, or those of the runs before */
SC_INLINE void FN(tile_start)(const FN(tile) *t, int rows, int vectors, vec (*acc)[TILE_VECTORS]) {
    if (t->accumulate) {
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int j = 0; j < vectors; j++)
                acc[i][j] =
                    v_load_mask(t->c + i * t->c_row + j * t->c_vector, v_mask(t->columns[j]));
        return;
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) acc[i][j] = v_zero();
}

/* Are the result's lines to be asked for, so that they have come when the sums are done? */
SC_INLINE int FN(asks_for_result)(const FN(tile) *t) {
    return t->store == STORE_ROWS && !t->stream && !t->accumulate;
}

/* All of them at a time. Where a tile has more than FEW_LINES, that is more than a core waits for:
 * what else comes from L2 would wait with them, and kernels ask for one after the other, if they
 * have steps enough. */
#define FEW_LINES 16
SC_INLINE void FN(ask_for_result)(const FN(tile) *t, int rows, int vectors) {
    const T *to = t->c;
    for (int i = 0; i < rows; i++, to += t->c_row)
        for (int j = 0; j < vectors; j++) __builtin_prefetch(to + j * t->c_vector, 1);
}

SC_INLINE void FN(tile_bias)(const FN(tile) *t, int rows, int vectors, vec (*acc)[TILE_VECTORS]) {
    const T *bias = t->bias;
    if (t->bias_by_row) {
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int j = 0; j < vectors; j++) acc[i][j] = v_add(acc[i][j], v_bcast(bias + i));
        return;
    }
#pragma GCC unroll 2
    for (int j = 0; j < vectors; j++) {
        vec b = v_load_mask(bias + j * VL, v_mask(t->columns[j]));
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) acc[i][j] = v_add(acc[i][j], b);
    }
}

/* One row after the other: the compiler would compute the addresses of all before the first, and
 * spill them */
#define STORE_TILE(put)                                                                            \
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++, to += c_row) {                         \
        __asm__("" : "+r"(to));                                                                    \
        _Pragma("GCC unroll 2") for (int j = 0; j < vectors; j++) put;                             \
    }

/* Vectors to rows of the result. What a store may change is read before the first one. */
SC_INLINE void FN(tile_store_rows)(const FN(tile) *t, int rows, int vectors,
                                   vec (*acc)[TILE_VECTORS]) {
    const ptrdiff_t c_row = t->c_row, c_vector = t->c_vector;
    const ptrdiff_t least = vectors > 1 ? sc_min(t->columns[0], t->columns[1]) : t->columns[0];
    T *to = t->c;
    if (least < VL) {
        mask valid[TILE_VECTORS];
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) valid[j] = v_mask(t->columns[j]);
        STORE_TILE(v_store_mask(to + j * c_vector, acc[i][j], valid[j]))
    } else if (t->stream && !t->partial &&
               (((size_t)to | ((size_t)c_row | (size_t)(vectors > 1 ? c_vector : 0)) * sizeof(T)) &
                (sizeof(vec) - 1)) == 0) {
        STORE_TILE(v_stream(to + j * c_vector, acc[i][j]))
    } else {
        STORE_TILE(v_store(to + j * c_vector, acc[i][j]))
    }
}
#undef STORE_TILE

/* elements of its line that lie before `to` */
SC_INLINE ptrdiff_t FN(before)(const T *to) {
    return (ptrdiff_t)((size_t)to / sizeof(T)) & (LINE_LEN - 1);
}

/* Vectors to whole lines, whose rows start anywhere: each line is the end of the vector before and
 * the start of this one. The last elements are kept, at the end of a vector. */
SC_INLINE void FN(tile_store_lines)(const FN(tile) *t, int rows, int vectors, int whole,
                                    vec (*acc)[TILE_VECTORS]) {
    const ptrdiff_t c_row = t->c_row, kept_row = t->kept_row, last = t->columns[vectors - 1];
    T *to = t->c, *kept = t->kept;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++, to += c_row, kept += kept_row) {
        __asm__("" : "+r"(to), "+r"(kept));
        const ptrdiff_t before = FN(before)(to);
        vec low = v_load(kept);
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) {
            const int is_whole = whole || j < vectors - 1;
            if (is_whole || before + last >= VL)
                v_stream(to - before + j * VL, v_window(low, acc[i][j], VL - before));
            low = is_whole ? acc[i][j] : v_window(low, acc[i][j], last);
        }
        v_store(kept, low);
    }
}

/* The tile by way of the stack: transposed, or to scattered columns */
SC_INLINE void FN(tile_store_block)(const FN(tile) *t, int rows, int vectors,
                                    vec (*acc)[TILE_VECTORS]) {
    T block[TILE_ROWS * TILE_COLUMNS];
    ptrdiff_t columns = t->columns[0] + (vectors > 1 ? t->columns[1] : 0);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) v_store(block + i * TILE_COLUMNS + j * VL, acc[i][j]);
    if (t->store == STORE_COLUMNS) {
        FN(transpose)(block, TILE_COLUMNS, rows, columns, t->c, t->c_column);
        return;
    }
    for (int i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < columns; j++)
            t->c[i * t->c_row + t->c_offsets[j]] = block[i * TILE_COLUMNS + j];
}

SC_INLINE void FN(tile_activate_sums)(const FN(tile) *t, int rows, int vectors,
                                      vec (*acc)[TILE_VECTORS]) {
    if (t->activation == SC_ACT_NONE) return;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) acc[i][j] = FN(tile_activate)(t, acc[i][j]);
}

/* bias and activation: after the sums, once a tile */
SC_INLINE void FN(tile_activate_all)(const FN(tile) *t, int rows, int vectors,
                                     vec (*acc)[TILE_VECTORS]) {
    if (t->partial) return;
    if (t->bias) FN(tile_bias)(t, rows, vectors, acc);
    FN(tile_activate_sums)(t, rows, vectors, acc);
}
