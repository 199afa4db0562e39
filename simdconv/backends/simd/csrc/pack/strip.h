/* im2win's strip of output row m: each padded column's h_f rows one below the other, columns in
 * order, so that the window of output column j is the run that starts at j*stride_w*h_f (arXiv
 * 2306.14320):
 *
 *   NHWC       strip[k*h_f + u][c]
 *   elsewhere  strip[c][k*h_f + u][inner]  row m*stride_h + u*dilation_h, column first + k, padded;
 * planes are `pitch` columns apart. */
static void FN(strip)(const sc_problem *p, const T *x, ptrdiff_t m, ptrdiff_t first,
                      ptrdiff_t columns, ptrdiff_t pitch, T *to) {
    ptrdiff_t planes = p->layout == SC_NHWC ? 1 : p->c_in;
    ptrdiff_t inner = p->layout == SC_NHWC ? p->c_in : p->inner;
    ptrdiff_t before = sc_min(sc_max(p->left - first, 0), columns);
    ptrdiff_t inside = sc_max(sc_min(p->left + p->w_in - first, columns), before);
    for (ptrdiff_t c = 0; c < planes; c++, x += p->x_c, to += pitch * p->h_f * inner)
        for (ptrdiff_t u = 0; u < p->h_f; u++) {
            ptrdiff_t row = sc_source_row(p, m, u), down = p->h_f * inner;
            T *at = to + u * inner;
            const T *from = x + row * p->x_h + (first + before - p->left) * p->x_w;
            for (ptrdiff_t k = 0; k < before; k++)
                FN(copy_or_zero)(at + k * down, FN(source)(p, x, row, first + k), inner);
            for (ptrdiff_t k = before; k < inside; k++, from += p->x_w)
                FN(copy_or_zero)(at + k * down, row < 0 ? NULL : from, inner);
            for (ptrdiff_t k = inside; k < columns; k++)
                FN(copy_or_zero)(at + k * down, FN(source)(p, x, row, first + k), inner);
        }
}
