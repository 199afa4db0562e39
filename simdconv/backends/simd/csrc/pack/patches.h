/* Rows of im2col's matrix. `x` is the first channel of one image. */

/* Some lines at most, as often as not: a call of memcpy would take as long again. */
SC_INLINE void FN(copy)(T *restrict to, const T *restrict from, ptrdiff_t n) {
    enum { LINE = 64 / sizeof(T) };
    ptrdiff_t i = 0;
    for (; i + LINE <= n; i += LINE) memcpy(to + i, from + i, 64);
#define SC_COPY_PART(bytes)                                                                        \
    if ((size_t)n * sizeof(T) & (bytes)) {                                                         \
        memcpy(to + i, from + i, bytes);                                                           \
        i += (bytes) / (ptrdiff_t)sizeof(T);                                                       \
    }
    SC_COPY_PART(32)
    SC_COPY_PART(16)
    SC_COPY_PART(8)
    SC_COPY_PART(4)
    SC_COPY_PART(2)
    SC_COPY_PART(1)
#undef SC_COPY_PART
}

SC_INLINE void FN(copy_or_zero)(T *restrict to, const T *restrict from, ptrdiff_t n) {
    if (from) FN(copy)(to, from, n);
    else memset(to, 0, (size_t)n * sizeof(T));
}

/* source column of a padded column, -1 for a zero */
SC_INLINE ptrdiff_t FN(source_column)(const sc_problem *p, ptrdiff_t padded) {
    ptrdiff_t column = padded - p->left;
    return column >= 0 && column < p->w_in ? column : sc_beyond(p->padding, column, p->w_in);
}

SC_INLINE const T *FN(source)(const sc_problem *p, const T *x, ptrdiff_t row, ptrdiff_t padded) {
    ptrdiff_t column = FN(source_column)(p, padded);
    return row < 0 || column < 0 ? NULL : x + row * p->x_h + column * p->x_w;
}

/* NHWC im2col: the window of output pixel (m, j): h_f*w_f*channels elements, (u, v, c) */
static void FN(window_row)(const sc_problem *p, const T *x, ptrdiff_t m, ptrdiff_t j,
                           ptrdiff_t channels, T *to) {
    for (ptrdiff_t u = 0; u < p->h_f; u++) {
        ptrdiff_t row = sc_source_row(p, m, u);
        for (ptrdiff_t v = 0; v < p->w_f; v++, to += channels)
            FN(copy_or_zero)(to, FN(source)(p, x, row, j * p->stride_w + v * p->dilation_w),
                             channels);
    }
}

/* im2col elsewhere: row (c, u, v) of the matrix along output row m: w_out*inner elements;
 * x is the channel's first element */
static void FN(matrix_row)(const sc_problem *p, const T *x, ptrdiff_t m, ptrdiff_t u, ptrdiff_t v,
                           T *to) {
    ptrdiff_t row = sc_source_row(p, m, u);
    for (ptrdiff_t j = 0; j < p->w_out; j++, to += p->inner)
        FN(copy_or_zero)(to, FN(source)(p, x, row, j * p->stride_w + v * p->dilation_w), p->inner);
}
