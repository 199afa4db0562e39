/* Convolutions for the C tests: sizes, an image in any layout and with any strides, and the plain loop
 * that says what the result is. Whole numbers throughout, so that results are compared with ==. */
#ifndef SIMDCONV_TESTS_CASES_H
#define SIMDCONV_TESTS_CASES_H

#include <math.h>

#include "check.h"
#include "simdconv.h"

typedef struct {
    ptrdiff_t n, groups, c_in, c_out; /* channels of one group */
    ptrdiff_t h_in, w_in, h_f, w_f, stride_h, stride_w, dilation_h, dilation_w;
    ptrdiff_t top, bottom, left, right;
} sizes;

/* How the image lies: C-contiguous, with gaps after each axis, or with rows and channels reversed */
typedef enum { PLAIN, GAPS, REVERSED, N_PLACINGS } placing;

typedef struct {
    sizes s;
    sc_problem p;
    ptrdiff_t row_map[256], col_map[256]; /* padded sizes of the cases stay below */
    ptrdiff_t x_span, x_origin, x_inner;  /* elements; x_inner: stride of the pictures of a block */
    ptrdiff_t y_size;
    double *x, *w, *bias, *y; /* NCHW, OIHW */
    int w_finite;
} conv_case;

static inline ptrdiff_t out_size(ptrdiff_t padded, ptrdiff_t k, ptrdiff_t stride,
                                 ptrdiff_t dilation) {
    return (padded - dilation * (k - 1) - 1) / stride + 1;
}

/* Sizes of 1 .. 256 padded rows and columns whose window fits */
static inline int is_valid(const sizes *s) {
    ptrdiff_t h_p = s->h_in + s->top + s->bottom, w_p = s->w_in + s->left + s->right;
    return h_p <= 256 && w_p <= 256 && s->dilation_h * (s->h_f - 1) < h_p &&
           s->dilation_w * (s->w_f - 1) < w_p;
}

/* Source of each padded row or column, -1 for a zero; found by walking, as the library does not */
static inline void fill_map(ptrdiff_t *map, ptrdiff_t size, ptrdiff_t before, ptrdiff_t padded,
                            sc_padding padding) {
    for (ptrdiff_t i = 0; i < padded; i++) {
        ptrdiff_t source = i - before;
        while (source < 0 || source >= size) {
            ptrdiff_t last = size - 1;
            if (padding == SC_CONSTANT) break;
            if (padding == SC_EDGE) source = source < 0 ? 0 : last;
            if (padding == SC_WRAP) source += source < 0 ? size : -size;
            if (padding == SC_SYMMETRIC) source = source < 0 ? -1 - source : 2 * size - 1 - source;
            if (padding == SC_REFLECT)
                source = last == 0 ? 0 : source < 0 ? -source : 2 * last - source;
        }
        map[i] = source < 0 || source >= size ? -1 : source;
    }
}

static inline void naive(conv_case *c) {
    const sc_problem *p = &c->p;
    ptrdiff_t channels = p->groups * p->c_in, filters = p->groups * p->c_out, at = 0;
    for (ptrdiff_t n = 0; n < c->s.n; n++)
        for (ptrdiff_t o = 0; o < filters; o++)
            for (ptrdiff_t i = 0; i < p->h_out; i++)
                for (ptrdiff_t j = 0; j < p->w_out; j++) {
                    double sum = c->bias[o];
                    for (ptrdiff_t k = 0; k < p->c_in; k++)
                        for (ptrdiff_t u = 0; u < p->h_f; u++)
                            for (ptrdiff_t v = 0; v < p->w_f; v++) {
                                ptrdiff_t row = c->row_map[i * p->stride_h + u * p->dilation_h];
                                ptrdiff_t col = c->col_map[j * p->stride_w + v * p->dilation_w];
                                ptrdiff_t channel = o / p->c_out * p->c_in + k;
                                double x = row < 0 || col < 0
                                               ? 0
                                               : c->x[((n * channels + channel) * p->h_in + row) *
                                                          p->w_in +
                                                      col];
                                sum += x * c->w[((o * p->c_in + k) * p->h_f + u) * p->w_f + v];
                            }
                    c->y[at++] = sum;
                }
}

/* The numbers of a case, in the plain order */
static inline void make_case(conv_case *c, const sizes *s, sc_padding padding) {
    sc_problem *p = &c->p;
    ptrdiff_t x_size, w_size;
    memset(c, 0, sizeof *c);
    c->s = *s;
    p->groups = s->groups, p->c_in = s->c_in, p->c_out = s->c_out;
    p->h_in = s->h_in, p->w_in = s->w_in, p->h_f = s->h_f, p->w_f = s->w_f;
    p->stride_h = s->stride_h, p->stride_w = s->stride_w;
    p->dilation_h = s->dilation_h, p->dilation_w = s->dilation_w;
    p->top = s->top, p->left = s->left, p->padding = padding;
    p->h_p = s->h_in + s->top + s->bottom, p->w_p = s->w_in + s->left + s->right;
    p->h_out = out_size(p->h_p, s->h_f, s->stride_h, s->dilation_h);
    p->w_out = out_size(p->w_p, s->w_f, s->stride_w, s->dilation_w);
    fill_map(c->row_map, s->h_in, s->top, p->h_p, padding);
    fill_map(c->col_map, s->w_in, s->left, p->w_p, padding);
    x_size = s->n * s->groups * s->c_in * s->h_in * s->w_in;
    w_size = s->groups * s->c_out * s->c_in * s->h_f * s->w_f;
    c->y_size = s->n * s->groups * s->c_out * p->h_out * p->w_out;
    c->x = malloc(sizeof(double) * (size_t)x_size);
    c->w = malloc(sizeof(double) * (size_t)w_size);
    c->bias = malloc(sizeof(double) * (size_t)(s->groups * s->c_out));
    c->y = malloc(sizeof(double) * (size_t)c->y_size);
    for (ptrdiff_t i = 0; i < x_size; i++) c->x[i] = random_whole();
    for (ptrdiff_t i = 0; i < w_size; i++) c->w[i] = random_whole();
    for (ptrdiff_t i = 0; i < s->groups * s->c_out; i++) c->bias[i] = random_whole();
    c->w_finite = 1;
    naive(c);
}

static inline void free_case(conv_case *c) { free(c->x), free(c->w), free(c->bias), free(c->y); }

/* Chooses layout and strides of the image */
static inline void place(conv_case *c, sc_layout layout, placing how) {
    /* axes from the innermost outward: c, h, w, pictures of a block, blocks */
    static const int orders[SC_N_LAYOUTS][5] = {
        {3, 2, 1, 0, 4}, {3, 0, 2, 1, 4}, {3, 2, 1, 0, 4}, {3, 2, 1, 0, 4}};
    sc_problem *p = &c->p;
    ptrdiff_t extent[5], stride[5], step = 1;
    p->layout = layout;
    p->inner = layout == SC_CHWN ? c->s.n : layout == SC_CHWN8 ? 8 : 1;
    p->images = layout == SC_CHWN ? 1 : layout == SC_CHWN8 ? (c->s.n + 7) / 8 : c->s.n;
    extent[0] = p->groups * p->c_in, extent[1] = p->h_in, extent[2] = p->w_in;
    extent[3] = p->inner, extent[4] = p->images;
    c->x_origin = 0, c->x_span = 1;
    for (int i = 0; i < 5; i++) {
        int axis = orders[layout][i];
        int innermost = axis == 3 || step == 1;
        stride[axis] = step;
        step *= extent[axis];
        if (how == GAPS && !(innermost && step == 1)) step += 1 + i;
        if (how == REVERSED && !innermost && i > 1) {
            stride[axis] = -stride[axis];
            c->x_origin += (extent[axis] - 1) * -stride[axis];
        }
        c->x_span += (extent[axis] - 1) * (stride[axis] < 0 ? -stride[axis] : stride[axis]);
    }
    p->x_c = stride[0], p->x_h = stride[1], p->x_w = stride[2];
    c->x_inner = stride[3], p->x_image = stride[4];
}

static inline void put(sc_dtype dtype, void *to, ptrdiff_t i, double value) {
    if (dtype == SC_F64) ((double *)to)[i] = value;
    else ((float *)to)[i] = (float)value;
}

static inline double get(sc_dtype dtype, const void *from, ptrdiff_t i) {
    return dtype == SC_F64 ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

/* Where element (n, c, i, j) of the image lies, in elements from the start of its memory */
static inline ptrdiff_t x_at(const conv_case *c, ptrdiff_t n, ptrdiff_t k, ptrdiff_t i,
                             ptrdiff_t j) {
    const sc_problem *p = &c->p;
    return c->x_origin + n / p->inner * p->x_image + n % p->inner * c->x_inner + k * p->x_c +
           i * p->x_h + j * p->x_w;
}

/* Where element (n, o, i, j) of the result lies: C order in the layout */
static inline ptrdiff_t y_at(const conv_case *c, ptrdiff_t n, ptrdiff_t o, ptrdiff_t i,
                             ptrdiff_t j) {
    const sc_problem *p = &c->p;
    ptrdiff_t filters = p->groups * p->c_out, block = n / p->inner;
    if (p->layout == SC_NHWC) return ((n * p->h_out + i) * p->w_out + j) * filters + o;
    return (((block * filters + o) * p->h_out + i) * p->w_out + j) * p->inner + n % p->inner;
}

#endif
