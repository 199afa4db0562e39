/* The surroundings of a tile at the border, copied with their padding. */
/* The padded columns [first, first + columns) of output row m's window rows, `pitch` columns apart:
 * NHWC (u, column, c), elsewhere (c, u, column, inner). */
static void FN(border_patch)(const sc_problem *p, const T *x, ptrdiff_t m, ptrdiff_t first,
                             ptrdiff_t columns, ptrdiff_t pitch, T *to) {
    ptrdiff_t planes = p->layout == SC_NHWC ? 1 : p->c_in;
    ptrdiff_t inner = p->layout == SC_NHWC ? p->c_in : p->inner;
    for (ptrdiff_t c = 0; c < planes; c++)
        for (ptrdiff_t u = 0; u < p->h_f; u++, to += pitch * inner) {
            ptrdiff_t row = sc_source_row(p, m, u);
            for (ptrdiff_t k = 0; k < columns; k++)
                FN(copy_or_zero)(to + k * inner, FN(source)(p, x + c * p->x_c, row, first + k),
                                 inner);
        }
}
