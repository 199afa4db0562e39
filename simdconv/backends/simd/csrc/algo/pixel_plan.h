/* Driver "pixel_rows", before its loop: sizes, the thread's parts of the workspace, packed filters.
 */
typedef struct {
    const sc_kernel *kernel;
    const sc_problem *p;
    const sc_operands *o;
    sc_strides y;
    sc_loop loop;
    ptrdiff_t k, blocks, per_group; /* per group of channels; blocks in a block group */
    ptrdiff_t pixels, tiles;        /* of a row */
    ptrdiff_t ring;                 /* direct: rows staged at a time */
    sc_span interior;
    ptrdiff_t columns, pitch; /* of the widest strip; of a border patch */
    ptrdiff_t chunks;         /* of the runs */
    size_t table_bytes, matrix_bytes;
    ptrdiff_t rows; /* output rows of a task */
    int by_lines;   /* does the result leave by lines.h? */
    size_t lines_at, packed_at,
        thread_bytes; /* a thread's part: sc_own, table, strip, lines, filters */
    sc_table table, patch;
} FN(pixel_plan);

/* NHWC: are rows staged with their padding? A patch at a border copies each row h_f times, again
 * for each block group; in short rows most tiles would be such. Not where most of a staged row
 * would be gaps between windows. */
static int FN(is_padded_often)(const sc_problem *p, ptrdiff_t tiles, ptrdiff_t block_groups) {
    enum { SHORT = 8 };
    const ptrdiff_t reach_h = (p->h_f - 1) * p->dilation_h + 1;
    const ptrdiff_t reach_w = (p->w_f - 1) * p->dilation_w + 1;
    return p->layout == SC_NHWC && (p->h_p > p->h_in || p->w_p > p->w_in) &&
           (tiles <= SHORT || block_groups > 1) && reach_h <= 4 * p->h_f && reach_w <= 4 * p->w_f &&
           p->stride_h <= reach_h && p->stride_w <= reach_w;
}

/* NCHW, direct: are input rows staged channels last? Where there is padding; and where runs of a
 * window in place are so short that what begins a run takes as long as a tile of few sums. */
static int FN(is_staged)(const sc_problem *p) {
    const int padded = p->h_p > p->h_in || p->w_p > p->w_in;
    return p->layout == SC_NCHW && (padded || (VUNROLLS && p->h_f * p->w_f > 1));
}

/* Pixels whose windows L1 holds at a time, by how far apart they lie: in the matrix, a strip, an
 * image of NHWC (its staged rows are mostly as dense), staged rows; in NCHW side by side */
static ptrdiff_t FN(pixels_of_tile)(const sc_problem *p, sc_algorithm algorithm) {
    const ptrdiff_t pixel = (ptrdiff_t)sizeof(T) * p->c_in;
    if (algorithm == SC_IM2COL) return rows_in_l1(pixel * p->groups * p->h_f * p->w_f, TILE_ROWS);
    if (algorithm == SC_IM2WIN) return rows_in_l1(pixel * p->stride_w * p->h_f, TILE_ROWS);
    if (p->layout == SC_NHWC)
        return rows_in_l1((ptrdiff_t)sizeof(T) * p->stride_w * p->x_w, TILE_ROWS);
    return FN(is_staged)(p) ? rows_in_l1(pixel * p->stride_w, TILE_ROWS) : TILE_ROWS;
}

static FN(pixel_plan)
    FN(pixel_rows_plan)(const sc_kernel *kernel, const sc_problem *p, int threads, int packed) {
    FN(pixel_plan) f;
    size_t room = sc_lines((size_t)sc_table_room(p) * sizeof(sc_run)), block, strip = 0;
    ptrdiff_t widest, others;
    memset(&f, 0, sizeof f);
    f.kernel = kernel;
    f.p = p;
    f.y = sc_result_strides(p);
    f.k = p->c_in * p->h_f * p->w_f;
    f.blocks = sc_ceil_div(p->c_out, TILE_COLUMNS);
    f.per_group = blocks_in_l2((size_t)(f.k * TILE_COLUMNS) * sizeof(T), f.blocks);
    f.interior = sc_interior_columns(p);
    if (!packed) f.per_group = blocks_a_group(p, f.blocks, f.per_group, threads);
    f.loop.block_groups = sc_ceil_div(f.blocks, f.per_group);
    f.loop.groups = p->groups;
    f.loop.images = p->images;
    f.loop.rows = p->h_out;
    f.pixels = p->w_out;
    if (kernel->algorithm == SC_IM2COL) {
        f.pixels = p->h_out * p->w_out;
        f.loop.rows = 1;
        f.matrix_bytes = sc_lines((size_t)(p->images * f.pixels * f.k * p->groups) * sizeof(T));
    }
    f.tiles = sc_ceil_div(f.pixels, FN(pixels_of_tile)(p, kernel->algorithm));
    others = f.loop.block_groups * f.loop.groups * f.loop.images * f.loop.rows;
    block = (size_t)(f.k * TILE_COLUMNS) * sizeof(T);
    f.loop.segments =
        row_segments(f.tiles, others, threads,
                     (size_t)(p->h_f * p->c_in * f.pixels * p->stride_w) * sizeof(T), block);
    if (kernel->algorithm == SC_DIRECT &&
        (FN(is_staged)(p) || FN(is_padded_often)(p, f.tiles, f.loop.block_groups)))
        f.ring = (p->h_f - 1) * p->dilation_h + 1;
    if (kernel->algorithm == SC_IM2WIN || f.ring) {
        ptrdiff_t held = f.ring ? f.ring : p->h_f,
                  column_bytes = held * p->c_in * p->stride_w * TILE_ROWS * (ptrdiff_t)sizeof(T);
        ptrdiff_t fit = sc_max(1, (ptrdiff_t)sc_cache_bytes(2) / 4 / column_bytes); /* tiles */
        f.loop.segments = sc_max(f.loop.segments, sc_ceil_div(f.tiles, fit));
        widest = sc_min(f.pixels, sc_ceil_div(f.tiles, f.loop.segments) * TILE_ROWS);
        f.columns = (widest - 1) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1;
        strip = sc_lines((size_t)(f.columns * held * p->c_in) * sizeof(T)) +
                sc_lines((size_t)f.ring * sizeof(ptrdiff_t));
    }
    f.chunks = p->layout == SC_NHWC ? (ptrdiff_t)(block / (sc_cache_bytes(2) * 3 / 4)) + 1 : 1;
    f.table_bytes = room;
    if (kernel->algorithm == SC_DIRECT && !f.ring && (p->h_p > p->h_in || p->w_p > p->w_in)) {
        widest = sc_min(f.pixels, TILE_ROWS);
        f.pitch = (widest - 1) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1;
        f.table_bytes = 2 * room;
        strip = sc_lines((size_t)(f.pitch * p->h_f * p->c_in) * sizeof(T));
    }
    f.rows = 1;
    f.lines_at = f.packed_at = sc_lines(sizeof(sc_own)) + room + strip;
    if (p->layout == SC_NCHW) {
        f.rows = rows_of_task(f.loop.rows, f.loop.segments, others / f.loop.rows, threads);
        f.loop.rows = sc_ceil_div(f.loop.rows, f.rows);
    }
    if (p->layout == SC_NCHW && FN(streams)(p)) {
        f.by_lines = 1;
        f.packed_at += FN(lines_bytes)(f.per_group * TILE_COLUMNS, TILE_ROWS);
    }
    f.thread_bytes = f.packed_at + (packed ? 0 : sc_lines(block * (size_t)f.per_group));
    return f;
}

static ptrdiff_t FN(pixel_rows_filter_size)(const sc_kernel *kernel, const sc_problem *p) {
    ptrdiff_t vectors = sc_ceil_div(p->c_out, VL);
    (void)kernel;
    return p->groups * p->c_in * p->h_f * p->w_f * vectors * VL;
}

static int FN(pixel_rows_variant)(const sc_problem *p) { return FN(is_staged)(p); }

static size_t FN(pixel_rows_workspace)(const sc_kernel *kernel, const sc_problem *p, int threads,
                                       int packed) {
    FN(pixel_plan) f = FN(pixel_rows_plan)(kernel, p, threads, packed);
    return f.table_bytes + f.matrix_bytes + (size_t)threads * f.thread_bytes;
}

/* filters of block b: TILE_COLUMNS of them, in one vector where the last ones fit in one */
static ptrdiff_t FN(block_width)(const sc_problem *p, ptrdiff_t b) {
    return p->c_out - b * TILE_COLUMNS > VL ? TILE_COLUMNS : VL;
}

/* blocks [b, last) of a group, one after the other */
static void FN(pack_blocks)(const sc_kernel *kernel, const sc_problem *p, const T *w,
                            ptrdiff_t group, ptrdiff_t b, ptrdiff_t last, T *to) {
    for (; b < last; b++) {
        ptrdiff_t first = b * TILE_COLUMNS;
        FN(pack_filters)(p, filter_order_of(kernel, p, FN(is_staged)(p)),
                         w + (group * p->c_out + first) * p->w_o, FN(block_width)(p, b),
                         sc_min(TILE_COLUMNS, p->c_out - first), to);
        to += p->c_in * p->h_f * p->w_f * TILE_COLUMNS;
    }
}

typedef struct {
    const sc_kernel *kernel;
    const sc_problem *p;
    const T *w;
    T *packed;
} FN(packing);

static void FN(pixel_rows_pack_group)(void *context, ptrdiff_t group, int thread) {
    const FN(packing) *c = context;
    ptrdiff_t filters = sc_ceil_div(c->p->c_out, VL) * VL;
    (void)thread;
    FN(pack_blocks)(c->kernel, c->p, c->w, group, 0, sc_ceil_div(c->p->c_out, TILE_COLUMNS),
                    c->packed + group * c->p->c_in * c->p->h_f * c->p->w_f * filters);
}

static int FN(pixel_rows_pack)(const sc_kernel *kernel, const sc_problem *p, const void *w,
                               void *packed, sc_team team) {
    FN(packing) c = {kernel, p, w, packed};
    sc_parallel(p->groups, team, FN(pixel_rows_pack_group), &c);
    return FN(all_finite)(packed, FN(pixel_rows_filter_size)(kernel, p));
}
