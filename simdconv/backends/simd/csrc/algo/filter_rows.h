/* Driver "filter_rows": rows of the tile are packed filters, vectors are pixels and images where
 * they lie.
 *
 *   for a group of filter blocks that shares L2          (block group)
 *     for image block, output row, segment of the row    (a task)
 *       present the windows:  direct   in place, c_in*h_f runs; border pixels from a padded patch;
 *                                      in NCHW from rows padded and split by the stride (is_phased)
 *                             im2win   one strip of the segment
 *                             im2col   the matrix stored before the loop: one run of K
 *       for tile of columns, TILE_VECTORS vectors                         (B: L1)
 *         for block of at most TILE_ROWS filters, balanced                (A: streams from L2)
 *           micro-kernel over the whole K
 *
 * A column is one image of one pixel: `inner` of them a pixel, side by side in the result. In the
 * source they are side by side too where the stride is 1; else pixels are `distance` apart, and a
 * vector holds images of one pixel (masked past the last) or, where half a register holds them
 * all, two pixels. */
/* Pixels [j0, j1) of one output row, and where their filters and images are. */
typedef struct {
    sc_task at;
    ptrdiff_t j0, j1;
    const T *x;       /* first channel of the group in the image block */
    const T *filters; /* of the block group */
    int finite;       /* all of those filters */
    char *own;        /* the thread's part of the workspace, behind sc_own */
    T *y;             /* where the span's first pixel of the block group's first filter goes */
    FN(lines) *lines; /* or NULL */
} FN(span);

/* all blocks of the task's block group over one tile of columns, the first of them `column` of the
 * row */
static void FN(filter_tile)(const FN(filter_plan) *f, const FN(span) *s, FN(tile) *t, int mode,
                            int vectors, ptrdiff_t column) {
    const sc_task *at = &s->at;
    ptrdiff_t b = at->block_group * f->per_group, last = sc_min(f->blocks, b + f->per_group);
    ptrdiff_t c_out = f->p->c_out, origin = sc_part(c_out, f->blocks, b), first = origin, next;
    const ptrdiff_t columns = (vectors - 1) * t->c_vector + t->columns[vectors - 1];
    T *y = s->y + column - s->j0 * f->p->inner;
    if (s->lines) {
        FN(next_tile)(s->lines, columns, vectors == 1 || t->c_vector == VL);
        t->store = s->lines->at_once ? STORE_LINES : STORE_ROWS;
        t->c_row = s->lines->at_once ? f->y.c : s->lines->row;
    }
    for (; b < last; b++, first = next) {
        next = sc_part(c_out, f->blocks, b + 1);
        t->a = s->filters + (first - origin) * f->k;
        t->c = y + (first - origin) * f->y.c;
        t->bias = f->o->bias ? (const T *)f->o->bias + at->group * c_out + first : NULL;
        if (s->lines) FN(place_tile)(s->lines, first - origin, next - first, t->c, t);
        FN(lanes_kernels)[next - first - 1][mode][vectors - 1](t);
    }
    if (s->lines) FN(tile_done)(s->lines, columns);
}

/* `columns` columns side by side in source and result */
static void FN(dense_columns)(const FN(filter_plan) *f, const FN(span) *s, FN(tile) *t, const T *b,
                              ptrdiff_t column, ptrdiff_t columns) {
    t->b_vector = t->c_vector = VL;
    for (ptrdiff_t q = 0; q < columns; q += TILE_COLUMNS) {
        ptrdiff_t left = sc_min(TILE_COLUMNS, columns - q);
        t->b = b + q;
        t->columns[0] = sc_min(left, VL);
        t->columns[1] = left - t->columns[0];
        FN(filter_tile)(f, s, t, FN(lanes_mode)(t, left > VL ? 2 : 1), left > VL ? 2 : 1,
                        column + q);
    }
}

/* pixels [j0, j1) of the row: `b` is where the window of j0 starts, pixels `distance` apart in it
 */
static void FN(pixel_columns)(const FN(filter_plan) *f, const FN(span) *s, FN(tile) *t, const T *b,
                              ptrdiff_t distance, ptrdiff_t j0, ptrdiff_t j1) {
    ptrdiff_t inner = f->p->inner, column = j0 * inner;
    if (distance == inner) {
        FN(dense_columns)(f, s, t, b, column, (j1 - j0) * inner);
        return;
    }
    if (inner > VL) { /* whole vectors of one pixel's images, then the last ones */
        for (ptrdiff_t j = j0; j < j1; j++, b += distance, column += inner)
            FN(dense_columns)(f, s, t, b, column, inner);
        return;
    }
    int halves = VHALVES && 2 * inner == VL, each = halves ? 2 : 1; /* pixels a vector */
    int mode = halves ? LANES_HALVES : inner == VL ? LANES_FULL : LANES_MASKED;
    t->b_half = distance;
    t->b_vector = each * distance;
    t->c_vector = each * inner;
    for (ptrdiff_t j = j0; j < j1;) {
        ptrdiff_t left = j1 - j;
        int vectors = left >= 2 * each ? 2 : 1;
        t->b = b;
        t->columns[0] = t->columns[1] = each * inner;
        if (left < each) { /* the odd pixel: no upper half to read */
            t->columns[0] = inner;
            FN(filter_tile)(f, s, t, FN(lanes_mode)(t, 1), 1, column);
            return;
        }
        FN(filter_tile)(f, s, t, mode, vectors, column);
        j += vectors * each;
        b += vectors * each * distance;
        column += vectors * each * inner;
    }
}

/* Windows that L1 holds need not be asked for, if lines of them are not new with each step. */
static void FN(use_table)(const FN(filter_plan) *f, FN(tile) *t, const sc_table *table) {
    t->runs = table->runs;
    t->count = table->count;
    t->len = table->even ? table->len : 0;
    t->b_step = table->step;
    t->asks = table->count > 1 && (!f->near || table->step > LINE_LEN);
}

/* The ways to present a segment. */

static void FN(strip_span)(const FN(filter_plan) *f, const FN(span) *s, FN(tile) *t) {
    const sc_problem *p = f->p;
    T *strip = (T *)(s->own + sc_lines((size_t)sc_table_room(p) * sizeof(sc_run)));
    FN(strip)(p, s->x, s->at.row, s->j0 * p->stride_w,
              (s->j1 - 1 - s->j0) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1, f->columns,
              strip);
    FN(use_table)(f, t, &f->table);
    FN(pixel_columns)(f, s, t, strip, p->stride_w * p->h_f * p->inner, s->j0, s->j1);
}

static void FN(matrix_span)(const FN(filter_plan) *f, const FN(span) *s, FN(tile) *t) {
    const sc_problem *p = f->p;
    ptrdiff_t row = f->pixels * p->inner;
    const T *matrix = (const T *)((const char *)f->o->workspace + f->table_bytes);
    FN(use_table)(f, t, &f->table);
    FN(pixel_columns)(
        f, s, t, matrix + (s->at.image * p->groups + s->at.group) * f->k * row + s->j0 * p->inner,
        p->inner, s->j0, s->j1);
}

static void FN(direct_span)(const FN(filter_plan) *f, const FN(span) *s, FN(tile) *t) {
    const sc_problem *p = f->p;
    ptrdiff_t row = (s->at.row * p->stride_h - p->top) * p->x_h, first, last;
    T *patch = (T *)(s->own + sc_lines((size_t)sc_table_room(p) * sizeof(sc_run)));
    sc_table table = f->table;
    int in_place = 1;
    if (!sc_row_is_interior(p, s->at.row)) {
        sc_place place = {p->x_c, p->x_h, p->x_w, 0, 1, s->at.row, 0};
        for (ptrdiff_t u = 0; u < p->h_f && !s->finite; u++)
            in_place &=
                sc_source_row(p, s->at.row, u) >= 0; /* 0 * Inf is NaN: multiply the zeros */
        if (in_place) table = sc_window_table(p, &place, (sc_run *)s->own);
        row = 0;
    }
    first = in_place ? sc_min(sc_max(s->j0, f->interior.first), s->j1) : s->j1;
    last = in_place ? sc_max(sc_min(s->j1, f->interior.last), first) : s->j1;
    for (ptrdiff_t j = s->j0; j < s->j1;) {
        ptrdiff_t border_end = j < first ? first : s->j1, end = sc_min(j + f->unit, border_end);
        if (j == first && last > first) {
            FN(use_table)(f, t, &table);
            t->ahead = p->stride_h * p->x_h;
            t->ahead_step = ahead_step(p, &table, p->stride_w * TILE_COLUMNS);
            FN(pixel_columns)(f, s, t, s->x + row + (first * p->stride_w - p->left) * p->x_w,
                              p->stride_w * p->x_w, first, last);
            j = last;
            continue;
        }
        FN(border_patch)(p, s->x, s->at.row, j * p->stride_w,
                         (end - 1 - j) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1, f->pitch,
                         patch);
        FN(use_table)(f, t, &f->patch);
        t->ahead = t->ahead_step = 0;
        FN(pixel_columns)(f, s, t, patch, p->stride_w * p->inner, j, end);
        j = end;
    }
}

/* direct, NCHW: from rows that are padded and split by the stride, each once while the output rows
 * that follow need it */
static void FN(phased_span)(const FN(filter_plan) *f, const FN(span) *s, FN(tile) *t) {
    const sc_problem *p = f->p;
    const ptrdiff_t first = s->j0 * p->stride_w, slot = p->c_in * f->row;
    const ptrdiff_t columns = (s->j1 - 1 - s->j0) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1;
    const ptrdiff_t key =
        ((s->at.image * p->groups + s->at.group) * f->loop.segments + s->at.segment) * p->h_p + 1;
    sc_run *runs = (sc_run *)s->own;
    ptrdiff_t *held = (ptrdiff_t *)(s->own + sc_lines((size_t)sc_table_room(p) * sizeof(sc_run)));
    T *ring = (T *)((char *)held + sc_lines((size_t)f->ring * sizeof(ptrdiff_t)));
    sc_table table = {runs, 0, p->w_f, p->stride_w == 1 ? p->dilation_w : 1, f->phases == 1};
    for (ptrdiff_t u = 0; u < p->h_f; u++) {
        const ptrdiff_t padded = s->at.row * p->stride_h + u * p->dilation_h;
        const ptrdiff_t at = padded % f->ring, source = sc_source_row(p, s->at.row, u);
        if (held[at] == key + padded || (source < 0 && s->finite)) continue;
        FN(phase_channels)(p, s->x, source, first, columns, f->phases, f->phase, f->row,
                           ring + at * slot);
        held[at] = key + padded;
    }
    for (ptrdiff_t c = 0; c < p->c_in; c++)
        for (ptrdiff_t u = 0; u < p->h_f; u++) {
            const ptrdiff_t padded = s->at.row * p->stride_h + u * p->dilation_h;
            ptrdiff_t k = (c * p->h_f + u) * p->w_f;
            if (s->finite && sc_source_row(p, s->at.row, u) < 0) {
                table.even = 0;
                continue;
            }
            for (ptrdiff_t i = 0; i < f->phases; i++) {
                sc_run *run = &runs[table.count++];
                run->x = padded % f->ring * slot + c * f->row + i * f->phase;
                run->k = k;
                run->len = sc_ceil_div(p->w_f - i, f->phases);
                k += run->len;
            }
        }
    FN(use_table)(f, t, &table);
    t->ahead = t->ahead_step = 0;
    FN(pixel_columns)(f, s, t, ring, 1, s->j0, s->j1);
}

/* The filters of the task's block group: packed before the call, or by this thread, once while it
 * stays */
static void FN(take_row_filters)(const FN(filter_plan) *f, FN(span) *s, char *part) {
    const sc_problem *p = f->p;
    sc_own *own = (sc_own *)part;
    T *packed = (T *)(part + f->packed_at);
    ptrdiff_t b = s->at.block_group * f->per_group, last = sc_min(f->blocks, b + f->per_group);
    ptrdiff_t first = sc_part(p->c_out, f->blocks, b), end = sc_part(p->c_out, f->blocks, last);
    ptrdiff_t key = s->at.block_group * p->groups + s->at.group + 1;
    s->own = part + sc_lines(sizeof(sc_own));
    if (f->o->packed) {
        s->filters = (const T *)f->o->packed + f->k * (s->at.group * p->c_out + first);
        s->finite = f->o->packed_finite;
        return;
    }
    if (own->held != key) {
        FN(pack_row_blocks)(f->kernel, p, f->o->w, s->at.group, b, last, packed);
        own->finite = p->h_p == p->h_in || FN(all_finite)(packed, f->k * (end - first));
        own->held = key;
    }
    s->filters = packed;
    s->finite = own->finite;
}

/* a thread's part of the workspace */
static char *FN(filter_part)(const FN(filter_plan) *f, int thread) {
    return (char *)f->o->workspace + f->table_bytes + f->matrix_bytes +
           (size_t)thread * f->thread_bytes;
}

static void FN(filter_rows_task)(void *context, ptrdiff_t task, int thread) {
    const FN(filter_plan) *f = context;
    const sc_problem *p = f->p;
    ptrdiff_t units = sc_ceil_div(f->pixels, f->unit);
    ptrdiff_t b, filter, filters, row, last_row;
    char *part;
    FN(span) s;
    FN(lines) lines;
    FN(tile) t;
    s.at = loop_task(&f->loop, task);
    s.j0 = sc_part(units, f->loop.segments, s.at.segment) * f->unit;
    s.j1 = sc_min(f->pixels, sc_part(units, f->loop.segments, s.at.segment + 1) * f->unit);
    s.x = (const T *)f->o->x + s.at.image * p->x_image + s.at.group * p->c_in * p->x_c;
    part = FN(filter_part)(f, thread);
    FN(take_row_filters)(f, &s, part);
    b = s.at.block_group * f->per_group;
    filter = sc_part(p->c_out, f->blocks, b);
    filters = sc_part(p->c_out, f->blocks, sc_min(f->blocks, b + f->per_group)) - filter;
    row = s.at.row * f->rows;
    last_row = f->kernel->algorithm == SC_IM2COL ? 1 : sc_min(p->h_out, row + f->rows);
    s.y = (T *)f->o->y + s.at.image * f->y.image + row * f->y.h + s.j0 * p->inner +
          (s.at.group * p->c_out + filter) * f->y.c;
    s.lines = NULL;
    memset(&t, 0, sizeof t);
    FN(tile_epilogue)(p, &t);
    t.store = STORE_ROWS;
    t.bias_by_row = 1;
    t.c_row = f->y.c;
    if (f->by_lines) {
        lines = FN(no_lines)((T *)(part + f->lines_at), TILE_COLUMNS, f->y.c);
        s.lines = &lines;
        t.kept_row = lines.row;
        t.stream = 0;
    }
    for (s.at.row = row; s.at.row < last_row; s.at.row++, s.y += f->y.h) {
        if (f->kernel->algorithm == SC_IM2WIN) FN(strip_span)(f, &s, &t);
        else if (f->kernel->algorithm == SC_IM2COL) FN(matrix_span)(f, &s, &t);
        else if (f->ring) FN(phased_span)(f, &s, &t);
        else FN(direct_span)(f, &s, &t);
    }
    if (s.lines) FN(put_ends)(&lines, s.y + (s.j1 - s.j0) * p->inner - f->y.h, filters);
}

/* one task: row (image, c, u, v) of the matrix, all output rows */
static void FN(filter_rows_matrix)(void *context, ptrdiff_t task, int thread) {
    const FN(filter_plan) *f = context;
    const sc_problem *p = f->p;
    ptrdiff_t window = p->h_f * p->w_f, per_image = p->groups * f->k, image = task / per_image;
    ptrdiff_t c = task % per_image / window, u = task % window / p->w_f, v = task % p->w_f;
    const T *x = (const T *)f->o->x + image * p->x_image + c * p->x_c;
    T *to = (T *)((char *)f->o->workspace + f->table_bytes) + task * f->pixels * p->inner;
    (void)thread;
    for (ptrdiff_t m = 0; m < p->h_out; m++, to += p->w_out * p->inner)
        FN(matrix_row)(p, x, m, u, v, to);
}

/* Are tiles whole lines of the result where it lies? Then they go to them directly. A border patch
 * may end within a line, unless a pixel is some. */
static int FN(is_whole_lines)(const FN(filter_plan) *f) {
    const ptrdiff_t row = f->kernel->algorithm == SC_IM2COL ? 0 : f->y.h;
    return (size_t)f->o->y % 64 == 0 && (f->y.image | f->y.c | row) % LINE_LEN == 0 &&
           TILE_COLUMNS % LINE_LEN == 0 && (!f->pitch || f->p->inner % LINE_LEN == 0);
}

static void FN(filter_rows_run)(const sc_kernel *kernel, const sc_problem *p,
                                const sc_operands *o) {
    FN(filter_plan) f = FN(filter_rows_plan)(kernel, p, o->team.threads, o->packed != NULL);
    sc_run *room = o->workspace;
    sc_place place = {p->x_c, p->x_h, p->x_w, 0, 0, 0, 0};
    char *own;
    f.o = o;
    if (FN(is_whole_lines)(&f)) f.by_lines = 0;
    if (kernel->algorithm == SC_IM2WIN) {
        f.table = sc_strip_table(p, 0, f.columns, room);
    } else if (kernel->algorithm == SC_IM2COL) {
        room[0].x = room[0].k = 0;
        room[0].len = f.k;
        f.table.runs = room;
        f.table.count = 1;
        f.table.len = f.k;
        f.table.even = 1;
        f.table.step = f.pixels * p->inner;
        sc_parallel(p->images * p->groups * f.k, o->team, FN(filter_rows_matrix), &f);
    } else {
        f.table = sc_window_table(p, &place, room);
    }
    if (f.pitch) {
        sc_problem compact = *p;
        sc_place patch = {p->h_f * f.pitch * p->inner, f.pitch * p->inner, p->inner, 0, 0, 0, 0};
        compact.dilation_h = 1;
        f.patch = sc_window_table(&compact, &patch, room + sc_table_room(p));
    }
    own = FN(filter_part)(&f, 0) + sc_lines(sizeof(sc_own)) +
          sc_lines((size_t)sc_table_room(p) * sizeof(sc_run));
    for (int i = 0; i < o->team.threads && f.ring; i++)
        memset(own + (size_t)i * f.thread_bytes, 0, (size_t)f.ring * sizeof(ptrdiff_t));
    own = FN(filter_part)(&f, 0);
    forget_filters(own, f.thread_bytes, o->team.threads);
    sc_parallel_parts(loop_tasks(&f.loop),
                      tasks_that_share(p, &f.loop, !o->packed && f.blocks % f.per_group == 0),
                      o->team, FN(filter_rows_task), &f);
}
