/* Driver "vertical_channels": NHWC, groups of few filters. Vectors lie along the output channels of
 * all groups, lane l multiplies its own group's channels with its own filter.
 *
 *   for as many vectors of output channels as leave the rings room in L2     (block group)
 *     for image, block of output rows, segment of the row                    (a task)
 *       for row: stage the rows it is the first to want in a ring, padded    (L2)
 *         for tile of at most VERTICAL_ROWS pixels, balanced over the segment
 *           for vector: micro-kernel over the whole K, in the order (c, u, v)       (L1)
 *
 * The ring holds rows in the order of the image, of the channels that the block group wants, and
 * the kernel permutes what it loads; or, where a group's channels do not lie within a vector, rows
 * that are spread to each vector's lanes, input by input.
 * Workspace: for each thread sc_own, a table of runs, the permutations, the rings, the filters of
 * the block group. */
#ifndef SC_CHANNEL_VECTORS
#define SC_CHANNEL_VECTORS 64 /* of a block group, at most */
#endif

typedef struct {
    const sc_problem *p;
    const sc_operands *o;
    sc_strides y;
    sc_loop loop;
    ptrdiff_t k, channels, vectors, per_group; /* vectors of output channels; in a block group */
    ptrdiff_t rows;                            /* of a task */
    ptrdiff_t ring, columns;                   /* rows of a ring; columns of the widest segment */
    int spread;
    ptrdiff_t width; /* of a column of the ring, in elements, for one vector of a block group */
    size_t indices_at, ring_at, packed_at, thread_bytes;
} FN(channel_plan);

static FN(channel_plan) FN(vertical_channels_plan)(const sc_problem *p, int threads, int packed) {
    enum { TASKS_A_THREAD = 8 };
    FN(channel_plan) f;
    size_t column, room = sc_cache_bytes(2) / 4;
    ptrdiff_t reach = (p->w_f - 1) * p->dilation_w + 1, fit, busy, others;
    memset(&f, 0, sizeof f);
    f.p = p;
    f.y = sc_result_strides(p);
    f.k = p->c_in * p->h_f * p->w_f;
    f.channels = p->groups * p->c_out;
    f.vectors = sc_ceil_div(f.channels, VL);
    f.ring = (p->h_f - 1) * p->dilation_h + 1;
    f.columns = (p->w_out - 1) * p->stride_w + reach;
    f.spread = !FN(is_within_vector)(p);
    f.width = f.spread ? p->c_in * VL : VL;
    column = (size_t)(f.ring * f.width) * sizeof(T);
    f.per_group = sc_max(1, sc_min((ptrdiff_t)(room / (column * (size_t)f.columns)),
                                   sc_min(f.vectors, SC_CHANNEL_VECTORS)));
    f.loop.block_groups = sc_ceil_div(f.vectors, f.per_group);
    f.per_group = sc_ceil_div(f.vectors, f.loop.block_groups);
    f.loop.groups = 1;
    f.loop.images = p->images;
    fit = (ptrdiff_t)(room / column) - reach; /* columns of a segment */
    fit = sc_max(VERTICAL_ROWS, fit / p->stride_w);
    f.loop.segments = sc_ceil_div(p->w_out, fit);
    f.columns = (sc_ceil_div(p->w_out, f.loop.segments) - 1) * p->stride_w + reach;
    others = f.loop.block_groups * f.loop.images * f.loop.segments;
    busy = threads > 1 ? sc_ceil_div((ptrdiff_t)threads * TASKS_A_THREAD, others) : 1;
    f.loop.rows = sc_min(busy, p->h_out);
    f.rows = sc_ceil_div(p->h_out, f.loop.rows);
    f.loop.rows = sc_ceil_div(p->h_out, f.rows);
    f.indices_at = sc_lines(sizeof(sc_own)) + sc_lines((size_t)(p->c_in * p->h_f) * sizeof(sc_run));
    f.ring_at = f.indices_at +
                (f.spread ? 0 : sc_lines((size_t)(f.per_group * p->c_in) * sizeof(vec_index)));
    f.packed_at = f.ring_at + sc_lines(column * (size_t)(f.columns * f.per_group) + sizeof(vec));
    f.thread_bytes =
        f.packed_at + (packed ? 0 : sc_lines((size_t)(f.per_group * f.k * VL) * sizeof(T)));
    return f;
}

static ptrdiff_t FN(vertical_channels_filter_size)(const sc_kernel *kernel, const sc_problem *p) {
    (void)kernel;
    return sc_ceil_div(p->groups * p->c_out, VL) * VL * p->c_in * p->h_f * p->w_f;
}

static size_t FN(vertical_channels_workspace)(const sc_kernel *kernel, const sc_problem *p,
                                              int threads, int packed) {
    (void)kernel;
    return (size_t)threads * FN(vertical_channels_plan)(p, threads, packed).thread_bytes;
}

/* vectors [i, last) of filters, one after the other: k = (c, u, v) */
static void FN(pack_channel_vectors)(const sc_problem *p, const T *w, ptrdiff_t i, ptrdiff_t last,
                                     T *to) {
    const filter_order order = {p->h_f * p->w_f, p->w_f, 1, 1};
    for (; i < last; i++, to += p->c_in * p->h_f * p->w_f * VL)
        FN(pack_filters)(p, order, w + i * VL * p->w_o, VL,
                         sc_min(VL, p->groups * p->c_out - i * VL), to);
}

static int FN(vertical_channels_pack)(const sc_kernel *kernel, const sc_problem *p, const void *w,
                                      void *packed, sc_team team) {
    (void)team;
    FN(pack_channel_vectors)(p, w, 0, sc_ceil_div(p->groups * p->c_out, VL), packed);
    return FN(all_finite)(packed, FN(vertical_channels_filter_size)(kernel, p));
}

/* What a task knows of the vectors of its block group */
typedef struct {
    ptrdiff_t vectors, base, width; /* their input channels: [base, base + width) */
    sc_problem staged;              /* an image of these channels alone */
    FN(spreading) of[SC_CHANNEL_VECTORS];
} FN(channel_vectors);

static void FN(channel_vectors_of)(const FN(channel_plan) *f, ptrdiff_t first, ptrdiff_t vectors,
                                   FN(channel_vectors) *g) {
    const sc_problem *p = f->p;
    ptrdiff_t last = sc_min((first + vectors) * VL, f->channels) - 1;
    g->vectors = vectors;
    g->base = first * VL / p->c_out * p->c_in;
    g->width = (last / p->c_out + 1) * p->c_in - g->base;
    g->staged = *p;
    g->staged.c_in = g->width;
    for (ptrdiff_t v = 0; v < vectors; v++) g->of[v] = FN(spreading_of)(p, (first + v) * VL);
}

/* Output row m: padded rows from *staged on are staged, those before are in the ring. Returns the
 * runs of its windows. */
static ptrdiff_t FN(channel_row)(const FN(channel_plan) *f, const sc_task *at,
                                 const FN(channel_vectors) *g, ptrdiff_t m, ptrdiff_t start,
                                 ptrdiff_t *staged, T *ring, sc_run *runs) {
    const sc_problem *p = f->p;
    const T *x = (const T *)f->o->x + at->image * p->x_image;
    const ptrdiff_t column = f->spread ? VL : g->width, line = f->columns * column,
                    inputs = f->spread ? p->c_in : 1, slot = inputs * line;
    ptrdiff_t count = 0;
    for (ptrdiff_t u = 0; u < p->h_f; u++) {
        ptrdiff_t padded = m * p->stride_h + u * p->dilation_h, source = sc_source_row(p, m, u);
        if (padded < *staged && p->dilation_h == 1) continue;
        if (!f->spread)
            FN(stage_row)(&g->staged, x + g->base, source, start, f->columns, column,
                          ring + padded % f->ring * slot);
        for (ptrdiff_t v = 0; v < g->vectors && f->spread; v++)
            FN(spread_row)(p, g->of + v, x, source, start, f->columns,
                           ring + (v * f->ring + padded % f->ring) * slot);
    }
    *staged = m * p->stride_h + (p->h_f - 1) * p->dilation_h + 1;
    for (ptrdiff_t c = 0; c < inputs; c++)
        for (ptrdiff_t u = 0; u < p->h_f; u++, count++) {
            ptrdiff_t padded = m * p->stride_h + u * p->dilation_h;
            runs[count].x = padded % f->ring * slot + c * line;
            runs[count].k = count * p->w_f * VL;
        }
    return count;
}

/* Asks for what output row m will stage and row m - 1 did not, of `columns` columns from padded
 * column `start` on: while the sums of the row before are made. */
static void FN(channel_ahead)(const FN(channel_plan) *f, const FN(channel_vectors) *g,
                              const sc_task *at, ptrdiff_t m, ptrdiff_t start, ptrdiff_t columns) {
    enum { LINE = 64 / sizeof(T) };
    const sc_problem *p = f->p;
    const T *x = (const T *)f->o->x + at->image * p->x_image + g->base;
    ptrdiff_t first = sc_max(start - p->left, 0), last = sc_min(start + columns - p->left, p->w_in);
    if (m >= p->h_out || p->dilation_h > 1) return;
    for (ptrdiff_t u = sc_max(0, p->h_f - p->stride_h); u < p->h_f; u++) {
        ptrdiff_t row = sc_source_row(p, m, u);
        for (ptrdiff_t column = first; column < last && row >= 0; column++)
            for (ptrdiff_t c = 0; c < g->width; c += LINE)
                __builtin_prefetch(x + row * p->x_h + column * p->x_w + c, 0, 2);
    }
}

static void FN(vertical_channels_task)(void *context, ptrdiff_t task, int thread) {
    const FN(channel_plan) *f = context;
    const sc_problem *p = f->p;
    char *part = (char *)f->o->workspace + (size_t)thread * f->thread_bytes;
    sc_own *own = (sc_own *)part;
    sc_run *runs = (sc_run *)(part + sc_lines(sizeof(sc_own)));
    vec_index *indices = (vec_index *)(part + f->indices_at);
    T *ring = (T *)(part + f->ring_at), *packed = (T *)(part + f->packed_at);
    sc_task at = loop_task(&f->loop, task);
    ptrdiff_t first = at.block_group * f->per_group, staged = 0;
    ptrdiff_t j0 = sc_part(p->w_out, f->loop.segments, at.segment);
    ptrdiff_t j1 = sc_part(p->w_out, f->loop.segments, at.segment + 1);
    ptrdiff_t tiles = sc_ceil_div(j1 - j0, VERTICAL_ROWS);
    ptrdiff_t m = at.row * f->rows, last = sc_min(p->h_out, m + f->rows);
    const T *filters = packed;
    const int weights = !f->spread && p->c_in * p->c_out > 1 ? BY_PERMUTED_LANE : BY_LANE;
    FN(channel_vectors) g;
    FN(tile) t;
    FN(channel_vectors_of)(f, first, sc_min(f->per_group, f->vectors - first), &g);
    if (f->o->packed) filters = (const T *)f->o->packed + first * f->k * VL;
    else if (own->held != at.block_group + 1)
        FN(pack_channel_vectors)(p, f->o->w, first, first + g.vectors, packed);
    own->held = at.block_group + 1;
    memset(&t, 0, sizeof t);
    FN(tile_epilogue)(p, &t);
    t.runs = runs;
    t.len = p->w_f;
    t.a_row = VL;
    t.inputs = p->c_in;
    t.a_input = p->h_f * p->w_f * VL;
    t.b_vector = f->spread ? VL : g.width;
    t.b_step = p->dilation_w * t.b_vector;
    t.b_vector *= p->stride_w;
    t.c_row = f->y.w;
    for (ptrdiff_t i = 0; i < g.vectors * p->c_in && weights == BY_PERMUTED_LANE; i++)
        indices[i] = FN(spread_index)(g.of + i / p->c_in, i % p->c_in);
    for (; m < last; m++) {
        T *y = (T *)f->o->y + at.image * f->y.image + m * f->y.h + first * VL;
        t.count = FN(channel_row)(f, &at, &g, m, j0 * p->stride_w, &staged, ring, runs);
        for (ptrdiff_t tile = 0; tile < tiles; tile++) {
            ptrdiff_t j = sc_part(j1 - j0, tiles, tile);
            ptrdiff_t rows = sc_part(j1 - j0, tiles, tile + 1) - j;
            FN(channel_ahead)(f, &g, &at, m + 1, (j0 + j) * p->stride_w, rows * p->stride_w);
            for (ptrdiff_t v = 0; v < g.vectors; v++) {
                t.a = filters + v * f->k * VL;
                t.b = ring + j * t.b_vector;
                t.b += f->spread ? v * f->ring * p->c_in * f->columns * VL : g.of[v].base - g.base;
                t.c = y + (j0 + j) * f->y.w + v * VL;
                t.columns[0] = g.of[v].lanes;
                t.indices = indices + v * p->c_in;
                t.bias = f->o->bias ? (const T *)f->o->bias + (first + v) * VL : NULL;
                FN(vertical_kernels)[rows - 1][0][weights](&t);
            }
        }
    }
}

static void FN(vertical_channels_run)(const sc_kernel *kernel, const sc_problem *p,
                                      const sc_operands *o) {
    FN(channel_plan) f = FN(vertical_channels_plan)(p, o->team.threads, o->packed != NULL);
    (void)kernel;
    f.o = o;
    forget_filters(o->workspace, f.thread_bytes, o->team.threads);
    sc_parallel(loop_tasks(&f.loop), o->team, FN(vertical_channels_task), &f);
}
