/* What every recipe is given, and the parts of a call that all drivers fill in the same way. */
#ifndef SC_CALL
#define SC_CALL
/* A loop over (block group, group, image, segment of a row, row), rows fastest: what follows
 * shares its filters and most of its input rows with what went before. */
typedef struct {
    ptrdiff_t block_groups, groups, images, segments, rows;
} sc_loop;

typedef struct {
    ptrdiff_t block_group, group, image, segment, row;
} sc_task;

static ptrdiff_t loop_tasks(const sc_loop *l) {
    return l->block_groups * l->groups * l->images * l->rows * l->segments;
}

static sc_task loop_task(const sc_loop *l, ptrdiff_t i) {
    sc_task t;
    t.row = i % l->rows;
    i /= l->rows;
    t.segment = i % l->segments;
    i /= l->segments;
    t.image = i % l->images;
    i /= l->images;
    t.group = i % l->groups;
    t.block_group = i / l->groups;
    return t;
}

/* L3, as far as it can be one core's */
static size_t cache_of_a_core(void) {
    const size_t most = (size_t)32 << 20;
    return sc_cache_bytes(3) < most ? sc_cache_bytes(3) : most;
}

/* Blocks of packed filters that share five eighths of L2 */
static ptrdiff_t blocks_in_l2(size_t block_bytes, ptrdiff_t blocks) {
    ptrdiff_t fit = (ptrdiff_t)(sc_cache_bytes(2) / 8 * 5 / (block_bytes ? block_bytes : 1));
    return sc_max(1, sc_min(fit, blocks));
}

/* Segments of a row, at most one a tile, so that every thread has several tasks, and so that the
 * input rows of a segment's windows (`row_bytes` for the whole row) stay in L2 beside a block of
 * filters */
static ptrdiff_t row_segments(ptrdiff_t tiles, ptrdiff_t other_tasks, int threads, size_t row_bytes,
                              size_t block_bytes) {
    enum { TASKS_A_THREAD = 8 };
    size_t l2 = sc_cache_bytes(2) * 5 / 8, room = l2 > 2 * block_bytes ? l2 - block_bytes : l2 / 2;
    ptrdiff_t busy =
        threads > 1 ? sc_ceil_div((ptrdiff_t)threads * TASKS_A_THREAD, other_tasks) : 1;
    ptrdiff_t near = (ptrdiff_t)(row_bytes / room) + 1;
    return sc_max(1, sc_min(tiles, sc_max(busy, near)));
}

/* Do the pixels take so little time that packing the filters counts? */
static int is_packing_much(const sc_problem *p) {
    enum { FEW_PIXELS = 2048 };
    return p->images * p->inner * p->h_out * p->w_out <= FEW_PIXELS;
}

/* Blocks of a group, where L2 holds `fit`: each thread packs groups of its own, if they come out
 * even, and windows share their pixels: every group reads them all */
static ptrdiff_t blocks_a_group(const sc_problem *p, ptrdiff_t blocks, ptrdiff_t fit, int threads) {
    ptrdiff_t groups = sc_ceil_div(sc_ceil_div(blocks, fit), threads) * threads;
    const int share = p->h_f * p->w_f > p->stride_h * p->stride_w;
    return share && is_packing_much(p) && blocks % groups == 0 ? blocks / groups : fit;
}

/* Rows at this distance, `most` at most, that L1 holds at a time, and vectors beside them: lines
 * 4 KiB apart share a set of eight. Rows of 1024 floats would push each other out at every step. */
static ptrdiff_t rows_in_l1(ptrdiff_t bytes, ptrdiff_t most) {
    enum { LINE = 64, SETS = 64, WAYS = 8 };
    const size_t distance = bytes < 0 ? -(size_t)bytes : (size_t)bytes; /* reversed */
    unsigned char held[SETS] = {1};                                     /* row 0 */
    for (ptrdiff_t i = 1; i < most; i++) {
        const size_t line = (size_t)i * distance / LINE;
        if (line == (size_t)(i - 1) * distance / LINE) continue;
        if (++held[line % SETS] >= WAYS) return i;
    }
    return most;
}

/* How far a step goes in what it asks for: to the next channel, where its run goes through them,
 * else over `span` elements in the steps of the run */
static ptrdiff_t ahead_step(const sc_problem *p, const sc_table *table, ptrdiff_t span) {
    const int channels = p->layout != SC_NHWC && p->h_f * p->w_f == 1;
    return channels ? table->step : sc_ceil_div(span, table->len);
}

/* Output rows of a task: so many that a thread writes long pieces of each plane, few enough for the
 * threads to have several tasks each. Rows follow one another in a plane only where a segment is
 * all of one. */
static ptrdiff_t rows_of_task(ptrdiff_t rows, ptrdiff_t segments, ptrdiff_t tasks, int threads) {
    enum { TASKS_A_THREAD = 8, MOST = 16 };
    ptrdiff_t busy = threads > 1 ? rows * tasks / (threads * TASKS_A_THREAD) : rows;
    return segments > 1 ? 1 : sc_max(1, sc_min(sc_min(rows, MOST), busy));
}

/* Tasks in a row that share packed filters, where packing them counts, and groups are alike */
static ptrdiff_t tasks_that_share(const sc_problem *p, const sc_loop *l, int alike) {
    return alike && is_packing_much(p) ? l->images * l->segments * l->rows : 1;
}

/* What a thread owns, at the start of its part of the workspace: which blocks it has packed */
typedef struct {
    ptrdiff_t held; /* block group and group, + 1; 0: none yet */
    int finite;
} sc_own;

static void forget_filters(char *first, size_t thread_bytes, int threads) {
    for (int i = 0; i < threads; i++) ((sc_own *)(first + (size_t)i * thread_bytes))->held = 0;
}
#endif

/* exponents of all ones are Inf and NaN */
static int FN(all_finite)(const T *w, ptrdiff_t n) {
#if SC_IS_F64
    const uint64_t exponent = 0x7ff0000000000000u;
    uint64_t bits, bad = 0;
#else
    const uint32_t exponent = 0x7f800000u;
    uint32_t bits, bad = 0;
#endif
    for (ptrdiff_t i = 0; i < n; i++) {
        memcpy(&bits, w + i, sizeof bits);
        bad |= (bits & exponent) == exponent;
    }
    return !bad;
}

/* A result that no cache will hold is written past them, where the ISA has such stores: it is not
 * read before it is written, and pushes neither filters nor image out. */
SC_INLINE int FN(streams)(const sc_problem *p) {
    double elements = (double)p->images * p->inner * p->groups * p->c_out * p->h_out * p->w_out;
    return VSTREAMS && elements * sizeof(T) > (double)cache_of_a_core() / 4;
}

SC_INLINE void FN(tile_epilogue)(const sc_problem *p, FN(tile) *t) {
    t->stream = FN(streams)(p);
    t->activation = p->activation;
    t->lo = (T)p->act_lo;
    t->hi = (T)p->act_hi;
}
