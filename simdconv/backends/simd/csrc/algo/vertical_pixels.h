/* Driver "vertical_pixels": NCHW, CHWN and CHWN8, groups of few filters (and images of few
 * channels). Vectors lie along the pixels and images of a row; outputs of a tile are rows.
 *
 *   for a block of planes (image, group), of output rows, of columns     (a task)
 *     for plane
 *       for a chunk of its output rows: present their windows: in place, or from rows that are
 *           padded and split by the stride (pack/phases.h)             (L1, or L2 if it must be)
 *         for tile of at most VERTICAL_ROWS rows, balanced
 *           for vector of columns
 *             for filter: micro-kernel over the whole K, in the order (c, v, u)
 *
 * The last vector of a segment ends where the segment does: it may overlap the one before, and
 * writes the same values again; it is half a register where that is enough. Filters are read where
 * they lie, two at a time if there are registers for two. Workspace: one table of runs; for each
 * thread the padded rows of a block. */
typedef struct {
    const sc_problem *p;
    const sc_operands *o;
    sc_strides y;
    ptrdiff_t planes, together, plane_blocks;    /* all; of a task */
    ptrdiff_t rows, chunk, row_blocks, segments; /* rows of a task, presented at a time */
    int staged;
    ptrdiff_t phases, phase, row, plane; /* staged: their count; elements from one to the next */
    size_t table_bytes, thread_bytes;
    sc_table table;
} FN(plane_plan);

static size_t FN(rows_of_phases)(const FN(plane_plan) *f, ptrdiff_t rows) {
    const sc_problem *p = f->p;
    ptrdiff_t held = (rows - 1) * p->stride_h + (p->h_f - 1) * p->dilation_h + 1;
    return (size_t)(p->c_in * held * f->row) * sizeof(T);
}

/* Do the rows of a tile's windows meet in one set of L1, where rows follow one another? */
static int FN(rows_meet)(const sc_problem *p) {
    enum { BYTES = 64, PERIOD = 4096, WAYS = 6 };
    ptrdiff_t span = (VERTICAL_ROWS - 1) * p->stride_h + (p->h_f - 1) * p->dilation_h + 1, met = 0;
    for (ptrdiff_t r = 0; r < sc_min(span, 64); r++) {
        ptrdiff_t at = (ptrdiff_t)((size_t)(r * p->w_in) * sizeof(T) % PERIOD);
        met += at < BYTES || at > PERIOD - BYTES;
    }
    return met > WAYS;
}

/* how long a phase, a row are in a segment */
static void FN(measure_phases)(FN(plane_plan) *f) {
    const sc_problem *p = f->p;
    ptrdiff_t columns = sc_ceil_div(p->w_out, f->segments);
    ptrdiff_t span = (columns - 1) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1;
    f->phases = p->w_f == 1 ? 1 : sc_min(p->stride_w, span);
    f->phase = sc_ceil_div(span, p->stride_w) * p->inner;
    f->phase = sc_ceil_div(f->phase + (columns * p->inner < VL ? VL : 0), LINE_LEN) * LINE_LEN;
    /* room for a vector past the end; an odd number of lines: rows do not meet in one set of L1 */
    f->row = ((f->phases * f->phase / LINE_LEN + 1) | 1) * LINE_LEN;
}

static FN(plane_plan) FN(vertical_pixels_plan)(const sc_problem *p, int threads) {
    enum { TASKS_A_THREAD = 8, WORK = 1 << 14 };
    FN(plane_plan) f;
    ptrdiff_t tiles = sc_ceil_div(p->h_out, VERTICAL_ROWS), tasks = threads * TASKS_A_THREAD;
    ptrdiff_t most, work, fit;
    const size_t near = sc_cache_bytes(1) * 3 / 4, far = sc_cache_bytes(2) / 4;
    memset(&f, 0, sizeof f);
    f.p = p;
    f.y = sc_result_strides(p);
    f.planes = p->images * p->groups;
    f.together = f.segments = 1;
    /* of NCHW the pixels of a row are known to be neighbours; the strides of x are not known yet */
    f.staged = p->h_p > p->h_in || p->w_p > p->w_in || p->stride_w > 1 || p->layout != SC_NCHW ||
               p->w_out < VL || FN(rows_meet)(p);
    FN(measure_phases)(&f);
    most = p->w_out * p->inner / (4 * VL); /* a segment is four vectors and a pixel at least */
    most = sc_max(1, sc_min(most, p->w_out));
    while (f.staged && f.segments < most &&
           FN(rows_of_phases)(&f, sc_min(p->h_out, VERTICAL_ROWS)) > far) {
        f.segments = sc_min(2 * f.segments, most);
        FN(measure_phases)(&f);
    }
    /* tiles of rows: a chunk's fit in L1, or L2; a task's are so few that all threads are busy */
    f.row_blocks = threads > 1 ? sc_ceil_div(tasks, f.planes * f.segments) : 1;
    f.row_blocks = sc_min(tiles, sc_max(f.row_blocks, tiles / 16));
    fit = sc_ceil_div(tiles, f.row_blocks);
    f.rows = sc_min(fit * VERTICAL_ROWS, p->h_out);
    f.row_blocks = sc_ceil_div(p->h_out, f.rows);
    for (; f.staged && fit > 1; fit--) {
        size_t bytes = FN(rows_of_phases)(&f, fit * VERTICAL_ROWS);
        if (bytes <= near || (bytes <= far && FN(rows_of_phases)(&f, VERTICAL_ROWS) > near)) break;
    }
    f.chunk = sc_min(fit * VERTICAL_ROWS, f.rows);
    work =
        f.rows * (p->w_out / f.segments * p->inner / VL + 1) * p->c_out * p->c_in * p->h_f * p->w_f;
    if (f.row_blocks == 1 && f.segments == 1)
        f.together = sc_max(1, sc_min(WORK / sc_max(1, work), f.planes / tasks));
    f.plane_blocks = sc_ceil_div(f.planes, f.together);
    f.plane = (ptrdiff_t)(FN(rows_of_phases)(&f, f.chunk) / sizeof(T)) / sc_max(1, p->c_in);
    f.table_bytes = sc_lines((size_t)(p->c_in * p->w_f) * sizeof(sc_run));
    /* and a line more, for where rows start */
    f.thread_bytes =
        f.staged ? sc_lines(FN(rows_of_phases)(&f, f.chunk) + LINE_LEN * sizeof(T)) : 0;
    return f;
}

static size_t FN(vertical_pixels_workspace)(const sc_kernel *kernel, const sc_problem *p,
                                            int threads, int packed) {
    FN(plane_plan) f = FN(vertical_pixels_plan)(p, threads);
    (void)kernel;
    (void)packed;
    return f.table_bytes + (size_t)threads * f.thread_bytes;
}

/* `rows` rows of each channel from row `first` on, which lie as they are wanted */
static void FN(stage_lines)(const FN(plane_plan) *f, const FN(phase_span) *at, const T *x,
                            ptrdiff_t first, ptrdiff_t rows, T *to) {
    const sc_problem *p = f->p;
    const ptrdiff_t count = (at->inside - at->before) * p->inner;
    const ptrdiff_t above = sc_min(sc_max(-first, 0), rows), pitch = f->row;
    const ptrdiff_t below = sc_max(above, sc_min(rows, p->h_in - first));
    for (ptrdiff_t c = 0; c < p->c_in; c++, x += p->x_c, to += f->plane) {
        const T *from = x + (above < below ? first + above : 0) * p->x_h + at->column * p->x_w;
        T *put = to + above * pitch + at->before * p->inner;
        for (ptrdiff_t r = 0; r < above; r++) FN(zeros)(to + r * pitch, f->phase);
        for (ptrdiff_t r = above; r < below; r++, from += p->x_h, put += pitch)
            FN(line_of_pixels)(from, p->inner, p->inner, count, put);
        for (ptrdiff_t r = below; r < rows; r++) FN(zeros)(to + r * pitch, f->phase);
    }
}

/* the padded rows that output rows [m, last) of a plane want, from output column j on */
static void FN(stage_plane)(const FN(plane_plan) *f, const T *x, ptrdiff_t m, ptrdiff_t last,
                            ptrdiff_t j, ptrdiff_t columns, T *to) {
    enum { TOGETHER = 4 };
    const sc_problem *p = f->p;
    const ptrdiff_t span = (columns - 1) * p->stride_w + (p->w_f - 1) * p->dilation_w + 1;
    const ptrdiff_t reach = (p->h_f - 1) * p->dilation_h + 1;
    const ptrdiff_t rows = (last - 1 - m) * p->stride_h + reach;
    for (ptrdiff_t first = 0; first < f->phases; first += TOGETHER, to += TOGETHER * f->phase) {
        const ptrdiff_t phases = sc_min(TOGETHER, f->phases - first);
        FN(phase_span) at[TOGETHER];
        for (ptrdiff_t i = 0; i < phases; i++)
            at[i] = FN(phase_span_of)(p, j * p->stride_w + first + i, span - first - i);
        if (f->phases == 1 && p->padding == SC_CONSTANT && p->stride_h <= reach &&
            p->stride_w * p->x_w == p->inner) {
            FN(stage_lines)(f, at, x, m * p->stride_h - p->top, rows, to);
            continue;
        }
        for (ptrdiff_t c = 0; c < p->c_in; c++)
            for (ptrdiff_t r = 0; r < rows; r++) {
                ptrdiff_t row = m * p->stride_h - p->top + r;
                if (p->stride_h > reach && r % p->stride_h >= reach) continue; /* no window's */
                if (row < 0 || row >= p->h_in) row = sc_beyond(p->padding, row, p->h_in);
                T *put = to + c * f->plane + r * f->row;
                if (row < 0) FN(zeros)(put, phases * f->phase);
                for (ptrdiff_t i = 0; i < phases && row >= 0; i++, put += f->phase)
                    FN(phase_row)(p, at + i, x + c * p->x_c, row, put);
            }
    }
}

/* What is wanted next, asked for line by line while the sums of a chunk are made */
typedef struct {
    const T *x;
    ptrdiff_t x_c, channels, length; /* of each channel, elements from x on */
    ptrdiff_t each;                  /* lines at a time */
    ptrdiff_t c, at;
} FN(soon);

/* of the chunk behind rows [.., next) of a plane, which the same thread takes as often as not: the
 * next rows, or the next plane's first ones; small planes would pass by before they come */
static FN(soon)
    FN(soon_of)(const FN(plane_plan) *f, ptrdiff_t plane, ptrdiff_t next, ptrdiff_t calls) {
    enum { SMALL = 2048 / sizeof(T) };
    const sc_problem *p = f->p;
    const ptrdiff_t reach = (p->h_f - 1) * p->dilation_h + 1;
    ptrdiff_t row = 0, last = (f->chunk - 1) * p->stride_h + reach - p->top;
    FN(soon) s;
    memset(&s, 0, sizeof s);
    if (next < p->h_out) { /* not what this chunk has read */
        row = sc_max(0, (next - 1) * p->stride_h + reach - p->top);
        last += next * p->stride_h;
    } else if (++plane >= f->planes || p->h_in * p->x_h < SMALL) return s;
    last = sc_min(last, p->h_in);
    if (f->segments > 1 || p->x_h != p->w_in * p->x_w || row >= last) return s;
    s.x = (const T *)f->o->x + plane / p->groups * p->x_image +
          plane % p->groups * p->c_in * p->x_c + row * p->x_h;
    s.x_c = p->x_c;
    s.channels = p->c_in;
    s.length = (last - row) * p->x_h;
    s.each = sc_ceil_div(sc_ceil_div(s.length, LINE_LEN) * s.channels, calls);
    return s;
}

static void FN(ask_soon)(FN(soon) *s) {
    for (ptrdiff_t n = s->each; n > 0 && s->c < s->channels; n--) {
        __builtin_prefetch(s->x + s->c * s->x_c + s->at, 0, 2);
        s->at += LINE_LEN;
        if (s->at < s->length) continue;
        s->at = 0;
        s->c++;
    }
}

/* Output rows [m, last) of a plane: `from` is where the windows of row m start. `y`, filters and
 * bias are those of the plane's first filter. */
static void FN(plane_rows)(const FN(plane_plan) *f, FN(tile) *t, const T *from, ptrdiff_t rows,
                           ptrdiff_t columns, ptrdiff_t filter, T *y, FN(soon) *soon) {
    const sc_problem *p = f->p;
    const ptrdiff_t tiles = sc_ceil_div(rows, VERTICAL_ROWS), k = p->c_in * p->h_f * p->w_f;
    const T *w = (const T *)f->o->w + filter * k;
    for (ptrdiff_t tile = 0; tile < tiles; tile++) {
        const ptrdiff_t row = sc_part(rows, tiles, tile);
        const ptrdiff_t height = sc_part(rows, tiles, tile + 1) - row;
        for (ptrdiff_t q = 0; q < columns; q += VL) {
            const int narrow = VNARROW && 2 * (columns - q) <= VL;
            const ptrdiff_t lanes = narrow ? VL / 2 : VL;
            const ptrdiff_t at = columns < lanes ? 0 : sc_min(q, columns - lanes);
            t->columns[0] = t->columns[1] = sc_min(columns, lanes);
            t->b = from + row * t->b_vector + at;
            FN(ask_soon)(soon);
            for (ptrdiff_t i = 0, pair; i < p->c_out; i += 1 + pair) {
                pair = VERTICAL_PAIRS && p->c_out - i > 1;
                t->a = w + i * k;
                t->c = y + i * f->y.c + row * f->y.h + at;
                t->bias = f->o->bias ? (const T *)f->o->bias + filter + i : NULL;
                FN(vertical_kernels)[height - 1][narrow][pair ? BY_PAIR : BY_FILTER](t);
            }
        }
    }
}

static void FN(vertical_pixels_task)(void *context, ptrdiff_t task, int thread) {
    const FN(plane_plan) *f = context;
    const sc_problem *p = f->p;
    const ptrdiff_t block = task / f->row_blocks / f->segments;
    const ptrdiff_t segment = task / f->row_blocks % f->segments;
    const ptrdiff_t first = task % f->row_blocks * f->rows,
                    last = sc_min(p->h_out, first + f->rows);
    const ptrdiff_t j0 = sc_part(p->w_out, f->segments, segment);
    const ptrdiff_t j1 = sc_part(p->w_out, f->segments, segment + 1);
    const ptrdiff_t columns = (j1 - j0) * p->inner;
    const ptrdiff_t end = sc_min(f->planes, (block + 1) * f->together);
    T *stage = (T *)((char *)f->o->workspace + f->table_bytes + (size_t)thread * f->thread_bytes);
    /* rows start so that what is copied starts a line; their padding may lie in the line before */
    const ptrdiff_t before = sc_ceil_div(sc_max(0, p->left - j0 * p->stride_w), p->stride_w);
    const ptrdiff_t lead = sc_ceil_div(before * p->inner, LINE_LEN) * LINE_LEN - before * p->inner;
    FN(tile) t;
    memset(&t, 0, sizeof t);
    FN(tile_epilogue)(p, &t);
    t.runs = f->table.runs;
    t.count = f->table.count;
    t.len = f->table.len;
    t.a_row = p->w_f;
    t.b_step = p->dilation_h * (f->staged ? f->row : p->x_h);
    t.b_vector = p->stride_h * (f->staged ? f->row : p->x_h);
    t.c_row = f->y.h;
    t.c_vector = f->y.c;
    t.a_filter = p->c_in * p->h_f * p->w_f;
    if (f->staged) FN(zeros)(stage, p->c_in * f->plane + LINE_LEN);
    stage += lead;
    for (ptrdiff_t plane = block * f->together; plane < end; plane++) {
        const ptrdiff_t image = plane / p->groups, group = plane % p->groups;
        const T *x = (const T *)f->o->x + image * p->x_image + group * p->c_in * p->x_c;
        T *y = (T *)f->o->y + image * f->y.image + group * p->c_out * f->y.c + j0 * f->y.w;
        for (ptrdiff_t m = first; m < last; m += f->chunk) {
            const ptrdiff_t next = sc_min(last, m + f->chunk);
            if (f->staged) FN(stage_plane)(f, x, m, next, j0, j1 - j0, stage);
            FN(soon) soon = FN(soon_of)(
                f, plane, next, sc_ceil_div(next - m, VERTICAL_ROWS) * sc_ceil_div(columns, VL));
            FN(plane_rows)(f, &t, f->staged ? stage : x + m * t.b_vector + j0 * p->x_w, next - m,
                           columns, group * p->c_out, y + m * f->y.h, &soon);
        }
    }
}

static void FN(vertical_pixels_run)(const sc_kernel *kernel, const sc_problem *p,
                                    const sc_operands *o) {
    FN(plane_plan) f = FN(vertical_pixels_plan)(p, o->team.threads);
    sc_run *runs = o->workspace;
    (void)kernel;
    f.o = o;
    for (ptrdiff_t c = 0; c < p->c_in; c++)
        for (ptrdiff_t v = 0; v < p->w_f; v++, runs++) {
            const ptrdiff_t column = v * p->dilation_w, phase = column % p->stride_w;
            runs->k = c * p->h_f * p->w_f + v;
            runs->x = f.staged ? c * f.plane + phase * f.phase + column / p->stride_w * p->inner
                               : c * p->x_c + column * p->x_w;
        }
    f.table.runs = o->workspace;
    f.table.count = p->c_in * p->w_f;
    f.table.len = p->h_f;
    sc_parallel(f.plane_blocks * f.row_blocks * f.segments, o->team, FN(vertical_pixels_task), &f);
}
