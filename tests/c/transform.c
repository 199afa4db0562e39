/* The stored transforms im2col and im2win, element by element, for every size of element. */
#include "cases.h"

enum { LARGEST = 16 };

/* The bytes of element `index` of the image, or of a zero */
static void value(unsigned char *to, size_t element, ptrdiff_t index) {
    memset(to, 0, LARGEST);
    for (size_t b = 0; index >= 0 && b < element; b++)
        to[b] = (unsigned char)((unsigned long)(index + 1) * 2654435761ul >> (8 * b % 25));
}

static ptrdiff_t source(const conv_case *c, ptrdiff_t n, ptrdiff_t k, ptrdiff_t row,
                        ptrdiff_t col) {
    const sc_problem *p = &c->p;
    row = c->row_map[row], col = c->col_map[col];
    if (n >= c->s.n || row < 0 || col < 0) return -1;
    return ((n * p->groups * p->c_in + k) * p->h_in + row) * p->w_in + col;
}

/* Position `at` of the result in C order, taken apart into the axes that the docs name */
static ptrdiff_t take(ptrdiff_t *at, ptrdiff_t extent) {
    ptrdiff_t index = *at % extent;
    *at /= extent;
    return index;
}

static ptrdiff_t im2col_source(const conv_case *c, ptrdiff_t at) {
    const sc_problem *p = &c->p;
    ptrdiff_t n = take(&at, p->inner), k = 0, u, v, i, j;
    if (p->layout == SC_NHWC) { /* n, h_out*w_out, h_f*w_f*c_in */
        k = take(&at, p->c_in), v = take(&at, p->w_f), u = take(&at, p->h_f);
        j = take(&at, p->w_out), i = take(&at, p->h_out);
    } else { /* n, c_in*h_f*w_f, h_out*w_out */
        j = take(&at, p->w_out), i = take(&at, p->h_out);
        v = take(&at, p->w_f), u = take(&at, p->h_f), k = take(&at, p->c_in);
    }
    n += at * p->inner;
    return source(c, n, k, i * p->stride_h + u * p->dilation_h,
                  j * p->stride_w + v * p->dilation_w);
}

static ptrdiff_t im2win_source(const conv_case *c, ptrdiff_t at) {
    const sc_problem *p = &c->p;
    ptrdiff_t n = take(&at, p->inner), k = 0, u, col, i;
    if (p->layout == SC_NHWC) k = take(&at, p->c_in); /* n, h_out, w_p*h_f, c_in */
    u = take(&at, p->h_f), col = take(&at, p->w_p), i = take(&at, p->h_out);
    if (p->layout != SC_NHWC) k = take(&at, p->c_in); /* n, c_in, h_out, w_p*h_f */
    n += at * p->inner;
    return source(c, n, k, i * p->stride_h + u * p->dilation_h, col);
}

static void test(conv_case *c, size_t element, sc_layout layout, placing how, int threads,
                 int strips) {
    const sc_problem *p = &c->p;
    sc_team team = {threads, 0};
    ptrdiff_t size, at = 0;
    guarded x, out;
    unsigned char expected[LARGEST];
    place(c, layout, how);
    x = guarded_alloc((size_t)c->x_span * element, threads > 1);
    memset(x.data, 0, (size_t)c->x_span * element);
    for (ptrdiff_t n = 0; n < c->s.n; n++)
        for (ptrdiff_t k = 0; k < p->c_in; k++)
            for (ptrdiff_t i = 0; i < p->h_in; i++)
                for (ptrdiff_t j = 0; j < p->w_in; j++) {
                    value(expected, element, at++);
                    memcpy(x.data + (size_t)x_at(c, n, k, i, j) * element, expected, element);
                }
    size =
        p->images * p->inner * p->c_in * p->h_out * p->h_f * (strips ? p->w_p : p->w_out * p->w_f);
    out = guarded_alloc((size_t)size * element, threads > 1);
    memset(out.data, 0xa5, (size_t)size * element);
    CHECK((strips ? sc_im2win : sc_im2col)(p, element, x.data + (size_t)c->x_origin * element,
                                           out.data, team) == SC_OK,
          "element %zu", element);
    for (at = 0; at < size; at++) {
        value(expected, element, strips ? im2win_source(c, at) : im2col_source(c, at));
        if (!memcmp(out.data + (size_t)at * element, expected, element)) continue;
        CHECK(0, "%s, layout %d, element %zu, placing %d: wrong at %td",
              strips ? "im2win" : "im2col", (int)layout, element, (int)how, at);
        break;
    }
    checks++;
    guarded_free(x), guarded_free(out);
}

int main(void) {
    for (int turn = 0; turn < 40; turn++) {
        conv_case c;
        sizes s = {1 + random_below(3), 1,
                   1 + random_below(6), 1,
                   1 + random_below(8), 1 + random_below(20),
                   1 + random_below(4), 1 + random_below(4),
                   1 + random_below(3), 1 + random_below(3),
                   1 + random_below(2), 1 + random_below(2),
                   random_below(3),     random_below(3),
                   random_below(3),     random_below(3)};
        if (turn % 8 == 0) s.n = 9 + random_below(8);
        if (!is_valid(&s)) continue;
        make_case(&c, &s, (sc_padding)(turn % 5));
        for (int layout = 0; layout < SC_N_LAYOUTS; layout++)
            for (size_t element = 1; element <= LARGEST; element *= 2)
                for (int strips = 0; strips < 2; strips++)
                    test(&c, element, (sc_layout)layout, (placing)(turn % N_PLACINGS),
                         1 + turn % 2 * 2, strips);
        free_case(&c);
    }
    CHECK(sc_im2col(NULL, 3, NULL, NULL, (sc_team){1, 0}) == SC_NO_KERNEL, "element of 3 bytes");
    return conclude("transform");
}
