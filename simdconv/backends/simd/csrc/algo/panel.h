/* Driver "panel" (implicit): rows of the tile are filters where they lie (OIHW), vectors are a
 * packed panel.
 *
 *   for image (or all images, flattened, where maps are small), group, tile of TILE_COLUMNS columns
 *     pack the panel: K x TILE_COLUMNS                             (B: L2, streams through L1)
 *     for block of at most TILE_ROWS filters, or as L1 has sets    (A: streams from L2 or L3,
 *       micro-kernel over the whole K                                      4 bytes a row and step)
 *       behind an image's last tile, or in tiles of their own: pixels past its last whole vector,
 *         where they are few
 *
 * im2col that is never stored whole, and no copy of the filter at all: deep layers on small maps,
 * where packing the filter would cost as much as the convolution. Where few tiles exist, blocks of
 * filters are tasks too; a thread keeps its panel while the tile stays the same. A vector of one
 * pixel (7x7 is three vectors and one) would cost as much as a full one: up to DOTS pixels are
 * taken one by one, with vectors along K (ukernel/rows.h, dots), in the order of the filters. */
typedef struct {
    const sc_kernel *kernel;
    const sc_problem *p;
    const sc_operands *o;
    sc_strides y;
    sc_loop loop; /* segment: tile; row: range of filter blocks */
    ptrdiff_t k, blocks;
    ptrdiff_t each;                    /* columns of an image that tiles take */
    ptrdiff_t columns, vectors, tiles; /* of an image, or of all of them */
    ptrdiff_t dots, lines; /* pixels behind these, of an image; of them at a time, at most */
    int flat;              /* tiles run on over images */
    size_t table_bytes, panel_bytes, lines_bytes, spans_bytes, thread_bytes;
} FN(panel_plan);

/* Pixels of an image past its last whole vector that are taken one by one. Each costs an eighth of
 * a vector, a third where there are other images: no more of them than there are vectors. None
 * where an image's place among the others would decide: where vectors are images, and where 1x1
 * takes all images for one row (sc_merged), which it may or not. */
static ptrdiff_t FN(panel_dots)(const sc_problem *p) {
    enum { DOTS = 4 };
    const ptrdiff_t left = p->h_out * p->w_out % VL, vectors = p->h_out * p->w_out / VL;
    const int merges = p->layout == SC_NHWC && sc_is_pointwise(p);
    if (merges || p->layout == SC_CHWN || p->layout == SC_CHWN8) return 0;
    return left > sc_min(vectors, sc_min(DOTS, VL / 2)) ? 0 : left;
}

static FN(panel_plan) FN(panel_plan_of)(const sc_kernel *kernel, const sc_problem *p, int threads) {
    enum { SMALL_MAP = 8 * TILE_COLUMNS };
    FN(panel_plan) f;
    const ptrdiff_t columns = p->h_out * p->w_out * p->inner;
    memset(&f, 0, sizeof f);
    f.kernel = kernel;
    f.p = p;
    f.y = sc_result_strides(p);
    f.k = p->c_in * p->h_f * p->w_f;
    f.blocks = sc_ceil_div(p->c_out, rows_in_l1(f.k * (ptrdiff_t)sizeof(T), TILE_ROWS));
    f.flat = p->images > 1 && columns < SMALL_MAP;
    f.dots = FN(panel_dots)(p);
    f.lines = f.flat ? sc_min(VL, p->images * f.dots) : f.dots;
    f.each = columns - f.dots;
    f.columns = f.flat ? p->images * f.each : f.each;
    f.vectors = sc_ceil_div(f.columns, VL);
    f.tiles = sc_ceil_div(f.vectors, TILE_VECTORS);
    f.loop.block_groups = 1;
    f.loop.groups = p->groups;
    f.loop.images = f.flat ? 1 : p->images;
    f.loop.segments = f.tiles;
    if (f.flat && f.dots) f.loop.segments += sc_ceil_div(p->images * f.dots, f.lines);
    f.loop.segments = sc_max(1, f.loop.segments);
    f.loop.rows =
        row_segments(f.blocks, p->groups * f.loop.images * f.loop.segments, threads, 0, 0);
    f.table_bytes = sc_lines(sizeof(sc_run));
    f.panel_bytes = sc_lines((size_t)(f.k * TILE_COLUMNS) * sizeof(T));
    f.spans_bytes = sc_lines((size_t)(TILE_COLUMNS * p->w_f) * sizeof(FN(piece_span)));
    f.lines_bytes = sc_lines((size_t)(f.lines * f.k) * sizeof(T));
    f.thread_bytes = f.panel_bytes + f.lines_bytes + f.spans_bytes + sc_lines(sizeof(ptrdiff_t));
    return f;
}

static ptrdiff_t FN(panel_filter_size)(const sc_kernel *kernel, const sc_problem *p) {
    (void)kernel;
    (void)p;
    return 0;
}

static int FN(panel_variant)(const sc_problem *p) {
    (void)p;
    return 0;
}

static int FN(panel_pack)(const sc_kernel *kernel, const sc_problem *p, const void *w, void *packed,
                          sc_team team) {
    (void)kernel;
    (void)p;
    (void)w;
    (void)packed;
    (void)team;
    return 0;
}

static size_t FN(panel_workspace)(const sc_kernel *kernel, const sc_problem *p, int threads,
                                  int packed) {
    FN(panel_plan) f = FN(panel_plan_of)(kernel, p, threads);
    (void)packed;
    return f.table_bytes + (size_t)threads * f.thread_bytes;
}

/* Pixels behind tiles: `count` of them, from `first` on, of this image and those that follow */
typedef struct {
    ptrdiff_t image, first, count;
} FN(dot_range);

/* Where one of them is in the result, channel 0 */
static ptrdiff_t FN(dot_place)(const FN(panel_plan) *f, const FN(dot_range) *d, ptrdiff_t i) {
    const ptrdiff_t dot = d->first + i;
    return (d->image + dot / f->dots) * f->y.image + (f->each + dot % f->dots) * f->y.w;
}

/* Their windows, a line each, by way of the panel */
static void FN(pack_lines)(const FN(panel_plan) *f, const T *x, const FN(dot_range) *d,
                           FN(piece_span) *spans, T *panel, T *lines) {
    sc_piece piece[TILE_COLUMNS];
    int pieces = 0;
    for (ptrdiff_t done = 0; done < d->count;) {
        const ptrdiff_t dot = (d->first + done) % f->dots;
        const ptrdiff_t image = d->image + (d->first + done) / f->dots;
        const ptrdiff_t columns = sc_min(d->count - done, f->dots - dot);
        int cut =
            cut_pieces(f->p, image, f->each + f->dots, f->each + dot, columns, piece + pieces);
        for (; cut > 0; cut--) piece[pieces++].start += done;
        done += columns;
    }
    FN(pack_panel)(f->p, x, piece, pieces, VL, 0, spans, panel);
    FN(transpose)(panel, VL, f->k, d->count, lines, f->k);
}

/* These pixels, for a block of filters, the first of them filter `channel` of the result */
static void FN(dot_block)(const FN(panel_plan) *f, const FN(tile) *tile, const FN(dot_range) *d,
                          const T *lines, ptrdiff_t channel, ptrdiff_t rows) {
    FN(tile) t = *tile;
    t.b_vector = f->k;
    t.c_row = f->y.c;
    for (ptrdiff_t i = 0; i < d->count; i += TILE_VECTORS) {
        const ptrdiff_t at = FN(dot_place)(f, d, i);
        const int pixels = (int)sc_min(TILE_VECTORS, d->count - i);
        t.b = lines + i * f->k;
        t.c = (T *)f->o->y + at + channel * f->y.c;
        t.c_column = pixels > 1 ? FN(dot_place)(f, d, i + 1) - at : 0;
        FN(rows_kernels)[rows - 1][ROWS_DOTS][pixels - 1](&t);
    }
}

/* Where columns of a tile are in the result, channel 0 */
static void FN(panel_place)(const FN(panel_plan) *f, const sc_piece *piece, int pieces,
                            ptrdiff_t *offsets, FN(tile) *t) {
    const int follow = f->p->layout == SC_NHWC && f->dots == 0; /* images, as pixels do */
    const int one = piece[pieces - 1].image == piece[0].image || follow;
    t->c = f->o->y;
    t->c_row = f->y.c;
    t->c_vector = VL;
    t->store = !one ? STORE_SCATTER : f->p->layout == SC_NHWC ? STORE_COLUMNS : STORE_ROWS;
    if (one)
        t->c +=
            piece[0].image * f->y.image + piece[0].m * f->y.h + piece[0].j * f->y.w + piece[0].lane;
    t->c_column = f->y.w;
    t->c_offsets = offsets;
    for (int i = 0; i < pieces && !one; i++)
        for (ptrdiff_t j = 0; j < piece[i].columns; j++)
            offsets[piece[i].start + j] = piece[i].image * f->y.image + piece[i].m * f->y.h +
                                          piece[i].j * f->y.w + piece[i].lane +
                                          (f->p->inner > 1 ? j : j * f->y.w);
}

/* Elements of the image from the first of this tile's columns to that of the next tile's, column
 * `first`; 0 if there is none */
static ptrdiff_t FN(next_panel)(const FN(panel_plan) *f, ptrdiff_t image, ptrdiff_t first,
                                const sc_piece *piece) {
    const sc_problem *p = f->p;
    sc_piece next;
    if (first >= f->columns) return 0;
    cut_pieces(p, image, f->each, first, 1, &next);
    return (next.image - piece->image) * p->x_image + (next.m - piece->m) * p->stride_h * p->x_h +
           (next.j - piece->j) * p->stride_w * p->x_w + next.lane - piece->lane;
}

static void FN(panel_task)(void *context, ptrdiff_t task, int thread) {
    const FN(panel_plan) *f = context;
    const sc_problem *p = f->p;
    sc_task at = loop_task(&f->loop, task);
    const T *x = (const T *)f->o->x + at.group * p->c_in * p->x_c;
    T *panel = (T *)((char *)f->o->workspace + f->table_bytes + (size_t)thread * f->thread_bytes);
    T *lines = (T *)((char *)panel + f->panel_bytes), *y;
    FN(piece_span) *spans = (FN(piece_span) *)((char *)lines + f->lines_bytes);
    ptrdiff_t *held = (ptrdiff_t *)((char *)spans + f->spans_bytes); /* which tile it is, + 1 */
    ptrdiff_t vector = at.segment * TILE_VECTORS; /* filters come from afar for the first tile */
    int vectors = (int)sc_max(0, sc_min(TILE_VECTORS, f->vectors - vector)), pieces = 0;
    ptrdiff_t first = vector * VL, columns = sc_min(vectors * VL, f->columns - first);
    ptrdiff_t offsets[TILE_COLUMNS], block = sc_part(f->blocks, f->loop.rows, at.row);
    ptrdiff_t last = sc_part(f->blocks, f->loop.rows, at.row + 1);
    sc_piece piece[TILE_COLUMNS];
    FN(dot_range) dots = {at.image, 0, 0};
    FN(tile) t;
    if (f->flat && at.segment >= f->tiles) {
        dots.first = (at.segment - f->tiles) * f->lines;
        dots.count = sc_min(f->lines, p->images * f->dots - dots.first);
    } else if (!f->flat && at.segment == f->loop.segments - 1) {
        dots.count = f->dots;
    }
    memset(&t, 0, sizeof t);
    FN(tile_epilogue)(p, &t);
    if (vectors > 0) {
        pieces = cut_pieces(p, at.image, f->each, first, columns, piece);
        FN(panel_place)(f, piece, pieces, offsets, &t);
    }
    if (*held != 1 + task / f->loop.rows) {
        if (dots.count > 0) FN(pack_lines)(f, x, &dots, spans, panel, lines);
        if (vectors > 0)
            FN(pack_panel)(p, x, piece, pieces, vectors * VL,
                           FN(next_panel)(f, at.image, first + columns, piece), spans, panel);
        *held = 1 + task / f->loop.rows;
    }
    y = t.c;
    t.runs = f->o->workspace;
    t.count = 1;
    t.len = f->k;
    t.a_step = t.ahead_step = 1;
    t.b = panel;
    t.a_row = f->k;
    t.bias_by_row = 1;
    t.columns[0] = sc_min(columns, VL);
    t.columns[1] = columns - t.columns[0];
    for (; block < last; block++) {
        ptrdiff_t o = sc_part(p->c_out, f->blocks, block), channel = at.group * p->c_out + o;
        ptrdiff_t rows = sc_part(p->c_out, f->blocks, block + 1) - o;
        t.a = (const T *)f->o->w + channel * f->k;
        t.bias = f->o->bias ? (const T *)f->o->bias + channel : NULL;
        if (vectors > 0) {
            t.c = y + channel * f->y.c;
            FN(run_rows)(&t, rows);
        }
        if (dots.count > 0) FN(dot_block)(f, &t, &dots, lines, channel, rows);
    }
}

static void FN(panel_run)(const sc_kernel *kernel, const sc_problem *p, const sc_operands *o) {
    FN(panel_plan) f = FN(panel_plan_of)(kernel, p, o->team.threads);
    sc_run *run = o->workspace;
    f.o = o;
    run->x = run->k = 0;
    run->len = f.k;
    for (int thread = 0; thread < o->team.threads; thread++)
        *(ptrdiff_t *)((char *)o->workspace + f.table_bytes + (size_t)thread * f.thread_bytes +
                       f.panel_bytes + f.lines_bytes + f.spans_bytes) = 0;
    sc_parallel(loop_tasks(&f.loop), o->team, FN(panel_task), &f);
}
