/* Driver "pixel_rows": rows of the tile are output pixels, vectors are packed filters.
 *
 *   for a group of filter blocks that shares L2          (block group)
 *     for image, output row, segment of the row          (a task)
 *       present the windows:  direct   in place, h_f runs (NCHW c_in*h_f; 1x1 one), a border patch;
 *                                      with padding in NCHW, and in NHWC where borders are much
 *                                      of a row, from rows staged channels last
 *                             im2win   one strip of the segment, in L1 or L2
 *                             im2col   the matrix stored before the loop
 *       for tile of at most TILE_ROWS pixels, balanced over the row       (A: L1)
 *         for block of TILE_COLUMNS filters                               (B: streams from L2)
 *           micro-kernel over the whole K; result in registers till it is done
 *
 * NHWC stores rows, NCHW the transpose. Workspace: shared tables (and im2col's matrix); a
 * thread's strip or patch, its lines of an NCHW result that goes past the caches, its packed
 * filters. */
/* Consecutive tiles whose windows lie at a fixed distance in one place: rows of `table` from `a`
 * on, pixel j at a + (j - j0)*a_row. */
typedef struct {
    const T *a;
    ptrdiff_t a_row, j0, tile, last;
    const sc_table *table;
    const T *soon;      /* or NULL: what pixel j0 wants in L2 soon */
    ptrdiff_t soon_row; /* from that to what the next pixel wants */
} FN(tiles);

/* Tiles [tile, last) of one output row, and where their filters and images are. */
typedef struct {
    sc_task at;
    ptrdiff_t tile, last;
    const T *x;       /* first channel of the group in the image */
    const T *filters; /* of the block group */
    int finite;       /* all of those filters */
    char *own;        /* the thread's part of the workspace, behind sc_own */
    T *y;             /* where the segment's first pixel of the block group's first filter goes */
    FN(lines) *lines; /* or NULL */
    int asks;         /* for the lines of the output row below */
} FN(segment);

static ptrdiff_t FN(tile_at)(const FN(pixel_plan) *f, ptrdiff_t tile) {
    return sc_part(f->pixels, f->tiles, tile);
}

/* Lines of the result, NCHW, that tiles will write pieces of: `pixels` of each filter. A line that
 * began before them was asked for with what comes before, unless nothing does. */
static void FN(ask_for_lines)(T *y, ptrdiff_t y_filter, ptrdiff_t filters, ptrdiff_t pixels,
                              int from_first) {
    for (; filters > 0; filters--, y += y_filter) {
        const ptrdiff_t before = FN(before)(y);
        ptrdiff_t j = before == 0 || from_first ? 0 : LINE_LEN - before; /* of the next line */
        for (; j < pixels; j += LINE_LEN) __builtin_prefetch(y + j, 1);
        if (from_first) __builtin_prefetch(y + pixels - 1, 1);
    }
}

/* Blocks [b, last) over one tile of `rows` pixels, output column j on */
static void FN(pixel_tile)(const FN(pixel_plan) *f, const FN(segment) *g, FN(tile) *t,
                           ptrdiff_t rows, ptrdiff_t j, ptrdiff_t b, ptrdiff_t last) {
    const sc_problem *p = f->p;
    ptrdiff_t first = b * TILE_COLUMNS, end = sc_min(last * TILE_COLUMNS, p->c_out);
    ptrdiff_t channel = g->at.group * p->c_out + first;
    ptrdiff_t in_group = first - g->at.block_group * f->per_group * TILE_COLUMNS;
    const ptrdiff_t before = j - FN(tile_at)(f, g->tile); /* pixels of the segment */
    T *y = g->y + before * f->y.w + in_group * f->y.c;
    FN(lines) *w = g->lines;
    t->b = g->filters + f->k * in_group;
    t->c = y;
    if (w) FN(next_tile)(w, rows, 0);
    t->bias = f->o->bias ? (const T *)f->o->bias + channel : NULL;
    t->columns[0] = t->columns[1] = VL;
    for (; first + TILE_COLUMNS <= end; first += TILE_COLUMNS) {
        if (w) FN(place_tile)(w, in_group, TILE_COLUMNS, y, t);
        if (g->asks) FN(ask_for_lines)(y + f->y.h, f->y.c, TILE_COLUMNS, rows, before == 0);
        FN(run_rows)(t, rows);
        t->b += f->k * TILE_COLUMNS;
        t->c = y += TILE_COLUMNS * f->y.c;
        in_group += TILE_COLUMNS;
        if (t->bias) t->bias += TILE_COLUMNS;
    }
    if (first < end) {
        if (w) FN(place_tile)(w, in_group, end - first, y, t);
        t->columns[0] = sc_min(end - first, VL);
        t->columns[1] = end - first - t->columns[0];
        if (g->asks) FN(ask_for_lines)(y + f->y.h, f->y.c, end - first, rows, before == 0);
        FN(run_rows)(t, rows);
    }
    if (w) FN(tile_done)(w, rows);
}

/* How far `to` is from `from`, in elements, though they may be of two arrays: what is there is asked
 * for, not read. */
static ptrdiff_t FN(elements_between)(const T *from, const T *to) {
    return ((ptrdiff_t)((size_t)to - (size_t)from)) / (ptrdiff_t)sizeof(T);
}

/* All blocks of the task's block group over a range of tiles. Where a block does not fit in L2,
 * the runs are taken in chunks that do, and the sums wait in the result. */
static void FN(pixel_tiles)(const FN(pixel_plan) *f, const FN(segment) *g, FN(tile) *t,
                            const FN(tiles) *s) {
    ptrdiff_t b = g->at.block_group * f->per_group, end = sc_min(f->blocks, b + f->per_group);
    ptrdiff_t chunks = s->last - s->tile > 1 ? sc_max(1, sc_min(f->chunks, s->table->count)) : 1;
    ptrdiff_t blocks = chunks > 1 ? 1 : end - b; /* that pass by while a tile is in L1 */
    t->a_row = s->a_row;
    t->a_step = s->table->step;
    t->ahead = 0;
    t->ahead_step = s->soon ? ahead_step(f->p, s->table, TILE_ROWS * s->soon_row) : t->a_step;
    for (; b < end; b += blocks)
        for (ptrdiff_t chunk = 0; chunk < chunks; chunk++) {
            ptrdiff_t run = chunk ? sc_part(s->table->count, chunks, chunk) : 0, j = s->j0, next;
            t->runs = s->table->runs + run;
            t->count =
                chunks > 1 ? sc_part(s->table->count, chunks, chunk + 1) - run : s->table->count;
            t->accumulate = chunk > 0;
            t->partial = chunk < chunks - 1;
            for (ptrdiff_t n = s->tile; n < s->last; n++, j = next) {
                next = FN(tile_at)(f, n + 1);
                t->a = s->a + (j - s->j0) * s->a_row;
                if (s->soon)
                    t->ahead = FN(elements_between)(t->a, s->soon + (j - s->j0) * s->soon_row);
                FN(pixel_tile)(f, g, t, next - j, j, b, b + blocks);
            }
        }
    t->accumulate = t->partial = 0;
}

/* The ways to present a segment. */

/* NHWC, from a copy: what the next output row will read of the image and this one did not, at the
 * end of its windows, is wanted in L2 soon. The first run of this row's windows asks for it; runs
 * that lie elsewhere in the copy ask as far from it as they are from the first, rows further on or
 * before. */
static void FN(want_below)(const sc_problem *p, const FN(segment) *s, FN(tiles) *all) {
    const ptrdiff_t first = all->j0 * p->stride_w - p->left;
    ptrdiff_t row = s->at.row + 1;
    if (p->layout != SC_NHWC || row >= p->h_out || all->table->count == 0) return;
    row = sc_source_row(p, row, p->h_f - 1);
    if (row < 0) return;
    all->soon = s->x + row * p->x_h + sc_max(0, first) * p->x_w - all->table->runs[0].x;
    all->soon_row = p->stride_w * p->x_w;
}

/* im2win: one strip of the segment's columns, every window a run of it */
static void FN(strip_segment)(const FN(pixel_plan) *f, const FN(segment) *s, FN(tile) *t) {
    const sc_problem *p = f->p;
    ptrdiff_t first = FN(tile_at)(f, s->tile), end = FN(tile_at)(f, s->last);
    ptrdiff_t columns = (end - 1 - first) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1;
    T *strip = (T *)(s->own + sc_lines((size_t)sc_table_room(p) * sizeof(sc_run)));
    FN(tiles) all = {
        strip, p->stride_w * p->h_f * p->c_in, first, s->tile, s->last, &f->table, NULL, 0};
    if (p->layout == SC_NHWC)
        FN(strip)(p, s->x, s->at.row, first * p->stride_w, columns, f->columns, strip);
    for (ptrdiff_t u = 0; u < p->h_f && p->layout == SC_NCHW; u++)
        FN(stage_row)(p, s->x, sc_source_row(p, s->at.row, u), first * p->stride_w, columns,
                      p->h_f * p->c_in, strip + u * p->c_in);
    FN(want_below)(p, s, &all);
    FN(pixel_tiles)(f, s, t, &all);
}

/* direct: the rows of the window are staged channels last, padded, each once while the rows that
 * follow need it */
static void FN(ring_segment)(const FN(pixel_plan) *f, const FN(segment) *s, FN(tile) *t) {
    const sc_problem *p = f->p;
    ptrdiff_t first = FN(tile_at)(f, s->tile), end = FN(tile_at)(f, s->last),
              row = f->columns * p->c_in;
    ptrdiff_t columns = (end - 1 - first) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1;
    ptrdiff_t *held = (ptrdiff_t *)(s->own + sc_lines((size_t)sc_table_room(p) * sizeof(sc_run)));
    ptrdiff_t key =
        ((s->at.image * p->groups + s->at.group) * f->loop.segments + s->at.segment) * p->h_p + 1;
    T *ring = (T *)((char *)held + sc_lines((size_t)f->ring * sizeof(ptrdiff_t)));
    sc_place place = {1, row, p->c_in, 1, s->finite, s->at.row, f->ring};
    sc_table table = sc_window_table(p, &place, (sc_run *)s->own);
    FN(tiles) all = {ring, p->stride_w * p->c_in, first, s->tile, s->last, &table, NULL, 0};
    for (ptrdiff_t u = 0; u < p->h_f; u++) {
        ptrdiff_t padded = s->at.row * p->stride_h + u * p->dilation_h, slot = padded % f->ring;
        ptrdiff_t source = sc_source_row(p, s->at.row, u);
        if (held[slot] == key + padded || (source < 0 && s->finite)) continue;
        FN(stage_row)(p, s->x, source, first * p->stride_w, columns, p->c_in, ring + slot * row);
        held[slot] = key + padded;
    }
    FN(want_below)(p, s, &all);
    FN(pixel_tiles)(f, s, t, &all);
}

/* im2col: rows of the stored matrix */
static void FN(matrix_segment)(const FN(pixel_plan) *f, const FN(segment) *s, FN(tile) *t) {
    const T *matrix = (const T *)((const char *)f->o->workspace + f->table_bytes);
    ptrdiff_t width = f->k * f->p->groups, first = FN(tile_at)(f, s->tile);
    FN(tiles) all = {matrix + (s->at.image * f->pixels + first) * width + s->at.group * f->p->c_in,
                     width,
                     first,
                     s->tile,
                     s->last,
                     &f->table,
                     NULL,
                     0};
    FN(pixel_tiles)(f, s, t, &all);
}

/* direct: windows in place. Rows above and below the image are left out where the filter is
 * finite, or taken from where the padding mode says; tiles at a side border are copied, padded, to
 * a patch. */
static void FN(direct_segment)(const FN(pixel_plan) *f, const FN(segment) *s, FN(tile) *t) {
    const sc_problem *p = f->p;
    ptrdiff_t row = (s->at.row * p->stride_h - p->top) * p->x_h;
    T *patch = (T *)(s->own + sc_lines((size_t)sc_table_room(p) * sizeof(sc_run)));
    sc_table table = f->table;
    int in_place = 1;
    if (!sc_row_is_interior(p, s->at.row)) {
        sc_place place = {p->x_c, p->x_h, p->x_w, 1, 1, s->at.row, 0};
        for (ptrdiff_t u = 0; u < p->h_f && !s->finite; u++)
            in_place &=
                sc_source_row(p, s->at.row, u) >= 0; /* 0 * Inf is NaN: multiply the zeros */
        if (in_place) table = sc_window_table(p, &place, (sc_run *)s->own);
        row = 0;
    }
    for (ptrdiff_t tile = s->tile, next; tile < s->last; tile = next) {
        ptrdiff_t j = FN(tile_at)(f, tile), columns;
        FN(tiles) some = {patch, p->stride_w * p->c_in, j, tile, tile + 1, &f->patch, NULL, 0};
        next = tile;
        while (in_place && next < s->last && FN(tile_at)(f, next) >= f->interior.first &&
               FN(tile_at)(f, next + 1) <= f->interior.last)
            next++;
        if (next > tile) {
            some.a = s->x + row + (j * p->stride_w - p->left) * p->x_w;
            some.a_row = p->stride_w * p->x_w;
            some.table = &table;
            some.last = next;
            /* the row below, or, where there is one row of all, the next tile */
            some.soon = some.a + (p->h_out > 1 ? p->stride_h * p->x_h : TILE_ROWS * some.a_row);
            some.soon_row = some.a_row;
        } else {
            next = tile + 1;
            columns =
                (FN(tile_at)(f, next) - j - 1) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1;
            FN(border_patch)(p, s->x, s->at.row, j * p->stride_w, columns, f->pitch, patch);
        }
        FN(pixel_tiles)(f, s, t, &some);
    }
}

/* The filters of the task's block group: packed before the call, or by this thread, once while it
 * stays */
static void FN(take_filters)(const FN(pixel_plan) *f, FN(segment) *s, char *part) {
    const sc_problem *p = f->p;
    sc_own *own = (sc_own *)part;
    T *packed = (T *)(part + f->packed_at);
    ptrdiff_t b = s->at.block_group * f->per_group, last = sc_min(f->blocks, b + f->per_group);
    ptrdiff_t key = s->at.block_group * p->groups + s->at.group + 1;
    s->own = part + sc_lines(sizeof(sc_own));
    if (f->o->packed) {
        ptrdiff_t filters = s->at.group * sc_ceil_div(p->c_out, VL) * VL + b * TILE_COLUMNS;
        s->filters = (const T *)f->o->packed + f->k * filters;
        s->finite = f->o->packed_finite;
        return;
    }
    if (own->held != key) {
        FN(pack_blocks)(f->kernel, p, f->o->w, s->at.group, b, last, packed);
        own->finite =
            p->h_p == p->h_in || FN(all_finite)(packed, f->k * ((last - 1 - b) * TILE_COLUMNS +
                                                                FN(block_width)(p, last - 1)));
        own->held = key;
    }
    s->filters = packed;
    s->finite = own->finite;
}

/* a thread's part of the workspace */
static char *FN(pixel_part)(const FN(pixel_plan) *f, int thread) {
    return (char *)f->o->workspace + f->table_bytes + f->matrix_bytes +
           (size_t)thread * f->thread_bytes;
}

static void FN(pixel_rows_task)(void *context, ptrdiff_t task, int thread) {
    const FN(pixel_plan) *f = context;
    const sc_problem *p = f->p;
    const int asks = p->layout == SC_NCHW && !f->by_lines;
    const int alone = f->o->team.threads == 1; /* the next row is this thread's too */
    ptrdiff_t filter, filters, j, pixels, row, last_row;
    char *part;
    FN(segment) s;
    FN(lines) lines;
    FN(tile) t;
    s.at = loop_task(&f->loop, task);
    s.tile = sc_part(f->tiles, f->loop.segments, s.at.segment);
    s.last = sc_part(f->tiles, f->loop.segments, s.at.segment + 1);
    s.x = (const T *)f->o->x + s.at.image * p->x_image + s.at.group * p->c_in * p->x_c;
    part = FN(pixel_part)(f, thread);
    FN(take_filters)(f, &s, part);
    memset(&t, 0, sizeof t);
    FN(tile_epilogue)(p, &t);
    filter = s.at.block_group * f->per_group * TILE_COLUMNS;
    filters = sc_min(p->c_out - filter, f->per_group * TILE_COLUMNS);
    j = FN(tile_at)(f, s.tile);
    pixels = FN(tile_at)(f, s.last) - j;
    row = s.at.row * f->rows;
    last_row = f->kernel->algorithm == SC_IM2COL ? 1 : sc_min(p->h_out, row + f->rows);
    s.y = (T *)f->o->y + s.at.image * f->y.image + row * f->y.h + j * f->y.w +
          (s.at.group * p->c_out + filter) * f->y.c;
    s.lines = NULL;
    t.store = STORE_ROWS;
    t.c_row = f->y.w;
    t.c_vector = VL;
    /* vectors off their places cannot go past the caches: their lines are asked for */
    if (((size_t)s.y | (size_t)f->y.w * sizeof(T)) % sizeof(vec) != 0) t.stream = 0;
    if (p->layout == SC_NCHW) {
        t.store = STORE_COLUMNS;
        t.c_column = f->y.c;
    }
    if (f->by_lines) {
        lines = FN(no_lines)((T *)(part + f->lines_at), TILE_ROWS, f->y.c);
        s.lines = &lines;
        t.c_column = lines.row;
    } else if (asks && (row == 0 || !alone)) {
        FN(ask_for_lines)(s.y, f->y.c, filters, pixels, 1);
    }
    for (s.at.row = row; s.at.row < last_row; s.at.row++, s.y += pixels * f->y.w) {
        s.asks = asks && s.at.row + 1 < (alone ? p->h_out : last_row);
        if (f->kernel->algorithm == SC_IM2WIN) FN(strip_segment)(f, &s, &t);
        else if (f->kernel->algorithm == SC_IM2COL) FN(matrix_segment)(f, &s, &t);
        else if (f->ring) FN(ring_segment)(f, &s, &t);
        else FN(direct_segment)(f, &s, &t);
    }
    if (s.lines) FN(put_ends)(&lines, s.y, filters);
}

static void FN(pixel_rows_matrix)(void *context, ptrdiff_t task, int thread) {
    const FN(pixel_plan) *f = context;
    const sc_problem *p = f->p;
    ptrdiff_t image = task / p->h_out, m = task % p->h_out, width = f->k * p->groups;
    T *to = (T *)((char *)f->o->workspace + f->table_bytes) +
            (image * f->pixels + m * p->w_out) * width;
    const T *x = (const T *)f->o->x + image * p->x_image;
    (void)thread;
    for (ptrdiff_t j = 0; j < p->w_out; j++, to += width)
        FN(window_row)(p, x, m, j, p->c_in * p->groups, to);
}

static void FN(pixel_rows_run)(const sc_kernel *kernel, const sc_problem *p, const sc_operands *o) {
    FN(pixel_plan) f = FN(pixel_rows_plan)(kernel, p, o->team.threads, o->packed != NULL);
    sc_run *room = o->workspace;
    char *own;
    sc_place place = {p->x_c, p->x_h, p->x_w, p->layout == SC_NHWC, 0, 0, 0};
    f.o = o;
    if (kernel->algorithm == SC_IM2WIN) {
        f.table = sc_strip_table(p, 1, f.columns, room);
    } else if (kernel->algorithm == SC_IM2COL) {
        ptrdiff_t channels = p->c_in * p->groups;
        sc_problem undilated = *p;
        sc_place row = {1, p->w_f * channels, channels, 1, 0, 0, 0};
        undilated.dilation_h = undilated.dilation_w = 1;
        f.table = sc_window_table(&undilated, &row, room);
        sc_parallel(p->images * p->h_out, o->team, FN(pixel_rows_matrix), &f);
    } else {
        f.table = sc_window_table(p, &place, room);
    }
    if (f.pitch) {
        sc_problem compact = *p;
        sc_place patch = {1, f.pitch * p->c_in, p->c_in, 1, 0, 0, 0};
        compact.dilation_h = 1;
        f.patch = sc_window_table(&compact, &patch, room + sc_table_room(p));
    }
    own = FN(pixel_part)(&f, 0);
    forget_filters(own, f.thread_bytes, o->team.threads);
    own += sc_lines(sizeof(sc_own)) + sc_lines((size_t)sc_table_room(p) * sizeof(sc_run));
    for (int i = 0; i < o->team.threads && f.ring; i++)
        memset(own + (size_t)i * f.thread_bytes, 0, (size_t)f.ring * sizeof(ptrdiff_t));
    sc_parallel_parts(loop_tasks(&f.loop),
                      tasks_that_share(p, &f.loop, !o->packed && f.blocks % f.per_group == 0),
                      o->team, FN(pixel_rows_task), &f);
}
