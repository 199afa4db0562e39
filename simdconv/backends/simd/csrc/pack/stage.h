/* One row of an image, channels last, with its padding: to[k*distance + c] is channel c of
 * padded column first + k. Rows staged like this are read by the rows kernel as if the image were
 * NHWC: runs of w_f*c_in instead of c_in runs of w_f, and no border left to care for. What the
 * next output row will stage is asked for meanwhile: planes are too far apart for the hardware to
 * see. `x` is the first channel of the group; row < 0: zeros. */
static void FN(stage_inside)(const sc_problem *p, const T *x, ptrdiff_t columns, ptrdiff_t distance,
                             T *to) {
    if (p->x_w == 1) {
        for (ptrdiff_t c = 0; c < p->c_in; c++)
            __builtin_prefetch(x + c * p->x_c + p->stride_h * p->x_h);
        FN(transpose)(x, p->x_c, p->c_in, columns, to, distance);
        return;
    }
    if (p->x_c == 1 && p->x_w == p->c_in && distance == p->c_in) {
        FN(copy)(to, x, columns * p->c_in);
        return;
    }
    if (p->x_c == 1) {
        for (ptrdiff_t k = 0; k < columns; k++)
            FN(copy)(to + k * distance, x + k * p->x_w, p->c_in);
        return;
    }
    for (ptrdiff_t c = 0; c < p->c_in; c++)
        for (ptrdiff_t k = 0; k < columns; k++) to[k * distance + c] = x[c * p->x_c + k * p->x_w];
}

static void FN(stage_row)(const sc_problem *p, const T *x, ptrdiff_t row, ptrdiff_t first,
                          ptrdiff_t columns, ptrdiff_t distance, T *to) {
    enum { CHUNK = 16 };
    ptrdiff_t before = row < 0 ? columns : sc_min(sc_max(p->left - first, 0), columns);
    ptrdiff_t inside = sc_max(sc_min(p->left + p->w_in - first, columns), before);
    if (row < 0) inside = columns;
    for (ptrdiff_t k = 0; k < columns; k++) {
        const T *from;
        if (k == before) k = inside;
        if (k >= columns) break;
        from = FN(source)(p, x, row, first + k);
        if (!from || p->x_c == 1) {
            FN(copy_or_zero)(to + k * distance, from, p->c_in);
            continue;
        }
        for (ptrdiff_t c = 0; c < p->c_in; c++) to[k * distance + c] = from[c * p->x_c];
    }
    for (ptrdiff_t k = before; k < inside; k += CHUNK)
        FN(stage_inside)(p, x + row * p->x_h + (first + k - p->left) * p->x_w,
                         sc_min(CHUNK, inside - k), distance, to + k * distance);
}
