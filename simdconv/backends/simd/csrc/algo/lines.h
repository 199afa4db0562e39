/* How a result goes past the caches where its rows are no whole lines (in NCHW they start at any
 * address, in CHWN and CHWN8 some do, and all where the caller's array starts within a line): a tile
 * alone would write pieces of lines, and memory would have to be read first. What a filter's tiles
 * leave over its last whole line is kept until more comes; what a task leaves at its ends is
 * written as it is. */
typedef struct {
    T *rows; /* of each filter: its last LINE_LEN elements that left, then those that wait */
    ptrdiff_t row, to_filter;
    ptrdiff_t room, waiting; /* elements of a row */
    ptrdiff_t done;          /* elements of each filter since the task began */
    int leave, at_once;      /* next_tile: does what waits leave, is the tile not to wait at all */
} FN(lines);

/* How many elements may wait, for tiles of `most`: so few that memory takes their lines while sums
 * go on, more than one tile's, as each time what is left over is moved. */
static ptrdiff_t FN(lines_room)(ptrdiff_t most) { return 4 * most; }

/* a filter's elements here: whole vectors are read, and may be written */
static ptrdiff_t FN(lines_row)(ptrdiff_t most) {
    return LINE_LEN + sc_ceil_div(FN(lines_room)(most) + VL, VL) * VL;
}

static size_t FN(lines_bytes)(ptrdiff_t filters, ptrdiff_t most) {
    return sc_lines((size_t)(filters * FN(lines_row)(most)) * sizeof(T));
}

/* nothing is here yet */
static FN(lines) FN(no_lines)(T *rows, ptrdiff_t most, ptrdiff_t to_filter) {
    return (FN(lines)){rows, FN(lines_row)(most), to_filter, FN(lines_room)(most), 0, 0, 0, 0};
}

/* part of a line */
static void FN(put_piece)(T *to, const T *from, ptrdiff_t n) {
    for (; n > 0; n -= VL, to += VL, from += VL) {
        const mask valid = v_mask(n);
        v_store_mask(to, v_load_mask(from, valid), valid);
    }
}

/* Whole lines of what waits leave: of `filters` filters, the first of which has this row, and goes
 * on at `to`. */
static void FN(put_lines)(const FN(lines) *w, T *row, T *to, ptrdiff_t filters) {
    const ptrdiff_t n = w->waiting, whole = n / VL * VL, part = n % VL, left = w->done - n;
    to -= n;
    for (; filters > 0; filters--, to += w->to_filter, row += w->row) {
        const ptrdiff_t before = FN(before)(to);
        ptrdiff_t count = (before + n) / LINE_LEN, at = LINE_LEN - before;
        T *line = to - before;
        const T *from;
        vec low;
        if (before > left && count > 0) { /* the line began before the task did */
            FN(put_piece)(to - left, row + LINE_LEN - left, at + left);
            at += LINE_LEN;
            line += LINE_LEN;
            count--;
        }
        from = row + at / VL * VL;
        low = v_load(from);
        for (T *end = line + count * LINE_LEN; line < end; line += VL) {
            const vec high = v_load(from += VL);
            v_stream(line, v_window(low, high, at % VL));
            low = high;
        }
        for (ptrdiff_t v = 0; v < LINE_LEN; v += VL) {
            from = row + whole + v;
            v_store(row + v, part ? v_window(v_load(from), v_load(from + VL), part) : v_load(from));
        }
    }
}

/* Before a tile of `n` elements of each filter: does what waits leave for it? Those that follow one
 * another in registers, a line in each, need not wait themselves. */
static void FN(next_tile)(FN(lines) *w, ptrdiff_t n, int in_registers) {
    w->at_once = in_registers && VL == LINE_LEN && w->done >= LINE_LEN;
    w->leave = w->at_once || w->waiting + n > w->room;
}

/* Where that of some filters goes, the first of them `filter`, its next element due at `to` */
static void FN(place_tile)(const FN(lines) *w, ptrdiff_t filter, ptrdiff_t filters, T *to,
                           FN(tile) *t) {
    T *row = w->rows + filter * w->row;
    if (w->leave && w->waiting > 0) FN(put_lines)(w, row, to, filters);
    t->kept = row;
    t->c = w->at_once ? to : row + LINE_LEN + (w->leave ? 0 : w->waiting);
}

/* after all filters' */
static void FN(tile_done)(FN(lines) *w, ptrdiff_t n) {
    if (w->leave) w->waiting = 0;
    if (!w->at_once) w->waiting += n;
    w->done += n;
}

/* all that is left of `filters` filters, the first of which ends at `to`, after a task's last tile
 */
static void FN(put_ends)(const FN(lines) *w, T *to, ptrdiff_t filters) {
    const T *end = w->rows + LINE_LEN;
    FN(put_lines)(w, w->rows, to, filters);
    for (; filters > 0; filters--, to += w->to_filter, end += w->row) {
        const ptrdiff_t left = sc_min(FN(before)(to), w->done);
        FN(put_piece)(to - left, end - left, left);
    }
}
