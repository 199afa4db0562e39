/* A fuzzer of the C entry points: sc_conv, sc_pack, sc_im2col and sc_im2win.
 *
 * The fuzzer's bytes become a problem that the binding could make: any sizes, strides of either
 * sign, every padding, filters with any strides, packed or not, one to three threads, every kernel
 * that this machine runs. Each array has exactly the elements that the problem speaks of, so that
 * the address sanitizer sees one element too many. The numbers are whole, so results are compared
 * with == to plain loops; a few weights are Inf or NaN. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simdconv.h"

enum { MOST_PADDED = 128, MOST_WORK = 1 << 19 };

typedef struct {
    const uint8_t *data;
    size_t size;
} input;

/* The next byte as a number of 0 .. most */
static ptrdiff_t take(input *in, ptrdiff_t most) {
    if (in->size == 0) return 0;
    in->size--;
    return *in->data++ % (most + 1);
}

typedef struct {
    sc_problem p;
    const sc_kernel *kernel;
    ptrdiff_t row_map[MOST_PADDED],
        col_map[MOST_PADDED]; /* padded coordinate -> source, -1: zero */
    ptrdiff_t n, x_inner;     /* pictures in all; stride of the pictures of a block */
    ptrdiff_t x_size, w_size, y_size, x_origin, w_origin;
    unsigned seed;
    int odd_weights; /* of 0: none; else about one in so many is Inf or NaN */
    size_t element;
} fuzz_case;

static void *exactly(ptrdiff_t count, size_t element) {
    void *memory = malloc((size_t)count * element);
    if (!memory) abort();
    return memory;
}

static int random_whole(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (int)(*seed >> 24) % 9 - 4;
}

static void put(const fuzz_case *c, void *to, ptrdiff_t i, double value) {
    if (c->kernel->dtype == SC_F64) ((double *)to)[i] = value;
    else ((float *)to)[i] = (float)value;
}

static double get(const fuzz_case *c, const void *from, ptrdiff_t i) {
    return c->kernel->dtype == SC_F64 ? ((const double *)from)[i]
                                      : (double)((const float *)from)[i];
}

/* Strides of the axes in `order`, innermost first: with gaps, and some of them backwards.
 * Returns how many elements the memory has, and where its origin is. */
static ptrdiff_t lay(input *in, const ptrdiff_t *extent, const int *order, int axes, int first_free,
                     ptrdiff_t *stride, ptrdiff_t *origin) {
    ptrdiff_t step = 1, size = 1;
    *origin = 0;
    for (int i = 0; i < axes; i++) {
        int axis = order[i], how = i < first_free ? 0 : (int)take(in, 3);
        if (how & 1) step += take(in, 5);
        stride[axis] = how & 2 ? -step : step;
        if (how & 2) *origin += (extent[axis] - 1) * step;
        size += (extent[axis] - 1) * step;
        step *= extent[axis];
    }
    return size;
}

/* numpy.pad's meaning, step by step: what lies beyond an edge is looked up nearer to the image */
static ptrdiff_t source_of(sc_padding padding, ptrdiff_t i, ptrdiff_t size) {
    while (i < 0 || i >= size) {
        switch (padding) {
        case SC_EDGE: i = i < 0 ? 0 : size - 1; break;
        case SC_WRAP: i += i < 0 ? size : -size; break;
        case SC_SYMMETRIC: i = i < 0 ? -1 - i : 2 * size - 1 - i; break;
        case SC_REFLECT: i = size == 1 ? 0 : i < 0 ? -i : 2 * size - 2 - i; break;
        default: return -1;
        }
    }
    return i;
}

static void fill_map(sc_padding padding, ptrdiff_t *map, ptrdiff_t size, ptrdiff_t before,
                     ptrdiff_t padded) {
    for (ptrdiff_t i = 0; i < padded; i++) map[i] = source_of(padding, i - before, size);
}

static int read_axis(input *in, ptrdiff_t *size, ptrdiff_t *k, ptrdiff_t *stride,
                     ptrdiff_t *dilation, ptrdiff_t *before, ptrdiff_t *padded, ptrdiff_t *out) {
    ptrdiff_t span;
    *size = 1 + take(in, 39);
    *k = 1 + take(in, take(in, 3) ? 4 : 12);
    *stride = 1 + take(in, take(in, 3) ? 2 : 60);
    *dilation = 1 + take(in, take(in, 3) ? 1 : 20);
    *before = take(in, 3) ? take(in, 3) : take(in, 30);
    *padded = *size + *before + (take(in, 3) ? take(in, 3) : take(in, 30));
    span = *dilation * (*k - 1) + 1;
    if (span > *padded || *padded > MOST_PADDED) return 0;
    *out = (*padded - span) / *stride + 1;
    return 1;
}

/* Channels of a group, filters of a group, groups: what nets have, and whatever else there is */
static void read_channels(input *in, sc_problem *p) {
    p->groups = 1, p->c_in = 1, p->c_out = 1;
    switch (take(in, 4)) {
    case 0: /* depthwise, with a channel multiplier */
        p->groups = 1 + take(in, 70);
        p->c_out = 1 + take(in, 3);
        break;
    case 1: /* few channels in a group */
        p->groups = 1 + take(in, 18);
        p->c_in = 1 + take(in, 8);
        p->c_out = p->c_in * (1 + take(in, 2));
        break;
    case 2: /* one channel: a picture */ p->c_out = 1 + take(in, 40); break;
    case 3: /* one group of many */
        p->c_in = 1 + take(in, 40);
        p->c_out = 1 + take(in, 140);
        break;
    default:
        p->groups = 1 + take(in, 5);
        p->c_in = 1 + take(in, 4);
        p->c_out = 1 + take(in, 20);
    }
}

/* One of the kernels that this machine runs */
static const sc_kernel *read_kernel(input *in) {
    int found = 0, wanted;
    for (int i = 0; i < sc_kernel_count(); i++) found += sc_isa_found(sc_kernel_at(i)->isa);
    wanted = (int)take(in, 255) % found;
    for (int i = 0;; i++)
        if (sc_isa_found(sc_kernel_at(i)->isa) && wanted-- == 0) return sc_kernel_at(i);
}

static int read_case(input *in, fuzz_case *c) {
    /* axes c, h, w, pictures of a block, blocks: from the innermost of each layout outward */
    static const int orders[SC_N_LAYOUTS][5] = {
        {2, 1, 0, 3, 4}, {0, 2, 1, 3, 4}, {3, 2, 1, 0, 4}, {3, 2, 1, 0, 4}};
    static const int filter_orders[4][4] = {
        {3, 2, 1, 0}, {0, 1, 3, 2}, {1, 3, 2, 0}, {0, 3, 2, 1}}; /* axes o, i, h, w */
    sc_problem *p = &c->p;
    ptrdiff_t extent[5], stride[5], filter[4], filter_stride[4];
    memset(c, 0, sizeof *c);
    c->kernel = read_kernel(in);
    p->layout = c->kernel->layout;
    c->n = 1 + take(in, take(in, 1) ? 2 : 19);
    read_channels(in, p);
    if (!read_axis(in, &p->h_in, &p->h_f, &p->stride_h, &p->dilation_h, &p->top, &p->h_p,
                   &p->h_out) ||
        !read_axis(in, &p->w_in, &p->w_f, &p->stride_w, &p->dilation_w, &p->left, &p->w_p,
                   &p->w_out))
        return 0;
    p->inner = p->layout == SC_CHWN ? c->n : p->layout == SC_CHWN8 ? 8 : 1;
    p->images = p->layout == SC_CHWN ? 1 : p->layout == SC_CHWN8 ? (c->n + 7) / 8 : c->n;
    c->n = p->images * p->inner;
    if (c->n * p->groups * p->c_out * p->h_out * p->w_out * p->c_in * p->h_f * p->w_f > MOST_WORK)
        return 0;
    extent[0] = p->groups * p->c_in, extent[1] = p->h_in, extent[2] = p->w_in;
    extent[3] = p->inner, extent[4] = p->images;
    c->x_size = lay(in, extent, orders[p->layout], 5, 1, stride, &c->x_origin);
    p->x_c = stride[0], p->x_h = stride[1], p->x_w = stride[2], p->x_image = stride[4];
    c->x_inner = stride[3];
    filter[0] = p->groups * p->c_out, filter[1] = p->c_in, filter[2] = p->h_f, filter[3] = p->w_f;
    int in_place = c->kernel->filter_size(c->kernel, p) == 0,
        which = in_place ? 0 : (int)take(in, 3);
    c->w_size = lay(in, filter, filter_orders[which], 4, in_place || take(in, 1) ? 4 : 0,
                    filter_stride, &c->w_origin);
    p->w_o = filter_stride[0], p->w_i = filter_stride[1];
    p->w_h = filter_stride[2], p->w_w = filter_stride[3];
    p->padding = take(in, 1) ? SC_CONSTANT : (sc_padding)take(in, SC_WRAP);
    fill_map(p->padding, c->row_map, p->h_in, p->top, p->h_p);
    fill_map(p->padding, c->col_map, p->w_in, p->left, p->w_p);
    p->activation = (sc_activation)take(in, 2);
    p->act_lo = p->activation == SC_ACT_LEAKY ? 0.5 : -20;
    p->act_hi = 30;
    c->y_size = c->n * p->groups * p->c_out * p->h_out * p->w_out;
    c->seed = (unsigned)take(in, 255);
    c->odd_weights = take(in, 7) ? 0 : 1 + (int)take(in, 60);
    c->element = c->kernel->dtype == SC_F64 ? sizeof(double) : sizeof(float);
    return 1;
}

static ptrdiff_t x_at(const fuzz_case *c, ptrdiff_t n, ptrdiff_t k, ptrdiff_t i, ptrdiff_t j) {
    const sc_problem *p = &c->p;
    return c->x_origin + n / p->inner * p->x_image + n % p->inner * c->x_inner + k * p->x_c +
           i * p->x_h + j * p->x_w;
}

static ptrdiff_t y_at(const sc_problem *p, ptrdiff_t n, ptrdiff_t o, ptrdiff_t i, ptrdiff_t j) {
    ptrdiff_t filters = p->groups * p->c_out;
    if (p->layout == SC_NHWC) return ((n * p->h_out + i) * p->w_out + j) * filters + o;
    return (((n / p->inner * filters + o) * p->h_out + i) * p->w_out + j) * p->inner + n % p->inner;
}

static double activated(const sc_problem *p, double y) {
    if (isnan(y)) return y;
    if (p->activation == SC_ACT_CLIP) return fmin(fmax(y, p->act_lo), p->act_hi);
    return p->activation == SC_ACT_LEAKY && y < 0 ? y * p->act_lo : y;
}

/* The plain loop */
static double expected(const fuzz_case *c, const void *x, const void *w, const void *bias,
                       ptrdiff_t n, ptrdiff_t o, ptrdiff_t i, ptrdiff_t j) {
    const sc_problem *p = &c->p;
    double sum = bias ? get(c, bias, o) : 0;
    for (ptrdiff_t k = 0; k < p->c_in; k++)
        for (ptrdiff_t u = 0; u < p->h_f; u++)
            for (ptrdiff_t v = 0; v < p->w_f; v++) {
                ptrdiff_t row = c->row_map[i * p->stride_h + u * p->dilation_h];
                ptrdiff_t col = c->col_map[j * p->stride_w + v * p->dilation_w];
                double pixel = 0;
                if (row >= 0 && col >= 0)
                    pixel = get(c, x, x_at(c, n, o / p->c_out * p->c_in + k, row, col));
                sum += pixel *
                       get(c, w, c->w_origin + o * p->w_o + k * p->w_i + u * p->w_h + v * p->w_w);
            }
    return activated(p, sum);
}

static void compare(const fuzz_case *c, const void *x, const void *w, const void *bias,
                    const void *y) {
    const sc_problem *p = &c->p;
    for (ptrdiff_t n = 0; n < c->n; n++)
        for (ptrdiff_t o = 0; o < p->groups * p->c_out; o++)
            for (ptrdiff_t i = 0; i < p->h_out; i++)
                for (ptrdiff_t j = 0; j < p->w_out; j++) {
                    double is = get(c, y, y_at(p, n, o, i, j));
                    double should = expected(c, x, w, bias, n, o, i, j);
                    if (is == should || (isnan(is) && isnan(should))) continue;
                    fprintf(stderr, "%s: %g for %g at %td %td %td %td\n", c->kernel->id, is, should,
                            n, o, i, j);
                    abort();
                }
}

/* Fills a filter; returns whether all of it is finite */
static int fill_filter(fuzz_case *c, void *w) {
    int finite = 1;
    for (ptrdiff_t i = 0; i < c->w_size; i++) {
        double value = random_whole(&c->seed);
        if (c->odd_weights && c->seed / 1024 % (unsigned)c->odd_weights == 0) {
            value = value > 1 ? NAN : value < 0 ? -INFINITY : INFINITY;
            finite = 0;
        }
        put(c, w, i, value);
    }
    return finite;
}

static void convolve(fuzz_case *c, int packed, int with_bias, sc_team team) {
    sc_problem *p = &c->p;
    char *x = exactly(c->x_size, c->element), *w = exactly(c->w_size, c->element);
    char *y = exactly(c->y_size, c->element), *bias = NULL, *prepared = NULL;
    char *x0 = x + c->x_origin * (ptrdiff_t)c->element,
         *w0 = w + c->w_origin * (ptrdiff_t)c->element;
    int finite = 0, all_finite = fill_filter(c, w);
    for (ptrdiff_t i = 0; i < c->x_size; i++) put(c, x, i, random_whole(&c->seed));
    for (ptrdiff_t i = 0; i < c->y_size; i++) put(c, y, i, NAN);
    if (with_bias) {
        bias = exactly(p->groups * p->c_out, c->element);
        for (ptrdiff_t i = 0; i < p->groups * p->c_out; i++)
            put(c, bias, i, random_whole(&c->seed));
    }
    ptrdiff_t room = c->kernel->filter_size(c->kernel, p);
    if (packed && room > 0) {
        prepared = exactly(room, c->element);
        finite = sc_pack(c->kernel, p, w0, prepared, team);
        if (finite && !all_finite && c->w_size == p->groups * p->c_out * p->c_in * p->h_f * p->w_f)
            abort(); /* without gaps, what is not finite is a weight */
        if (!finite && all_finite) abort();
    }
    size_t promised = sc_conv_workspace(c->kernel, p, team.threads, prepared != NULL);
    sc_error error =
        sc_conv(c->kernel, p, x0, prepared ? NULL : w0, prepared, finite, bias, y, team);
    if (error != SC_OK || sc_last_allocation() != promised) abort();
    compare(c, x, w, bias, y);
    free(x), free(w), free(y), free(bias), free(prepared);
}

/* Where im2col (or im2win: v is 0, j a padded column) puts channel k, window row u, column v */
static ptrdiff_t stored_at(const sc_problem *q, int strips, ptrdiff_t n, ptrdiff_t k, ptrdiff_t i,
                           ptrdiff_t j, ptrdiff_t u, ptrdiff_t v) {
    ptrdiff_t columns = strips ? q->w_p : q->w_out, across = strips ? 1 : q->w_f, at;
    ptrdiff_t image = n / q->inner;
    if (q->layout == SC_NHWC) {
        ptrdiff_t pixel = (image * q->h_out + i) * columns + j;
        return ((pixel * q->h_f + u) * across + v) * q->c_in + k;
    }
    at = image * q->c_in + k;
    if (strips) at = ((at * q->h_out + i) * columns + j) * q->h_f + u;
    else at = (((at * q->h_f + u) * q->w_f + v) * q->h_out + i) * q->w_out + j;
    return at * q->inner + n % q->inner;
}

/* The plain loops of im2col and im2win */
static void check_transform(const fuzz_case *c, const sc_problem *q, int strips, size_t element,
                            const char *x, const char *out) {
    static const char zeros[16];
    ptrdiff_t columns = strips ? q->w_p : q->w_out, across = strips ? 1 : q->w_f;
    ptrdiff_t pixels = q->h_out * columns, window = q->h_f * across;
    for (ptrdiff_t picture = 0; picture < c->n * q->c_in; picture++)
        for (ptrdiff_t pixel = 0; pixel < pixels; pixel++)
            for (ptrdiff_t tap = 0; tap < window; tap++) {
                ptrdiff_t n = picture / q->c_in, k = picture % q->c_in;
                ptrdiff_t i = pixel / columns, j = pixel % columns;
                ptrdiff_t u = tap / across, v = tap % across;
                ptrdiff_t row = c->row_map[i * q->stride_h + u * q->dilation_h];
                ptrdiff_t col = c->col_map[strips ? j : j * q->stride_w + v * q->dilation_w];
                const char *from = zeros, *is = out;
                if (row >= 0 && col >= 0) from = x + (size_t)x_at(c, n, k, row, col) * element;
                is += (size_t)stored_at(q, strips, n, k, i, j, u, v) * element;
                if (memcmp(is, from, element)) abort();
            }
}

/* Moves bytes, so elements of any size will do. */
static void transform(fuzz_case *c, int strips, size_t element, sc_team team) {
    sc_problem q = c->p;
    q.c_in *= q.groups;
    q.groups = 1;
    ptrdiff_t columns = strips ? q.w_p * q.h_f : q.w_out * q.h_f * q.w_f;
    ptrdiff_t count = q.images * q.inner * q.c_in * q.h_out * columns;
    if (count > MOST_WORK) return;
    char *x = exactly(c->x_size, element), *out = exactly(count, element);
    for (size_t i = 0; i < (size_t)c->x_size * element; i++) x[i] = (char)random_whole(&c->seed);
    memset(out, 0x55, (size_t)count * element);
    char *x0 = x + c->x_origin * (ptrdiff_t)element;
    sc_error error =
        strips ? sc_im2win(&q, element, x0, out, team) : sc_im2col(&q, element, x0, out, team);
    if (error != SC_OK) abort();
    check_transform(c, &q, strips, element, x, out);
    free(x), free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    fuzz_case c;
    int what = (int)take(&in, 9), packed = (int)take(&in, 1), with_bias = (int)take(&in, 1);
    sc_team team = {1 + (int)take(&in, 2), (int)take(&in, 7) == 0};
    if (!read_case(&in, &c)) return 0;
    if (what >= 8) transform(&c, what == 9, (size_t)1 << take(&in, 4), team);
    else convolve(&c, packed, with_bias, team);
    return 0;
}
