/* Filters into blocks: packed[k*width + j] holds filter j of the block at step k, zeros past the last.
 *
 * The order of k is the order in which a recipe's runs present their window (filter_order): (u, v, c)
 * and (v, u, c) in NHWC, (c, u, v) and (c, v, u) elsewhere, in place and in a strip respectively.
 * Channels go in chunks, so that the rows being written stay in L1 while every filter passes by. */
#ifndef SC_FILTER_ORDER
#define SC_FILTER_ORDER
typedef struct {
    ptrdiff_t c, u, v; /* steps of k from one channel (row, column) of the window to the next */
} filter_order;

static filter_order filter_order_of(const sc_kernel *kernel, const sc_problem *p) {
    int strip = kernel->algorithm == SC_IM2WIN;
    filter_order order;
    ptrdiff_t inner = kernel->layout == SC_NHWC ? p->c_in : 1;
    order.c = kernel->layout == SC_NHWC ? 1 : p->h_f * p->w_f;
    order.u = strip ? inner : inner * p->w_f;
    order.v = strip ? inner * p->h_f : inner;
    return order;
}
#endif

static void FN(pack_filters)(const sc_problem *p, filter_order order, const T *w, ptrdiff_t width,
                             ptrdiff_t filters, T *packed) {
    enum { CHUNK = 16 };
    if (filters < width) memset(packed, 0, sizeof(T) * (size_t)(p->c_in * p->h_f * p->w_f * width));
    for (ptrdiff_t c0 = 0; c0 < p->c_in; c0 += CHUNK) {
        ptrdiff_t c1 = sc_min(c0 + CHUNK, p->c_in);
        for (ptrdiff_t j = 0; j < filters; j++)
            for (ptrdiff_t c = c0; c < c1; c++)
                for (ptrdiff_t u = 0; u < p->h_f; u++) {
                    const T *from = w + j * p->w_o + c * p->w_i + u * p->w_h;
                    T *to = packed + (c * order.c + u * order.u) * width + j;
                    for (ptrdiff_t v = 0; v < p->w_f; v++)
                        to[v * order.v * width] = from[v * p->w_w];
                }
    }
}
