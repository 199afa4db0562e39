/* Driver "filter_rows", before its loop: sizes, parts of the workspace, packed filters. */
typedef struct {
    const sc_kernel *kernel;
    const sc_problem *p;
    const sc_operands *o;
    sc_strides y;
    sc_loop loop;
    ptrdiff_t k, blocks, per_group;
    ptrdiff_t pixels; /* of a row of the loop */
    ptrdiff_t unit;   /* pixels of a segment boundary and of a border patch */
    sc_span interior;
    ptrdiff_t columns, pitch;           /* of the widest strip; of a border patch */
    ptrdiff_t ring, phases, phase, row; /* phased: rows; elements of a phase, of a channel's row */
    int near;                           /* is_window_near */
    size_t table_bytes, matrix_bytes;
    ptrdiff_t rows; /* output rows of a task */
    int by_lines;   /* does the result leave by lines.h? */
    size_t lines_at, packed_at,
        thread_bytes; /* a thread's part: sc_own, table, strip, lines, filters */
    sc_table table, patch;
} FN(filter_plan);

/* Is the window of a tile, with as much of the filters, in L1 for all blocks of filters? */
static int FN(is_window_near)(const sc_problem *p) {
    return 2 * (size_t)(p->c_in * p->h_f * p->w_f * TILE_COLUMNS) * sizeof(T) <= sc_cache_bytes(1);
}

/* NCHW: lanes that a row of pixels takes. Half a vector counts as one where a register can be
 * halved; such tiles have fewer sums for what they read, which has to be near. */
static ptrdiff_t FN(lanes_of)(const sc_problem *p, ptrdiff_t row) {
    const ptrdiff_t unit = VNARROW && FN(is_window_near)(p) ? VL / 2 : VL;
    return sc_ceil_div(row, unit) * unit;
}

/* NCHW: does a row of pixels fill its vectors, to a twentieth? */
static int FN(fills_vectors)(const sc_problem *p, ptrdiff_t row) {
    return row * 20 >= FN(lanes_of)(p, row) * 19;
}

/* And does it leave fewer lanes empty than transposing the result of full ones takes? That is as
 * long as 13 steps of K, and tiles of transposed results read their windows at a loss of 1 %:
 * measured with AVX-512. */
static int FN(spares_transpose)(const sc_problem *p, ptrdiff_t row) {
    const double lanes = (double)FN(lanes_of)(p, row), k = (double)(p->c_in * p->h_f * p->w_f);
    return FN(fills_vectors)(p, row) && 100 * (lanes - (double)row) * k <= lanes * (1300 + k);
}

/* NCHW, direct: rows of pixels fill some vectors, but not where they lie, for the padding or the
 * stride. They are kept padded and split by the stride (pack/phases.h). Not where the stride alone
 * would have it, and splitting the image takes longer than transposing the result. */
static int FN(is_phased)(const sc_problem *p) {
    enum { MOST = 4, VECTORS = 4 };
    const int padded = p->h_p > p->h_in || p->w_p > p->w_in;
    const int few = p->stride_w > 1 && 2 * p->c_in * p->stride_h * p->stride_w <= p->c_out;
    return p->layout == SC_NCHW && (padded || few) && p->w_out > (VECTORS - 1) * VL &&
           FN(fills_vectors)(p, p->w_out) && p->stride_w <= MOST &&
           (p->h_f - 1) * p->dilation_h < 4 * p->h_f && p->stride_w <= p->w_f &&
           (p->stride_w == 1 || p->dilation_w == 1);
}

static ptrdiff_t FN(filter_blocks)(const sc_problem *p) { return sc_ceil_div(p->c_out, TILE_ROWS); }

/* Blocks of a group: those that L2 holds. Where the rows of a window outgrow a quarter of L3,
 * windows come from memory, and filters rather from L3: as many as a quarter of it holds. */
static ptrdiff_t FN(filter_blocks_a_group)(const sc_problem *p, sc_algorithm algorithm,
                                           ptrdiff_t blocks) {
    const size_t block = (size_t)(p->c_in * p->h_f * p->w_f * TILE_ROWS) * sizeof(T);
    const size_t share = cache_of_a_core() / 4;
    const double width = algorithm == SC_IM2COL
                             ? (double)(p->h_out * p->w_out) * (double)p->w_f /* of the matrix */
                             : (double)p->w_in;
    const double rows = (double)(p->c_in * p->h_f * p->inner) * width * sizeof(T);
    ptrdiff_t fit = blocks_in_l2(block, blocks);
    if (algorithm != SC_IM2WIN && rows > (double)share) /* a strip is in L2 */
        fit = sc_max(fit, sc_min(blocks, (ptrdiff_t)(share / block)));
    return fit;
}

static FN(filter_plan)
    FN(filter_rows_plan)(const sc_kernel *kernel, const sc_problem *p, int threads, int packed) {
    FN(filter_plan) f;
    size_t room = sc_lines((size_t)sc_table_room(p) * sizeof(sc_run)), strip = 0;
    ptrdiff_t units, others, widest;
    memset(&f, 0, sizeof f);
    f.kernel = kernel;
    f.p = p;
    f.y = sc_result_strides(p);
    f.k = p->c_in * p->h_f * p->w_f;
    f.blocks = FN(filter_blocks)(p);
    f.per_group = FN(filter_blocks_a_group)(p, kernel->algorithm, f.blocks);
    f.unit = sc_max(1, TILE_COLUMNS / p->inner);
    f.interior = sc_interior_columns(p);
    f.near = FN(is_window_near)(p);
    f.loop.block_groups = sc_ceil_div(f.blocks, f.per_group);
    f.loop.groups = p->groups;
    f.loop.images = p->images;
    f.loop.rows = p->h_out;
    f.pixels = p->w_out;
    f.table_bytes = room;
    if (kernel->algorithm == SC_IM2COL) {
        f.pixels = p->h_out * p->w_out;
        f.loop.rows = 1;
        f.matrix_bytes =
            sc_lines((size_t)(p->images * p->groups * f.k * f.pixels * p->inner) * sizeof(T));
    }
    units = sc_ceil_div(f.pixels, f.unit);
    others = f.loop.block_groups * f.loop.groups * f.loop.images * f.loop.rows;
    f.loop.segments =
        row_segments(units, others, threads,
                     (size_t)(p->h_f * p->c_in * f.pixels * p->stride_w * p->inner) * sizeof(T),
                     (size_t)(f.k * TILE_ROWS) * sizeof(T));
    if (kernel->algorithm == SC_IM2WIN) {
        ptrdiff_t unit_bytes =
            p->h_f * p->c_in * p->stride_w * f.unit * p->inner * (ptrdiff_t)sizeof(T);
        ptrdiff_t fit = sc_max(1, (ptrdiff_t)sc_cache_bytes(2) / 4 / unit_bytes);
        f.loop.segments = sc_max(f.loop.segments, sc_ceil_div(units, fit));
        widest = sc_min(f.pixels, sc_ceil_div(units, f.loop.segments) * f.unit);
        f.columns = (widest - 1) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1;
        strip = sc_lines((size_t)(f.columns * p->h_f * p->c_in * p->inner) * sizeof(T));
    }
    if (kernel->algorithm == SC_DIRECT && FN(is_phased)(p)) {
        widest = sc_min(f.pixels, sc_ceil_div(units, f.loop.segments) * f.unit);
        f.ring = (p->h_f - 1) * p->dilation_h + 1;
        f.phases = p->stride_w;
        f.phase =
            sc_ceil_div((widest - 1) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1, p->stride_w);
        f.row = f.phases * f.phase + VL;
        strip = sc_lines((size_t)f.ring * sizeof(ptrdiff_t)) +
                sc_lines((size_t)(f.ring * p->c_in * f.row) * sizeof(T));
    } else if (kernel->algorithm == SC_DIRECT && (p->h_p > p->h_in || p->w_p > p->w_in)) {
        f.pitch = (sc_min(f.unit, f.pixels) - 1) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1;
        f.table_bytes = 2 * room;
        strip = sc_lines((size_t)(f.pitch * p->h_f * p->c_in * p->inner) * sizeof(T));
    }
    f.rows = 1;
    f.lines_at = f.packed_at = sc_lines(sizeof(sc_own)) + room + strip;
    if (FN(streams)(p)) {
        f.rows = rows_of_task(f.loop.rows, f.loop.segments, others / f.loop.rows, threads);
        f.loop.rows = sc_ceil_div(f.loop.rows, f.rows);
        f.by_lines = 1;
        f.packed_at += FN(lines_bytes)(f.per_group * TILE_ROWS, TILE_COLUMNS);
    }
    f.thread_bytes =
        f.packed_at + (packed ? 0 : sc_lines((size_t)(f.per_group * TILE_ROWS * f.k) * sizeof(T)));
    return f;
}

static ptrdiff_t FN(filter_rows_filter_size)(const sc_kernel *kernel, const sc_problem *p) {
    (void)kernel;
    return p->groups * p->c_out * p->c_in * p->h_f * p->w_f;
}

static int FN(filter_rows_variant)(const sc_problem *p) {
    (void)p;
    return 2;
}

static size_t FN(filter_rows_workspace)(const sc_kernel *kernel, const sc_problem *p, int threads,
                                        int packed) {
    FN(filter_plan) f = FN(filter_rows_plan)(kernel, p, threads, packed);
    return f.table_bytes + f.matrix_bytes + (size_t)threads * f.thread_bytes;
}

/* blocks [b, last) of a group, one after the other */
static void FN(pack_row_blocks)(const sc_kernel *kernel, const sc_problem *p, const T *w,
                                ptrdiff_t group, ptrdiff_t b, ptrdiff_t last, T *to) {
    ptrdiff_t blocks = FN(filter_blocks)(p);
    filter_order order = filter_order_of(kernel, p, 0);
    if (kernel->algorithm == SC_DIRECT && FN(is_phased)(p)) order.phases = p->stride_w;
    for (; b < last; b++) {
        ptrdiff_t first = sc_part(p->c_out, blocks, b),
                  rows = sc_part(p->c_out, blocks, b + 1) - first;
        FN(pack_filters)(p, order, w + (group * p->c_out + first) * p->w_o, rows, rows, to);
        to += p->c_in * p->h_f * p->w_f * rows;
    }
}

static void FN(filter_rows_pack_group)(void *context, ptrdiff_t group, int thread) {
    const FN(packing) *c = context;
    (void)thread;
    FN(pack_row_blocks)(c->kernel, c->p, c->w, group, 0, FN(filter_blocks)(c->p),
                        c->packed + group * c->p->c_in * c->p->h_f * c->p->w_f * c->p->c_out);
}

static int FN(filter_rows_pack)(const sc_kernel *kernel, const sc_problem *p, const void *w,
                                void *packed, sc_team team) {
    FN(packing) c = {kernel, p, w, packed};
    sc_parallel(p->groups, team, FN(filter_rows_pack_group), &c);
    return FN(all_finite)(packed, FN(filter_rows_filter_size)(kernel, p));
}
