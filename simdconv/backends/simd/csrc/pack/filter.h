/* Filters into blocks: packed[k*width + j] holds filter j of the block at step k, zeros past the
 * last.
 *
 * The order of k is the order in which a recipe's runs present their window (filter_order): (u, v,
 * c) and (v, u, c) in NHWC and in NCHW staged channels last, (c, u, v) and (c, v, u) elsewhere, in
 * place and in a strip respectively. A filter whose elements are contiguous (OIHW or OHWI) is read
 * in its own order, four elements of sixteen filters at a time, transposed in registers: whole
 * cache lines are written, none is visited twice. */
#ifndef SC_FILTER_ORDER
#define SC_FILTER_ORDER
typedef struct {
    ptrdiff_t c, u, v; /* steps of k from one channel (row, column) of the window to the next */
    ptrdiff_t phases;  /* more than 1: columns v of one phase v % phases after those of another */
} filter_order;

/* steps of k from column 0 to column v */
static inline ptrdiff_t filter_column(filter_order order, ptrdiff_t w_f, ptrdiff_t v) {
    if (order.phases <= 1) return v * order.v;
    const ptrdiff_t phase = v % order.phases;
    const ptrdiff_t before = phase * (w_f / order.phases) + sc_min(phase, w_f % order.phases);
    return (before + v / order.phases) * order.v;
}

static filter_order filter_order_of(const sc_kernel *kernel, const sc_problem *p, int staged) {
    int strip = kernel->algorithm == SC_IM2WIN;
    int channels_last = kernel->layout == SC_NHWC || (strip && kernel->layout == SC_NCHW) ||
                        (kernel->algorithm == SC_DIRECT && staged);
    filter_order order;
    ptrdiff_t inner = channels_last ? p->c_in : 1;
    order.c = channels_last ? 1 : p->h_f * p->w_f;
    order.u = strip ? inner : inner * p->w_f;
    order.v = strip ? inner * p->h_f : inner;
    order.phases = 1;
    return order;
}

/* Walks a filter in the order in which it lies in memory, and tells where in k it is. */
typedef struct {
    ptrdiff_t middle_count, inner_count;
    ptrdiff_t outer, middle, inner; /* steps of k */
    ptrdiff_t k, m, i;
} filter_walk;

static int filter_is_oihw(const sc_problem *p) {
    return p->w_w == 1 && p->w_h == p->w_f && p->w_i == p->h_f * p->w_f;
}

static int filter_is_ohwi(const sc_problem *p) {
    return p->w_i == 1 && p->w_w == p->c_in && p->w_h == p->w_f * p->c_in;
}

static filter_walk filter_walk_of(const sc_problem *p, filter_order order) {
    filter_walk oihw = {p->h_f, p->w_f, order.c, order.u, order.v, 0, 0, 0};
    filter_walk ohwi = {p->w_f, p->c_in, order.u, order.v, order.c, 0, 0, 0};
    return filter_is_oihw(p) ? oihw : ohwi;
}

static inline ptrdiff_t filter_step(filter_walk *w) {
    ptrdiff_t at = w->k;
    w->k += w->inner;
    if (++w->i < w->inner_count) return at;
    w->i = 0;
    w->k += w->middle - w->inner_count * w->inner;
    if (++w->m < w->middle_count) return at;
    w->m = 0;
    w->k += w->outer - w->middle_count * w->middle;
    return at;
}
#endif

/* `filters` filters, w_o apart, of `count` elements, in the order in which they lie. In chunks of
 * some lines of VL filters: filters lie a multiple of half a page apart as often as not, and more
 * of them would push each other's lines out of L1. The next chunk is asked for, and the lines that
 * the next block writes: they are as far apart, in the order of K, as a tap's channels are long. */
static void FN(pack_walk)(const sc_problem *p, filter_walk walk, const T *w, ptrdiff_t count,
                          ptrdiff_t width, ptrdiff_t filters, T *packed) {
    enum { LINE = 64 / sizeof(T), CHUNK = 4 * LINE };
    ptrdiff_t at[CHUNK + VL], known = 0;
    for (ptrdiff_t first = 0; first < count; first += CHUNK) {
        const ptrdiff_t elements = sc_min(CHUNK, count - first), whole = elements / VL * VL;
        for (; known < sc_min(CHUNK + VL, count - first); known++)
            at[known] = filter_step(&walk) * width;
        for (ptrdiff_t j = 0; j < filters; j += VL) {
            const T *from = w + j * p->w_o + first;
            T *to = packed + j;
            ptrdiff_t lanes = sc_min(VL, filters - j), k = 0;
            for (; k < whole && lanes == VL; k += VL) {
                vec r[VL];
                for (ptrdiff_t n = k + VL; n < sc_min(k + 2 * VL, known); n++)
                    __builtin_prefetch(to + at[n], 1);
#pragma GCC unroll 16
                for (int n = 0; n < VL; n++) r[n] = v_load(from + n * p->w_o + k);
                for (int n = 0; n < VL && k % LINE == 0; n++)
                    __builtin_prefetch(from + n * p->w_o + k + CHUNK, 0, 2);
                v_transpose(r);
#pragma GCC unroll 16
                for (int n = 0; n < VL; n++) v_store(to + at[k + n], r[n]);
            }
            for (; k < elements; k++)
                for (ptrdiff_t n = 0; n < lanes; n++) to[at[k] + n] = from[n * p->w_o + k];
        }
        for (ptrdiff_t k = CHUNK; k < known; k++) at[k - CHUNK] = at[k];
        known = sc_max(0, known - CHUNK);
    }
}

static void FN(pack_filters)(const sc_problem *p, filter_order order, const T *w, ptrdiff_t width,
                             ptrdiff_t filters, T *packed) {
    ptrdiff_t count = p->c_in * p->h_f * p->w_f;
    if (filters < width) memset(packed, 0, sizeof(T) * (size_t)(count * width));
    if (order.phases <= 1 && (filter_is_oihw(p) || filter_is_ohwi(p))) {
        const ptrdiff_t together = sizeof(vec) < 64 ? filters : VL; /* that fill a line at least */
        for (ptrdiff_t j = 0; j < filters; j += together)
            FN(pack_walk)(p, filter_walk_of(p, order), w + j * p->w_o, count, width,
                          sc_min(together, filters - j), packed + j);
        return;
    }
    for (ptrdiff_t c = 0; c < p->c_in; c++)
        for (ptrdiff_t u = 0; u < p->h_f; u++)
            for (ptrdiff_t v = 0; v < p->w_f; v++) {
                const T *from = w + c * p->w_i + u * p->w_h + v * p->w_w;
                T *to =
                    packed + (c * order.c + u * order.u + filter_column(order, p->w_f, v)) * width;
                for (ptrdiff_t j = 0; j < filters; j++) to[j] = from[j * p->w_o];
            }
}
