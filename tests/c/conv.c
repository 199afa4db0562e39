/* Every kernel of the table that this machine can run, against the plain loop, with ==.
 * Every buffer lies between unreadable pages; results start as NaN, gaps between image rows are NaN.
 * Only simdconv.h is used: what is tested is what the binding calls. */
#include "cases.h"

typedef struct {
    const sc_kernel *kernel;
    int threads, packed, with_bias, at_start;
    placing how;
} variant;

static const char *describe(const conv_case *c, const variant *v) {
    static char text[400];
    const sizes *s = &c->s;
    snprintf(text, sizeof text,
             "%s n=%td groups=%td c_in=%td c_out=%td in=%tdx%td filter=%tdx%td stride=%td,%td "
             "dilation=%td,%td padding=%td,%td,%td,%td mode=%d threads=%d packed=%d placing=%d "
             "at_start=%d",
             v->kernel->id, s->n, s->groups, s->c_in, s->c_out, s->h_in, s->w_in, s->h_f, s->w_f,
             s->stride_h, s->stride_w, s->dilation_h, s->dilation_w, s->top, s->bottom, s->left,
             s->right, (int)c->p.padding, v->threads, v->packed, (int)v->how, v->at_start);
    return text;
}

static double activated(const sc_problem *p, double y) {
    if (p->activation == SC_ACT_CLIP)
        return y < p->act_lo ? p->act_lo : y > p->act_hi ? p->act_hi : y;
    if (p->activation == SC_ACT_LEAKY) return y < 0 ? y * p->act_lo : y;
    return y;
}

static void compare(const conv_case *c, const variant *v, const void *y) {
    const sc_problem *p = &c->p;
    ptrdiff_t filters = p->groups * p->c_out, at = 0;
    for (ptrdiff_t n = 0; n < c->s.n; n++)
        for (ptrdiff_t o = 0; o < filters; o++)
            for (ptrdiff_t i = 0; i < p->h_out; i++)
                for (ptrdiff_t j = 0; j < p->w_out; j++) {
                    double expected = activated(p, c->y[at++] - (v->with_bias ? 0 : c->bias[o]));
                    double actual = get(v->kernel->dtype, y, y_at(c, n, o, i, j));
                    if (actual == expected || (isnan(actual) && isnan(expected))) continue;
                    CHECK(0, "%s: y[%td, %td, %td, %td] is %g, expected %g", describe(c, v), n, o,
                          i, j, actual, expected);
                    return;
                }
    checks++;
}

/* Filter axes in memory, outermost first: OIHW, or HWIO where the kernel reads any strides */
static guarded lay_filter(conv_case *c, const variant *v, size_t element, int any_strides) {
    sc_problem *p = &c->p;
    ptrdiff_t filters = p->groups * p->c_out, at = 0;
    size_t count = (size_t)(filters * p->c_in * p->h_f * p->w_f);
    guarded w = guarded_alloc(count * element, v->at_start);
    p->w_w = 1, p->w_h = p->w_f, p->w_i = p->h_f * p->w_f, p->w_o = p->c_in * p->w_i;
    if (any_strides)
        p->w_o = 1, p->w_i = filters, p->w_w = filters * p->c_in, p->w_h = p->w_f * p->w_w;
    for (ptrdiff_t o = 0; o < filters; o++)
        for (ptrdiff_t i = 0; i < p->c_in; i++)
            for (ptrdiff_t h = 0; h < p->h_f; h++)
                for (ptrdiff_t k = 0; k < p->w_f; k++)
                    put(v->kernel->dtype, w.data, o * p->w_o + i * p->w_i + h * p->w_h + k * p->w_w,
                        c->w[at++]);
    return w;
}

static guarded lay_image(const conv_case *c, const variant *v, size_t element) {
    guarded x = guarded_alloc((size_t)c->x_span * element, v->at_start);
    ptrdiff_t channels = c->p.groups * c->p.c_in, at = 0;
    for (ptrdiff_t i = 0; i < c->x_span; i++) put(v->kernel->dtype, x.data, i, NAN);
    for (ptrdiff_t n = 0; n < c->s.n; n++)
        for (ptrdiff_t k = 0; k < channels; k++)
            for (ptrdiff_t i = 0; i < c->p.h_in; i++)
                for (ptrdiff_t j = 0; j < c->p.w_in; j++)
                    put(v->kernel->dtype, x.data, x_at(c, n, k, i, j), c->x[at++]);
    return x;
}

static void run(conv_case *c, const variant *v) {
    const sc_kernel *kernel = v->kernel;
    size_t element = kernel->dtype == SC_F64 ? 8 : 4;
    sc_problem *p = &c->p;
    sc_team team = {v->threads, 0};
    ptrdiff_t filters = p->groups * p->c_out, packed_size;
    guarded x, w, bias, y, packed = {NULL, NULL, 0};
    int finite = 0;
    sc_error error;
    place(c, kernel->layout, v->how);
    packed_size = kernel->filter_size(kernel, p);
    x = lay_image(c, v, element);
    w = lay_filter(c, v, element, packed_size > 0 && v->at_start);
    bias = guarded_alloc((size_t)filters * element, v->at_start);
    for (ptrdiff_t i = 0; i < filters; i++) put(kernel->dtype, bias.data, i, c->bias[i]);
    y = guarded_alloc((size_t)(p->images * p->inner * filters * p->h_out * p->w_out) * element,
                      v->at_start);
    for (ptrdiff_t i = 0; i < p->images * p->inner * filters * p->h_out * p->w_out; i++)
        put(kernel->dtype, y.data, i, NAN);
    if (v->packed && packed_size > 0) {
        packed = guarded_alloc((size_t)packed_size * element, v->at_start);
        finite = sc_pack(kernel, p, w.data, packed.data, team);
        CHECK(finite == c->w_finite, "%s: filter said to be finite: %d", describe(c, v), finite);
    }
    error = sc_conv(kernel, p, x.data + (size_t)c->x_origin * element, packed.data ? NULL : w.data,
                    packed.data, finite, v->with_bias ? bias.data : NULL, y.data, team);
    CHECK(error == SC_OK, "%s: error %d", describe(c, v), (int)error);
    CHECK(sc_last_allocation() == sc_conv_workspace(kernel, p, v->threads, packed.data != NULL),
          "%s: allocated %zu, promised %zu", describe(c, v), sc_last_allocation(),
          sc_conv_workspace(kernel, p, v->threads, packed.data != NULL));
    compare(c, v, y.data);
    guarded_free(x), guarded_free(w), guarded_free(bias), guarded_free(y);
    if (packed.data) guarded_free(packed);
}

static const char *only; /* run the kernels whose id contains this */

static void run_all(conv_case *c, int turn) {
    for (int i = 0; i < sc_kernel_count(); i++) {
        variant v = {sc_kernel_at(i), 1, 0, 1, 0, PLAIN};
        if (!sc_isa_found(v.kernel->isa) || (only && !strstr(v.kernel->id, only))) continue;
        v.at_start = turn & 1;
        v.packed = turn >> 1 & 1;
        v.with_bias = turn % 3 != 0;
        v.threads = turn % 4 == 3 ? 3 : 1;
        v.how = (placing)(turn % N_PLACINGS);
        run(c, &v);
    }
}

static void try_sizes(sizes s, int turn) {
    static const struct {
        sc_activation kind;
        double lo, hi;
    } activations[] = {{SC_ACT_NONE, 0, 0},
                       {SC_ACT_CLIP, 0, INFINITY},
                       {SC_ACT_CLIP, -3, 6},
                       {SC_ACT_LEAKY, 0.25, 0}};
    conv_case c;
    if (!is_valid(&s)) return;
    make_case(&c, &s, turn % 3 ? SC_CONSTANT : (sc_padding)(turn / 3 % 5));
    c.p.activation = activations[turn % 4].kind;
    c.p.act_lo = activations[turn % 4].lo, c.p.act_hi = activations[turn % 4].hi;
    run_all(&c, turn);
    free_case(&c);
}

/* 1, V-1, V, V+1, 2V and 3*2^k +- 1 for vectors of 4, 8 and 16, as every kind of size */
static void awkward_sizes(void) {
    static const ptrdiff_t awkward[] = {1,  3,  4,  5,  7,  8,  9,  13, 15,
                                        16, 17, 23, 25, 31, 33, 47, 49};
    int turn = 0;
    for (size_t i = 0; i < sizeof awkward / sizeof *awkward; i++) {
        ptrdiff_t a = awkward[i], b = awkward[i % 5], z = awkward[(i * 7 + 3) % 17];
        try_sizes((sizes){1, 1, b, a, 5, 6, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0}, turn++);
        try_sizes((sizes){1, 1, a, b, 4, 5, 3, 2, 1, 1, 1, 1, 1, 0, 0, 1}, turn++);
        try_sizes((sizes){2, 1, 2, 3, 3, a + 2, 2, 3, 1, 1, 1, 1, 0, 0, 0, 0}, turn++);
        try_sizes((sizes){1, 1, 2, 3, a + 2, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1}, turn++);
        try_sizes((sizes){1, 1, a, z, z, b, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}, turn++);
        try_sizes((sizes){a, 1, 3, 2, 4, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, turn++);
        try_sizes((sizes){1, a, 1, 1, 6, 7, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, turn++);
        try_sizes((sizes){1, 1, 2, 2, 7, 2 * a + 1, 3, 3, 2, 2, 1, 1, 1, 0, 1, 0}, turn++);
    }
}

static void awkward_arguments(int step) {
    static const sizes list[] = {
        {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
        {1, 1, 3, 4, 13, 14, 2, 3, 5, 4, 1, 1, 2, 2, 2, 2}, /* stride beyond the filter */
        {2, 1, 5, 7, 9, 8, 1, 1, 3, 2, 1, 1, 0, 0, 0, 0},   /* strided 1x1 */
        {1, 1, 5, 7, 4, 3, 1, 1, 1, 1, 1, 1, 2, 1, 3, 2},   /* padded 1x1 */
        {1, 1, 2, 3, 3, 4, 3, 3, 1, 1, 1, 1, 5, 6, 7, 5},   /* windows wholly in the padding */
        {1, 1, 2, 2, 4, 4, 2, 2, 1, 1, 3, 3, 7, 7, 7, 7},
        {1, 1, 2, 17, 4, 4, 2, 2, 3, 3, 5, 5, 7, 7, 7, 7},
        {1, 1, 3, 20, 12, 11, 3, 3, 1, 1, 2, 2, 2, 2, 2, 2}, /* dilation */
        {2, 1, 2, 3, 14, 13, 3, 2, 2, 3, 3, 2, 3, 3, 3, 3},
        {1, 3, 2, 3, 7, 8, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, /* groups */
        {3, 2, 2, 18, 13, 12, 2, 3, 2, 2, 2, 2, 2, 2, 2, 2},
        {1, 5, 1, 2, 7, 7, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},   /* depthwise with a multiplier */
        {2, 37, 1, 1, 9, 25, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, /* depthwise: each form of its taps */
        {1, 19, 1, 1, 21, 40, 5, 5, 2, 2, 1, 1, 2, 2, 2, 2},
        {1, 18, 1, 1, 20, 33, 7, 7, 1, 1, 1, 1, 3, 3, 3, 3},
        {1, 5, 1, 1, 30, 70, 4, 6, 3, 3, 1, 1, 1, 0, 0, 1},
        {2, 16, 1, 1, 13, 35, 3, 2, 2, 1, 2, 3, 1, 2, 2, 1},
        {1, 11, 4, 4, 10, 21, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, /* few filters a group */
        {1, 6, 3, 5, 10, 18, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1},
        {1, 3, 20, 2, 9, 17, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
        {1, 9, 2, 2, 6, 11, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, /* as many inputs as filters */
        {2, 5, 8, 8, 7, 10, 3, 4, 2, 1, 1, 2, 1, 1, 0, 2},
        {1, 7, 3, 3, 9, 9, 2, 3, 1, 2, 2, 1, 1, 1, 1, 1},
        {1, 10, 2, 4, 8, 12, 5, 1, 1, 1, 1, 1, 2, 2, 0, 0},
        {1, 1, 1, 1, 40, 128, 15, 11, 1, 1, 1, 1, 0, 0, 0, 0}, /* one channel, one filter */
        {1, 1, 1, 3, 19, 129, 4, 9, 1, 1, 1, 1, 2, 1, 4, 4},
        {3, 1, 4, 7, 5, 6, 5, 6, 1, 1, 1, 1, 0, 0, 0, 0},    /* fully connected */
        {2, 1, 5, 31, 7, 7, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},   /* some vectors and one pixel */
        {2, 1, 17, 6, 3, 6, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},   /* and two, */
        {1, 2, 9, 15, 1, 19, 1, 3, 1, 1, 1, 1, 0, 0, 1, 1},  /* three, */
        {2, 1, 3, 20, 14, 14, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, /* four */
        {1, 1, 3, 4, 1, 40, 1, 5, 1, 1, 1, 1, 0, 0, 2, 2},   /* one row */
        {1, 1, 3, 4, 40, 1, 5, 1, 1, 1, 1, 1, 2, 2, 0, 0},   /* one column */
        {1, 1, 1, 2, 6, 60, 2, 33, 1, 1, 1, 1, 0, 0, 0, 0},  /* wide filter */
        {1, 1, 1, 40, 30, 30, 11, 11, 4, 4, 1, 1, 0, 0, 0, 0},
        {1, 1, 70, 35, 6, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, /* more channels than a block */
        {1, 1, 300, 20, 3, 5, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0},
        {9, 1, 3, 20, 9, 9, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
        {2, 1, 8, 300, 5, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
        {4, 1, 16, 32, 20, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, /* enough work for several threads */
        {17, 2, 4, 24, 12, 12, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (int turn = 0; turn < 12; turn += list[i].c_in * list[i].c_out > 200 ? 5 : step)
            try_sizes(list[i], (int)i + turn);
}

static void random_sizes(int count) {
    for (int turn = 0; turn < count; turn++) {
        sizes s = {1 + random_below(3),  1 + random_below(2) * random_below(3),
                   1 + random_below(9),  1 + random_below(36),
                   1 + random_below(16), 1 + random_below(40),
                   1 + random_below(4),  1 + random_below(5),
                   1 + random_below(3),  1 + random_below(3),
                   1 + random_below(2),  1 + random_below(3),
                   random_below(3),      random_below(3),
                   random_below(4),      random_below(4)};
        if (random_below(4) == 0) s.n = 1 + random_below(18);
        if (random_below(3) == 0) { /* groups of few filters */
            s.groups = 1 + random_below(24);
            s.c_in = 1 + random_below(4);
            s.c_out = 1 + random_below(5);
            s.h_f = 1 + random_below(7);
        }
        try_sizes(s, turn);
    }
}

/* A NaN or Inf weight times padding is NaN, as after np.pad; in the image it touches its windows only. */
static void not_finite(void) {
    static const double values[] = {NAN, INFINITY, -INFINITY};
    for (int turn = 0; turn < 12; turn++) {
        conv_case c;
        sizes s = {2, 1, 3, 5, 6, 9, 3, 3, 1 + turn % 2, 1, 1, 1 + turn % 3 / 2, 1, 2, 2, 1};
        make_case(&c, &s, SC_CONSTANT);
        c.w_finite = turn % 4 == 3;
        if (turn % 4 < 3) c.w[random_below(3 * 5 * 9)] = values[turn % 3];
        else c.x[random_below(2 * 3 * 6 * 9)] = values[turn / 4];
        naive(&c);
        run_all(&c, turn);
        free_case(&c);
    }
}

/* conv [RANDOM_CASES [KERNEL]]: few random cases, below 100, mean a short run of the others too;
 * KERNEL limits the run to ids that contain it. */
int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 200;
    only = argc > 2 ? argv[2] : NULL;
    awkward_arguments(count < 100 ? 5 : 1);
    awkward_sizes();
    not_finite();
    random_sizes(count);
    for (int isa = 0; isa < SC_N_ISAS; isa++)
        if (sc_isa_built(isa))
            printf("%s: %s\n", sc_isa_name(isa),
                   sc_isa_found(isa) ? "tested" : "SKIPPED, not here");
    return conclude("conv");
}
