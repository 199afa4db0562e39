/* `count` pieces of `size` elements, `step` apart, to places `down` apart. Pictures have one to four
 * channels, for which a copy of any size would take longer than the piece; three are copied as four
 * where what follows a piece is still to be written (`loose`), and there is a fourth to read. */
static void FN(strip_pieces)(const T *from, ptrdiff_t step, ptrdiff_t count, ptrdiff_t size, T *to,
                             ptrdiff_t down, int loose) {
#define SC_PIECES(n, last)                                                                         \
    for (; count > (last); count--, from += step, to += down) FN(copy)(to, from, n)
    switch (size) {
    case 1: SC_PIECES(1, 0); break;
    case 2: SC_PIECES(2, 0); break;
    case 3:
        if (loose && step == 3) SC_PIECES(4, 1);
        SC_PIECES(3, 0);
        break;
    case 4: SC_PIECES(4, 0); break;
    default: SC_PIECES(size, 0);
    }
#undef SC_PIECES
}

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
            if (row >= 0)
                FN(strip_pieces)(from, p->x_w, inside - before, inner, at + before * down, down,
                                 u < p->h_f - 1);
            for (ptrdiff_t k = before; k < inside && row < 0; k++)
                FN(copy_or_zero)(at + k * down, NULL, inner);
            for (ptrdiff_t k = inside; k < columns; k++)
                FN(copy_or_zero)(at + k * down, FN(source)(p, x, row, first + k), inner);
        }
}
