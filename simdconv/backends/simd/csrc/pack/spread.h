/* Rows of an NHWC image with their padding, for vectors along the output channels of groups of few
 * filters. `x` is the image's first element; row < 0: zeros.
 *
 * Lane l of a vector is output channel first + l, whose group's inputs start at channel
 * base + from[l]. Where those of all lanes lie within one vector, rows are staged in their order
 * and the kernel permutes what it loads. Elsewhere each input is spread to the lanes that want it:
 *
 *   to[(i*columns + k)*VL + l] = channel base + from[l] + i of padded column start + k */
typedef struct {
    ptrdiff_t lanes;    /* that are output channels */
    ptrdiff_t base;     /* the first input channel they want */
    ptrdiff_t from[VL]; /* of each lane: its group's first input channel, from base on */
} FN(spreading);

static FN(spreading) FN(spreading_of)(const sc_problem *p, ptrdiff_t first) {
    FN(spreading) s;
    s.lanes = sc_min(VL, p->groups * p->c_out - first);
    s.base = first / p->c_out * p->c_in;
    for (ptrdiff_t l = 0; l < VL; l++)
        s.from[l] = (first + sc_min(l, s.lanes - 1)) / p->c_out * p->c_in - s.base;
    return s;
}

/* Whether the inputs of any vector's lanes lie within one vector, which is permuted if need be */
static int FN(is_within_vector)(const sc_problem *p) {
    ptrdiff_t groups = VL % p->c_out ? (VL - 2) / p->c_out + 2 : VL / p->c_out; /* at most */
    return groups * p->c_in <= VL && (VPERMUTES || p->c_in * p->c_out == 1);
}

/* what a load of input i of each lane's group is permuted by */
static vec_index FN(spread_index)(const FN(spreading) *s, ptrdiff_t i) {
    int lanes[VL];
    for (int l = 0; l < VL; l++) lanes[l] = (int)(s->from[l] + i);
    return v_index(lanes);
}

static void FN(spread_column)(const sc_problem *p, const FN(spreading) *s, const T *from,
                              ptrdiff_t columns, T *to) {
    for (ptrdiff_t i = 0; i < p->c_in; i++, to += columns * VL)
        for (int l = 0; l < VL; l++) to[l] = from ? from[s->base + s->from[l] + i] : 0;
}

static void FN(spread_row)(const sc_problem *p, const FN(spreading) *s, const T *x, ptrdiff_t row,
                           ptrdiff_t start, ptrdiff_t columns, T *to) {
    for (ptrdiff_t k = 0; k < columns; k++)
        FN(spread_column)(p, s, FN(source)(p, x, row, start + k), columns, to + k * VL);
}
