/* One row of an NHWC image with its padding, spread over the lanes of output channels: for vectors
 * along channels, where each group has few filters.
 *
 *   to[(i*columns + k)*VL + l] = channel (first + l)/c_out*c_in + i of padded column start + k
 *
 * is what input i of its group is to output channel first + l. `x` is the image's first element;
 * row < 0: zeros. Where the channels that a vector wants lie within a vector, they are loaded once
 * and permuted; depthwise (one input, one output a group) it is a copy. */
typedef struct {
    ptrdiff_t first, lanes; /* output channels */
    ptrdiff_t base, span;   /* the input channels they want: [base, base + span) */
    int dense;              /* output channel is input channel */
    ptrdiff_t from[VL];     /* of each lane: its group's first input channel, from base on */
} FN(spreading);

static FN(spreading) FN(spreading_of)(const sc_problem *p, ptrdiff_t first) {
    FN(spreading) s;
    s.first = first;
    s.lanes = sc_min(VL, p->groups * p->c_out - first);
    s.base = first / p->c_out * p->c_in;
    s.span = (first + s.lanes - 1) / p->c_out * p->c_in + p->c_in - s.base;
    s.dense = p->c_in == 1 && p->c_out == 1;
    for (ptrdiff_t l = 0; l < VL; l++)
        s.from[l] = (first + sc_min(l, s.lanes - 1)) / p->c_out * p->c_in - s.base;
    return s;
}

/* columns in the image, `from` is the first one's channel `base` */
static void FN(spread_inside)(const sc_problem *p, const FN(spreading) *s, const T *from,
                              ptrdiff_t count, ptrdiff_t columns, T *to) {
    const mask valid = v_mask(s->span);
    if (s->dense && s->lanes == VL) {
        for (ptrdiff_t k = 0; k < count; k++) v_store(to + k * VL, v_load(from + k * p->x_w));
    } else if (s->dense) {
        for (ptrdiff_t k = 0; k < count; k++)
            v_store(to + k * VL, v_load_mask(from + k * p->x_w, valid));
    } else if (s->span <= VL) {
        for (ptrdiff_t i = 0; i < p->c_in; i++, to += columns * VL) {
            int lanes[VL];
            for (int l = 0; l < VL; l++) lanes[l] = (int)(s->from[l] + i);
            const vec_index index = v_index(lanes);
            if (s->span == VL)
                for (ptrdiff_t k = 0; k < count; k++)
                    v_store(to + k * VL, v_permute(v_load(from + k * p->x_w), index));
            else
                for (ptrdiff_t k = 0; k < count; k++)
                    v_store(to + k * VL, v_permute(v_load_mask(from + k * p->x_w, valid), index));
        }
    } else {
        for (ptrdiff_t i = 0; i < p->c_in; i++, to += columns * VL)
            for (ptrdiff_t k = 0; k < count; k++)
                for (int l = 0; l < VL; l++) to[k * VL + l] = from[k * p->x_w + s->from[l] + i];
    }
}

static void FN(spread_row)(const sc_problem *p, const FN(spreading) *s, const T *x, ptrdiff_t row,
                           ptrdiff_t start, ptrdiff_t columns, T *to) {
    ptrdiff_t before = row < 0 ? columns : sc_min(sc_max(p->left - start, 0), columns);
    ptrdiff_t inside = sc_max(sc_min(p->left + p->w_in - start, columns), before);
    if (row < 0) inside = columns;
    for (ptrdiff_t k = 0; k < columns; k++) {
        const T *from;
        if (k == before) k = inside;
        if (k >= columns) break;
        from = FN(source)(p, x, row, start + k);
        if (from) FN(spread_inside)(p, s, from + s->base, 1, columns, to + k * VL);
        else
            for (ptrdiff_t i = 0; i < p->c_in; i++) v_store(to + (i * columns + k) * VL, v_zero());
    }
    if (inside > before)
        FN(spread_inside)(p, s, x + row * p->x_h + (start + before - p->left) * p->x_w + s->base,
                          inside - before, columns, to + before * VL);
}
